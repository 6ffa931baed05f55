//! The switch from outside: programs, packets and controllers.

mod allocations;
mod bounds;
mod clients;
mod common;
mod copies;
mod cores;
mod entities;
mod features;
mod grpc;
mod hostile;
mod matrix;
mod names;
mod psa;
mod reconfigure;
mod requirements;
mod resources;
mod restrictions;
mod roles;
mod runtime;
mod sai;
mod server;
mod sessions;
mod structs;
mod tls;
mod tna;
mod traffic;
