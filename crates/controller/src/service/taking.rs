//! Endpoints that take part in jobs, each with a stream.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use tributary_access::{Grant, Role};
use tributary_api::jobs::v1;
use tributary_model::job::{Begin, Event, Notice, Refusal as Turned, Stream};
use tributary_model::{HostId, JobSpec, worker_index};
use tributary_protocol::Assignment;
use tributary_wire::{Epoch, JobId, WorkerIndex};

use super::client::{Outbox, Reader};
use super::{Admitted, Jobs, Part, State, messages};

/// How long a client may take to name itself.
const FIRST_MESSAGE: Duration = Duration::from_secs(10);

/// What a client is told.
pub(super) type Told = ReceiverStream<Result<v1::TakeResponse, Status>>;

/// What the stream of a host is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Host {
    Server(HostId),
    Agent(HostId),
}

impl Host {
    /// Whether a job has this part on the host.
    fn serves(self, job: &Admitted) -> bool {
        let (ps, agent) = (job.placement.ps, job.placement.agent);
        match self {
            _ if job.described.is_none() => false,
            Self::Server(host) => ps == Some(host),
            Self::Agent(host) => agent == Some(host) && ps != Some(host),
        }
    }
}

/// A client that has named itself.
struct Client {
    jobs: Vec<(JobId, u64)>,
    host: Option<Host>,
    stream: Stream,
    outbox: Arc<Outbox>,
    /// How it enters the jobs, when it is ready.
    enters: Option<Event>,
}

impl Jobs {
    /// A new stream.
    pub(super) async fn take_part(
        &self,
        request: Request<Streaming<v1::TakeRequest>>,
    ) -> Result<Response<Told>, Status> {
        let grant = Grant::of(&request)?;
        let mut requests = request.into_inner();
        let first = tokio::time::timeout(FIRST_MESSAGE, requests.message()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("no endpoint was named"))??;
        match messages::role(first)? {
            messages::Role::Worker { job, key, which, run } => {
                let mut state = self.state();
                let job = self.named(&state, &job, &key, run, grant)?;
                let worker = match which {
                    messages::Which::Index(worker) => worker,
                    messages::Which::Host(host) => self.worker_on(&state, job, &host)?,
                };
                // A worker in a run has what it needs.
                let setup = run.is_none();
                let setup =
                    setup.then(|| self.worker_setup(&mut state, job, worker)).transpose()?;
                let enters = |stream| Event::Take(stream, worker, run);
                Ok(self.open(&mut state, &[job], None, enters, setup, requests))
            }
            messages::Role::Server(host) => self.open_host(&host, Host::Server, grant, requests),
            messages::Role::Agent(host) => self.open_host(&host, Host::Agent, grant, requests),
        }
    }

    /// A new stream to all jobs that a host serves.
    fn open_host(
        &self,
        name: &str,
        part: fn(HostId) -> Host,
        grant: Grant,
        requests: Streaming<v1::TakeRequest>,
    ) -> Result<Response<Told>, Status> {
        let at = self.host(name)?;
        // It serves jobs of all tenants. An agent does so on its own host.
        if grant.require_server(&self.topology().host(at).name).is_err() {
            must_be_operators(&grant.require(Role::Submit)?)?;
        }
        let host = part(at);
        let mut state = self.state();
        let entries = state.jobs.iter();
        let admitted = entries.filter_map(|(id, entry)| Some((*id, entry.admitted()?)));
        let own: Vec<_> = admitted.filter(|(_, job)| host.serves(job)).collect();
        let setup = self.setup_of(own.iter().map(|(_, job)| *job));
        let jobs: Vec<JobId> = own.iter().map(|(id, _)| *id).collect();
        Ok(self.open(&mut state, &jobs, Some(host), Event::Follow, Some(setup), requests))
    }

    /// A new stream to these jobs, which the client enters at once, or when it has used its set-up.
    fn open(
        &self,
        state: &mut State,
        jobs: &[JobId],
        host: Option<Host>,
        event: impl FnOnce(Stream) -> Event,
        setup: Option<v1::Setup>,
        requests: Streaming<v1::TakeRequest>,
    ) -> Response<Told> {
        let (client, answers) = mpsc::channel(1);
        let outbox = Arc::new(Outbox::default());
        state.last_stream += 1;
        let stream = Stream(state.last_stream);
        state.clients.insert(stream, Arc::clone(&outbox));
        state.hosts.extend(host.map(|host| (stream, host)));
        let event = event(stream);
        let enters = match setup {
            Some(setup) => {
                outbox.put(Ok(messages::setup(setup)));
                Some(event)
            }
            None => {
                jobs.iter().for_each(|job| self.handle_in(state, *job, event.clone()));
                None
            }
        };
        let serial = |job: &JobId| Some((*job, state.admitted(*job)?.serial));
        let jobs = jobs.iter().filter_map(serial).collect();
        let opened = Client { jobs, host, stream, outbox, enters };
        tokio::spawn(self.clone().attend(opened, requests, client));
        Response::new(ReceiverStream::new(answers))
    }

    /// A client's stream, from its first message to its end.
    async fn attend(
        self,
        Client { jobs, host, stream, outbox, mut enters }: Client,
        mut requests: Streaming<v1::TakeRequest>,
        client: mpsc::Sender<Result<v1::TakeResponse, Status>>,
    ) {
        let mut reader = Reader::default();
        'open: loop {
            tokio::select! {
                request = requests.message() => match request.map(|some| some.and_then(messages::said)) {
                    Ok(Some(messages::Said::Ready)) => {
                        if let Some(event) = enters.take() {
                            self.enter(&jobs, host, &outbox, &event);
                        }
                    }
                    Ok(Some(messages::Said::Stopped(run, stopped))) => {
                        let event = Event::Stopped(stream, run, stopped);
                        jobs.iter().for_each(|(job, _)| self.handle(*job, event.clone()));
                    }
                    Ok(Some(messages::Said::Finished(run, number))) => {
                        jobs.iter().for_each(|(job, _)| self.finish_on(*job, stream, run, number));
                    }
                    Ok(Some(messages::Said::Reached(rounds))) => {
                        let event = Event::Reached(stream, rounds);
                        jobs.iter().for_each(|(job, _)| self.handle(*job, event.clone()));
                    }
                    Ok(Some(messages::Said::Failed(why))) => {
                        let event = Event::Failed(stream, why);
                        jobs.iter().for_each(|(job, _)| self.handle(*job, event.clone()));
                    }
                    Ok(Some(messages::Said::Nothing)) => {}
                    Ok(None) | Err(_) => break,
                },
                notice = reader.next(&outbox) => {
                    let last = messages::is_last(&notice);
                    // The client may have gone.
                    if client.send(notice).await.is_err() || last {
                        break 'open;
                    }
                }
            }
        }
        {
            let mut state = self.state();
            state.clients.remove(&stream);
            state.hosts.remove(&stream);
        }
        jobs.iter().for_each(|(job, _)| self.handle(*job, Event::Gone(stream)));
    }

    /// An endpoint has used its set-up. Since it was made, jobs may have been released, and others have their IDs.
    fn enter(&self, jobs: &[(JobId, u64)], host: Option<Host>, outbox: &Outbox, event: &Event) {
        let mut state = self.state();
        for (job, serial) in jobs {
            match state.admitted(*job) {
                Some(admitted) if admitted.serial == *serial => {
                    self.handle_in(&mut state, *job, event.clone());
                }
                _ if host.is_some() => outbox.put(Ok(messages::changed())),
                _ => outbox.put(Err(Status::failed_precondition(
                    "the job was released before the worker was ready",
                ))),
            }
        }
    }

    /// Tells hosts that serve a job that it has come, or that it goes.
    pub(super) fn tell_hosts(&self, state: &mut State, job: JobId) {
        let Some(admitted) = state.admitted(job) else { return };
        let told = state.hosts.iter().filter(|(_, host)| host.serves(admitted));
        let told: Vec<(Stream, Host)> = told.map(|(stream, host)| (*stream, *host)).collect();
        for (stream, host) in told {
            if let Some(client) = state.clients.get(&stream) {
                client.put(Ok(messages::changed()));
            }
            if let Host::Server(host) = host {
                state.called.insert(host, Instant::now());
            }
        }
    }

    /// What a worker of a job needs to take part. All workers of a job get the same.
    fn worker_setup(
        &self,
        state: &mut State,
        job: JobId,
        worker: WorkerIndex,
    ) -> Result<v1::Setup, Status> {
        let admitted = state.admitted_mut(job);
        let admitted =
            admitted.ok_or_else(|| Status::not_found(format!("there is no job {job}")))?;
        let mut setup = match &admitted.setup {
            Some(encoded) => {
                let empty = v1::Setup::default();
                v1::Setup { deployment: encoded.to_vec(), ..self.about([&*admitted], empty) }
            }
            None => self.setup_of([&*admitted]),
        };
        admitted.setup.get_or_insert_with(|| Arc::new(setup.deployment.clone()));
        setup.lease = admitted.life.rules().grace.is_some();
        setup.worker = worker.get().into();
        Ok(setup)
    }

    /// What endpoints of these jobs need.
    fn setup_of<'j>(&self, jobs: impl IntoIterator<Item = &'j Admitted>) -> v1::Setup {
        let jobs: Vec<&Admitted> = jobs.into_iter().collect();
        let lanes = |job: &'j Admitted| {
            // The assignment of a job with iterations is part of each turn: the job may move before its workers are ready.
            let stepped = job.life.rules().stepped;
            let of = move |lane: &Part| if stepped { Assignment::NONE } else { lane.assignment };
            job.parts().iter().map(move |lane| (lane.spec.clone(), of(lane)))
        };
        let lanes = jobs.iter().copied().flat_map(lanes);
        let deployment = self.0.known.deployment_of(lanes);
        let deployment = serde_json::to_vec(&deployment).expect("plain values");
        self.about(jobs, v1::Setup { deployment, ..v1::Setup::default() })
    }

    /// Adds what the deployment of these jobs does not have.
    fn about<'j>(
        &self,
        jobs: impl IntoIterator<Item = &'j Admitted>,
        setup: v1::Setup,
    ) -> v1::Setup {
        let (mut tokens, mut stepped) = (Vec::new(), Vec::new());
        for job in jobs {
            for lane in job.parts() {
                if job.life.rules().stepped {
                    stepped.push(u32::try_from(tokens.len()).expect("a file has fewer jobs"));
                }
                tokens.push(lane.token.map_or_else(Vec::new, |token| token.0.to_vec()));
            }
        }
        v1::Setup { tokens, stepped, ..setup }
    }

    /// The worker of a job on a host.
    fn worker_on(&self, state: &State, job: JobId, host: &str) -> Result<WorkerIndex, Status> {
        let at = self.host(host)?;
        let unknown = || Status::not_found(format!("there is no job {job}"));
        let admitted = state.admitted(job).ok_or_else(unknown)?;
        let worker = admitted.placement.workers.iter().position(|worker| *worker == at);
        worker.map(worker_index).ok_or_else(|| {
            let (name, known) = (admitted.name(), &self.topology().host(at).name);
            Status::invalid_argument(format!("job {name} has no worker on host `{known}`"))
        })
    }

    /// The host with a name, or with one of some IP addresses with commas in between.
    pub(super) fn host(&self, name: &str) -> Result<HostId, Status> {
        let topology = self.topology();
        if let Some(host) = topology.host_named(name) {
            return Ok(host);
        }
        let all: Vec<Ipv4Addr> = name.split(',').filter_map(|ip| ip.parse().ok()).collect();
        let hosts =
            topology.host_ids().filter(|host| all.contains(&topology.host(*host).address.ip));
        let hosts: Vec<HostId> = hosts.collect();
        match hosts[..] {
            [host] => Ok(host),
            [] => Err(Status::invalid_argument(format!("the network has no host `{name}`"))),
            [first, second, ..] => {
                let [first, second] = [first, second].map(|host| &topology.host(host).name);
                Err(Status::invalid_argument(format!(
                    "the hosts `{first}` and `{second}` of the network both have one of the addresses {name}"
                )))
            }
        }
    }

    /// The job that a worker wants to take part in, or already does.
    fn named(
        &self,
        state: &State,
        job: &messages::Named,
        key: &[u8],
        run: Option<Epoch>,
        grant: Grant,
    ) -> Result<JobId, Status> {
        let mut entries = state.jobs.iter();
        let takeable = entries.find_map(|(id, entry)| {
            let admitted = entry.admitted()?;
            let described = admitted.described.as_ref()?;
            let is_it = match job {
                messages::Named::Id(job) => job == id,
                // Clients give any name to jobs that are not in the file.
                messages::Named::Name(name) => described.of_file && admitted.name() == name,
            };
            is_it.then_some((*id, entry, described))
        });
        if let Some((id, entry, described)) = takeable {
            if !described.key().is_empty() && !described.opens_with(key) {
                let why = format!("this is not the key of {job}; ask the owner of the job for it");
                return Err(Status::permission_denied(why));
            }
            if described.key().is_empty()
                && !grant.require(Role::Submit)?.covers(entry.tenant.as_deref())
            {
                let why = format!("{job} is another tenant's, or the operator's");
                return Err(Status::permission_denied(why));
            }
            return Ok(id);
        }
        let grant = grant.require(Role::Submit);
        let mut known = self.0.known.deployment.scenario().whole_jobs();
        let is_known = known.any(|(_, known)| match job {
            messages::Named::Id(job) => known.id == *job,
            messages::Named::Name(name) => known.name == *name,
        });
        let (name, unknown) = match job {
            messages::Named::Name(name) => (name.clone(), format!("there is no job `{name}`")),
            messages::Named::Id(job) => {
                (job.to_string(), format!("there is no job {job} in which workers can take part"))
            }
        };
        match run {
            _ if !is_known => Err(Status::not_found(unknown)),
            // The job may be about to be admitted again for the same run, if nobody can know that it is over.
            Some(_) if self.0.journal.lasts() => {
                Err(Status::failed_precondition(Turned::Released(name).to_string()))
            }
            _ => grant.and(Err(Status::aborted(format!("{job} is not admitted yet")))),
        }
    }

    /// The place of a job among the known ones.
    pub(super) fn index(&self, job: JobId) -> Option<usize> {
        self.0.known.deployment.scenario().jobs.iter().position(|known| known.id == job)
    }

    /// What is known of a job.
    pub(super) fn spec(&self, job: JobId) -> Option<&JobSpec> {
        self.index(job).map(|at| self.0.known.deployment.job(at))
    }
}

fn must_be_operators(grant: &Grant) -> Result<(), Status> {
    match grant.covers(None) {
        true => Ok(()),
        false => Err(Status::permission_denied(
            "the jobs of the controller's file are the operator's, and no tenant's",
        )),
    }
}

impl Admitted {
    /// Its lanes, if endpoints can take part.
    fn parts(&self) -> &[Part] {
        self.described.as_ref().map_or(&[], |described| &described.lanes)
    }

    pub(super) fn message(&self, notice: Notice) -> Result<v1::TakeResponse, Status> {
        let run = |Begin { epoch, workers, rounds }: Begin| v1::Run {
            job: self.name().to_owned(),
            epochs: self
                .epochs
                .get(&epoch)
                .into_iter()
                .flatten()
                .map(|epoch| epoch.get())
                .collect(),
            workers: messages::indices(workers),
            rounds,
        };
        messages::response(notice, self.name(), run)
    }
}
