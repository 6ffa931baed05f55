//! The gRPC service: converts requests to values, and answers to messages.

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::time::Duration;

use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, Streaming};
use tributary_access::{Grant, Policy, Role};
use tributary_api::jobs::v1;
use tributary_api::jobs::v1::jobs_server::Jobs as Service;
use tributary_model::job::Progress;
use tributary_model::{Aggregation, HostId, LONGEST_PAUSE, Limits, Topology};
use tributary_protocol::priority::Priority;
use tributary_protocol::{Assignment, Rate};
use tributary_wire::{Epoch, JobId};

use super::messages::{bits_per_second, described, iteration};
use super::{Admission, Demand, Jobs, Refusal, taking};
use tributary_model::plan::Placement;

/// Longest name of a job, in characters.
const NAME: usize = 64;

/// Longest settings of a job, in bytes: they are a dozen of lines.
const SETTINGS: usize = 8 << 10;

/// Longest key of a job, in bytes.
const KEY: usize = 64;

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Service for Jobs {
    type TakeStream = taking::Told;

    async fn take(&self, request: Request<Streaming<v1::TakeRequest>>) -> Answer<Self::TakeStream> {
        self.take_part(request).await
    }

    async fn admit(&self, request: Request<v1::AdmitRequest>) -> Answer<v1::AdmitResponse> {
        let grant = Grant::of(&request)?.require(Role::Submit)?;
        let tenant = self::name("tenant", request.get_ref().tenant.clone())?;
        let tenant = grant.on_behalf_of(&tenant, Policy::of(&request))?;
        let request = request.into_inner();
        let settings = Some(request.settings.clone()).filter(|settings| !settings.is_empty());
        if self.protocol().has_reminder_agent() && settings.is_none() {
            return Err(invalid(
                "jobs of esa, whose endpoints need tokens, are admitted with their settings; give them, or write the \
                 job into the controller's job file",
            ));
        }
        if request.settings.len() > SETTINGS {
            return Err(invalid(format!("the settings of a job have at most {SETTINGS} bytes")));
        }
        if request.key.len() > KEY {
            return Err(invalid(format!("a job's key has at most {KEY} bytes")));
        }
        let any_id = request.job_id == 0;
        let limits = limits(&request)?;
        let placement = placement(self, &request, any_id)?;
        let placement = Placement { limits: placement.limits.and(limits), ..placement };
        let name = name("job", request.name.clone())?;
        let continued = Epoch::new(request.epoch);
        let (aggregation, size) = match (request.aggregation(), request.size) {
            (v1::Aggregation::Unspecified, size) if settings.is_some() => {
                (None, Some(size).filter(|size| *size > 0))
            }
            (v1::Aggregation::Network, 0) if settings.is_some() => {
                (Some(Aggregation::Network), None)
            }
            (aggregation, size) => {
                let (aggregation, size) = wish(aggregation, size)?;
                (Some(aggregation), Some(size))
            }
        };
        let demand = request.demand.map(demand).transpose()?;
        let (lease, stepped) = (request.lease, request.stepped);
        let admission = Admission {
            placement,
            any_id,
            continued,
            aggregation,
            size,
            demand,
            name,
            lease,
            stepped,
            settings,
            key: request.key,
            tenant,
        };
        let Placement { job, epoch, assignment, limits, ps, .. } =
            Jobs::admit(self, admission).await?;
        let parameter_server = ps.map(|ps| self.topology().host(ps).name.clone());
        let parameter_server = parameter_server.unwrap_or_default();
        let (job_id, epoch, rate) = (job.get().into(), epoch.get(), bits_per_second(limits.rate));
        let assignment = Some(described(assignment));
        let response = v1::AdmitResponse { assignment, epoch, job_id, rate, parameter_server };
        Ok(Response::new(response))
    }

    async fn release(&self, request: Request<v1::ReleaseRequest>) -> Answer<v1::ReleaseResponse> {
        let grant = Grant::of(&request)?.require(Role::Submit)?;
        let freed = self.release_for(&grant, job(request.get_ref().job_id)?).await?;
        Ok(Response::new(v1::ReleaseResponse { freed }))
    }

    async fn r#move(&self, request: Request<v1::MoveRequest>) -> Answer<v1::MoveResponse> {
        let grant = Grant::of(&request)?.require(Role::Submit)?;
        let request = request.into_inner();
        let job = job(request.job_id)?;
        let (aggregation, size) = wish(request.aggregation(), request.size)?;
        let assignment = self.relocate_for(&grant, job, aggregation.into(), size).await?;
        Ok(Response::new(v1::MoveResponse { assignment: Some(described(assignment)) }))
    }

    async fn set_rate(&self, request: Request<v1::SetRateRequest>) -> Answer<v1::SetRateResponse> {
        let v1::SetRateRequest { job_id, rate } = *request.get_ref();
        Jobs::set_rate(self, self.own_job(&request, job_id)?, Rate::new(rate))?;
        Ok(Response::new(v1::SetRateResponse {}))
    }

    async fn start_iteration(
        &self,
        request: Request<v1::StartIterationRequest>,
    ) -> Answer<v1::StartIterationResponse> {
        let v1::StartIterationRequest { job_id, number } = *request.get_ref();
        let job = self.own_job(&request, job_id)?;
        let Progress { iteration: begun, assignment, .. } = self.start(job, number)?;
        let (iteration, assignment) = (Some(iteration(begun)), Some(described(assignment)));
        Ok(Response::new(v1::StartIterationResponse { iteration, assignment }))
    }

    async fn finish_iteration(
        &self,
        request: Request<v1::FinishIterationRequest>,
    ) -> Answer<v1::FinishIterationResponse> {
        let v1::FinishIterationRequest { job_id, number, worker } = *request.get_ref();
        let job = self.own_job(&request, job_id)?;
        let now = self.finish(job, number, worker)?.iteration;
        Ok(Response::new(v1::FinishIterationResponse { iteration: Some(iteration(now)) }))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::WatchResponse, Status>> + Send>>;

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Answer<Self::WatchStream> {
        let grant = Grant::of(&request)?.require(Role::Observe)?;
        let v1::WatchRequest { job_id, epoch: run } = request.into_inner();
        let job = job(job_id)?;
        let watched = self.check_owner(job, &grant).and_then(|()| Jobs::watch(self, job));
        let watched = match watched {
            Err(Refusal::Unknown(_)) if run != 0 && self.has_released(job) => {
                return Ok(Response::new(Box::pin(tokio_stream::empty())));
            }
            watched => watched,
        };
        let told = WatchStream::new(watched?).map(|(epoch, progress)| {
            Ok(v1::WatchResponse {
                iteration: Some(iteration(progress.iteration)),
                assignment: Some(described(progress.assignment)),
                rate: bits_per_second(progress.rate),
                epoch: epoch.get(),
            })
        });
        Ok(Response::new(Box::pin(told)))
    }

    async fn list(&self, request: Request<v1::ListRequest>) -> Answer<v1::ListResponse> {
        let grant = Grant::of(&request)?.require(Role::Observe)?;
        let topology = self.topology();
        let listed = Jobs::list(self).into_iter();
        let listed = listed.filter(|listed| grant.covers(listed.tenant.as_deref()));
        let jobs = listed.map(|listed| v1::Job {
            job_id: listed.placement.job.get().into(),
            epoch: listed.placement.epoch.get(),
            assignment: Some(described(listed.placement.assignment)),
            iteration: Some(iteration(listed.iteration)),
            workers: names(topology, &listed.placement.workers).collect(),
            parameter_server: names(topology, listed.placement.ps.as_slice()).collect(),
            rate: bits_per_second(listed.rate),
            demand: listed.demand.map(|demand| v1::Demand {
                bits: demand.bits.get(),
                iterations: demand.iterations.map_or(0, NonZeroU64::get),
                aggregators: demand.aggregators,
                update_us: micros(demand.update),
            }),
            name: listed.name,
            tenant: listed.tenant.unwrap_or_default(),
            lease: listed.held.map(|held| v1::Lease { held }),
            stepped: listed.stepped,
        });
        let memory = self.room().into_iter().map(|room| v1::Memory {
            switch: topology.switch(room.switch).name.clone(),
            aggregators: room.aggregators,
            free: room.free,
            largest: room.largest,
        });
        let (jobs, memory) = (jobs.collect(), memory.collect());
        Ok(Response::new(v1::ListResponse { jobs, memory }))
    }
}

impl Jobs {
    /// The job of a request that changes it or takes part in it.
    fn own_job<T>(&self, request: &Request<T>, id: u32) -> Result<JobId, Status> {
        let grant = Grant::of(request)?.require(Role::Submit)?;
        let job = job(id)?;
        self.check_owner(job, &grant)?;
        Ok(job)
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.code(), refusal.to_string())
    }
}

/// A name that can be printed.
fn name(of: &str, name: String) -> Result<String, Status> {
    if name.chars().count() > NAME || name.chars().any(char::is_control) {
        return Err(invalid(format!(
            "a {of}'s name has at most {NAME} characters, none of them a control character"
        )));
    }
    Ok(name)
}

fn demand(message: v1::Demand) -> Result<Demand, Status> {
    let v1::Demand { bits, iterations, aggregators, update_us } = message;
    let bits = NonZeroU64::new(bits);
    let bits = bits.ok_or_else(|| invalid("say how many bits a worker sends in an iteration"))?;
    let (iterations, update) = (NonZeroU64::new(iterations), Duration::from_micros(update_us));
    if update > LONGEST_PAUSE {
        return Err(invalid(format!("an update takes at most {LONGEST_PAUSE:?}")));
    }
    Ok(Demand { bits, iterations, aggregators, update })
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn invalid(message: impl Into<String>) -> Status {
    Status::invalid_argument(message)
}

fn job(id: u32) -> Result<JobId, Status> {
    let job = u16::try_from(id).ok().and_then(JobId::new);
    job.ok_or_else(|| invalid(format!("a job ID is between 1 and {}, not {id}", u16::MAX)))
}

/// The requested place of aggregation and number of aggregators.
fn wish(aggregation: v1::Aggregation, size: u32) -> Result<(Aggregation, u32), Status> {
    match aggregation {
        v1::Aggregation::Unspecified => Err(invalid("say where the job is to be summed")),
        v1::Aggregation::Server => Ok((Aggregation::Server, 0)),
        v1::Aggregation::Network if size == 0 => {
            Err(invalid("say how many aggregators the job is to have"))
        }
        v1::Aggregation::Network => Ok((Aggregation::Network, size)),
    }
}

/// The limits that the client asks for.
fn limits(request: &v1::AdmitRequest) -> Result<Limits, Status> {
    let priority = u8::try_from(request.max_priority)
        .map_err(|_| invalid("a priority is between 1 and 255; 0 is no limit"))?;
    let priority = Priority::new(priority).unwrap_or(Priority::HIGHEST);
    let (rate, preemption) = (Rate::new(request.max_rate), Rate::new(request.max_preemption));
    Ok(Limits { rate, preemption, priority })
}

/// The placement in the request, or else the known one. The epoch is issued when the job is
/// admitted.
fn placement(jobs: &Jobs, request: &v1::AdmitRequest, any_id: bool) -> Result<Placement, Status> {
    if any_id && request.workers.is_empty() {
        return Err(invalid("name the job's workers, or its ID in the controller's job file"));
    }
    // Another ID is chosen when the job is admitted.
    let job = job(if any_id { 1 } else { request.job_id })?;
    if request.workers.is_empty() {
        let known = jobs.known(job);
        let unknown =
            || format!("the controller's job file has no job {job}: say where its workers are");
        return known.ok_or_else(|| Status::not_found(unknown()));
    }
    let host = |name: &String| jobs.host(name);
    let workers = request.workers.iter().map(host).collect::<Result<Vec<_>, _>>()?;
    let ps = Some(&request.parameter_server).filter(|name| !name.is_empty());
    let ps = ps.map(host).transpose()?;
    let fit = jobs.topology().racks(&workers, ps, jobs.protocol(), false);
    fit.map_err(|unfit| invalid(unfit.to_string()))?;
    let apart = ps.iter().filter(|_| !jobs.protocol().allows_server_beside_worker());
    let apart: Vec<_> = workers.iter().chain(apart).collect();
    if apart.iter().collect::<BTreeSet<_>>().len() < apart.len() {
        return Err(invalid("the workers and the parameter server are on different hosts each"));
    }
    let (agent, aggregation) = (None, Aggregation::Network);
    Ok(Placement {
        job,
        epoch: Epoch::FIRST,
        workers,
        ps,
        agent,
        aggregation,
        adding: None,
        assignment: Assignment::NONE,
        two_levels: false,
        limits: Limits::NONE,
    })
}

/// Host names of a placement, for clients, which do not know host numbers.
fn names<'t>(topology: &'t Topology, hosts: &'t [HostId]) -> impl Iterator<Item = String> + 't {
    hosts.iter().map(|&host| topology.host(host).name.clone())
}
