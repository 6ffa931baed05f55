//! Configuration of a worker.

use tributary_wire::{Host, Protocol, WorkerIndex};

use crate::addressing::Own;
use crate::congestion::Room;
use crate::fixed::Scale;
use crate::{Addressing, ConfigError, JobConfig, Rate, Recovery, Timing};

/// The initial window: 60 KB of payload (ESA §5.1, as ATP at 100 Gb/s).
const INITIAL_WINDOW_BYTES: u32 = 60 * 1024;

/// Configuration of a worker.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WorkerConfig {
    /// Configuration on which all endpoints of the job agree.
    pub job: JobConfig,
    /// The index of this worker.
    pub index: WorkerIndex,
    /// The scale that converts `f32` values to integers; the same at every worker.
    pub scale: Scale,
    /// The worker's own addresses.
    pub host: Host,
    /// The addresses of the PS; unused if the job has none.
    pub server: Host,
    /// The initial congestion window in packets. `None` means 60 KB, and in P4INC at most the
    /// number of the job's aggregators. It never exceeds the number of slots.
    pub initial_window: Option<u32>,
    /// The initial [rate](crate::Worker::set_rate); `None` for no limit.
    pub rate: Option<Rate>,
    /// Timeouts.
    pub timing: Timing,
}

impl WorkerConfig {
    /// How the worker saves the switches' memory: in ESA, with the default rules.
    pub(super) fn room(&self) -> Option<Room> {
        let JobConfig { protocol, slots, pool, addressing, .. } = self.job;
        let Timing { recovery, readings, .. } = self.timing;
        let saves = protocol == Protocol::Esa && recovery == Recovery::Rack && !readings.blind;
        let span = if addressing == Addressing::Default { Own::size(slots, pool) } else { slots };
        saves.then(|| Room::new(self.initial_window(), span))
    }

    /// The initial congestion window in packets.
    pub(super) fn initial_window(&self) -> u32 {
        let packet = 4 * u32::from(self.job.values_per_packet).max(1);
        let default = (INITIAL_WINDOW_BYTES / packet).min(self.threshold());
        self.initial_window.unwrap_or(default)
    }

    /// The initial slow-start threshold: the number of aggregators that switches have for the job
    /// (P4INC-AOI §VI.B).
    pub(super) fn threshold(&self) -> u32 {
        match self.job.assignment.segment.size {
            0 => self.job.slots,
            size => size.min(self.job.slots),
        }
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        self.job.validate(&Protocol::ALL)?;
        self.timing.validate()?;
        if self.index.get() >= self.job.workers() {
            return Err(ConfigError::Index {
                index: self.index.get(),
                workers: self.job.workers(),
            });
        }
        if self.initial_window == Some(0) {
            return Err(ConfigError::InitialWindow);
        }
        Ok(())
    }
}
