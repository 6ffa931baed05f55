//! One core of a switch: its program, and the traffic manager around it.

mod handover;
mod recirculation;
mod traced;

use std::collections::VecDeque;
use std::convert::Infallible;

use tributary_dataplane::{
    Changed, Egress, EgressInput, IngressInput, Instance, Packet, Replication, TableEntry, Value,
    Verdict,
};
use tributary_p4::Architecture;
use tributary_p4::ir::TableId;

pub(crate) use self::handover::Handover;
use crate::config::{PORT_METADATA_BYTES, SwitchConfig};
use crate::forwarding::Forwarding;
use crate::generator::{Application, Generator};
use crate::multicast::Replica;
use crate::pool::{Held, Pool, Shared, Slot};
use crate::queues::{Origin, Queues, Size};
use crate::statistics::{PortStatistics, SwitchStatistics};
use crate::trace::{self, CopyOf, Loss, Traced, Tracing, What};

/// Values that the program sends to the controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Digest {
    /// Index of the digest in [`tributary_dataplane::Pipeline::digests`].
    pub digest: usize,
    /// The scalars of its data, in order.
    pub data: Vec<Value>,
}

/// A core of a switch. It has a copy of the program and of its entries, its rows of the program's registers, and
/// queues of its own; it processes packets without the other cores.
#[derive(Debug)]
pub(crate) struct Core {
    pub(super) config: SwitchConfig,
    /// The program that processes packets.
    pub(super) active: Option<Forwarding>,
    /// The program that a later commit will make active; the control plane already works on it.
    pub(super) saved: Option<Forwarding>,
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
    pub(super) statistics: SwitchStatistics,
    /// Packets that are traced, if any are to be.
    tracing: Option<Box<Tracing>>,
    /// Which of the switch's cores this is.
    number: u16,
    /// Packets for other cores.
    outgoing: VecDeque<Handover>,
    /// Buffers for their frames.
    buffers: Vec<Vec<u8>>,
    /// Number of programs that were made active.
    programs: u64,
    /// The packet generator for TNA programs.
    generator: Generator,
    /// The latest known time.
    now_us: u64,
}

/// A packet that leaves by a port.
#[must_use]
enum Left {
    /// With the frame of the call.
    Alone,
    /// A replica. Its frame is that of the shared packet with this number, which counts the replica until
    /// [`Pool::replica_left`] is called.
    Shared(u32),
}

/// The packet that multicast replicas are made of.
enum Original<'p> {
    /// They are copies of it.
    Packet(&'p Packet),
    /// They share it.
    Shared(u32),
}

impl Original<'_> {
    fn deflects_on_drop(&self) -> bool {
        matches!(self, Self::Packet(packet) if packet.deflects_on_drop())
    }
}

impl Core {
    /// A core without a program, which drops all packets.
    pub(crate) fn new(number: u16, config: SwitchConfig) -> Self {
        let mut queues = Queues::new(&config);
        queues.set_internal(&config.internal_ports(Architecture::V1model).collect::<Vec<_>>());
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
            number,
            outgoing: VecDeque::new(),
            buffers: Vec::new(),
            programs: 0,
            generator: Generator::default(),
            now_us: 0,
        }
    }

    /// Makes a program active, with its state. Packets in flight are dropped and counted, because
    /// no packet may be processed by two programs.
    pub(super) fn commit(&mut self, mut forwarding: Forwarding) {
        forwarding.use_engine(self.config.engine);
        let divided = forwarding.pipeline_mut().divide(self.number, self.config.cores);
        if let Err(reason) = divided
            && self.number == 0
            && self.config.cores > 1
        {
            tracing::warn!(
                "one core runs the program, the other threads only move frames: {reason}"
            );
        }
        let tofino = forwarding.architecture() == Architecture::Tna;
        if tofino {
            forwarding.configure(&self.config.tofino);
        }
        // One core generates all packets.
        let apps = match tofino && self.number == 0 {
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
        let internal: Vec<_> = self.config.internal_ports(forwarding.architecture()).collect();
        self.queues.set_internal(&internal);
        // Slots fit one pipeline only.
        self.pool = Pool::default();
        self.digests.clear();
        self.saved = None;
        self.active = Some(forwarding);
    }

    /// The control plane's program: saved or active.
    pub(super) fn control(&self) -> Option<&Forwarding> {
        self.saved.as_ref().or(self.active.as_ref())
    }

    pub(super) fn control_mut(&mut self) -> Option<&mut Forwarding> {
        self.saved.as_mut().or(self.active.as_mut())
    }

    /// The program that processes packets.
    pub(crate) fn forwarding(&self) -> Option<&Forwarding> {
        self.active.as_ref()
    }

    pub(crate) fn forwarding_mut(&mut self) -> Option<&mut Forwarding> {
        self.active.as_mut()
    }

    /// The controller's port, which depends on the active program's architecture.
    pub(super) fn cpu_port(&self) -> u16 {
        self.config.cpu_port_of(self.architecture())
    }

    pub(super) fn architecture(&self) -> Architecture {
        self.active.as_ref().map_or(Architecture::V1model, Forwarding::architecture)
    }

    /// Brings what packets have changed at another core to this one.
    pub(super) fn absorb(&mut self, other: &mut Self, what: &Changed) {
        for (to, from) in
            [(&mut self.active, &mut other.active), (&mut self.saved, &mut other.saved)]
        {
            if let Some((to, from)) = to.as_mut().zip(from.as_mut()) {
                to.pipeline_mut().absorb(from.pipeline_mut(), what);
            }
        }
    }

    /// Sets whether a port has a link.
    pub(super) fn set_link(&mut self, port: u16, up: bool) {
        for forwarding in self.active.iter_mut().chain(&mut self.saved) {
            forwarding.pipeline_mut().set_link(port, up);
        }
        self.statistics.generator_drops += self.generator.link(self.now_us, port, up);
    }

    /// Sets the metadata of a port of a TNA program, also for later programs.
    pub(super) fn set_port_metadata(&mut self, port: u16, bytes: [u8; PORT_METADATA_BYTES]) {
        self.config.tofino.port_metadata.insert(port, bytes);
        for forwarding in self.active.iter_mut().chain(&mut self.saved) {
            forwarding.pipeline_mut().set_port_metadata(port, bytes);
        }
    }

    /// Puts a port of a TNA program into loopback mode, also for later programs.
    pub(super) fn set_loopback(&mut self, port: u16) {
        self.config.tofino.loopback.insert(port);
        let internal: Vec<_> = self.config.internal_ports(self.architecture()).collect();
        self.queues.set_internal(&internal);
        for forwarding in self.active.iter_mut().chain(&mut self.saved) {
            forwarding.pipeline_mut().set_loopback(port);
        }
    }

    /// Sets the port for packets that a TNA program wants deflected, also for later programs.
    pub(super) fn set_deflection(&mut self, port: u16) {
        self.config.tofino.deflection = Some(port);
    }

    /// Adds an application of the packet generator, also for later programs.
    pub(super) fn add_application(&mut self, application: Application) -> Result<(), String> {
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

    // --- Packets --------------------------------------------------------------------------------

    /// Processes a frame that arrived on a port.
    pub(crate) fn receive(&mut self, now_us: u64, port: u16, frame: &[u8]) {
        if let Some(port) = self.queues.port_mut(port) {
            port.statistics.received += 1;
            port.statistics.received_bytes += frame.len() as u64;
        }
        if self.active.is_none() {
            self.statistics.no_pipeline += 1;
        }
        self.process(now_us, port, frame);
    }

    /// Notes the time, which must not decrease.
    pub(super) fn advance(&mut self, now_us: u64) {
        self.now_us = self.now_us.max(now_us);
    }

    /// When the packet generator next has a packet, if nothing else happens.
    pub(crate) fn generator_due_us(&self) -> Option<u64> {
        self.generator.due_us()
    }

    /// See [`super::Switch::generate`].
    pub(crate) fn generate(&mut self, now_us: u64, budget: usize) -> bool {
        self.advance(now_us);
        let due = |core: &Self| core.generator.due_us().is_some_and(|at| at <= now_us);
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

    /// See [`super::Switch::transmit`].
    pub(crate) fn transmit(&mut self, now_us: u64, port: u16, frame: &mut Vec<u8>) -> bool {
        let kept = self.transmit_with(now_us, port, frame, |_| Ok::<_, Infallible>(false));
        kept.is_some()
    }

    /// The same without a copy: `send` gets the frame. If it returns false, the frame is in `spare`, to be sent
    /// later. Returns the frame's length, and what `send` returned.
    pub(crate) fn transmit_with<E>(
        &mut self,
        now_us: u64,
        port: u16,
        spare: &mut Vec<u8>,
        send: impl FnOnce(&[u8]) -> Result<bool, E>,
    ) -> Option<(usize, Result<bool, E>)> {
        match self.next_left(now_us, port, spare)? {
            Left::Alone => Some((spare.len(), send(spare))),
            Left::Shared(place) => {
                let frame = self.pool.shared_mut(place)?.memo.frame();
                let (length, sent) = (frame.len(), send(frame));
                if matches!(sent, Ok(false)) {
                    spare.clear();
                    spare.extend_from_slice(frame);
                }
                self.pool.replica_left(place);
                Some((length, sent))
            }
        }
    }

    /// The next packet of a port's queue that leaves.
    fn next_left(&mut self, now_us: u64, port: u16, frame: &mut Vec<u8>) -> Option<Left> {
        // A packet may leave a mirrored copy of itself in the queue; copies of copies are for another call.
        for _ in 0..2 * self.queue_depth(port) {
            let left = self.step_egress(now_us, port, frame)?;
            if left.is_some() {
                return left;
            }
        }
        None
    }

    /// The next frame for the controller.
    pub(crate) fn poll_packet_in(&mut self) -> Option<Vec<u8>> {
        self.packets_in.pop_front()
    }

    /// Whether [`poll_digest`](Self::poll_digest) has something.
    pub(crate) fn has_digests(&self) -> bool {
        !self.digests.is_empty()
    }

    /// The next digest of the active program for the controller.
    pub(crate) fn poll_digest(&mut self) -> Option<Digest> {
        self.digests.pop_front()
    }

    /// See [`super::Switch::poll_idle`].
    pub(crate) fn poll_idle(&mut self, now_us: u64) -> Vec<(TableId, TableEntry)> {
        let mut idle = Vec::new();
        if let Some(active) = &mut self.active {
            active.pipeline_mut().poll_idle(now_us, |table, entry| {
                idle.push((table, entry.clone()));
            });
        }
        idle
    }

    /// See [`super::Switch::poll_waiting`].
    pub(super) fn poll_waiting(&mut self) -> Option<u16> {
        self.queues.take_waiting()
    }

    /// Number of packets in a port's egress queue.
    pub(crate) fn queue_depth(&self, port: u16) -> usize {
        self.queues.port(port).map_or(0, |port| port.depth())
    }

    /// Counters of a port at this core; `None` if the port does not exist.
    pub(super) fn port_statistics(&self, port: u16) -> Option<PortStatistics> {
        let known = self.queues.port(port)?;
        Some(PortStatistics { depth: known.depth(), ..known.statistics })
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
                self.enqueue(now_us, slot, Replica { port, instance: 0 }, Origin::default());
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
                        // The replication engine makes the controller's copy, but not the packet's own.
                        let first = why == CopyOf::ToController;
                        self.enqueue(now_us, copy, to, Origin { first, ..Origin::default() });
                    }
                }
                self.put(slot);
            }
        }
    }

    /// Puts a packet into a queue, if it has room.
    fn enqueue(&mut self, now_us: u64, slot: Box<Slot>, mut to: Replica, mut origin: Origin) {
        let size = Size::of(&slot.packet);
        if let Some(loss) = self.queues.refusal(to.port, size, &mut self.statistics) {
            let wanted = self.config.tofino.deflection.filter(|_| slot.packet.deflects_on_drop());
            let Some(port) = self.queues.deflection(wanted, loss, size) else {
                trace::lost(&mut self.tracing, slot.trace, CopyOf::Packet, Some(to.port), loss);
                return self.put(slot);
            };
            self.record(slot.trace, || What::Deflected { from: to.port, to: port });
            (to.port, origin.deflected) = (port, true);
        }
        self.record(slot.trace, || What::Queued { port: to.port });
        self.queues.push(to, Held::Own(slot), size, origin, now_us);
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
        for (replica, first) in group.copies() {
            if replica.instance == copies.rid && active.groups().excludes(copies, replica.port) {
                trace::lost(tracing, trace, why, Some(replica.port), Loss::Excluded);
                continue;
            }
            let mut to = *replica;
            let mut origin = Origin { instance: Instance::Replication, first, deflected: false };
            if let Some(loss) = self.queues.refusal(to.port, size, &mut self.statistics) {
                let wanted = self.config.tofino.deflection.filter(|_| of.deflects_on_drop());
                let Some(port) = self.queues.deflection(wanted, loss, size) else {
                    trace::lost(tracing, trace, why, Some(to.port), loss);
                    continue;
                };
                (to.port, origin.deflected) = (port, true);
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
                    if origin.deflected {
                        let what = What::Deflected { from: replica.port, to: to.port };
                        trace::record(tracing, copy.trace, || what);
                    }
                    Held::Own(copy)
                }
            };
            self.queues.push(to, held, size, origin, now_us);
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

    /// Processes one packet of the queue of a port without a link. Returns whether it leaves, as `frame`.
    fn step_internal(&mut self, now_us: u64, port: u16, frame: &mut Vec<u8>) -> bool {
        match self.step_egress(now_us, port, frame).flatten() {
            None => return false,
            Some(Left::Alone) => {}
            Some(Left::Shared(place)) => {
                frame.clear();
                if let Some(shared) = self.pool.shared_mut(place) {
                    frame.extend_from_slice(shared.memo.frame());
                }
                self.pool.replica_left(place);
            }
        }
        true
    }

    /// Processes one packet of a port's queue: `Some(Some(_))` if it leaves, `Some(None)` if it was dropped or
    /// recirculated, `None` if the queue was empty.
    fn step_egress(&mut self, now_us: u64, port: u16, frame: &mut Vec<u8>) -> Option<Option<Left>> {
        let (queued, deq_qdepth) = self.queues.pop(port)?;
        let Some(active) = &mut self.active else { return Some(None) };
        let pipeline = active.pipeline_mut();
        let waited = now_us.saturating_sub(queued.enq_time_us);
        let input = EgressInput {
            port,
            rid: queued.rid,
            instance: queued.origin.instance,
            time_us: now_us,
            enq_time_us: queued.enq_time_us,
            enq_qdepth: queued.enq_qdepth,
            deq_qdepth,
            deq_timedelta: u32::try_from(waited).unwrap_or(u32::MAX),
            first: queued.origin.first,
            deflected: queued.origin.deflected,
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
                let Some(shared) = self.pool.shared_mut(place) else { return Some(None) };
                let Shared { slot, memo, .. } = shared;
                let packet = &mut slot.packet;
                if let Some(outcome) = pipeline.egress_shared(packet, memo, &input) {
                    let length = memo.frame().len();
                    if self.leaves(port, outcome, length) {
                        return Some(Some(Left::Shared(place)));
                    }
                    self.pool.replica_left(place);
                    return Some(None);
                }
                let mut own = self.pool.take(pipeline);
                let Some(Shared { slot, memo, .. }) = self.pool.shared_mut(place) else {
                    return Some(None);
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
            return Some(self.leaves(port, outcome, frame.len()).then_some(Left::Alone));
        }
        if self.recirculating.len() >= self.config.recirculation_limit {
            self.statistics.recirculation_drops += 1;
            self.record(trace, || What::RecirculationLimit);
            self.put(slot);
            return Some(None);
        }
        self.record(trace, || What::Recirculated);
        self.statistics.recirculated += 1;
        slot.port = port;
        std::mem::swap(&mut slot.frame, frame);
        self.recirculating.push_back(slot);
        Some(None)
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
