//! The plant of real switches: a controller of jobs, and a cross-connect.

use std::num::NonZeroU64;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::crossconnect::{CrossConnect, Error};
use tokio::time::{Instant, MissedTickBehavior};
use tributary_base::Backoff;
use tributary_controller::service::{Carries, Jobs, Refusal};
use tributary_model::{HostId, Orchestration, SummedAt, SwitchId, Topology, circuits::Circuits};
use tributary_protocol::Rate;
use tributary_wire::JobId;

use crate::orchestrator::journal::Redb;
use crate::orchestrator::planner::{End, JobState, Planner};
use crate::orchestrator::slots::{Moved, Plant, SlotReport, slot};

/// Pause before a cross-connect that failed is asked again, doubled after each failure.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(16);

/// Real switches and a cross-connect.
#[derive(Debug)]
pub struct Live {
    jobs: Jobs,
    cross_connect: Box<dyn CrossConnect>,
    /// Over which the switches route: what the cross-connect has, or is not known not to have.
    circuits: Circuits,
    /// When the cross-connect may be asked again, if it failed.
    resting: Option<Instant>,
    backoff: Backoff,
    begin: Instant,
    /// Keeps the circuits for a controller that is started again.
    journal: Option<Arc<Redb>>,
    /// Whether it has them.
    kept: bool,
    /// Whether jobs whose iterations are all over stay admitted.
    keep_done: bool,
}

/// Which jobs with a demand the network of this topology can carry.
#[must_use]
pub fn carries(topology: &Topology, settings: &Orchestration) -> Carries {
    let planner = Planner::new(topology, settings);
    let topology = topology.clone();
    let unit = move |host: HostId| topology.attachment(host).0;
    Carries(Arc::new(move |placement| {
        let Some(server) = placement.ps else { return Ok(()) };
        let workers: Vec<SwitchId> = placement.workers.iter().map(|&host| unit(host)).collect();
        planner.carries(&workers, unit(server))
    }))
}

impl Live {
    /// The switches of a controller, and the cross-connect between them. Whatever circuits exist are
    /// routed over from the first slot on.
    #[must_use]
    pub fn new(jobs: Jobs, cross_connect: Box<dyn CrossConnect>) -> Self {
        Self {
            jobs,
            cross_connect,
            circuits: Circuits::DARK,
            resting: None,
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            begin: Instant::now(),
            journal: None,
            kept: true,
            keep_done: false,
        }
    }

    /// The same for a controller that goes on after another one: these are the circuits over which the
    /// switches route. They are kept in the journal from now on.
    #[must_use]
    pub fn resumed(self, circuits: Circuits, journal: Arc<Redb>) -> Self {
        Self { circuits, journal: Some(journal), ..self }
    }

    /// Leaves jobs whose iterations are all over to others, who release them.
    #[must_use]
    pub fn keep_done(self) -> Self {
        Self { keep_done: true, ..self }
    }

    /// Carries out slot after slot until `stop`. `tell` gets the report of each. A slot that takes longer
    /// than its time delays the next ones.
    ///
    /// # Errors
    /// If the network is impossible, so that nothing can ever be scheduled.
    pub async fn run(
        mut self,
        mut planner: Planner,
        length: Duration,
        stop: impl Future<Output = ()>,
        mut tell: impl FnMut(&SlotReport),
    ) -> Result<(), crate::Error> {
        let mut ticks = tokio::time::interval(length);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stop = pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => return Ok(()),
                _ = ticks.tick() => {}
            }
            // To the end, also when asked to stop: a change that is half done helps nobody.
            tell(&slot(&mut planner, &mut self).await?);
        }
    }

    fn may_ask(&self) -> bool {
        self.resting.is_none_or(|until| Instant::now() >= until)
    }

    fn rest(&mut self) {
        self.resting = Some(Instant::now() + self.backoff.next_pause());
    }

    /// Reads the circuits that the cross-connect has.
    async fn read(&mut self) -> Result<Circuits, Error> {
        match self.cross_connect.circuits().await {
            // The next change removes what else there is.
            Ok(circuits) | Err(Error::Foreign { circuits, .. }) => {
                self.resting = None;
                self.backoff.reset();
                Ok(circuits)
            }
            Err(error) => {
                self.rest();
                Err(error)
            }
        }
    }

    /// Has the journal remember the circuits. It logs why it does not.
    fn keep(&mut self) {
        if let Some(journal) = &self.journal {
            self.kept = journal.keep_circuits(&self.circuits).is_ok();
        }
    }

    /// Has switches route over these circuits.
    async fn route(&mut self, circuits: &Circuits) -> Result<(), String> {
        let routed = self.jobs.controller().route(circuits).await;
        self.circuits = circuits.clone();
        self.keep();
        // A switch that is away gets its routes when it is back.
        routed.map_err(|error| error.to_string())
    }
}

impl Plant for Live {
    fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    async fn jobs(&mut self) -> Vec<JobState> {
        let topology = self.jobs.topology().clone();
        let unit = |host: HostId| topology.attachment(host).0;
        let listed = self.jobs.list().into_iter();
        listed
            .filter_map(|listed| {
                let (demand, server) = (listed.demand?, listed.placement.ps?);
                let iteration = listed.iteration;
                let iterations = demand.iterations.map(NonZeroU64::get);
                let done = !iteration.is_running()
                    && iterations.is_some_and(|all| iteration.number >= all);
                (!done || !self.keep_done).then(|| JobState {
                    id: listed.placement.job,
                    workers: listed.placement.workers.iter().map(|&host| unit(host)).collect(),
                    server: unit(server),
                    bits: demand.bits.get(),
                    iterations,
                    aggregators: demand.aggregators,
                    place: listed.placement.place(),
                    update: demand.update,
                    iteration: iteration.number,
                    running: iteration.is_running(),
                })
            })
            .collect()
    }

    async fn circuits(&mut self) -> Circuits {
        if !self.kept {
            self.keep();
        }
        // A device that was restarted may have forgotten its circuits.
        if self.may_ask() {
            match self.read().await {
                Ok(found) if found != self.circuits => {
                    tracing::info!("the cross-connect has the circuits {found}");
                    if let Err(error) = self.route(&found).await {
                        tracing::warn!("{error}");
                    }
                }
                Ok(_) => {}
                Err(error) => tracing::warn!("{error}"),
            }
        }
        self.circuits.clone()
    }

    async fn release(&mut self, job: JobId, _: End) -> Result<(), String> {
        match self.jobs.release(job).await {
            Ok(_) | Err(Refusal::Unknown(_)) => Ok(()),
            Err(refusal) => Err(refusal.to_string()),
        }
    }

    async fn relocate(&mut self, job: JobId, to: SummedAt, aggregators: u32) -> Moved {
        match self.jobs.relocate(job, to, aggregators).await {
            Ok(_) => Moved::Done,
            Err(Refusal::Controller(tributary_controller::Error::Model(
                tributary_model::Error::Memory { .. },
            ))) => Moved::NoRoom,
            Err(refusal) => Moved::Failed(refusal.to_string()),
        }
    }

    async fn change(&mut self, next: &Circuits) -> (Circuits, Result<(), String>) {
        if !self.may_ask() {
            return (self.circuits.clone(), Ok(()));
        }
        // Otherwise frames take circuits that lead elsewhere, until the switches know.
        let kept = self.circuits.kept(next);
        let parted = self.route(&kept).await;
        let changed = self.cross_connect.change(next).await;
        let (now, outcome) = match changed {
            Ok(()) => (next.clone(), Ok(())),
            Err(error) => {
                let found = match &error {
                    Error::Wrong { found, .. } => Some(found.clone()),
                    _ => self.read().await.ok(),
                };
                self.rest();
                // Those that stay carry light throughout.
                (found.unwrap_or(kept), Err(error.to_string()))
            }
        };
        let routed = self.route(&now).await;
        (now, outcome.and(parted).and(routed))
    }

    fn set_rate(&mut self, job: JobId, rate: Rate) {
        // A job that is gone needs no rate.
        if let Err(refusal) = self.jobs.set_rate(job, Some(rate)) {
            tracing::debug!("{refusal}");
        }
    }

    fn start(&mut self, job: JobId, number: u64, rate: Rate) -> Result<(), String> {
        let started = self.jobs.set_rate(job, Some(rate));
        let started = started.and_then(|()| self.jobs.start(job, number).map(drop));
        started.map_err(|refusal| refusal.to_string())
    }
}
