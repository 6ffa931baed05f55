//! The switch from outside: programs, packets and controllers. A file per concern.

mod allocations;
mod common;
mod copies;
mod entities;
mod runtime;
mod server;
mod tna;
mod traffic;
