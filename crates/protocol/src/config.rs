//! What the endpoints of a job must agree on.

use std::num::NonZeroU32;
use std::time::Duration;

use tributary_wire::{
    Bitmap, Epoch, JobId, Protocol, Run, Segment, Sequence, Service, VALUES_MAX, WORKERS_MAX,
};

use crate::rtt::RttConfig;
use crate::{Assignment, Mode, Recovery};

/// The most slots a job can have.
pub const SLOTS_MAX: u32 = 1 << 16;

/// What all endpoints of a job must agree on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobConfig {
    /// The aggregation protocol.
    pub protocol: Protocol,
    /// The job.
    pub job: JobId,
    /// Which run of the job: packets of any other are dropped.
    pub epoch: Epoch,
    /// How many workers it has: 1 to 32.
    pub workers: u8,
    /// V, the values of a packet, as the P4 program was compiled for.
    pub values_per_packet: u16,
    /// W, the upper bound of the window in packets: a power of two, at most [`SLOTS_MAX`].
    pub slots: u32,
    /// Aggregators in the switch's pool.
    pub pool: NonZeroU32,
    /// How switches serve the job; [`Assignment::NONE`] with ATP and ESA.
    pub assignment: Assignment,
}

impl JobConfig {
    /// V without further settings, as in the P4 programs.
    pub const DEFAULT_VALUES: u16 = 64;
    /// W without further settings.
    pub const DEFAULT_SLOTS: u32 = 256;

    /// ATP, with 64 values a packet and 256 slots.
    pub const fn new(run: Run, workers: u8, pool: NonZeroU32) -> Self {
        Self {
            protocol: Protocol::Atp,
            job: run.job,
            epoch: run.epoch,
            workers,
            values_per_packet: Self::DEFAULT_VALUES,
            slots: Self::DEFAULT_SLOTS,
            pool,
            assignment: Assignment::NONE,
        }
    }

    /// The run of the job.
    pub const fn run(&self) -> Run {
        self.job.run(self.epoch)
    }

    /// All workers of the job.
    pub const fn everyone(&self) -> Bitmap {
        Bitmap::first(self.workers)
    }

    /// The slot of a sequence.
    pub const fn slot(&self, sequence: Sequence) -> usize {
        (sequence.0 & (self.slots - 1)) as usize
    }

    /// Checks what all endpoints of a job must agree on, for one that speaks `spoken`.
    pub(crate) fn validate(&self, spoken: &[Protocol]) -> Result<(), ConfigError> {
        if !spoken.contains(&self.protocol) {
            return Err(ConfigError::Protocol(self.protocol));
        }
        if self.workers == 0 || self.workers > WORKERS_MAX {
            return Err(ConfigError::Workers(self.workers));
        }
        if self.values_per_packet == 0 || self.values_per_packet > VALUES_MAX {
            return Err(ConfigError::Values(self.values_per_packet));
        }
        if !self.slots.is_power_of_two() || self.slots > SLOTS_MAX {
            return Err(ConfigError::Slots(self.slots));
        }
        self.assignment.validate(self.protocol, self.slots, self.pool)
    }
}

/// How long an endpoint waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// Bounds of the retransmission timeout.
    pub rtt: RttConfig,
    /// What workers take for lost.
    pub recovery: Recovery,
    /// After this long without progress the endpoint says so in an event.
    pub stall_timeout: Duration,
}

impl Default for Timing {
    /// [`RttConfig::default`], [`Recovery::default`], and ten seconds until a stall is reported.
    fn default() -> Self {
        Self {
            rtt: RttConfig::default(),
            recovery: Recovery::default(),
            stall_timeout: Duration::from_secs(10),
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

/// Why an endpoint cannot be built.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// The endpoint does not speak the job's protocol.
    #[error("this endpoint does not speak {0:?}")]
    Protocol(Protocol),
    /// No workers, or too many.
    #[error("a job has 1 to {WORKERS_MAX} workers, not {0}")]
    Workers(u8),
    /// The number of values does not fit a packet.
    #[error("a packet has 1 to {VALUES_MAX} values, not {0}")]
    Values(u16),
    /// The number of slots cannot be used.
    #[error("the number of slots is a power of two up to {SLOTS_MAX}, not {0}")]
    Slots(u32),
    /// Switches cannot serve a job of the protocol that way.
    #[error("{protocol:?} knows no service {service} in mode {mode:?}")]
    Assignment {
        /// The job's protocol.
        protocol: Protocol,
        /// The service assigned.
        service: Service,
        /// The mode assigned.
        mode: Mode,
    },
    /// The segment has no aggregators, or some that the pool has not.
    #[error("the segment {segment} is not part of a pool of {pool} aggregators")]
    Segment {
        /// The segment assigned.
        segment: Segment,
        /// The size of the pool.
        pool: NonZeroU32,
    },
    /// The window is so large that a result could be given up while a worker lacks it.
    #[error("a window of {slots} packets needs a segment of {needed} aggregators, not {size}")]
    Window {
        /// Upper bound of the window.
        slots: u32,
        /// The least aggregators that will do.
        needed: u32,
        /// The aggregators of the segment.
        size: u32,
    },
    /// The worker is not one of the job's.
    #[error("worker {index} in a job of {workers}")]
    Index {
        /// The worker's index.
        index: u8,
        /// How many there are.
        workers: u8,
    },
    /// The PS has not one address a worker.
    #[error("{addresses} addresses for {workers} workers")]
    Addresses {
        /// Addresses given.
        addresses: usize,
        /// Workers of the job.
        workers: u8,
    },
    /// The initial window is zero.
    #[error("the initial window is at least one packet")]
    InitialWindow,
    /// Bounds of the timeout that contradict each other.
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
