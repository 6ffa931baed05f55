//! What a worker must know.

use tributary_wire::{Host, Protocol, WorkerIndex};

use crate::fixed::Scale;
use crate::{ConfigError, JobConfig, Timing};

/// The payload that a worker sends before it has heard anything: 60 KB (ESA §5.1, as ATP at
/// 100 Gb/s).
const INITIAL_WINDOW_BYTES: u32 = 60 * 1024;

/// What a worker must know.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WorkerConfig {
    /// What all endpoints of the job agree on.
    pub job: JobConfig,
    /// Which of the job's workers this is.
    pub index: WorkerIndex,
    /// How `f32` values become integers; the same at every worker.
    pub scale: Scale,
    /// The worker's own addresses.
    pub host: Host,
    /// The addresses of the PS; of no use to a job that has none.
    pub server: Host,
    /// The congestion window at the start, in packets; `None` for 60 KB, and with P4INC no more
    /// than the job's aggregators. It never exceeds the slots.
    pub initial_window: Option<u32>,
    /// How long it waits.
    pub timing: Timing,
}

impl WorkerConfig {
    /// The initial congestion window in packets.
    pub(super) fn initial_window(&self) -> u32 {
        let packet = 4 * u32::from(self.job.values_per_packet).max(1);
        let default = (INITIAL_WINDOW_BYTES / packet).min(self.threshold());
        self.initial_window.unwrap_or(default)
    }

    /// The window up to which it may open quickly: as far as switches have aggregators for it
    /// (P4INC-AOI §VI.B).
    pub(super) fn threshold(&self) -> u32 {
        match self.job.assignment.segment.size {
            0 => self.job.slots,
            size => size.min(self.job.slots),
        }
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        self.job.validate(&[Protocol::Atp, Protocol::Esa, Protocol::P4inc, Protocol::SwitchMl])?;
        self.timing.validate()?;
        if self.index.get() >= self.job.workers {
            return Err(ConfigError::Index { index: self.index.get(), workers: self.job.workers });
        }
        if self.initial_window == Some(0) {
            return Err(ConfigError::InitialWindow);
        }
        Ok(())
    }
}
