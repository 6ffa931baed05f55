//! Workers and parameter servers: by themselves with frames that a test chose, and together in
//! a network of virtual time.

mod exact;
mod frames;
mod losses;
mod net;
mod rack;
mod replaced;
mod server;
mod worker;
