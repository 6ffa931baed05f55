//! The switch without I/O: frames and times go in, frames come out.
//!
//! The path of a frame: [`Switch::receive`] runs parser and ingress (as often as the program
//! resubmits) and puts the packet, or copies of it, into egress queues. [`Switch::transmit`] takes
//! a packet from a port's queue, runs egress and deparser and returns the frame. A packet that the
//! program recirculates in egress joins the end of one internal input queue.
//! [`Switch::run_pending`] takes packets from its front, a bounded number per call, so that a
//! packet with many passes (a sweep has one per aggregator) does not delay other traffic.
//!
//! A TNA program recirculates through a port (68): packets that leave that port's queue join the
//! same input queue. The controller's port has an egress queue like the others;
//! [`Switch::run_pending`] empties it into [`Switch::poll_packet_in`].

mod cores;
mod traced;

use std::collections::{BTreeSet, VecDeque};

use tributary_dataplane::{
    Egress, EgressInput, IngressInput, Instance, Packet, Replication, TableEntry, Value, Verdict,
};
use tributary_p4::Architecture;
use tributary_p4::ir::TableId;
use tributary_p4runtime::p4::v1::write_request::Atomicity;
use tributary_p4runtime::p4::v1::{Entity, ForwardingPipelineConfig, Update};

pub(crate) use self::cores::Handover;
use crate::config::SwitchConfig;
use crate::entities::{ReadBatch, Refusal, WriteBatch};
use crate::forwarding::Forwarding;
use crate::generator::{Application, Generator};
use crate::multicast::Replica;
use crate::pool::{Held, Pool, Shared, Slot};
use crate::queues::{Queues, Size};
use crate::reconcile;
use crate::statistics::{PortStatistics, SwitchStatistics};
use crate::tofino::PORT_METADATA_BYTES;
use crate::trace::{self, CopyOf, Loss, Traced, Tracing, What};

/// Values that the program sends to the controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Digest {
    /// Index of the digest in [`tributary_dataplane::Pipeline::digests`].
    pub digest: usize,
    /// The scalars of its data, in order.
    pub data: Vec<Value>,
}

/// A switch: a program with its state, and the traffic manager around it.
///
/// Times are microseconds since the switch started, as programs see them; they must not decrease.
#[derive(Debug)]
pub struct Switch {
    config: SwitchConfig,
    /// The program that processes packets.
    active: Option<Forwarding>,
    /// The program that a later commit will make active; the control plane already works on it.
    saved: Option<Forwarding>,
    pool: Pool,
    queues: Queues,
    /// Packets that wait for recirculation, each with its frame.
    recirculating: VecDeque<Box<Slot>>,
    packets_in: VecDeque<Vec<u8>>,
    digests: VecDeque<Digest>,
    /// Time of the last check for idle entries.
    pub(crate) swept_us: u64,
    /// Buffer of frames that are recirculated or sent to the controller.
    spare: Vec<u8>,
    statistics: SwitchStatistics,
    /// Packets that are traced, if any are to be.
    tracing: Option<Box<Tracing>>,
    /// Which of the cores this is.
    core: u16,
    /// Those of the other cores, in order, while their threads have lent them ([`crate::runtime`]).
    others: Vec<Self>,
    /// Packets for other cores.
    outgoing: VecDeque<Handover>,
    /// Buffers for their frames.
    buffers: Vec<Vec<u8>>,
    /// Number of programs that were made active.
    programs: u64,
    /// Ports without a link.
    down: BTreeSet<u16>,
    /// The packet generator for TNA programs.
    generator: Generator,
    /// The latest known time.
    now_us: u64,
}

/// The packet that multicast replicas are made of.
enum Original<'p> {
    /// They are copies of it.
    Packet(&'p Packet),
    /// They share it.
    Shared(u32),
}

impl Switch {
    /// A switch without a program, which drops all packets.
    #[must_use]
    pub fn new(config: SwitchConfig) -> Self {
        let mut queues = Queues::new(&config);
        queues.set_internal(config.internal_ports(Architecture::V1model).collect());
        Self {
            queues,
            config,
            active: None,
            saved: None,
            pool: Pool::default(),
            recirculating: VecDeque::new(),
            packets_in: VecDeque::new(),
            digests: VecDeque::new(),
            swept_us: 0,
            spare: Vec::new(),
            statistics: SwitchStatistics::default(),
            tracing: None,
            core: 0,
            others: Vec::new(),
            outgoing: VecDeque::new(),
            buffers: Vec::new(),
            programs: 0,
            down: BTreeSet::new(),
            generator: Generator::default(),
            now_us: 0,
        }
    }

    /// The switch's configuration.
    #[must_use]
    pub fn config(&self) -> &SwitchConfig {
        &self.config
    }

    // --- Pipeline -------------------------------------------------------------------------------

    /// Makes a program active, with its state. Packets in flight are dropped and counted, because
    /// no packet may be processed by two programs.
    pub fn commit(&mut self, mut forwarding: Forwarding) {
        forwarding.fill_cores(1 + self.others.len()).expect("the program was loaded before");
        let replicas = forwarding.take_replicas();
        self.others.iter_mut().zip(replicas).for_each(|(other, replica)| other.commit(replica));
        forwarding.use_engine(self.config.engine);
        let divided = forwarding.pipeline_mut().divide(self.core, self.config.cores);
        if let Err(reason) = divided
            && self.core == 0
            && self.config.cores > 1
        {
            tracing::warn!(
                "one core runs the program, the other threads only move frames: {reason}"
            );
        }
        for &port in &self.down {
            forwarding.pipeline_mut().set_link(port, false);
        }
        let tofino = forwarding.architecture() == Architecture::Tna;
        if tofino {
            forwarding.configure(&self.config.tofino);
        }
        // One core generates all packets.
        let apps = match tofino && self.core == 0 {
            true => self.config.tofino.generator.as_slice(),
            false => &[],
        };
        self.generator = Generator::new(apps, self.now_us);
        self.programs += 1;
        if let Some(tracing) = &mut self.tracing {
            tracing.forget();
        }
        let under_way = self.queues.drain().count()
            + self.recirculating.drain(..).count()
            + self.outgoing.drain(..).count();
        self.statistics.replaced += under_way as u64;
        let internal = self.config.internal_ports(forwarding.architecture());
        self.queues.set_internal(internal.collect());
        // Slots fit one pipeline only.
        self.pool = Pool::default();
        self.digests.clear();
        self.saved = None;
        self.active = Some(forwarding);
    }

    /// Makes a program active that takes over the state of the active one.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if it cannot hold that state; nothing has changed then.
    pub fn reconcile(&mut self, mut forwarding: Forwarding) -> Result<(), Refusal> {
        self.gather();
        forwarding.fill_cores(1 + self.others.len())?;
        if let Some(active) = &self.active {
            let mut replicas = forwarding.take_replicas();
            reconcile::take_over(active, &mut forwarding, &self.config)?;
            for replica in &mut replicas {
                reconcile::take_over(active, replica, &self.config)?;
                replica.pipeline_mut().clear_counts();
                replica.pipeline_mut().share_meters(forwarding.pipeline());
            }
            forwarding.set_replicas(replicas);
        }
        self.commit(forwarding);
        Ok(())
    }

    /// Keeps a program for [`commit_saved`](Self::commit_saved). From now on entities are read from
    /// it and written to it, while the active one still processes packets.
    pub fn save(&mut self, mut forwarding: Forwarding) {
        forwarding.fill_cores(1 + self.others.len()).expect("the program was loaded before");
        let replicas = forwarding.take_replicas();
        self.others.iter_mut().zip(replicas).for_each(|(other, replica)| other.save(replica));
        self.saved = Some(forwarding);
    }

    /// Makes the saved program active; false if there is none.
    pub fn commit_saved(&mut self) -> bool {
        let Some(mut saved) = self.saved.take() else { return false };
        saved.set_replicas(self.others.iter_mut().filter_map(|other| other.saved.take()).collect());
        self.commit(saved);
        true
    }

    /// The configuration of the control plane's program.
    #[must_use]
    pub fn pipeline_config(&self) -> Option<&ForwardingPipelineConfig> {
        self.control().map(Forwarding::config)
    }

    /// The control plane's program: saved or active.
    pub(crate) fn control(&self) -> Option<&Forwarding> {
        self.saved.as_ref().or(self.active.as_ref())
    }

    /// The program that processes packets.
    #[must_use]
    pub fn forwarding(&self) -> Option<&Forwarding> {
        self.active.as_ref()
    }

    /// The program that processes packets, with access to its pipeline.
    #[must_use]
    pub fn forwarding_mut(&mut self) -> Option<&mut Forwarding> {
        self.active.as_mut()
    }

    /// The controller's port, which depends on the active program's architecture.
    #[must_use]
    pub fn cpu_port(&self) -> u16 {
        self.config.cpu_port_of(self.architecture())
    }

    fn architecture(&self) -> Architecture {
        self.active.as_ref().map_or(Architecture::V1model, Forwarding::architecture)
    }

    /// The recirculation port, if the active program has one.
    fn recirculation_port(&self) -> Option<u16> {
        self.config.recirculation_port_of(self.architecture())
    }

    // --- Entities -------------------------------------------------------------------------------

    /// Makes updates in order, independently (P4Runtime's `CONTINUE_ON_ERROR`). Returns one result
    /// per update; a refused one changes nothing.
    ///
    /// # Errors
    /// If no pipeline is set.
    pub fn write(&mut self, updates: &[Update]) -> Result<Vec<Result<(), Refusal>>, Refusal> {
        self.write_batch(updates, Atomicity::ContinueOnError)
    }

    /// Makes updates in order, without packets in between. In modes other than `CONTINUE_ON_ERROR`
    /// a refused update undoes all: then every result is an error, `ABORTED` for the others.
    ///
    /// # Errors
    /// If no pipeline is set.
    pub fn write_batch(
        &mut self,
        updates: &[Update],
        atomicity: Atomicity,
    ) -> Result<Vec<Result<(), Refusal>>, Refusal> {
        let mut batch = WriteBatch::new(updates.to_vec(), atomicity);
        while !self.step_write(&mut batch, updates.len())? {}
        Ok(batch.finish())
    }

    /// Sets the time of the control plane's program: entries age from their last change.
    pub(crate) fn set_time(&mut self, now_us: u64) {
        if let Some(control) = self.control_mut() {
            control.pipeline_mut().set_time(now_us);
        }
    }

    fn control_mut(&mut self) -> Option<&mut Forwarding> {
        self.saved.as_mut().or(self.active.as_mut())
    }

    /// Continues a batch of updates. Returns true when it is done.
    pub(crate) fn step_write(
        &mut self,
        batch: &mut WriteBatch,
        budget: usize,
    ) -> Result<bool, Refusal> {
        if batch.sets_counts() {
            self.gather_counts();
        }
        let mut others = std::mem::take(&mut self.others);
        let control = self.saved.as_mut().or(self.active.as_mut()).ok_or_else(no_pipeline);
        let done = control.map(|control| {
            let replicas = others.iter_mut().filter_map(Self::control_mut);
            let done = batch.step_all(control, replicas, &self.config, budget);
            if done {
                let replicas = others.iter_mut().filter_map(Self::control_mut);
                replicas.for_each(|it| it.pipeline_mut().share_meters(control.pipeline()));
            }
            done
        });
        self.others = others;
        done
    }

    /// The entities that the templates select. With several cores, [`gather`](Self::gather) first.
    ///
    /// # Errors
    /// If no pipeline is set or a template is invalid; nothing is read then.
    pub fn read(&self, templates: &[Entity]) -> Result<Vec<Entity>, Refusal> {
        let control = self.control().ok_or_else(no_pipeline)?;
        let mut batch = ReadBatch::new(control, templates);
        while !batch.step(control, usize::MAX)? {}
        let entities = batch.take();
        batch.outcomes().into_iter().collect::<Result<(), Refusal>>()?;
        Ok(entities)
    }

    /// Sets whether a port has a link; all have at first. Members of groups that watch a port without
    /// one are not chosen. It changes nothing else: frames for the port are sent.
    pub fn set_link(&mut self, port: u16, up: bool) {
        let changed = if up { self.down.remove(&port) } else { self.down.insert(port) };
        if changed {
            for forwarding in self.active.iter_mut().chain(&mut self.saved) {
                forwarding.pipeline_mut().set_link(port, up);
            }
            self.statistics.generator_drops += self.generator.link(self.now_us, port, up);
            self.others.iter_mut().for_each(|other| other.set_link(port, up));
        }
    }

    // --- Packets --------------------------------------------------------------------------------

    /// Processes a frame that arrived on a port.
    pub fn receive(&mut self, now_us: u64, port: u16, frame: &[u8]) {
        if let Some(port) = self.queues.port_mut(port) {
            port.statistics.received += 1;
            port.statistics.received_bytes += frame.len() as u64;
        }
        if self.active.is_none() {
            self.statistics.no_pipeline += 1;
        }
        self.process(now_us, port, frame);
    }

    /// Sets the metadata of a port of a TNA program, also for later programs.
    pub fn set_port_metadata(&mut self, port: u16, bytes: [u8; PORT_METADATA_BYTES]) {
        self.config.tofino.port_metadata.insert(port, bytes);
        for forwarding in self.active.iter_mut().chain(&mut self.saved) {
            forwarding.pipeline_mut().set_port_metadata(port, bytes);
        }
        self.others.iter_mut().for_each(|other| other.set_port_metadata(port, bytes));
    }

    /// Adds an application of the packet generator, also for later programs. Its timer starts now.
    ///
    /// # Errors
    /// A line that names the problem: the application, or the program's architecture.
    pub fn add_application(&mut self, application: Application) -> Result<(), String> {
        if self.architecture() != Architecture::Tna {
            return Err("only TNA programs have a packet generator".to_owned());
        }
        let mut config = self.config.tofino.clone();
        config.generator.push(application.clone());
        config.check()?;
        self.config.tofino = config;
        self.generator.add(application, self.now_us);
        Ok(())
    }

    /// Notes the time, which must not decrease.
    pub fn advance(&mut self, now_us: u64) {
        self.now_us = self.now_us.max(now_us);
    }

    /// When the packet generator next has a packet, if nothing else happens.
    #[must_use]
    pub fn generator_due_us(&self) -> Option<u64> {
        self.generator.due_us()
    }

    /// Processes at most `budget` packets of the packet generator that are due. Returns whether more
    /// may be.
    pub fn generate(&mut self, now_us: u64, budget: usize) -> bool {
        self.advance(now_us);
        let due = |switch: &Self| switch.generator.due_us().is_some_and(|at| at <= now_us);
        if !due(self) {
            return false;
        }
        let mut frame = std::mem::take(&mut self.spare);
        for _ in 0..budget {
            let lost = &mut self.statistics.generator_drops;
            let Some(port) = self.generator.poll(now_us, &mut frame, lost) else { break };
            self.statistics.generated += 1;
            self.process(now_us, port, &frame);
        }
        self.spare = frame;
        due(self)
    }

    /// Processes a frame from the controller, as if it arrived on the CPU port.
    pub fn packet_out(&mut self, now_us: u64, frame: &[u8]) {
        self.receive(now_us, self.cpu_port(), frame);
    }

    /// Takes the next frame out of a port's queue into `frame`. Returns false if no waiting packet
    /// leaves. For the CPU port use [`run_pending`](Self::run_pending).
    ///
    /// Clones that egress makes of the packets that it drops are left for another call, so that each
    /// call ends: then [`queue_depth`](Self::queue_depth) is not zero.
    pub fn transmit(&mut self, now_us: u64, port: u16, frame: &mut Vec<u8>) -> bool {
        for _ in 0..self.queue_depth(port) {
            match self.step_egress(now_us, port, frame) {
                Some(true) => return true,
                Some(false) => {}
                None => break,
            }
        }
        false
    }

    /// Processes recirculated packets and packets for the controller: at most `budget` steps of
    /// each kind. Returns whether more are waiting.
    ///
    /// Call this while [`has_pending`](Self::has_pending), between batches of frames: `receive` and
    /// `transmit` both add work.
    pub fn run_pending(&mut self, now_us: u64, budget: usize) -> bool {
        if !self.has_pending() {
            return false;
        }
        let mut frame = std::mem::take(&mut self.spare);
        let (cpu_port, recirculation_port) = (self.cpu_port(), self.recirculation_port());
        for _ in 0..budget {
            if !self.has_pending() {
                break;
            }
            if let Some(port) = recirculation_port {
                self.step_egress(now_us, port, &mut frame);
            }
            self.step_recirculation(now_us);
            if self.step_egress(now_us, cpu_port, &mut frame) == Some(true) {
                if self.packets_in.len() < self.config.queue_limit {
                    self.packets_in.push_back(std::mem::take(&mut frame));
                } else {
                    self.statistics.packet_in_drops += 1;
                }
            }
        }
        self.spare = frame;
        self.has_pending()
    }

    /// Whether [`run_pending`](Self::run_pending) has something to do.
    #[must_use]
    pub fn has_pending(&self) -> bool {
        !self.recirculating.is_empty()
            || self.queue_depth(self.cpu_port()) > 0
            || self.recirculation_port().is_some_and(|port| self.queue_depth(port) > 0)
    }

    /// The next frame for the controller.
    pub fn poll_packet_in(&mut self) -> Option<Vec<u8>> {
        self.packets_in.pop_front()
    }

    /// Whether [`poll_digest`](Self::poll_digest) has something.
    pub(crate) fn has_digests(&self) -> bool {
        !self.digests.is_empty()
    }

    /// The next digest of the active program for the controller.
    pub fn poll_digest(&mut self) -> Option<Digest> {
        self.digests.pop_front()
    }

    /// The entries of the active program that no packet matched within their timeout; each is
    /// returned once per timeout.
    pub fn poll_idle(&mut self, now_us: u64) -> Vec<(TableId, TableEntry)> {
        let mut idle = Vec::new();
        if let Some(active) = &mut self.active {
            active.pipeline_mut().poll_idle(now_us, |table, entry| {
                idle.push((table, entry.clone()));
            });
        }
        idle
    }

    /// The lowest port to whose queue packets were added since it was last returned, for a driver
    /// that does not ask every port.
    pub fn poll_waiting(&mut self) -> Option<u16> {
        self.queues.take_waiting()
    }

    /// Number of packets in a port's egress queue.
    #[must_use]
    pub fn queue_depth(&self, port: u16) -> usize {
        self.queues.port(port).map_or(0, |port| port.depth())
    }

    /// Counters of a port; `None` if it does not exist.
    #[must_use]
    pub fn port_statistics(&self, port: u16) -> Option<PortStatistics> {
        let known = self.queues.port(port)?;
        let mut statistics = PortStatistics { depth: known.depth(), ..known.statistics };
        let others = self.others.iter().filter_map(|other| other.port_statistics(port));
        others.for_each(|other| statistics.add(&other));
        Some(statistics)
    }

    /// The tables of the active program, and how many entries each has.
    #[must_use]
    pub fn table_sizes(&self) -> Vec<(String, usize)> {
        let Some(active) = &self.active else { return Vec::new() };
        let size = |(name, at)| (String::from(name), active.pipeline().entries(at).count());
        active.objects().table_places().map(size).collect()
    }

    /// Counters of the whole switch.
    #[must_use]
    pub fn statistics(&self) -> SwitchStatistics {
        let mut statistics = self.statistics;
        self.others.iter().for_each(|other| statistics.add(&other.statistics));
        statistics
    }

    /// Runs parser and ingress, as often as the program resubmits. BMv2 parses resubmitted packets
    /// before any other, so they need no queue.
    fn ingress(
        &mut self,
        packet: &mut Packet,
        frame: &[u8],
        input: &mut IngressInput,
        resubmissions: &mut u32,
        trace: Option<Traced>,
    ) -> Verdict {
        while *resubmissions <= self.config.resubmit_limit {
            let Some(active) = &mut self.active else { return Verdict::Drop };
            let pipeline = active.pipeline_mut();
            let outcome = match trace {
                None => pipeline.ingress(packet, frame, input),
                Some(of) => trace::ingress(&mut self.tracing, of, pipeline, packet, frame, input),
            };
            let next = pipeline.next_pass(input, Instance::Resubmitted);
            self.clone_ingress(packet, frame, input, trace);
            self.mirror(packet, frame, input.time_us, trace);
            self.note_digest(packet, trace);
            if !outcome.resubmit {
                if outcome.verdict == Verdict::Drop {
                    self.statistics.ingress_drops += 1;
                }
                self.record(trace, || What::Verdict(outcome.verdict));
                return outcome.verdict;
            }
            self.record(trace, || What::Resubmitted);
            self.statistics.resubmitted += 1;
            *resubmissions += 1;
            *input = next;
        }
        self.statistics.resubmit_drops += 1;
        self.record(trace, || What::ResubmitLimit);
        Verdict::Drop
    }

    fn forward(&mut self, now_us: u64, slot: Box<Slot>, verdict: Verdict) {
        match verdict {
            Verdict::Drop => self.put(slot),
            Verdict::Elsewhere(to) => self.hand_over_again(to, slot),
            Verdict::Unicast(port) => {
                self.enqueue(now_us, slot, Replica { port, instance: 0 }, Instance::Normal);
            }
            Verdict::Multicast(group) => {
                let (size, copies) = (Size::of(&slot.packet), Replication::default());
                let trace = slot.trace;
                // Each replica of a traced packet has its own trace, so they do not share it.
                if trace.is_none()
                    && self.active.as_ref().is_some_and(|active| active.pipeline().shares_egress())
                {
                    let place = self.pool.share(slot);
                    self.pool.add_replica(place);
                    self.multicast(now_us, &Original::Shared(place), size, group, &copies, None);
                    self.pool.replica_left(place);
                } else {
                    let of = Original::Packet(&slot.packet);
                    self.multicast(now_us, &of, size, group, &copies, trace);
                    self.put(slot);
                }
            }
            Verdict::Replicate(copies) => {
                let (size, trace) = (Size::of(&slot.packet), slot.trace);
                for group in copies.groups.into_iter().filter(|&group| group != 0) {
                    let of = Original::Packet(&slot.packet);
                    self.multicast(now_us, &of, size, group, &copies, trace);
                }
                let to_cpu = copies.to_cpu.then(|| (self.cpu_port(), CopyOf::ToController));
                let unicast = copies.unicast.map(|port| (port, CopyOf::Packet));
                for (port, why) in [to_cpu, unicast].into_iter().flatten() {
                    if let Some(active) = &self.active {
                        let mut copy = self.pool.take(active.pipeline());
                        copy.packet.copy_from(&slot.packet);
                        let to = Replica { port, instance: 0 };
                        copy.trace = self.record_copy(trace, why, to);
                        self.enqueue(now_us, copy, to, Instance::Normal);
                    }
                }
                self.put(slot);
            }
        }
    }

    /// Puts a packet into a queue, if it has room.
    fn enqueue(&mut self, now_us: u64, slot: Box<Slot>, to: Replica, instance: Instance) {
        let size = Size::of(&slot.packet);
        if let Some(loss) = self.queues.refusal(to.port, size, &mut self.statistics) {
            trace::lost(&mut self.tracing, slot.trace, CopyOf::Packet, Some(to.port), loss);
            return self.put(slot);
        }
        self.record(slot.trace, || What::Queued { port: to.port });
        self.queues.push(to, Held::Own(slot), size, instance, now_us);
    }

    /// Makes a replica for each member of a group whose queue has room.
    fn multicast(
        &mut self,
        now_us: u64,
        of: &Original<'_>,
        size: Size,
        group: u16,
        copies: &Replication,
        trace: Option<Traced>,
    ) {
        let why = CopyOf::Group(group);
        let tracing = &mut self.tracing;
        let active = self.active.as_ref();
        let Some((active, group)) = active.and_then(|a| a.groups().get(group).map(|g| (a, g)))
        else {
            self.statistics.no_such_group += 1;
            trace::lost(tracing, trace, why, None, Loss::NoSuchGroup);
            return;
        };
        for replica in &group.replicas {
            if replica.instance == copies.rid && active.groups().excludes(copies, replica.port) {
                trace::lost(tracing, trace, why, Some(replica.port), Loss::Excluded);
                continue;
            }
            if let Some(loss) = self.queues.refusal(replica.port, size, &mut self.statistics) {
                trace::lost(tracing, trace, why, Some(replica.port), loss);
                continue;
            }
            let held = match *of {
                Original::Shared(place) => {
                    self.pool.add_replica(place);
                    Held::Shared(place)
                }
                Original::Packet(packet) => {
                    let mut copy = self.pool.take(active.pipeline());
                    copy.packet.copy_from(packet);
                    copy.trace = trace::copied(tracing, trace, why, *replica);
                    Held::Own(copy)
                }
            };
            self.queues.push(*replica, held, size, Instance::Replication, now_us);
        }
    }

    /// Makes the copy for a mirror session, if the last pass requested one.
    fn mirror(&mut self, packet: &Packet, frame: &[u8], now_us: u64, trace: Option<Traced>) {
        let Some((session, header)) = packet.mirror() else { return };
        let Some(active) = &self.active else { return };
        let why = CopyOf::Mirror(session);
        let Some(session) = active.sessions().get(&session) else {
            self.statistics.no_such_session += 1;
            trace::lost(&mut self.tracing, trace, why, None, Loss::NoSuchSession);
            return;
        };
        // The header counts, too.
        let most = session.length.map_or(frame.len(), |most| most.saturating_sub(header.len()));
        let length = most.min(frame.len());
        for &to in &session.replicas {
            let mut copy = self.pool.take(active.pipeline());
            copy.packet.become_copy(header, &frame[..length]);
            let size = Size::of(&copy.packet);
            if let Some(loss) = self.queues.refusal(to.port, size, &mut self.statistics) {
                trace::lost(&mut self.tracing, trace, why, Some(to.port), loss);
                self.pool.put(copy);
                continue;
            }
            copy.trace = trace::copied(&mut self.tracing, trace, why, to);
            self.queues.push(to, Held::Own(copy), size, Instance::Normal, now_us);
        }
    }

    /// Makes clones of the frame of the last ingress pass, if it requested any.
    fn clone_ingress(
        &mut self,
        packet: &Packet,
        frame: &[u8],
        input: &IngressInput,
        trace: Option<Traced>,
    ) {
        let Some(number) = packet.clone_session() else { return };
        let Some(active) = &mut self.active else { return };
        let why = CopyOf::IngressClone(number);
        if !active.sessions().contains_key(&number) {
            self.statistics.no_such_session += 1;
            trace::lost(&mut self.tracing, trace, why, None, Loss::NoSuchSession);
            return;
        }
        let mut clone = self.pool.take(active.pipeline());
        active.pipeline_mut().clone_of_ingress(&mut clone.packet, packet, frame, input);
        self.send_clones(input.time_us, number, clone, Instance::IngressClone, trace);
    }

    /// Makes clones of the packet of the last egress pass, if it requested any.
    fn clone_egress(&mut self, packet: &Packet, now_us: u64, trace: Option<Traced>) {
        let Some(number) = packet.clone_session() else { return };
        let Some(active) = &self.active else { return };
        let why = CopyOf::EgressClone(number);
        if !active.sessions().contains_key(&number) {
            self.statistics.no_such_session += 1;
            trace::lost(&mut self.tracing, trace, why, None, Loss::NoSuchSession);
            return;
        }
        let mut clone = self.pool.take(active.pipeline());
        active.pipeline().clone_of_egress(&mut clone.packet, packet);
        self.send_clones(now_us, number, clone, Instance::EgressClone, trace);
    }

    /// Makes a copy of a clone for each replica of its session whose queue has room.
    fn send_clones(
        &mut self,
        now_us: u64,
        number: u16,
        mut clone: Box<Slot>,
        instance: Instance,
        trace: Option<Traced>,
    ) {
        let why = match instance {
            Instance::IngressClone => CopyOf::IngressClone(number),
            _ => CopyOf::EgressClone(number),
        };
        let session = self.active.as_ref().and_then(|active| active.sessions().get(&number));
        let Some((active, session)) = self.active.as_ref().zip(session) else { return };
        if let Some(length) = session.length {
            clone.packet.set_limit(u32::try_from(length).unwrap_or(u32::MAX));
        }
        clone.packet.set_class_of_service(session.class_of_service as u8);
        let size = Size::of(&clone.packet);
        for replica in &session.replicas {
            if let Some(loss) = self.queues.refusal(replica.port, size, &mut self.statistics) {
                trace::lost(&mut self.tracing, trace, why, Some(replica.port), loss);
                continue;
            }
            let mut copy = self.pool.take(active.pipeline());
            copy.packet.copy_from(&clone.packet);
            copy.trace = trace::copied(&mut self.tracing, trace, why, *replica);
            self.queues.push(*replica, Held::Own(copy), size, instance, now_us);
        }
        self.pool.put(clone);
    }

    /// Keeps the digest of the last pass, if there is one.
    fn note_digest(&mut self, packet: &Packet, trace: Option<Traced>) {
        if !packet.has_digest() {
            return;
        }
        if trace.is_some()
            && let Some((digest, values)) = packet.digest()
        {
            self.record(trace, || What::Digest { digest, values });
        }
        if self.digests.len() >= self.config.queue_limit {
            self.statistics.digest_drops += 1;
        } else if let Some((digest, data)) = packet.digest() {
            self.digests.push_back(Digest { digest, data });
        }
    }

    /// Processes one packet of a port's queue: `Some(true)` if it leaves as `frame`, `Some(false)`
    /// if it was dropped or recirculated, `None` if the queue was empty.
    fn step_egress(&mut self, now_us: u64, port: u16, frame: &mut Vec<u8>) -> Option<bool> {
        let (queued, deq_qdepth) = self.queues.pop(port)?;
        let Some(active) = &mut self.active else { return Some(false) };
        let pipeline = active.pipeline_mut();
        let waited = now_us.saturating_sub(queued.enq_time_us);
        let input = EgressInput {
            port,
            rid: queued.rid,
            instance: queued.instance,
            time_us: now_us,
            enq_time_us: queued.enq_time_us,
            enq_qdepth: queued.enq_qdepth,
            deq_qdepth,
            deq_timedelta: u32::try_from(waited).unwrap_or(u32::MAX),
        };
        let (mut slot, outcome) = match queued.held {
            Held::Own(mut slot) => {
                let packet = &mut slot.packet;
                let outcome = match slot.trace {
                    None => pipeline.egress(packet, &input, frame),
                    Some(of) => {
                        trace::egress(&mut self.tracing, of, pipeline, packet, &input, frame)
                    }
                };
                (slot, outcome)
            }
            Held::Shared(place) => {
                let Some(shared) = self.pool.shared_mut(place) else { return Some(false) };
                let Shared { slot, memo, .. } = shared;
                let packet = &mut slot.packet;
                if let Some(outcome) = pipeline.egress_shared(packet, memo, &input, frame) {
                    self.pool.replica_left(place);
                    return Some(self.leaves(port, outcome, frame.len()));
                }
                let mut own = self.pool.take(pipeline);
                let Some(Shared { slot, memo, .. }) = self.pool.shared_mut(place) else {
                    return Some(false);
                };
                let outcome = pipeline.egress_apart(&mut slot.packet, memo, &mut own.packet, frame);
                self.pool.replica_left(place);
                (own, outcome)
            }
        };
        let trace = slot.trace;
        self.clone_egress(&slot.packet, now_us, trace);
        self.mirror(&slot.packet, frame, now_us, trace);
        self.note_digest(&slot.packet, trace);
        if outcome.drop || !outcome.recirculate {
            self.record(trace, || match outcome.drop {
                true => What::EgressDrop,
                false => What::Sent { port, frame: frame.clone() },
            });
            self.put(slot);
            return Some(self.leaves(port, outcome, frame.len()));
        }
        if self.recirculating.len() >= self.config.recirculation_limit {
            self.statistics.recirculation_drops += 1;
            self.record(trace, || What::RecirculationLimit);
            self.put(slot);
            return Some(false);
        }
        self.record(trace, || What::Recirculated);
        self.statistics.recirculated += 1;
        slot.port = port;
        std::mem::swap(&mut slot.frame, frame);
        self.recirculating.push_back(slot);
        Some(false)
    }

    /// Counts a packet that is dropped or leaves by a port. Returns whether it leaves.
    fn leaves(&mut self, port: u16, outcome: Egress, bytes: usize) -> bool {
        if let Some(port) = self.queues.port_mut(port) {
            let statistics = &mut port.statistics;
            if outcome.drop {
                statistics.egress_drops += 1;
            } else {
                statistics.sent += 1;
                statistics.sent_bytes += bytes as u64;
            }
        }
        !outcome.drop
    }

    /// Runs one recirculated packet through parser and ingress.
    fn step_recirculation(&mut self, now_us: u64) {
        let Some(slot) = self.recirculating.pop_front() else { return };
        self.statistics.generator_drops += self.generator.recirculated(now_us, &slot.frame);
        let Some(active) = &self.active else { return };
        let last = IngressInput { port: slot.port, time_us: now_us, instance: Instance::Normal };
        let input = active.pipeline().next_pass(&last, Instance::Recirculated);
        self.ingress_of(now_us, slot, input);
    }

    /// Runs a packet that has its frame with it through parser and ingress.
    fn ingress_of(&mut self, now_us: u64, mut slot: Box<Slot>, mut input: IngressInput) {
        let mut resubmissions = match input.instance {
            Instance::Resubmitted => slot.resubmissions,
            _ => 0,
        };
        let trace = slot.trace;
        let Slot { packet, frame, .. } = &mut *slot;
        let verdict = self.ingress(packet, frame, &mut input, &mut resubmissions, trace);
        slot.instance = input.instance;
        slot.resubmissions = resubmissions;
        self.forward(now_us, slot, verdict);
    }
}

pub(crate) fn no_pipeline() -> Refusal {
    Refusal::failed_precondition("no forwarding pipeline configuration is set")
}
