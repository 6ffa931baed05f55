//! Values as messages, and back.

use tonic::{Code, Status};
use tributary_api::JOBS_VERSION;
use tributary_api::jobs::v1;
use tributary_api::jobs::v1::part::Role as Part;
use tributary_api::jobs::v1::take_request::Request;
use tributary_api::jobs::v1::take_response::Notice as Told;
use tributary_model::job::{Begin, Iteration, Notice, Refusal, Stop, Stopped, Turn};
use tributary_protocol::{Assignment, Mode, Rate};
use tributary_wire::{Epoch, JobId, WorkerIndex, WorkerSet};

/// Characters of the reason for a worker's failure that others are told.
const REASON: usize = 1000;

/// Which worker a client is.
pub(super) enum Which {
    Index(WorkerIndex),
    /// That of the host with this name or address.
    Host(String),
}

/// Which job a worker names.
pub(super) enum Named {
    Name(String),
    Id(JobId),
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => write!(f, "job {name}"),
            Self::Id(job) => write!(f, "job {job}"),
        }
    }
}

/// Who a client is.
pub(super) enum Role {
    Worker {
        job: Named,
        /// What the job was admitted with.
        key: Vec<u8>,
        which: Which,
        run: Option<Epoch>,
    },
    /// The parameter servers of this host.
    Server(String),
    /// The reminder agent of this host.
    Agent(String),
}

/// Who a client is, from its first message.
pub(super) fn role(first: Option<v1::TakeRequest>) -> Result<Role, Status> {
    let invalid = || Status::invalid_argument("the first message names the endpoint");
    let Some(Request::Part(part)) = first.and_then(|first| first.request) else {
        return Err(invalid());
    };
    if part.version != JOBS_VERSION {
        return Err(Status::unimplemented(format!(
            "the endpoint speaks version {} of this service, and the controller version {JOBS_VERSION}; use the same \
             version of Tributary everywhere",
            part.version
        )));
    }
    Ok(match part.role.ok_or_else(invalid)? {
        Part::Worker(v1::Worker { job, job_id, key, which, epoch }) => {
            let many = || Status::invalid_argument("a job has at most 1024 workers");
            let which = match which.ok_or_else(invalid)? {
                v1::worker::Which::Worker(index) => {
                    let index = u16::try_from(index).ok().and_then(WorkerIndex::new);
                    Which::Index(index.ok_or_else(many)?)
                }
                v1::worker::Which::Host(host) => Which::Host(host),
            };
            let id = u16::try_from(job_id).ok();
            let job = match id.ok_or_else(invalid).map(JobId::new)? {
                Some(id) => Named::Id(id),
                None => Named::Name(job),
            };
            Role::Worker { job, key, which, run: Epoch::new(epoch) }
        }
        Part::Server(host) => Role::Server(host),
        Part::Agent(host) => Role::Agent(host),
    })
}

/// What a client says later.
pub(super) enum Said {
    /// It has used its set-up.
    Ready,
    Stopped(Epoch, Stopped),
    /// A worker has finished an iteration of this run.
    Finished(Epoch, u64),
    /// A worker has begun so many rounds.
    Reached(u64),
    /// A worker has failed.
    Failed(String),
    /// Nothing that makes sense.
    Nothing,
}

/// What a client says after its first message.
pub(super) fn said(request: v1::TakeRequest) -> Option<Said> {
    Some(match request.request? {
        Request::Ready(v1::Ready {}) => Said::Ready,
        Request::Stopped(stopped) => match Epoch::new(stopped.epoch) {
            Some(epoch) => {
                let why = match stopped.why() {
                    v1::Stop::Unspecified => Stop::Stuck,
                    v1::Stop::Done => Stop::Done,
                    v1::Stop::Renewal => Stop::Renewal,
                };
                Said::Stopped(epoch, Stopped { rounds: stopped.rounds, why })
            }
            None => Said::Nothing,
        },
        Request::Finished(v1::Finished { epoch, number }) => match Epoch::new(epoch) {
            Some(epoch) => Said::Finished(epoch, number),
            None => Said::Nothing,
        },
        Request::Reached(rounds) => Said::Reached(rounds),
        Request::Failed(why) => Said::Failed(short(why)),
        Request::Part(_) => Said::Nothing,
    })
}

/// All others are told it, and logs have it.
fn short(text: String) -> String {
    text.chars().filter(|c| !c.is_control()).take(REASON).collect()
}

pub(super) fn indices(workers: WorkerSet) -> Vec<u32> {
    workers.iter().map(|worker| worker.get().into()).collect()
}

/// Notice as a message.
pub(super) fn response(
    notice: Notice,
    job: &str,
    run: impl Fn(Begin) -> v1::Run,
) -> Result<v1::TakeResponse, Status> {
    let notice = match notice {
        Notice::Waiting(workers) => return Ok(missing(workers)),
        Notice::Begin(begin) => Told::Run(run(begin)),
        Notice::Lost(worker, reason) => {
            Told::Lost(v1::Lost { worker: worker.get().into(), reason })
        }
        Notice::Left(worker, rounds) => {
            Told::Left(v1::Left { worker: worker.get().into(), rounds })
        }
        Notice::Behind(workers, rounds) => {
            Told::Behind(v1::Behind { workers: indices(workers), rounds })
        }
        Notice::Turn(Turn { number, running, reported, assignment, rate }) => {
            Told::Turn(v1::Turn {
                job: job.to_owned(),
                number,
                running,
                reported,
                assignment: Some(described(assignment)),
                rate: bits_per_second(rate),
            })
        }
        Notice::Complete => Told::Complete(v1::Complete {}),
        Notice::Over(reason) => Told::Over(reason),
        Notice::Refused(refusal) => return Err(Status::new(code(&refusal), refusal.to_string())),
    };
    Ok(v1::TakeResponse { notice: Some(notice) })
}

/// These workers are missing.
pub(super) fn missing(workers: WorkerSet) -> v1::TakeResponse {
    let waiting = v1::Waiting { missing: indices(workers) };
    v1::TakeResponse { notice: Some(Told::Waiting(waiting)) }
}

/// A set-up as a message.
pub(super) fn setup(setup: v1::Setup) -> v1::TakeResponse {
    v1::TakeResponse { notice: Some(Told::Setup(setup)) }
}

/// Whether the second one makes the first one needless: both are about the iteration of the same job, or about who is
/// behind.
pub(super) fn supersede(one: &v1::TakeResponse, other: &v1::TakeResponse) -> bool {
    match (&one.notice, &other.notice) {
        (Some(Told::Turn(one)), Some(Told::Turn(other))) => one.job == other.job,
        (Some(Told::Behind(_)), Some(Told::Behind(_))) => true,
        _ => false,
    }
}

/// A host has other jobs now.
pub(super) fn changed() -> v1::TakeResponse {
    v1::TakeResponse { notice: Some(Told::Changed(v1::Changed {})) }
}

pub(super) fn described(assignment: Assignment) -> v1::Assignment {
    let mode = match assignment.mode {
        Mode::Local => v1::Mode::Local,
        Mode::Partial => v1::Mode::Partial,
        Mode::Forwarded => v1::Mode::Forwarded,
    };
    v1::Assignment {
        service_id: assignment.service.get().into(),
        mem_id: assignment.segment.offset.0,
        size: assignment.segment.size,
        mode: mode.into(),
    }
}

pub(super) fn bits_per_second(rate: Option<Rate>) -> u64 {
    rate.map_or(0, Rate::get)
}

pub(super) fn iteration(iteration: Iteration) -> v1::Iteration {
    let state = match iteration.is_running() {
        true => v1::iteration::State::Running,
        false => v1::iteration::State::Finished,
    };
    let unfinished = indices(iteration.unfinished);
    v1::Iteration { number: iteration.number, state: state.into(), unfinished }
}

fn code(refusal: &Refusal) -> Code {
    match refusal {
        Refusal::NoWorker { .. } => Code::InvalidArgument,
        Refusal::Displaced(_) => Code::AlreadyExists,
        Refusal::Without { .. } | Refusal::OtherRun(_) | Refusal::Released(_) => {
            Code::FailedPrecondition
        }
        Refusal::Failed(failure) if failure.passes => Code::Unavailable,
        Refusal::Failed(_) => Code::Internal,
        Refusal::Closing => Code::Unavailable,
    }
}

/// Whether nothing follows.
pub(super) fn is_last(notice: &Result<v1::TakeResponse, Status>) -> bool {
    match notice {
        Ok(v1::TakeResponse { notice }) => {
            matches!(notice, Some(Told::Complete(_) | Told::Over(_)))
        }
        Err(_) => true,
    }
}
