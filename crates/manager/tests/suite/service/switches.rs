//! A controller of switches that records its requests.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use tokio::net::TcpListener;
use tokio_stream::Stream;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, Streaming};
use tributary_api::jobs::v1;
use tributary_api::jobs::v1::jobs_server::{Jobs, JobsServer};

/// Number in packets, hosts of the workers, host of the parameter server.
pub(crate) type Admitted = (u32, Vec<String>, String);

#[derive(Debug, Default)]
struct Noted {
    serving: BTreeMap<u32, v1::Job>,
    admitted: Vec<Admitted>,
    /// Jobs that cannot be released.
    stuck: BTreeSet<u32>,
    releases: usize,
    /// Whether it answers nothing.
    away: bool,
}

pub(crate) struct Switches {
    pub(crate) address: SocketAddr,
    noted: Arc<Mutex<Noted>>,
}

impl Switches {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let noted = Arc::<Mutex<Noted>>::default();
        let service = JobsServer::new(Controller(Arc::clone(&noted)));
        let serving = tonic::transport::Server::builder()
            .add_service(service)
            .serve_with_incoming(TcpListenerStream::new(listener));
        tokio::spawn(serving);
        Self { address, noted }
    }

    /// All jobs ever admitted, and the jobs currently served.
    pub(crate) fn seen(&self) -> (Vec<Admitted>, Vec<u32>) {
        let noted = self.noted.lock().unwrap();
        (noted.admitted.clone(), noted.serving.keys().copied().collect())
    }

    /// Admits a job that cannot be released.
    pub(crate) fn admit_stuck(&self, job_id: u32) {
        let mut noted = self.noted.lock().unwrap();
        noted.serving.insert(job_id, v1::Job { job_id, ..v1::Job::default() });
        noted.stuck.insert(job_id);
    }

    /// Has it answer nothing, or answer again.
    pub(crate) fn be_away(&self, away: bool) {
        self.noted.lock().unwrap().away = away;
    }

    /// Number of release requests.
    pub(crate) fn releases(&self) -> usize {
        self.noted.lock().unwrap().releases
    }

    /// Simulates a restart of the controller.
    pub(crate) fn forget(&self) {
        self.noted.lock().unwrap().serving.clear();
    }
}

struct Controller(Arc<Mutex<Noted>>);

type Answer<T> = Result<Response<T>, Status>;

fn none<T>() -> Answer<T> {
    Err(Status::unimplemented("nobody asks this"))
}

#[tonic::async_trait]
impl Jobs for Controller {
    async fn admit(&self, request: Request<v1::AdmitRequest>) -> Answer<v1::AdmitResponse> {
        let v1::AdmitRequest { job_id, workers, parameter_server, epoch, .. } =
            request.into_inner();
        let mut noted = self.0.lock().unwrap();
        if noted.serving.contains_key(&job_id) {
            return Err(Status::already_exists("it is admitted"));
        }
        noted.admitted.push((job_id, workers.clone(), parameter_server.clone()));
        let epoch = if epoch == 0 { 100 + noted.admitted.len() as u32 } else { epoch };
        let job = v1::Job { job_id, workers, parameter_server, epoch, ..v1::Job::default() };
        noted.serving.insert(job_id, job);
        Ok(Response::new(v1::AdmitResponse { epoch, ..v1::AdmitResponse::default() }))
    }

    async fn release(&self, request: Request<v1::ReleaseRequest>) -> Answer<v1::ReleaseResponse> {
        let job_id = request.into_inner().job_id;
        let mut noted = self.0.lock().unwrap();
        noted.releases += 1;
        if noted.stuck.contains(&job_id) {
            return Err(Status::internal("the switch refuses"));
        }
        match noted.serving.remove(&job_id) {
            Some(_) => Ok(Response::new(v1::ReleaseResponse::default())),
            None => Err(Status::not_found("it is not admitted")),
        }
    }

    async fn list(&self, _: Request<v1::ListRequest>) -> Answer<v1::ListResponse> {
        let noted = self.0.lock().unwrap();
        if noted.away {
            return Err(Status::unavailable("it is on a journey"));
        }
        let jobs = noted.serving.values().cloned().collect();
        Ok(Response::new(v1::ListResponse { jobs, ..v1::ListResponse::default() }))
    }

    async fn r#move(&self, _: Request<v1::MoveRequest>) -> Answer<v1::MoveResponse> {
        none()
    }

    async fn set_rate(&self, _: Request<v1::SetRateRequest>) -> Answer<v1::SetRateResponse> {
        none()
    }

    async fn start_iteration(
        &self,
        _: Request<v1::StartIterationRequest>,
    ) -> Answer<v1::StartIterationResponse> {
        none()
    }

    async fn finish_iteration(
        &self,
        _: Request<v1::FinishIterationRequest>,
    ) -> Answer<v1::FinishIterationResponse> {
        none()
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::WatchResponse, Status>> + Send>>;

    async fn watch(&self, _: Request<v1::WatchRequest>) -> Answer<Self::WatchStream> {
        none()
    }

    type TakeStream = Pin<Box<dyn Stream<Item = Result<v1::TakeResponse, Status>> + Send>>;

    async fn take(&self, _: Request<Streaming<v1::TakeRequest>>) -> Answer<Self::TakeStream> {
        none()
    }
}
