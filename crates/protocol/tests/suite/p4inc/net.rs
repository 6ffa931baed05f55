//! A network in virtual time that loses, duplicates, delays and reorders frames, around workers,
//! model switches and, for jobs that have one, a PS. A seed determines the whole run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_protocol::server::ParameterServer;
use tributary_protocol::worker::{Event, Tensor, Worker};
use tributary_protocol::{Assignment, Endpoint, Mode, Time};
use tributary_wire::agg::Packet;
use tributary_wire::{Bitmap, Kind, Protocol};

use crate::p4inc::setup::{POOL, Setup};
use crate::p4inc::switch::{Entries, Flaw, ModelSwitch, Out};

/// Faults of each link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    pub(crate) loss: f64,
    pub(crate) duplicate: f64,
    /// Probability that a frame, or its copy, is held back for up to 200 ms.
    pub(crate) late: f64,
    /// Probability that a switch marks a frame.
    pub(crate) mark: f64,
    /// Every frame takes 2 µs and up to this additional time.
    pub(crate) jitter: Duration,
}

pub(crate) const QUIET: Faults =
    Faults { loss: 0.0, duplicate: 0.0, late: 0.0, mark: 0.0, jitter: Duration::ZERO };

impl Faults {
    pub(crate) fn random(rng: &mut ChaCha8Rng) -> Self {
        if rng.random_bool(0.15) {
            return QUIET;
        }
        Self {
            loss: rng.random_range(0.0..0.3),
            duplicate: rng.random_range(0.0..0.3),
            late: rng.random_range(0.0..0.05),
            mark: rng.random_range(0.0..0.2),
            jitter: Duration::from_micros(rng.random_range(0..100)),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Node {
    Worker(u8),
    Switch(usize),
    Server,
}

/// A frame in flight: arrival time, a number that makes the order deterministic, from, to, bytes.
type Flight = Reverse<(Time, u64, Node, Node, Vec<u8>)>;

/// Drops the frames for which it returns `true`.
type Filter = Box<dyn FnMut(Node, Node, &Packet<&[u8]>) -> bool>;

pub(crate) struct Net {
    pub(crate) now: Time,
    pub(crate) workers: Vec<Worker>,
    /// The results of each worker, in order.
    pub(crate) results: Vec<Vec<Tensor>>,
    pub(crate) server: Option<ParameterServer>,
    pub(crate) switches: Vec<ModelSwitch>,
    pub(crate) faults: Faults,
    pub(crate) filter: Option<Filter>,
    /// When the PS is replaced by one without state, in descending order.
    pub(crate) replacements: Vec<Time>,
    /// Number of results that replaced PSs had adopted from workers.
    pub(crate) adopted: u64,
    setup: Setup,
    rng: ChaCha8Rng,
    flights: BinaryHeap<Flight>,
    order: u64,
}

impl Net {
    /// The workers are distributed over `units` switches in turn; a local job has one.
    pub(crate) fn new(
        seed: u64,
        setup: Setup,
        units: usize,
        faults: Faults,
        flaw: Option<Flaw>,
    ) -> Self {
        let workers = (0..setup.workers).map(|w| Worker::new(setup.worker(w)).unwrap()).collect();
        let server = match setup.protocol {
            Protocol::SwitchMl => None,
            _ => Some(ParameterServer::new(setup.server()).unwrap()),
        };
        let mut net = Self {
            now: Time::ZERO,
            workers,
            results: vec![vec![]; setup.workers.into()],
            server,
            switches: vec![],
            faults,
            filter: None,
            replacements: vec![],
            adopted: 0,
            setup,
            rng: ChaCha8Rng::seed_from_u64(seed),
            flights: BinaryHeap::new(),
            order: 0,
        };
        let entries = (0..units).map(|unit| net.entries(setup.assignment(), unit, units));
        net.switches = entries.map(|e| ModelSwitch::new(setup.protocol, flaw, POOL, e)).collect();
        net
    }

    fn entries(&self, assignment: Assignment, unit: usize, units: usize) -> Entries {
        let workers = 0..self.workers.len();
        let below = workers.filter(|w| w % units == unit).map(|w| w as u8);
        Entries {
            service: assignment.service,
            segment: assignment.segment,
            everyone: Bitmap::first(self.workers.len() as u8),
            members: below.fold(Bitmap::EMPTY, |sum, w| sum | Bitmap::of(w)),
        }
    }

    /// Switches to another assignment while all workers are idle. Frames in flight stay in flight.
    pub(crate) fn reassign(&mut self, assignment: Assignment) {
        for worker in &mut self.workers {
            worker.reassign(assignment).unwrap();
        }
        if let Some(server) = &mut self.server {
            server.reassign(assignment).unwrap();
        }
        let units = self.switches.len();
        for unit in 0..units {
            let entries = self.entries(assignment, unit, units);
            self.switches[unit].reassign(entries);
        }
    }

    fn unit(&self, worker: u8) -> usize {
        usize::from(worker) % self.switches.len()
    }

    fn put(&mut self, from: Node, to: Node, frame: &[u8]) {
        if let Some(filter) = &mut self.filter
            && filter(from, to, &Packet::new_checked(frame).unwrap())
        {
            return;
        }
        if self.rng.random_bool(self.faults.loss) {
            return;
        }
        self.fly(from, to, frame);
        if self.rng.random_bool(self.faults.duplicate) {
            self.fly(from, to, frame);
        }
    }

    fn fly(&mut self, from: Node, to: Node, frame: &[u8]) {
        let mut delay = self.rng.random_range(0..=self.faults.jitter.as_nanos() as u64);
        if self.rng.random_bool(self.faults.late) {
            delay += self.rng.random_range(0..200_000_000);
        }
        let at = self.now + Duration::from_nanos(2_000 + delay);
        self.order += 1;
        self.flights.push(Reverse((at, self.order, from, to, frame.to_vec())));
    }

    /// A frame arrives at a switch.
    fn switch(&mut self, unit: usize, from: Node, frame: &[u8]) {
        let packet = Packet::new_checked(frame).expect("no link spoils frames");
        let mark = self.rng.random_bool(self.faults.mark);
        let switch = &mut self.switches[unit];
        let out = match from {
            Node::Worker(worker) => switch.worker_sent(worker, &packet, mark),
            _ => switch.server_sent(&packet, mark),
        };
        let here = Node::Switch(unit);
        match out {
            None => {}
            Some(Out::Up(frame)) => self.put(here, Node::Server, &frame),
            Some(Out::To(worker, frame)) => self.put(here, Node::Worker(worker), &frame),
            Some(Out::Group(frame)) => {
                for worker in (0..self.workers.len() as u8)
                    .filter(|w| self.unit(*w) == unit)
                    .collect::<Vec<_>>()
                {
                    self.put(here, Node::Worker(worker), &frame);
                }
            }
        }
    }

    /// A frame of the PS goes to the switches of its destinations.
    fn send_from_server(&mut self, frame: &[u8]) {
        let packet = Packet::new_checked(frame).unwrap();
        let units: Vec<usize> = match packet.kind() {
            Kind::Parameter => (0..self.switches.len()).collect(),
            _ => vec![self.unit(packet.envelope().destination.mac.0[5])],
        };
        for unit in units {
            self.put(Node::Server, Node::Switch(unit), frame);
        }
    }

    /// Takes the output of all endpoints.
    pub(crate) fn drain(&mut self) {
        let mut frame = vec![];
        for worker in 0..self.workers.len() {
            while self.workers[worker].poll_transmit(self.now, &mut frame) {
                let unit = self.unit(worker as u8);
                self.put(Node::Worker(worker as u8), Node::Switch(unit), &frame);
            }
            while let Some(event) = self.workers[worker].poll_event() {
                match event {
                    Event::TensorDone { tensor, .. } => self.results[worker].push(tensor),
                    other => panic!("worker {worker}: {other:?}"),
                }
            }
        }
        while self.server.as_mut().is_some_and(|s| s.poll_transmit(self.now, &mut frame)) {
            self.send_from_server(&frame);
        }
    }

    /// The time of the next event.
    fn next_time(&self) -> Option<Time> {
        let timeouts = self.workers.iter().filter_map(Worker::poll_timeout);
        let timeouts = timeouts.chain(self.server.as_ref().and_then(Endpoint::poll_timeout));
        let arrival = self.flights.peek().map(|Reverse((at, ..))| *at);
        timeouts.chain(arrival).chain(self.replacements.last().copied()).min()
    }

    /// Advances by this time.
    pub(crate) fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            self.drain();
            match self.next_time() {
                Some(next) if next <= until => self.step(),
                _ => break,
            };
        }
        self.now = self.now.max(until);
    }

    /// Processes the next event; `false` if there is none.
    pub(crate) fn step(&mut self) -> bool {
        self.drain();
        let Some(next) = self.next_time() else {
            return false;
        };
        self.now = self.now.max(next);
        while self.replacements.pop_if(|at| *at <= self.now).is_some() {
            let next = ParameterServer::successor(self.setup.server()).unwrap();
            let last = self.server.replace(next);
            self.adopted += last.map_or(0, |server| server.stats().adopted);
        }
        while self.flights.peek().is_some_and(|Reverse((at, ..))| *at <= self.now) {
            let Some(Reverse((_, _, from, to, frame))) = self.flights.pop() else {
                break;
            };
            match to {
                Node::Worker(w) => self.workers[usize::from(w)].handle_frame(self.now, &frame),
                Node::Switch(unit) => self.switch(unit, from, &frame),
                Node::Server => {
                    if let Some(server) = &mut self.server {
                        server.handle_frame(self.now, &frame);
                    }
                }
            }
        }
        for worker in &mut self.workers {
            worker.handle_timeout(self.now);
        }
        if let Some(server) = &mut self.server {
            server.handle_timeout(self.now);
        }
        true
    }

    pub(crate) fn all_idle(&self) -> bool {
        self.workers.iter().all(Worker::is_idle)
    }

    /// Runs until all workers are idle. An error after `limit` of virtual time.
    pub(crate) fn finish(&mut self, limit: Duration) -> Result<(), String> {
        let deadline = self.now + limit;
        while !self.all_idle() {
            if !self.step() && !self.all_idle() {
                return Err(format!("nothing happens any more at {}", self.now));
            }
            if self.now > deadline {
                let left: Vec<_> = self.workers.iter().map(Worker::outstanding).collect();
                return Err(format!("not done after {limit:?}: {left:?}"));
            }
        }
        self.drain();
        Ok(())
    }

    /// Whether the job needs no PS and the PS sent nothing.
    pub(crate) fn server_is_silent(&self) -> bool {
        self.server.as_ref().is_none_or(|server| {
            let stats = server.stats();
            stats.gradients == 0 && stats.rejected.total() == 0 && stats.parameters == 0
        })
    }

    /// The mode of the job's current assignment.
    pub(crate) fn mode(&self) -> Mode {
        self.workers[0].config().job.assignment.mode
    }
}
