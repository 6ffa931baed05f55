//! Where a scenario runs: its switches, cables and endpoints.
//!
//! A fabric starts the switches and tells how the controller reaches them, then starts the
//! endpoints, which send [`Note`]s, and ends everything when it is dropped.

mod memory;
mod netns;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::sync::mpsc::UnboundedSender;
use tributary_controller::client::SwitchConfig;
use tributary_jobfile::{Duty, Scenario, SwitchId};

use crate::agent;
use crate::args;
use crate::commands::{ps, reminder};

pub(crate) use memory::Memory;
pub(crate) use netns::{Bmv2, LastWords, Netns};

/// What an endpoint tells the run.
#[derive(Clone, Debug)]
pub(crate) enum Note {
    /// A worker, by the indices of its job and of itself.
    Worker { job: usize, worker: usize, event: agent::Event },
    /// The parameter servers of a host.
    Servers(ps::Event),
    /// The reminder agent of a host of its own.
    Agent(reminder::Event),
    /// Something that must not end has ended.
    Broken(String),
}

/// A part of the network whose process lives and does nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stopped {
    /// Its name.
    pub(crate) what: String,
    /// The number of its process.
    pub(crate) process: u32,
}

/// What a switch tells about its queues.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueReport {
    /// Most packets that were ever in one egress queue.
    pub(crate) longest: u64,
    /// Packets that found a queue full.
    pub(crate) drops: u64,
}

/// A running fabric.
pub(crate) enum Fabric {
    /// Threads of this process.
    Memory(Memory),
    /// Processes in network namespaces.
    Netns(Netns),
}

impl Fabric {
    /// Starts the switches of a scenario, without a program yet.
    ///
    /// # Errors
    /// If they cannot be started.
    pub(crate) async fn start(
        kind: args::Fabric,
        scenario: &Arc<Scenario>,
        run: &args::RunArgs,
    ) -> Result<Self> {
        one_process_a_host(scenario)?;
        Ok(match kind {
            args::Fabric::Memory => Self::Memory(Memory::start(scenario, run.engine.into())?),
            args::Fabric::Netns => Self::Netns(Netns::start(scenario, run).await?),
        })
    }

    /// How the controller reaches the switches, in the order of the topology.
    pub(crate) fn switches(&self) -> Vec<SwitchConfig> {
        match self {
            Self::Memory(memory) => memory.switches(),
            Self::Netns(netns) => netns.switches(),
        }
    }

    /// Processor time that each switch has taken since the endpoints were started, in the order of the
    /// topology; `None` where it is no process of its own.
    pub(crate) fn cpu_times(&self) -> Vec<Option<Duration>> {
        match self {
            Self::Memory(memory) => vec![None; memory.switches().len()],
            Self::Netns(netns) => netns.cpu_times(),
        }
    }

    /// The parts whose processes are stopped.
    pub(crate) fn stopped(&self) -> Vec<Stopped> {
        match self {
            Self::Memory(_) => Vec::new(),
            Self::Netns(netns) => netns.stopped(),
        }
    }

    /// Whether no switch has ended or is stopped.
    pub(crate) fn switches_run(&self) -> bool {
        match self {
            Self::Memory(_) => true,
            Self::Netns(netns) => netns.switches_run(),
        }
    }

    /// Starts workers and parameter servers. `stop` ends the workers early.
    ///
    /// # Errors
    /// If they cannot be started.
    pub(crate) fn start_endpoints(
        &mut self,
        notes: &UnboundedSender<Note>,
        stop: &Arc<AtomicBool>,
    ) -> Result<()> {
        match self {
            Self::Memory(memory) => memory.start_endpoints(notes, stop),
            Self::Netns(netns) => netns.start_endpoints(notes),
        }
    }

    /// Ends workers and parameter servers; the latter report before they end.
    pub(crate) fn stop_endpoints(&mut self) {
        match self {
            Self::Memory(memory) => memory.stop_endpoints(),
            Self::Netns(netns) => netns.stop_endpoints(),
        }
    }

    /// Stops the switches; what each tells about its queues.
    pub(crate) fn stop_switches(&mut self) -> Vec<Option<QueueReport>> {
        match self {
            Self::Memory(memory) => memory.stop_switches(),
            Self::Netns(netns) => netns.stop_switches(),
        }
    }
}

/// A host has one interface, which one worker, or the parameter servers or the reminder agent of any
/// number of jobs, have to themselves.
fn one_process_a_host(scenario: &Scenario) -> Result<()> {
    for host in scenario.topology.host_ids() {
        let duties: Vec<_> = scenario.duties(host).collect();
        let name = &scenario.topology.host(host).name;
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

/// P4Runtime's name for a switch.
fn device_id(switch: SwitchId) -> u64 {
    switch.0 as u64 + 1
}
