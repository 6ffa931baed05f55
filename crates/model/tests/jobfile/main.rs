//! Job files: scenarios, what is wrong with files, and mutated files.

mod faults_of_files;
mod mutations;
mod scenarios;
