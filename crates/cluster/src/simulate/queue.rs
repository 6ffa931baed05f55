//! Waiting jobs, in the order of submission.

use crate::job::{Job, JobId};
use crate::policy::Pending;

/// Waiting jobs. The cost of a round does not depend on the number of jobs after the last one that
/// it starts, unless a policy looks at them: traces have hundreds of thousands of jobs.
#[derive(Debug)]
pub(super) struct Queue {
    /// The waiting jobs are those from `first` on.
    jobs: Vec<Pending>,
    first: usize,
    /// Increase of a job's value in a round that passes it over.
    ageing: f64,
    /// Number of such rounds whose increase is not in the values yet.
    rounds: u64,
}

impl Queue {
    pub(super) const fn new(ageing: f64) -> Self {
        Self { jobs: Vec::new(), first: 0, ageing, rounds: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.jobs.len() - self.first
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a job that was submitted after all others.
    pub(super) fn push(&mut self, job: Job) {
        self.settle();
        self.jobs.push(Pending { value: job.value, job });
    }

    /// All waiting jobs, with their current values.
    pub(super) fn jobs(&mut self) -> &[Pending] {
        self.settle();
        &self.jobs[self.first..]
    }

    /// Records a round that passed over all jobs.
    pub(super) fn age(&mut self) {
        self.rounds += 1;
    }

    /// Removes jobs.
    ///
    /// # Panics
    ///
    /// If a job is not waiting.
    pub(super) fn remove(&mut self, mut gone: Vec<JobId>) {
        gone.sort_unstable();
        let is_gone = |pending: &Pending| gone.binary_search(&pending.job.id).is_ok();
        let found = (self.first..self.jobs.len()).filter(|&at| is_gone(&self.jobs[at]));
        let found: Vec<_> = found.take(gone.len()).collect();
        assert_eq!(found.len(), gone.len(), "policies start waiting jobs");
        // Move the earlier jobs up, last one first, so that the later jobs stay in place.
        let mut to = found.last().map_or(self.first, |last| last + 1);
        for at in (self.first..to).rev() {
            if !is_gone(&self.jobs[at]) {
                to -= 1;
                self.jobs.swap(at, to);
            }
        }
        self.first += found.len();
        if self.first > self.jobs.len() / 2 {
            self.jobs.drain(..self.first);
            self.first = 0;
        }
    }

    pub(super) fn into_jobs(self) -> impl Iterator<Item = Job> {
        self.jobs.into_iter().skip(self.first).map(|pending| pending.job)
    }

    /// Updates the values.
    fn settle(&mut self) {
        let gain = self.ageing * self.rounds as f64;
        self.rounds = 0;
        if gain > 0.0 {
            self.jobs[self.first..].iter_mut().for_each(|pending| pending.value += gain);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: u32) -> Job {
        Job {
            id: JobId(id),
            submit_s: 0.0,
            gpus: 1,
            iterations: 1.0,
            compute_s: 1.0,
            gradient_bytes: 1.0,
            value: 0.0,
        }
    }

    fn ids(queue: &mut Queue) -> Vec<u32> {
        queue.jobs().iter().map(|pending| pending.job.id.0).collect()
    }

    #[test]
    fn keeps_the_order_after_any_removals() {
        let mut random = 1u32;
        for _ in 0..200 {
            let mut queue = Queue::new(1.0);
            let mut expected: Vec<u32> = Vec::new();
            for id in 0..60 {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                queue.push(job(id));
                expected.push(id);
                if random >> 30 == 0 {
                    let gone = expected.iter().filter(|&&id| (random >> (id % 23)) & 1 == 1);
                    let gone: Vec<_> = gone.map(|&id| JobId(id)).collect();
                    expected.retain(|&id| !gone.contains(&JobId(id)));
                    queue.remove(gone.into_iter().rev().collect());
                }
                assert_eq!((ids(&mut queue), queue.len()), (expected.clone(), expected.len()));
            }
        }
    }

    #[test]
    fn values_grow_with_rounds_since_submission() {
        let mut queue = Queue::new(0.5);
        queue.push(job(0));
        queue.age();
        queue.push(job(1));
        queue.age();
        queue.age();
        let values: Vec<f64> = queue.jobs().iter().map(|pending| pending.value).collect();
        assert_eq!(values, [1.5, 1.0]);
    }
}
