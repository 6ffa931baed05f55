//! The reliable channel over real TCP connections.

mod common;
mod hub;
mod link;
mod log;
mod shutdown;
