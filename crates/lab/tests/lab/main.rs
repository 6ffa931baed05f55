//! The `tributary-lab` program as a user calls it.

#[path = "../../../cli/tests/shared/command.rs"]
#[expect(dead_code, reason = "the tests of other programs use more of it")]
mod command;
mod esa;
mod optical;
mod place;

/// The program that tests call.
const PROGRAM: &str = env!("CARGO_BIN_EXE_tributary-lab");
