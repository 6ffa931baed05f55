//! What holds in both engines.

mod arithmetic;
pub(crate) mod common;
mod division;
mod externs;
mod hashing;
mod language;
pub(crate) mod psa;
mod replicas;
mod robustness;
mod source;
mod tables;
mod tna;
mod tna_externs;
mod v1model;
