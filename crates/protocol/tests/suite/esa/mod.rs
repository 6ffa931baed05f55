//! ESA's endpoints, individually and together, behind a network that does what a switch may do.

mod chaos;
mod delays;
mod exact;
mod hostile;
mod network;
mod server;
mod setup;
mod worker;
