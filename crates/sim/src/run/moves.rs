//! Moves of jobs between the network and their parameter servers.

use std::collections::BTreeSet;

use tributary_model::SummedAt;

use super::{Error, Run};

impl Run<'_> {
    /// Plans to move a job before the first iteration that no worker has begun.
    pub(super) fn plan_move(&mut self, index: usize, to: SummedAt) {
        let next = self.courses[index].iter().map(Vec::len).max().unwrap_or(0);
        if self.system.deployment().has_segments() && next < self.inputs[index][0].len() {
            self.moves.insert(index, (next, to));
        }
    }

    /// Moves jobs whose workers have all finished an iteration.
    pub(super) fn move_jobs(&mut self) -> Result<(), Error> {
        let idle = |(&index, &(before, _)): (&usize, &(usize, _))| {
            self.sums[index].iter().all(|own| own.len() == before).then_some(index)
        };
        let ready: BTreeSet<usize> = self.moves.iter().filter_map(idle).collect();
        for index in ready {
            if let Some((_, to)) = self.moves.remove(&index) {
                self.relocate(index, to)?;
                self.go_on(index);
            }
        }
        Ok(())
    }

    /// Moves a job that is idle. Returns whether the switches had room for it; if not, it is at its
    /// server.
    ///
    /// # Errors
    /// If a worker is not idle, or a switch refuses.
    pub fn relocate(&mut self, index: usize, place: impl Into<SummedAt>) -> Result<bool, Error> {
        self.system.forget(index)?;
        self.find_leaks();
        self.system.place(index, place)
    }

    /// Lets workers that waited for a move continue; the others are still in their pauses.
    fn go_on(&mut self, index: usize) {
        let now = self.system.network.now();
        let due: BTreeSet<(usize, usize)> =
            self.due.iter().map(|&(_, job, worker)| (job, worker)).collect();
        for worker in 0..self.scenario.jobs[index].workers.len() {
            if !due.contains(&(index, worker)) {
                self.due.insert((now, index, worker));
            }
        }
    }
}
