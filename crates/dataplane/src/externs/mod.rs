//! Externs: state that outlives a packet, and algorithms of functions.

pub(crate) mod binding;
pub(crate) mod checksum;
pub(crate) mod counter;
pub(crate) mod filter;
pub(crate) mod hash;
pub(crate) mod math_unit;
pub(crate) mod meter;
pub(crate) mod profile;
pub(crate) mod random;
pub(crate) mod register;
pub(crate) mod tna_hash;
pub(crate) mod value_set;
