//! The experiments in virtual time.

mod load;
mod recovery;
mod sharing;
mod testbed;
mod training;
