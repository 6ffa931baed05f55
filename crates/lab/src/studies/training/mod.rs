//! Training jobs at one switch, packet by packet: the experiments of ESA's evaluation (§7).
//!
//! A [`Model`] is a list of layers with sizes and computing times. Its workers compute and send in
//! rounds, and overlap both as training frameworks do. A [`Setup`] puts jobs on hosts around a
//! switch; [`train`] runs it with the real endpoints and the real P4 program, and checks every sum.
//!
//! *Timing-only mode.* Neither endpoints nor programs decide anything by the values that they sum,
//! except whether they fit into 32 bits. So an experiment may carry one value per packet instead of
//! dozens, and count the others as bytes on the links. Times, losses and counters are the same, as
//! the tests show, and the run is several times faster.

mod catalogue;
mod model;
mod run;
mod setup;

pub use catalogue::{Machine, NAMES};
pub use model::{Layer, Model, Part};
pub use run::{Run, Trained, TrainedJob, train};
pub use setup::{Delays, Ranking, Setup, Trainee};

/// Why an experiment failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The setup is invalid.
    #[error("{0}")]
    Setup(String),
    /// The setup's network or protocol is invalid.
    #[error(transparent)]
    Scenario(#[from] tributary_model::jobfile::Error),
    /// The endpoints or the switch refused something.
    #[error(transparent)]
    Run(#[from] tributary_sim::Error),
    /// An endpoint reported a stall.
    #[error("no progress: {0}")]
    Stalled(String),
    /// A frame came from nowhere or vanished, which is a bug in this program.
    #[error("a link did not carry as many frames as it took")]
    Unbalanced,
    /// A sum was wrong, which is a bug in this program.
    #[error("worker {worker} of job {job} got a wrong sum")]
    Sum {
        /// Index of the job.
        job: usize,
        /// Index of the worker.
        worker: usize,
    },
}
