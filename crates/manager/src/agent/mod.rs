//! The agent of a server: starts and ends processes of jobs on the manager's command, and reports
//! how they end. `numbers` is for metrics.
//!
//! [`Tasks`] is its state, without I/O. `processes` manages the processes, `launch` prepares users'
//! commands, `server` keeps the parameter servers running, and [`Agent`] communicates with the manager.

mod client;
mod launch;
mod numbers;
mod processes;
mod server;
mod tasks;

pub use client::{Agent, AgentError, Settings};
pub use tasks::{Effect, Tasks};
