//! The agent of a server: starts and ends the processes of jobs as the manager says, and tells how
//! they end.
//!
//! [`Tasks`] is what it knows, without I/O; `processes` are the processes, and [`Agent`] talks to the
//! manager.

mod client;
mod processes;
mod tasks;

pub use client::{Agent, AgentError, Settings};
pub use tasks::{Effect, Tasks};
