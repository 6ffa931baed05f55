//! The Portable Switch Architecture (PSA), versions 1.1 and 1.2.
//!
//! Ingress and egress are parser, control and deparser each. The frame that the ingress deparser
//! makes waits in the queue, with the metadata that the deparser hands to the next parser; egress
//! parses it again. Clones and resubmitted or recirculated packets also travel as frames with
//! metadata. `docs/reference/psa.md` lists where this differs from BMv2's `psa_switch`.

pub(crate) mod metadata;

use self::metadata::{Bridge, Bridges, ControlInput, Intrinsics, Output, ParserInput};
use crate::engine::{Runner, control};
use crate::exec::{Flow, Io};
use crate::packet::{CloneRequest, Packet};
use crate::pass::{Egress, EgressInput, Entries, Ingress, IngressInput, Instance, Verdict};
use crate::slot::Item;

/// The controller's port in a switch that runs PSA programs: for them `PSA_PORT_CPU`.
pub const CPU_PORT: u16 = 510;

/// The port whose outgoing frames enter ingress again: for programs `PSA_PORT_RECIRCULATE`.
pub const RECIRCULATION_PORT: u16 = 511;

/// The port that a program, or the control plane of a PSA switch, means by a number; `None` if the
/// number is not one of a port.
#[must_use]
pub fn port_number(value: u64) -> Option<u16> {
    match value {
        0xffff_fffa => Some(RECIRCULATION_PORT),
        0xffff_fffd => Some(CPU_PORT),
        _ => u16::try_from(value).ok().filter(|&port| port < CPU_PORT),
    }
}

/// The number of a port in programs.
#[must_use]
pub fn port_value(port: u16) -> u64 {
    match port {
        RECIRCULATION_PORT => 0xffff_fffa,
        CPU_PORT => 0xffff_fffd,
        port => u64::from(port),
    }
}

/// Members of `PSA_PacketPath_t`.
#[derive(Clone, Copy)]
enum Path {
    Normal = 0,
    NormalUnicast = 1,
    NormalMulticast = 2,
    CloneI2e = 3,
    CloneE2e = 4,
    Resubmit = 5,
    Recirculate = 6,
}

/// Runs a packet through the blocks.
#[derive(Debug)]
pub(crate) struct Passes {
    pub(crate) entries: Entries,
    intrinsics: Intrinsics,
    bridges: Bridges,
    /// Output of blocks without a deparser: always empty.
    nowhere: Vec<u8>,
}

const GONE: Egress = Egress { drop: true, recirculate: false };

impl Passes {
    pub(crate) fn new(entries: Entries, intrinsics: Intrinsics, bridges: Bridges) -> Self {
        Self { entries, intrinsics, bridges, nowhere: Vec::new() }
    }

    /// Runs ingress parser, ingress and ingress deparser.
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
        let gone = Ingress { verdict: Verdict::Drop, resubmit: false };
        let Self { entries, intrinsics: meta, bridges, nowhere } = self;
        engine.engine().store.advance(input.time_us);
        packet.reset();
        packet.requests.clear();
        packet.limit = None;
        let path = match input.instance {
            Instance::Resubmitted => {
                packet.hand_over(&bridges.resubmit.to);
                Path::Resubmit
            }
            Instance::Recirculated => {
                packet.hand_over(&bridges.recirculate.to);
                Path::Recirculate
            }
            _ => Path::Normal,
        };
        start(packet, &meta.ingress_parser, &meta.ingress, input.port, path, input.time_us);
        packet.set(meta.ingress_output.drop, 1);
        let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        packet.ingress_length = length;

        let mut io = Io::arriving(frame, length, nowhere);
        if let Flow::Error(code) = engine.run(entries.ingress_parser, &mut packet.state, &mut io) {
            packet.state[meta.ingress.parser_error.slot as usize] = code;
        }
        if let Some(core) = engine.engine().share.elsewhere(&packet.state) {
            return Ingress { verdict: Verdict::Elsewhere(core), resubmit: false };
        }
        let Packet { state, payload, .. } = packet;
        control(engine, entries.ingress, meta.failed, state, &mut io);
        if state[meta.failed as usize] != 0 {
            return gone;
        }
        let at = |state: &[u64], item: Item| state[item.slot as usize];
        let drop = at(state, meta.ingress_output.drop) != 0;
        let clone = clone_request(&meta.ingress_output, state);
        if drop && clone.is_none() {
            return gone;
        }
        payload.clear();
        io.out = payload;
        control(engine, entries.ingress_deparser, meta.failed, state, &mut io);
        let parsed = io.at;
        if state[meta.failed as usize] != 0 {
            engine.engine().store.requests.clear();
            return gone;
        }
        payload.extend_from_slice(&frame[parsed..]);
        std::mem::swap(&mut packet.requests, &mut engine.engine().store.requests);
        packet.requests.clone = clone;
        if drop {
            return gone;
        }
        if at(&packet.state, meta.resubmit) != 0 {
            packet.keep_along(&bridges.resubmit.from);
            return Ingress { verdict: Verdict::Drop, resubmit: true };
        }
        packet.keep_along(&bridges.normal.from);
        packet.class_of_service = at(&packet.state, meta.class_of_service) as u8;
        packet.length = u32::try_from(packet.payload.len()).unwrap_or(u32::MAX);
        let verdict = match at(&packet.state, meta.multicast_group) {
            // No port has the last number, and no group zero.
            0 => Verdict::Unicast(
                port_number(at(&packet.state, meta.egress_port)).unwrap_or(u16::MAX),
            ),
            group => Verdict::Multicast(u16::try_from(group).unwrap_or(0)),
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
        let Self { entries, intrinsics: meta, nowhere, .. } = self;
        let (parser, time_us) = (&meta.ingress_parser, input.time_us);
        start(packet, parser, &meta.ingress, input.port, Path::Normal, time_us);
        let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        let mut io = Io::arriving(frame, length, nowhere);
        engine.run(entries.ingress_parser, &mut packet.state, &mut io);
    }

    /// Runs egress parser, egress and egress deparser on the frame of a packet.
    pub(crate) fn egress(
        &mut self,
        engine: &mut impl Runner,
        packet: &mut Packet,
        input: &EgressInput,
        frame: &mut Vec<u8>,
    ) -> Egress {
        let Self { entries, intrinsics: meta, bridges, nowhere } = self;
        frame.clear();
        engine.engine().store.advance(input.time_us);
        packet.reset();
        packet.requests.clear();
        let (path, bridge) = match input.instance {
            Instance::IngressClone => (Path::CloneI2e, &bridges.clone_i2e),
            Instance::EgressClone => (Path::CloneE2e, &bridges.clone_e2e),
            Instance::Replication => (Path::NormalMulticast, &bridges.normal),
            _ => (Path::NormalUnicast, &bridges.normal),
        };
        packet.hand_over(&bridge.to);
        start(packet, &meta.egress_parser, &meta.egress, input.port, path, input.time_us);
        packet.set(meta.egress_class, packet.class_of_service.into());
        packet.set(meta.egress_instance, input.rid.into());
        // The length limit of a clone session: the copy is cut before egress.
        let limit = packet.limit.take().unwrap_or(u32::MAX);
        packet.payload.truncate(limit as usize);
        let length = u32::try_from(packet.payload.len()).unwrap_or(u32::MAX);

        let Packet { state, payload, .. } = packet;
        let mut io = Io::arriving(payload, length, nowhere);
        if let Flow::Error(code) = engine.run(entries.egress_parser, state, &mut io) {
            state[meta.egress.parser_error.slot as usize] = code;
        }
        control(engine, entries.egress, meta.failed, state, &mut io);
        if state[meta.failed as usize] != 0 {
            return GONE;
        }
        let drop = state[meta.egress_output.drop.slot as usize] != 0;
        let clone = clone_request(&meta.egress_output, state);
        if drop && clone.is_none() {
            return GONE;
        }
        state[meta.deparser_port.slot as usize] = port_value(input.port);
        io.out = frame;
        control(engine, entries.egress_deparser, meta.failed, state, &mut io);
        let parsed = io.at;
        if state[meta.failed as usize] != 0 {
            frame.clear();
            engine.engine().store.requests.clear();
            return GONE;
        }
        frame.extend_from_slice(&payload[parsed..]);
        std::mem::swap(&mut packet.requests, &mut engine.engine().store.requests);
        packet.requests.clone = clone;
        if clone.is_some() {
            packet.payload.clone_from(frame);
        }
        if drop {
            frame.clear();
            return GONE;
        }
        let recirculate = input.port == RECIRCULATION_PORT;
        if recirculate {
            packet.keep_along(&bridges.recirculate.from);
        }
        Egress { drop: false, recirculate }
    }

    /// Makes a clone of a frame that passed ingress: as it was received.
    pub(crate) fn clone_of_ingress(&self, copy: &mut Packet, original: &Packet, frame: &[u8]) {
        copy.payload.clear();
        copy.payload.extend_from_slice(frame);
        self.finish_clone(copy, original, &self.bridges.clone_i2e);
    }

    /// Makes a clone of a packet that passed egress: the frame that its deparser made.
    pub(crate) fn clone_of_egress(&self, copy: &mut Packet, original: &Packet) {
        copy.payload.clone_from(&original.payload);
        self.finish_clone(copy, original, &self.bridges.clone_e2e);
    }

    fn finish_clone(&self, copy: &mut Packet, original: &Packet, bridge: &Bridge) {
        copy.take_along(&bridge.from, &original.state);
        copy.length = u32::try_from(copy.payload.len()).unwrap_or(u32::MAX);
        copy.ingress_length = original.ingress_length;
        copy.class_of_service = 0;
        copy.limit = None;
        copy.requests.clear();
    }
}

/// Sets what parser and control of a pipeline find before they start.
fn start(
    packet: &mut Packet,
    parser: &ParserInput,
    control: &ControlInput,
    port: u16,
    path: Path,
    time_us: u64,
) {
    let port = port_value(port);
    packet.set(parser.port, port);
    packet.set(parser.path, path as u64);
    packet.set(control.port, port);
    packet.set(control.path, path as u64);
    packet.set(control.timestamp, time_us);
}

/// The clone that a control asked for.
fn clone_request(output: &Output, state: &[u64]) -> Option<CloneRequest> {
    let session = state[output.clone_session.slot as usize] as u16;
    (state[output.clone.slot as usize] != 0).then_some(CloneRequest { session, list: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ports_of_a_switch_have_the_numbers_of_the_architecture() {
        assert_eq!(port_value(RECIRCULATION_PORT), 0xffff_fffa);
        assert_eq!(port_value(CPU_PORT), 0xffff_fffd);
        for port in [0, 7, CPU_PORT - 1, RECIRCULATION_PORT, CPU_PORT] {
            assert_eq!(port_number(port_value(port)), Some(port));
        }
        for value in [510, 511, 512, 0xfffa, 0x1_0000, 0xffff_fffe, u64::from(u32::MAX)] {
            assert_eq!(port_number(value), None, "{value:#x}");
        }
    }
}
