//! Runs the P4 IR packet by packet: v1model programs with the semantics of BMv2's simple_switch,
//! PSA programs as the architecture's specification says, TNA programs like one pipe of a Tofino 1.
//!
//! A [`Pipeline`] is a loaded program with its tables, registers and counters; a [`Packet`] is
//! reusable storage for one packet's headers and metadata. A switch around it owns ports, queues
//! and multicast groups. It calls [`Pipeline::ingress`] for a frame, queues the packet (or copies
//! of it) according to the [`Verdict`], and calls [`Pipeline::egress`] for the outgoing frame. The
//! passes are the same for all architectures (`pass`); their content is in `v1model`, `psa` and
//! `tna`.
//!
//! The engine has no clock, a seeded generator as its only source of randomness, and no thread
//! except one that compiles the program and ends. It does not allocate for a packet once its
//! buffers have grown to the traffic's sizes, and no frame makes it panic.
//!
//! Start reading in [`Pipeline::load`]: `load` compiles the tree-shaped IR into the flat operations
//! of `code`, `exec` interprets them, `compiled` translates them to machine code, and `tables` and
//! `externs` hold state that outlives a packet.
//!
//! Modules use only those on lower lines, or on their own:
//!
//! ```text
//! pipeline                      loads and runs a program; what the control plane reads and writes
//! v1model, psa, tna             the passes of each architecture
//! trace::watch                  an engine whose packets are observed
//! engine                        runs blocks: interpreted, or as machine code
//! compiled                      machine code, which calls the interpreter
//! exec, load                    the interpreter; the compiler from IR to code
//! store, trace::notes           the state that outlives a packet; the notes for observers
//! division, replicas            packets divided between cores; replicas that share a packet
//! control_flow, effects         what follows an operation; what it reads and writes
//! */metadata, packet, pass      what passes know about a program; one packet
//! code, tables, externs, trace  operations, what they work on, and their events for observers
//! slot, layout, bits, value, wide, error
//! ```

#![deny(unsafe_code)]

mod bits;
mod code;
mod compiled;
mod control_flow;
mod division;
mod effects;
mod engine;
mod error;
mod exec;
mod externs;
mod layout;
mod load;
mod packet;
mod pass;
mod pipeline;
mod psa;
mod replicas;
mod slot;
mod store;
mod tables;
mod tna;
pub mod trace;
mod v1model;
mod value;
mod wide;

pub use compiled::{EngineKind, MachineCode};
pub use division::{ROW_BITS, Undivided};
pub use error::{LoadError, Located, ProfileError, StateError, TableError};
pub use externs::counter::CounterData;
pub use externs::filter::FilterConfig;
pub use externs::meter::{Color, MeterConfig};
pub use externs::profile::{GroupMember, Profile, ProfileGroup};
pub use packet::{CELL_BYTES, Packet};
pub use pass::{
    DROP_PORT, Egress, EgressInput, Ingress, IngressInput, Instance, Replication, Verdict,
};
pub use pipeline::cores::Changed;
pub use pipeline::{Pipeline, Ready};
pub use psa::{
    CPU_PORT as PSA_CPU_PORT, RECIRCULATION_PORT as PSA_RECIRCULATION_PORT,
    port_number as psa_port_number, port_value as psa_port_value,
};
pub use replicas::Memo;
pub use tables::{Action, ActionCall, ActionSet, KeyMatch, Owner, TableEntry, WeightedCall};
pub use tna::RECIRCULATION_PORT;
pub use value::Value;
