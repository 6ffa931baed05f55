//! The manager: faults, its service, and site files.

mod faults;
mod first_fit;
mod service;
mod site;
