//! A cross-connect that a process emulates between network interfaces.
//!
//! [`Mirrors`] decide where light goes while circuits change. A [`Plane`] moves frames accordingly, as the
//! [`service`] tells it over gRPC. [`Client`] is the controller's side.

mod client;
mod messages;
mod mirrors;
mod plane;
mod service;

pub use client::{BadAddress, Client};
pub use mirrors::Mirrors;
pub use plane::{Control, Ended, Plane};
pub use service::service;
