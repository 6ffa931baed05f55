//! The suite in machine code.

mod suite;
