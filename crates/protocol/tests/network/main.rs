//! Workers and parameter servers in a network of virtual time.

mod exact;
mod net;
