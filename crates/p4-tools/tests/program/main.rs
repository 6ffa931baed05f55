//! The `tributary-p4` program as a user calls it.

mod check;
#[path = "../../../cli/tests/shared/command.rs"]
#[expect(dead_code, reason = "the tests of other programs use more of it")]
mod command;
mod describe;
mod generate;
mod stf;

/// The program that tests call.
const PROGRAM: &str = env!("CARGO_BIN_EXE_tributary-p4");
