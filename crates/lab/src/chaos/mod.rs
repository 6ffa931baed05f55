//! `tributary-lab chaos`: runs the jobs of a file in network namespaces, again and again, while parts of the network
//! fail at random and come back; checks every sum.
//!
//! | module | content |
//! | --- | --- |
//! | [`schedule`] | what fails when, from a seed |
//! | `site` | the network, and the command line of each part |
//! | `clients` | a client that decides about jobs at random |
//! | `crew` | the workers of a job, run after run |
//! | `wounds` | how long jobs take to get over a failure |
//! | `trial` | the loop that brings them together |
//! | `report` | the counts |
//!
//! The parts are the daemons of real hosts: switches, a controller with a journal, parameter servers, reminder
//! agents and workers, each started again by itself, as an init system would. A worker compares each sum with one
//! that it computes without the network, and reports it only then.

mod clients;
mod crew;
mod report;
pub mod schedule;
mod site;
mod trial;
mod wounds;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Result;

/// What to disturb, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The job file.
    pub job_file: PathBuf,
    /// For how long parts fail at random.
    pub length: Duration,
    /// How often, on average; in turn, the time from one that jobs have got over to the next.
    pub every: Duration,
    /// Whether each part fails once instead, in turn.
    pub in_turn: bool,
    /// The seed of the schedule and of all values.
    pub seed: u64,
    /// Whether a client admits the jobs, lets their iterations begin, moves, paces and releases them. One always does
    /// around a cross-connect.
    pub clients: bool,
}

/// Runs until the time is over, or `stop` is raised. `tell` gets lines about what happens. Returns the report.
///
/// # Errors
/// A wrong sum, jobs that do not get over a failure, workers that do not end in time when another has died, a
/// part that panics; an interruption. Everything is cleaned up then.
pub fn run(options: &Options, stop: &AtomicBool, tell: &mut dyn FnMut(&str)) -> Result<String> {
    let scenario = site::scenario(options)?;
    let clients = options.clients || scenario.orchestration.is_some();
    let options = &Options { clients, ..options.clone() };
    // This must happen before there is a second thread.
    tributary_run::testbed::enter_user_namespace_if_needed()?;
    let site = site::Site::build(options, scenario)?;
    let mut chaos = trial::Chaos::new(&site, options);
    let outcome = chaos.run(stop, tell);
    chaos.end();
    let outcome = outcome.and_then(|()| chaos.clean());
    let report = chaos.report();
    match outcome {
        Ok(()) => Ok(report),
        Err(error) => {
            tell(&report);
            Err(error)
        }
    }
}
