//! A worker on its ports: tensors in, sums out.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io};

use tracing::{Span, debug_span};
use tributary_endpoint::driver::Driver;
use tributary_endpoint::driver::channel::{Link, LinkConfig, LinkEvent};
use tributary_endpoint::driver::executor::{Executor, Task, Turn};
use tributary_endpoint::membership::Turns;
use tributary_metrics::Board;
use tributary_netio::{FrameIo, Watch};
use tributary_protocol::fixed::Rounding;
use tributary_protocol::worker::{Event, Failure, Stats};
use tributary_protocol::{
    Assignment, ConfigError, Endpoint, ReassignError, SubmitError, Tensor, Terms, Worker,
    WorkerConfig,
};
use tributary_wire::channel::{FromWorker, Refusal, ToWorker};
use tributary_wire::{Epoch, Sequence};

use crate::numbers::{Numbers, Publisher};
use crate::parts;

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
    place: Place<Io>,
    stats: Stats,
}

#[derive(Debug)]
enum Place<Io> {
    Here(Box<Runner<Io>>),
    Apart(Apart),
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

/// The ways to the lanes of a worker.
#[derive(Debug)]
struct Apart {
    lanes: Vec<Way>,
    /// Ends all lanes.
    halt: Arc<AtomicBool>,
    values_per_packet: usize,
}

/// The way to a lane on an executor.
#[derive(Debug)]
struct Way {
    /// Dropping it ends the lane.
    orders: Option<Sender<(Order, Reply)>>,
    /// What is left of the lane at its end.
    remains: Receiver<WorkerLink>,
    executor: Arc<Executor>,
}

/// What a worker is to do.
#[derive(Debug)]
enum Order {
    Reduce(Vec<(Tensor, Terms)>),
    Renew(Epoch),
    Leave(Duration, bool),
}

/// An order that is being carried out.
#[derive(Debug)]
enum Work {
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

/// The sums of tensors.
#[derive(Debug, Default)]
pub struct Sums {
    /// In the order and the memory of the tensors.
    pub tensors: Vec<Tensor>,
    /// The rounding of all their values.
    pub rounding: Rounding,
}

/// The result of an order.
#[derive(Debug)]
enum Outcome {
    Sums(Sums),
    Renewed,
    /// Whether all other workers have their results.
    Left(bool),
}

impl Outcome {
    /// The sums of [`Order::Reduce`].
    fn sums(self) -> Sums {
        match self {
            Self::Sums(sums) => sums,
            Self::Renewed | Self::Left(_) => unreachable!("the outcome of another order"),
        }
    }
}

/// The answer to an order.
#[derive(Debug)]
struct Answer {
    outcome: Result<Outcome, Error>,
    stats: Stats,
}

/// Where the answer to an order goes. An order that is dropped with its lane is answered, too.
struct Reply(Option<Box<dyn FnOnce(Answer) + Send>>);

impl Reply {
    fn send(mut self, answer: Answer) {
        if let Some(reply) = self.0.take() {
            reply(answer);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(reply) = self.0.take() {
            reply(Answer { outcome: Err(Error::Stopped), stats: Stats::default() });
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}

/// All outcomes of an order, or an error and its lane; and the sum of the lanes' counters.
type Gathered = (Result<Vec<Outcome>, (usize, Error)>, Stats);

/// The answers of the lanes to an order so far.
struct Gathering<Done> {
    outcomes: Vec<Option<Outcome>>,
    /// Number of lanes that have not answered.
    left: usize,
    /// The first error, and its lane.
    failed: Option<(usize, Error)>,
    stats: Stats,
    /// Ends the other lanes after an error.
    halt: Arc<AtomicBool>,
    done: Option<Done>,
}

impl<Done: FnOnce(Gathered)> Gathering<Done> {
    fn add(this: &Mutex<Self>, lane: usize, answer: Answer) {
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
        Ok(Self { place: Place::Here(Box::new(runner)), stats: Stats::default() })
    }

    /// The same worker with the rate that the controller tells, which wakes it.
    ///
    /// # Panics
    /// If the worker has an executor.
    #[must_use]
    pub(crate) fn keeping(self, turns: Turns) -> Self {
        let Place::Here(runner) = self.place else { panic!("a worker with an executor") };
        let Runner { driver, publisher, link, stops, .. } = *runner;
        let driver = driver.with_waker(turns.waker().clone());
        let runner = Runner { driver, publisher, link, stops, turns: Some(turns) };
        Self { place: Place::Here(Box::new(runner)), ..self }
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
    pub(crate) fn is_apart(&self) -> bool {
        matches!(self.place, Place::Apart(_))
    }

    fn runner(&mut self) -> &mut Runner<Io> {
        let Place::Here(runner) = &mut self.place else { panic!("a worker with an executor") };
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
        let start = |lane| Way::start(lane, [stop, &halt].map(Arc::clone), board);
        let lanes = lanes.into_iter().map(start).collect::<Result<_, _>>()?;
        let place = Place::Apart(Apart { lanes, halt, values_per_packet });
        Ok(Self { place, stats: Stats::default() })
    }

    /// Sums tensors over all workers of the job and returns the sums in the same order and memory.
    /// All workers must call it with tensors of the same shapes, on the same terms.
    ///
    /// # Errors
    /// [`Error`]. The worker is unusable after an error.
    pub fn all_reduce(&mut self, tensors: Vec<(Tensor, Terms)>) -> Result<Vec<Tensor>, Error> {
        let (sums, stats) = match &mut self.place {
            Place::Here(runner) => (runner.reduce(tensors), runner.stats()),
            Place::Apart(apart) => {
                let (sender, receiver) = mpsc::channel();
                apart.reduce(tensors, move |sums, stats| drop(sender.send((sums, stats))));
                receiver.recv().expect("an order is answered")
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
        let Place::Apart(apart) = &self.place else { panic!("a worker without an executor") };
        apart.reduce(tensors, done);
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
        let Place::Apart(apart) = &self.place else { panic!("a worker without an executor") };
        apart.begin(epochs.into_iter().map(Order::Renew), move |(outcomes, _)| {
            done(outcomes.map(drop).map_err(|(_, error)| error));
        });
    }

    /// The most fragments that a lane needs for a tensor of so many elements.
    ///
    /// # Panics
    /// If the worker has no executor.
    pub fn fragments(&self, elements: usize) -> usize {
        let Place::Apart(apart) = &self.place else { panic!("a worker without an executor") };
        elements.div_ceil(apart.values_per_packet).div_ceil(apart.lanes.len())
    }

    /// Ends the worker's part in the job: returns when the other workers have all their results,
    /// too, or after `patience`. Returns whether they have. With ATP and P4INC the parameter server
    /// has the results that others lack; the worker stays for them only if the server
    /// `may_be_replaced`. All workers of a job must agree on that.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    pub fn leave(&mut self, patience: Duration, may_be_replaced: bool) -> Result<bool, Error> {
        let order = || Order::Leave(patience, may_be_replaced);
        let (outcomes, stats) = match &mut self.place {
            Place::Here(runner) => {
                let outcome = runner.carry_out(order());
                (outcome.map(|outcome| vec![outcome]), runner.stats())
            }
            Place::Apart(apart) => {
                let (sender, receiver) = mpsc::channel();
                let orders = (0..apart.lanes.len()).map(|_| order());
                apart.begin(orders, move |gathered| drop(sender.send(gathered)));
                let (outcomes, stats) = receiver.recv().expect("an order is answered");
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

impl Apart {
    /// Gives each lane an order. `done` is called once, by the last lane to answer.
    fn begin(
        &self,
        orders: impl Iterator<Item = Order>,
        done: impl FnOnce(Gathered) + Send + 'static,
    ) {
        let outcomes = self.lanes.iter().map(|_| None).collect();
        let gathering = Gathering {
            outcomes,
            left: self.lanes.len(),
            failed: None,
            stats: Stats::default(),
            halt: Arc::clone(&self.halt),
            done: Some(done),
        };
        let gathering = Arc::new(Mutex::new(gathering));
        for ((at, lane), order) in self.lanes.iter().enumerate().zip(orders) {
            let gathering = Arc::clone(&gathering);
            let reply = move |answer| Gathering::add(&gathering, at, answer);
            lane.begin(order, Reply(Some(Box::new(reply))));
        }
    }

    fn reduce(
        &self,
        tensors: Vec<(Tensor, Terms)>,
        done: impl FnOnce(Result<Sums, Error>, Stats) + Send + 'static,
    ) {
        let starts = |(tensor, _): &(Tensor, Terms)| {
            parts::starts(tensor.len(), self.lanes.len(), self.values_per_packet)
        };
        let starts: Vec<_> = tensors.iter().map(starts).collect();
        let parts = parts::cut(tensors, &starts, self.lanes.len());
        self.begin(parts.into_iter().map(Order::Reduce), move |(outcomes, stats)| {
            let sums = outcomes.map(|lanes| {
                let mut rounding = Rounding::default();
                let tensors = lanes.into_iter().map(|lane| {
                    let lane = lane.sums();
                    rounding += lane.rounding;
                    lane.tensors
                });
                Sums { tensors: parts::join(tensors), rounding }
            });
            let sums = sums.map_err(|(lane, error)| match error {
                Error::Submit { tensor, source } => {
                    Error::Submit { tensor, source: source.after(starts[tensor][lane]) }
                }
                error => error,
            });
            done(sums, stats);
        });
    }
}

impl Way {
    fn start<Io: FrameIo + Send + 'static>(
        lane: Lane<Io>,
        stops: [Arc<AtomicBool>; 2],
        board: &Board<Numbers>,
    ) -> Result<Self, Error> {
        let Lane { executor, config, io, channel } = lane;
        let waker = executor.waker();
        let driver = Driver::new(Worker::new(config)?, io).with_waker(waker.clone());
        let publisher = Publisher::new(board, driver.endpoint());
        let link = channel.map(|config| Link::start(config, waker.clone())).transpose()?;
        let runner = Runner { driver, publisher, link, turns: None, stops: stops.into() };
        let (orders, inbox) = mpsc::channel();
        let (last, remains) = mpsc::channel();
        let span = Span::current();
        let works = VecDeque::new();
        let post = Post { runner, orders: inbox, held: None, last, works, broken: None, span };
        executor.add(Box::new(post));
        Ok(Self { orders: Some(orders), remains, executor })
    }

    /// If the lane is no longer there, the order is dropped, and so answered.
    fn begin(&self, order: Order, reply: Reply) {
        let orders = self.orders.as_ref().expect("there until it is dropped");
        drop(orders.send((order, reply)));
        self.executor.waker().wake();
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.orders.take();
        self.executor.waker().wake();
        // Here, because closing a channel takes time, for which the executor's other tasks cannot wait.
        drop(self.remains.recv());
    }
}

/// A lane of a worker on an executor: it carries out orders, and serves others in between, until the channel of
/// orders closes.
#[derive(Debug)]
struct Post<Io> {
    runner: Runner<Io>,
    orders: Receiver<(Order, Reply)>,
    /// An order that waits until the ones before it are carried out.
    held: Option<(Order, Reply)>,
    /// The orders that are being carried out.
    works: VecDeque<(Work, Reply)>,
    /// Whether there was an error. An error between two orders is the answer to the next one.
    broken: Option<Option<Error>>,
    span: Span,
    /// Dropped last: who waits for it knows that all orders are answered.
    last: Sender<WorkerLink>,
}

impl<Io: FrameIo> Post<Io> {
    /// Answers the first order.
    fn answer(&mut self, outcome: Result<Outcome, Error>) {
        let (_, reply) = self.works.pop_front().expect("an order");
        self.runner.publish();
        reply.send(Answer { outcome, stats: self.runner.stats() });
    }

    /// Takes the next orders. Returns whether the channel of orders is closed.
    fn take(&mut self) -> bool {
        loop {
            let (order, reply) = match self.held.take().map_or_else(|| self.orders.try_recv(), Ok) {
                Ok(order) => order,
                Err(TryRecvError::Empty) => return false,
                Err(TryRecvError::Disconnected) => return true,
            };
            if !matches!(order, Order::Reduce(_)) && !self.works.is_empty() {
                self.held = Some((order, reply));
                return false;
            }
            let begun = match &mut self.broken {
                None => self.runner.begin(order),
                Some(error) => Err(error.take().unwrap_or(Error::Stopped)),
            };
            match begun {
                Ok(work) => self.works.push_back((work, reply)),
                Err(error) => {
                    self.broken.get_or_insert_default();
                    reply.send(Answer { outcome: Err(error), stats: self.runner.stats() });
                }
            }
        }
    }

    fn step(&mut self) -> Turn {
        if self.take() {
            self.works.clear();
            if let Some(link) = self.runner.link.take() {
                drop(self.last.send(link));
            }
            return Turn::Over;
        }
        if self.broken.is_some() {
            self.works.clear();
            return Turn::Idle;
        }
        let busy = match self.runner.turn() {
            Ok(busy) => busy,
            Err(error) => return self.fail(error),
        };
        if self.works.is_empty() {
            self.runner.forget_events();
        }
        while let Some((work, _)) = self.works.front_mut() {
            match self.runner.progress(work) {
                Ok(None) => break,
                Ok(Some(outcome)) => self.answer(Ok(outcome)),
                Err(error) => return self.fail(error),
            }
        }
        if busy { Turn::Busy } else { Turn::Idle }
    }

    /// The first order gets the error, and the others are stopped.
    fn fail(&mut self, error: Error) -> Turn {
        if self.works.is_empty() {
            self.broken = Some(Some(error));
        } else {
            self.broken = Some(None);
            self.answer(Err(error));
        }
        self.works.clear();
        Turn::Busy
    }
}

impl<Io: FrameIo + Send> Task for Post<Io> {
    fn turn(&mut self) -> Turn {
        let span = self.span.clone();
        span.in_scope(|| self.step())
    }

    fn watch(&mut self, watch: &mut Watch) {
        if self.broken.is_none()
            && let Err(error) = self.runner.driver.watch(watch)
        {
            self.fail(error.into());
            watch.ready();
        }
    }
}

/// The state machine with its port and channel.
#[derive(Debug)]
struct Runner<Io> {
    driver: Driver<Worker, Io>,
    publisher: Publisher,
    link: Option<WorkerLink>,
    /// Have the worker's rate.
    turns: Option<Turns>,
    /// Each ends the worker.
    stops: Vec<Arc<AtomicBool>>,
}

impl<Io: FrameIo> Runner<Io> {
    fn new(
        config: WorkerConfig,
        io: Io,
        stop: Arc<AtomicBool>,
        board: &Board<Numbers>,
    ) -> Result<Self, Error> {
        let driver = Driver::new(Worker::new(config)?, io);
        let publisher = Publisher::new(board, driver.endpoint());
        Ok(Self { driver, publisher, link: None, turns: None, stops: vec![stop] })
    }

    /// A turn of a worker without tensors in flight: it hands over results that its parameter server
    /// lacks. It sleeps if there are none.
    fn idle(&mut self) -> Result<(), Error> {
        if self.is_stopped() {
            return Err(Error::Stopped);
        }
        if !self.turn()? {
            self.driver.sleep(PATIENCE)?;
        }
        self.forget_events();
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        self.stops.iter().any(|stop| stop.load(Ordering::Relaxed))
    }

    /// Nothing is due, so no event is about this worker's tensors.
    fn forget_events(&mut self) {
        while self.driver.endpoint_mut().poll_event().is_some() {}
    }

    fn reduce(&mut self, tensors: Vec<(Tensor, Terms)>) -> Result<Sums, Error> {
        self.carry_out(Order::Reduce(tensors)).map(Outcome::sums)
    }

    /// Carries out an order in the calling thread.
    fn carry_out(&mut self, order: Order) -> Result<Outcome, Error> {
        let mut work = self.begin(order)?;
        loop {
            let busy = self.turn()?;
            if let Some(outcome) = self.progress(&mut work)? {
                self.publish();
                return Ok(outcome);
            }
            if !busy {
                self.driver.sleep(PATIENCE)?;
            }
        }
    }

    fn begin(&mut self, order: Order) -> Result<Work, Error> {
        let worker = self.driver.endpoint_mut();
        match order {
            Order::Reduce(tensors) => {
                let left = tensors.len();
                let mut spans = VecDeque::with_capacity(left);
                for (tensor, (values, terms)) in tensors.into_iter().enumerate() {
                    let size = values.len();
                    let submitted = worker.submit_with(values, terms);
                    let id = submitted.map_err(|source| Error::Submit { tensor, source })?;
                    spans.push_back(debug_span!("tensor", id = id.0, values = size));
                }
                let tensors = Vec::with_capacity(left);
                let sums = Sums { tensors, rounding: Rounding::default() };
                Ok(Work::Reduce { left, spans, sums })
            }
            Order::Renew(epoch) => {
                worker.renew(epoch)?;
                Ok(Work::Renew)
            }
            Order::Leave(patience, may_be_replaced) => {
                if may_be_replaced && worker.has_server() {
                    // Each worker sends one more fragment when it has all earlier results. So when
                    // its sum arrives, no worker lacks anything else. It is skipped without sequence
                    // numbers left.
                    let _ = worker.submit(vec![0].into());
                }
                worker.leave();
                Ok(Work::Leave { deadline: Instant::now() + patience })
            }
        }
    }

    /// The outcome, if there is one.
    fn progress(&mut self, work: &mut Work) -> Result<Option<Outcome>, Error> {
        if self.is_stopped() {
            return Err(Error::Stopped);
        }
        let worker = self.driver.endpoint_mut();
        match work {
            Work::Reduce { left, spans, sums } => {
                // Further events are about the orders after this one.
                while *left > 0
                    && let Some(event) = worker.poll_event()
                {
                    match event {
                        Event::TensorDone { tensor, rounding, .. } => {
                            // Tensors finish in the order of their submission.
                            drop(spans.pop_front());
                            sums.tensors.push(tensor);
                            sums.rounding += rounding;
                            *left -= 1;
                        }
                        Event::Stalled { sequence, waited } => {
                            let channel = self.link.as_ref().and_then(Link::trouble);
                            return Err(Error::Stalled { sequence, waited, channel });
                        }
                        Event::Failed(failure) => return Err(failure.into()),
                    }
                }
                Ok((*left == 0).then(|| Outcome::Sums(std::mem::take(sums))))
            }
            Work::Renew => Ok(Some(Outcome::Renewed)),
            Work::Leave { deadline } => {
                let all = worker.is_dismissed();
                Ok((all || Instant::now() >= *deadline).then_some(Outcome::Left(all)))
            }
        }
    }

    /// Handles packets and messages in both directions. Returns whether there were any.
    fn turn(&mut self) -> Result<bool, Error> {
        let publisher = &mut self.publisher;
        let rate = self.turns.as_ref().and_then(Turns::now).map(|turn| turn.rate);
        let Some(link) = &mut self.link else {
            return Ok(self.driver.advance(|now, worker| {
                if let Some(rate) = rate {
                    worker.set_rate(now, rate);
                }
                publisher.look(now, worker);
                false
            })?);
        };
        let mut refused = None;
        let busy = self.driver.advance(|now, worker| {
            publisher.look(now, worker);
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
        refused.map_or(Ok(busy), |refusal| Err(Error::Refused(refusal)))
    }

    /// Publishes the numbers at the end of an order: the next turn may be far off.
    fn publish(&self) {
        self.publisher.publish(self.driver.endpoint());
    }

    fn stats(&self) -> Stats {
        *self.driver.endpoint().stats()
    }
}

#[cfg(test)]
mod tests {
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
