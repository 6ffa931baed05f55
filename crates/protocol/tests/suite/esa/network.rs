//! A job's endpoints around [`Chaos`], in virtual time. Frames are lost, duplicated and delayed.
//! The reliable channels keep order and lose nothing until the PS goes down.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_protocol::esa::{Backend, ToPeer};
use tributary_protocol::worker::Event;
use tributary_protocol::{Endpoint, JobConfig, Tensor, Time, Worker};
use tributary_wire::Host;
use tributary_wire::agg::Packet;
use tributary_wire::channel::{FromWorker, ToWorker};

use crate::esa::chaos::Chaos;
use crate::esa::setup::{JOB, SERVER, backend, host, index, worker};

/// Faults of the network.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) loss: f64,
    pub(crate) duplicate: f64,
    pub(crate) late: f64,
    pub(crate) jitter: Duration,
}

/// A frame, message or event in flight.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Flight {
    /// A frame to the switches.
    In(Vec<u8>),
    /// A frame to a worker, or (`None`) to the PS.
    Out(Option<usize>, Vec<u8>),
    /// A message from or to a worker. It is taken from the channel's queue on arrival.
    FromWorker(usize, u32),
    ToWorker(usize, u32),
    /// The channel of a worker opens.
    Opened(usize, u32),
}

pub(crate) struct Net {
    pub(crate) now: Time,
    job: JobConfig,
    pub(crate) workers: Vec<Worker>,
    pub(crate) results: Vec<Vec<Tensor>>,
    /// `None` while it is down.
    pub(crate) ps: Option<Backend>,
    pub(crate) chaos: Chaos,
    faults: Faults,
    rng: ChaCha8Rng,
    flights: BinaryHeap<Reverse<(Time, u64, Flight)>>,
    order: u64,
    /// Number of connections so far: messages of an earlier connection are lost.
    epoch: u32,
    up: Vec<Vec<FromWorker>>,
    down: Vec<Vec<ToWorker>>,
    /// When the last message of each channel arrives, so that no message overtakes another.
    last: Vec<[Time; 2]>,
    connected: Vec<bool>,
    frame: Vec<u8>,
}

impl Net {
    pub(crate) fn new(seed: u64, job: JobConfig, faults: Faults) -> Self {
        let count = usize::from(job.workers());
        let mut net = Self {
            now: Time::ZERO,
            job,
            workers: (0..job.workers() as u8).map(|w| worker(job, w)).collect(),
            results: vec![vec![]; count],
            ps: Some(backend(job)),
            chaos: Chaos::default(),
            faults,
            rng: ChaCha8Rng::seed_from_u64(seed),
            flights: BinaryHeap::new(),
            order: 0,
            epoch: 0,
            up: vec![vec![]; count],
            down: vec![vec![]; count],
            last: vec![[Time::ZERO; 2]; count],
            connected: vec![false; count],
            frame: Vec::new(),
        };
        net.connect();
        net
    }

    /// The PS goes down and loses its state.
    pub(crate) fn stop_ps(&mut self) {
        self.ps = None;
        self.epoch += 1;
        self.connected.fill(false);
        self.up.iter_mut().for_each(Vec::clear);
        self.down.iter_mut().for_each(Vec::clear);
    }

    /// A replacement PS starts.
    pub(crate) fn start_ps(&mut self) {
        self.ps = Some(backend(self.job));
        self.connect();
    }

    fn connect(&mut self) {
        for w in 0..self.workers.len() {
            let delay = self.rng.random_range(0..5_000_000);
            self.fly(Duration::from_nanos(delay), Flight::Opened(w, self.epoch));
        }
    }

    fn fly(&mut self, delay: Duration, flight: Flight) {
        self.order += 1;
        self.flights.push(Reverse((self.now + delay, self.order, flight)));
    }

    /// Puts a frame on a link, which may lose, delay or duplicate it.
    fn put(&mut self, flight: &Flight) {
        let Faults { loss, duplicate, late, jitter } = self.faults;
        if self.rng.random_bool(loss) {
            return;
        }
        let copies = 1 + u32::from(self.rng.random_bool(duplicate));
        for _ in 0..copies {
            let mut delay = self.rng.random_range(0..=jitter.as_nanos() as u64);
            if self.rng.random_bool(late) {
                delay += self.rng.random_range(0..200_000_000);
            }
            self.fly(Duration::from_nanos(2_000 + delay), flight.clone());
        }
    }

    /// Sends a frame from the switches to its destination.
    fn put_out(&mut self, frame: &[u8]) {
        let to = Packet::new_checked(frame).unwrap().envelope().destination;
        if to == host(SERVER) {
            self.put(&Flight::Out(None, frame.to_vec()));
        }
        for w in 0..self.workers.len() {
            if to == Host::group(JOB) || to == host(w as u8) {
                self.put(&Flight::Out(Some(w), frame.to_vec()));
            }
        }
    }

    /// Puts a message into a channel. It arrives later, after all earlier messages.
    fn say(&mut self, worker: usize, direction: usize, flight: Flight) {
        let delay = Duration::from_nanos(self.rng.random_range(10_000..500_000));
        let at = (self.now + delay).max(self.last[worker][direction]);
        self.last[worker][direction] = at;
        self.fly(at - self.now, flight);
    }

    /// Takes the output of all endpoints.
    fn drain(&mut self) {
        let mut frame = std::mem::take(&mut self.frame);
        for w in 0..self.workers.len() {
            while self.workers[w].poll_transmit(self.now, &mut frame) {
                self.put(&Flight::In(frame.clone()));
            }
            while let Some(event) = self.workers[w].poll_event() {
                if let Event::TensorDone { tensor, .. } = event {
                    self.results[w].push(tensor);
                }
            }
            while self.connected[w]
                && let Some(message) = self.workers[w].poll_message()
            {
                self.up[w].push(message);
                self.say(w, 0, Flight::FromWorker(w, self.epoch));
            }
        }
        while let Some(ps) = &mut self.ps
            && ps.poll_transmit(self.now, &mut frame)
        {
            self.put(&Flight::In(frame.clone()));
        }
        while let Some(ps) = &mut self.ps
            && let Some(message) = ps.poll_message()
        {
            let ToPeer::Worker { job, worker, message } = message else { panic!("{message:?}") };
            assert_eq!(job, JOB);
            let w = usize::from(worker.get());
            // A message to an unconnected worker is lost, as a daemon would drop it.
            if self.connected[w] {
                self.down[w].push(message);
                self.say(w, 1, Flight::ToWorker(w, self.epoch));
            }
        }
        self.frame = frame;
    }

    /// Processes the next event; `false` if there is none.
    pub(crate) fn step(&mut self) -> bool {
        self.drain();
        let timeouts = self.workers.iter().filter_map(Worker::poll_timeout);
        let timeouts = timeouts.chain(self.ps.as_ref().and_then(Endpoint::poll_timeout));
        let arrival = self.flights.peek().map(|Reverse((at, ..))| *at);
        let Some(next) = timeouts.chain(arrival).min() else {
            return false;
        };
        self.now = self.now.max(next);
        while self.flights.peek().is_some_and(|Reverse((at, ..))| *at <= self.now) {
            let Some(Reverse((_, _, flight))) = self.flights.pop() else { break };
            self.arrive(flight);
        }
        for worker in &mut self.workers {
            if worker.poll_timeout().is_some_and(|at| at <= self.now) {
                worker.handle_timeout(self.now);
            }
        }
        if let Some(ps) = &mut self.ps
            && ps.poll_timeout().is_some_and(|at| at <= self.now)
        {
            ps.handle_timeout(self.now);
        }
        true
    }

    fn arrive(&mut self, flight: Flight) {
        match flight {
            Flight::In(frame) => {
                let everyone = self.job.whole();
                let rng = &mut self.rng;
                for out in self.chaos.process(rng, &frame, everyone, host(SERVER)) {
                    self.put_out(&out);
                }
            }
            Flight::Out(Some(w), frame) => self.workers[w].handle_frame(self.now, &frame),
            Flight::Out(None, frame) => {
                if let Some(ps) = &mut self.ps {
                    ps.handle_frame(self.now, &frame);
                }
            }
            Flight::Opened(w, epoch) if epoch == self.epoch => {
                self.connected[w] = true;
                self.workers[w].channel_opened();
            }
            Flight::FromWorker(w, epoch) if epoch == self.epoch => {
                let message = self.up[w].remove(0);
                if let Some(ps) = &mut self.ps {
                    ps.handle_worker(self.now, JOB, index(w as u16), message);
                }
            }
            Flight::ToWorker(w, epoch) if epoch == self.epoch => {
                let message = self.down[w].remove(0);
                self.workers[w].handle_message(self.now, message);
            }
            Flight::Opened(..) | Flight::FromWorker(..) | Flight::ToWorker(..) => {}
        }
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
