//! The front end through its public interface: programs in; IR, P4Info or diagnostics out.

mod common;
mod conversions;
mod diagnostics;
mod dump;
mod graph;
mod limits;
mod lowering;
mod p4info;
mod parity;
mod psa;
mod random;
mod robustness;
mod tna;
