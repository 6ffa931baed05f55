//! Runs the P4 IR packet by packet: v1model programs with the semantics of BMv2's simple_switch, TNA
//! programs as one pipe of a Tofino 1 does.
//!
//! A [`Pipeline`] is a loaded program with its tables, registers and counters; a [`Packet`] is the
//! storage for one packet's headers and metadata, reused for ever. A switch around it owns ports,
//! queues and multicast groups: it calls [`Pipeline::ingress`] for a frame, queues the packet (or
//! copies of it) where the [`Verdict`] says, and calls [`Pipeline::egress`] for the frame that goes
//! out. The passes are the same for both architectures (`pass`); what happens in one is in `v1model`
//! and `tna`.
//!
//! The engine has no clock and no source of randomness but a seeded generator, and no thread but one
//! that compiles the program and ends. It does not allocate for a packet once its buffers have grown
//! to the traffic's sizes, and no frame makes it panic.
//!
//! Start reading in [`Pipeline::load`]: `load` compiles the tree-shaped IR into the flat operations
//! of `code`, `exec` interprets them, `compiled` makes machine code of them, `tables` and `externs`
//! hold what outlives a packet.

#![deny(unsafe_code)]

mod bits;
mod code;
mod compiled;
mod error;
mod exec;
mod externs;
mod layout;
mod load;
mod packet;
mod pass;
mod pipeline;
mod tables;
mod tna;
mod v1model;
mod value;
mod wide;

pub use compiled::EngineKind;
pub use error::{LoadError, ProfileError, StateError, TableError};
pub use externs::counter::CounterData;
pub use externs::meter::{Color, MeterConfig};
pub use externs::profile::{GroupMember, ProfileGroup, WeightedCall};
pub use packet::Packet;
pub use pass::{
    DROP_PORT, Egress, EgressInput, Ingress, IngressInput, Instance, Replication, Verdict,
};
pub use pipeline::Pipeline;
pub use tables::{Action, ActionCall, KeyMatch, TableEntry};
pub use tna::{CELL_BYTES, RECIRCULATION_PORT};
pub use value::Value;
