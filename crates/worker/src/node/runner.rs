//! The state machine of a worker with its port and channel.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tracing::debug_span;
use tributary_endpoint::driver::Driver;
use tributary_endpoint::driver::channel::{Link, LinkEvent};
use tributary_endpoint::membership::Turns;
use tributary_metrics::Board;
use tributary_netio::FrameIo;
use tributary_protocol::fixed::Rounding;
use tributary_protocol::worker::{Event, Stats};
use tributary_protocol::{Endpoint as _, Tensor, Terms, Worker, WorkerConfig};
use tributary_wire::channel::{FromWorker, Refusal, ToWorker};

use super::request::{InFlight, Outcome, Request};
use super::{Error, Sums};
use crate::numbers::{Numbers, Publisher};

/// Sleep between two checks of the stop flag.
const PATIENCE: Duration = Duration::from_millis(50);

/// Most messages per turn, so that packets are also handled.
const BATCH: usize = 256;

/// The channel of a worker to the reminder agent.
pub(super) type WorkerLink = Link<ToWorker, FromWorker>;

/// The state machine with its port and channel.
#[derive(Debug)]
pub(super) struct Runner<Io> {
    pub(super) driver: Driver<Worker, Io>,
    pub(super) publisher: Publisher,
    pub(super) link: Option<WorkerLink>,
    /// Have the worker's rate.
    pub(super) turns: Option<Turns>,
    /// Each ends the worker.
    pub(super) stops: Vec<Arc<AtomicBool>>,
}

impl<Io: FrameIo> Runner<Io> {
    pub(super) fn new(
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
    pub(super) fn idle(&mut self) -> Result<(), Error> {
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
    pub(super) fn forget_events(&mut self) {
        while self.driver.endpoint_mut().poll_event().is_some() {}
    }

    pub(super) fn reduce(&mut self, tensors: Vec<(Tensor, Terms)>) -> Result<Sums, Error> {
        self.carry_out(Request::Reduce(tensors)).map(Outcome::sums)
    }

    /// Carries out a request in the calling thread.
    pub(super) fn carry_out(&mut self, request: Request) -> Result<Outcome, Error> {
        let mut in_flight = self.begin(request)?;
        loop {
            let busy = self.turn()?;
            if let Some(outcome) = self.progress(&mut in_flight)? {
                self.publish();
                return Ok(outcome);
            }
            if !busy {
                self.driver.sleep(PATIENCE)?;
            }
        }
    }

    pub(super) fn begin(&mut self, request: Request) -> Result<InFlight, Error> {
        let worker = self.driver.endpoint_mut();
        match request {
            Request::Reduce(tensors) => {
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
                Ok(InFlight::Reduce { left, spans, sums })
            }
            Request::Renew(epoch) => {
                worker.renew(epoch)?;
                Ok(InFlight::Renew)
            }
            Request::Leave(patience, may_be_replaced) => {
                if may_be_replaced && worker.has_server() {
                    // Each worker sends one more fragment when it has all earlier results. So when
                    // its sum arrives, no worker lacks anything else. It is skipped without sequence
                    // numbers left.
                    let _ = worker.submit(vec![0].into());
                }
                worker.leave();
                Ok(InFlight::Leave { deadline: Instant::now() + patience })
            }
        }
    }

    /// The outcome, if there is one.
    pub(super) fn progress(&mut self, in_flight: &mut InFlight) -> Result<Option<Outcome>, Error> {
        if self.is_stopped() {
            return Err(Error::Stopped);
        }
        let worker = self.driver.endpoint_mut();
        match in_flight {
            InFlight::Reduce { left, spans, sums } => {
                // Further events are about the requests after this one.
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
            InFlight::Renew => Ok(Some(Outcome::Renewed)),
            InFlight::Leave { deadline } => {
                let all = worker.is_dismissed();
                Ok((all || Instant::now() >= *deadline).then_some(Outcome::Left(all)))
            }
        }
    }

    /// Handles packets and messages in both directions. Returns whether there were any.
    pub(super) fn turn(&mut self) -> Result<bool, Error> {
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

    /// Publishes the numbers at the end of a request: the next turn may be far off.
    pub(super) fn publish(&self) {
        self.publisher.publish(self.driver.endpoint());
    }

    pub(super) fn stats(&self) -> Stats {
        *self.driver.endpoint().stats()
    }
}
