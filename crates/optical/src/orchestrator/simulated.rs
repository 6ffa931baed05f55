//! The control loop in virtual time: the same planner and slots, over simulated switches, links and
//! endpoints.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tributary_model::{Scenario, SummedAt, circuits::Circuits};
use tributary_protocol::{Rate, Tensor};
use tributary_sim::{Inputs, Options, Outcome, Program, Run};
use tributary_wire::JobId;

use crate::orchestrator::planner::{End, JobState, Planner};
use crate::orchestrator::slots::{Moved, Plant, SlotReport, slot};

/// Why a scenario could not be simulated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The simulator.
    #[error(transparent)]
    Sim(#[from] tributary_sim::Error),
    /// The scheduler.
    #[error(transparent)]
    Schedule(#[from] crate::Error),
    /// The scenario has no cross-connect.
    #[error("the jobs are scheduled only around a cross-connect: set `units` in [topology]")]
    NoCrossConnect,
    /// A job has no server to wait at.
    #[error("job {0} needs a parameter server, where it waits until there is bandwidth; set `ps`")]
    NoServer(JobId),
}

/// Runs a scenario around a cross-connect. `look` sees the run after each of its events.
///
/// # Errors
/// [`Error`].
pub fn run(
    scenario: &Scenario,
    program: &Program,
    inputs: Inputs,
    options: &Options,
    look: impl FnMut(&mut Run<'_>),
) -> Result<(Outcome, Vec<SlotReport>), Error> {
    run_admitting(scenario, program, inputs, options, |_, _| true, look)
}

/// The same with jobs that come later: in each slot, `admits` tells of a job, given by its index, whether
/// it is to be scheduled.
///
/// # Errors
/// [`Error`].
pub fn run_admitting(
    scenario: &Scenario,
    program: &Program,
    inputs: Inputs,
    options: &Options,
    admits: impl Fn(&Run<'_>, usize) -> bool,
    mut look: impl FnMut(&mut Run<'_>),
) -> Result<(Outcome, Vec<SlotReport>), Error> {
    let (Some(settings), Some(_)) = (&scenario.orchestration, &scenario.network.topology.optical)
    else {
        return Err(Error::NoCrossConnect);
    };
    if let Some(job) = scenario.jobs.iter().find(|job| job.ps.is_none()) {
        return Err(Error::NoServer(job.id));
    }
    let mut planner = Planner::new(&scenario.network.topology, settings);
    let mut run = Run::start(scenario, program, inputs, options)?;
    run.hold();
    let mut plant =
        Simulated { scenario, started: vec![0; scenario.jobs.len()], run, failed: None, admits };
    let mut reports = Vec::new();
    let mut next = Duration::ZERO;
    let mut goes_on = true;
    while goes_on {
        if plant.run.elapsed() >= next {
            reports.push(ready(slot(&mut planner, &mut plant))?);
            if let Some(error) = plant.failed.take() {
                return Err(error.into());
            }
            next += settings.slot;
        }
        goes_on = plant.run.step_until(next)?;
        look(&mut plant.run);
    }
    Ok((plant.run.finish()?, reports))
}

/// The result of a future that never waits, such as a [`slot`] of a plant in virtual time.
///
/// # Panics
/// If it waits.
pub fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("nothing in virtual time is waited for"),
    }
}

struct Simulated<'s, A> {
    scenario: &'s Scenario,
    run: Run<'s>,
    /// Whether a job is to be scheduled.
    admits: A,
    /// Iterations that each job was allowed.
    started: Vec<u64>,
    /// The first error of the simulator.
    failed: Option<tributary_sim::Error>,
}

impl<A> Simulated<'_, A> {
    fn index(&self, id: JobId) -> usize {
        let of = self.scenario.jobs.iter().position(|job| job.id == id);
        of.expect("only jobs of the scenario are planned")
    }

    fn fail(&mut self, error: tributary_sim::Error) -> String {
        let text = error.to_string();
        self.failed.get_or_insert(error);
        text
    }
}

impl<A: Fn(&Run<'_>, usize) -> bool> Plant for Simulated<'_, A> {
    fn now(&self) -> Duration {
        self.run.elapsed()
    }

    async fn jobs(&mut self) -> Vec<JobState> {
        let topology = &self.scenario.network.topology;
        let unit = |host| topology.attachment(host).0;
        let jobs = self.scenario.jobs.iter().enumerate();
        let jobs = jobs.filter(|&(index, _)| {
            let rounds = self.run.inputs(index).len();
            let goes_on = !self.run.is_ended(index) && self.run.finished(index) < rounds;
            goes_on && (self.admits)(&self.run, index)
        });
        jobs.map(|(index, job)| {
            let (started, rounds) = (self.started[index], self.run.inputs(index));
            // Rounds of different sizes are scheduled by that of the next, or the current one.
            let at = started.saturating_sub(u64::from(self.run.finished(index) < started as usize));
            let bits = rounds.get(at as usize).map_or(1, Tensor::len) as u64 * 32;
            JobState {
                id: job.id,
                workers: job.workers.iter().map(|&host| unit(host)).collect(),
                server: job.ps.map(unit).expect("checked at the start"),
                bits: bits.max(1),
                iterations: Some(rounds.len() as u64),
                aggregators: job.segment,
                place: self.run.system.deployment().placement(index).place(),
                update: job.update,
                iteration: started,
                running: self.run.finished(index) < started as usize,
            }
        })
        .collect()
    }

    async fn circuits(&mut self) -> Circuits {
        self.run.system.network.circuits().clone()
    }

    async fn release(&mut self, job: JobId, end: End) -> Result<(), String> {
        // The simulator ends jobs that are done by itself.
        if end == End::Done {
            return Ok(());
        }
        let index = self.index(job);
        self.run.end(index).map_err(|error| self.fail(error))
    }

    async fn relocate(&mut self, job: JobId, to: SummedAt, _: u32) -> Moved {
        let index = self.index(job);
        match self.run.relocate(index, to) {
            Ok(true) => Moved::Done,
            Ok(false) => Moved::NoRoom,
            Err(error) => Moved::Failed(self.fail(error)),
        }
    }

    async fn change(&mut self, next: &Circuits) -> (Circuits, Result<(), String>) {
        match self.run.patch(next) {
            Ok(_) => (next.clone(), Ok(())),
            Err(error) => (self.run.system.network.circuits().clone(), Err(self.fail(error))),
        }
    }

    fn set_rate(&mut self, job: JobId, rate: Rate) {
        self.run.system.pace(self.index(job), Some(rate));
    }

    fn start(&mut self, job: JobId, number: u64, rate: Rate) -> Result<(), String> {
        let index = self.index(job);
        self.run.system.pace(index, Some(rate));
        self.started[index] = number;
        self.run.allow(index);
        Ok(())
    }
}
