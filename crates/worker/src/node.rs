//! A worker on a port: tensors in, their sums out.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tributary_driver::Driver;
use tributary_driver::channel::{Link, LinkConfig, LinkEvent};
use tributary_netio::{FrameIo, Waker};
use tributary_protocol::priority::Priority;
use tributary_protocol::worker::{Event, Failure, Stats};
use tributary_protocol::{ConfigError, Endpoint, SubmitError, Tensor, Worker, WorkerConfig};
use tributary_wire::Sequence;
use tributary_wire::channel::{FromWorker, Refusal, ToWorker};

/// How long a worker sleeps before it looks whether it should stop.
const PATIENCE: Duration = Duration::from_millis(50);

/// Messages taken in one turn before packets get their chance.
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
        /// Position in the list given.
        tensor: usize,
        /// Why.
        source: SubmitError,
    },
    /// The port failed.
    #[error("network: {0}")]
    Io(#[from] io::Error),
    /// Results stopped coming. Who knows the network says more.
    #[error(
        "no result came for {waited:.1?} (fragment {sequence} is due){}",
        .channel.as_ref().map(|why| format!(" (no channel to the reminder agent: {why})"))
            .unwrap_or_default()
    )]
    Stalled {
        /// The lowest fragment whose result is due.
        sequence: Sequence,
        /// How long.
        waited: Duration,
        /// ESA: why the channel to the reminder agent is not open, if it is not.
        channel: Option<String>,
    },
    /// The reminder agent does not let the worker in.
    #[error("the reminder agent refused this worker: {0}")]
    Refused(Refusal),
    /// The protocol gave up.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// Somebody raised the stop flag.
    #[error("stopped")]
    Stopped,
}

/// A worker of a job, on a port.
///
/// An ATP worker works in the thread that calls [`all_reduce`](Self::all_reduce), and only then:
/// between two calls the parameter server answers for it, and one that took its place waits. An ESA
/// worker keeps results that others may have missed, so it has a thread of its own that also answers
/// between the calls. At the end a worker [leaves](Self::leave).
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

/// A worker's thread and the way to it.
#[derive(Debug)]
struct Apart {
    /// Dropped to end the thread.
    orders: Option<Sender<Order>>,
    answers: Receiver<Answer>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

/// What the worker's thread is to do.
#[derive(Debug)]
enum Order {
    Reduce(Vec<(Tensor, Priority)>),
    Leave(Duration, bool),
}

/// What came of it.
#[derive(Debug)]
struct Answer {
    outcome: Result<Vec<Tensor>, Error>,
    dismissed: bool,
    stats: Stats,
}

impl<Io: FrameIo> Node<Io> {
    /// Puts an ATP worker on a port. `stop` ends [`all_reduce`](Self::all_reduce) early, from any
    /// thread.
    ///
    /// # Errors
    /// [`Error::Config`].
    pub fn new(config: WorkerConfig, io: Io, stop: Arc<AtomicBool>) -> Result<Self, Error> {
        let driver = Driver::new(Worker::new(config)?, io);
        let runner = Runner { driver, link: None, stop };
        Ok(Self { place: Place::Here(Box::new(runner)), stats: Stats::default() })
    }

    /// Puts an ESA worker on a port, with a channel to the reminder agent. `waker` is the port's own
    /// if it is in memory, else any.
    ///
    /// # Errors
    /// [`Error::Config`], or [`Error::Io`] if a thread cannot be started.
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
        let mut runner = Runner { driver, link, stop };
        let (orders, inbox) = mpsc::channel();
        let (sender, answers) = mpsc::channel();
        let name = format!("esa worker {}", config.index);
        let thread = thread::Builder::new().name(name);
        let thread = thread.spawn(move || runner.obey(&inbox, &sender))?;
        let apart = Apart { orders: Some(orders), answers, waker, thread: Some(thread) };
        Ok(Self { place: Place::Apart(apart), stats: Stats::default() })
    }

    /// Sums tensors over all workers of the job and returns the sums in the same order and memory.
    /// All workers must call it with tensors of the same shapes and priorities. In ATP the
    /// priorities have no effect.
    ///
    /// # Errors
    /// [`Error`] tells. After an error the worker is of no use any more.
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

    /// Ends the worker's part in the job: returns when the other workers have all their results too,
    /// or after `patience`. Returns whether they have. With ATP and P4INC the parameter server has the
    /// results that others lack; only if it `may_be_replaced` does the worker stay for them. All
    /// workers of a job must agree on that.
    ///
    /// # Errors
    /// As of [`all_reduce`](Self::all_reduce).
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

    /// What the worker had counted at the end of the last call.
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
            // It ended after an error that was said before, or panicked.
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
            // A panic of the thread has been reported by itself.
            drop(thread.join());
        }
    }
}

/// A worker at work.
#[derive(Debug)]
struct Runner<Io> {
    driver: Driver<Worker, Io>,
    link: Option<WorkerLink>,
    stop: Arc<AtomicBool>,
}

impl<Io: FrameIo> Runner<Io> {
    /// Does what it is told, and is there for other workers meanwhile, until nobody gives orders.
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
                        // Nothing is due: whatever it says is about others.
                        while self.driver.endpoint_mut().poll_event().is_some() {}
                        continue;
                    }
                    // Told as the outcome of the next order.
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

    fn reduce(&mut self, tensors: Vec<(Tensor, Priority)>) -> Result<Vec<Tensor>, Error> {
        let mut left = tensors.len();
        let mut sums = Vec::with_capacity(left);
        for (tensor, (values, priority)) in tensors.into_iter().enumerate() {
            let submitted = self.driver.endpoint_mut().submit_with(values, priority);
            submitted.map_err(|source| Error::Submit { tensor, source })?;
        }
        while left > 0 {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            self.turn()?;
            while let Some(event) = self.driver.endpoint_mut().poll_event() {
                match event {
                    Event::TensorDone { tensor, .. } => {
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
            // All send one more fragment, each when it has all results before it: so when the sum of
            // that is in, nobody lacks anything else. Without sequence numbers left no worker stays.
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

    /// Packets and messages, both ways; sleeps if there are none.
    fn turn(&mut self) -> Result<(), Error> {
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
                    // An agent that does not know the job or its run yet may be told of it.
                    LinkEvent::Refused(Refusal::Job | Refusal::Run) => {}
                    LinkEvent::Refused(refusal) => refused = Some(refusal),
                }
            }
            // Values are looked up when there is room for them, not before.
            while link.has_room() {
                let Some(message) = worker.poll_message() else { break };
                moved = true;
                link.send(&message);
            }
            moved
        })?;
        refused.map_or(Ok(()), |refusal| Err(Error::Refused(refusal)))
    }

    fn stats(&self) -> Stats {
        *self.driver.endpoint().stats()
    }
}
