//! Why a request is refused.

use tonic::Code;
use tributary_wire::JobId;

use crate::error::Error;
use tributary_model::job::{Blocked, OutOfTurn};
use tributary_model::{Error as Unservable, segments};

/// Why a request is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// There is no such job.
    #[error("job {0} is not admitted")]
    Unknown(JobId),
    /// The job is already admitted.
    #[error("job {0} is admitted already; release it first")]
    Admitted(JobId),
    /// Another request is changing the job.
    #[error("job {0} is being changed by another request; ask again when that is done")]
    Busy(JobId),
    /// A change failed half-way.
    #[error("job {0} was left half-way by a change that failed; release it")]
    Broken(JobId),
    /// The step does not follow from the job's iteration.
    #[error("job {0}: {1}")]
    OutOfTurn(JobId, OutOfTurn),
    /// The job has no such worker.
    #[error("job {job} has workers 0 to {}, not {worker}", .workers - 1)]
    Worker {
        /// The job.
        job: JobId,
        /// The given index.
        worker: u32,
        /// How many workers the job has.
        workers: usize,
    },
    /// Processes of a job with a lease follow no client.
    #[error("job {0} has a lease, so it has no iterations, and its rate stays as it is")]
    Leased(JobId),
    /// Each thread of a worker has a job of its own in the network.
    #[error(
        "job {0} has several threads per worker, so that no client admits it, and its rate stays as it is"
    )]
    Lanes(JobId),
    /// With ESA, a thread of its own sums, which follows no client.
    #[error("job {0} is of esa, so it has no iterations, and its rate stays as it is")]
    Unled(JobId),
    /// The network can never carry it, for this reason.
    #[error("job {0}: {1}")]
    Uncarried(JobId, String),
    /// The tenant has as much as it may have.
    #[error("tenant `{tenant}` has {has} of {most} {what}; the request needs {more} more")]
    Quota {
        /// Its name.
        tenant: String,
        /// Of what it has too much.
        what: &'static str,
        /// How much it has.
        has: u32,
        /// How much more it wants.
        more: u32,
        /// How much it may have.
        most: u32,
    },
    /// The job's settings are wrong, or do not suit the network.
    #[error("{0}")]
    Settings(String),
    /// No host's parameter servers take part that the job could use. Text that says so.
    #[error("{0}")]
    Serverless(String),
    /// The controller has no job file with which it could read settings.
    #[error("this controller admits only jobs of its file; leave the settings out")]
    NoSite,
    /// No worker could take part in a job that is to last as long as workers do.
    #[error("a job with a lease is one of the controller's job file, or has settings")]
    Undescribed,
    /// The controller admits the job by itself.
    #[error("job {0} is one of the controller's job file, and ends with the controller")]
    OfFile(JobId),
    /// The job is not the client's business.
    #[error("job {0} is another tenant's")]
    Foreign(JobId),
    /// No ID is left to choose.
    #[error("all job IDs are taken; release a job")]
    NoId,
    /// The journal cannot be written, so that the change would be forgotten.
    #[error("cannot record the change: {0}")]
    Unrecorded(String),
    /// The controller is stopping.
    #[error("the controller is shutting down")]
    Closing,
    /// The controller failed.
    #[error("{0}")]
    Controller(#[from] Error),
}

impl Refusal {
    /// A change of a job that has to wait, or cannot be.
    pub(super) fn blocked(job: JobId, blocked: Blocked) -> Self {
        match blocked {
            Blocked::Busy => Self::Busy(job),
            Blocked::Broken => Self::Broken(job),
            Blocked::OutOfTurn(turn) => Self::OutOfTurn(job, turn),
        }
    }

    /// The kind of reason, in a word: for metrics.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match (self, self.code()) {
            (Self::Quota { .. }, _) => "quota",
            (Self::Serverless(_), _) => "no_server",
            (_, Code::ResourceExhausted) => "full",
            (_, Code::AlreadyExists | Code::Aborted) => "taken",
            (_, Code::InvalidArgument | Code::FailedPrecondition | Code::NotFound) => "invalid",
            (_, Code::Unavailable) => "unavailable",
            _ => "switch",
        }
    }

    /// The gRPC status code, which tells a client how to proceed.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Unknown(_) => Code::NotFound,
            Self::Admitted(_) => Code::AlreadyExists,
            Self::Busy(_) => Code::Aborted,
            Self::Broken(_)
            | Self::OutOfTurn(..)
            | Self::Leased(_)
            | Self::Lanes(_)
            | Self::Unled(_)
            | Self::OfFile(_) => Code::FailedPrecondition,
            Self::NoId | Self::Quota { .. } | Self::Serverless(_) => Code::ResourceExhausted,
            Self::Foreign(_) => Code::PermissionDenied,
            Self::Worker { .. }
            | Self::Settings(_)
            | Self::NoSite
            | Self::Undescribed
            | Self::Uncarried(..) => Code::InvalidArgument,
            Self::Unrecorded(_) | Self::Closing => Code::Unavailable,
            Self::Controller(error) => match error {
                Error::JobTaken(..) => Code::AlreadyExists,
                Error::UnknownJob(_) => Code::NotFound,
                Error::Model(Unservable::Memory {
                    refusal: segments::Refusal::Nothing(_), ..
                })
                | Error::Model(Unservable::NoServer(_))
                | Error::Model(Unservable::NotLocal(_))
                | Error::Assignment { .. } => Code::InvalidArgument,
                Error::Model(Unservable::Memory { .. }) | Error::Full(_) => Code::ResourceExhausted,
                Error::Unassigned => Code::FailedPrecondition,
                Error::Lost { .. }
                | Error::Unreachable { .. }
                | Error::NotPrimary { .. }
                | Error::SweepLost { .. } => Code::Unavailable,
                _ => Code::Internal,
            },
        }
    }
}
