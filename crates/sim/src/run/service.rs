//! How switches serve the jobs: entries, segments, and moves from one mode to another.

use std::collections::BTreeSet;

use tributary_controller::entries;
use tributary_controller::plan::{self, JobAtSwitch, Placement};
use tributary_controller::segments::{Allocator, Demand};
use tributary_controller::services;
use tributary_jobfile::{Aggregation, Protocol, Scenario};
use tributary_protocol::{Assignment, Mode};

use super::{Error, Run, slot};

/// The switches' aggregators, where jobs have some of their own.
pub(super) fn memory(scenario: &Scenario) -> Option<Allocator> {
    let switches = scenario.topology.switches.len();
    let settings = &scenario.switch;
    match scenario.jobs.first()?.protocol {
        Protocol::Atp | Protocol::Esa => None,
        Protocol::P4inc => Some(Allocator::new(switches, settings.pool)),
        Protocol::SwitchMl => Allocator::partitioned(switches, settings.pool, settings.partitions),
    }
}

impl Run<'_> {
    /// Makes the switches serve a job from now on.
    pub(super) fn serve(&mut self, index: usize, aggregation: Aggregation) -> Result<(), Error> {
        self.assignments[index] = self.assign(index, aggregation)?;
        let run = self.scenario.jobs[index].run();
        for part in self.parts(index) {
            let entities = entries::job(&self.catalogue, &part, run, slot(index));
            self.write(part.switch, &entries::insert(entities))?;
        }
        Ok(())
    }

    /// Makes them forget it as the controller does: what lets its packets in goes first, then its
    /// aggregators are swept, and what says which these are goes last. Returns how many were freed.
    pub(super) fn forget(&mut self, index: usize) -> Result<u64, Error> {
        let run = self.scenario.jobs[index].run();
        let mut freed = 0;
        for part in self.parts(index) {
            let entities = entries::memberships(&self.catalogue, &part, run, slot(index));
            self.write(part.switch, &entries::delete(entities))?;
            let service = entries::service(&self.catalogue, &part, run.job);
            if service.is_none() || part.segment().is_some() {
                freed += u64::from(self.sweep(part.switch, index)?);
            }
            self.write(part.switch, &entries::delete(service.into_iter().collect()))?;
        }
        if let Some(memory) = &mut self.memory {
            memory.release(run.job, self.assignments[index].service);
        }
        self.assignments[index] = Assignment::NONE;
        Ok(freed)
    }

    /// How switches serve a job at the moment.
    pub fn assignment(&self, index: usize) -> Assignment {
        self.assignments[index]
    }

    fn assign(&mut self, index: usize, aggregation: Aggregation) -> Result<Assignment, Error> {
        let job = &self.scenario.jobs[index];
        let topology = &self.scenario.topology;
        let Some(memory) = &mut self.memory else { return Ok(Assignment::NONE) };
        let placement = Placement::from(job);
        let mode = services::mode(topology, &placement, job.protocol.into(), aggregation)?;
        if mode == Mode::Forwarded {
            return Ok(Assignment::NONE);
        }
        let service = services::next(self.services[index]);
        self.services[index] = service;
        let units = services::units(topology, &placement);
        let segment = memory.admit(&Demand { job: job.id, service, units, size: job.segment })?;
        Ok(Assignment { service, segment, mode })
    }

    /// What each switch does for a job.
    fn parts(&self, index: usize) -> Vec<JobAtSwitch> {
        let placement = Placement::from(&self.scenario.jobs[index]);
        plan::job(&self.scenario.topology, &placement.assigned(self.assignments[index]))
    }

    // --- Moves --------------------------------------------------------------------------------

    /// A job is to be served in another way from the next iteration on that no worker has begun.
    pub(super) fn plan_move(&mut self, index: usize, aggregation: Aggregation) {
        let next = self.submitted[index].iter().copied().max().unwrap_or(0);
        if self.memory.is_some() && next < self.inputs[index][0].len() {
            self.moves.insert(index, (next, aggregation));
        }
    }

    /// Moves jobs whose workers have all come to the end of an iteration.
    pub(super) fn move_jobs(&mut self) -> Result<(), Error> {
        let idle = |(&index, &(before, _)): (&usize, &(usize, _))| {
            self.sums[index].iter().all(|own| own.len() == before).then_some(index)
        };
        let ready: BTreeSet<usize> = self.moves.iter().filter_map(idle).collect();
        for index in ready {
            if let Some((_, aggregation)) = self.moves.remove(&index) {
                self.move_job(index, aggregation)?;
            }
        }
        Ok(())
    }

    fn move_job(&mut self, index: usize, aggregation: Aggregation) -> Result<(), Error> {
        self.forget(index)?;
        self.find_leaks();
        self.serve(index, aggregation)?;
        let scenario = self.scenario;
        let job = &scenario.jobs[index];
        let assignment = self.assignments[index];
        if let Some(ps) = job.ps {
            self.network
                .with_server(ps, job.id, |server| server.reassign(assignment))
                .transpose()?;
        }
        for (worker, &host) in job.workers.iter().enumerate() {
            let reassigned = self.network.with_worker(host, job.id, |own| own.reassign(assignment));
            if let Some(Err(error)) = reassigned {
                return Err(Error::Reassign { job: index, worker, source: error });
            }
        }
        let now = self.network.now();
        // Those that have waited for this go on; the others are still in their pauses.
        let due: BTreeSet<(usize, usize)> =
            self.due.iter().map(|&(_, job, worker)| (job, worker)).collect();
        for worker in 0..job.workers.len() {
            if !due.contains(&(index, worker)) {
                self.due.insert((now, index, worker));
            }
        }
        Ok(())
    }
}
