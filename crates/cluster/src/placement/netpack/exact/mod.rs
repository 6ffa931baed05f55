//! The exact formulation (NetPack §5.1, table 3) for small cases, as an oracle.
//!
//! All jobs of a batch are placed together on an idle cluster, and their rates chosen with them, so
//! that Σ d/v, the total time to sum the gradients of one iteration of each, is minimal. Three
//! differences to a policy's situation favour the optimum: it sees the whole batch before it places
//! the first job, rates need not be fair, and only one level of the aggregation hierarchy counts,
//! without uplinks. So no policy can be better, and a gap overstates the distance from the best
//! policy.
//!
//! [`optimum`] solves table 3 as a mixed-integer program. [`exhaustive`] tries all placements and
//! computes the rates of each by linear programming. [`gaps`] compares policies with the optimum.
//! Linear programs are solved by microlp, or by HiGHS with the feature `highs`.

mod exhaustive;
mod gap;
mod program;
mod rates;

use crate::{Cluster, Job, Plan};

pub use exhaustive::{Fair, exhaustive, fairest};
pub use gap::{Cases, Gap, Make, gaps};
pub use program::optimum;

/// A small case: jobs that fit on an idle cluster.
#[derive(Clone, PartialEq, Debug)]
pub struct Instance {
    /// The cluster.
    pub cluster: Cluster,
    /// The jobs, all of which must be placed.
    pub jobs: Vec<Job>,
}

/// The switches whose memory a job may use (table 3, constraint 8).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Memory {
    /// Those of racks with a worker or the parameter server.
    #[default]
    OnTheWay,
    /// Those of any rack, as printed: the table does not require that gradients pass the rack.
    Anywhere,
}

/// A placement of all jobs, with rates.
#[derive(Clone, PartialEq, Debug)]
pub struct Optimum {
    /// The plan of each job.
    pub plans: Vec<Plan>,
    /// Rate of each job in Gb/s; infinite for a job on a single server.
    pub rates_gbps: Vec<f64>,
    /// Σ d/v, in seconds per iteration.
    pub cost_s: f64,
    /// A lower bound for all placements from the tangents, in seconds per iteration.
    pub bound_s: f64,
}

/// Why there is no optimum.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Unsolved {
    /// The jobs request too many GPUs.
    #[error("the jobs want {wanted} GPUs; the cluster has {there}")]
    TooMany {
        /// GPUs of all jobs.
        wanted: u32,
        /// Number of GPUs of all servers.
        there: u32,
    },
    /// A job cannot be summed over links without bandwidth.
    #[error("no placement gives every job some bandwidth")]
    Disconnected,
    /// The solver failed.
    #[error("the solver gave up: {0}")]
    Solver(String),
}

/// Relative difference between cost and bound at which the tangents are close enough.
const TOLERANCE: f64 = 1e-5;

impl Instance {
    /// Gigabits that a job's worker sends per iteration.
    fn gigabits(&self, job: usize) -> f64 {
        self.jobs[job].gradient_bytes * 8.0 / 1e9
    }

    /// The fastest server link in Gb/s, which bounds all rates.
    fn fastest_gbps(&self) -> f64 {
        self.cluster.servers().iter().map(|server| server.link_gbps).fold(0.0, f64::max)
    }

    /// Σ d/v, in seconds per iteration.
    fn cost_s(&self, rates_gbps: &[f64]) -> f64 {
        rates_gbps.iter().enumerate().map(|(job, rate)| self.gigabits(job) / rate).sum()
    }
}

/// Rates of the initial tangents to 1/v in Gb/s. Further tangents are added at the solutions.
fn first_tangents(fastest_gbps: f64) -> Vec<f64> {
    (0..8).map(|halvings| fastest_gbps / f64::from(1 << halvings)).collect()
}

#[cfg(test)]
mod tests;
