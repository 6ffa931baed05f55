//! Jobs as the manager keeps them: what was asked for, how far it is, and what runs where.

use serde::{Deserialize, Serialize};

/// What someone asks for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Request {
    /// Names the request: the same one twice is one job. Empty: every request is a new job.
    pub key: String,
    /// Name for people.
    pub name: String,
    /// The model, for people; what it takes is in the other fields.
    pub model: String,
    /// GPUs, at least 1.
    pub gpus: u32,
    /// What it is worth to have it run (NetPack §5.2, step 1).
    pub value: f64,
    /// Iterations, at least 1.
    pub iterations: u32,
    /// Time that an iteration computes on each GPU, µs.
    pub compute_us: u64,
    /// Gradients that an iteration sums, bytes a worker: a multiple of 4.
    pub gradient_bytes: u64,
    /// Times that it is tried again after one of its processes has failed.
    pub retries: u32,
}

/// What a process of a job does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It is the worker of this index: all GPUs that the job has on the server.
    Worker(u8),
    /// It is the parameter server.
    ParameterServer,
    /// It has all GPUs of the job, on one server: nothing goes to the network.
    Alone,
}

impl Role {
    /// Whether the job is not over before this process has done its part.
    #[must_use]
    pub const fn trains(self) -> bool {
        !matches!(self, Self::ParameterServer)
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Worker(index) => write!(f, "worker {index}"),
            Self::ParameterServer => f.write_str("the parameter server"),
            Self::Alone => f.write_str("the worker"),
        }
    }
}

/// Names a process for good: a job is started once in each attempt.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct TaskId {
    /// The job.
    pub job: u32,
    /// Which attempt at it, from 1.
    pub attempt: u32,
    /// Which process of it.
    pub role: Role,
}

impl std::fmt::Display for TaskId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of job {}, attempt {}", self.role, self.job, self.attempt)
    }
}

/// How a process ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Exit {
    /// Whether it did all that it had to, and if not, whose fault that is.
    pub outcome: Outcome,
    /// Why not, in a line; or what it did.
    pub detail: String,
    /// Numbers that it summed.
    pub values: u64,
    /// Of them, compared with a sum computed apart and equal.
    pub verified: u64,
}

/// What a process came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It did all that it had to.
    Success,
    /// It failed.
    Failure,
    /// Its server or its agent is gone, or gave it up: the job can do nothing about it.
    Lost,
}

impl Exit {
    /// It failed.
    #[must_use]
    pub fn failed(detail: impl Into<String>) -> Self {
        Self { outcome: Outcome::Failure, detail: detail.into(), values: 0, verified: 0 }
    }

    /// It cannot be running any more, and nobody will tell how it ended.
    #[must_use]
    pub fn lost(detail: impl Into<String>) -> Self {
        Self { outcome: Outcome::Lost, ..Self::failed(detail) }
    }
}

/// A process of an attempt.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Task {
    /// What it does.
    pub role: Role,
    /// Where.
    pub server: String,
    /// The life of that server's agent in which it is started. Another life has not got it.
    pub incarnation: u64,
    /// GPUs that it has.
    pub gpus: u32,
    /// How it ended, once that is known.
    pub exit: Option<Exit>,
}

/// An attempt at a job, with the GPUs that it holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Which attempt, from 1.
    pub attempt: u32,
    /// When it began, ms since the epoch.
    pub since_ms: u64,
    /// The job's identity in its packets; `None` for a job that sends none.
    pub wire: Option<u16>,
    /// The run that switches serve, once they do.
    #[serde(default)]
    pub epoch: Option<u32>,
    /// Whether switches add up for it; else they only forward.
    pub in_network: bool,
    /// Its processes: workers by index, then the parameter server.
    pub tasks: Vec<Task>,
}

impl Run {
    /// Servers of the workers, by index.
    pub fn workers(&self) -> impl Iterator<Item = &Task> {
        self.tasks.iter().filter(|task| task.role.trains())
    }

    /// The parameter server.
    #[must_use]
    pub fn ps(&self) -> Option<&Task> {
        self.tasks.iter().find(|task| task.role == Role::ParameterServer)
    }

    /// Processes that are not known to have ended.
    pub fn live(&self) -> impl Iterator<Item = &Task> {
        self.tasks.iter().filter(|task| task.exit.is_none())
    }
}

/// Why an attempt ends.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// All workers have done their part.
    Finished,
    /// A process failed.
    Failed(String),
    /// A server's agent is gone, and what it ran with it.
    Lost(String),
    /// Someone cancelled the job.
    Cancelled,
}

/// How far a job is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It waits to be placed.
    Waiting,
    /// An attempt runs, or is about to.
    Running(Run),
    /// An attempt is over; some of its processes may still run, and switches may still serve it. It
    /// holds its GPUs.
    Ending(Run, Cause),
    /// All iterations are done.
    Finished(Run),
    /// It is given up.
    Failed(String),
    /// Someone cancelled it.
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

    /// Whether nothing will become of the job any more.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self, Self::Finished(_) | Self::Failed(_) | Self::Cancelled)
    }
}

/// A job, as it is recorded.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Its number, in the order of submission.
    pub id: u32,
    /// What was asked for.
    pub request: Request,
    /// When, ms since the epoch.
    pub submitted_ms: u64,
    /// Attempts begun so far.
    pub attempts: u32,
    /// Attempts that ended because a process failed.
    pub failures: u32,
    /// Why the last attempt ended, if it was not the job's end.
    pub setback: Option<String>,
    /// How far it is.
    pub phase: Phase,
}

impl Record {
    /// The name of one of its processes in the current attempt.
    #[must_use]
    pub const fn task(&self, role: Role) -> TaskId {
        TaskId { job: self.id, attempt: self.attempts, role }
    }
}
