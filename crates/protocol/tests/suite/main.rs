//! Endpoints over model networks, one directory per group of protocols.

mod esa;
mod network;
mod p4inc;
