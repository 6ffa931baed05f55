//! Tools for P4 programs: generated packet tests ([`testgen`]) and Wireshark dissectors ([`dissector`]).
//!
//! The program `tributary-p4` is in `main.rs`.

pub mod dissector;
pub mod testgen;
