//! What is kept of an experiment, and what the figures show of it.

use serde::{Deserialize, Serialize};
use tributary_cluster::metrics::Spread;
use tributary_controller::outcomes::Outcome;

use crate::studies::training::{Setup, Trained, TrainedJob};

/// What is kept of an experiment.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// Mean job completion time of each job in milliseconds.
    pub(crate) jct_ms: Vec<f64>,
    /// Aggregation throughput of each job in Gb/s of gradients per worker.
    pub(crate) throughput_gbps: Vec<f64>,
    /// That throughput, with headers, divided by the rate of the link.
    pub(crate) utilisation: Vec<f64>,
    /// Share of the tasks that the switch completed.
    pub(crate) in_network: f64,
    /// Preemptions for each thousand tasks, and packets that failed to preempt, or collided (ATP).
    pub(crate) preempted: f64,
    pub(crate) collided: f64,
    pub(crate) hops: u64,
    /// Seconds of one core.
    pub(crate) wall_s: f64,
}

impl Measured {
    pub(super) fn of(setup: &Setup, trained: &Trained, wall_s: f64) -> Self {
        let jobs = &trained.jobs;
        let packets =
            |outcome| -> f64 { jobs.iter().map(|job| job.outcomes[outcome].packets as f64).sum() };
        let by_server: u64 = jobs.iter().map(|job| job.esa.server.completed).sum();
        let tasks = packets(Outcome::Completed) + by_server as f64;
        let atp: u64 = jobs.iter().map(|job| job.server.completed).sum();
        let tasks = tasks.max(atp as f64).max(1.0);
        let ratio = setup.packet_bytes() as f64 / (4 * u64::from(setup.values)) as f64;
        let gbps = |job: &TrainedJob| job.throughput() / 1e9;
        Self {
            jct_ms: jobs.iter().map(|job| job.jct().as_secs_f64() * 1e3).collect(),
            throughput_gbps: jobs.iter().map(gbps).collect(),
            utilisation: jobs
                .iter()
                .map(|job| job.throughput() * ratio / setup.cable.bandwidth)
                .collect(),
            in_network: (packets(Outcome::Completed) / tasks).min(1.0),
            preempted: packets(Outcome::Preempted) / tasks * 1e3,
            collided: packets(Outcome::Collided) / tasks * 1e3,
            hops: trained.hops,
            wall_s,
        }
    }
}

/// A quantity that a figure shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Quantity {
    Jct,
    Throughput,
    Utilisation,
    /// Share of the tasks that the switch completed, in percent.
    BySwitch,
    /// Tasks for each thousand that the parameter server completed: the repairs of ESA.
    ByServer,
    /// Packets for each thousand tasks that evicted another task.
    Preempted,
    /// Packets for each thousand tasks that met another task and did not evict it.
    Failed,
}

impl Quantity {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Jct => "mean JCT, ms",
            Self::Throughput => "aggregation throughput, Gb/s",
            Self::Utilisation => "utilisation of switch memory",
            Self::BySwitch => "by the switch, %",
            Self::ByServer => "by the server, of 1000 tasks",
            Self::Preempted => "preemptions, for 1000 tasks",
            Self::Failed => "failed preemptions, for 1000 tasks",
        }
    }

    /// Whether a ratio of it says how much better the first is if it is turned around: less time is
    /// better. Ratios of counts are not turned around.
    pub(crate) fn is_turned(self) -> bool {
        self == Self::Jct
    }

    pub(crate) fn digits(self) -> usize {
        match self {
            Self::Throughput | Self::BySwitch | Self::ByServer => 1,
            Self::Preempted | Self::Failed => 0,
            Self::Jct | Self::Utilisation => 3,
        }
    }

    /// The mean over these jobs, or over all jobs. Tasks and packets are those of all jobs.
    pub(crate) fn of(self, measured: &Measured, jobs: Option<&[usize]>) -> f64 {
        let values = match self {
            Self::Jct => &measured.jct_ms,
            Self::Throughput => &measured.throughput_gbps,
            Self::Utilisation => &measured.utilisation,
            Self::BySwitch => return 100.0 * measured.in_network,
            Self::ByServer => return 1000.0 * (1.0 - measured.in_network),
            Self::Preempted => return measured.preempted,
            Self::Failed => return measured.collided,
        };
        let chosen: Vec<f64> = match jobs {
            Some(jobs) => jobs.iter().map(|&job| values[job]).collect(),
            None => values.clone(),
        };
        Spread::of(&chosen).mean
    }
}
