//! The plant of real switches: a job scheduler with its controller, and a cross-connect.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use tributary_controller::scheduler::{Refusal, Scheduler};
use tributary_crossconnect::{Circuits, CrossConnect, Error};
use tributary_jobfile::{Aggregation, HostId};
use tributary_protocol::Rate;
use tributary_wire::JobId;

use crate::planner::{End, JobState};
use crate::slots::{Moved, Plant};

/// Pause before a cross-connect that failed is asked again, doubled after each failure.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(16);

/// Real switches and a cross-connect.
#[derive(Debug)]
pub struct Live {
    scheduler: Scheduler,
    cross_connect: Box<dyn CrossConnect>,
    /// Over which the switches route: what the cross-connect has, or is not known not to have.
    circuits: Circuits,
    /// When the cross-connect may be asked again, and the pause until then, if it failed.
    resting: Option<(Instant, Duration)>,
    begin: Instant,
    ended: BTreeMap<JobId, End>,
}

impl Live {
    /// The switches of a scheduler, and the cross-connect between them. Whatever circuits exist are
    /// routed over from the first slot on.
    #[must_use]
    pub fn new(scheduler: Scheduler, cross_connect: Box<dyn CrossConnect>) -> Self {
        Self {
            scheduler,
            cross_connect,
            circuits: Circuits::DARK,
            resting: None,
            begin: Instant::now(),
            ended: BTreeMap::new(),
        }
    }

    /// The jobs that were ended since the last call, and why.
    pub fn take_ended(&mut self) -> BTreeMap<JobId, End> {
        std::mem::take(&mut self.ended)
    }

    fn may_ask(&self) -> bool {
        self.resting.is_none_or(|(until, _)| Instant::now() >= until)
    }

    fn rest(&mut self) {
        let pause = self.resting.map_or(FIRST_PAUSE, |(_, pause)| (2 * pause).min(LONGEST_PAUSE));
        self.resting = Some((Instant::now() + pause, pause));
    }

    /// Reads the circuits that the cross-connect has.
    async fn read(&mut self) -> Result<Circuits, Error> {
        match self.cross_connect.circuits().await {
            // The next change removes what else there is.
            Ok(circuits) | Err(Error::Foreign { circuits, .. }) => {
                self.resting = None;
                Ok(circuits)
            }
            Err(error) => {
                self.rest();
                Err(error)
            }
        }
    }

    /// Has switches route over these circuits.
    async fn route(&mut self, circuits: &Circuits) -> Result<(), String> {
        let routed = self.scheduler.controller().route(circuits).await;
        self.circuits = circuits.clone();
        // A switch that is away gets its routes when it is back.
        routed.map_err(|error| error.to_string())
    }
}

impl Plant for Live {
    fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    async fn jobs(&mut self) -> Vec<JobState> {
        let topology = self.scheduler.topology().clone();
        let unit = |host: HostId| topology.attachment(host).0;
        let listed = self.scheduler.list().into_iter();
        listed
            .filter_map(|listed| {
                let (demand, server) = (listed.demand?, listed.placement.ps?);
                let iteration = listed.standing.iteration;
                Some(JobState {
                    id: listed.placement.job,
                    workers: listed.placement.workers.iter().map(|&host| unit(host)).collect(),
                    server: unit(server),
                    bits: demand.bits.get(),
                    iterations: demand.iterations.map(std::num::NonZeroU64::get),
                    aggregators: demand.aggregators,
                    mode: listed.standing.assignment.mode,
                    iteration: iteration.number,
                    running: iteration.is_running(),
                })
            })
            .collect()
    }

    async fn circuits(&mut self) -> Circuits {
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

    async fn release(&mut self, job: JobId, end: End) -> Result<(), String> {
        match self.scheduler.release(job).await {
            Ok(_) | Err(Refusal::Unknown(_)) => {
                self.ended.insert(job, end);
                Ok(())
            }
            Err(refusal) => Err(refusal.to_string()),
        }
    }

    async fn relocate(&mut self, job: JobId, to: Aggregation, aggregators: u32) -> Moved {
        match self.scheduler.relocate(job, to, aggregators).await {
            Ok(_) => Moved::Done,
            Err(Refusal::Controller(tributary_controller::Error::Memory { .. })) => Moved::NoRoom,
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
        if let Err(refusal) = self.scheduler.set_rate(job, Some(rate)) {
            tracing::debug!("{refusal}");
        }
    }

    fn start(&mut self, job: JobId, number: u64, rate: Rate) -> Result<(), String> {
        let started = self.scheduler.set_rate(job, Some(rate));
        let started = started.and_then(|()| self.scheduler.start(job, number).map(drop));
        started.map_err(|refusal| refusal.to_string())
    }
}
