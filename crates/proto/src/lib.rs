//! Generated types of the job scheduler's gRPC service, from
//! `proto/tributary/scheduler/v1/scheduler.proto` at the root of the repository, where each message
//! and each error is explained.
//!
//! Everything is in [`v1`]. The features `client` and `server` add the two ends of the service. What
//! the requests do is the business of the controller, which serves them.

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

pub use generated::tributary::scheduler::v1;
