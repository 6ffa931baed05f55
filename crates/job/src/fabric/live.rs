//! What the real-time fabrics share: a controller over P4Runtime, and notes from other threads.

use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tributary_controller::Deployment;
use tributary_controller::client::SwitchConfig;
use tributary_controller::jobs::Controller;
use tributary_controller::programs::Pipeline;

use super::{Note, Removed};

/// How long to wait for a note before the run checks other things.
const TICK: Duration = Duration::from_millis(50);

/// A controller, and the notes of endpoints.
pub(super) struct Live {
    /// Set while the switches run.
    controller: Option<Controller>,
    pub(super) notes: UnboundedSender<Note>,
    inbox: UnboundedReceiver<Note>,
    started: Instant,
}

impl Live {
    pub(super) fn new() -> Self {
        let (notes, inbox) = unbounded_channel();
        Self { controller: None, notes, inbox, started: Instant::now() }
    }

    /// Connects to the switches and pushes the program and forwarding.
    pub(super) async fn connect(
        &mut self,
        deployment: &Deployment,
        switches: Vec<SwitchConfig>,
        pipeline: &Pipeline,
    ) -> Result<()> {
        let topology = &deployment.scenario().topology;
        self.controller = Some(Controller::connect(topology, switches, pipeline).await?);
        Ok(())
    }

    fn controller(&self) -> &Controller {
        self.controller.as_ref().expect("the switches run")
    }

    pub(super) async fn admit(&self, deployment: &Deployment, job: usize) -> Result<()> {
        self.controller().admit(&deployment.placement(job)).await?;
        Ok(())
    }

    /// Records the start of the endpoints.
    pub(super) fn begin(&mut self) {
        self.started = Instant::now();
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

    /// Drops the controller. Must happen before the switches stop, which it would report as lost.
    pub(super) fn end(&mut self) {
        self.controller = None;
    }
}
