//! The cases of the other files once more, in machine code.
#![allow(clippy::duplicate_mod, reason = "each file has what it needs, here as on its own")]

#[path = "arithmetic.rs"]
mod arithmetic;
#[path = "externs.rs"]
mod externs;
#[path = "hashing.rs"]
mod hashing;
#[path = "language/main.rs"]
mod language;
#[path = "robustness.rs"]
mod robustness;
#[path = "source.rs"]
mod source;
#[path = "tables.rs"]
mod tables;
#[path = "tna.rs"]
mod tna;
#[path = "v1model.rs"]
mod v1model;
