//! The control plane: tells switches over P4Runtime what to be and which jobs to serve.
//!
//! - [`targets`]: what each kind of switch takes as a pipeline, and whether it is whole;
//! - [`ports`]: which ports of a real switch the job file's ports are;
//! - [`programs`]: the P4 programs, carried in the library, and their compile-time constants;
//! - [`p4c`]: the same compiled for BMv2 by p4c, where that is installed;
//! - [`Deployment`]: a scenario, and what it gives each switch and endpoint;
//! - [`plan`]: from a topology and a job's place in it to each switch's part, without I/O;
//! - [`entries`]: a plan as P4Runtime updates, for whoever holds a switch in their hand;
//! - [`describe`]: those in words;
//! - [`client`]: one connection to one switch;
//! - [`session`]: a switch kept as it should be, over lost connections and restarts;
//! - [`jobs`]: jobs admitted and removed at run time, counters read, aggregators swept;
//! - [`services`]: how switches serve the jobs of P4INC and SwitchML;
//! - [`segments`]: which aggregators are whose, where jobs have memory of their own;
//! - [`memory`]: jobs with segments admitted, and moved between the network and their servers;
//! - [`outcomes`]: what became of packets;
//! - [`epochs`](Epochs): a number for each run of each job;
//! - [`runs`]: the gRPC service by which processes started by hand join a run;
//! - [`server`]: the socket that such a service is on;
//! - [`scheduler`]: the gRPC service by which others decide about jobs;
//! - [`sweep`]: the packet that frees what a job holds.
//!
//! The crate implements no switch logic: what a table does is in `p4src/`, and every name that is
//! used here is looked up in the program's P4Info ([`Catalogue`]).
//!
//! Start reading at [`jobs::Controller`].

mod catalogue;
pub mod client;
mod deployment;
pub mod describe;
pub mod entries;
mod epochs;
mod error;
pub mod jobs;
pub mod memory;
pub mod outcomes;
pub mod p4c;
mod paths;
pub mod plan;
pub mod ports;
pub mod programs;
mod reconcile;
mod reminders;
pub mod runs;
pub mod scheduler;
pub mod segments;
pub mod server;
pub mod services;
pub mod session;
pub mod sweep;
pub mod targets;
mod tls;

pub use catalogue::Catalogue;
pub use deployment::Deployment;
pub use epochs::Epochs;
pub use error::Error;
pub use tls::Tls;
