//! A worker whose lanes run on executors: requests go to all lanes, and the answers are joined.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::sync::{Arc, Mutex};

use tracing::Span;
use tributary_endpoint::driver::Driver;
use tributary_endpoint::driver::channel::Link;
use tributary_endpoint::driver::executor::{Executor, Task, Turn};
use tributary_metrics::Board;
use tributary_netio::{FrameIo, Watch};
use tributary_protocol::fixed::Rounding;
use tributary_protocol::worker::Stats;
use tributary_protocol::{Tensor, Terms, Worker};

use super::request::{InFlight, Join, Joined, Outcome, Request, Responder, Response};
use super::runner::{Runner, WorkerLink};
use super::{Error, Lane, Sums};
use crate::numbers::{Numbers, Publisher};
use crate::parts;

/// The lanes of a worker on their executors.
#[derive(Debug)]
pub(super) struct Lanes {
    pub(super) handles: Vec<LaneHandle>,
    /// Ends all lanes.
    pub(super) halt: Arc<AtomicBool>,
    pub(super) values_per_packet: usize,
}

/// Sends requests to a lane on its executor.
#[derive(Debug)]
pub(super) struct LaneHandle {
    /// Dropping it ends the lane.
    requests: Option<Sender<(Request, Responder)>>,
    /// What is left of the lane at its end.
    ended: Receiver<WorkerLink>,
    executor: Arc<Executor>,
}

impl Lanes {
    /// Gives each lane a request. `done` is called once, by the last lane to answer.
    pub(super) fn begin(
        &self,
        requests: impl Iterator<Item = Request>,
        done: impl FnOnce(Joined) + Send + 'static,
    ) {
        let outcomes = self.handles.iter().map(|_| None).collect();
        let join = Join {
            outcomes,
            left: self.handles.len(),
            failed: None,
            stats: Stats::default(),
            halt: Arc::clone(&self.halt),
            done: Some(done),
        };
        let join = Arc::new(Mutex::new(join));
        for ((at, lane), request) in self.handles.iter().enumerate().zip(requests) {
            let join = Arc::clone(&join);
            let responder = move |answer| Join::add(&join, at, answer);
            lane.begin(request, Responder(Some(Box::new(responder))));
        }
    }

    pub(super) fn reduce(
        &self,
        tensors: Vec<(Tensor, Terms)>,
        done: impl FnOnce(Result<Sums, Error>, Stats) + Send + 'static,
    ) {
        let starts = |(tensor, _): &(Tensor, Terms)| {
            parts::starts(tensor.len(), self.handles.len(), self.values_per_packet)
        };
        let starts: Vec<_> = tensors.iter().map(starts).collect();
        let parts = parts::cut(tensors, &starts, self.handles.len(), self.values_per_packet);
        self.begin(parts.into_iter().map(Request::Reduce), move |(outcomes, stats)| {
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

impl LaneHandle {
    pub(super) fn start<Io: FrameIo + Send + 'static>(
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
        let (requests, inbox) = mpsc::channel();
        let (last, ended) = mpsc::channel();
        let span = Span::current();
        let in_flight = VecDeque::new();
        let task =
            LaneTask { runner, requests: inbox, held: None, last, in_flight, broken: None, span };
        executor.add(Box::new(task));
        Ok(Self { requests: Some(requests), ended, executor })
    }

    /// If the lane is no longer there, the request is dropped, and so answered.
    pub(super) fn begin(&self, request: Request, responder: Responder) {
        let requests = self.requests.as_ref().expect("there until it is dropped");
        drop(requests.send((request, responder)));
        self.executor.waker().wake();
    }
}

impl Drop for LaneHandle {
    fn drop(&mut self) {
        self.requests.take();
        self.executor.waker().wake();
        // Here, because closing a channel takes time, for which the executor's other tasks cannot wait.
        drop(self.ended.recv());
    }
}

/// A lane of a worker on an executor: it carries out requests, and serves others in between, until the channel of
/// requests closes.
#[derive(Debug)]
pub(super) struct LaneTask<Io> {
    runner: Runner<Io>,
    requests: Receiver<(Request, Responder)>,
    /// A request that waits until the ones before it are carried out.
    held: Option<(Request, Responder)>,
    /// The requests that are being carried out.
    in_flight: VecDeque<(InFlight, Responder)>,
    /// Whether there was an error. An error between two requests is the answer to the next one.
    broken: Option<Option<Error>>,
    span: Span,
    /// Dropped last: who waits for it knows that all requests are answered.
    last: Sender<WorkerLink>,
}

impl<Io: FrameIo> LaneTask<Io> {
    /// Answers the first request.
    fn answer(&mut self, outcome: Result<Outcome, Error>) {
        let (_, responder) = self.in_flight.pop_front().expect("a request");
        self.runner.publish();
        responder.send(Response { outcome, stats: self.runner.stats() });
    }

    /// Takes the next requests. Returns whether the channel of requests is closed.
    fn take(&mut self) -> bool {
        loop {
            let (request, responder) =
                match self.held.take().map_or_else(|| self.requests.try_recv(), Ok) {
                    Ok(request) => request,
                    Err(TryRecvError::Empty) => return false,
                    Err(TryRecvError::Disconnected) => return true,
                };
            if !matches!(request, Request::Reduce(_)) && !self.in_flight.is_empty() {
                self.held = Some((request, responder));
                return false;
            }
            let begun = match &mut self.broken {
                None => self.runner.begin(request),
                Some(error) => Err(error.take().unwrap_or(Error::Stopped)),
            };
            match begun {
                Ok(in_flight) => self.in_flight.push_back((in_flight, responder)),
                Err(error) => {
                    self.broken.get_or_insert_default();
                    responder.send(Response { outcome: Err(error), stats: self.runner.stats() });
                }
            }
        }
    }

    fn step(&mut self) -> Turn {
        if self.take() {
            self.in_flight.clear();
            if let Some(link) = self.runner.link.take() {
                drop(self.last.send(link));
            }
            return Turn::Over;
        }
        if self.broken.is_some() {
            self.in_flight.clear();
            return Turn::Idle;
        }
        let busy = match self.runner.turn() {
            Ok(busy) => busy,
            Err(error) => return self.fail(error),
        };
        if self.in_flight.is_empty() {
            self.runner.forget_events();
        }
        while let Some((in_flight, _)) = self.in_flight.front_mut() {
            match self.runner.progress(in_flight) {
                Ok(None) => break,
                Ok(Some(outcome)) => self.answer(Ok(outcome)),
                Err(error) => return self.fail(error),
            }
        }
        if busy { Turn::Busy } else { Turn::Idle }
    }

    /// The first request gets the error, and the others are stopped.
    fn fail(&mut self, error: Error) -> Turn {
        if self.in_flight.is_empty() {
            self.broken = Some(Some(error));
        } else {
            self.broken = Some(None);
            self.answer(Err(error));
        }
        self.in_flight.clear();
        Turn::Busy
    }
}

impl<Io: FrameIo + Send> Task for LaneTask<Io> {
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
