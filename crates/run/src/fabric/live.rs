//! What the real-time fabrics share: a controller over P4Runtime, alone or with the control loop around
//! it, and notes from other threads.

use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tributary_access::{Door, Listen, Server};
use tributary_controller::client::SwitchConfig;
use tributary_controller::jobs::Controller;
use tributary_controller::programs::Pipeline;
use tributary_controller::server::LIMITS;
use tributary_controller::service::{Admission, Demand, Jobs, Known};
use tributary_endpoint::tokens::Tokens;
use tributary_model::{
    Aggregation, Deployment, JobSpec, Orchestration, SwitchId, circuits::Circuits, plan::Placement,
};
use tributary_optical::crossconnect::CrossConnect;
use tributary_optical::orchestrator::live::{Live as Plant, carries};
use tributary_optical::orchestrator::planner::Planner;
use tributary_p4runtime::p4::v1::Entity;
use tributary_protocol::Tensor;
use tributary_wire::JobId;
use tributary_worker::workload;

use super::{Counted, Note, Removed};

/// How long to wait for a note before the run checks other things.
const TICK: Duration = Duration::from_millis(50);

/// Who controls the switches.
enum Control {
    /// Jobs are admitted once, and run as they like.
    Plain(Arc<Controller>),
    /// The control loop schedules them.
    Orchestrated(Box<Orchestrated>),
}

struct Orchestrated {
    jobs: Jobs,
    /// Where endpoints follow their jobs.
    _server: Server,
    /// What is needed to start the loop.
    idle: Option<(Plant, Planner, Orchestration)>,
    /// Ends the loop when dropped.
    stop: Option<oneshot::Sender<()>>,
}

/// A controller, and the notes of endpoints.
pub(super) struct Live {
    /// Set while the switches run.
    control: Option<Control>,
    /// Where endpoints take part in jobs, if these wait for nobody.
    jobs: Option<(Jobs, Server)>,
    pub(super) notes: UnboundedSender<Note>,
    inbox: UnboundedReceiver<Note>,
    started: Instant,
}

impl Live {
    pub(super) fn new() -> Self {
        let (notes, inbox) = unbounded_channel();
        Self { control: None, jobs: None, notes, inbox, started: Instant::now() }
    }

    /// Connects to the switches and pushes the program and forwarding.
    pub(super) async fn connect(
        &mut self,
        deployment: &Deployment,
        switches: Vec<SwitchConfig>,
        pipeline: &Pipeline,
    ) -> Result<()> {
        let topology = &deployment.scenario().network.topology;
        let controller = Controller::connect(topology, switches, pipeline).await?;
        self.control(Arc::new(controller));
        Ok(())
    }

    /// Goes on with a controller that has done so.
    pub(super) fn control(&mut self, controller: Arc<Controller>) {
        self.control = Some(Control::Plain(controller));
    }

    /// Lets endpoints take part in the jobs at this Unix socket, after all were admitted.
    pub(super) async fn serve_jobs(
        &mut self,
        deployment: &Deployment,
        socket: &Path,
    ) -> Result<()> {
        let Some(Control::Plain(controller)) = &self.control else { return Ok(()) };
        let tokens = Tokens::draw(deployment.scenario()).by_job();
        let known = Known { tokens, own: true, ..deployment.clone().into() };
        let jobs = Jobs::new(Arc::clone(controller), known);
        let door = Door::unlocked(Listen::Unix(socket.to_owned()));
        let server = Server::start(jobs.service(), door, LIMITS).await?;
        self.jobs = Some((jobs, server));
        Ok(())
    }

    /// Whether endpoints have begun a run of a job.
    pub(super) fn has_begun(&self, job: JobId) -> bool {
        let served = self.jobs.as_ref().and_then(|(jobs, _)| jobs.served(job));
        served.is_some_and(|served| served.begun)
    }

    /// The same for switches around a cross-connect, which is dark. Endpoints follow their jobs at this
    /// Unix socket.
    pub(super) async fn orchestrate(
        &mut self,
        deployment: &Deployment,
        switches: Vec<SwitchConfig>,
        pipeline: &Pipeline,
        cross_connect: Box<dyn CrossConnect>,
        socket: &Path,
    ) -> Result<()> {
        let scenario = deployment.scenario();
        let settings = scenario.orchestration.context("units have a schedule")?;
        let topology = scenario.network.topology.patched(&Circuits::DARK)?;
        let controller = Controller::connect(&topology, switches, pipeline).await?;
        let carries = Some(carries(&topology, &settings));
        let known = Known { carries, ..Deployment::unassigned(scenario.clone()).into() };
        let jobs = Jobs::new(controller, known);
        let door = Door::unlocked(Listen::Unix(socket.to_owned()));
        let server = Server::start(jobs.service(), door, LIMITS).await?;
        let plant = Plant::new(jobs.clone(), cross_connect).keep_done();
        let planner = Planner::new(&topology, &settings);
        let idle = Some((plant, planner, settings));
        let orchestrated = Orchestrated { jobs, _server: server, idle, stop: None };
        self.control = Some(Control::Orchestrated(Box::new(orchestrated)));
        Ok(())
    }

    pub(super) fn controller(&self) -> &Arc<Controller> {
        match self.control.as_ref().expect("the switches run") {
            Control::Plain(controller) => controller,
            Control::Orchestrated(orchestrated) => orchestrated.jobs.controller(),
        }
    }

    pub(super) async fn admit(&self, deployment: &Deployment, job: usize) -> Result<()> {
        if let Some(Control::Orchestrated(orchestrated)) = &self.control {
            let job = deployment.job(job);
            let placement = Placement::unassigned(job);
            let demand = Some(demand(job)?);
            let admission = Admission::new(placement, Aggregation::Server, 0);
            orchestrated.jobs.admit(Admission { demand, ..admission }).await?;
            return Ok(());
        }
        self.controller().admit(&deployment.placement(job)).await?;
        Ok(())
    }

    /// Records the start of the endpoints, and starts the control loop if there is one.
    pub(super) fn begin(&mut self) {
        self.started = Instant::now();
        if let Some(Control::Orchestrated(orchestrated)) = &mut self.control
            && let Some((plant, planner, settings)) = orchestrated.idle.take()
        {
            let (stop, stopped) = oneshot::channel::<()>();
            orchestrated.stop = Some(stop);
            let notes = self.notes.clone();
            tokio::spawn(async move {
                let stopped = async {
                    // An error means that the sender was dropped, which also ends the loop.
                    let _ = stopped.await;
                };
                let tell = |report: &tributary_optical::orchestrator::slots::SlotReport| {
                    for problem in &report.problems {
                        tracing::warn!("{problem}");
                    }
                    for (job, end) in &report.released {
                        let what = format!("the control loop released job {job}: {end:?}");
                        drop(notes.send(Note::Broken(what)));
                    }
                };
                if let Err(error) = plant.run(planner, settings.slot, stopped, tell).await {
                    drop(notes.send(Note::Broken(format!("the control loop: {error}"))));
                }
            });
        }
    }

    /// Ends the control loop if there is one.
    pub(super) fn stop_loop(&mut self) {
        if let Some(Control::Orchestrated(orchestrated)) = &mut self.control {
            orchestrated.stop = None;
        }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub(super) async fn next_note(&mut self) -> Option<Note> {
        tokio::time::timeout(TICK, self.inbox.recv()).await.ok().flatten()
    }

    pub(super) async fn remove(&self, deployment: &Deployment, job: usize) -> Result<Vec<Removed>> {
        let (controller, job) = (self.controller(), deployment.job(job).id);
        // The job is removed whether or not its counters can be read.
        let outcomes = controller.outcomes(job).await;
        let evictions = controller.evictions(job).await;
        let freed = controller.remove(job).await?;
        let evictions = evictions?;
        let removed = outcomes?.into_iter().map(|(switch, outcomes)| Removed {
            switch,
            outcomes,
            evictions: evictions.get(&switch).copied().unwrap_or_default(),
            freed: freed.get(&switch).copied().unwrap_or_default(),
        });
        Ok(removed.collect())
    }

    pub(super) async fn counts(
        &self,
        deployment: &Deployment,
        job: usize,
    ) -> Result<Vec<(SwitchId, Counted)>> {
        let (controller, job) = (self.controller(), deployment.job(job).id);
        let evictions = controller.evictions(job).await?;
        let outcomes = controller.outcomes(job).await?;
        let counted = outcomes.into_iter().map(|(switch, outcomes)| {
            let evictions = evictions.get(&switch).copied().unwrap_or_default();
            (switch, Counted { outcomes, evictions })
        });
        Ok(counted.collect())
    }

    pub(super) async fn read(&self, switch: SwitchId, request: Vec<Entity>) -> Result<Vec<Entity>> {
        Ok(self.controller().switches()[switch.0].read(request).await?)
    }

    /// Drops the controller. Must happen before the switches stop, which it would report as lost.
    pub(super) fn end(&mut self) {
        self.jobs = None;
        self.control = None;
    }
}

/// What each worker of a job sends in an iteration. All rounds of a workload have the same size.
fn demand(job: &JobSpec) -> Result<Demand> {
    let mut workload = workload::of(job, 0).with_context(|| format!("job {}", job.name))?;
    let tensors = workload.next()?.unwrap_or_default();
    let values: usize = tensors.iter().map(Tensor::len).sum();
    let bits = NonZeroU64::new(32 * values as u64).unwrap_or(NonZeroU64::MIN);
    let iterations = NonZeroU64::new(workload.rounds());
    Ok(Demand { bits, iterations, aggregators: job.segment, update: job.update })
}
