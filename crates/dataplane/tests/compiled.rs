//! The suite in machine code.
#![allow(clippy::duplicate_mod, reason = "each file has what it needs, here as on its own")]

#[path = "suite/arithmetic.rs"]
mod arithmetic;
#[path = "suite/externs.rs"]
mod externs;
#[path = "suite/hashing.rs"]
mod hashing;
#[path = "suite/language/mod.rs"]
mod language;
#[path = "suite/robustness.rs"]
mod robustness;
#[path = "suite/source.rs"]
mod source;
#[path = "suite/tables.rs"]
mod tables;
#[path = "suite/tna.rs"]
mod tna;
#[path = "suite/v1model.rs"]
mod v1model;
