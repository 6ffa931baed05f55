//! Runs of jobs whose processes are started by hand: who is in which.
//!
//! A worker takes part in a run once. One that joins again was started again, so it begins a new run of
//! its job: what the run before left in switches is swept, and its packets are dropped from then on.
//! A worker of the old run that is still alive receives nothing more, and ends with an error.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tonic::service::Routes;
use tonic::{Code, Request, Response, Status};
use tributary_proto::runs::v1;
use tributary_proto::runs::v1::runs_client::RunsClient;
use tributary_proto::runs::v1::runs_server::{Runs as Service, RunsServer};
use tributary_wire::{Bitmap, Epoch, JobId, WorkerIndex};

use crate::client;
use crate::error::Error;
use crate::jobs::Controller;

/// Asks the controller at an address, HOST:PORT or unix:PATH, which run of a job a process takes part
/// in. A worker has taken its place there then.
///
/// # Errors
/// [`Error::Joining`].
pub async fn ask(address: &str, job: JobId, worker: Option<WorkerIndex>) -> Result<Epoch, Error> {
    let failed = |reason: String| Error::Joining { address: address.to_owned(), reason };
    let endpoint = client::endpoint(address, false)
        .ok_or_else(|| failed("it is no address: write HOST:PORT or unix:PATH".into()))?;
    let endpoint = endpoint.connect_timeout(PATIENCE).timeout(PATIENCE);
    let channel = endpoint.connect().await.map_err(|error| failed(client::root_cause(&error)))?;
    let worker = worker.map(|worker| worker.get().into());
    let request = v1::JoinRequest { job_id: job.get().into(), worker };
    let answer = RunsClient::new(channel).join(request).await;
    let answer = answer.map_err(|status| failed(status.message().to_owned()))?;
    let epoch = Epoch::new(answer.into_inner().epoch);
    epoch.ok_or_else(|| failed("it named no run".into()))
}

/// How long the controller may take: a new run begins when what the one before left in the switches is
/// swept.
const PATIENCE: Duration = Duration::from_secs(60);

/// Who has joined which run.
#[derive(Debug)]
pub struct Runs {
    controller: Arc<Controller>,
    joined: Mutex<BTreeMap<JobId, (Epoch, Bitmap)>>,
}

impl Runs {
    /// For the jobs that a controller has admitted. No worker has joined yet, unless a run was found in the
    /// switches: which of its workers had joined is not recorded there, so all count as joined.
    #[must_use]
    pub fn new(controller: Arc<Controller>) -> Self {
        let jobs = controller.admitted();
        let known = jobs.into_iter().map(|(run, workers)| {
            let goes_on = controller.found(run.job) == Some(run.epoch);
            (run.job, (run.epoch, if goes_on { workers } else { Bitmap::EMPTY }))
        });
        let joined = Mutex::new(known.collect());
        Self { controller, joined }
    }

    /// Takes part in the current run of a job, as a worker or else as one who serves the workers.
    ///
    /// # Errors
    /// [`Error::UnknownJob`], [`Error::NoWorker`]; if a new run has to begin, as
    /// [`Controller::renew`].
    pub async fn join(&self, job: JobId, worker: Option<WorkerIndex>) -> Result<Epoch, Error> {
        // One at a time: of workers that are started again together, the first begins the new run.
        let mut joined = self.joined.lock().await;
        let (run, workers) = self.controller.run(job)?;
        let own = worker.map_or(Bitmap::EMPTY, Bitmap::of);
        if !own.is_subset(workers) {
            return Err(Error::NoWorker { job, workers: workers.len() });
        }
        let (epoch, there) = joined.entry(job).or_insert((run.epoch, Bitmap::EMPTY));
        if !own.is_disjoint(*there) || !self.controller.serves(job) {
            *epoch = self.controller.renew(job).await?;
            *there = Bitmap::EMPTY;
            tracing::info!(%job, %epoch, "a new run begins");
        }
        *there |= own;
        Ok(*epoch)
    }
}

impl Runs {
    /// The gRPC service.
    #[must_use]
    pub fn service(self) -> Routes {
        Routes::new(RunsServer::new(self))
    }
}

#[tonic::async_trait]
impl Service for Runs {
    async fn join(
        &self,
        request: Request<v1::JoinRequest>,
    ) -> Result<Response<v1::JoinResponse>, Status> {
        let v1::JoinRequest { job_id, worker } = request.into_inner();
        let job = u16::try_from(job_id).ok().and_then(JobId::new);
        let job = job.ok_or_else(|| Status::not_found(format!("there is no job {job_id}")))?;
        let index = |worker| u8::try_from(worker).ok().and_then(WorkerIndex::new);
        let none = || Status::invalid_argument("a job has at most 32 workers");
        let worker = worker.map(|worker| index(worker).ok_or_else(none)).transpose()?;
        match Self::join(self, job, worker).await {
            Ok(epoch) => Ok(Response::new(v1::JoinResponse { epoch: epoch.get() })),
            Err(error) => Err(Status::new(code(&error), error.to_string())),
        }
    }
}

fn code(error: &Error) -> Code {
    match error {
        Error::UnknownJob(_) => Code::NotFound,
        Error::NoWorker { .. } => Code::InvalidArgument,
        Error::JobTaken(..) => Code::Aborted,
        Error::Lost { .. }
        | Error::Unreachable { .. }
        | Error::NotPrimary { .. }
        | Error::SweepLost { .. } => Code::Unavailable,
        _ => Code::Internal,
    }
}
