//! What every group does, whatever is between its ranks.

use std::sync::Arc;
use std::time::Duration;

use tributary_protocol::buffer::Buffer;
use tributary_protocol::worker::Stats;

use crate::outcome::Outcome;
use crate::{Call, Error};

/// Longer than a rank takes to stop using the memory of a call.
const STOP: Duration = Duration::from_secs(1);

/// A rank's part in a group.
pub trait Group: Send + Sync {
    /// Begins a call. All ranks must make the same calls in the same order.
    fn call(&self, call: Call) -> Pending;

    /// Pending until the group fails or is left.
    fn failure(&self) -> Pending;

    /// The counters so far.
    fn counters(&self) -> Counters;

    /// Sets the time after which a call without a result breaks the group.
    fn set_timeout(&self, timeout: Duration);

    /// Tells the group that step `step` of `of` has begun, each of which is an iteration. The priorities of packets follow
    /// from it, if there are any.
    fn set_progress(&self, _step: u64, _of: u64) {}

    /// Leaves the group when all calls are over. Calls that are not over soon fail, here and at the
    /// others. No callback is called afterwards.
    fn close(&self);

    /// Fails all calls, here and at the others, and leaves the group. No callback is called afterwards.
    fn abort(&self);
}

/// Counters of a rank in a group.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Calls that have begun.
    pub begun: u64,
    /// Calls that have ended without an error.
    pub done: u64,
    /// Values that were summed.
    pub values: u64,
    /// Calls of which more of this rank's values became zero than the settings allow, or would have.
    pub underflows: u64,
    /// Runs of the group's job before this one.
    pub runs: u64,
    /// Of the worker, if there is one.
    pub worker: Stats,
}

/// Breaks a group.
pub(crate) trait Patience: Send + Sync {
    /// Breaks the group because a call takes too long. Returns the error.
    fn time_out(&self, outcome: &Outcome) -> Error;
}

/// A call that has begun.
#[derive(Clone)]
pub struct Pending {
    outcome: Arc<Outcome>,
    group: Arc<dyn Patience>,
}

impl Pending {
    pub(crate) fn new(outcome: &Arc<Outcome>, group: &Arc<impl Patience + 'static>) -> Self {
        Self { outcome: Arc::clone(outcome), group: Arc::clone(group) as _ }
    }

    /// The result, or `None` if there is none within this time.
    #[must_use]
    pub fn wait(&self, patience: Duration) -> Option<Result<(), Error>> {
        self.outcome.wait(patience)
    }

    /// The result, if there is one.
    #[must_use]
    pub fn result(&self) -> Option<Result<(), Error>> {
        self.outcome.wait(Duration::ZERO)
    }

    /// What the caller should know of a result: that too many values became zero.
    #[must_use]
    pub fn warning(&self) -> Option<&str> {
        self.outcome.warning.get().map(String::as_str)
    }

    /// The sums of a call that keeps them.
    pub(crate) fn take_sums(&self) -> Option<Buffer<f32>> {
        self.outcome.take_sums()
    }

    /// Breaks the group, because the result takes too long: all ranks that wait get an error.
    #[must_use]
    pub fn time_out(&self) -> Error {
        let error = self.group.time_out(&self.outcome);
        // The memory is the caller's again after that.
        match self.wait(STOP) {
            Some(Err(error)) => error,
            _ => error,
        }
    }

    /// Has `callback` called with the result, in a thread of the group.
    pub fn on_done(&self, callback: impl FnOnce(Result<(), Error>) + Send + 'static) {
        self.outcome.on_done(Box::new(callback));
    }
}
