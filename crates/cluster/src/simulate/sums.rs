//! How long jobs that run at the same time take to sum their gradients.

use std::convert::Infallible;

use crate::job::JobId;
use crate::state::State;

/// How long jobs that sum their gradients in the network take for it, given who else does: the part of a
/// simulation that can be a model, or a measurement.
pub trait Sums {
    /// Why it cannot be said.
    type Error;

    /// The jobs on several servers for which that may have changed since the last call, and what it is
    /// now: seconds for the gradients of an iteration, infinite if they never arrive.
    ///
    /// Called whenever such a job has started or ended. A job that started is among those returned.
    ///
    /// # Errors
    ///
    /// If it cannot be said.
    fn settle(&mut self, state: &mut State<'_>) -> Result<Vec<(JobId, f64)>, Self::Error>;
}

/// By the rates of the network's steady state: all jobs send at all times (NetPack §4, algorithm 1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SteadyState;

impl Sums for SteadyState {
    type Error = Infallible;

    fn settle(&mut self, state: &mut State<'_>) -> Result<Vec<(JobId, f64)>, Infallible> {
        state.network();
        let rerated = state.take_rerated();
        let (state, network) = state.with_network();
        let sum_s = |id: JobId| {
            let gradient_bytes = state.running()[&id].job.gradient_bytes;
            // No time even where there is no bandwidth.
            let none = gradient_bytes == 0.0;
            if none { 0.0 } else { gradient_bytes * 8.0 / (network.rate_gbps(id) * 1e9) }
        };
        Ok(rerated.into_iter().map(|id| (id, sum_s(id))).collect())
    }
}
