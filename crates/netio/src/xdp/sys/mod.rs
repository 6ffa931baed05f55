//! All unsafe code for AF_XDP and bpf(2), behind safe functions and types.

#![allow(unsafe_code)]

pub(super) mod bpf;
pub(super) mod memory;
pub(super) mod socket;
