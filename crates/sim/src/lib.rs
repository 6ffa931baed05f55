//! Virtual time: endpoints, links with faults and the P4 program under one seed.
//!
//! This crate runs the same state machines and the same switch as everywhere else, without threads
//! and clocks. A [`Network`] moves frames between hosts and switches in the order of an agenda, a
//! [`System`] programs its switches and starts endpoints, and [`run()`] takes a whole scenario from
//! admission to sweep. A run is a function of the scenario, the inputs and the seed, so a failing
//! seed fails again.
//!
//! ESA's endpoints also use reliable channels: TCP connections over the same links, with the same
//! faults ([`tcp`](tributary_endpoint::driver::tcp)), which break when a process dies. An [`Act`] happens at a given time: it stops
//! or starts a process, takes a link down or up, ends a job, or moves it between the network and
//! its parameter server. A [`Trace`] records a run and is drawn as a sequence [`Chart`]; a
//! [capture](tributary_netio::capture) holds the frames themselves, as a pcapng file.
//!
//! The tests run whole systems. `TRIBUTARY_SEED=n` replays one seed, `TRIBUTARY_SEEDS=n` runs that
//! many, and `TRIBUTARY_CHARTS=write` redraws the documentation's charts:
//!
//! ```sh
//! TRIBUTARY_SEEDS=1000000 cargo test -p tributary-sim --test systems random::hold
//! TRIBUTARY_SEEDS=1000000 cargo test -p tributary-sim --test systems random::segments_hold
//! TRIBUTARY_SEEDS=100000 cargo test -p tributary-sim --test systems super_frames
//! TRIBUTARY_CHARTS=write cargo test -p tributary-sim --test systems charts
//! ```
//!
//! Experiments that use it are in `tributary-lab`.
//!
//! Start reading at [`Network::step`].

mod capture;
mod channel;
mod chart;
mod ends;
mod error;
mod line;
mod network;
mod options;
mod process;
mod program;
mod run;
mod system;
mod trace;

pub use channel::Pace;
pub use chart::Chart;
pub use ends::{Ends, Taps};
pub use error::Error;
pub use line::Cable;
pub use network::{Disturbance, Happening, Intercept, Network, Processing};
pub use options::Options;
pub use process::Process;
pub use program::Program;
pub use run::{Act, Course, EsaStats, Held, Inputs, Outcome, Run, run};
pub use system::System;
pub use trace::{Fate, Sighting, Trace, What};
