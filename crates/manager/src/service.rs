//! The manager's gRPC service: converts messages to inputs for the manager's thread, and back.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Response, Status, Streaming};
use tributary_access::{Grant, Role};
use tributary_api::placement::v1;
use tributary_api::placement::v1::agent_message::Message;
use tributary_api::placement::v1::placement_manager_server::PlacementManager;

use crate::job::{Record, Request};
use crate::manager::{Event, ProcessState, Quota, Refusal};
use crate::shell::{Input, ToAgentSender, View, agent_channel};

type Answer<T> = Result<Response<T>, Status>;
type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Maximum silence of an agent, which spans many heartbeats.
pub(crate) const SILENCE: Duration = Duration::from_secs(5);

/// The service.
#[derive(Debug)]
pub struct Service {
    inputs: Sender<Input>,
    view: watch::Receiver<View>,
    connections: Arc<AtomicU64>,
}

impl Service {
    /// Creates a service that forwards inputs to the manager's thread and reads its state from
    /// `view`.
    #[must_use]
    pub fn new(inputs: Sender<Input>, view: watch::Receiver<View>) -> Self {
        Self { inputs, view, connections: Arc::default() }
    }

    /// Checks that there is such a job, and that it is the client's business.
    fn find(&self, job: u32, grant: &Grant) -> Result<(), Status> {
        match self.view.borrow().jobs.get(&job) {
            None => Err(Refusal::Unknown(job).into()),
            Some(record) if !is_for(record, grant) => {
                Err(Status::permission_denied(format!("job {job} is another tenant's")))
            }
            Some(_) => Ok(()),
        }
    }

    async fn ask<T>(
        &self,
        question: impl FnOnce(oneshot::Sender<Result<T, Refusal>>) -> Input,
    ) -> Result<T, Status> {
        let ending = |_| Status::unavailable("the manager is ending");
        let (answer, answered) = oneshot::channel();
        self.inputs
            .send(question(answer))
            .map_err(|_| Status::unavailable("the manager has ended"))?;
        Ok(answered.await.map_err(ending)??)
    }
}

#[tonic::async_trait]
impl PlacementManager for Service {
    async fn submit(
        &self,
        request: tonic::Request<v1::SubmitRequest>,
    ) -> Answer<v1::SubmitResponse> {
        let grant = Grant::of(&request)?.require(Role::Submit)?;
        let tenant = grant.tenant();
        let quota = tenant.map(|tenant| Quota { jobs: tenant.jobs, max_value: tenant.max_value });
        let quota = quota.unwrap_or_default();
        let mut wanted: Request = request.into_inner().into();
        wanted.tenant = tenant.map(|tenant| tenant.name.clone());
        wanted.max_rate = tenant.and_then(|tenant| tenant.max_rate);
        let wanted = Box::new(wanted);
        let job_id = self.ask(|answer| Input::Submit(wanted, quota, answer)).await?;
        Ok(Response::new(v1::SubmitResponse { job_id }))
    }

    async fn cancel(
        &self,
        request: tonic::Request<v1::CancelRequest>,
    ) -> Answer<v1::CancelResponse> {
        let grant = Grant::of(&request)?.require(Role::Submit)?;
        let job = request.into_inner().job_id;
        self.find(job, &grant)?;
        self.ask(|answer| Input::Cancel(job, answer)).await?;
        Ok(Response::new(v1::CancelResponse {}))
    }

    async fn list(&self, request: tonic::Request<v1::ListRequest>) -> Answer<v1::ListResponse> {
        let grant = Grant::of(&request)?.require(Role::Observe)?;
        let view = self.view.borrow().clone();
        let mut used: BTreeMap<&str, u32> = BTreeMap::new();
        for run in view.jobs.values().filter_map(|record| record.phase.run()) {
            for task in &run.tasks {
                *used.entry(&task.server).or_default() += task.gpus;
            }
        }
        let servers = view.servers.iter().map(|server| v1::Server {
            name: server.name.clone(),
            gpus: server.gpus,
            free: server.gpus.saturating_sub(used.get(&*server.name).copied().unwrap_or(0)),
            present: server.present,
        });
        let servers = servers.collect();
        let jobs = view.jobs.values().filter(|record| is_for(record, &grant));
        let jobs = jobs.map(|record| view.describe(record)).collect();
        Ok(Response::new(v1::ListResponse { jobs, servers }))
    }

    async fn explain(
        &self,
        request: tonic::Request<v1::ExplainRequest>,
    ) -> Answer<v1::ExplainResponse> {
        let grant = Grant::of(&request)?.require(Role::Observe)?;
        let job = request.into_inner().job_id;
        self.find(job, &grant)?;
        Ok(Response::new(self.ask(|answer| Input::Explain(job, answer)).await?))
    }

    async fn log(&self, request: tonic::Request<v1::LogRequest>) -> Answer<v1::LogResponse> {
        // What a command prints may be secret: not for everybody who sees the job.
        let grant = Grant::of(&request)?.require(Role::Submit)?;
        let wanted = request.into_inner();
        self.find(wanted.job_id, &grant)?;
        let asked = self.ask(|answer| Input::ReadLog(wanted, answer));
        let late = |_| {
            let why = "the agent does not answer; an older program knows nothing of logs";
            Status::deadline_exceeded(why)
        };
        Ok(Response::new(tokio::time::timeout(SILENCE, asked).await.map_err(late)??))
    }

    type WatchStream = Answers<v1::WatchResponse>;

    async fn watch(&self, request: tonic::Request<v1::WatchRequest>) -> Answer<Self::WatchStream> {
        let grant = Grant::of(&request)?.require(Role::Observe)?;
        let wanted = request.into_inner();
        self.find(wanted.job_id, &grant)?;
        let (states, told) = mpsc::channel(1);
        tokio::spawn(follow(wanted, self.view.clone(), states));
        Ok(Response::new(Box::pin(ReceiverStream::new(told))))
    }

    type AgentStream = Answers<v1::ManagerMessage>;

    async fn agent(
        &self,
        request: tonic::Request<Streaming<v1::AgentMessage>>,
    ) -> Answer<Self::AgentStream> {
        let grant = Grant::of(&request)?.require(Role::Agent)?;
        let mut messages = request.into_inner();
        let first = tokio::time::timeout(SILENCE, messages.message()).await;
        let late = |_| Status::invalid_argument("an agent's first message is a Register");
        let Some(Message::Register(register)) =
            first.map_err(late)??.and_then(|first| first.message)
        else {
            return Err(Status::invalid_argument("an agent's first message is a Register"));
        };
        let v1::Register { server, incarnation, processes } = register;
        grant.require_server(&server)?;
        let processes = processes.into_iter().map(ProcessState::try_from);
        let processes = processes.collect::<Result<_, _>>();
        let processes = processes.map_err(|error| Status::invalid_argument(error.to_string()))?;
        let connection = self.connections.fetch_add(1, Ordering::Relaxed);
        let (to_agent, told) = agent_channel();
        let inputs = self.inputs.clone();
        let ended = |_| Status::unavailable("the manager has ended");
        inputs.send(Input::Connected(connection, ToAgentSender(to_agent))).map_err(ended)?;
        let registered = Event::Registered { connection, server, incarnation, processes };
        inputs.send(Input::Event(registered)).map_err(ended)?;
        tokio::spawn(async move {
            listen(&mut messages, &inputs, connection).await;
            let _ = inputs.send(Input::Event(Event::Disconnected(connection)));
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(told))))
    }
}

/// Whether a job is the business of a client.
fn is_for(record: &Record, grant: &Grant) -> bool {
    grant.covers(record.request.tenant.as_deref())
}

/// Streams the state of a job until it is over or the client leaves.
async fn follow(
    v1::WatchRequest { job_id: id, history }: v1::WatchRequest,
    mut view: watch::Receiver<View>,
    states: mpsc::Sender<Result<v1::WatchResponse, Status>>,
) {
    let mut last: Option<v1::Job> = None;
    loop {
        let (job, over) = {
            let view = view.borrow_and_update();
            let Some(record) = view.jobs.get(&id) else { return };
            let mut job = view.describe(record);
            if history {
                job.history = record.history.iter().map(Into::into).collect();
            }
            (Some(job), record.phase.is_over())
        };
        // What it waits for may change without its record.
        if job != last {
            let state = v1::WatchResponse { job: job.clone() };
            if states.send(Ok(state)).await.is_err() || over {
                return;
            }
            last = job;
        }
        tokio::select! {
            changed = view.changed() => if changed.is_err() { return },
            () = states.closed() => return,
        }
    }
}

/// Forwards an agent's messages until the connection ends.
async fn listen(
    messages: &mut Streaming<v1::AgentMessage>,
    inputs: &Sender<Input>,
    connection: u64,
) {
    loop {
        let message = tokio::time::timeout(SILENCE, messages.message()).await;
        let Ok(Ok(Some(v1::AgentMessage { message: Some(message) }))) = message else { return };
        let input = match message {
            Message::Beat(v1::Beat { number }) => Input::Beat(connection, number),
            Message::Report(report) => match report.try_into() {
                Ok(process) => Input::Event(Event::Reported(connection, process)),
                Err(error) => return tracing::warn!("invalid report of an agent: {error}"),
            },
            Message::LogPart(part) => Input::LogPart(connection, part),
            Message::Register(_) => return tracing::warn!("an agent registers twice"),
        };
        if inputs.send(input).is_err() {
            return;
        }
    }
}
