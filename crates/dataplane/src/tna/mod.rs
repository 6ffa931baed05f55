//! The Tofino Native Architecture (TNA) of Tofino 1, one pipe.
//!
//! Ingress is parser, control and deparser. The deparser's output is the frame that waits in the
//! queue; egress parses it again, with its own headers and metadata. [`intrinsic`] makes the bytes
//! that the architecture puts in front of a frame. `docs/reference/embedded-switch-tna.md` lists
//! what is modelled.

mod intrinsic;
pub(crate) mod metadata;

use self::intrinsic::{EgressIntrinsic, ingress_intrinsic, nanoseconds};
use self::metadata::Intrinsics;
use crate::code::Errors;
use crate::engine::Runner;
use crate::exec::{Flow, Io};
use crate::packet::Packet;
use crate::pass::{
    DROP_PORT, Egress, EgressInput, Entries, Ingress, IngressInput, Instance, Replication, Verdict,
};
use crate::slot::Item;

/// The port whose outgoing frames arrive on the same port again.
pub const RECIRCULATION_PORT: u16 = 68;

/// Bytes of a frame's check sequence, which a Tofino counts and this switch does not see.
const CHECK_SEQUENCE_BYTES: u32 = 4;

/// Bit of `drop_ctl`: no unicast, multicast or resubmission.
const DROP: u64 = 0b001;
/// Bit of `drop_ctl`: no copy to the controller's port.
const DROP_CPU_COPY: u64 = 0b010;
/// Bit of `drop_ctl`: no mirrored copy.
const DROP_MIRROR: u64 = 0b100;

/// Runs a packet through the blocks.
#[derive(Debug)]
pub(crate) struct Passes {
    pub(crate) entries: Entries,
    intrinsics: Intrinsics,
    /// Whether the program reads ingress parser errors; otherwise such packets are dropped.
    handles_errors: bool,
    /// The metadata of each port that has any, in the order of ports.
    port_metadata: Vec<(u16, [u8; 8])>,
    /// Ports in loopback mode, in their order.
    loopback: Vec<u16>,
    /// The parser's input bytes.
    input: Vec<u8>,
    /// Output of blocks without a deparser: always empty.
    nowhere: Vec<u8>,
}

impl Passes {
    pub(crate) fn new(entries: Entries, intrinsics: Intrinsics, handles_errors: bool) -> Self {
        let (port_metadata, input, nowhere) = Default::default();
        let loopback = vec![RECIRCULATION_PORT];
        Self { entries, intrinsics, handles_errors, port_metadata, loopback, input, nowhere }
    }

    /// Puts a port into loopback mode.
    pub(crate) fn set_loopback(&mut self, port: u16) {
        if let Err(at) = self.loopback.binary_search(&port) {
            self.loopback.insert(at, port);
        }
    }

    /// Sets the metadata of a port.
    pub(crate) fn set_port_metadata(&mut self, port: u16, bytes: [u8; 8]) {
        match self.port_metadata.binary_search_by_key(&port, |&(known, _)| known) {
            Ok(at) => self.port_metadata[at].1 = bytes,
            Err(at) => self.port_metadata.insert(at, (port, bytes)),
        }
    }

    /// Runs ingress parser, ingress and ingress deparser.
    pub(crate) fn ingress(
        &mut self,
        engine: &mut impl Runner,
        packet: &mut Packet,
        frame: &[u8],
        input: &IngressInput,
    ) -> Ingress {
        const GONE: Ingress = Ingress { verdict: Verdict::Drop, resubmit: false };
        let Self {
            entries,
            intrinsics: meta,
            handles_errors,
            port_metadata,
            input: bytes,
            nowhere,
            loopback: _,
        } = self;
        let resubmitted = input.instance == Instance::Resubmitted;
        bytes.clear();
        bytes.extend_from_slice(&ingress_intrinsic(input.port, resubmitted, input.time_us));
        bytes.extend_from_slice(&match resubmitted {
            true => packet.resubmitted,
            false => metadata_of(port_metadata, input.port),
        });
        bytes.extend_from_slice(frame);

        packet.reset();
        packet.requests.clear();
        engine.engine().store.advance(input.time_us);
        packet.set(meta.ingress.global_tstamp, nanoseconds(input.time_us));
        packet.set(meta.ucast_egress_port, u64::from(DROP_PORT));
        let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        packet.ingress_length = length;
        let mut io = Io::arriving(bytes, length, nowhere);
        if let Flow::Error(code) = engine.run(entries.ingress_parser, &mut packet.state, &mut io) {
            if !*handles_errors {
                return GONE;
            }
            let flags = parser_error(&engine.engine().code.errors, code);
            packet.state[meta.ingress.parser_err.slot as usize] = flags;
        }
        if let Some(core) = engine.engine().share.elsewhere(&packet.state) {
            return Ingress { verdict: Verdict::Elsewhere(core), resubmit: false };
        }
        engine.run(entries.ingress, &mut packet.state, &mut io);
        packet.payload.clear();
        io.out = &mut packet.payload;
        engine.run(entries.ingress_deparser, &mut packet.state, &mut io);
        let at = io.at;
        packet.payload.extend_from_slice(&bytes[at..]);
        std::mem::swap(&mut packet.requests, &mut engine.engine().store.requests);

        let state = &packet.state;
        let get = |item: Item| state[item.slot as usize];
        let control = get(meta.ingress.drop_ctl);
        if control & DROP_MIRROR != 0 {
            packet.requests.mirror = None;
        }
        if control & DROP == 0 && state[meta.resubmit as usize] != 0 {
            packet.resubmitted = state[meta.resubmit_data as usize].to_be_bytes();
            return Ingress { verdict: Verdict::Drop, resubmit: true };
        }
        let to_cpu = control & DROP_CPU_COPY == 0 && get(meta.copy_to_cpu) != 0;
        let mut copies = Replication { to_cpu, ..Replication::default() };
        if control & DROP == 0 {
            copies.unicast =
                Some(get(meta.ucast_egress_port) as u16).filter(|&port| port != DROP_PORT);
            copies.groups = [get(meta.mcast_grp_a) as u16, get(meta.mcast_grp_b) as u16];
            copies.rid = get(meta.rid) as u16;
            copies.exclusion = get(meta.level2_exclusion_id) as u16;
        }
        packet.bypass_egress = get(meta.bypass_egress) != 0;
        packet.deflect_on_drop = get(meta.deflect_on_drop) != 0;
        packet.length = u32::try_from(packet.payload.len()).unwrap_or(u32::MAX);
        let verdict = match copies {
            Replication { unicast: None, groups: [0, 0], to_cpu: false, .. } => Verdict::Drop,
            Replication { unicast: Some(port), groups: [0, 0], to_cpu: false, .. } => {
                Verdict::Unicast(port)
            }
            _ => Verdict::Replicate(copies),
        };
        Ingress { verdict, resubmit: false }
    }

    /// Runs only the ingress parser.
    pub(crate) fn parse(
        &mut self,
        engine: &mut impl Runner,
        packet: &mut Packet,
        frame: &[u8],
        input: &IngressInput,
    ) {
        let Self { entries, port_metadata, input: bytes, nowhere, .. } = self;
        bytes.clear();
        bytes.extend_from_slice(&ingress_intrinsic(input.port, false, input.time_us));
        bytes.extend_from_slice(&metadata_of(port_metadata, input.port));
        bytes.extend_from_slice(frame);
        let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        let mut io = Io::arriving(bytes, length, nowhere);
        engine.run(entries.ingress_parser, &mut packet.state, &mut io);
    }

    /// Runs egress parser, egress and egress deparser on the output of the ingress deparser.
    pub(crate) fn egress(
        &mut self,
        engine: &mut impl Runner,
        packet: &mut Packet,
        input: &EgressInput,
        frame: &mut Vec<u8>,
    ) -> Egress {
        let Self { entries, intrinsics: meta, loopback, input: bytes, nowhere, .. } = self;
        frame.clear();
        let recirculate = loopback.binary_search(&input.port).is_ok();
        let sent = Egress { drop: false, recirculate };
        // Those of ingress are done, also if there is no egress.
        packet.requests.clear();
        if packet.bypass_egress {
            frame.extend_from_slice(&packet.payload);
            return sent;
        }
        let length = packet.length;
        bytes.clear();
        let intrinsic = EgressIntrinsic {
            port: input.port,
            enq_qdepth: input.enq_qdepth,
            enq_time_us: input.enq_time_us,
            deq_qdepth: input.deq_qdepth,
            deq_timedelta_us: input.deq_timedelta,
            rid: input.rid,
            rid_first: input.first,
            deflected: input.deflected,
            length: packet.ingress_length.saturating_add(CHECK_SEQUENCE_BYTES),
        };
        bytes.extend_from_slice(&intrinsic.bytes());
        bytes.extend_from_slice(&packet.payload);

        packet.reset();
        engine.engine().store.advance(input.time_us);
        packet.set(meta.egress.global_tstamp, nanoseconds(input.time_us));
        let state = &mut packet.state;
        let mut io = Io::arriving(bytes, length, nowhere);
        // Egress never drops for a parser error.
        if let Flow::Error(code) = engine.run(entries.egress_parser, state, &mut io) {
            state[meta.egress.parser_err.slot as usize] =
                parser_error(&engine.engine().code.errors, code);
        }
        engine.run(entries.egress, state, &mut io);
        io.out = frame;
        engine.run(entries.egress_deparser, state, &mut io);
        let at = io.at;
        frame.extend_from_slice(&bytes[at..]);
        std::mem::swap(&mut packet.requests, &mut engine.engine().store.requests);
        let control = packet.state[meta.egress.drop_ctl.slot as usize];
        if control & DROP_MIRROR != 0 {
            packet.requests.mirror = None;
        }
        match control & DROP {
            0 => sent,
            // What is mirrored is the frame that would have left.
            _ => Egress { drop: true, recirculate: false },
        }
    }
}

/// The metadata of a port.
fn metadata_of(all: &[(u16, [u8; 8])], port: u16) -> [u8; 8] {
    match all.binary_search_by_key(&port, |&(known, _)| known) {
        Ok(at) => all[at].1,
        Err(_) => [0; 8],
    }
}

/// The flag of `parser_err` for an error of the engine.
fn parser_error(errors: &Errors, code: u64) -> u64 {
    const NO_MATCH: u64 = 0x0001;
    const PARTIAL_HEADER: u64 = 0x0002;
    const COUNTER_RANGE: u64 = 0x0004;
    const TIMEOUT: u64 = 0x0010;
    if code == errors.counter_range {
        return COUNTER_RANGE;
    }
    if code == errors.packet_too_short {
        PARTIAL_HEADER
    } else if code == errors.timeout {
        TIMEOUT
    } else if code == errors.stack_out_of_bounds {
        COUNTER_RANGE
    } else {
        NO_MATCH
    }
}
