//! Configurations of the endpoints of a job.

use std::num::NonZeroU32;
use std::time::Duration;

use tributary_protocol::fixed::Scale;
use tributary_protocol::priority::{Code, Horizon, JobProfile, Priority};
use tributary_protocol::{Assignment, JobConfig, Mode, PsConfig, Rate, Timing, WorkerConfig};
use tributary_wire::{Host, WorkerIndex};

use crate::{Aggregation, HostId, JobSpec, Network, Profile};

impl Network {
    /// Where the gradients of a P4INC or SwitchML job are summed. (In ATP and ESA switches serve no
    /// job by assignment.)
    #[must_use]
    pub fn mode(&self, job: &JobSpec) -> Mode {
        if !job.protocol.has_services() || job.aggregation == Aggregation::Server {
            Mode::Forwarded
        } else if self.topology.common_switch(&job.workers).is_some() {
            Mode::Local
        } else {
            Mode::Partial
        }
    }

    /// Configuration on which the endpoints of a job agree. In ATP and ESA the assignment is
    /// [`Assignment::NONE`].
    ///
    /// # Panics
    ///
    /// If the scenario is invalid: workers that do not fit, or no aggregators.
    #[must_use]
    pub fn job_config(&self, job: &JobSpec, assignment: Assignment) -> JobConfig {
        JobConfig {
            protocol: job.protocol,
            job: job.id,
            epoch: job.epoch,
            racks: self
                .topology
                .racks(&job.workers, job.ps, job.protocol, job.two_levels)
                .expect("the reader checked"),
            values_per_packet: self.switch.values_per_packet,
            slots: job.slots,
            pool: NonZeroU32::new(self.switch.pool).expect("at least one aggregator"),
            addressing: self.addressing,
            assignment,
        }
    }

    /// Configuration of a job's worker.
    ///
    /// A worker reports a stall later than the parameter server does, because the latter can name
    /// the workers that it waits for.
    ///
    /// # Panics
    ///
    /// If the scenario is invalid, or the job has no such worker.
    #[must_use]
    pub fn worker_config(
        &self,
        job: &JobSpec,
        assignment: Assignment,
        index: WorkerIndex,
    ) -> WorkerConfig {
        let server = job.ps.map_or_else(|| Host::service(job.id), |ps| self.address(ps));
        WorkerConfig {
            job: self.job_config(job, assignment),
            index,
            scale: Scale::new(job.scale).expect("a positive, finite scale"),
            host: self.address(job.workers[usize::from(index.get())]),
            server,
            initial_window: Some(job.window),
            rate: job.lane_rate(),
            timing: self.timing(2 * self.worker_timeout),
        }
    }

    /// Configuration of a job's parameter server.
    ///
    /// # Panics
    ///
    /// If the scenario is invalid, or the job has no parameter server.
    #[must_use]
    pub fn ps_config(&self, job: &JobSpec, assignment: Assignment) -> PsConfig {
        PsConfig {
            job: self.job_config(job, assignment),
            host: self.address(job.server()),
            workers: job.workers.iter().map(|&host| self.address(host)).collect(),
            timing: self.timing(self.worker_timeout),
            follows_runs: !job.on_death.goes_on(),
        }
    }

    fn address(&self, host: HostId) -> Host {
        self.topology.host(host).address
    }

    /// Timeouts of an endpoint that reports a stall after this time.
    #[must_use]
    pub fn timing(&self, stall_timeout: Duration) -> Timing {
        let Self { timeouts: rtt, recovery, readings, .. } = *self;
        Timing { rtt, recovery, stall_timeout, readings }
    }
}

impl JobSpec {
    /// The lane's share of the rate, at least 1 b/s.
    fn lane_rate(&self) -> Option<Rate> {
        let share = |rate: Rate| Rate::new((rate.get() / self.lane.count as u64).max(1));
        self.rate.and_then(share)
    }
}

impl Profile {
    /// The profile when the job has run for `elapsed`: its remaining time is shorter, or its
    /// attained service larger.
    #[must_use]
    pub fn after(&self, elapsed: Duration) -> JobProfile {
        let horizon = match self.remaining {
            Some(remaining) => Horizon::Remaining(remaining.saturating_sub(elapsed)),
            None => Horizon::Attained(elapsed),
        };
        JobProfile {
            layers: self.layers,
            communication: self.communication,
            computation: self.computation,
            horizon,
        }
    }

    /// Priority of tensor number `tensor` (from 0) of `of` tensors that are submitted from front to
    /// back, when the job has run for `elapsed`.
    ///
    /// # Panics
    ///
    /// Unless `tensor` is less than `of`.
    #[must_use]
    pub fn priority(&self, tensor: usize, of: usize, elapsed: Duration, code: Code) -> Priority {
        self.after(elapsed).of_layer(self.layer(tensor, of), code)
    }
}
