//! The manager: decisions and their reasons, faults, its service, and site files.

mod decisions;
mod faults;
mod first_fit;
mod service;
mod site;
