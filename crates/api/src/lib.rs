//! Generated types of our own gRPC services, from `proto/tributary/` at the root of the repository, where
//! each message and each error is explained.
//!
//! A module a service. The features `client` and `server` add the two ends of them. What the requests
//! do is the business of those who serve them: the controller, the placement manager and the emulated
//! cross-connect.

/// The modules that the build script made, one a package.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    reason = "generated from proto/"
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/modules.rs"));
}

pub use generated::tributary::{crossconnect, jobs, placement};

/// The version of the service [`jobs`] that controllers and endpoints must have in common.
pub const JOBS_VERSION: u32 = 4;
