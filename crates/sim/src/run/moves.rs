//! Moves of jobs between the network and their parameter servers.

use std::collections::BTreeSet;

use tributary_jobfile::Aggregation;

use super::{Error, Run};

impl Run<'_> {
    /// Plans to move a job before the first iteration that no worker has begun.
    pub(super) fn plan_move(&mut self, index: usize, aggregation: Aggregation) {
        let next = self.courses[index].iter().map(Vec::len).max().unwrap_or(0);
        if self.system.deployment().has_segments() && next < self.inputs[index][0].len() {
            self.moves.insert(index, (next, aggregation));
        }
    }

    /// Moves jobs whose workers have all finished an iteration.
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
        self.system.forget(index)?;
        self.find_leaks();
        self.system.assign(index, aggregation)?;
        self.system.serve(index)?;
        let scenario = self.scenario;
        let job = &scenario.jobs[index];
        let assignment = self.assignment(index);
        if let Some(ps) = job.ps {
            self.system
                .network
                .with_server(ps, job.id, |server| server.reassign(assignment))
                .transpose()?;
        }
        for (worker, &host) in job.workers.iter().enumerate() {
            let reassigned =
                self.system.network.with_worker(host, job.id, |own| own.reassign(assignment));
            if let Some(Err(error)) = reassigned {
                return Err(Error::Reassign { job: index, worker, source: error });
            }
        }
        let now = self.system.network.now();
        // Workers that waited for the move continue; the others are still in their pauses.
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
