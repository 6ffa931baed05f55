//! What a worker is asked to do, and its answers, also from several lanes.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::Span;
use tributary_protocol::worker::Stats;
use tributary_protocol::{Tensor, Terms};
use tributary_wire::Epoch;

use super::{Error, Sums};

/// What a worker is to do.
#[derive(Debug)]
pub(super) enum Request {
    Reduce(Vec<(Tensor, Terms)>),
    Renew(Epoch),
    Leave(Duration, bool),
}

/// A request that is being carried out.
#[derive(Debug)]
pub(super) enum InFlight {
    /// `left` sums are missing. There is a span for each of them.
    Reduce {
        left: usize,
        spans: VecDeque<Span>,
        sums: Sums,
    },
    /// It is over as soon as it begins.
    Renew,
    Leave {
        deadline: Instant,
    },
}

/// The result of a request.
#[derive(Debug)]
pub(super) enum Outcome {
    Sums(Sums),
    Renewed,
    /// Whether all other workers have their results.
    Left(bool),
}

impl Outcome {
    /// The sums of [`Request::Reduce`].
    pub(super) fn sums(self) -> Sums {
        match self {
            Self::Sums(sums) => sums,
            Self::Renewed | Self::Left(_) => unreachable!("the outcome of another request"),
        }
    }
}

/// The answer to a request.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) outcome: Result<Outcome, Error>,
    pub(super) stats: Stats,
}

/// Where the answer to a request goes. A request that is dropped with its lane is answered, too.
pub(super) struct Responder(pub(super) Option<Box<dyn FnOnce(Response) + Send>>);

impl Responder {
    pub(super) fn send(mut self, answer: Response) {
        if let Some(responder) = self.0.take() {
            responder(answer);
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if let Some(responder) = self.0.take() {
            responder(Response { outcome: Err(Error::Stopped), stats: Stats::default() });
        }
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Responder")
    }
}

/// All outcomes of a request, or an error and its lane; and the sum of the lanes' counters.
pub(super) type Joined = (Result<Vec<Outcome>, (usize, Error)>, Stats);

/// The answers of the lanes to a request so far.
pub(super) struct Join<Done> {
    pub(super) outcomes: Vec<Option<Outcome>>,
    /// Number of lanes that have not answered.
    pub(super) left: usize,
    /// The first error, and its lane.
    pub(super) failed: Option<(usize, Error)>,
    pub(super) stats: Stats,
    /// Ends the other lanes after an error.
    pub(super) halt: Arc<AtomicBool>,
    pub(super) done: Option<Done>,
}

impl<Done: FnOnce(Joined)> Join<Done> {
    pub(super) fn add(this: &Mutex<Self>, lane: usize, answer: Response) {
        let mut own = this.lock().unwrap_or_else(PoisonError::into_inner);
        own.stats += answer.stats;
        match answer.outcome {
            Ok(outcome) => own.outcomes[lane] = Some(outcome),
            Err(error) => {
                own.halt.store(true, Ordering::Relaxed);
                own.failed.get_or_insert((lane, error));
            }
        }
        own.left -= 1;
        if own.left > 0 {
            // The others may still use the memory of the tensors.
            return;
        }
        let result = match own.failed.take() {
            None => Ok(own.outcomes.drain(..).flatten().collect()),
            Some(failed) => Err(failed),
        };
        let (done, stats) = (own.done.take(), own.stats);
        drop(own);
        if let Some(done) = done {
            done((result, stats));
        }
    }
}
