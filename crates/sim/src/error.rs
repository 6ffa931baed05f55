//! Why a scenario could not be run.

use std::time::Duration;

use tributary_netio::faults::InvalidFaults;
use tributary_protocol::{ConfigError, SubmitError, worker};
use tributary_switch::Refusal;

/// Virtual time limit of a sweep.
pub(crate) const SWEEP_TIME: Duration = Duration::from_secs(60);

/// Why a scenario could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A link's faults are invalid.
    #[error(transparent)]
    Faults(#[from] InvalidFaults),
    /// An endpoint's settings contradict each other.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A tensor cannot be summed.
    #[error("job {job}, worker {worker}: {source}")]
    Submit {
        /// Index of the job.
        job: usize,
        /// Index of the worker.
        worker: usize,
        /// The cause.
        source: SubmitError,
    },
    /// A worker cannot change to a new assignment.
    #[error("job {job}, worker {worker}: {source}")]
    Reassign {
        /// Index of the job.
        job: usize,
        /// Index of the worker.
        worker: usize,
        /// The cause.
        source: worker::ReassignError,
    },
    /// A switch refused an update.
    #[error("switch {switch}: {refusal}")]
    Refused {
        /// Index of the switch.
        switch: usize,
        /// The cause.
        refusal: Refusal,
    },
    /// A sweep did not come back.
    #[error("switch {switch}: the sweep did not come back within {SWEEP_TIME:?}")]
    SweepLost {
        /// Index of the switch.
        switch: usize,
    },
    /// The network cannot serve a job.
    #[error(transparent)]
    Model(#[from] tributary_model::Error),
    /// The program lacks something that the controller needs, or a job cannot be placed.
    #[error(transparent)]
    Controller(#[from] tributary_controller::Error),
}
