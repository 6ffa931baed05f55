//! The placement manager (NetPack §3.2, figure 4): accepts jobs, collects them in batches, lets a
//! policy place them, and lets the agent of each server start and stop their processes.
//!
//! - [`manager`]: the decisions, without I/O: events in, actions out;
//! - [`job`]: the state of jobs;
//! - [`durable`], [`database`]: the persistent state and its storage;
//! - [`site`]: the servers, the network, and the job file of an attempt;
//! - [`shell`]: the thread that runs the manager, with a clock and the database;
//! - [`service`], [`switches`]: the gRPC service, and the client of the switches' controller;
//! - [`agent`]: the agent of a server.
//!
//! Start reading at [`manager::Manager`]. `docs/operate/manager.md` is the documentation for
//! operators.

pub mod agent;
pub mod database;
pub mod durable;
pub mod job;
mod job_file;
pub mod manager;
pub mod service;
pub mod shell;
pub mod site;
pub mod slurm;
pub mod switches;
mod wire;
