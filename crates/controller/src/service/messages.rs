//! Values as messages, and back.

use tonic::{Code, Status};
use tributary_model::job::{Begin, News, Refusal, Standing};
use tributary_proto::jobs::v1;
use tributary_proto::jobs::v1::part::Role as Named;
use tributary_proto::jobs::v1::take_request::Request;
use tributary_proto::jobs::v1::take_response::News as Told;
use tributary_wire::{Epoch, WorkerIndex, WorkerSet};

/// The version of the service.
const VERSION: u32 = 1;

/// Which worker a client is.
pub(super) enum Which {
    Index(WorkerIndex),
    /// That of the host with this name or address.
    Host(String),
}

/// Who a client is.
pub(super) enum Role {
    Worker {
        job: String,
        which: Which,
        run: Option<Epoch>,
    },
    /// The parameter servers of this host.
    Server(String),
    /// The reminder agent of this host.
    Agent(String),
}

/// Who a client is, and whether it needs a set-up: from its first message.
pub(super) fn role(first: Option<v1::TakeRequest>) -> Result<(Role, bool), Status> {
    let invalid = || Status::invalid_argument("the first message names the endpoint");
    let Some(Request::Part(part)) = first.and_then(|first| first.request) else {
        return Err(invalid());
    };
    if part.version != VERSION {
        return Err(Status::unimplemented(format!(
            "the endpoint speaks version {} of this service, and the controller version {VERSION}; use the same \
             version of Tributary everywhere",
            part.version
        )));
    }
    let role = match part.role.ok_or_else(invalid)? {
        Named::Worker(v1::Worker { job, which, epoch }) => {
            let many = || Status::invalid_argument("a job has at most 1024 workers");
            let which = match which.ok_or_else(invalid)? {
                v1::worker::Which::Worker(index) => {
                    let index = u16::try_from(index).ok().and_then(WorkerIndex::new);
                    Which::Index(index.ok_or_else(many)?)
                }
                v1::worker::Which::Host(host) => Which::Host(host),
            };
            Role::Worker { job, which, run: Epoch::new(epoch) }
        }
        Named::Server(host) => Role::Server(host),
        Named::Agent(host) => Role::Agent(host),
    };
    Ok((role, part.setup))
}

/// Whether a client has used its set-up.
pub(super) fn is_ready(request: &v1::TakeRequest) -> bool {
    matches!(request.request, Some(Request::Ready(v1::Ready {})))
}

/// What a worker says later.
pub(super) fn standing(request: &v1::TakeRequest) -> Option<(Epoch, Standing)> {
    match request.request {
        Some(Request::Standing(v1::Standing { epoch, rounds, done })) => {
            Some((Epoch::new(epoch)?, Standing { rounds, done }))
        }
        _ => None,
    }
}

pub(super) fn indices(workers: WorkerSet) -> Vec<u32> {
    workers.iter().map(|worker| worker.get().into()).collect()
}

/// News as a message.
pub(super) fn response(
    news: News,
    run: impl Fn(Begin) -> v1::Run,
) -> Result<v1::TakeResponse, Status> {
    let news = match news {
        News::Waiting(missing) => Told::Waiting(v1::Waiting { missing: indices(missing) }),
        News::Begin(begin) => Told::Run(run(begin)),
        News::Lost(worker) => Told::Lost(worker.get().into()),
        News::Complete => Told::Complete(v1::Complete {}),
        News::Over(reason) => Told::Over(reason),
        News::Refused(refusal) => return Err(Status::new(code(&refusal), refusal.to_string())),
    };
    Ok(v1::TakeResponse { news: Some(news) })
}

/// A set-up as a message.
pub(super) fn setup(setup: v1::Setup) -> v1::TakeResponse {
    v1::TakeResponse { news: Some(Told::Setup(setup)) }
}

fn code(refusal: &Refusal) -> Code {
    match refusal {
        Refusal::NoWorker { .. } => Code::InvalidArgument,
        Refusal::Displaced(_) => Code::AlreadyExists,
        Refusal::Without { .. } | Refusal::OtherRun(_) => Code::FailedPrecondition,
        Refusal::Failed(failure) if failure.passes => Code::Unavailable,
        Refusal::Failed(_) => Code::Internal,
        Refusal::Closing => Code::Unavailable,
    }
}

pub(super) fn says_who_is_missing(news: &Result<v1::TakeResponse, Status>) -> bool {
    matches!(news, Ok(v1::TakeResponse { news: Some(Told::Waiting(_)) }))
}

/// Whether nothing follows.
pub(super) fn is_last(news: &Result<v1::TakeResponse, Status>) -> bool {
    match news {
        Ok(v1::TakeResponse { news }) => matches!(news, Some(Told::Complete(_) | Told::Over(_))),
        Err(_) => true,
    }
}
