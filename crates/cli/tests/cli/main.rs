//! The `tributary` command as a user calls it.

mod bad_input;
mod bmv2;
mod by_hand;
mod command;
mod deaths;
mod doctor;
mod esa;
mod examples;
mod limits;
mod manager;
mod mininet;
mod outsiders;
mod place;
mod plain_traffic;
mod programs;
mod push;
mod replaced;
mod rounding;
mod runs;
mod scheduler;
mod segments;
mod stf;
mod stopped;
mod tls;
mod tna;
mod units;
