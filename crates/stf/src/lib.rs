//! Packet tests in the STF format of p4c's test suite, run on the embedded switch.
//!
//! A [`Script`] says what is put into tables, which packets go in through which ports, and what must
//! come out. [`run`] carries it out on a switch within the process, in virtual time: there are no
//! sockets and no waiting, and the same test gives the same result every time. What comes out is
//! compared at the end, port by port, as p4c's runner for BMv2 does; names of tables, actions and keys
//! are found as there too.
//!
//! The format is described in `docs/p4/stf.md`. Start reading at [`run`]; `parser` reads scripts,
//! `runner` has a file for each part of the switch that commands reach.

mod error;
mod lexer;
mod number;
mod outputs;
mod parser;
mod pattern;
mod runner;
mod script;

pub use error::{Failure, ParseError, Place};
pub use runner::{Passed, run};
pub use script::Script;
