//! Measures the time to place a batch (NetPack figure 10).

use std::time::{Duration, Instant};

use tributary_base::SplitMix64;

use crate::{Cluster, Job, JobId, Pending, Policy, Round, Shape, State};

/// Parameters of a random batch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Batch {
    /// Number of servers, with four GPUs each.
    pub servers: u32,
    /// Number of racks, over which the servers are distributed evenly.
    pub racks: u32,
    /// Total bandwidth of the links of a rack's servers divided by that of its uplinks.
    pub oversubscription: f64,
    /// Number of waiting jobs.
    pub jobs: u32,
    /// Distribution of the numbers of GPUs.
    pub demand: Demand,
    /// Seed of the batch.
    pub seed: u64,
}

/// Distribution of the number of GPUs per job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Demand {
    /// Mostly one, some up to 32: similar to the Microsoft trace.
    Trace,
    /// Five to twelve: no job fits on one server, and four thousand jobs nearly fill ten thousand
    /// servers.
    Spread,
}

/// The result of a batch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Placed {
    /// Number of jobs placed.
    pub jobs: u32,
    /// Number of jobs placed on more than one server.
    pub distributed: u32,
    /// Wall-clock time, including the steady state after each distributed job.
    pub took: Duration,
    /// CPU time, if Linux reports it. On a busy machine only this is comparable.
    pub on_cpu: Option<Duration>,
}

impl Placed {
    /// Seconds per placed job of the batch.
    #[must_use]
    pub fn per_job_s(&self) -> f64 {
        self.took.as_secs_f64() / f64::from(self.jobs.max(1))
    }
}

impl Batch {
    /// The idle cluster.
    ///
    /// # Panics
    ///
    /// If the number of servers is not a multiple of the number of racks.
    #[must_use]
    pub fn cluster(&self) -> Cluster {
        assert_eq!(self.servers % self.racks, 0, "racks have as many servers each");
        Cluster::uniform(&Shape {
            racks: self.racks,
            servers_per_rack: self.servers / self.racks,
            oversubscription: self.oversubscription,
            ..Shape::default()
        })
    }

    /// The jobs.
    #[must_use]
    pub fn waiting(&self) -> Vec<Pending> {
        let mut random = SplitMix64::new(self.seed);
        (0..self.jobs)
            .map(|id| {
                let gpus = match self.demand {
                    Demand::Trace => match random.next_u64() % 100 {
                        0..68 => 1,
                        68..78 => 2,
                        78..88 => 4,
                        88..97 => 8,
                        97..99 => 16,
                        _ => 32,
                    },
                    Demand::Spread => 5 + (random.next_u64() % 8) as u32,
                };
                let job = Job {
                    id: JobId(id),
                    submit_s: 0.0,
                    gpus,
                    iterations: 1000.0,
                    compute_s: 0.1,
                    gradient_bytes: 1e8,
                    value: 1.0,
                };
                Pending { value: job.value, job }
            })
            .collect()
    }

    /// Places the batch on the idle cluster.
    #[must_use]
    pub fn place(&self, policy: &mut dyn Policy) -> Placed {
        let (cluster, waiting) = (self.cluster(), self.waiting());
        let mut state = State::new(&cluster);
        let (start, cpu) = (Instant::now(), on_cpu());
        let mut round = Round::new(&mut state);
        policy.place(&mut round, &waiting);
        let jobs = round.started().len() as u32;
        state.network();
        let took = start.elapsed();
        let on_cpu = on_cpu().zip(cpu).map(|(after, before)| after.saturating_sub(before));
        let distributed = state.running().values().filter(|running| running.plan.is_distributed());
        Placed { jobs, distributed: distributed.count() as u32, took, on_cpu }
    }
}

/// CPU time of this thread.
fn on_cpu() -> Option<Duration> {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    statistics.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::{NAMES, by_name};

    #[test]
    fn every_policy_places_a_batch_that_fits() {
        let batch = Batch {
            servers: 48,
            racks: 4,
            oversubscription: 1.0,
            jobs: 15,
            demand: Demand::Spread,
            seed: 1,
        };
        for name in NAMES {
            let placed = batch.place(&mut *by_name(name).expect("a name that is listed"));
            assert_eq!((placed.jobs, placed.distributed), (15, 15), "{name}");
        }
    }

    #[test]
    fn batches_are_drawn_by_their_seed() {
        let batch = |seed| Batch {
            servers: 16,
            racks: 1,
            oversubscription: 1.0,
            jobs: 100,
            demand: Demand::Trace,
            seed,
        };
        assert_eq!(batch(1).waiting(), batch(1).waiting());
        assert_ne!(batch(1).waiting(), batch(2).waiting());
    }
}
