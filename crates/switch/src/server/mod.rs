//! P4Runtime over gRPC for a running switch.
//!
//! [`Service`] answers the calls. [`ServerHandle`] serves it on a TCP or Unix socket with threads
//! of its own, encrypted if it has certificates ([`ServerKeys`](tributary_access::ServerKeys)). [`Service::serve`] serves it on any
//! streams, such as in-memory ones.

mod arbitration;
mod connections;
mod intake;
mod listen;
mod pipeline;
mod service;
mod status;
mod streams;

pub use self::listen::{Listen, ServerError, ServerHandle};
pub use self::service::Service;
