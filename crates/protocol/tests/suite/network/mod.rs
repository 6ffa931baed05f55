//! Workers and parameter servers: individually with chosen frames, and together in a network of
//! virtual time.

mod exact;
mod frames;
mod losses;
mod net;
mod rack;
mod replaced;
mod server;
mod worker;
