//! The embedded switch: ports, queues, multicast and a P4Runtime server around a P4 program.
//!
//! Three layers, each usable without the next:
//!
//! - [`Switch`]: frames and times in, frames out. It has no I/O, thread or clock, so the simulator
//!   drives it in virtual time. P4Runtime entities are read and written here.
//! - [`runtime`]: threads that move frames between a switch and its ports (any
//!   [`tributary_netio::FrameIo`]).
//! - [`server`]: P4Runtime over gRPC for such a running switch.
//!
//! Packets are processed by `tributary-dataplane`; this crate only moves them. Start reading at
//! [`Switch`].

mod config;
#[cfg(test)]
mod divided;
mod entities;
pub mod explained;
mod forwarding;
mod generator;
pub mod kept;
mod multicast;
mod notices;
mod p4info;
mod pool;
mod queues;
mod reconcile;
mod restrictions;
mod roles;
pub mod runtime;
pub mod server;
mod statistics;
pub mod stf;
mod switch;
pub mod trace;

pub use config::{CPU_PORT, PORT_METADATA_BYTES, SwitchConfig, TNA_CPU_PORT, TofinoConfig};
pub use entities::Refusal;
pub use forwarding::Forwarding;
pub use generator::{Application, Trigger};
pub use multicast::Replica;
pub use statistics::{PortStatistics, SwitchStatistics};
pub use switch::{Digest, Switch};
