//! A worker on a port: tensors in, sums out.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tracing::{Span, debug_span};
use tributary_driver::Driver;
use tributary_driver::channel::{Link, LinkConfig, LinkEvent};
use tributary_endpoint::schedule::{Ending, Follower};
use tributary_netio::{FrameIo, Waker};
use tributary_protocol::priority::Priority;
use tributary_protocol::worker::{Event, Failure, Stats};
use tributary_protocol::{
    Assignment, ConfigError, Endpoint, ReassignError, SubmitError, Tensor, Worker, WorkerConfig,
};
use tributary_wire::Sequence;
use tributary_wire::channel::{FromWorker, Refusal, ToWorker};

/// Sleep between two checks of the stop flag.
const PATIENCE: Duration = Duration::from_millis(50);

/// Most messages per turn, so that packets are also handled.
const BATCH: usize = 256;

/// The channel of a worker to the reminder agent.
type WorkerLink = Link<ToWorker, FromWorker>;

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
    /// The job scheduler ended the worker's part in the job.
    #[error(transparent)]
    Dismissed(#[from] Ending),
    /// The job scheduler's assignment does not suit the job file.
    #[error("the scheduler's assignment does not suit the job file: {0}")]
    Reassign(#[from] ReassignError),
    /// The stop flag was raised.
    #[error("stopped")]
    Stopped,
}

/// A worker of a job, on a port.
///
/// An ATP worker runs in the thread that calls [`all_reduce`](Self::all_reduce), during the call
/// only: between calls the parameter server answers for it, and a replacement server waits. An ESA
/// worker keeps results that others may have missed, so it has a thread of its own that also
/// answers between calls. At the end a worker [leaves](Self::leave).
#[derive(Debug)]
pub struct Node<Io> {
    place: Place<Io>,
    stats: Stats,
}

#[derive(Debug)]
enum Place<Io> {
    Here(Box<Runner<Io>>),
    Apart(Apart),
}

/// A worker's thread and its channels.
#[derive(Debug)]
struct Apart {
    /// Dropping it ends the thread.
    orders: Option<Sender<Order>>,
    answers: Receiver<Answer>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

/// An order to the worker's thread.
#[derive(Debug)]
enum Order {
    Reduce(Vec<(Tensor, Priority)>),
    Leave(Duration, bool),
}

/// The result of an order.
#[derive(Debug)]
struct Answer {
    outcome: Result<Vec<Tensor>, Error>,
    dismissed: bool,
    stats: Stats,
}

impl<Io: FrameIo> Node<Io> {
    /// Puts an ATP worker on a port. Raising `stop` in any thread ends
    /// [`all_reduce`](Self::all_reduce) early.
    ///
    /// # Errors
    /// [`Error::Config`].
    pub fn new(config: WorkerConfig, io: Io, stop: Arc<AtomicBool>) -> Result<Self, Error> {
        let runner = Runner::new(config, io, stop)?;
        Ok(Self { place: Place::Here(Box::new(runner)), stats: Stats::default() })
    }

    /// Puts an ESA worker on a port, with a channel to the reminder agent. `waker` is the port's
    /// waker if the port is in memory, otherwise any.
    ///
    /// # Errors
    /// [`Error::Config`], or [`Error::Io`] if the thread cannot be started.
    pub fn with_channel(
        config: WorkerConfig,
        io: Io,
        waker: Waker,
        channel: LinkConfig,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, Error>
    where
        Io: 'static,
    {
        let driver = Driver::new(Worker::new(config)?, io).with_waker(waker.clone());
        let link = Some(Link::start(channel, waker.clone())?);
        let mut runner = Runner { driver, link, follower: None, stop };
        let (orders, inbox) = mpsc::channel();
        let (sender, answers) = mpsc::channel();
        let name = format!("esa worker {}", config.index);
        let thread = thread::Builder::new().name(name);
        let span = Span::current();
        let thread = thread.spawn(move || span.in_scope(|| runner.obey(&inbox, &sender)))?;
        let apart = Apart { orders: Some(orders), answers, waker, thread: Some(thread) };
        Ok(Self { place: Place::Apart(apart), stats: Stats::default() })
    }

    /// Sums tensors over all workers of the job and returns the sums in the same order and memory.
    /// All workers must call it with tensors of the same shapes and priorities. In ATP the
    /// priorities have no effect.
    ///
    /// # Errors
    /// [`Error`]. The worker is unusable after an error.
    pub fn all_reduce(&mut self, tensors: Vec<(Tensor, Priority)>) -> Result<Vec<Tensor>, Error> {
        match &mut self.place {
            Place::Here(runner) => {
                let outcome = runner.reduce(tensors);
                self.stats = runner.stats();
                outcome
            }
            Place::Apart(apart) => {
                let answer = apart.call(Order::Reduce(tensors));
                self.stats = answer.stats;
                answer.outcome
            }
        }
    }

    /// Ends the worker's part in the job: returns when the other workers have all their results,
    /// too, or after `patience`. Returns whether they have. With ATP and P4INC the parameter server
    /// has the results that others lack; the worker stays for them only if the server
    /// `may_be_replaced`. All workers of a job must agree on that.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    pub fn leave(&mut self, patience: Duration, may_be_replaced: bool) -> Result<bool, Error> {
        match &mut self.place {
            Place::Here(runner) => runner.leave(patience, may_be_replaced),
            Place::Apart(apart) => {
                let answer = apart.call(Order::Leave(patience, may_be_replaced));
                self.stats = answer.stats;
                answer.outcome.map(|_| answer.dismissed)
            }
        }
    }

    /// The worker's counters at the end of the last call.
    pub fn stats(&self) -> Stats {
        self.stats
    }
}

impl Apart {
    fn call(&mut self, order: Order) -> Answer {
        let orders = self.orders.as_ref().expect("there until it is dropped");
        let sent = orders.send(order);
        self.waker.wake();
        match sent.ok().and_then(|()| self.answers.recv().ok()) {
            Some(answer) => answer,
            // The thread ended after an error that was already returned, or panicked.
            None => {
                let outcome = Err(Error::Stopped);
                Answer { outcome, dismissed: false, stats: Stats::default() }
            }
        }
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        self.orders.take();
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic of the thread.
            drop(thread.join());
        }
    }
}

/// The state machine with its port and channel.
#[derive(Debug)]
pub(crate) struct Runner<Io> {
    driver: Driver<Worker, Io>,
    link: Option<WorkerLink>,
    /// Sets the worker's rate.
    follower: Option<Follower>,
    stop: Arc<AtomicBool>,
}

impl<Io: FrameIo> Runner<Io> {
    fn new(config: WorkerConfig, io: Io, stop: Arc<AtomicBool>) -> Result<Self, Error> {
        let driver = Driver::new(Worker::new(config)?, io);
        Ok(Self { driver, link: None, follower: None, stop })
    }

    /// A worker that keeps the rate that the job scheduler tells, and ends when its run does.
    pub(crate) fn following(
        config: WorkerConfig,
        io: Io,
        follower: Follower,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, Error> {
        let Self { driver, .. } = Self::new(config, io, stop.clone())?;
        let driver = driver.with_waker(follower.waker().clone());
        Ok(Self { driver, link: None, follower: Some(follower), stop })
    }

    /// Changes the assignment between two iterations.
    pub(crate) fn reassign(&mut self, assignment: Assignment) -> Result<(), Error> {
        Ok(self.driver.endpoint_mut().reassign(assignment)?)
    }

    /// A turn of a worker without tensors in flight: it hands over results that its parameter server
    /// lacks.
    pub(crate) fn idle(&mut self) -> Result<(), Error> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        self.turn()?;
        // Nothing is due, so no event is about this worker's tensors.
        while self.driver.endpoint_mut().poll_event().is_some() {}
        Ok(())
    }

    /// Executes orders and serves other workers in between, until the channel of orders closes.
    fn obey(&mut self, orders: &Receiver<Order>, answers: &Sender<Answer>) {
        loop {
            let mut dismissed = false;
            let outcome = match orders.try_recv() {
                Ok(Order::Reduce(tensors)) => self.reduce(tensors),
                Ok(Order::Leave(patience, may_be_replaced)) => {
                    self.leave(patience, may_be_replaced).map(|all| {
                        dismissed = all;
                        Vec::new()
                    })
                }
                Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) => match self.turn() {
                    Ok(()) => {
                        // Nothing is due, so no event is about this worker's tensors.
                        while self.driver.endpoint_mut().poll_event().is_some() {}
                        continue;
                    }
                    // Returned as the result of the next order.
                    Err(error) => match orders.recv() {
                        Ok(_) => Err(error),
                        Err(_) => return,
                    },
                },
            };
            let answer = Answer { outcome, dismissed, stats: self.stats() };
            if answers.send(answer).is_err() {
                return;
            }
        }
    }

    pub(crate) fn reduce(
        &mut self,
        tensors: Vec<(Tensor, Priority)>,
    ) -> Result<Vec<Tensor>, Error> {
        let mut left = tensors.len();
        let mut spans = VecDeque::with_capacity(left);
        let mut sums = Vec::with_capacity(left);
        for (tensor, (values, priority)) in tensors.into_iter().enumerate() {
            let size = values.len();
            let submitted = self.driver.endpoint_mut().submit_with(values, priority);
            let id = submitted.map_err(|source| Error::Submit { tensor, source })?;
            spans.push_back(debug_span!("tensor", id = id.0, values = size));
        }
        while left > 0 {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            self.turn()?;
            while let Some(event) = self.driver.endpoint_mut().poll_event() {
                match event {
                    Event::TensorDone { tensor, .. } => {
                        // Tensors finish in the order of their submission.
                        drop(spans.pop_front());
                        sums.push(tensor);
                        left -= 1;
                    }
                    Event::Stalled { sequence, waited } => {
                        let channel = self.link.as_ref().and_then(Link::trouble);
                        return Err(Error::Stalled { sequence, waited, channel });
                    }
                    Event::Failed(failure) => return Err(failure.into()),
                }
            }
        }
        Ok(sums)
    }

    fn leave(&mut self, patience: Duration, may_be_replaced: bool) -> Result<bool, Error> {
        let deadline = Instant::now() + patience;
        let worker = self.driver.endpoint_mut();
        if may_be_replaced && worker.has_server() {
            // Each worker sends one more fragment when it has all earlier results. So when its sum
            // arrives, no worker lacks anything else. It is skipped without sequence numbers left.
            let _ = worker.submit(Tensor::I32(vec![0]));
        }
        worker.leave();
        while !self.driver.endpoint().is_dismissed() {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            if Instant::now() >= deadline {
                return Ok(false);
            }
            self.turn()?;
        }
        Ok(true)
    }

    /// Handles packets and messages in both directions; sleeps if there are none.
    fn turn(&mut self) -> Result<(), Error> {
        if let Some(follower) = &self.follower {
            let own = self.driver.endpoint().config().job.epoch;
            let standing = follower.check(own)?;
            self.driver.turn_with(PATIENCE, |now, worker| {
                worker.set_rate(now, standing.rate);
                false
            })?;
            return Ok(());
        }
        let Some(link) = &mut self.link else { return Ok(self.driver.turn(PATIENCE)?) };
        let mut refused = None;
        self.driver.turn_with(PATIENCE, |now, worker| {
            let mut moved = false;
            for _ in 0..BATCH {
                let Some(event) = link.poll() else { break };
                moved = true;
                match event {
                    LinkEvent::Opened => worker.channel_opened(),
                    LinkEvent::Message(message) => worker.handle_message(now, message),
                    LinkEvent::Closed => {}
                    // The agent may learn of the job or its run later.
                    LinkEvent::Refused(Refusal::Job | Refusal::Run) => {}
                    LinkEvent::Refused(refusal) => refused = Some(refusal),
                }
            }
            // Values are looked up only when there is room for them.
            while link.has_room() {
                let Some(message) = worker.poll_message() else { break };
                moved = true;
                link.send(&message);
            }
            moved
        })?;
        refused.map_or(Ok(()), |refusal| Err(Error::Refused(refusal)))
    }

    pub(crate) fn stats(&self) -> Stats {
        *self.driver.endpoint().stats()
    }
}
