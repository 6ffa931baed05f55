//! The v1model architecture as in BMv2's `simple_switch`.
//!
//! Ingress is parser, checksum verification and ingress control; the packet's whole state waits in
//! the queue; egress is egress control, checksum computation and deparser. A second pass keeps only
//! the fields of an `@field_list`.

pub(crate) mod metadata;

use self::metadata::{Entries, Intrinsics, request};
use crate::effects::Sharing;
use crate::engine::{Runner, control};
use crate::exec::{Flow, Io};
use crate::packet::{CloneRequest, Packet};
use crate::pass::{DROP_PORT, Egress, EgressInput, Ingress, IngressInput, Instance, Verdict};
use crate::replicas::Memo;
use crate::slot::Item;

/// Runs a packet through the blocks.
#[derive(Debug)]
pub(crate) struct Passes {
    pub(crate) entries: Entries,
    intrinsics: Intrinsics,
    /// Whether, and how, replicas can share a packet.
    pub(crate) sharing: Option<Sharing>,
    /// Output of blocks before the deparser: always empty.
    nowhere: Vec<u8>,
}

impl Passes {
    pub(crate) fn new(entries: Entries, intrinsics: Intrinsics, sharing: Option<Sharing>) -> Self {
        Self { entries, intrinsics, sharing, nowhere: Vec::new() }
    }

    /// Runs parser, checksum verification and ingress.
    ///
    /// A parser error does not stop the packet: ingress finds it in `parser_error`, and unparsed
    /// bytes are payload.
    pub(crate) fn ingress(
        &mut self,
        engine: &mut impl Runner,
        packet: &mut Packet,
        frame: &[u8],
        input: &IngressInput,
    ) -> Ingress {
        let Self { entries, intrinsics: meta, nowhere, .. } = self;
        let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        engine.engine().store.advance(input.time_us);
        packet.reset();
        packet.requests.clear();
        packet.limit = None;
        // BMv2 resets all metadata before a second pass, including the port and the time.
        if matches!(input.instance, Instance::Resubmitted | Instance::Recirculated) {
            packet.restore();
        } else {
            packet.set(meta.ingress_port, u64::from(input.port));
            packet.set(meta.ingress_global_timestamp, input.time_us);
        }
        packet.set(meta.instance_type, input.instance as u64);
        packet.set(meta.packet_length, u64::from(length));
        packet.ingress_length = length;

        let mut io = Io::arriving(frame, length, nowhere);
        if let Flow::Error(code) = engine.run(entries.parser, &mut packet.state, &mut io) {
            packet.state[meta.parser_error.slot as usize] = code;
        }
        packet.parsed();
        if let Some(core) = engine.engine().share.elsewhere(&packet.state) {
            return Ingress { verdict: Verdict::Elsewhere(core), resubmit: false };
        }
        io.payload = &frame[io.at..];
        control(engine, entries.verify, meta.failed, &mut packet.state, &mut io);
        control(engine, entries.ingress, meta.failed, &mut packet.state, &mut io);
        packet.length = io.length;

        let state = &packet.state;
        let at = |item: Item| state[item.slot as usize];
        let verdict = if state[meta.failed as usize] != 0 {
            return Ingress { verdict: Verdict::Drop, resubmit: false };
        } else if at(meta.mcast_grp) != 0 {
            Verdict::Multicast(at(meta.mcast_grp) as u16)
        } else if at(meta.egress_spec) == u64::from(DROP_PORT) {
            Verdict::Drop
        } else {
            Verdict::Unicast(at(meta.egress_spec) as u16)
        };
        if let Some(digest) = request(state[meta.digest as usize]) {
            packet.requests.pack(&engine.engine().code, digest, state);
        }
        packet.requests.clone = meta.clone_request(state);
        packet.priority = at(meta.priority) as u8;
        let resubmit = request(state[meta.resubmit as usize]);
        // Ingress requests have been read: egress makes its own.
        for slot in [meta.clone, meta.clone_list] {
            packet.state[slot as usize] = 0;
        }
        packet.payload.clear();
        if verdict != Verdict::Drop {
            packet.payload.extend_from_slice(io.payload);
        }
        if let Some(list) = resubmit {
            packet.preserve(list);
        }
        Ingress { verdict, resubmit: resubmit.is_some() }
    }

    /// Runs only the parser.
    pub(crate) fn parse(
        &mut self,
        engine: &mut impl Runner,
        packet: &mut Packet,
        frame: &[u8],
        input: &IngressInput,
    ) {
        let Self { entries, intrinsics: meta, nowhere, .. } = self;
        let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        packet.set(meta.ingress_port, u64::from(input.port));
        packet.set(meta.packet_length, u64::from(length));
        let mut io = Io::arriving(frame, length, nowhere);
        engine.run(entries.parser, &mut packet.state, &mut io);
    }

    /// Runs egress, checksum computation and deparser.
    pub(crate) fn egress(
        &mut self,
        engine: &mut impl Runner,
        packet: &mut Packet,
        input: &EgressInput,
        frame: &mut Vec<u8>,
    ) -> Egress {
        frame.clear();
        let length = self.run_egress(engine, packet, input, frame);
        self.leave(engine, packet, length, frame)
    }

    /// Runs the egress of a replica on the packet that it shares with others; its frame is the memo's.
    /// Returns `None` if the replica needs a packet of its own: for [`Self::egress_apart`].
    pub(crate) fn egress_shared(
        &mut self,
        engine: &mut impl Runner,
        packet: &mut Packet,
        memo: &mut Memo,
        input: &EgressInput,
    ) -> Option<Egress> {
        memo.save(self.sharing.as_ref()?, &packet.state);
        let mut nothing = Vec::new();
        memo.length = self.run_egress(engine, packet, input, &mut nothing);
        debug_assert!(nothing.is_empty(), "only deparsers write");
        let Self { entries, intrinsics: meta, sharing, .. } = self;
        let sharing = sharing.as_ref()?;
        let state = &mut packet.state;
        let special = meta.requests().into_iter().chain([meta.failed]);
        if special.into_iter().any(|slot| state[slot as usize] != 0) {
            return None;
        }
        if state[meta.egress_spec.slot as usize] == u64::from(DROP_PORT) {
            memo.restore(sharing, state);
            return Some(GONE);
        }
        if !memo.holds(sharing, state) {
            let frame = &mut memo.frame;
            let mut io = leaving(&packet.payload, memo.length, packet.ingress_length, frame);
            control(engine, entries.compute, meta.failed, state, &mut io);
            control(engine, entries.deparser, meta.failed, state, &mut io);
            if state[meta.failed as usize] != 0 {
                memo.restore(sharing, state);
                return Some(GONE);
            }
            frame.extend_from_slice(&packet.payload);
            frame.truncate(packet.limit.unwrap_or(u32::MAX) as usize);
            memo.valid = true;
        }
        memo.restore(sharing, state);
        Some(Egress { drop: false, recirculate: false })
    }

    /// Continues the egress of a replica in `own`, and leaves the shared packet to others.
    pub(crate) fn egress_apart(
        &mut self,
        engine: &mut impl Runner,
        packet: &mut Packet,
        memo: &mut Memo,
        own: &mut Packet,
        frame: &mut Vec<u8>,
    ) -> Egress {
        frame.clear();
        own.copy_from(packet);
        own.state.copy_from_slice(&packet.state);
        own.requests.clear();
        if let Some(sharing) = &self.sharing {
            memo.restore(sharing, &mut packet.state);
        }
        self.leave(engine, own, memo.length, frame)
    }

    /// Runs the egress control. Returns the packet's length after it.
    fn run_egress(
        &self,
        engine: &mut impl Runner,
        packet: &mut Packet,
        input: &EgressInput,
        frame: &mut Vec<u8>,
    ) -> u32 {
        let Self { entries, intrinsics: meta, .. } = self;
        engine.engine().store.advance(input.time_us);
        packet.set(meta.egress_global_timestamp, input.time_us);
        packet.set(meta.enq_timestamp, input.enq_time_us);
        packet.set(meta.enq_qdepth, u64::from(input.enq_qdepth));
        packet.set(meta.deq_qdepth, u64::from(input.deq_qdepth));
        packet.set(meta.deq_timedelta, u64::from(input.deq_timedelta));
        packet.set(meta.egress_port, u64::from(input.port));
        // For a packet to one port, BMv2 leaves the replication id unchanged.
        if input.instance != Instance::Normal {
            packet.set(meta.egress_rid, u64::from(input.rid));
        }
        packet.set(meta.instance_type, input.instance as u64);
        packet.requests.clear();
        // Any value but the drop port; BMv2 uses the next one, modulo the field's width.
        packet.set(meta.egress_spec, u64::from(DROP_PORT) + 1);
        let length = packet.length;
        packet.set(meta.packet_length, u64::from(length));
        let mut io = leaving(&packet.payload, length, packet.ingress_length, frame);
        control(engine, entries.egress, meta.failed, &mut packet.state, &mut io);
        io.length
    }

    /// What follows the egress control.
    fn leave(
        &self,
        engine: &mut impl Runner,
        packet: &mut Packet,
        length: u32,
        frame: &mut Vec<u8>,
    ) -> Egress {
        let Self { entries, intrinsics: meta, .. } = self;
        let mut io = leaving(&packet.payload, length, packet.ingress_length, frame);
        let state = &mut packet.state;
        if state[meta.failed as usize] != 0 {
            return GONE;
        }
        packet.requests.clone = meta.clone_request(state);
        if packet.requests.clone.is_some() {
            // Before checksums are computed, and even if the packet is dropped.
            packet.cloned.clear();
            packet.cloned.extend_from_slice(&state[..packet.shape.live]);
            packet.length = io.length;
        }
        if state[meta.egress_spec.slot as usize] == u64::from(DROP_PORT) {
            return GONE;
        }
        control(engine, entries.compute, meta.failed, state, &mut io);
        control(engine, entries.deparser, meta.failed, state, &mut io);
        packet.length = io.length;
        frame.extend_from_slice(&packet.payload);
        if state[meta.failed as usize] != 0 {
            frame.clear();
            packet.requests.clear();
            return GONE;
        }
        let recirculate = request(state[meta.recirculate as usize]);
        if let Some(list) = recirculate {
            packet.preserve(list);
        } else {
            // A recirculated frame is complete, as in BMv2.
            let limit = request(state[meta.truncate as usize]).into_iter().chain(packet.limit);
            frame.truncate(limit.min().unwrap_or(u32::MAX) as usize);
        }
        Egress { drop: false, recirculate: recirculate.is_some() }
    }
}

const GONE: Egress = Egress { drop: true, recirculate: false };

/// The state of a packet whose parser has run.
fn leaving<'a>(
    payload: &'a [u8],
    length: u32,
    ingress_length: u32,
    out: &'a mut Vec<u8>,
) -> Io<'a> {
    Io { frame: &[], at: 0, payload, out, length, ingress_length, work: 0 }
}

impl Passes {
    /// Makes a clone of a frame that passed ingress: the received frame is parsed again.
    pub(crate) fn clone_of_ingress(
        &mut self,
        engine: &mut impl Runner,
        copy: &mut Packet,
        original: &Packet,
        frame: &[u8],
        port: u16,
    ) {
        let Some(request) = original.requests.clone else { return };
        let Self { entries, intrinsics: meta, nowhere, .. } = self;
        copy.reset();
        copy.set(meta.ingress_port, u64::from(port));
        let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        let mut io = Io::arriving(frame, length, nowhere);
        engine.run(entries.parser, &mut copy.state, &mut io);
        copy.parsed();
        copy.payload.clear();
        copy.payload.extend_from_slice(&frame[io.at..]);
        copy.length = length;
        copy.ingress_length = original.ingress_length;
        self.finish_clone(copy, request, &original.state);
    }

    /// Makes a clone of a packet that passed egress, as it was at the end.
    pub(crate) fn clone_of_egress(&self, copy: &mut Packet, original: &Packet) {
        let Some(request) = original.requests.clone else { return };
        copy.state[..original.cloned.len()].copy_from_slice(&original.cloned);
        copy.payload.clone_from(&original.payload);
        copy.length = original.length;
        copy.ingress_length = original.ingress_length;
        self.finish_clone(copy, request, &original.cloned);
    }

    fn finish_clone(&self, copy: &mut Packet, request: CloneRequest, from: &[u64]) {
        copy.become_clone(request, from);
        copy.priority = copy.state[self.intrinsics.priority.slot as usize] as u8;
    }
}
