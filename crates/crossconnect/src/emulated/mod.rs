//! A cross-connect that a process emulates between network interfaces.

mod client;
mod messages;

pub use client::Client;
