//! What happens to a job, what its life orders, and what endpoints are told.

use std::time::Duration;

use tributary_wire::{Epoch, WorkerIndex, WorkerSet};

use super::{OutOfTurn, Progress, Turn};
use crate::OnDeath;

/// The stream of an endpoint to the controller. No number is used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Stream(pub u64);

/// What a job is, as far as its life depends on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Its name, for messages.
    pub name: String,
    /// Number of its workers.
    pub workers: u16,
    /// The consequence of a worker's death.
    pub on_death: OnDeath,
    /// Whether a client lets each round begin.
    pub stepped: bool,
    /// How long a worker whose stream has ended may take to come back, before it is taken for dead: [`RETURN`](super::RETURN), unless a
    /// stream that ends is always the end of the process.
    pub patience: Duration,
    /// The job is released when no worker has taken part for this long; `None` if only a client releases it.
    pub grace: Option<Duration>,
}

impl Rules {
    /// All workers.
    #[must_use]
    pub fn everyone(&self) -> WorkerSet {
        WorkerSet::first(self.workers)
    }
}

/// The run that switches serve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Served {
    /// Its number.
    pub epoch: Epoch,
    /// Its workers.
    pub workers: WorkerSet,
    /// How it has begun, if it continues another one.
    pub handover: Option<Handover>,
    /// Whether a worker may take part in it already.
    pub begun: bool,
    /// Whether it has ended, so that nobody goes on with it.
    pub ended: bool,
    /// Its iteration, and how it is summed.
    pub progress: Progress,
}

/// The end of a run whose workers went on in the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handover {
    /// The run that has ended.
    pub before: Epoch,
    /// The number of rounds whose sums stay as they were.
    pub rounds: u64,
}

/// A worker that has stopped summing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stopped {
    /// The number of rounds of the job whose sums it has.
    pub rounds: u64,
    /// Why it has stopped.
    pub why: Stop,
}

/// Why a worker has stopped summing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// It was told of a loss, or no sum has come to it for too long.
    Stuck,
    /// Its sequence numbers run short: it goes on in another run.
    Renewal,
    /// It has all sums.
    Done,
}

impl Stopped {
    /// Whether the worker has all sums.
    #[must_use]
    pub fn is_done(self) -> bool {
        self.why == Stop::Done
    }
}

/// A run that a worker or a server begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Begin {
    /// The run. All packets of it carry this number.
    pub epoch: Epoch,
    /// Its workers. Packets name them by their places in this set.
    pub workers: WorkerSet,
    /// The sums of so many rounds stay as they are; the run begins with the next one.
    pub rounds: u64,
}

/// What happens to a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A worker takes part: in the run with this number, or in the next one that begins.
    Take(Stream, WorkerIndex, Option<Epoch>),
    /// A parameter server or a reminder agent follows the job's runs.
    Follow(Stream),
    /// A worker has stopped summing in this run.
    Stopped(Stream, Epoch, Stopped),
    /// A worker has begun so many rounds.
    Reached(Stream, u64),
    /// A worker has failed, for this reason.
    Failed(Stream, String),
    /// A stream has ended.
    Gone(Stream),
    /// Switches have answered an [`Order::Change`].
    Changed(Result<Epoch, Failure>),
    /// The journal has answered an [`Order::Record`].
    Recorded(Result<(), Failure>),
    /// A client, or a worker's report, has changed the job's progress, and the journal has it.
    Progressed(Progress),
    /// The move that a client [began](super::Job::begin_move) is over: with this progress, which the journal has, if it has come
    /// about. Otherwise switches serve the job as before, or, unless it is `whole`, no longer.
    Moved {
        /// After the move.
        now: Option<Progress>,
        /// Whether all switches serve the job.
        whole: bool,
    },
    /// The job was released: switches no longer serve it.
    Released,
    /// The release that has [begun](super::Job::begin_release) has failed: it can only be repeated.
    Unreleased,
    /// The release that was ordered has not begun, because a client's request came before it.
    Postponed,
    /// The controller ends.
    Close,
}

/// Why a change did not happen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The reason, in one line.
    pub reason: String,
    /// Whether it may go by itself: a switch is away, or the disk is full.
    pub passes: bool,
}

/// Why a client's request has to wait, or cannot be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Blocked {
    /// Another change of the job is under way.
    #[error("it is being changed")]
    Busy,
    /// A change has failed half-way.
    #[error("a change has failed half-way")]
    Broken,
    /// The step does not follow from the job's iteration.
    #[error(transparent)]
    OutOfTurn(#[from] OutOfTurn),
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    /// Tell an endpoint.
    Tell(Stream, Notice),
    /// Change switches to a new run with these workers, and answer with its number.
    Change(WorkerSet),
    /// Write the run to the journal, before anyone is told.
    Record(Served),
    /// Release the job: no worker takes part any more.
    Release,
}

/// What an endpoint is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// It waits for these workers; for none while switches change to the new run.
    Waiting(WorkerSet),
    /// A run begins.
    Begin(Begin),
    /// This worker has died in the middle of the run, and how that was noticed.
    Lost(WorkerIndex, String),
    /// This worker has left after so many rounds, fewer than any before it.
    Left(WorkerIndex, u64),
    /// These workers have begun the fewest rounds, and how many.
    Behind(WorkerSet, u64),
    /// The run's iteration, and how it is summed.
    Turn(Turn),
    /// All workers that are left have all sums. The last notice.
    Complete,
    /// The run ends, for this reason. The last notice.
    Over(String),
    /// The endpoint cannot take part. The last notice.
    Refused(Refusal),
}

impl Notice {
    /// Whether nothing follows.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        matches!(self, Self::Complete | Self::Over(_) | Self::Refused(_))
    }
}

/// Why an endpoint cannot take part in a job.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// The job has no such worker.
    #[error("job {name} has workers 0 to {}, and no other", .workers - 1)]
    NoWorker {
        /// The job.
        name: String,
        /// How many workers it has.
        workers: u16,
    },
    /// Another process is the same worker now.
    #[error("another process takes part in job {0} as the same worker")]
    Displaced(String),
    /// The job goes on without the worker.
    #[error(
        "job {name} goes on without worker {worker}, which was not heard from; start it again when that run \
         is over"
    )]
    Without {
        /// The job.
        name: String,
        /// The worker.
        worker: WorkerIndex,
    },
    /// The worker's run is over.
    #[error("job {0} has another run now")]
    OtherRun(String),
    /// The run could not begin.
    #[error("{}", .0.reason)]
    Failed(Failure),
    /// The job was released.
    #[error("{}", released(.0))]
    Released(String),
    /// The controller ends.
    #[error("the controller ends")]
    Closing,
}

pub(super) fn released(job: &str) -> String {
    format!("the controller has released job {job}")
}
