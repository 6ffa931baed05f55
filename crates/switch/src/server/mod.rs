//! P4Runtime over gRPC for a running switch.
//!
//! [`Service`] answers the calls; [`ServerHandle`] serves it on a TCP or Unix socket with threads of
//! its own, [`Service::serve`] on any streams, such as in-memory ones.

mod arbitration;
mod listen;
mod pipeline;
mod service;
mod status;
mod streams;

pub use self::listen::{Listen, ServerError, ServerHandle};
pub use self::service::Service;
