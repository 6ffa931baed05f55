//! The manager's state of jobs: request, progress and processes.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};
use tributary_base::shortened;
use tributary_wire::channel::Token;

/// A request to run a job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Request {
    /// Idempotency key: requests with the same key are one job. If empty, every request is a new
    /// job.
    pub key: String,
    /// Human-readable name.
    pub name: String,
    /// Name of the model, for display. The other fields contain its demand.
    pub model: String,
    /// Number of GPUs, at least 1.
    pub gpus: u32,
    /// The value of running it (NetPack §5.2, step 1).
    pub value: f64,
    /// Number of iterations, at least 1.
    pub iterations: u32,
    /// Computing time per iteration on each GPU in µs.
    pub compute_us: u64,
    /// Gradients summed per iteration in bytes per worker: a multiple of 4.
    pub gradient_bytes: u64,
    /// Number of retries after failures of its processes.
    pub retries: u32,
    /// The program that each worker runs, and its arguments; none for sums of random numbers.
    #[serde(default)]
    pub command: Vec<String>,
    /// Working directory of the command.
    #[serde(default)]
    pub directory: String,
    /// Name of the tenant whose job it is.
    #[serde(default)]
    pub tenant: Option<String>,
    /// Most bits of values per second that each worker sends, by the tenant's limit at submission.
    #[serde(default)]
    pub max_rate: Option<NonZeroU64>,
}

/// Identifies a process permanently. Each attempt starts a process at most once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct TaskId {
    /// The job.
    pub job: u32,
    /// The attempt, from 1.
    pub attempt: u32,
    /// Index of the worker, which has all GPUs of the job on its server.
    pub worker: u8,
}

impl std::fmt::Display for TaskId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "worker {} of job {}, attempt {}", self.worker, self.job, self.attempt)
    }
}

/// How a process ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Exit {
    /// Whether it completed, and if not, who is responsible.
    pub outcome: Outcome,
    /// The reason or a summary, in one line.
    pub detail: String,
    /// Number of values that it summed.
    pub values: u64,
    /// Number of these values that equal an independently computed sum.
    pub verified: u64,
}

/// The outcome of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It completed.
    Success,
    /// It failed.
    Failure,
    /// Its server or agent failed or gave it up. The job is not responsible.
    Lost,
}

impl Exit {
    /// A failure.
    #[must_use]
    pub fn failed(detail: impl Into<String>) -> Self {
        Self { outcome: Outcome::Failure, detail: detail.into(), values: 0, verified: 0 }
    }

    /// The process cannot be running any more, and its end is unknown.
    #[must_use]
    pub fn lost(detail: impl Into<String>) -> Self {
        Self { outcome: Outcome::Lost, ..Self::failed(detail) }
    }
}

/// A process of an attempt.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Task {
    /// Index of the worker.
    pub worker: u8,
    /// Its server.
    pub server: String,
    /// The life of that server's agent in which it is started. Other lives of the agent do not have
    /// it.
    pub incarnation: u64,
    /// Number of its GPUs.
    pub gpus: u32,
    /// How it ended, if known.
    pub exit: Option<Exit>,
}

/// An attempt to run a job, with its GPUs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Run {
    /// The attempt, from 1.
    pub attempt: u32,
    /// Start time in ms since the epoch.
    pub since_ms: u64,
    /// The job's number in packets; `None` for a job that sends none.
    pub wire: Option<u16>,
    /// The run that switches serve; `None` until they do.
    #[serde(default)]
    pub epoch: Option<u32>,
    /// The switches that add for it; `None` for all that have something to add.
    pub adding: Option<Vec<String>>,
    /// The server of the parameter server; `None` for a job that needs none, or if the controller chooses one.
    pub ps: Option<String>,
    /// What its workers show the controller.
    pub key: Token,
    /// Its workers, by index.
    pub tasks: Vec<Task>,
}

impl Run {
    /// Processes that are not known to have ended.
    pub fn live(&self) -> impl Iterator<Item = &Task> {
        self.tasks.iter().filter(|task| task.exit.is_none())
    }
}

/// Why an attempt ends.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// All workers have completed.
    Finished,
    /// A process failed.
    Failed(String),
    /// A server's agent was lost together with its processes.
    Lost(String),
    /// A client cancelled the job.
    Cancelled,
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Finished => f.write_str("all workers have finished"),
            Self::Failed(why) | Self::Lost(why) => f.write_str(why),
            Self::Cancelled => f.write_str("a client cancels the job"),
        }
    }
}

/// The phase of a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It waits for placement.
    Waiting,
    /// An attempt runs or is about to run.
    Running(Run),
    /// An attempt is over, but some of its processes may still run, and switches may still serve
    /// it. It holds its GPUs.
    Ending(Run, Cause),
    /// All iterations are complete.
    Finished(Run),
    /// It failed permanently.
    Failed(String),
    /// A client cancelled it.
    Cancelled,
}

impl Phase {
    /// The attempt that holds GPUs.
    #[must_use]
    pub const fn run(&self) -> Option<&Run> {
        match self {
            Self::Running(run) | Self::Ending(run, _) => Some(run),
            _ => None,
        }
    }

    /// Whether the job has reached a final phase.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self, Self::Finished(_) | Self::Failed(_) | Self::Cancelled)
    }
}

/// Something that happened to a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Moment {
    /// When, in ms since the epoch.
    pub at_ms: u64,
    /// What, in a line.
    pub what: String,
}

/// Moments that a record keeps: those of more than ten attempts.
pub const MOMENTS: usize = 64;

/// Most characters of a moment: reasons have text of users' programs.
const MOMENT: usize = 300;

/// The persistent record of a job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Its number, in the order of submission.
    pub id: u32,
    /// The request.
    pub request: Request,
    /// Time of submission in ms since the epoch.
    pub submitted_ms: u64,
    /// Number of attempts begun.
    pub attempts: u32,
    /// Number of attempts that ended because a process failed.
    pub failures: u32,
    /// Why the last attempt ended, if the job continues.
    pub setback: Option<String>,
    /// Its phase.
    pub phase: Phase,
    /// The servers of the last attempt, by worker.
    #[serde(default)]
    pub servers: Vec<String>,
    /// What happened to it: the submission, and the latest moments after it, at most [`MOMENTS`] in all.
    #[serde(default)]
    pub history: Vec<Moment>,
}

impl Record {
    /// Adds a moment to its history.
    pub fn note(&mut self, at_ms: u64, what: &str) {
        if self.history.len() >= MOMENTS {
            self.history.remove(1);
        }
        self.history.push(Moment { at_ms, what: shortened(what, MOMENT).into_owned() });
    }

    /// The server of a worker in the last attempt.
    #[must_use]
    pub fn server(&self, worker: u8) -> Option<&str> {
        // A record of an older manager has it in its phase only.
        let run = match &self.phase {
            Phase::Running(run) | Phase::Ending(run, _) | Phase::Finished(run) => Some(run),
            _ => None,
        };
        let of_run = || Some(&run?.tasks.iter().find(|task| task.worker == worker)?.server);
        self.servers.get(usize::from(worker)).or_else(of_run).map(String::as_str)
    }

    /// The ID of a worker in the current attempt.
    #[must_use]
    pub const fn task(&self, worker: u8) -> TaskId {
        TaskId { job: self.id, attempt: self.attempts, worker }
    }
}
