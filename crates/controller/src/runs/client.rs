//! What endpoints ask about runs.

use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};
use tributary_access::Remote;
use tributary_proto::runs::v1;
use tributary_proto::runs::v1::attend_response::News as Answer;
use tributary_proto::runs::v1::join_response::Progress as Told;
use tributary_proto::runs::v1::runs_client::RunsClient;
use tributary_wire::{Epoch, JobId, Run, WorkerIndex, WorkerSet};

use super::set;
use crate::attendance::{Continuation, Standing, Verdict};
use crate::client;
use crate::error::Error;

/// The run of a job that an endpoint takes part in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Begun {
    /// The run.
    pub epoch: Epoch,
    /// Its workers, if it goes on without some of those of the job file.
    pub workers: Option<WorkerSet>,
}

/// Asks a controller which run of a job a process belongs
/// to. A worker waits for the other workers of its job: `missing` is called with those that have
/// not joined yet, once at first and then after each change. Dropping the future withdraws the
/// worker.
///
/// # Errors
/// [`Error::Joining`]; [`Error::Without`] if the job goes on without the worker.
pub async fn ask(
    controller: &Remote,
    job: JobId,
    worker: Option<WorkerIndex>,
    mut missing: impl FnMut(WorkerSet),
) -> Result<Begun, Error> {
    let mut answers = Answers::to(controller, job, worker).await?;
    loop {
        let (progress, workers) = answers.next().await?;
        match progress {
            Told::Waiting(v1::Waiting { missing: indices }) => missing(set(&indices)),
            Told::Epoch(epoch) => {
                let workers = (!workers.is_empty()).then(|| set(&workers));
                return Ok(Begun { epoch: answers.epoch(epoch)?, workers });
            }
        }
    }
}

/// Returns when a job has another run than `run`, according to a controller.
///
/// # Errors
/// [`Error::Joining`]; it is unknown then whether there is another run.
pub async fn over(controller: &Remote, job: JobId, run: Epoch) -> Result<(), Error> {
    let mut answers = Answers::to(controller, job, None).await?;
    loop {
        if let (Told::Epoch(epoch), _) = answers.next().await?
            && answers.epoch(epoch)? != run
        {
            return Ok(());
        }
    }
}

/// How a worker's part in a run has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Attended {
    /// It has said that it has all results.
    Done,
    /// Another worker of the run has died, and the job ends with it.
    Lost,
    /// The job has another run now.
    Over,
    /// What the controller has decided, in a job that goes on.
    Decided(Verdict),
}

/// A worker that takes part in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attendee {
    /// The run.
    pub run: Run,
    /// The worker's index in the job file.
    pub worker: WorkerIndex,
    /// Whether the job goes on without workers that die.
    pub goes_on: bool,
}

/// Takes part in a run, until the worker's `standing` ends that, or the controller. `lost` is called when another
/// worker has died. A standing that is not of this run does not count. If the call breaks, call again at once:
/// otherwise the worker is taken for dead.
///
/// # Errors
/// [`Error::Joining`] if the controller does not answer.
pub async fn attend(
    controller: &Remote,
    attendee: Attendee,
    standing: &mut watch::Receiver<Option<(Epoch, Standing)>>,
    mut lost: impl FnMut(WorkerIndex),
) -> Result<Attended, Error> {
    let Attendee { run, worker, goes_on } = attendee;
    let failed = |reason: String| failed(controller, reason);
    let channel = controller.clone().with_keepalive(KEEPALIVE).connect().await;
    let channel = channel.map_err(|error| failed(client::root_cause(&error)))?;
    let (requests, outgoing) = mpsc::channel(2);
    let request = |standing: Option<Standing>| v1::AttendRequest {
        job_id: run.job.get().into(),
        worker: worker.get().into(),
        epoch: run.epoch.get(),
        done: standing.is_some_and(|standing| standing.done),
        rounds: standing.filter(|_| goes_on).map(|standing| standing.rounds),
    };
    requests.try_send(request(None)).expect("it has room for two");
    let call = RunsClient::new(channel).attend(ReceiverStream::new(outgoing)).await;
    let mut answers = match call {
        Ok(answers) => answers.into_inner(),
        Err(status) if status.code() == Code::FailedPrecondition => {
            return Ok(match goes_on {
                true => Attended::Decided(Verdict::Over(status.message().to_owned())),
                false => Attended::Over,
            });
        }
        Err(status) => return Err(failed(status.message().to_owned())),
    };
    let (mut said, mut heard) = (None, false);
    loop {
        let own = |standing: &Option<(Epoch, Standing)>| {
            standing.filter(|(epoch, _)| *epoch == run.epoch).map(|(_, standing)| standing)
        };
        let news = async {
            let now = standing.wait_for(|standing| own(standing) != said).await;
            let now = now.map(|standing| own(&standing));
            match now {
                Ok(now) => now,
                // The worker has ended, and this call with it.
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            answer = answers.message() => {
                let answer = answer.map_err(|status| failed(status.message().to_owned()))?;
                match answer.map(|answer| answer.news) {
                    Some(Some(Answer::Lost(index))) => {
                        heard = true;
                        set(&[index]).iter().for_each(&mut lost);
                    }
                    Some(news) => return verdict(news).map(Attended::Decided).map_err(failed),
                    None if heard && !goes_on => return Ok(Attended::Lost),
                    None => return Err(failed("it ended the call".into())),
                }
            }
            now = news => {
                said = now;
                // The call may have ended.
                let _ = requests.try_send(request(said));
                if said.is_some_and(|standing| standing.done) && !goes_on {
                    break;
                }
            }
        }
    }
    drop(requests);
    // The controller ends the call when it has read this.
    while let Ok(Some(_)) = answers.message().await {}
    Ok(Attended::Done)
}

fn verdict(news: Option<Answer>) -> Result<Verdict, String> {
    match news {
        Some(Answer::GoOn(v1::GoOn { epoch, workers, rounds })) => {
            let epoch = Epoch::new(epoch).ok_or("its run has no number")?;
            Ok(Verdict::GoOn(Continuation { epoch, workers: set(&workers), rounds }))
        }
        Some(Answer::Complete(v1::Complete {})) => Ok(Verdict::Complete),
        Some(Answer::Over(reason)) => Ok(Verdict::Over(reason)),
        Some(Answer::Lost(_)) | None => Err("its answer makes no sense".into()),
    }
}

/// The controller's answers to a request to join.
struct Answers<'a> {
    controller: &'a Remote,
    answers: Streaming<v1::JoinResponse>,
}

impl<'a> Answers<'a> {
    async fn to(
        controller: &'a Remote,
        job: JobId,
        worker: Option<WorkerIndex>,
    ) -> Result<Self, Error> {
        let failed = |reason: String| failed(controller, reason);
        let channel = controller.clone().with_keepalive(KEEPALIVE).connect().await;
        let channel = channel.map_err(|error| failed(client::root_cause(&error)))?;
        let worker = worker.map(|worker| worker.get().into());
        let request = v1::JoinRequest { job_id: job.get().into(), worker };
        let mut client = RunsClient::new(channel);
        let joining = tokio::time::timeout(PATIENCE, client.join(request)).await;
        let joining =
            joining.map_err(|_| failed(format!("no answer came in {} s", PATIENCE.as_secs())))?;
        let answers = joining.map_err(|status| refused(controller, &status))?.into_inner();
        Ok(Self { controller, answers })
    }

    /// The next progress; with the epoch, the workers of a run that not all take part in.
    async fn next(&mut self) -> Result<(Told, Vec<u32>), Error> {
        let answer = self.answers.message().await;
        let answer = answer.map_err(|status| refused(self.controller, &status))?;
        answer
            .and_then(|answer| Some((answer.progress?, answer.workers)))
            .ok_or_else(|| failed(self.controller, "it ended without naming a run".into()))
    }

    fn epoch(&self, number: u32) -> Result<Epoch, Error> {
        Epoch::new(number).ok_or_else(|| failed(self.controller, "its run has no number".into()))
    }
}

fn refused(controller: &Remote, status: &Status) -> Error {
    let reason = status.message().to_owned();
    match (status.code(), std::error::Error::source(status)) {
        (Code::FailedPrecondition, _) => Error::Without(reason),
        (_, Some(broken)) => failed(controller, client::root_cause(broken)),
        // Another service listens there.
        (Code::Unimplemented, None) => failed(controller, reason),
        // The controller has said what is wrong.
        (_, None) => Error::Joining { address: controller.to_string(), reason },
    }
}

/// There is no controller that names runs, as far as is known.
fn failed(controller: &Remote, reason: String) -> Error {
    let reason = format!("{reason}; start it with --listen, and the endpoints after it");
    Error::Joining { address: controller.to_string(), reason }
}

/// Timeout of the connection, and of the first answer, which waits while switches change runs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Interval and timeout of the HTTP/2 pings that detect a lost controller.
pub(super) const KEEPALIVE: Duration = Duration::from_secs(10);
