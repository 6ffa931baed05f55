//! Watching a simulation.

use crate::job::{Job, JobId};
use crate::plan::Plan;
use crate::state::State;

/// Sees what happens while it happens. Every method does nothing unless it is written; `()` watches
/// nothing.
pub trait Observer {
    /// All that happens at one instant has happened; `settled` jobs of `total` have ended or been
    /// rejected.
    fn progress(&mut self, now_s: f64, settled: usize, total: usize) {
        let _ = (now_s, settled, total);
    }

    /// A job was started.
    fn started(&mut self, now_s: f64, job: &Job, plan: &Plan) {
        let _ = (now_s, job, plan);
    }

    /// A job has ended.
    fn ended(&mut self, now_s: f64, job: JobId) {
        let _ = (now_s, job);
    }

    /// A running job goes on at this speed, iterations a second, until it is told another one or
    /// ends.
    fn speed(&mut self, now_s: f64, job: JobId, speed: f64) {
        let _ = (now_s, job, speed);
    }

    /// The network has settled with the jobs that run now; only told where gradients are summed in
    /// the network and a job with gradients in it started or ended.
    fn network(&mut self, now_s: f64, state: &mut State<'_>) {
        let _ = (now_s, state);
    }
}

impl Observer for () {}
