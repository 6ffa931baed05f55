//! Packet tests in the STF format of p4c's test suite, run on the embedded switch.
//!
//! A [`Script`] lists table entries, packets to send with their ports, and expected packets.
//! [`run`] executes it on a switch within the process, in virtual time: there are no sockets and no
//! waiting, and the same test gives the same result every time. As in p4c's runner for BMv2, output
//! is compared at the end, port by port, and names of tables, actions and keys are resolved in the
//! same way.
//!
//! `docs/reference/stf.md` describes the format. Start reading at [`run`]. `parser` reads scripts,
//! and `runner` has one file for each part of the switch that commands access.

mod error;
mod lexer;
mod network;
mod number;
mod outputs;
mod parser;
mod pattern;
mod runner;
mod script;

pub use error::{Failure, ParseError, Place};
pub use network::{End, Network, NetworkTest};
pub use runner::{Passed, Recording, configure, prepare, record, run, run_with};
pub use script::Script;
