//! What a PS must know.

use tributary_wire::{Host, Protocol};

use crate::{ConfigError, JobConfig, Timing};

/// What a PS must know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PsConfig {
    /// What all endpoints of the job agree on.
    pub job: JobConfig,
    /// The PS's own addresses.
    pub host: Host,
    /// The addresses of the workers, in the order of their indices.
    pub workers: Vec<Host>,
    /// How long it waits.
    pub timing: Timing,
}

impl PsConfig {
    /// For a PS that speaks `spoken`.
    pub(crate) fn validate(&self, spoken: &[Protocol]) -> Result<(), ConfigError> {
        self.job.validate(spoken)?;
        self.timing.validate()?;
        if self.workers.len() != usize::from(self.job.workers) {
            return Err(ConfigError::Addresses {
                addresses: self.workers.len(),
                workers: self.job.workers,
            });
        }
        Ok(())
    }
}
