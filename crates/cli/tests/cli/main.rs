//! The `tributary` command as a user calls it.

mod access;
mod bad_input;
mod bmv2;
mod by_hand;
mod captures;
mod chaos;
#[path = "../shared/command.rs"]
mod command;
mod cores;
mod cross_connects;
mod deaths;
mod doctor;
mod esa;
mod examples;
mod findings;
mod full_disk;
mod limits;
mod log;
mod manager;
mod metrics;
mod mininet;
mod on_demand;
mod outages;
mod outsiders;
mod p4runtime;
mod packages;
mod peers;
mod plain_traffic;
mod push;
mod recovery;
mod replaced;
mod rounding;
mod runs;
mod segments;
mod sim;
mod slurm;
mod stopped;
mod switch_options;
mod switch_threads;
mod testbed;
mod threads;
mod tls;
mod tna;
mod trace;
mod udp;
mod units;
mod watch;

/// The program that tests call. It also runs the other two.
const PROGRAM: &str = env!("CARGO_BIN_EXE_tributary");
