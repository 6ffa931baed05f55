//! The placement manager (NetPack §3.2, figure 4): takes jobs, batches them, has a policy place them,
//! and has the agent of each server start and stop their processes.
//!
//! - [`manager`]: the decisions, without I/O: events in, actions out;
//! - [`job`]: jobs as they are kept;
//! - [`durable`], [`database`]: what is recorded, and where;
//! - [`site`]: the servers, the network, and the job file of an attempt;
//! - [`shell`]: the thread in which it runs, with a clock and the database;
//! - [`service`], [`switches`]: the gRPC service, and the way to the switches;
//! - [`agent`]: the agent of a server.
//!
//! Start reading at [`manager::Manager`]. `docs/placement/manager.md` is the operator's side of it.

pub mod agent;
pub mod database;
pub mod durable;
pub mod job;
mod job_file;
pub mod manager;
pub mod service;
pub mod shell;
pub mod site;
pub mod switches;
mod wire;
