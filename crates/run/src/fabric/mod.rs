//! Where a scenario runs: its switches, links and endpoints.

mod counted;
mod crossing;
mod kind;
mod live;
mod memory;
mod netns;
mod sim;
mod waits;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use tributary_controller::outcomes::{Count, Outcomes};
use tributary_controller::programs::Compiled;
use tributary_model::{Deployment, Duty, JobSpec, Scenario, SwitchId};
use tributary_p4runtime::p4::v1::Entity;
use tributary_ps::report as servers;
use tributary_sim::Taps;
use tributary_worker::rounds;

use crate::Options;

pub use counted::Counted;
pub use crossing::{Crossing, Crossings};
pub use kind::{CrossConnectKind, Kind};
pub use memory::Memory;
pub use netns::{Bmv2, CROSS_CONNECT, LastWords, Netns, PortFrames, Scratch, testbed_topology};
pub use sim::Sim;

/// A message of an endpoint to the run.
#[derive(Clone, Debug)]
pub enum Note {
    /// A worker's event.
    Worker {
        /// Index of the job.
        job: usize,
        /// Index of the worker.
        worker: usize,
        /// The event.
        event: rounds::Event,
    },
    /// The process of a worker has died.
    Lost {
        /// Index of the job.
        job: usize,
        /// Index of the worker.
        worker: usize,
        /// How, in words.
        how: String,
    },
    /// The parameter servers or reminder agents of a host.
    Servers(servers::Event),
    /// Something has happened that the run gets over.
    Warning(String),
    /// A part that must keep running has ended.
    Broken(String),
}

impl From<tributary_embedded::Note> for Note {
    fn from(note: tributary_embedded::Note) -> Self {
        match note {
            tributary_embedded::Note::Servers(event) => Self::Servers(event),
            tributary_embedded::Note::Broken(why) => Self::Broken(why),
        }
    }
}

/// A process that is stopped (SIGSTOP).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stopped {
    /// Name of the part.
    pub what: String,
    /// Process ID.
    pub process: u32,
}

/// What a switch counted for a job, and the aggregators that it freed when the job was removed.
#[derive(Clone, Debug)]
pub struct Removed {
    /// The switch.
    pub switch: SwitchId,
    /// Outcomes of the job's packets.
    pub outcomes: Outcomes,
    /// The job's partial sums that left in a packet of another task (ESA).
    pub evictions: Count,
    /// Aggregators that the job still held.
    pub freed: u32,
}

/// What a port of a switch counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortCount {
    /// Bytes of frames received.
    pub received: u64,
    /// Bytes of frames sent.
    pub sent: u64,
    /// Frames that found the egress queue full.
    pub drops: u64,
}

impl From<tributary_switch::PortStatistics> for PortCount {
    fn from(port: tributary_switch::PortStatistics) -> Self {
        Self { received: port.received_bytes, sent: port.sent_bytes, drops: port.queue_drops }
    }
}

/// What a switch reports at its end.
#[derive(Clone, Copy, Debug, Default)]
pub struct SwitchEnd {
    /// Its queues; `None` if the switch does not report them.
    pub queues: Option<QueueReport>,
    /// Processor time while the endpoints ran, after the warm-up; `None` if the switch has no process
    /// of its own.
    pub cpu: Option<Duration>,
}

/// Queue counters of a switch.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct QueueReport {
    /// Most packets in one egress queue at any time.
    #[serde(rename = "longest_queue")]
    pub longest: u64,
    /// Packets dropped at full queues.
    #[serde(rename = "queue_drops")]
    pub drops: u64,
}

impl QueueReport {
    /// Combines the ports of a switch.
    pub fn of<'a>(
        ports: impl Iterator<Item = &'a tributary_switch::PortStatistics> + Clone,
    ) -> Self {
        Self {
            longest: ports.clone().map(|port| port.max_depth as u64).max().unwrap_or(0),
            drops: ports.map(|port| port.queue_drops).sum(),
        }
    }
}

/// An environment that runs a deployment. [`run()`](crate::run()) calls the methods in the order of
/// declaration; those that only look, at any time between `start` and `stop_switches`, and
/// [`last_crossings`](Self::last_crossings) after that. Dropping a fabric ends all of its parts.
#[allow(async_fn_in_trait, reason = "the futures run on one thread")]
pub trait Fabric: Sized {
    /// Starts the switches and installs the program and forwarding. If there are taps, all frames at
    /// the ends of the links are captured.
    ///
    /// # Errors
    /// If they cannot be started.
    async fn start(
        deployment: &Arc<Deployment>,
        program: Compiled,
        options: &Options,
        taps: Option<&Taps>,
    ) -> Result<Self>;

    /// Makes the switches serve the job with this index in the file.
    ///
    /// # Errors
    /// If a switch refuses.
    async fn admit(&mut self, job: usize) -> Result<()>;

    /// Starts all workers, parameter servers and reminder agents.
    ///
    /// # Errors
    /// If they cannot be started.
    fn start_endpoints(&mut self) -> Result<()>;

    /// Waits briefly for the next note of an endpoint; `None` if none arrived.
    async fn next_note(&mut self) -> Option<Note>;

    /// Time since the endpoints were started, on their clock.
    fn elapsed(&self) -> Duration;

    /// The parts whose processes are stopped.
    fn stopped(&self) -> Vec<Stopped> {
        Vec::new()
    }

    /// Whether the job with this index in the file may go on without a worker whose process has died.
    fn may_go_on(&self, _job: usize) -> bool {
        false
    }

    /// Begins to measure processor time: all workers have finished their warm-up.
    fn end_warm_up(&mut self) {}

    /// Ends all endpoints. Parameter servers and reminder agents report before they end.
    fn stop_endpoints(&mut self);

    /// Processor time of all parameter servers and reminder agents after the warm-up; `None` if they
    /// have no processes of their own.
    fn servers_cpu(&self) -> Option<Duration> {
        None
    }

    /// Removes the job with this index in the file from the switches.
    ///
    /// # Errors
    /// If a switch refuses or does not answer.
    async fn remove(&mut self, job: usize) -> Result<Vec<Removed>>;

    /// Stops the switches. Returns their reports in the order of the topology.
    fn stop_switches(&mut self) -> Vec<SwitchEnd>;

    /// What each switch on the tree of a job has counted for it so far, by the job's index in the file.
    ///
    /// # Errors
    /// If a switch refuses or does not answer.
    async fn counts(&self, job: usize) -> Result<Vec<(SwitchId, Counted)>>;

    /// Reads entities of a switch, as over P4Runtime.
    ///
    /// # Errors
    /// If the switch refuses or does not answer.
    async fn read(&self, switch: SwitchId, request: Vec<Entity>) -> Result<Vec<Entity>>;

    /// What the ports of a switch have counted; empty if that is not known.
    async fn ports(&self, switch: SwitchId) -> Vec<(u16, PortCount)>;

    /// Frames at both ends of each link so far.
    async fn crossings(&self) -> Crossings;

    /// The same after all parts have ended, if ends count to their end.
    fn last_crossings(&mut self) -> Option<Crossings> {
        None
    }

    /// How long workers have waited for a core so far, over all of them, and their number; `None` if that is not
    /// known.
    fn core_waits(&self) -> Option<(Duration, usize)> {
        None
    }

    /// Whether time passes by itself.
    fn is_real(&self) -> bool {
        true
    }

    /// Makes [`next_note`](Self::next_note) return when this time has come, where no time passes by
    /// itself.
    fn pause_at(&mut self, _elapsed: Duration) {}
}

/// Checks that each host's interface has one process: a worker, or the parameter servers or the
/// reminder agent of any number of jobs.
///
/// # Errors
/// One line that names the host.
pub fn one_process_per_host(scenario: &Scenario) -> Result<()> {
    for host in scenario.network.topology.host_ids() {
        let whole = |(job, _): &(&JobSpec, Duty)| job.lane.is_first();
        let duties: Vec<_> = scenario.duties(host).filter(whole).collect();
        let name = &scenario.network.topology.host(host).name;
        let count = |of: fn(&Duty) -> bool| duties.iter().filter(|(_, duty)| of(duty)).count();
        let workers = count(|duty| matches!(duty, Duty::Worker(_)));
        let agents = count(|duty| matches!(duty, Duty::ReminderAgent));
        if workers > 0 && duties.len() > 1 {
            bail!(
                "host `{name}` has {} workers, parameter servers and reminder agents to run; give \
                 each worker a host of its own",
                duties.len()
            );
        }
        if agents > 0 && agents < duties.len() {
            bail!(
                "host `{name}` is to run the parameter server of one job and the reminder agent of \
                 another; give the agent a host of its own"
            );
        }
    }
    Ok(())
}
