//! The real endpoints, each with a clock of its own.
//!
//! A clock advances only when a timer fires: it jumps to that timer. All orders of timers and
//! packets are explored, so time has no other effect.

use std::time::Duration;

use tributary_protocol::congestion::Controller;
use tributary_protocol::esa::{AgentJob, Backend, ToPeer};
use tributary_protocol::{
    Endpoint, ParameterServer, PsConfig, Recovery, Tensor, Terms, Time, Timing, Worker,
    WorkerConfig, worker,
};
use tributary_wire::Sequence;
use tributary_wire::channel::{FromWorker, ToWorker};

use crate::text;

/// The length of all timeouts.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);
/// How often in a row a timer may fire without effect.
const MOST_LAZY: usize = 4;
/// Start of clocks, late enough that no time is negative.
const START: Time = Time::from_nanos(1 << 40);

/// Timers of constant length, and no reports of stalls.
pub(crate) fn timing(recovery: Recovery) -> Timing {
    let rtt = tributary_protocol::rtt::RttConfig { initial: TIMEOUT, min: TIMEOUT, max: TIMEOUT };
    Timing { rtt, recovery, stall_timeout: 1_000_000 * TIMEOUT, ..Timing::default() }
}

/// A constant window: congestion control is not part of the search.
#[derive(Clone, Debug)]
struct Constant(u32);

impl Controller for Constant {
    fn window(&self) -> u32 {
        self.0
    }

    fn on_result(&mut self) {}

    fn on_congestion(&mut self, _sequence: Sequence, _next: Sequence) {}

    fn limit(&mut self, _window: u32) {}

    fn boxed_clone(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

/// The output of an endpoint.
#[derive(Debug)]
pub(crate) struct Output<M> {
    pub(crate) frames: Vec<Vec<u8>>,
    pub(crate) messages: Vec<M>,
    /// A violation.
    pub(crate) trouble: Option<String>,
}

impl<M> Default for Output<M> {
    fn default() -> Self {
        Self { frames: Vec::new(), messages: Vec::new(), trouble: None }
    }
}

/// A worker, its remaining tensors, and the expected sums.
#[derive(Clone, Debug)]
pub(crate) struct Labourer {
    worker: Worker,
    now: Time,
    tensors: Vec<(Tensor, Terms)>,
    sums: Vec<Tensor>,
    leaves: bool,
}

impl Labourer {
    /// A worker with tensors of one fragment each to submit, and their expected sums.
    pub(crate) fn new(
        config: WorkerConfig,
        tensors: Vec<(Tensor, Terms)>,
        sums: Vec<Tensor>,
        leaves: bool,
    ) -> Self {
        let window = Constant(config.job.slots);
        let worker = Worker::with_controller(config, Box::new(window)).expect("a right config");
        Self { worker, now: START, tensors, sums, leaves }
    }

    pub(crate) fn name(&self) -> String {
        let open = self.tensors.len();
        let recovery = self.worker.config().timing.recovery;
        text::canonical(&format!("{open} {:?}", self.worker), self.now, recovery)
    }

    /// Whether it has not submitted its tensors yet.
    pub(crate) fn waits(&self) -> bool {
        !self.tensors.is_empty()
    }

    /// Whether it has all its sums, and was dismissed if it waits for that.
    pub(crate) fn is_done(&self) -> bool {
        !self.waits() && self.worker.is_idle() && (!self.leaves || self.worker.is_dismissed())
    }

    /// Whether it has sent a fragment: a result for it that has no effect now never will.
    pub(crate) fn has_sent(&self, sequence: Sequence) -> bool {
        sequence < self.worker.outstanding().end
    }

    /// Whether a round is over, so that its packets have no effect.
    pub(crate) fn is_over(&self, sequence: Sequence) -> bool {
        sequence < self.worker.outstanding().start
    }

    pub(crate) fn submit(&mut self) -> Output<FromWorker> {
        for (tensor, terms) in std::mem::take(&mut self.tensors) {
            self.worker.submit_with(tensor, terms).expect("tensors that can be summed");
        }
        if self.leaves {
            self.worker.leave();
        }
        self.drain()
    }

    pub(crate) fn frame(&mut self, frame: &[u8]) -> Output<FromWorker> {
        self.worker.handle_frame(self.now, frame);
        self.drain()
    }

    pub(crate) fn message(&mut self, message: ToWorker) -> Output<FromWorker> {
        self.worker.handle_message(self.now, message);
        self.drain()
    }

    pub(crate) fn reconnected(&mut self) -> Output<FromWorker> {
        self.worker.channel_opened();
        self.drain()
    }

    /// Fires the next timer. A timer may only set itself again.
    pub(crate) fn timer(&mut self) -> Option<Output<FromWorker>> {
        let mut output = Output::default();
        for _ in 0..MOST_LAZY {
            self.now = due(self.worker.poll_timeout(), self.now)?;
            self.worker.handle_timeout(self.now);
            output = self.drain();
            if is_something(&output) {
                break;
            }
        }
        Some(output)
    }

    fn drain(&mut self) -> Output<FromWorker> {
        let mut output = Output::default();
        let mut frame = Vec::new();
        loop {
            if self.worker.poll_transmit(self.now, &mut frame) {
                output.frames.push(frame.clone());
            } else if let Some(message) = self.worker.poll_message() {
                output.messages.push(message);
            } else if let Some(event) = self.worker.poll_event() {
                match event {
                    worker::Event::TensorDone { id, tensor, .. } => {
                        let right = &self.sums[id.0 as usize];
                        if tensor != *right {
                            output.trouble = Some(format!(
                                "I1, I2: worker {} takes {} for the sum {} of tensor {}",
                                self.worker.config().index.get(),
                                first(&tensor),
                                first(right),
                                id.0
                            ));
                        }
                    }
                    other => output.trouble = Some(format!("a worker says {other:?}")),
                }
            } else {
                return output;
            }
        }
    }
}

fn first(tensor: &Tensor) -> String {
    match tensor {
        Tensor::I32(values) => format!("{:#o}", values[0]),
        Tensor::F32(values) => values[0].to_string(),
    }
}

/// The PS of a job.
#[derive(Clone, Debug)]
pub(crate) struct Office {
    clerk: Clerk,
    now: Time,
}

#[derive(Clone, Debug)]
enum Clerk {
    /// ESA, with the reminder agent.
    Esa(Box<Backend>),
    /// P4INC.
    Server(Box<ParameterServer>),
    /// The job has no PS.
    Nobody,
}

impl Office {
    pub(crate) fn esa(server: PsConfig, agent: AgentJob) -> Self {
        let mut backend = Backend::default();
        let agent = AgentJob { timing: server.timing, ..agent };
        let added = backend.add_server(server).and_then(|()| backend.add_agent(agent));
        added.expect("a right config");
        Self { clerk: Clerk::Esa(Box::new(backend)), now: START }
    }

    pub(crate) fn server(server: ParameterServer) -> Self {
        Self { clerk: Clerk::Server(Box::new(server)), now: START }
    }

    pub(crate) fn nobody() -> Self {
        Self { clerk: Clerk::Nobody, now: START }
    }

    pub(crate) fn name(&self) -> String {
        let recovery = match &self.clerk {
            Clerk::Esa(backend) => backend.servers()[0].config().timing.recovery,
            Clerk::Server(server) => server.config().timing.recovery,
            Clerk::Nobody => Recovery::Papers,
        };
        text::canonical(&format!("{:?}", self.clerk), self.now, recovery)
    }

    /// Whether all its fragments are complete.
    pub(crate) fn is_done(&self) -> bool {
        match &self.clerk {
            Clerk::Esa(backend) => {
                backend.servers().iter().all(|server| server.pending_tasks() == 0)
                    && backend.agent().watched() == 0
            }
            Clerk::Server(server) => server.pending_tasks() == 0,
            Clerk::Nobody => true,
        }
    }

    pub(crate) fn frame(&mut self, frame: &[u8]) -> Output<(u8, ToWorker)> {
        match &mut self.clerk {
            Clerk::Esa(backend) => backend.handle_frame(self.now, frame),
            Clerk::Server(server) => server.handle_frame(self.now, frame),
            Clerk::Nobody => unreachable!("it has no address"),
        }
        self.drain()
    }

    pub(crate) fn message(&mut self, worker: u8, message: FromWorker) -> Output<(u8, ToWorker)> {
        let Clerk::Esa(backend) = &mut self.clerk else { unreachable!("only ESA has channels") };
        let job = backend.servers()[0].config().job.job;
        let worker = tributary_wire::WorkerIndex::new(worker.into()).expect("a worker");
        backend.handle_worker(self.now, job, worker, message);
        self.drain()
    }

    pub(crate) fn timer(&mut self) -> Option<Output<(u8, ToWorker)>> {
        let timeout = match &self.clerk {
            Clerk::Esa(backend) => backend.poll_timeout(),
            Clerk::Server(server) => server.poll_timeout(),
            Clerk::Nobody => None,
        };
        self.now = due(timeout, self.now)?;
        match &mut self.clerk {
            Clerk::Esa(backend) => backend.handle_timeout(self.now),
            Clerk::Server(server) => server.handle_timeout(self.now),
            Clerk::Nobody => {}
        }
        Some(self.drain())
    }

    fn drain(&mut self) -> Output<(u8, ToWorker)> {
        let mut output = Output::default();
        let mut frame = Vec::new();
        loop {
            let sent = match &mut self.clerk {
                Clerk::Esa(backend) => backend.poll_transmit(self.now, &mut frame),
                Clerk::Server(server) => server.poll_transmit(self.now, &mut frame),
                Clerk::Nobody => false,
            };
            if sent {
                output.frames.push(frame.clone());
                continue;
            }
            match &mut self.clerk {
                Clerk::Esa(backend) => {
                    if let Some(message) = backend.poll_message() {
                        let ToPeer::Worker { worker, message, .. } = message else {
                            unreachable!("the server is in the same process")
                        };
                        output.messages.push((worker.get() as u8, message));
                        continue;
                    }
                    if let Some(event) = backend.poll_event() {
                        output.trouble = Some(format!("a server says {event:?}"));
                        continue;
                    }
                }
                Clerk::Server(server) => {
                    if let Some(event) = server.poll_event() {
                        output.trouble = Some(format!("a server says {event:?}"));
                        continue;
                    }
                }
                Clerk::Nobody => {}
            }
            return output;
        }
    }
}

pub(crate) fn is_something<M>(output: &Output<M>) -> bool {
    !output.frames.is_empty() || !output.messages.is_empty() || output.trouble.is_some()
}

/// The time of a timer, unless it reports a stall.
fn due(timer: Option<Time>, now: Time) -> Option<Time> {
    timer.filter(|at| *at - now <= 100 * TIMEOUT).map(|at| at.max(now))
}
