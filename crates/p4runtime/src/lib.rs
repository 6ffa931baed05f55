//! Generated types of P4Runtime and P4Info, wire-compatible with the specification, from the
//! definitions in `proto/` at the root of the repository.
//!
//! Modules follow the packages: [`p4::v1`], [`p4::config::v1`], [`google::rpc`]. The feature `client` adds the gRPC
//! client, `server` the server ([`server`]), `text` the text format ([`text`]). Nothing else is here: what the
//! messages mean is the business of the switch and the controller.

/// The modules that the build script made, one a package.
#[allow(missing_docs, clippy::all, clippy::pedantic, reason = "generated from proto/")]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/modules.rs"));
}

pub use generated::{google, p4};

#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "text")]
pub mod text;

/// The encoded `google.protobuf.FileDescriptorSet` of all definitions, imports included.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
