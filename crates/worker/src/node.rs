//! A worker on its ports: tensors in, sums out.
//!
//! [`Node`] is the worker. Its state machine with port and channel is a `Runner` (module `runner`), which runs in
//! the calling thread, or as a task on an executor for each lane (module `lanes`). Both carry out a `Request`
//! (module `request`).

mod lanes;
mod request;
mod runner;

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::time::Duration;

use tributary_endpoint::driver::channel::LinkConfig;
use tributary_endpoint::driver::executor::Executor;
use tributary_endpoint::membership::Turns;
use tributary_metrics::Board;
use tributary_netio::FrameIo;
use tributary_protocol::fixed::Rounding;
use tributary_protocol::worker::{Failure, Stats};
use tributary_protocol::{
    Assignment, ConfigError, ReassignError, SubmitError, Tensor, Terms, WorkerConfig,
};
use tributary_wire::channel::Refusal;
use tributary_wire::{Epoch, Sequence};

use crate::numbers::Numbers;
use lanes::{LaneHandle, Lanes};
use request::{Outcome, Request};
use runner::Runner;

/// Why tensors were not summed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The worker's settings contradict each other.
    #[error("worker settings: {0}")]
    Config(#[from] ConfigError),
    /// A tensor cannot be summed.
    #[error("tensor {tensor}: {source}")]
    Submit {
        /// Index of the tensor in the list.
        tensor: usize,
        /// The cause.
        source: SubmitError,
    },
    /// The port failed.
    #[error("network: {0}")]
    Io(#[from] io::Error),
    /// Results stopped coming.
    #[error(
        "no result came for {waited:.1?} (fragment {sequence} is due){}",
        .channel.as_ref().map(|why| format!(" (no channel to the reminder agent: {why})"))
            .unwrap_or_default()
    )]
    Stalled {
        /// The lowest fragment whose result is due.
        sequence: Sequence,
        /// How long the worker waited.
        waited: Duration,
        /// ESA: why the channel to the reminder agent is closed, if it is.
        channel: Option<String>,
    },
    /// The reminder agent refused the worker.
    #[error("the reminder agent refused this worker: {0}")]
    Refused(Refusal),
    /// The protocol gave up.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The assignment does not suit the job, or the worker cannot continue in another run.
    #[error("the job cannot continue so: {0}")]
    Reassign(#[from] ReassignError),
    /// The stop flag was raised.
    #[error("stopped")]
    Stopped,
}

/// A worker of a job, on a port, or on one for each of its [lanes](Lane).
///
/// Without an executor, a worker runs in the thread that calls [`all_reduce`](Self::all_reduce), during
/// the call only: between calls the parameter server answers for it, and a replacement server waits. An
/// ESA worker keeps results that others may have missed, so it needs an executor, which also answers
/// between calls. At the end a worker [leaves](Self::leave).
#[derive(Debug)]
pub struct Node<Io> {
    mode: Mode<Io>,
    stats: Stats,
}

#[derive(Debug)]
enum Mode<Io> {
    Inline(Box<Runner<Io>>),
    Lanes(Lanes),
}

/// A lane of a worker: an endpoint that sums a part of each tensor, with a port of its own.
#[derive(Debug)]
pub struct Lane<Io> {
    /// Runs the endpoint.
    pub executor: Arc<Executor>,
    /// The endpoint's settings.
    pub config: WorkerConfig,
    /// A port in memory should have the executor's waker.
    pub io: Io,
    /// The channel to the reminder agent (ESA).
    pub channel: Option<LinkConfig>,
}

/// The sums of tensors.
#[derive(Debug, Default)]
pub struct Sums {
    /// In the order and the memory of the tensors.
    pub tensors: Vec<Tensor>,
    /// The rounding of all their values.
    pub rounding: Rounding,
}

impl<Io: FrameIo> Node<Io> {
    /// Puts a worker on a port. Raising `stop` in any thread ends [`all_reduce`](Self::all_reduce)
    /// early. The worker publishes its numbers on the board.
    ///
    /// # Errors
    /// [`Error::Config`].
    pub fn new(
        config: WorkerConfig,
        io: Io,
        stop: Arc<AtomicBool>,
        board: &Board<Numbers>,
    ) -> Result<Self, Error> {
        let runner = Runner::new(config, io, stop, board)?;
        Ok(Self { mode: Mode::Inline(Box::new(runner)), stats: Stats::default() })
    }

    /// The same worker with the rate that the controller tells, which wakes it.
    ///
    /// # Panics
    /// If the worker has an executor.
    #[must_use]
    pub(crate) fn keeping(self, turns: Turns) -> Self {
        let Mode::Inline(runner) = self.mode else { panic!("a worker with an executor") };
        let Runner { driver, publisher, link, stops, .. } = *runner;
        let driver = driver.with_waker(turns.waker().clone());
        let runner = Runner { driver, publisher, link, stops, turns: Some(turns) };
        Self { mode: Mode::Inline(Box::new(runner)), ..self }
    }

    /// Waits until something is `done`, and serves the parameter server meanwhile, which may have been replaced.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    ///
    /// # Panics
    /// If the worker has an executor.
    pub(crate) fn wait<T>(&mut self, mut done: impl FnMut() -> Option<T>) -> Result<T, Error> {
        loop {
            if let Some(done) = done() {
                return Ok(done);
            }
            if let Err(error) = self.runner().idle() {
                // The reason to stop may have made it so.
                return done().ok_or(error);
            }
        }
    }

    /// Changes the assignment between two iterations.
    ///
    /// # Errors
    /// [`Error::Reassign`].
    ///
    /// # Panics
    /// If the worker has an executor.
    pub(crate) fn reassign(&mut self, assignment: Assignment) -> Result<(), Error> {
        Ok(self.runner().driver.endpoint_mut().reassign(assignment)?)
    }

    /// Whether the worker has an executor.
    pub(crate) fn has_executor(&self) -> bool {
        matches!(self.mode, Mode::Lanes(_))
    }

    fn runner(&mut self) -> &mut Runner<Io> {
        let Mode::Inline(runner) = &mut self.mode else { panic!("a worker with an executor") };
        runner
    }

    /// Puts the lanes of a worker on their ports and executors. All workers of a job have the same
    /// number of lanes. Each lane publishes its numbers on the board.
    ///
    /// # Errors
    /// [`Error::Config`], or [`Error::Io`] if a channel cannot be started.
    ///
    /// # Panics
    /// Without a lane.
    pub fn on(
        lanes: Vec<Lane<Io>>,
        stop: &Arc<AtomicBool>,
        board: &Board<Numbers>,
    ) -> Result<Self, Error>
    where
        Io: Send + 'static,
    {
        let first = lanes.first().expect("a worker has a lane");
        let values_per_packet = first.config.job.values_per_packet.into();
        let halt = Arc::default();
        let start = |lane| LaneHandle::start(lane, [stop, &halt].map(Arc::clone), board);
        let handles = lanes.into_iter().map(start).collect::<Result<_, _>>()?;
        let mode = Mode::Lanes(Lanes { handles, halt, values_per_packet });
        Ok(Self { mode, stats: Stats::default() })
    }

    /// Sums tensors over all workers of the job and returns the sums in the same order and memory.
    /// All workers must call it with tensors of the same shapes, on the same terms.
    ///
    /// # Errors
    /// [`Error`]. The worker is unusable after an error.
    pub fn all_reduce(&mut self, tensors: Vec<(Tensor, Terms)>) -> Result<Vec<Tensor>, Error> {
        let (sums, stats) = match &mut self.mode {
            Mode::Inline(runner) => (runner.reduce(tensors), runner.stats()),
            Mode::Lanes(lanes) => {
                let (sender, receiver) = mpsc::channel();
                lanes.reduce(tensors, move |sums, stats| drop(sender.send((sums, stats))));
                receiver.recv().expect("a request is answered")
            }
        };
        self.stats = stats;
        sums.map(|sums| sums.tensors)
    }

    /// Begins an [`all_reduce`](Self::all_reduce), also while earlier ones are under way; they end in the
    /// order of their beginnings. `done` gets the sums and the worker's counters, in a thread of a lane,
    /// which carries no packets meanwhile.
    ///
    /// # Panics
    /// If the worker has no executor.
    pub fn begin(
        &self,
        tensors: Vec<(Tensor, Terms)>,
        done: impl FnOnce(Result<Sums, Error>, Stats) + Send + 'static,
    ) {
        let Mode::Lanes(lanes) = &self.mode else { panic!("a worker without an executor") };
        lanes.reduce(tensors, done);
    }

    /// Continues in later runs of the job, one for each lane, after all that was begun before. `done` is as
    /// that of [`begin`](Self::begin).
    ///
    /// # Panics
    /// If the worker has no executor.
    pub fn renew(
        &self,
        epochs: impl IntoIterator<Item = Epoch>,
        done: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) {
        let Mode::Lanes(lanes) = &self.mode else { panic!("a worker without an executor") };
        lanes.begin(epochs.into_iter().map(Request::Renew), move |(outcomes, _)| {
            done(outcomes.map(drop).map_err(|(_, error)| error));
        });
    }

    /// The most fragments that a lane needs for a tensor of so many elements.
    ///
    /// # Panics
    /// If the worker has no executor.
    pub fn fragments(&self, elements: usize) -> usize {
        let Mode::Lanes(lanes) = &self.mode else { panic!("a worker without an executor") };
        elements.div_ceil(lanes.values_per_packet).div_ceil(lanes.handles.len())
    }

    /// Ends the worker's part in the job: returns when the other workers have all their results,
    /// too, or after `patience`. Returns whether they have. With ATP and P4INC the parameter server
    /// has the results that others lack; the worker stays for them only if the server
    /// `may_be_replaced`. All workers of a job must agree on that.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    pub fn leave(&mut self, patience: Duration, may_be_replaced: bool) -> Result<bool, Error> {
        let request = || Request::Leave(patience, may_be_replaced);
        let (outcomes, stats) = match &mut self.mode {
            Mode::Inline(runner) => {
                let outcome = runner.carry_out(request());
                (outcome.map(|outcome| vec![outcome]), runner.stats())
            }
            Mode::Lanes(lanes) => {
                let (sender, receiver) = mpsc::channel();
                let requests = (0..lanes.handles.len()).map(|_| request());
                lanes.begin(requests, move |joined| drop(sender.send(joined)));
                let (outcomes, stats) = receiver.recv().expect("a request is answered");
                (outcomes.map_err(|(_, error)| error), stats)
            }
        };
        self.stats = stats;
        Ok(outcomes?.iter().all(|outcome| matches!(outcome, Outcome::Left(true))))
    }

    /// The worker's counters at the end of the last call.
    pub fn stats(&self) -> Stats {
        self.stats
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tributary_model::Deployment;
    use tributary_netio::{Waker, memory};
    use tributary_protocol::priority::Priority;
    use tributary_wire::WorkerIndex;

    use super::*;

    /// The other lanes wait for workers that do not exist.
    #[test]
    fn an_error_in_one_lane_ends_the_others() {
        let file = "[[job]]\nworkers = 2\nthreads = 3\n";
        let scenario = tributary_model::jobfile::parse(file, "f").unwrap();
        let deployment = Deployment::new(scenario).unwrap();
        let index = WorkerIndex::new(0).unwrap();
        let mut far = Vec::new();
        let lanes = (0..3).map(|lane| {
            let executor = Executor::start(format!("lane {lane}"), Waker::new()).unwrap();
            let (io, other) = memory::link(64, executor.waker(), &Waker::new());
            far.push(other);
            let config = deployment.worker(lane, index);
            Lane { executor: Arc::new(executor), config, io, channel: None }
        });
        let mut node = Node::on(lanes.collect(), &Arc::default(), &Board::default()).unwrap();
        let mut values = vec![1.0; 1_000];
        values[900] = f32::NAN;
        let begin = Instant::now();
        let error = node.all_reduce(vec![(values.into(), Priority::LOWEST.into())]).unwrap_err();
        assert_eq!(error.to_string(), "tensor 0: value 900 is NaN, which cannot be summed");
        drop(node);
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    }
}
