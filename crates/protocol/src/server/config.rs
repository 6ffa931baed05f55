//! Configuration of a PS.

use tributary_wire::{Host, Protocol};

use crate::{ConfigError, JobConfig, Timing};

/// Configuration of a PS.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PsConfig {
    /// Configuration on which all endpoints of the job agree.
    pub job: JobConfig,
    /// The PS's own addresses.
    pub host: Host,
    /// The addresses of the workers, in the order of their indices.
    pub workers: Vec<Host>,
    /// Timeouts.
    pub timing: Timing,
    /// Whether the first packet of a later run begins that run here. Not if a later run may have other
    /// workers: its owner then learns of it, and makes another server.
    pub follows_runs: bool,
}

impl PsConfig {
    /// Validates the configuration for a PS that implements the protocols `spoken`.
    pub(crate) fn validate(&self, spoken: &[Protocol]) -> Result<(), ConfigError> {
        self.job.validate(spoken)?;
        self.timing.validate()?;
        if self.workers.len() != usize::from(self.job.workers()) {
            return Err(ConfigError::Addresses {
                addresses: self.workers.len(),
                workers: self.job.workers(),
            });
        }
        Ok(())
    }
}
