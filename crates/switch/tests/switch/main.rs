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
mod reconfigure;
mod resources;
mod roles;
mod runtime;
mod server;
mod tls;
mod tna;
mod traffic;
