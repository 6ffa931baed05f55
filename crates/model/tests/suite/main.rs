//! Networks and plans of job files, and the lives of jobs.

mod deployment;
mod followers;
mod pace;
mod paths;
mod plan;
mod reminders;
mod services;
