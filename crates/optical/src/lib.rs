//! P4INC-AOI's control plane: jobs, aggregation in switches and light paths, scheduled together.
//!
//! A data centre has *units*: a programmable switch with a pool of servers. A cross-connect joins
//! optical ports of the units with *circuits*, one per pair of ports. Time has slots. At the start of
//! each slot, circuits may change and every job gets a rate (P4INC-AOI §III and §IV).
//!
//! Start reading here: a [`Network`] is the hardware, a [`Job`] is a request with one or more [`Way`]s to
//! carry it out, and a [`Schedule`] is the answer of a [`Scheduler`]. [`outcome`] tells when each job ends,
//! [`check`](fn@check) validates any schedule, [`Open`] shows it to other programs, and [`bound`](fn@bound)
//! tells what no schedule can beat. [`Exact`] searches for the optimum. [`Setting`] makes the jobs and the
//! network of the paper's simulations, and [`Testbed`] those of its testbed, where jobs wait for servers.
//! [`simulate`](fn@simulate) repeats experiments on all cores, and [`compare`](fn@compare) sets schedulers
//! beside the optimum. [`sunflow`](fn@sunflow) is another algorithm, for one coflow at a time, and
//! [`alone`](fn@alone) sets schedulers beside it.
//!
//! This crate decides; it does not move packets or change circuits.

mod allocation;
mod alone;
mod bound;
mod check;
#[cfg(feature = "exact")]
mod compare;
pub mod crossconnect;
mod drive;
mod error;
#[cfg(feature = "exact")]
mod exact;
mod fcfs;
mod file;
mod instance;
mod job;
mod limits;
mod matching;
mod network;
mod online;
mod open;
pub mod orchestrator;
mod refine;
mod schedule;
mod scheduler;
mod simulate;
#[cfg(feature = "exact")]
mod solver;
mod sunflow;
mod testbed;
mod trace;
mod transfer;
mod tw;
mod unsolved;
mod window;
mod workload;

pub use alone::{Alone, Lone, alone};
#[cfg(feature = "exact")]
pub use bound::bound;
pub use bound::quick_bound;
pub use check::{Checked, TOLERANCE, Violation, check};
#[cfg(feature = "exact")]
pub use compare::{Comparison, compare};
pub use error::Error;
#[cfg(feature = "exact")]
pub use exact::{Exact, Solved};
pub use fcfs::Fcfs;
pub use file::{Input, read};
pub use job::{Demand, Flow, Job, Way};
pub use limits::{JOBS_MAX, SLOTS_MAX, UNKNOWNS_MAX};
pub use network::{Network, PORTS_MAX, UNITS_MAX, Unit, UnitId};
pub use online::{Begun, Decision, Online, carries};
pub use open::{Open, OpenFlow, OpenJob, OpenSend, OpenSlot};
pub use refine::Refine;
pub use schedule::{Circuits, Schedule, Slot};
pub use scheduler::{Scheduler, Take};
pub use simulate::{Case, Load, Run, exponent, schedulers, simulate};
#[cfg(feature = "exact")]
pub use solver::SOLVER;
pub use sunflow::{Order, Reservation, circuit_bound, sunflow};
pub use testbed::{Request, Served, Testbed, Trained};
pub use trace::{Shuffle, coflows, parse};
pub use transfer::{Outcome, outcome};
pub use tw::Tw;
pub use unsolved::Unsolved;
pub use workload::{SIZES, Setting};
