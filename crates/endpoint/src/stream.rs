//! The stream of an endpoint to a controller: `Take` of the service `Jobs`.

use std::time::{Duration, Instant};

use tokio::sync::mpsc as queue;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};
use tributary_access::Remote;
use tributary_access::remote::{ConnectError, is_absence, reason};
use tributary_api::JOBS_VERSION;
use tributary_api::jobs::v1;
use tributary_api::jobs::v1::jobs_client::JobsClient;
use tributary_api::jobs::v1::part::Role;
use tributary_api::jobs::v1::take_request::Request;
use tributary_api::jobs::v1::take_response::Notice;
use tributary_model::job::Turn;
use tributary_model::{Deployment, JobSpec};
use tributary_protocol::{Assignment, Mode, Rate};
use tributary_wire::channel::{TOKEN_LEN, Token};
use tributary_wire::{AggregatorIndex, Epoch, Segment, Service, WorkerIndex, WorkerSet};

use crate::tokens::Tokens;

/// Timeout of the connection, and of the first answer, which waits while switches change runs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How long an endpoint that has never reached its controller tries again: the controller may be starting.
const AT_FIRST: Duration = Duration::from_secs(10);

/// Interval and timeout of the HTTP/2 pings that detect a lost controller.
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(10);

/// Longest answer: the description of a network of 2048 hosts and its jobs takes less than half of it.
const LARGEST: usize = 16 << 20;

/// A run that has begun.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Begun {
    /// Its number, for each thread of a worker.
    pub epochs: Vec<Epoch>,
    /// Its workers. Packets name them by their places in this set.
    pub workers: WorkerSet,
    /// The sums of so many rounds stay as they are. Those of later rounds are summed in this run.
    pub rounds: u64,
}

impl Begun {
    pub(crate) fn of(run: v1::Run) -> Result<Self, Status> {
        let epochs: Option<Vec<Epoch>> = run.epochs.into_iter().map(Epoch::new).collect();
        let epochs = epochs.filter(|epochs| !epochs.is_empty());
        let epochs = epochs.ok_or_else(|| Status::internal("its run has no number"))?;
        Ok(Self { epochs, workers: set(&run.workers), rounds: run.rounds })
    }

    /// The number of the first thread's run.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epochs[0]
    }
}

/// All that an endpoint needs to take part in jobs.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The network, and the jobs of the endpoint: each lane as one.
    pub deployment: Deployment,
    /// The tokens of jobs with a reminder agent.
    pub tokens: Tokens,
    /// Index of the worker, if the endpoint is one.
    pub worker: WorkerIndex,
    /// The jobs of the deployment, by their indices, whose rounds a client lets begin.
    pub stepped: Vec<usize>,
    /// Whether the worker's job is released when no worker takes part.
    pub lease: bool,
}

impl Setup {
    pub(crate) fn of(told: v1::Setup) -> Result<Self, Status> {
        let senseless = || {
            Status::internal(
                "its description of the job makes no sense here; use the same version of Tributary everywhere",
            )
        };
        let deployment: Option<Deployment> = serde_json::from_slice(&told.deployment).ok();
        let deployment = deployment.filter(Deployment::is_whole).ok_or_else(senseless)?;
        let jobs = &deployment.scenario().jobs;
        let token = |(job, token): (&JobSpec, Vec<u8>)| {
            let token = <[u8; TOKEN_LEN]>::try_from(token).ok()?;
            Some((job.name.clone(), Token(token)))
        };
        let tokens = jobs.iter().zip(told.tokens).filter_map(token).collect();
        let stepped: Vec<usize> = told.stepped.into_iter().map(|job| job as usize).collect();
        let worker = u16::try_from(told.worker).ok().and_then(WorkerIndex::new);
        let worker = worker.filter(|_| stepped.iter().all(|job| *job < jobs.len()));
        let (worker, lease) = (worker.ok_or_else(senseless)?, told.lease);
        Ok(Self { worker, tokens, stepped, lease, deployment })
    }
}

/// An iteration from a message.
pub(crate) fn turn(told: &v1::Turn) -> Result<Turn, Status> {
    let &v1::Turn { number, running, reported, ref assignment, rate, .. } = told;
    let assignment = self::assignment(assignment.as_ref()).map_err(Status::internal)?;
    Ok(Turn { number, running, reported, assignment, rate: Rate::new(rate) })
}

/// An assignment from a message.
pub(crate) fn assignment(message: Option<&v1::Assignment>) -> Result<Assignment, &'static str> {
    let told = message.ok_or("it tells no assignment")?;
    let mode = match told.mode() {
        v1::Mode::Local => Mode::Local,
        v1::Mode::Partial => Mode::Partial,
        v1::Mode::Forwarded => Mode::Forwarded,
        v1::Mode::Unspecified => return Err("it does not tell how the job is summed"),
    };
    let service = u8::try_from(told.service_id);
    let service = service.map_err(|_| "its service ID is beyond 255")?;
    let segment = Segment { offset: AggregatorIndex(told.mem_id), size: told.size };
    Ok(Assignment { service: Service::new(service), segment, mode })
}

pub(crate) fn set(indices: &[u32]) -> WorkerSet {
    let index = |&index: &u32| u16::try_from(index).ok().and_then(WorkerIndex::new);
    indices.iter().filter_map(index).collect()
}

/// Why a stream has ended before the last notice.
pub(crate) enum Broken {
    /// The controller refuses.
    Refused(Status),
    /// It does not answer, or the connection is broken.
    Lost(String),
    /// The connection failed, and the controller may be starting.
    Away(String),
}

impl Broken {
    pub(crate) fn explained(&self, controller: &Remote) -> String {
        let named = format!("the controller at {controller}");
        match self {
            Self::Refused(status) => format!("{named}: {}", status.message()),
            Self::Lost(reason) | Self::Away(reason) => {
                format!(
                    "{named} does not answer: {reason}; start `tributary controller --listen`, or correct the address"
                )
            }
        }
    }

    pub(crate) fn reason(&self) -> &str {
        match self {
            Self::Refused(status) => status.message(),
            Self::Lost(reason) | Self::Away(reason) => reason,
        }
    }

    /// Whether an endpoint that has tried to reach its controller since this time should try again.
    pub(crate) fn passes(&self, since: Instant) -> bool {
        matches!(self, Self::Away(_)) && since.elapsed() < AT_FIRST
    }
}

pub(crate) struct Stream {
    /// `None` when nothing follows.
    requests: Option<queue::Sender<v1::TakeRequest>>,
    answers: Streaming<v1::TakeResponse>,
}

impl Stream {
    /// A stream of an endpoint. The first answer may take `patience`.
    pub(crate) async fn open(
        controller: &Remote,
        role: Role,
        patience: Duration,
    ) -> Result<Self, Broken> {
        let lost = |error: ConnectError| match error.is_absence() {
            true => Broken::Away(error.to_string()),
            false => Broken::Lost(error.to_string()),
        };
        let channel = controller.connect().await.map_err(lost)?;
        let (requests, outgoing) = queue::channel(2);
        let part = v1::Part { version: JOBS_VERSION, role: Some(role) };
        let first = v1::TakeRequest { request: Some(Request::Part(part)) };
        requests.try_send(first).expect("it has room for two");
        let mut client = JobsClient::new(channel).max_decoding_message_size(LARGEST);
        let call = tokio::time::timeout(patience, client.take(ReceiverStream::new(outgoing))).await;
        let late = |_| Broken::Lost(format!("no answer came in {} s", patience.as_secs()));
        let answers = call.map_err(late)?.map_err(broken)?.into_inner();
        Ok(Self { requests: Some(requests), answers })
    }

    pub(crate) async fn notice(&mut self) -> Result<Notice, Broken> {
        let answer = self.answers.message().await.map_err(broken)?;
        let ended = || Broken::Away("it ended the stream".into());
        answer.and_then(|answer| answer.notice).ok_or_else(ended)
    }

    pub(crate) async fn say(&self, request: Request) {
        if let Some(requests) = &self.requests {
            // The stream may have ended.
            let _ = requests.send(v1::TakeRequest { request: Some(request) }).await;
        }
    }

    /// The endpoint says the last thing. Returns when the controller has heard it.
    pub(crate) async fn end(mut self, request: Request) {
        self.say(request).await;
        self.requests = None;
        while self.notice().await.is_ok() {}
    }

    /// The endpoint has used its set-up.
    pub(crate) async fn ready(&self) {
        self.say(Request::Ready(v1::Ready {})).await;
    }
}

fn broken(status: Status) -> Broken {
    match (status.code(), std::error::Error::source(&status)) {
        (_, Some(source)) if is_absence(source) => Broken::Away(reason(&status)),
        (_, Some(_)) => Broken::Lost(reason(&status)),
        // Another service listens there, or the call was cut off.
        (Code::Unimplemented, None) if status.message().is_empty() => {
            Broken::Lost("it does not serve jobs".into())
        }
        (Code::Unknown | Code::Cancelled, None) => Broken::Lost(reason(&status)),
        (_, None) => Broken::Refused(status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> v1::Turn {
        let mode = v1::Mode::Partial.into();
        let assignment = Some(v1::Assignment { service_id: 2, mem_id: 16, size: 32, mode });
        let job = "a".to_owned();
        v1::Turn { job, number: 3, running: true, reported: false, assignment, rate: 5_000_000 }
    }

    #[test]
    fn a_turn_is_what_the_controller_tells() {
        let told = turn(&message()).unwrap();
        let segment = Segment { offset: AggregatorIndex(16), size: 32 };
        let assignment = Assignment { service: Service::new(2), segment, mode: Mode::Partial };
        assert_eq!((told.number, told.running, told.reported), (3, true, false));
        assert_eq!((told.assignment, told.rate), (assignment, Rate::new(5_000_000)));
        assert_eq!(turn(&v1::Turn { rate: 0, ..message() }).unwrap().rate, None);
    }

    #[test]
    fn turns_that_make_no_sense_are_refused() {
        let no_assignment = v1::Turn { assignment: None, ..message() };
        let (mut no_mode, mut service) = (message(), message());
        no_mode.assignment.as_mut().unwrap().mode = 0;
        service.assignment.as_mut().unwrap().service_id = 256;
        for wrong in [no_assignment, no_mode, service] {
            assert!(turn(&wrong).is_err(), "{wrong:?}");
        }
    }

    fn setup(text: &str) -> v1::Setup {
        let scenario = tributary_model::jobfile::parse(text, "setup").unwrap();
        let deployment = serde_json::to_vec(&Deployment::new(scenario).unwrap()).unwrap();
        let tokens = vec![vec![7; TOKEN_LEN]];
        v1::Setup { deployment, tokens, worker: 1, stepped: vec![0], lease: false }
    }

    #[test]
    fn a_set_up_comes_as_it_was() {
        for protocol in ["atp", "esa", "p4inc"] {
            let told =
                setup(&format!("protocol = \"{protocol}\"\n[[job]]\nname = \"a\"\nworkers = 2\n"));
            let own = Setup::of(told.clone()).unwrap();
            assert_eq!(serde_json::to_vec(&own.deployment).unwrap(), told.deployment);
            assert_eq!((own.worker.get(), own.stepped), (1, vec![0]));
            assert!(own.tokens.by_job().contains_key("a"));
        }
    }

    /// Whatever is missing in it, or names what is not there, is one error.
    #[test]
    fn a_set_up_that_makes_no_sense_is_refused() {
        let told = setup("[[job]]\nworkers = 2\n");
        let text = String::from_utf8(told.deployment.clone()).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let changed = |path: &str, new: serde_json::Value| {
            let mut value = value.clone();
            *value.pointer_mut(path).unwrap_or_else(|| panic!("{path} in {text}")) = new;
            v1::Setup { deployment: serde_json::to_vec(&value).unwrap(), ..told.clone() }
        };
        let wrong = [
            v1::Setup { deployment: b"{}".to_vec(), ..told.clone() },
            v1::Setup { worker: 1024, ..told.clone() },
            v1::Setup { stepped: vec![1], ..told.clone() },
            changed("/scenario/jobs/0/workers/0", 99.into()),
            changed("/scenario/jobs/0/workers", Vec::<u32>::new().into()),
            changed("/scenario/jobs/0/slots", 3.into()),
            changed("/scenario/network/topology/hosts/0/link", 99.into()),
            changed("/scenario/network/switch/pool", 0.into()),
            changed("/assignments", Vec::<u32>::new().into()),
        ];
        for wrong in wrong {
            let status = Setup::of(wrong).unwrap_err();
            assert!(status.message().contains("makes no sense here"), "{status}");
        }
    }
}
