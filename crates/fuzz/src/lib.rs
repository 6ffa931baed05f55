//! Fuzz targets for everything that reads input from others.
//!
//! The library is empty: the targets are tests, in `tests/inputs`, one module per area. Under `cargo test` and
//! nextest each target runs its kept inputs (`tests/inputs/__fuzz__/TARGET/corpus`, and `crashes` for inputs that
//! once failed) and random ones for a second. `scripts/fuzz.sh` runs a coverage-guided fuzzer for as long as you
//! like.
//!
//! Every input runs within limits of memory and processor time: see `bounds` there. Start reading at
//! `tests/inputs/main.rs`.

// With libFuzzer, each program needs its run-time library, also one without targets.
#[cfg(test)]
use bolero as _;
