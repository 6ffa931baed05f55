//! Time that concurrent jobs take to sum their gradients.

use std::convert::Infallible;

use crate::job::JobId;
use crate::state::State;

/// A source of the time that jobs take to sum their gradients in the network, given the other
/// running jobs. It can be a model or a measurement.
pub trait Sums {
    /// Error of the source.
    type Error;

    /// Returns the distributed jobs whose time may have changed since the last call, with the new
    /// time: seconds to sum the gradients of one iteration, infinite if they never arrive.
    ///
    /// Called whenever such a job has started or ended. The result includes jobs that have started.
    ///
    /// # Errors
    ///
    /// If the source fails.
    fn settle(&mut self, state: &mut State<'_>) -> Result<Vec<(JobId, f64)>, Self::Error>;
}

/// The rates of the network's steady state: all jobs send all the time (NetPack §4, algorithm 1).
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
            // Zero bytes take no time even without bandwidth.
            let none = gradient_bytes == 0.0;
            if none { 0.0 } else { gradient_bytes * 8.0 / (network.rate_gbps(id) * 1e9) }
        };
        Ok(rerated.into_iter().map(|id| (id, sum_s(id))).collect())
    }
}
