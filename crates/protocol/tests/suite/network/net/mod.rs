//! A network in virtual time that loses, duplicates, delays and reorders frames, around workers and
//! parameter servers. The fabric may contain model switches. A seed determines the whole run.

pub(crate) mod expect;
pub(crate) mod switch;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_protocol::fixed::Scale;
use tributary_protocol::server::{self, ParameterServer, PsConfig};
use tributary_protocol::worker::{self, Tensor, TensorId, Worker, WorkerConfig};
use tributary_protocol::{
    Addressing, Assignment, Endpoint, JobConfig, Racks, Recovery, Time, Timing,
};
use tributary_wire::agg::{Packet, Repr};
use tributary_wire::{Bitmap, Epoch, Host, JobId, Mac, Protocol, WorkerIndex};

use switch::{Fate, ModelSwitch};

/// Faults of each link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    pub(crate) loss: f64,
    pub(crate) duplicate: f64,
    /// Probability that a frame, or its copy, is held back for up to 200 ms.
    pub(crate) late: f64,
    /// Probability that a copy goes to a wrong endpoint.
    pub(crate) stray: f64,
    /// Probability that the model switch marks a frame.
    pub(crate) mark: f64,
    /// Every frame takes 2 µs and up to this additional time.
    pub(crate) jitter: Duration,
}

pub(crate) const QUIET: Faults =
    Faults { loss: 0.0, duplicate: 0.0, late: 0.0, stray: 0.0, mark: 0.0, jitter: Duration::ZERO };

pub(crate) const STORM: Faults = Faults {
    loss: 0.1,
    duplicate: 0.1,
    late: 0.02,
    stray: 0.05,
    mark: 0.1,
    jitter: Duration::from_micros(40),
};

/// How the hosts are connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fabric {
    /// Every worker's frames reach the PS unchanged.
    Direct,
    /// All hosts are connected to one switch.
    OneSwitch,
    /// The PS and the odd workers are at switch 0, the even workers at switch 1 behind it.
    TwoLevels,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Node {
    Worker(usize, usize),
    Server(usize),
    Switch(usize),
}

#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) workers: Vec<Worker>,
    pub(crate) server: ParameterServer,
    /// The results of each worker, in order.
    pub(crate) results: Vec<Vec<(TensorId, Tensor)>>,
    pub(crate) worker_events: Vec<(usize, worker::Event)>,
    pub(crate) server_events: Vec<server::Event>,
    /// The counters of replaced PSs.
    pub(crate) gone: Vec<server::Stats>,
    setup: Setup,
}

/// A frame in flight: arrival time, a number that makes the order deterministic, from, to, bytes.
type Flight = Reverse<(Time, u64, usize, usize, Vec<u8>)>;

pub(crate) struct Net {
    pub(crate) now: Time,
    pub(crate) jobs: Vec<Job>,
    pub(crate) switches: Vec<ModelSwitch>,
    fabric: Fabric,
    pub(crate) faults: Faults,
    rng: ChaCha8Rng,
    nodes: Vec<Node>,
    flights: BinaryHeap<Flight>,
    order: u64,
    frame: Vec<u8>,
    pub(crate) delivered: u64,
    /// Drops the frames on a link for which it returns `true`.
    pub(crate) filter: Option<Filter>,
    /// When each job's PS is replaced, in descending order of time.
    pub(crate) replacements: Vec<(Time, usize)>,
}

type Filter = Box<dyn FnMut(Node, Node, &Repr) -> bool>;

pub(crate) const EPOCH: Epoch = Epoch::new(5).unwrap();

pub(crate) fn job_id(job: usize) -> JobId {
    JobId::new(job as u16 + 1).unwrap()
}

/// The address of worker `last` of a job, or of its PS (100).
pub(crate) fn host(job: usize, last: u8) -> Host {
    Host { mac: Mac([2, 0, 0, 0, job as u8, last]), ip: Ipv4Addr::new(10, 0, job as u8, last) }
}

pub(crate) const SERVER: u8 = 100;

/// A test's parameters of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) workers: u8,
    pub(crate) values: u16,
    pub(crate) slots: u32,
    pub(crate) pool: u32,
    pub(crate) scale: f64,
    pub(crate) timing: Timing,
    pub(crate) initial_window: Option<u32>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            workers: 3,
            values: 4,
            slots: 8,
            pool: 64,
            scale: 1000.0,
            timing: Timing::default(),
            initial_window: None,
        }
    }
}

impl Setup {
    /// With the papers' recovery rules.
    pub(crate) fn papers() -> Self {
        let timing = Timing { recovery: Recovery::Papers, ..Timing::default() };
        Self { timing, ..Self::default() }
    }

    pub(crate) fn job(&self, job: usize) -> JobConfig {
        JobConfig {
            protocol: Protocol::Atp,
            job: job_id(job),
            epoch: EPOCH,
            racks: Racks::flat(self.workers),
            values_per_packet: self.values,
            slots: self.slots,
            pool: NonZeroU32::new(self.pool).unwrap(),
            addressing: Addressing::Default,
            assignment: Assignment::NONE,
        }
    }

    pub(crate) fn worker(&self, job: usize, index: u8) -> WorkerConfig {
        WorkerConfig {
            job: self.job(job),
            index: WorkerIndex::new(index.into()).unwrap(),
            scale: Scale::new(self.scale).unwrap(),
            host: host(job, index),
            server: host(job, SERVER),
            initial_window: self.initial_window,
            rate: None,
            timing: self.timing,
        }
    }

    pub(crate) fn server(&self, job: usize) -> PsConfig {
        PsConfig {
            job: self.job(job),
            host: host(job, SERVER),
            workers: (0..self.workers).map(|w| host(job, w)).collect(),
            timing: self.timing,
            follows_runs: true,
        }
    }
}

impl Net {
    pub(crate) fn new(seed: u64, fabric: Fabric, faults: Faults, setups: &[Setup]) -> Self {
        let mut nodes = vec![];
        let mut jobs = vec![];
        for (j, setup) in setups.iter().enumerate() {
            let workers: Vec<_> =
                (0..setup.workers).map(|w| Worker::new(setup.worker(j, w)).unwrap()).collect();
            nodes.extend((0..workers.len()).map(|w| Node::Worker(j, w)));
            nodes.push(Node::Server(j));
            jobs.push(Job {
                results: vec![vec![]; workers.len()],
                workers,
                server: ParameterServer::new(setup.server(j)).unwrap(),
                worker_events: vec![],
                server_events: vec![],
                gone: vec![],
                setup: *setup,
            });
        }
        let pool = setups.iter().map(|s| s.pool).max().unwrap();
        let count = match fabric {
            Fabric::Direct => 0,
            Fabric::OneSwitch => 1,
            Fabric::TwoLevels => 2,
        };
        nodes.extend((0..count).map(Node::Switch));
        Self {
            now: Time::ZERO,
            jobs,
            switches: (0..count).map(|_| ModelSwitch::new(pool)).collect(),
            fabric,
            faults,
            rng: ChaCha8Rng::seed_from_u64(seed),
            nodes,
            flights: BinaryHeap::new(),
            order: 0,
            frame: Vec::new(),
            delivered: 0,
            filter: None,
            replacements: vec![],
        }
    }

    /// A job's PS dies, and one without state replaces it.
    pub(crate) fn replace_server(&mut self, job: usize) {
        let its = &mut self.jobs[job];
        its.gone.push(*its.server.stats());
        its.server = ParameterServer::successor(its.setup.server(job)).unwrap();
    }

    /// The switch to which a host is connected.
    fn rack(&self, node: Node) -> usize {
        match (self.fabric, node) {
            (Fabric::TwoLevels, Node::Worker(_, w)) if w % 2 == 0 => 1,
            _ => 0,
        }
    }

    /// The workers of a job below a node, as seen by a switch.
    fn below(&self, job: usize, node: Node) -> Bitmap {
        let all = 0..self.jobs[job].workers.len();
        let bit = |w: usize| Bitmap::of(w as u8);
        match node {
            Node::Worker(_, w) => bit(w),
            Node::Switch(rack) => all
                .filter(|w| rack == 0 || self.rack(Node::Worker(job, *w)) == rack)
                .fold(Bitmap::EMPTY, |sum, w| sum | bit(w)),
            Node::Server(_) => Bitmap::EMPTY,
        }
    }

    /// Puts a frame on a link.
    pub(crate) fn put(&mut self, from: Node, to: Node, frame: &[u8]) {
        if let Some(filter) = &mut self.filter
            && filter(from, to, Packet::new_checked(frame).unwrap().repr())
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
        if self.rng.random_bool(self.faults.stray) {
            let hosts = self.nodes.len() - self.switches.len();
            let astray = self.nodes[self.rng.random_range(0..hosts)];
            self.fly(from, astray, frame);
        }
    }

    fn fly(&mut self, from: Node, to: Node, frame: &[u8]) {
        let mut delay = self.rng.random_range(0..=self.faults.jitter.as_nanos() as u64);
        if self.rng.random_bool(self.faults.late) {
            delay += self.rng.random_range(0..200_000_000);
        }
        let place = |node| self.nodes.iter().position(|n| *n == node).unwrap();
        let at = self.now + Duration::from_nanos(2_000 + delay);
        self.order += 1;
        let flight = (at, self.order, place(from), place(to), frame.to_vec());
        self.flights.push(Reverse(flight));
    }

    /// A host sends a frame, to its switch or without switches directly to the destination.
    fn send(&mut self, from: Node, frame: &[u8]) {
        if self.fabric != Fabric::Direct {
            self.put(from, Node::Switch(self.rack(from)), frame);
            return;
        }
        for to in self.hosts_of(frame) {
            self.put(from, to, frame);
        }
    }

    /// The hosts to which a frame is addressed.
    fn hosts_of(&self, frame: &[u8]) -> Vec<Node> {
        let packet = Packet::new_checked(frame).expect("endpoints send good frames");
        let to = packet.envelope().destination;
        let of = |node: &&Node| match **node {
            Node::Worker(j, w) => host(j, w as u8) == to || Host::group(job_id(j)) == to,
            Node::Server(j) => host(j, SERVER) == to,
            Node::Switch(_) => false,
        };
        self.nodes.iter().filter(of).copied().collect()
    }

    /// A frame arrives at a switch.
    fn switch(&mut self, number: usize, from: Node, frame: &[u8]) {
        let Ok(packet) = Packet::new_checked(frame) else {
            return;
        };
        let job = usize::from(packet.job().get()) - 1;
        let unit = self.below(job, from);
        let members = self.below(job, Node::Switch(number));
        let up = match number {
            0 => Node::Server(job),
            _ => Node::Switch(0),
        };
        let from_above = from == up;
        let mark = self.rng.random_bool(self.faults.mark);
        let fate =
            self.switches[number].process(self.now, &packet, unit, members, from_above, mark);
        match fate {
            Fate::Absorbed => {}
            Fate::Up(frame) => self.put(Node::Switch(number), up, &frame),
            Fate::Down(frame) => {
                let mut to: Vec<Node> = self
                    .hosts_of(&frame)
                    .into_iter()
                    .map(|node| match self.rack(node) {
                        rack if rack == number => node,
                        rack => Node::Switch(rack),
                    })
                    .collect();
                to.dedup();
                to.sort_by_key(|node| matches!(node, Node::Switch(_)));
                to.dedup();
                for to in to {
                    self.put(Node::Switch(number), to, &frame);
                }
            }
        }
    }

    /// Takes the output of all endpoints.
    pub(crate) fn drain(&mut self) {
        let mut frame = std::mem::take(&mut self.frame);
        for place in 0..self.nodes.len() {
            let node = self.nodes[place];
            loop {
                let sent = match node {
                    Node::Worker(j, w) => {
                        self.jobs[j].workers[w].poll_transmit(self.now, &mut frame)
                    }
                    Node::Server(j) => self.jobs[j].server.poll_transmit(self.now, &mut frame),
                    Node::Switch(_) => false,
                };
                if !sent {
                    break;
                }
                self.send(node, &frame);
            }
        }
        self.frame = frame;
        for job in &mut self.jobs {
            for (w, worker) in job.workers.iter_mut().enumerate() {
                while let Some(event) = worker.poll_event() {
                    match event {
                        worker::Event::TensorDone { id, tensor, .. } => {
                            job.results[w].push((id, tensor))
                        }
                        other => job.worker_events.push((w, other)),
                    }
                }
            }
            while let Some(event) = job.server.poll_event() {
                job.server_events.push(event);
            }
        }
    }

    /// The time of the next event.
    pub(crate) fn next_time(&self) -> Option<Time> {
        let timeouts = self.jobs.iter().flat_map(|job| {
            let workers = job.workers.iter().filter_map(Worker::poll_timeout);
            workers.chain(job.server.poll_timeout())
        });
        let arrival = self.flights.peek().map(|Reverse((at, ..))| *at);
        let replacement = self.replacements.last().map(|(at, _)| *at);
        timeouts.chain(arrival).chain(replacement).min()
    }

    /// Processes the next event; `false` if there is none.
    pub(crate) fn step(&mut self) -> bool {
        self.drain();
        let Some(next) = self.next_time() else {
            return false;
        };
        self.advance(next);
        true
    }

    /// Advances to a time. Frames arrive and timers fire.
    pub(crate) fn advance(&mut self, to: Time) {
        self.now = self.now.max(to);
        while let Some((_, job)) = self.replacements.pop_if(|(at, _)| *at <= self.now) {
            self.replace_server(job);
        }
        while self.flights.peek().is_some_and(|Reverse((at, ..))| *at <= self.now) {
            let Some(Reverse((_, _, from, to, frame))) = self.flights.pop() else {
                break;
            };
            self.delivered += 1;
            match self.nodes[to] {
                Node::Worker(j, w) => self.jobs[j].workers[w].handle_frame(self.now, &frame),
                Node::Server(j) => self.jobs[j].server.handle_frame(self.now, &frame),
                Node::Switch(number) => self.switch(number, self.nodes[from], &frame),
            }
        }
        for job in &mut self.jobs {
            for worker in &mut job.workers {
                if worker.poll_timeout().is_some_and(|at| at <= self.now) {
                    worker.handle_timeout(self.now);
                }
            }
            if job.server.poll_timeout().is_some_and(|at| at <= self.now) {
                job.server.handle_timeout(self.now);
            }
        }
    }

    pub(crate) fn all_idle(&self) -> bool {
        let mut workers = self.jobs.iter().flat_map(|job| &job.workers);
        workers.all(Worker::is_idle)
    }

    /// Runs until `done`. Panics after one hour of virtual time.
    pub(crate) fn run_until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        let deadline = self.now + Duration::from_secs(3600);
        while !done(self) {
            let moved = self.step();
            assert!(moved || done(self), "{what}: nothing happens any more at {}", self.now);
            assert!(self.now < deadline, "{what}: an hour has passed");
        }
        self.drain();
    }
}
