//! P4INC and SwitchML.

use std::collections::BTreeSet;

use super::{Model, Out, Part, add, half, is_marked, key, word, write};
use crate::frames::{
    ALL_BUT, ASYNCHRONOUS, AUDIENCE, COLLISION, GRADIENT, HEADERS, INDEX, MARKED, OVERFLOW,
    PARAMETER, QUERY, RACK, REPLY, RESEND, SEQUENCE, internet_checksum,
};
use crate::lab::NO_JOB;
use crate::lab::Outcome::{self, *};
use crate::target::Program;

/// An entry of `services`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Service {
    /// The first cell, the number of cells, all whom rounds wait for, and the positions of results.
    Aggregate(u32, u32, u32, u32),
    Forward,
}

/// A round and its sum so far.
#[derive(Clone)]
struct Sum {
    round: u32,
    values: Vec<i32>,
    marked: bool,
    overflowed: bool,
}

/// A cell that advances from round to round.
pub(super) struct Place {
    sum: Sum,
    /// Workers whose values are not in the result yet.
    missing: BTreeSet<u32>,
    /// P4INC's copy of a result.
    copy: Option<Sum>,
}

/// The flags of a result sent by a worker.
const RESULT: u8 = RESEND | COLLISION;

/// Whether a worker has left out the zeros that it gives.
fn is_bare(frame: &[u8]) -> bool {
    frame[43] == GRADIENT && half(frame, 48) == 0
}

fn workers(bitmap: u32) -> BTreeSet<u32> {
    (0..32).filter(|worker| bitmap >> worker & 1 == 1).collect()
}

/// As the header's flags.
fn flags(sum: &Sum) -> u8 {
    (if sum.marked { MARKED } else { 0 }) | (if sum.overflowed { OVERFLOW } else { 0 })
}

impl Model {
    /// The current round of a cell, and whether it is finished.
    pub(crate) fn round(&self, cell: u32) -> Option<(u32, bool)> {
        let place = self.places.get(&cell)?;
        Some((place.sum.round, place.missing.is_empty()))
    }

    pub(super) fn rounds(&mut self, part: Part, port: u16, frame: Vec<u8>) -> Out {
        let Some(service) = self.service(&frame) else {
            return self.gone(part.slot, Rejected, &frame);
        };
        if part.transit {
            return self.pass_on(part.slot, Bypassed, port, frame);
        }
        let p4inc = self.build.program == Program::P4inc;
        let handed_over = p4inc && frame[43] == GRADIENT && frame[44] & RESULT == RESULT;
        let collided = frame[44] & COLLISION != 0 && !handed_over;
        if collided || word(&frame, SEQUENCE) == u32::MAX {
            return self.gone(part.slot, Malformed, &frame);
        }
        match frame[43] {
            GRADIENT => self.of_worker(part, service, port, frame),
            _ if !p4inc || frame[44] & RESEND != 0 => self.gone(part.slot, Malformed, &frame),
            QUERY => self.forward(part.slot, Queried, port, frame),
            PARAMETER | REPLY => self.of_server(part, service, port, frame),
            _ => self.gone(part.slot, Malformed, &frame),
        }
    }

    fn service(&self, frame: &[u8]) -> Option<Service> {
        self.services.get(&(half(frame, 46), frame[45])).copied()
    }

    fn of_worker(&mut self, part: Part, service: Service, port: u16, frame: Vec<u8>) -> Out {
        let (_, cell, bitmap) = key(&frame);
        if bitmap != part.unit || part.unit.count_ones() != 1 {
            return self.gone(part.slot, Malformed, &frame);
        }
        if frame[44] & RESULT == RESULT {
            return self.pass_on(part.slot, Resent, port, frame);
        }
        let Service::Aggregate(offset, size, everyone, total) = service else {
            return self.pass_on(part.slot, Bypassed, port, frame);
        };
        if !(offset..offset + size).contains(&cell) {
            return self.gone(part.slot, Outside, &frame);
        }
        let local = part.group != 0 && part.members == everyone;
        match self.build.program {
            Program::SwitchMl if !local => self.gone(part.slot, Rejected, &frame),
            Program::P4inc if !local && part.unit == part.members => {
                self.pass_on(part.slot, Bypassed, port, frame)
            }
            _ => self.contribute(part, ((everyone, total), local), port, frame),
        }
    }

    /// Forwards a packet, unless it leaves out zeros.
    fn pass_on(&mut self, slot: u8, outcome: Outcome, port: u16, frame: Vec<u8>) -> Out {
        if is_bare(&frame) {
            return self.gone(slot, Malformed, &frame);
        }
        self.forward(slot, outcome, port, frame)
    }

    fn contribute(
        &mut self,
        part: Part,
        ((everyone, total), local): ((u32, u32), bool),
        port: u16,
        mut frame: Vec<u8>,
    ) -> Out {
        let ((_, round), cell, bitmap) = key(&frame);
        let is_bare = is_bare(&frame);
        if is_bare {
            let owner = u32::from(frame[AUDIENCE] & !ALL_BUT).wrapping_sub(1);
            let is_giver = owner < 32 && everyone >> owner & 1 == 1 && bitmap != 1 << owner;
            if !local || !is_giver {
                return self.gone(part.slot, Malformed, &frame);
            }
            self.filled = 4 * self.build.values;
            frame.splice(HEADERS..HEADERS, vec![0; self.filled]);
            set_values(&mut frame, self.build.values);
        }
        let mut missing = workers(everyone);
        missing.remove(&bitmap.trailing_zeros());
        let own = Sum {
            round,
            values: self.values(&frame),
            marked: is_marked(&frame),
            overflowed: frame[44] & OVERFLOW != 0,
        };
        let here = workers(part.members);
        let Some(place) = self.places.get_mut(&cell) else {
            let place = Place { sum: own, missing, copy: None };
            self.places.insert(cell, place);
            return self.taken_in(part, (total, local), port, frame, Absorbed);
        };
        let is_first = place.sum.round < round && place.missing.is_empty();
        if is_first {
            (place.sum, place.missing) = (own, missing);
            return self.taken_in(part, (total, local), port, frame, Absorbed);
        }
        if place.sum.round < round {
            if self.build.program == Program::SwitchMl || is_bare {
                return self.gone(part.slot, Asynchronous, &frame);
            }
            frame[43] = ASYNCHRONOUS;
            frame[44] |= MARKED;
            turn_back(&mut frame);
            self.circuit = None;
            return self.forward(part.slot, Asynchronous, port, frame);
        }
        if place.sum.round == round && place.missing.remove(&bitmap.trailing_zeros()) {
            add(&mut place.sum.values, &own.values);
            place.sum.marked |= own.marked;
            place.sum.overflowed |= own.overflowed;
            return self.taken_in(part, (total, local), port, frame, Added);
        }
        if is_bare {
            let is_late = place.sum.round > round;
            return self.gone(part.slot, if is_late { Stale } else { Duplicate }, &frame);
        }
        // A packet of a round with a copy gets that copy.
        if let Some(copy) = place.copy.clone().filter(|copy| copy.round == round) {
            return self.repeat(part, total, port, frame, &copy);
        }
        if place.sum.round > round {
            if local || frame[44] & RESEND == 0 {
                return self.gone(part.slot, Stale, &frame);
            }
            frame[44] |= if own.marked { MARKED } else { 0 };
            return self.forward(part.slot, Resent, port, frame);
        }
        if !place.missing.is_disjoint(&here) {
            return self.gone(part.slot, Duplicate, &frame);
        }
        let sum = place.sum.clone();
        if self.build.program == Program::SwitchMl {
            return self.repeat(part, total, port, frame, &sum);
        }
        if local {
            return self.gone(part.slot, Duplicate, &frame);
        }
        let mark = if own.marked { MARKED } else { 0 };
        frame[44] = RESEND | flags(&sum) | mark;
        write(&mut frame, part.upward, &sum.values, false);
        frame[RACK] = 0;
        self.forward(part.slot, Resent, port, frame)
    }

    /// Handles a packet whose values are in the cell, which may complete it.
    fn taken_in(
        &mut self,
        part: Part,
        (total, local): (u32, bool),
        port: u16,
        mut frame: Vec<u8>,
        otherwise: crate::lab::Outcome,
    ) -> Out {
        let copies = self.build.program == Program::P4inc;
        let place = self.places.get_mut(&key(&frame).1).expect("it was just there");
        if !place.missing.is_disjoint(&workers(part.members)) {
            return self.gone(part.slot, otherwise, &frame);
        }
        let sum = place.sum.clone();
        if local && copies {
            place.copy = Some(sum.clone());
        }
        frame[44] = flags(&sum);
        if !local {
            write(&mut frame, part.upward, &sum.values, false);
            frame[RACK] = 0;
            return self.forward(part.slot, Completed, port, frame);
        }
        write(&mut frame, total, &sum.values, false);
        frame[RACK] = 0;
        frame[43] = PARAMETER;
        let job = [frame[46], frame[47]];
        frame.copy_within(0..6, 6);
        frame[..6].copy_from_slice(&[0x01, 0x00, 0x5e, 0x54, job[0], job[1]]);
        frame.copy_within(30..34, 26);
        frame[30..34].copy_from_slice(&[0xef, 0x54, job[0], job[1]]);
        frame[24..26].fill(0);
        let checksum = internet_checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&checksum.to_be_bytes());
        self.count(part.slot, Completed, frame.len());
        self.publish(part.group, port, &frame)
    }

    /// A result: with values for its audience only.
    fn publish(&self, group: u16, port: u16, frame: &[u8]) -> Out {
        let (named, is_left_out) = (frame[AUDIENCE] & !ALL_BUT, frame[AUDIENCE] & ALL_BUT != 0);
        let ports = self.groups.get(&group).cloned().unwrap_or_default();
        let needs = |port: &u16| {
            let number = ports.iter().position(|other| other == port).map_or(0, |at| at + 1);
            frame[AUDIENCE] == 0 || (usize::from(named) == number) != is_left_out
        };
        let shorten = |(port, mut frame): (u16, Vec<u8>)| {
            if !needs(&port) {
                frame.drain(HEADERS..HEADERS + 4 * self.build.values);
                set_values(&mut frame, 0);
            }
            (port, frame)
        };
        self.multicast(group, port, frame).into_iter().map(shorten).collect()
    }

    fn repeat(
        &mut self,
        part: Part,
        total: u32,
        port: u16,
        mut frame: Vec<u8>,
        result: &Sum,
    ) -> Out {
        frame[43] = REPLY;
        frame[44] = flags(result) | if is_marked(&frame) { MARKED } else { 0 };
        write(&mut frame, total, &result.values, false);
        frame[RACK] = 0;
        turn_back(&mut frame);
        self.circuit = None;
        self.forward(part.slot, Repeated, port, frame)
    }

    fn of_server(&mut self, part: Part, service: Service, port: u16, mut frame: Vec<u8>) -> Out {
        if let Service::Aggregate(offset, size, _, total) = service {
            let ((_, round), cell, bitmap) = key(&frame);
            if bitmap != total {
                return self.gone(part.slot, Malformed, &frame);
            }
            if !(offset..offset + size).contains(&cell) {
                return self.gone(part.slot, Outside, &frame);
            }
            let result = Sum {
                round,
                values: self.values(&frame),
                marked: is_marked(&frame),
                overflowed: frame[44] & OVERFLOW != 0,
            };
            if self.places.get(&cell).is_none_or(|place| place.sum.round <= round) {
                let (sum, copy) = (result.clone(), Some(result));
                self.places.insert(cell, Place { sum, missing: BTreeSet::new(), copy });
            }
            if frame[43] == REPLY && is_marked(&frame) {
                frame[44] |= MARKED;
            }
        }
        if frame[43] == PARAMETER {
            self.count(part.slot, Distributed, frame.len());
            return self.multicast(part.group, port, &frame);
        }
        self.forward(part.slot, Replied, port, frame)
    }

    /// A sweep of the controller from a cell on: the last cell and the number of unfinished rounds,
    /// if the cell is in a segment.
    pub(crate) fn sweep_segment(&mut self, frame: &[u8]) -> Option<(u32, u32)> {
        let from = word(frame, INDEX);
        let Some(Service::Aggregate(offset, size, ..)) = self.service(frame) else {
            self.count(NO_JOB, Rejected, frame.len());
            return None;
        };
        if !(offset..offset + size).contains(&from) {
            self.count(NO_JOB, Outside, frame.len());
            return None;
        }
        let mut unfinished = 0;
        for cell in from..offset + size {
            self.count(NO_JOB, Swept, HEADERS);
            let place = self.places.remove(&cell);
            unfinished += u32::from(place.is_some_and(|place| !place.missing.is_empty()));
        }
        Some((offset + size, unfinished))
    }
}

/// Changes the number of values, the lengths, and the checksum over those.
fn set_values(frame: &mut [u8], values: usize) {
    let datagram = 36 + 4 * values as u16;
    frame[48..50].copy_from_slice(&(values as u16).to_be_bytes());
    frame[38..40].copy_from_slice(&datagram.to_be_bytes());
    frame[16..18].copy_from_slice(&(20 + datagram).to_be_bytes());
    frame[24..26].fill(0);
    let checksum = internet_checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
}

/// Exchanging addresses does not change the header's checksum.
fn turn_back(frame: &mut [u8]) {
    let (to, from) = frame[..12].split_at_mut(6);
    to.swap_with_slice(from);
    let (from, to) = frame[26..34].split_at_mut(4);
    from.swap_with_slice(to);
}
