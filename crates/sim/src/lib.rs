//! Virtual time: endpoints, links with faults and the P4 program under one seed.
//!
//! The same state machines and the same switch as everywhere else, without threads and clocks:
//! [`Network`] moves frames between hosts and switches in the order of an agenda, [`run()`] takes
//! a whole scenario from admission to sweep. What happens is a function of the scenario, the inputs
//! and the seed, so a failing seed fails again.
//!
//! Start reading at [`Network::step`].

mod channel;
mod chart;
mod line;
mod network;
mod process;
mod program;
mod run;
mod trace;

pub use channel::Pace;
pub use chart::Chart;
pub use line::Cable;
pub use network::{Disturbance, Happening, Network};
pub use process::Process;
pub use program::Program;
pub use run::{Act, Error, EsaStats, Inputs, Options, Outcome, Run, run};
pub use trace::{Fate, Sighting, Trace, What};
