//! The commands, one file each.

pub(crate) mod cable;
pub(crate) mod capture;
pub(crate) mod certs;
pub(crate) mod controller;
pub(crate) mod crossconnect;
pub(crate) mod doctor;
pub(crate) mod frames;
pub(crate) mod job;
pub(crate) mod network;
pub(crate) mod optical;
pub(crate) mod p4runtime;
pub(crate) mod place;
pub(crate) mod ps;
pub(crate) mod reminder;
pub(crate) mod run;
pub(crate) mod switch;
pub(crate) mod testbed;
pub(crate) mod watch;
mod watchdog;
pub(crate) mod worker;
