//! The control plane: configures switches over P4Runtime and decides which jobs they serve.
//!
//! - [`targets`]: the pipeline formats of each kind of switch, and their validation;
//! - [`ports`]: port numbers of real switches;
//! - [`programs`]: the P4 programs, embedded in the library, and their compile-time constants;
//! - [`p4c`]: the same programs compiled for BMv2 by p4c, where that is installed;
//! - [`entries`]: a plan as P4Runtime updates;
//! - [`reconcile`]: the difference between two states of a switch;
//! - [`describe`]: entities as readable text;
//! - [`client`]: one connection to one switch;
//! - [`session`]: keeps a switch in the desired state, over lost connections and restarts;
//! - [`jobs`]: admits and removes jobs at run time, reads counters, sweeps aggregators;
//! - [`memory`]: admits jobs with segments, and moves them between the network and their servers;
//! - [`outcomes`]: counters of packets;
//! - [`aggregators`]: what they hold, for people who watch;
//! - [`census`]: what a switch's own state tells about its jobs;
//! - [`epochs`](Epochs): a number for each run of each job;
//! - [`service`]: the gRPC service through which clients decide about jobs, and endpoints take part in them;
//! - [`server`]: the socket of such a service;
//! - [`sweep`]: the packet that frees a job's aggregators.
//!
//! The crate implements no switch logic: `p4src/` defines what tables do, and every name used here
//! is looked up in the program's P4Info ([`Catalogue`]).
//!
//! Start reading at [`jobs::Controller`].

pub mod aggregators;
mod catalogue;
pub mod census;
pub mod client;
pub mod describe;
pub mod entries;
mod epochs;
mod error;
pub mod jobs;
pub mod memory;
pub mod outcomes;
pub mod p4c;
pub mod ports;
pub mod programs;
pub mod reconcile;
pub mod server;
pub mod service;
pub mod session;
pub mod sweep;
pub mod targets;

pub use catalogue::Catalogue;
pub use epochs::Epochs;
pub use error::Error;
