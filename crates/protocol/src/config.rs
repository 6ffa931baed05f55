//! Configuration shared by the endpoints of a job.

use std::num::NonZeroU32;
use std::time::Duration;

use tributary_wire::{
    Bitmap, Epoch, JobId, Protocol, Run, Segment, Service, VALUES_MAX, WorkerSet,
};

use crate::addressing::{Addressing, Tasks};
use crate::rtt::RttConfig;
use crate::{Assignment, Mode, Racks, Recovery};

/// The largest number of slots of a job.
pub const SLOTS_MAX: u32 = 1 << 16;

/// Configuration on which all endpoints of a job must agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobConfig {
    /// The aggregation protocol.
    pub protocol: Protocol,
    /// The job.
    pub job: JobId,
    /// The run of the job: packets of other runs are dropped.
    pub epoch: Epoch,
    /// The workers, and how packets name them.
    pub racks: Racks,
    /// V, the number of values per packet. The P4 program must be compiled for the same number.
    pub values_per_packet: u16,
    /// W, the upper bound of the window in packets: a power of two, at most [`SLOTS_MAX`].
    pub slots: u32,
    /// Number of aggregators in the switch's pool.
    pub pool: NonZeroU32,
    /// How tasks of ATP and ESA are spread over the pool.
    pub addressing: Addressing,
    /// How switches serve the job; [`Assignment::NONE`] with ATP and ESA.
    pub assignment: Assignment,
}

impl JobConfig {
    /// The default of V, as in the P4 programs.
    pub const DEFAULT_VALUES: u16 = 64;
    /// The default of W.
    pub const DEFAULT_SLOTS: u32 = 256;

    /// A flat job of up to 32 workers with ATP, 64 values per packet and 256 slots.
    ///
    /// # Panics
    ///
    /// If there are more workers.
    pub const fn new(run: Run, workers: u8, pool: NonZeroU32) -> Self {
        Self {
            protocol: Protocol::Atp,
            job: run.job,
            epoch: run.epoch,
            racks: Racks::flat(workers),
            values_per_packet: Self::DEFAULT_VALUES,
            slots: Self::DEFAULT_SLOTS,
            pool,
            addressing: Addressing::Default,
            assignment: Assignment::NONE,
        }
    }

    /// The run of the job.
    pub const fn run(&self) -> Run {
        self.job.run(self.epoch)
    }

    /// The aggregators of the tasks of an ESA job, or of an ATP job without settled slots.
    pub fn tasks(&self) -> Tasks {
        Tasks::new(self.job, self.slots, self.pool, self.addressing)
    }

    /// Number of workers.
    pub fn workers(&self) -> u16 {
        self.racks.workers()
    }

    /// All workers of the job.
    pub fn everyone(&self) -> WorkerSet {
        WorkerSet::first(self.workers())
    }

    /// The bitmap of a whole sum.
    pub const fn whole(&self) -> Bitmap {
        self.racks.positions()
    }

    /// Whether workers can exchange [parts](crate::Parts) of tensors: one switch has all of them below it.
    pub fn exchanges_parts(&self) -> bool {
        let each_has_a_position = self.whole().len() == u32::from(self.workers());
        self.protocol.has_rounds() && self.assignment.mode == Mode::Local && each_has_a_position
    }

    /// Validates the shared configuration for an endpoint that implements the protocols `spoken`.
    pub(crate) fn validate(&self, spoken: &[Protocol]) -> Result<(), ConfigError> {
        if !spoken.contains(&self.protocol) {
            return Err(ConfigError::Protocol(self.protocol));
        }
        if self.workers() == 0 {
            return Err(ConfigError::NoWorkers);
        }
        if self.values_per_packet == 0 || self.values_per_packet > VALUES_MAX {
            return Err(ConfigError::Values(self.values_per_packet));
        }
        if !self.slots.is_power_of_two() || self.slots > SLOTS_MAX {
            return Err(ConfigError::Slots(self.slots));
        }
        self.validate_assignment(self.assignment)
    }

    /// Validates an assignment for this job.
    pub(crate) fn validate_assignment(&self, assignment: Assignment) -> Result<(), ConfigError> {
        let Self { protocol, slots, pool, .. } = *self;
        let Assignment { service, segment, mode } = assignment;
        let none = assignment == Assignment::NONE;
        let suits = if !protocol.has_services() {
            none
        } else if protocol.spans_switches() {
            none || mode != Mode::Forwarded && service.is_aggregated()
        } else {
            mode == Mode::Local && service.is_aggregated()
        };
        if !suits {
            return Err(ConfigError::Assignment { protocol, service, mode });
        }
        if none {
            return Ok(());
        }
        let inside = segment.end().is_some_and(|end| end.0 <= pool.get());
        if segment.size == 0 || !inside {
            return Err(ConfigError::Segment { segment, pool });
        }
        // Otherwise a cell could be overwritten while a worker still lacks the result of the last
        // round but one, which would exist nowhere else.
        let needed = match mode {
            _ if protocol.has_partitions() => 2 * slots,
            Mode::Local => slots,
            _ => 1,
        };
        if segment.size < needed {
            return Err(ConfigError::Window { slots, needed, size: segment.size });
        }
        Ok(())
    }
}

/// Timeouts of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// Bounds of the retransmission timeout.
    pub rtt: RttConfig,
    /// Loss detection of workers.
    pub recovery: Recovery,
    /// Time without progress after which the endpoint reports a stall.
    pub stall_timeout: Duration,
    /// How rules are read that the papers leave open.
    pub readings: Readings,
}

/// What three later results do to a worker's window, with [`Recovery::Papers`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub enum LaterResults {
    /// They halve it in P4INC and SwitchML, and leave it in ATP and ESA. In these two, a result of a task that
    /// the switch has completed may overtake the result of one that the server has to complete, without any loss.
    #[default]
    ByProtocol,
    /// They halve it, as a lost packet does: ATP's congestion control, which ESA shares (ESA §5.1), read
    /// literally.
    Halve,
    /// They leave it as it is.
    Ignore,
}

impl LaterResults {
    /// Whether they halve the window in a protocol.
    #[must_use]
    pub const fn halve(self, protocol: Protocol) -> bool {
        match self {
            Self::ByProtocol => !matches!(protocol, Protocol::Atp | Protocol::Esa),
            Self::Halve => true,
            Self::Ignore => false,
        }
    }
}

/// Readings of the papers' texts, and additions of ours that can be disabled. The default is none that slows ESA down; the simulator's experiments
/// show the effect of each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Readings {
    /// [`Recovery::Papers`]: what three later results do to a worker's window.
    pub later_results: LaterResults,
    /// The agent leaves a worker's reminder to the entry's timer if the last round's reminders were
    /// answered a short time ago. The paper reacts at once (§5.3, case 1).
    pub reminders_wait: bool,
    /// [`Recovery::Rack`]: disables two additions of ours to ESA, the bound on workers' windows and the
    /// agent's polls, for experiments.
    pub blind: bool,
}

impl Default for Timing {
    /// [`RttConfig::default`], [`Recovery::default`], a stall timeout of ten seconds, and no
    /// [`Readings`].
    fn default() -> Self {
        Self {
            rtt: RttConfig::default(),
            recovery: Recovery::default(),
            stall_timeout: Duration::from_secs(10),
            readings: Readings::default(),
        }
    }
}

impl Timing {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        let RttConfig { initial, min, max } = self.rtt;
        if min.is_zero() || min > max || initial > max {
            return Err(ConfigError::Timeouts { initial, min, max });
        }
        if self.stall_timeout.is_zero() {
            return Err(ConfigError::StallTimeout);
        }
        Ok(())
    }
}

/// Why an endpoint cannot be created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// The endpoint does not implement the job's protocol.
    #[error("this endpoint does not speak {0:?}")]
    Protocol(Protocol),
    /// The job has no workers.
    #[error("a job has at least one worker")]
    NoWorkers,
    /// The number of values does not fit in a packet.
    #[error("a packet has 1 to {VALUES_MAX} values, not {0}")]
    Values(u16),
    /// The number of slots is not a power of two or exceeds [`SLOTS_MAX`].
    #[error("the number of slots is a power of two up to {SLOTS_MAX}, not {0}")]
    Slots(u32),
    /// The assignment is not valid for the protocol.
    #[error("{protocol:?} knows no service {service} in mode {mode:?}")]
    Assignment {
        /// The job's protocol.
        protocol: Protocol,
        /// The assigned service.
        service: Service,
        /// The assigned mode.
        mode: Mode,
    },
    /// The segment is empty or extends beyond the pool.
    #[error("the segment {segment} is not part of a pool of {pool} aggregators")]
    Segment {
        /// The assigned segment.
        segment: Segment,
        /// The size of the pool.
        pool: NonZeroU32,
    },
    /// The window is so large that a result could be discarded while a worker lacks it.
    #[error("a window of {slots} packets needs a segment of {needed} aggregators, not {size}")]
    Window {
        /// Upper bound of the window.
        slots: u32,
        /// The smallest sufficient number of aggregators.
        needed: u32,
        /// Number of aggregators in the segment.
        size: u32,
    },
    /// The job has no worker with this index.
    #[error("worker {index} in a job of {workers}")]
    Index {
        /// The worker's index.
        index: u16,
        /// Number of workers of the job.
        workers: u16,
    },
    /// The PS does not have exactly one address per worker.
    #[error("{addresses} addresses for {workers} workers")]
    Addresses {
        /// Number of addresses given.
        addresses: usize,
        /// Number of workers of the job.
        workers: u16,
    },
    /// A switch of the agent sums workers that the job does not have.
    #[error("a switch that sums unknown workers")]
    Targets,
    /// The initial window is zero.
    #[error("the initial window is at least one packet")]
    InitialWindow,
    /// The bounds of the timeout contradict each other.
    #[error("retransmission timeouts: initial {initial:?}, {min:?} to {max:?}")]
    Timeouts {
        /// Initial value.
        initial: Duration,
        /// Lower bound.
        min: Duration,
        /// Upper bound.
        max: Duration,
    },
    /// The stall timeout is zero.
    #[error("the stall timeout is zero")]
    StallTimeout,
}

#[cfg(test)]
mod tests {
    use tributary_wire::AggregatorIndex;

    use super::*;

    const POOL: NonZeroU32 = NonZeroU32::new(1024).unwrap();

    fn job(protocol: Protocol) -> JobConfig {
        let run = JobId::new(1).unwrap().run(Epoch::FIRST);
        JobConfig { protocol, slots: 64, ..JobConfig::new(run, 2, POOL) }
    }

    fn check(protocol: Protocol, service: u8, size: u32, mode: Mode) -> Result<(), ConfigError> {
        let segment = Segment { offset: AggregatorIndex(512), size };
        let assignment = Assignment { service: Service::new(service), segment, mode };
        job(protocol).validate_assignment(assignment)
    }

    #[test]
    fn a_window_larger_than_the_copies_can_repair_is_refused() {
        use Mode::{Local, Partial};
        assert_eq!(check(Protocol::P4inc, 1, 64, Local), Ok(()));
        let error = ConfigError::Window { slots: 64, needed: 64, size: 63 };
        assert_eq!(check(Protocol::P4inc, 1, 63, Local), Err(error));
        assert_eq!(check(Protocol::SwitchMl, 1, 128, Local), Ok(()));
        let error = ConfigError::Window { slots: 64, needed: 128, size: 127 };
        assert_eq!(check(Protocol::SwitchMl, 1, 127, Local), Err(error));
        // The PS keeps the results that the switch has discarded.
        assert_eq!(check(Protocol::P4inc, 1, 1, Partial), Ok(()));
    }

    #[test]
    fn segments_lie_in_the_pool() {
        assert_eq!(check(Protocol::P4inc, 1, 512, Mode::Local), Ok(()));
        for size in [0, 513, u32::MAX] {
            let error = check(Protocol::P4inc, 1, size, Mode::Partial).unwrap_err();
            assert!(matches!(error, ConfigError::Segment { pool: POOL, .. }), "{error}");
        }
    }

    #[test]
    fn service_and_mode_must_suit_the_protocol() {
        use Mode::{Forwarded, Local, Partial};
        for (protocol, service, mode) in [
            (Protocol::Atp, 1, Local),
            (Protocol::Esa, 0, Forwarded),
            (Protocol::P4inc, 0, Local),
            (Protocol::P4inc, 0, Partial),
            (Protocol::P4inc, 3, Forwarded),
            (Protocol::SwitchMl, 0, Local),
            (Protocol::SwitchMl, 3, Partial),
        ] {
            let error = check(protocol, service, 512, mode).unwrap_err();
            assert!(matches!(error, ConfigError::Assignment { .. }), "{error}");
        }
        let none = |protocol| job(protocol).validate_assignment(Assignment::NONE);
        for protocol in [Protocol::Atp, Protocol::Esa, Protocol::P4inc] {
            assert_eq!(none(protocol), Ok(()));
        }
        assert!(none(Protocol::SwitchMl).is_err());
    }
}
