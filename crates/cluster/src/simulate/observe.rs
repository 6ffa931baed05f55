//! Observers of a simulation.

use crate::job::{Job, JobId};
use crate::plan::Plan;
use crate::state::State;

/// Receives the events of a simulation. The default methods do nothing; `()` observes nothing.
pub trait Observer {
    /// All events of one instant have been processed. Of `total` jobs, `settled` have ended or been
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

    /// A running job has this speed, in iterations per second, until the next change or its end.
    fn speed(&mut self, now_s: f64, job: JobId, speed: f64) {
        let _ = (now_s, job, speed);
    }

    /// The network has settled for the running jobs. Called only if gradients are summed in the
    /// network and a job that uses it started or ended.
    fn network(&mut self, now_s: f64, state: &mut State<'_>) {
        let _ = (now_s, state);
    }
}

impl Observer for () {}
