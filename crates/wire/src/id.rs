//! Newtypes for numbers that must not be confused.

use std::fmt;
use std::num::NonZeroU32;

/// The largest number of positions of a job, and of workers of a rack: one bit each in a 32-bit
/// [`Bitmap`](crate::Bitmap).
pub const POSITIONS_MAX: u8 = 32;

/// The largest number of workers per job: a rack in each position.
pub const WORKERS_MAX: u16 = POSITIONS_MAX as u16 * POSITIONS_MAX as u16;

/// The number of a job; never zero.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize,
)]
#[serde(try_from = "u16", into = "u16")]
pub struct JobId(u16);

impl JobId {
    /// `None` for zero, which is not a job number.
    pub const fn new(number: u16) -> Option<Self> {
        if number == 0 { None } else { Some(Self(number)) }
    }

    /// The number.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// A run of this job.
    pub const fn run(self, epoch: Epoch) -> Run {
        Run { job: self, epoch }
    }
}

impl TryFrom<u16> for JobId {
    type Error = &'static str;

    fn try_from(number: u16) -> Result<Self, &'static str> {
        Self::new(number).ok_or("no job has the number zero")
    }
}

impl From<JobId> for u16 {
    fn from(job: JobId) -> Self {
        job.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of one run of a job; never zero. All packets of the run carry it.
///
/// The controller assigns a later epoch at each admission, and no two jobs share one. Packets and
/// aggregators that a run leaves behind therefore match no other run of the job, nor a later job
/// with the same number.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize,
)]
pub struct Epoch(NonZeroU32);

impl Epoch {
    /// The smallest epoch.
    pub const FIRST: Self = Self(NonZeroU32::MIN);

    /// `None` for zero, which marks an empty aggregator in the switch.
    pub const fn new(number: u32) -> Option<Self> {
        match NonZeroU32::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// Whether this epoch was issued after `other`. Epochs wrap around and are compared as serial
    /// numbers (RFC 1982): two epochs must be less than 2^31 apart.
    pub const fn is_after(self, other: Self) -> bool {
        self.get().wrapping_sub(other.get()).cast_signed() > 0
    }

    /// The next epoch; `None` after the last.
    pub const fn next(self) -> Option<Self> {
        match self.0.checked_add(1) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A run of a job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Run {
    /// The job.
    pub job: JobId,
    /// Its epoch.
    pub epoch: Epoch,
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job {}, epoch {}", self.job, self.epoch)
    }
}

/// The index of a worker in its job; less than [`WORKERS_MAX`].
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize,
)]
#[serde(try_from = "u16", into = "u16")]
pub struct WorkerIndex(u16);

impl WorkerIndex {
    /// `None` if `index` is [`WORKERS_MAX`] or more.
    pub const fn new(index: u16) -> Option<Self> {
        if index < WORKERS_MAX { Some(Self(index)) } else { None }
    }

    /// The index.
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl TryFrom<u16> for WorkerIndex {
    type Error = &'static str;

    fn try_from(number: u16) -> Result<Self, &'static str> {
        Self::new(number).ok_or("a job has at most 1024 workers")
    }
}

impl From<WorkerIndex> for u16 {
    fn from(worker: WorkerIndex) -> Self {
        worker.0
    }
}

impl fmt::Display for WorkerIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whose contributions a packet's [`Bitmap`](crate::Bitmap) names: the positions of the job, or the
/// workers of one rack, a position that several workers share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Rack(pub u8);

impl Rack {
    /// No rack: the bitmap names positions.
    pub const NONE: Self = Self(0);

    /// The rack at this position.
    pub const fn at(position: u8) -> Self {
        Self(position + 1)
    }

    /// The rack's position; `None` for [`NONE`](Self::NONE).
    pub const fn position(self) -> Option<u8> {
        self.0.checked_sub(1)
    }
}

impl fmt::Display for Rack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a fragment, counted over the lifetime of a job. It never wraps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Sequence(pub u32);

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of an aggregator, a cell of switch memory.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Debug,
    Default,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct AggregatorIndex(pub u32);

impl fmt::Display for AggregatorIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
