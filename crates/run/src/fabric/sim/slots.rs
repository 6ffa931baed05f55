//! The control loop around the cross-connect, in virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use tributary_model::{Scenario, SummedAt, circuits::Circuits};
use tributary_optical::orchestrator::planner::{End, JobState, Planner};
use tributary_optical::orchestrator::simulated::ready;
use tributary_optical::orchestrator::slots::{Moved, Plant, slot};
use tributary_protocol::{Rate, Tensor, Time};
use tributary_wire::JobId;
use tributary_worker::rounds::Event;

use super::Sim;
use crate::fabric::Note;

/// Slots, and the workers that wait for their next iteration.
pub(super) struct Slots {
    planner: Option<Planner>,
    length: Duration,
    /// When the next slot begins.
    next: Time,
    /// When new circuits carry light.
    light: Option<Time>,
    /// By job: iterations that were started.
    started: Vec<u64>,
    /// By job: bits of a worker in the iteration that was started last.
    bits: Vec<u64>,
    /// By job: whether it was released.
    released: Vec<bool>,
    /// Workers with their next tensors ready, and their pauses.
    held: BTreeMap<(usize, usize), Duration>,
}

impl Slots {
    /// `None` without a cross-connect.
    pub(super) fn of(scenario: &Scenario) -> Option<Self> {
        let settings = scenario.orchestration.as_ref()?;
        Some(Self {
            planner: Some(Planner::new(&scenario.network.topology, settings)),
            length: settings.slot,
            next: Time::ZERO,
            light: None,
            started: vec![0; scenario.jobs.len()],
            bits: vec![1; scenario.jobs.len()],
            released: vec![false; scenario.jobs.len()],
            held: BTreeMap::new(),
        })
    }

    pub(super) fn may_begin(&self, job: usize, round: u64) -> bool {
        round <= self.started[job]
    }

    pub(super) fn hold(&mut self, worker: (usize, usize), pause: Duration) {
        self.held.insert(worker, pause);
    }
}

impl Sim {
    /// Does what the control loop is due to do now. Returns when it is due next, if there is one.
    pub(super) fn control(&mut self) -> Option<Time> {
        let now = self.system.network.now();
        let slots = self.slots.as_mut()?;
        if slots.light.take_if(|light| *light <= now).is_some() {
            let circuits = self.system.network.circuits().clone();
            if let Err(error) = self.system.route(&circuits) {
                self.notes.push_back(Note::Broken(error.to_string()));
            }
        }
        let slots = self.slots.as_mut()?;
        if slots.next <= now {
            slots.next = now + slots.length;
            let mut planner = slots.planner.take()?;
            match ready(slot(&mut planner, self)) {
                Ok(report) => report.problems.iter().for_each(|line| tracing::warn!("{line}")),
                Err(error) => self.notes.push_back(Note::Broken(error.to_string())),
            }
            self.slots.as_mut()?.planner = Some(planner);
        }
        let slots = self.slots.as_ref()?;
        Some(slots.light.map_or(slots.next, |light| light.min(slots.next)))
    }

    fn slots(&mut self) -> &mut Slots {
        self.slots.as_mut().expect("only the control loop asks")
    }

    fn job_index(&self, id: JobId) -> usize {
        let jobs = &self.deployment.scenario().jobs;
        jobs.iter().position(|job| job.id == id).expect("only jobs of the file are planned")
    }

    /// Number of iterations that all workers of a job have finished.
    fn finished(&self, job: usize) -> u64 {
        let workers = self.workers.range((job, 0)..(job + 1, 0));
        workers.map(|(_, worker)| worker.done).min().unwrap_or(0)
    }
}

impl Plant for Sim {
    fn now(&self) -> Duration {
        self.system.network.now() - self.begin
    }

    async fn jobs(&mut self) -> Vec<JobState> {
        let scenario = self.deployment.scenario();
        let unit = |host| scenario.network.topology.attachment(host).0;
        let Some(slots) = &self.slots else { return Vec::new() };
        let jobs = scenario.jobs.iter().enumerate();
        jobs.filter_map(|(index, job)| {
            let first = self.workers.get(&(index, 0))?;
            let (started, finished) = (slots.started[index], self.finished(index));
            let values: usize = first.next.iter().map(Tensor::len).sum();
            let over = finished >= first.rounds.count() || slots.released[index];
            (!over).then(|| JobState {
                id: job.id,
                workers: job.workers.iter().map(|&host| unit(host)).collect(),
                server: unit(job.server()),
                // The tensors of an iteration that runs are at the worker.
                bits: if values == 0 { slots.bits[index] } else { 32 * values as u64 },
                iterations: Some(first.rounds.count()),
                aggregators: job.segment,
                place: self.system.deployment().placement(index).place(),
                update: job.update,
                iteration: started,
                running: finished < started,
            })
        })
        .collect()
    }

    async fn circuits(&mut self) -> Circuits {
        self.system.network.circuits().clone()
    }

    async fn release(&mut self, job: JobId, end: End) -> Result<(), String> {
        let index = self.job_index(job);
        self.slots().released[index] = true;
        let reason = format!("the control loop released the job: {end:?}");
        let event = Event::Failed { reason };
        self.notes.push_back(Note::Worker { job: index, worker: 0, event });
        Ok(())
    }

    async fn relocate(&mut self, job: JobId, to: SummedAt, _: u32) -> Moved {
        let index = self.job_index(job);
        let moved = self.system.forget(index).and_then(|_| self.system.place(index, to));
        match moved {
            Ok(true) => Moved::Done,
            Ok(false) => Moved::NoRoom,
            Err(error) => Moved::Failed(error.to_string()),
        }
    }

    async fn change(&mut self, next: &Circuits) -> (Circuits, Result<(), String>) {
        match self.system.patch(next) {
            Ok(outage) => {
                let light = self.system.network.now() + outage;
                self.slots().light = Some(light);
                (next.clone(), Ok(()))
            }
            Err(error) => (self.system.network.circuits().clone(), Err(error.to_string())),
        }
    }

    fn set_rate(&mut self, job: JobId, rate: Rate) {
        self.system.pace(self.job_index(job), Some(rate));
    }

    fn start(&mut self, job: JobId, number: u64, rate: Rate) -> Result<(), String> {
        self.set_rate(job, rate);
        let (index, now) = (self.job_index(job), self.system.network.now());
        let first = self.workers.get(&(index, 0)).map_or(&[][..], |worker| &worker.next);
        let values: usize = first.iter().map(Tensor::len).sum();
        let slots = self.slots();
        slots.started[index] = number;
        slots.bits[index] = (32 * values as u64).max(1);
        let held = slots.held.extract_if(.., |(its, _), _| *its == index);
        let due: Vec<_> = held.map(|((job, worker), pause)| (now + pause, job, worker)).collect();
        self.due.extend(due);
        Ok(())
    }
}
