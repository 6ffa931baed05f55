//! Hosts, switches and links in virtual time.
//!
//! Events happen in the order of an agenda: by time, then in order of insertion. Only the links'
//! faults are random, and they come from the seed, so a run is a function of the scenario, the seed
//! and the submitted tensors.
//!
//! A host's interface and a switch's port take the next frame only when their link is free, so
//! queues build up where they would in reality: in the endpoints' windows and in the switches.

mod agenda;
mod channels;
mod optical;
mod processors;
mod turns;
mod wiring;

use std::collections::BTreeSet;

use tributary_base::Fnv;
use tributary_controller::outcomes::Outcome;
use tributary_endpoint::driver::faults::of_link;
use tributary_model::{End, Fibre, HostId, LinkId, Scenario, SwitchId, Topology};
use tributary_netio::FrameCount;
use tributary_netio::capture::Recorder;
use tributary_netio::faults::{InvalidFaults, Statistics};
use tributary_p4::ir::ExternId;
use tributary_protocol::{Endpoint, ParameterServer, Time, Worker, server, worker};
use tributary_switch::{Forwarding, Switch};
use tributary_wire::JobId;
use tributary_wire::agg::Repr;

use agenda::Agenda;
pub use processors::Processing;
use processors::{Processors, Work};
use wiring::Wiring;

use crate::capture::Capture;
use crate::channel::Channel;
use crate::line::{Cable, Direction, Loss};
use crate::process::Process;
use crate::trace::{Fate, Trace, What};
use tributary_endpoint::driver::tcp::Luck;

/// Recirculations of a switch between two frames.
const PENDING_BUDGET: usize = 64;

/// Ports that a switch may serve between two events, and turns of one port. A program may drop each
/// packet in egress, and clone it to the same port, without end.
const MOST_WAITING: usize = 1 << 12;

/// Slots of the switches' counters: the job slots, and slot 0 for packets of no job.
const JOB_SLOTS: usize = 1 << u8::BITS;

/// Nanoseconds until a switch continues to recirculate.
const PENDING_PAUSE: u64 = 1_000;

/// An event of an endpoint.
#[derive(Debug)]
pub enum Happening {
    /// A worker, by its host.
    Worker(HostId, JobId, worker::Event),
    /// A parameter server, of any protocol.
    Server(JobId, server::Event),
}

/// An event on the agenda.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    /// A direction has sent its frame.
    Left(usize),
    /// Frames may have arrived at the end of a direction.
    Arrived(usize),
    /// A timer of the host's endpoints may be due.
    Timer(usize),
    /// A switch continues to recirculate.
    Pending(usize),
    /// A channel's connection has something due.
    Messages(usize),
    /// A channel may connect.
    Connect(usize),
    /// A host, or after the hosts a switch or a busy loop, does a piece of work in its turn on a core.
    Turn(usize),
}

/// A frame that was lost, duplicated or delayed by chance.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Disturbance {
    /// Two per link: from its first end and from its second.
    pub direction: usize,
    /// The frame's number in this direction.
    pub frame: u64,
}

#[derive(Debug, Default)]
struct Node {
    processes: Vec<Process>,
    /// Index of the endpoint that may send next.
    turn: usize,
    /// The time of the timer event on the agenda.
    timer: Option<u64>,
    /// The channels that end here.
    channels: Vec<usize>,
}

/// Something between the links and the ports of the switches, such as a kernel's receive path.
pub trait Intercept: std::fmt::Debug {
    /// Takes a frame that has arrived at a port, and calls `sink` with the frames that the port
    /// receives now: this one, earlier ones, or others.
    fn arrived(&mut self, switch: SwitchId, port: u16, frame: &[u8], sink: &mut dyn FnMut(&[u8]));
}

/// The network of a scenario.
#[derive(Debug)]
pub struct Network {
    now: u64,
    agenda: Agenda<Event>,
    topology: Topology,
    wiring: Wiring,
    switches: Vec<Switch>,
    /// Whether a switch's next recirculation is on the agenda.
    pending: Vec<bool>,
    hosts: Vec<Node>,
    /// Two per link: from its first end and from its second.
    directions: Vec<Direction>,
    channels: Vec<Channel>,
    /// Faults of the channels.
    luck: Luck,
    /// Links that are down.
    down: BTreeSet<LinkId>,
    happenings: Vec<Happening>,
    packets_in: Vec<(SwitchId, Vec<u8>)>,
    trace: Option<Trace>,
    digest: Option<Fnv>,
    /// Bytes by which packets and messages with values are longer than they are.
    stretch: usize,
    /// `None` if handling frames takes no time.
    processors: Option<Processors>,
    capture: Option<Capture>,
    intercept: Option<Box<dyn Intercept>>,
    frame: Vec<u8>,
    /// Frame arrivals at any host or switch.
    hops: u64,
    /// Messages that arrived.
    messages: u64,
    /// When the last frame or segment was lost on a link, duplicated or held back.
    disturbed_at: Option<u64>,
}

impl Network {
    /// The hosts, links and switches of a scenario. `switches` are in the order of the topology,
    /// ready to forward. `cable` has the properties that a link does not set. If only some
    /// disturbances may happen, each is named as by [`disturbances`](Self::disturbances). None happens
    /// from the time `until` on.
    ///
    /// # Errors
    /// If a link's faults are invalid.
    pub fn new(
        scenario: &Scenario,
        switches: Vec<Switch>,
        cable: Cable,
        seed: u64,
        only: Option<&BTreeSet<Disturbance>>,
        until: Option<Time>,
    ) -> Result<Self, InvalidFaults> {
        let topology = scenario.network.topology.clone();
        let until = until.map(Time::as_nanos);
        let links = topology.links[..topology.fixed_links()].iter();
        let links = links.flat_map(|link| [(cable.of(link.rate, link.latency), link.faults); 2]);
        let fibres = (0..topology.cross_connect_ports()).filter_map(|_| {
            let Fibre { rate, latency, faults, .. } = topology.optical.as_ref()?.fibre;
            Some((cable.of(rate, latency), faults))
        });
        let mut directions = Vec::with_capacity(2 * topology.links.len());
        for (cable, faults) in links.chain(fibres) {
            let stream = directions.len() as u64;
            let only = only.map(|only| {
                let own = only.iter().filter(|one| one.direction == directions.len());
                own.map(|one| one.frame).collect()
            });
            directions.push(Direction::new(cable, of_link(&faults), seed, stream, only, until)?);
        }
        let circuits = topology.optical.as_ref().map(|optical| optical.circuits().clone());
        let mut network = Self {
            now: 0,
            agenda: Agenda::new(),
            pending: vec![false; switches.len()],
            switches,
            hosts: topology.hosts.iter().map(|_| Node::default()).collect(),
            wiring: Wiring::new(&topology),
            topology,
            directions,
            channels: Vec::new(),
            luck: Luck { seed, spared: only.is_some(), until },
            down: BTreeSet::new(),
            happenings: Vec::new(),
            packets_in: Vec::new(),
            trace: None,
            digest: None,
            stretch: 0,
            processors: None,
            capture: None,
            intercept: None,
            frame: Vec::new(),
            hops: 0,
            messages: 0,
            disturbed_at: None,
        };
        if let Some(circuits) = circuits {
            network.light(&circuits);
        }
        Ok(network)
    }

    /// Records every frame, message and event from now on, without the frames' bytes.
    pub fn record(&mut self) {
        self.trace = Some(Trace::default());
    }

    /// Counts each packet with values as this many bytes longer on all links, and each message with
    /// values on channels that are connected from now on.
    pub fn stretch(&mut self, bytes: usize) {
        self.stretch = bytes;
        self.directions.iter_mut().for_each(|direction| direction.stretch(bytes));
    }

    /// Makes the handling of frames take processor time from now on.
    pub fn process(&mut self, processing: Processing) {
        let (hosts, switches) = (self.hosts.len(), self.switches.len());
        let mut processors = Processors::new(processing, hosts, switches);
        for (busy_loop, at) in processors.start_loops(self.now) {
            self.schedule(at, Event::Turn(busy_loop));
        }
        self.processors = Some(processors);
    }

    /// Digests every frame that arrives from now on.
    pub fn digest_frames(&mut self) {
        self.digest = Some(Fnv::default());
    }

    /// The digest of all arrivals: time, direction and bytes of each. Two runs with the same digest
    /// were the same.
    pub fn digest(&self) -> Option<u64> {
        self.digest.as_ref().map(|digest| digest.finish())
    }

    /// Whether each frame that was sent has arrived, was lost, or is in flight.
    pub fn is_balanced(&self) -> bool {
        self.directions.iter().all(Direction::is_balanced)
    }

    /// The trace, if recording is on.
    pub fn trace(&self) -> Option<&Trace> {
        self.trace.as_ref()
    }

    /// Captures every frame from now on. The recorder has the interfaces of
    /// [`Ends`](crate::Ends).
    pub fn record_frames(&mut self, recorder: Recorder) {
        self.capture = Some(Capture::new(recorder));
    }

    /// Hands the last frame to the recorder, and captures no more.
    pub fn end_capture(&mut self) {
        self.capture = None;
    }

    /// The time.
    pub fn now(&self) -> Time {
        Time::from_nanos(self.now)
    }

    /// Frames that arrived at a host or a switch.
    pub fn hops(&self) -> u64 {
        self.hops
    }

    /// Messages that arrived over reliable channels.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Counters of faults on all links.
    pub fn faults(&self) -> Statistics {
        let mut sum = Statistics::default();
        for one in self.directions.iter().map(Direction::statistics) {
            sum.frames += one.frames;
            sum.lost += one.lost;
            sum.cut_off += one.cut_off;
            sum.duplicated += one.duplicated;
            sum.reordered += one.reordered;
            sum.delayed += one.delayed;
        }
        sum
    }

    /// Frames that each end of a link has sent, and those of them that have arrived or are on their way.
    pub fn crossed(&self, link: LinkId) -> [FrameCount; 2] {
        let ends = self.topology.link(link).ends;
        ends.map(|end| self.directions[self.wiring.from(end)].crossed())
    }

    /// When the last frame or segment of a channel was lost on a link, duplicated or held back.
    pub fn disturbed_at(&self) -> Option<Time> {
        self.disturbed_at.map(Time::from_nanos)
    }

    /// The disturbances that happened by chance.
    pub fn disturbances(&self) -> BTreeSet<Disturbance> {
        let of = |(direction, line): (usize, &Direction)| {
            let frames = line.disturbed().to_vec();
            frames.into_iter().map(move |frame| Disturbance { direction, frame })
        };
        self.directions.iter().enumerate().flat_map(of).collect()
    }

    /// Loses one packet between two neighbours: the first that matches, after `skip` others did.
    ///
    /// # Panics
    /// If no link is between the two.
    pub fn lose(
        &mut self,
        from: &str,
        to: &str,
        skip: usize,
        matches: impl Fn(&Repr) -> bool + 'static,
    ) {
        let between = |&direction: &usize| {
            let (start, end) = self.ends(direction);
            self.topology.end_name(start) == from && self.topology.end_name(end) == to
        };
        let direction = (0..self.directions.len()).find(between);
        let direction = direction.unwrap_or_else(|| panic!("no link from {from} to {to}"));
        self.directions[direction].lose(Loss { skip, matches: Box::new(matches) });
    }

    /// Takes a link down or up. While it is down, frames sent into it are silently lost.
    pub fn set_down(&mut self, link: LinkId, down: bool) {
        for end in self.topology.link(link).ends {
            self.set_down_from(link, end, down);
        }
        if let Some(trace) = &mut self.trace {
            let [a, b] = self.topology.link(link).ends.map(|end| self.topology.end_name(end));
            let text = format!("the link to {b} goes {}", if down { "down" } else { "up" });
            trace.push(self.now, a, a, What::Event(text), Fate::Arrived);
        }
    }

    /// The same for the frames sent by one end. Channels need both directions: one for segments,
    /// the other for acknowledgements.
    pub fn set_down_from(&mut self, link: LinkId, end: End, down: bool) {
        self.directions[self.wiring.from(end)].set_down(down);
        if down {
            self.down.insert(link);
        } else {
            self.down.remove(&link);
        }
        for channel in &mut self.channels {
            channel.set_down(link, down);
        }
    }

    /// Packets of [`lose`](Self::lose) that have not been seen.
    pub fn losses_to_come(&self) -> usize {
        self.directions.iter().map(Direction::losses_to_come).sum()
    }

    /// A switch, for control. Call [`poke_switch`](Self::poke_switch) after adding packets.
    pub fn switch_mut(&mut self, id: SwitchId) -> &mut Switch {
        &mut self.switches[id.0]
    }

    /// A switch.
    pub fn switch(&self, id: SwitchId) -> &Switch {
        &self.switches[id.0]
    }

    /// Puts an endpoint on a host.
    pub fn start(&mut self, host: HostId, process: Process) {
        let job = process.job();
        self.hosts[host.0].processes.push(process);
        self.reconnect_all(host, job);
        self.serve_host(host.0);
    }

    /// Removes a job's endpoints from a host, as if the process died.
    pub fn kill(&mut self, host: HostId, job: JobId) {
        self.hosts[host.0].processes.retain(|process| process.job() != job);
        self.close_all(host, job);
    }

    /// Records an event at a host.
    pub fn note(&mut self, host: HostId, text: &str) {
        if let Some(trace) = &mut self.trace {
            let name = &self.topology.host(host).name;
            trace.push(self.now, name, name, What::Event(text.into()), Fate::Arrived);
        }
    }

    /// The endpoints on a host.
    pub fn processes(&self, host: HostId) -> &[Process] {
        &self.hosts[host.0].processes
    }

    /// The worker of a job on a host.
    pub fn worker(&self, host: HostId, job: JobId) -> Option<&Worker> {
        self.hosts[host.0].processes.iter().find_map(|process| match process {
            Process::Worker(its, worker) if *its == job => Some(worker),
            _ => None,
        })
    }

    /// The parameter server of a job on a host.
    pub fn server(&self, host: HostId, job: JobId) -> Option<&ParameterServer> {
        self.hosts[host.0].processes.iter().find_map(|process| match process {
            Process::Server(its, server) if *its == job => Some(server),
            _ => None,
        })
    }

    /// Runs an action on the worker of a job on a host, such as submitting a tensor, and lets it
    /// send. `None` if there is no such worker.
    pub fn with_worker<R>(
        &mut self,
        host: HostId,
        job: JobId,
        act: impl FnOnce(&mut Worker) -> R,
    ) -> Option<R> {
        let processes = &mut self.hosts[host.0].processes;
        let result = processes.iter_mut().find_map(|process| match process {
            Process::Worker(its, worker) if *its == job => Some(worker),
            _ => None,
        });
        let result = act(result?);
        self.serve_host(host.0);
        Some(result)
    }

    /// Runs an action on the parameter server of a job on a host. `None` without such a server.
    pub fn with_server<R>(
        &mut self,
        host: HostId,
        job: JobId,
        act: impl FnOnce(&mut ParameterServer) -> R,
    ) -> Option<R> {
        let processes = &mut self.hosts[host.0].processes;
        let result = processes.iter_mut().find_map(|process| match process {
            Process::Server(its, server) if *its == job => Some(server),
            _ => None,
        });
        let result = act(result?);
        self.serve_host(host.0);
        Some(result)
    }

    /// Passes a frame to a switch as if it arrived on the port.
    pub fn inject(&mut self, switch: SwitchId, port: u16, frame: &[u8]) {
        let now_us = self.now / 1000;
        self.switches[switch.0].receive(now_us, port, frame);
        self.serve_switch(switch.0);
    }

    /// Puts something between the links and the ports of the switches from now on. With
    /// [`process`](Self::process), frames do not pass it.
    pub fn intercept(&mut self, intercept: Box<dyn Intercept>) {
        self.intercept = Some(intercept);
    }

    /// Passes a frame to a host as if it arrived there.
    pub fn inject_host(&mut self, host: HostId, frame: &[u8]) {
        self.deliver_to_host(host.0, frame);
    }

    /// Lets a switch send its packets.
    pub fn poke_switch(&mut self, id: SwitchId) {
        self.serve_switch(id.0);
    }

    /// Whether [`take_happenings`](Self::take_happenings) has something.
    pub fn has_happened(&self) -> bool {
        !self.happenings.is_empty()
    }

    /// Events of endpoints since the last call.
    pub fn take_happenings(&mut self) -> Vec<Happening> {
        std::mem::take(&mut self.happenings)
    }

    /// Packets that switches sent to their controller since the last call.
    pub fn take_packets_in(&mut self) -> Vec<(SwitchId, Vec<u8>)> {
        std::mem::take(&mut self.packets_in)
    }

    /// Processes the next event if it is due by `until`. Otherwise returns false at time `until`.
    pub fn step(&mut self, until: Time) -> bool {
        let until = until.as_nanos();
        let Some((time, event)) = self.agenda.take(until) else {
            self.now = self.now.max(until);
            return false;
        };
        self.now = time;
        match event {
            Event::Left(direction) => {
                if self.capture.is_some() || self.trace.is_some() {
                    self.finish_and_record(direction);
                } else {
                    self.directions[direction].finish(time);
                }
                let disturbed_at = self.directions[direction].disturbed_at();
                self.disturbed_at = self.disturbed_at.max(disturbed_at);
                self.expect_arrival(direction);
                if self.processors.is_some() {
                    self.sent_queued(direction);
                } else {
                    self.send_into(direction);
                    if let (End::Host(host), _) = self.ends(direction) {
                        self.set_timer(host.0);
                    }
                }
            }
            Event::Arrived(direction) => self.arrivals(direction),
            Event::Timer(host) => self.timers(host),
            Event::Messages(channel) => self.progress(channel),
            Event::Connect(channel) => self.begin(channel),
            Event::Turn(node) => self.turn(node),
            Event::Pending(switch) => {
                self.pending[switch] = false;
                self.serve_switch(switch);
            }
        }
        true
    }

    /// Ends sending a frame, with an entry in capture and trace.
    fn finish_and_record(&mut self, direction: usize) {
        let (from, to) = self.ends(direction);
        let (frame, fate) = self.directions[direction].finish_and_show(self.now);
        if let Some(capture) = &mut self.capture {
            capture.sent(self.now, direction, frame, fate);
        }
        if let (Fate::Lost, Some(trace)) = (fate, &mut self.trace) {
            let (from, to) = (self.topology.end_name(from), self.topology.end_name(to));
            trace.frame(self.now, from, to, frame, fate);
        }
    }

    fn schedule(&mut self, time: u64, event: Event) {
        self.agenda.insert(time, event);
    }

    /// The start and the end of a direction.
    fn ends(&self, direction: usize) -> (End, End) {
        self.wiring.ends[direction]
    }

    fn expect_arrival(&mut self, direction: usize) {
        let due = self.directions[direction].next_arrival();
        let known = self.directions[direction].expected;
        if let Some(due) = due
            && known.is_none_or(|known| due < known)
        {
            self.directions[direction].expected = Some(due);
            self.schedule(due.max(self.now), Event::Arrived(direction));
        }
    }

    fn arrivals(&mut self, direction: usize) {
        let (from, to) = self.ends(direction);
        self.directions[direction].expected = None;
        let mut frame = std::mem::take(&mut self.frame);
        while self.directions[direction].arrive(self.now, &mut frame) {
            self.hops += 1;
            if let Some(digest) = &mut self.digest {
                digest.write(&self.now.to_le_bytes());
                digest.write(&(direction as u64).to_le_bytes());
                digest.write(&frame);
            }
            if let Some(capture) = &mut self.capture {
                capture.arrived(self.now, self.wiring.from(to), &frame);
            }
            if let Some(trace) = &mut self.trace {
                let (from, to) = (self.topology.end_name(from), self.topology.end_name(to));
                trace.frame(self.now, from, to, &frame, Fate::Arrived);
            }
            if let Some(processors) = &mut self.processors {
                let (node, port) = match to {
                    End::Host(host) => (host.0, 0),
                    End::Switch(switch, port) => (self.hosts.len() + switch.0, port),
                };
                if let Some(at) = processors.ask(node, self.now, Work::Frame(port, frame.clone())) {
                    self.schedule(at, Event::Turn(node));
                }
                continue;
            }
            match to {
                End::Host(host) => self.deliver_to_host(host.0, &frame),
                End::Switch(switch, port) => match &mut self.intercept {
                    None => self.deliver_to_switch(switch, port, &frame),
                    Some(intercept) => {
                        let mut received = Vec::new();
                        let sink = &mut |frame: &[u8]| received.push(frame.to_vec());
                        intercept.arrived(switch, port, &frame, sink);
                        for frame in received {
                            self.deliver_to_switch(switch, port, &frame);
                        }
                    }
                },
            }
        }
        self.frame = frame;
        self.expect_arrival(direction);
    }

    fn deliver_to_switch(&mut self, id: SwitchId, port: u16, frame: &[u8]) {
        let switch = &mut self.switches[id.0];
        let recorded = self.trace.is_some() || self.capture.is_some();
        let before = recorded.then(|| counted(switch));
        switch.receive(self.now / 1000, port, frame);
        if let Some(before) = before {
            let after = counted(switch);
            // Each slot has the same number of counters, beginning with one for each outcome.
            let of_slot = after.len() / JOB_SLOTS;
            let changed = after.iter().zip(before).position(|(after, before)| *after != before);
            let outcome = changed.and_then(|at| Outcome::ALL.get(at % of_slot));
            if let (Some(trace), Some(outcome)) = (&mut self.trace, outcome) {
                trace.counted(outcome.name());
            }
            // With processor time, a switch handles a frame later, and another may be the last one.
            if let (Some(capture), None) = (&mut self.capture, &self.processors) {
                capture.complete(outcome.map(|outcome| outcome.name()));
            }
        }
        self.serve_switch(id.0);
    }

    fn deliver_to_host(&mut self, host: usize, frame: &[u8]) {
        let now = self.now();
        for process in &mut self.hosts[host].processes {
            process.endpoint().handle_frame(now, frame);
        }
        self.serve_host(host);
    }

    /// Handles events, sending and timers after a host's endpoints were called.
    fn serve_host(&mut self, host: usize) {
        let id = HostId(host);
        self.send_into(self.wiring.from_host[host]);
        self.send_messages(host);
        let node = &mut self.hosts[host];
        for process in &mut node.processes {
            match process {
                Process::Worker(job, worker) => {
                    while let Some(event) = worker.poll_event() {
                        self.happenings.push(Happening::Worker(id, *job, event));
                    }
                }
                Process::Server(job, server) => {
                    while let Some(event) = server.poll_event() {
                        self.happenings.push(Happening::Server(*job, event));
                    }
                }
                Process::Esa(_, backend) => {
                    while let Some((job, event)) = backend.poll_event() {
                        self.happenings.push(Happening::Server(job, event));
                    }
                }
            }
        }
        self.set_timer(host);
    }

    fn set_timer(&mut self, host: usize) {
        let node = &mut self.hosts[host];
        let due = node.processes.iter().filter_map(Process::timeout).min();
        if let Some(due) = due.map(|due| due.as_nanos().max(self.now))
            && node.timer.is_none_or(|known| due < known)
        {
            node.timer = Some(due);
            self.schedule(due, Event::Timer(host));
        }
    }

    /// Handles recirculation, packets for the controller and sending after a switch was called.
    fn serve_switch(&mut self, switch: usize) {
        let now_us = self.now / 1000;
        let more = self.switches[switch].run_pending(now_us, PENDING_BUDGET);
        if more && !self.pending[switch] {
            self.pending[switch] = true;
            self.schedule(self.now + PENDING_PAUSE, Event::Pending(switch));
        }
        let id = SwitchId(switch);
        while let Some(frame) = self.switches[switch].poll_packet_in() {
            self.packets_in.push((id, frame));
        }
        for _ in 0..MOST_WAITING {
            let Some(port) = self.switches[switch].poll_waiting() else { break };
            // Internal ports have no link.
            let index = usize::from(port).wrapping_sub(1);
            if let Some(&direction) = self.wiring.from_port[switch].get(index) {
                self.send_into(direction);
            }
        }
    }

    /// Starts sending the next frame in a direction, if it is idle and there is one. If it is from a
    /// host, call [`set_timer`](Self::set_timer) afterwards.
    fn send_into(&mut self, direction: usize) {
        if self.processors.is_some() {
            return self.send_in_turn(direction);
        }
        let its = &mut self.directions[direction];
        let (from, _) = self.wiring.ends[direction];
        if its.is_idle()
            && transmit(&mut self.hosts, &mut self.switches, from, self.now, its.buffer())
        {
            let duration = its.begin();
            self.schedule(self.now + duration, Event::Left(direction));
        }
    }
}

/// Takes the next frame from a host, or from a port of a switch.
fn transmit(
    hosts: &mut [Node],
    switches: &mut [Switch],
    from: End,
    now: u64,
    frame: &mut Vec<u8>,
) -> bool {
    match from {
        End::Switch(switch, port) => {
            let switch = &mut switches[switch.0];
            // What egress drops may leave copies in the queue, without end.
            let mut turns = 0..MOST_WAITING;
            while !switch.transmit(now / 1000, port, frame) {
                if switch.queue_depth(port) == 0 || turns.next().is_none() {
                    return false;
                }
            }
            true
        }
        End::Host(host) => hosts[host.0].transmit(Time::from_nanos(now), frame),
    }
}

/// The switch's counters of outcomes, job slot by job slot.
fn counted(switch: &Switch) -> Vec<u64> {
    let count = |forwarding: &Forwarding| {
        let pipeline = forwarding.pipeline();
        let externs = &pipeline.program().externs;
        let counter = externs.iter().position(|e| e.name.ends_with("outcomes.outcomes"))?;
        let counter = ExternId(u32::try_from(counter).ok()?);
        let cells = 0..pipeline.array_size(counter)?;
        let packets = cells.map(|at| pipeline.counter_read(counter, at).map_or(0, |c| c.packets));
        Some(packets.collect())
    };
    switch.forwarding().and_then(count).unwrap_or_default()
}

impl Node {
    fn transmit(&mut self, now: Time, frame: &mut Vec<u8>) -> bool {
        let count = self.processes.len();
        for offset in 0..count {
            let at = (self.turn + offset) % count;
            if self.processes[at].endpoint().poll_transmit(now, frame) {
                self.turn = (at + 1) % count;
                return true;
            }
        }
        false
    }
}
