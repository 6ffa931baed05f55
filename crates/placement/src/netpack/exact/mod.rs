//! The exact formulation (NetPack §5.1, table 3) for small cases, as an oracle.
//!
//! All jobs of a batch are placed at once on an idle cluster, and their rates chosen with them, so that
//! the time that an iteration of all of them sums gradients, Σ d/v, is least. Three things are
//! different from what a policy meets, all in the optimum's favour: it sees the whole batch before it
//! places the first job, rates need not be fair, and of the aggregation hierarchy only one level
//! counts, without uplinks. So no policy can be better, and a gap says less than it seems to.
//!
//! [`optimum`] solves table 3 as a mixed-integer program; [`exhaustive`] goes through all
//! placements and finds the rates of each by linear programming; [`gaps`] compares policies with it.
//! Linear programs come from microlp, or from HiGHS with the feature `highs`.

mod exhaustive;
mod gap;
mod program;
mod rates;

use tributary_cluster::{Cluster, Job, Plan};

pub use exhaustive::{Fair, exhaustive, fairest};
pub use gap::{Cases, Gap, Make, gaps};
pub use program::optimum;

/// A small case: jobs that an idle cluster has room for.
#[derive(Clone, PartialEq, Debug)]
pub struct Instance {
    /// What there is.
    pub cluster: Cluster,
    /// What is to be placed, all of it.
    pub jobs: Vec<Job>,
}

/// Which switches' memory a job may use (table 3, constraint 8).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Memory {
    /// That of racks where it has a worker or the parameter server.
    #[default]
    OnTheWay,
    /// That of any rack, as printed: the table does not say that gradients must pass it.
    Anywhere,
}

/// A placement of all jobs, and rates.
#[derive(Clone, PartialEq, Debug)]
pub struct Optimum {
    /// Where each job runs.
    pub plans: Vec<Plan>,
    /// Gb/s of each job; infinite for one on a single server.
    pub rates_gbps: Vec<f64>,
    /// Σ d/v of these, seconds an iteration.
    pub cost_s: f64,
    /// What no placement can be below, seconds an iteration: the tangents' side of the optimum.
    pub bound_s: f64,
}

/// Why there is no optimum.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Unsolved {
    /// Too many GPUs are wanted.
    #[error("the jobs want {wanted} GPUs; the cluster has {there}")]
    TooMany {
        /// GPUs of all jobs.
        wanted: u32,
        /// GPUs of all servers.
        there: u32,
    },
    /// A job cannot be summed over links without bandwidth.
    #[error("no placement gives every job some bandwidth")]
    Disconnected,
    /// The solver gave up.
    #[error("the solver gave up: {0}")]
    Solver(String),
}

/// Relative difference between cost and bound at which tangents are taken to be close enough.
const TOLERANCE: f64 = 1e-5;

impl Instance {
    /// Gigabits that a job's worker sends in an iteration.
    fn gigabits(&self, job: usize) -> f64 {
        self.jobs[job].gradient_bytes * 8.0 / 1e9
    }

    /// The fastest server link, which bounds all rates, Gb/s.
    fn fastest_gbps(&self) -> f64 {
        self.cluster.servers().iter().map(|server| server.link_gbps).fold(0.0, f64::max)
    }

    /// Σ d/v, seconds an iteration.
    fn cost_s(&self, rates_gbps: &[f64]) -> f64 {
        rates_gbps.iter().enumerate().map(|(job, rate)| self.gigabits(job) / rate).sum()
    }
}

/// Rates at which tangents to 1/v are laid at the start, Gb/s; more follow where solutions come to be.
fn first_tangents(fastest_gbps: f64) -> Vec<f64> {
    (0..8).map(|halvings| fastest_gbps / f64::from(1 << halvings)).collect()
}

#[cfg(test)]
mod tests;
