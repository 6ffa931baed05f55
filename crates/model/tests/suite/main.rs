//! Networks and plans of job files.

mod deployment;
mod pace;
mod paths;
mod plan;
mod reminders;
mod services;
