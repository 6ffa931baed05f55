//! Endpoints that take part in jobs, message by message.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};
use tributary_access::Remote;
use tributary_api::JOBS_VERSION;
use tributary_api::jobs::v1;
use tributary_api::jobs::v1::jobs_client::JobsClient;
use tributary_api::jobs::v1::part::Role;
use tributary_api::jobs::v1::take_request::Request;
use tributary_api::jobs::v1::take_response::Notice;
use tributary_wire::{Epoch, WorkerIndex, WorkerSet};

/// Longer than the controller waits for workers that have not called.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A stream to a controller.
pub(crate) struct Taking {
    requests: mpsc::Sender<v1::TakeRequest>,
    answers: Streaming<v1::TakeResponse>,
}

impl Taking {
    pub(crate) async fn part(controller: &Remote, part: v1::Part) -> Result<Self, Status> {
        let channel = controller.connect().await;
        let channel = channel.map_err(|error| Status::unavailable(error.to_string()))?;
        let (requests, outgoing) = mpsc::channel(4);
        let said = [Request::Part(part), Request::Ready(v1::Ready {})];
        for request in said {
            requests.try_send(v1::TakeRequest { request: Some(request) }).unwrap();
        }
        let answers = JobsClient::new(channel).take(ReceiverStream::new(outgoing)).await?;
        Ok(Self { requests, answers: answers.into_inner() })
    }

    /// A worker, in a run or (0) the next one.
    pub(crate) async fn worker(
        controller: &Remote,
        job: &str,
        worker: u32,
        epoch: u32,
    ) -> Result<Self, Status> {
        let which = Some(v1::worker::Which::Worker(worker));
        let worker = v1::Worker { job: job.to_owned(), which, epoch, ..v1::Worker::default() };
        Self::part(controller, part(Role::Worker(worker))).await
    }

    /// A worker of a job that a client has admitted with a key.
    pub(crate) async fn of_admitted(
        controller: &Remote,
        job_id: u32,
        key: &[u8],
        worker: u32,
        epoch: u32,
    ) -> Result<Self, Status> {
        let which = Some(v1::worker::Which::Worker(worker));
        let worker =
            v1::Worker { job_id, key: key.to_vec(), which, epoch, ..v1::Worker::default() };
        Self::part(controller, part(Role::Worker(worker))).await
    }

    pub(crate) async fn server(controller: &Remote, host: &str) -> Result<Self, Status> {
        Self::part(controller, part(Role::Server(host.to_owned()))).await
    }

    /// The next notice, without the set-up and turns.
    pub(crate) async fn notice(&mut self) -> Result<Notice, Status> {
        loop {
            match self.any_news().await? {
                Notice::Turn(_) => {}
                notice => return Ok(notice),
            }
        }
    }

    /// The first notice.
    pub(crate) async fn setup(&mut self) -> Result<v1::Setup, Status> {
        let first = timeout(SOON, self.answers.message()).await.expect("notice come")?;
        match first.and_then(|answer| answer.notice) {
            Some(Notice::Setup(setup)) => Ok(setup),
            other => Err(Status::internal(format!("{other:?}"))),
        }
    }

    async fn any_news(&mut self) -> Result<Notice, Status> {
        loop {
            let answer = timeout(SOON, self.answers.message()).await.expect("notice come")?;
            let ended = || Status::cancelled("the stream ended");
            match answer.and_then(|answer| answer.notice).ok_or_else(ended)? {
                Notice::Setup(_) => {}
                notice => return Ok(notice),
            }
        }
    }

    /// The next turn.
    pub(crate) async fn turn(&mut self) -> Result<v1::Turn, Status> {
        loop {
            if let Notice::Turn(turn) = self.any_news().await? {
                return Ok(turn);
            }
        }
    }

    pub(crate) async fn finish(&self, run: Epoch, number: u64) {
        let finished = v1::Finished { epoch: run.get(), number };
        let request = v1::TakeRequest { request: Some(Request::Finished(finished)) };
        // The stream may have broken.
        let _ = self.requests.send(request).await;
    }

    /// The next run that begins.
    pub(crate) async fn run(&mut self) -> Result<v1::Run, Status> {
        loop {
            if let Notice::Run(run) = self.notice().await? {
                return Ok(run);
            }
        }
    }

    pub(crate) async fn epoch(&mut self) -> Result<Epoch, Status> {
        self.run().await.map(|run| Epoch::new(run.epochs[0]).unwrap())
    }

    /// Waits until exactly these workers are missing.
    pub(crate) async fn missing(&mut self, missing: WorkerSet) {
        loop {
            match self.notice().await.unwrap() {
                Notice::Waiting(v1::Waiting { missing: told }) if set(&told) == missing => return,
                Notice::Waiting(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// The first worker that has died.
    pub(crate) async fn lost(&mut self) -> u32 {
        loop {
            match self.notice().await.unwrap() {
                Notice::Lost(v1::Lost { worker, .. }) => return worker,
                Notice::Waiting(_) | Notice::Left(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    pub(crate) async fn stopped(&self, epoch: Epoch, rounds: u64, done: bool) {
        let why = if done { v1::Stop::Done } else { v1::Stop::Unspecified };
        self.stop(epoch, rounds, why).await;
    }

    pub(crate) async fn stop(&self, epoch: Epoch, rounds: u64, why: v1::Stop) {
        let stopped = v1::Stopped { epoch: epoch.get(), rounds, why: why.into() };
        self.say(Request::Stopped(stopped)).await;
    }

    pub(crate) async fn say(&self, request: Request) {
        // The stream may have broken.
        let _ = self.requests.send(v1::TakeRequest { request: Some(request) }).await;
    }
}

pub(crate) fn part(role: Role) -> v1::Part {
    v1::Part { version: JOBS_VERSION, role: Some(role) }
}

pub(crate) fn set(indices: &[u32]) -> WorkerSet {
    let index = |&index: &u32| WorkerIndex::new(u16::try_from(index).unwrap()).unwrap();
    indices.iter().map(index).collect()
}
