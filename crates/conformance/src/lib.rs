//! Conformance of the P4 programs and of the embedded switch.
//!
//! The crate consists of its tests. `packets` sends packets through every program, on the embedded
//! switch and on BMv2, and compares them with a model of each protocol's rules. `differential` runs
//! small programs on the embedded switch and on BMv2 side by side. Tests that need BMv2 or p4c look for
//! them on the `PATH`.
