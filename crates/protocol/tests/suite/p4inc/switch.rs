//! A model of the switches for P4INC and SwitchML, rule by rule as specified in the design (A to
//! E). It was written independently of the programs, which are P4 and are tested elsewhere. A
//! [`Flaw`] breaks one rule, to show that the tests detect it.

use tributary_wire::agg::{Packet, Repr};
use tributary_wire::{
    Bitmap, Ecn, Envelope, Flags, Kind, Protocol, Segment, Service, emit_frame, values,
};

/// A rule that a faulty switch breaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flaw {
    /// No copy of the result is kept, so a late gradient gets no answer.
    NoCopy,
    /// The copy is discarded when the cell's next round begins, not when it completes.
    CopyEndsEarly,
    /// The next round is summed in the memory of the copy.
    CopyIsOverwritten,
    /// A contribution is added each time that it arrives.
    CountsTwice,
    /// A round older than the cell's starts again.
    TakesOldRounds,
    /// A unit's partial sum is treated as the result.
    PartialIsFinal,
    /// The overflow flag of a contribution is lost.
    ForgetsOverflow,
    /// There are half as many cells as the workers assume, so that two fragments of a window share
    /// one, as with a window of twice the segment.
    HalfTheCells,
}

/// The controller's entries for the job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entries {
    pub(crate) service: Service,
    pub(crate) segment: Segment,
    pub(crate) everyone: Bitmap,
    /// The workers below this switch.
    pub(crate) members: Bitmap,
}

#[derive(Clone, Debug, Default)]
struct Sum {
    values: Vec<i32>,
    flags: Flags,
}

impl Sum {
    fn add(&mut self, packet: &Packet<&[u8]>, flags: Flags) {
        for (sum, value) in self.values.iter_mut().zip(packet.values_i32()) {
            *sum = sum.wrapping_add(value);
        }
        self.flags |= flags;
    }
}

#[derive(Clone, Debug, Default)]
struct Cell {
    /// The current round plus one.
    round: u32,
    /// Workers of the whole job whose values are not in the result yet.
    remaining: Bitmap,
    sum: Sum,
    /// The round of the copied result, plus one.
    copied: u32,
    copy: Sum,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) absorbed: u64,
    pub(crate) added: u64,
    pub(crate) completed: u64,
    pub(crate) duplicate: u64,
    pub(crate) repeated: u64,
    pub(crate) resent: u64,
    pub(crate) stale: u64,
    pub(crate) asynchronous: u64,
    pub(crate) bypassed: u64,
    pub(crate) handed_over: u64,
    pub(crate) outside: u64,
    pub(crate) rejected: u64,
}

/// An outgoing frame.
pub(crate) enum Out {
    /// To the PS.
    Up(Vec<u8>),
    /// To all workers below.
    Group(Vec<u8>),
    /// To one worker.
    To(u8, Vec<u8>),
}

pub(crate) struct ModelSwitch {
    protocol: Protocol,
    flaw: Option<Flaw>,
    pub(crate) entries: Entries,
    cells: Vec<Cell>,
    pub(crate) counters: Counters,
}

const MARKS: u8 = Flags::ECN.bits() | Flags::OVERFLOW.bits();

fn frame(envelope: Envelope, repr: Repr, words: &[i32]) -> Vec<u8> {
    let mut frame = Vec::new();
    values::write_i32(emit_frame(&mut frame, &envelope, &repr), words);
    frame
}

impl ModelSwitch {
    pub(crate) fn new(protocol: Protocol, flaw: Option<Flaw>, pool: u32, entries: Entries) -> Self {
        let cells = vec![Cell::default(); pool as usize];
        Self { protocol, flaw, entries, cells, counters: Counters::default() }
    }

    /// The controller moves the job to another service with an empty segment.
    pub(crate) fn reassign(&mut self, entries: Entries) {
        self.entries = entries;
        self.cells.fill(Cell::default());
    }

    fn is_local(&self) -> bool {
        self.entries.members == self.entries.everyone
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// A packet from a worker below.
    pub(crate) fn worker_sent(
        &mut self,
        unit: u8,
        packet: &Packet<&[u8]>,
        mark: bool,
    ) -> Option<Out> {
        let repr = *packet.repr();
        let gradient = repr.protocol == self.protocol && repr.kind == Kind::Gradient;
        if !gradient || repr.service() != self.entries.service {
            self.counters.rejected += 1;
            return None;
        }
        if !repr.service().is_aggregated() {
            return Some(Out::Up(self.as_it_is(packet, repr.flags, mark)));
        }
        if repr.flags.contains(Flags::RESULT) {
            self.counters.handed_over += 1;
            return Some(Out::Up(self.as_it_is(packet, repr.flags, mark)));
        }
        if !self.entries.segment.contains(repr.index) {
            self.counters.outside += 1;
            return None;
        }
        if repr.bitmap != Bitmap::of(unit) {
            self.counters.rejected += 1;
            return None;
        }
        if !self.is_local() && self.entries.members == Bitmap::of(unit) {
            self.counters.bypassed += 1;
            return Some(Out::Up(self.as_it_is(packet, repr.flags, mark)));
        }
        self.gradient(unit, packet, mark)
    }

    /// A packet from the PS, as it arrives at this switch.
    pub(crate) fn server_sent(&mut self, packet: &Packet<&[u8]>, mark: bool) -> Option<Out> {
        let repr = *packet.repr();
        if repr.service() != self.entries.service {
            self.counters.rejected += 1;
            return None;
        }
        let to = packet.envelope().destination.mac.0[5];
        let out = self.as_it_is(packet, repr.flags, mark);
        match repr.kind {
            Kind::Parameter | Kind::Reply => {
                if repr.service().is_aggregated() {
                    let round = repr.sequence.0 + 1;
                    let cell = &mut self.cells[repr.index.0 as usize];
                    if round >= cell.round {
                        cell.round = round;
                        cell.remaining = Bitmap::EMPTY;
                        cell.copied = round;
                        cell.copy =
                            Sum { values: packet.values_i32().collect(), flags: repr.flags };
                    }
                }
                match repr.kind {
                    Kind::Parameter => Some(Out::Group(out)),
                    _ => Some(Out::To(to, out)),
                }
            }
            Kind::Query => Some(Out::To(to, out)),
            _ => None,
        }
    }

    #[expect(clippy::too_many_lines, reason = "one packet's way")]
    fn gradient(&mut self, unit: u8, packet: &Packet<&[u8]>, mark: bool) -> Option<Out> {
        let Entries { everyone, members, segment, .. } = self.entries;
        let local = self.is_local();
        let repr = *packet.repr();
        let own = Bitmap::of(unit);
        let round = repr.sequence.0 + 1;
        let mut flags = Flags::from_bits(repr.flags.bits() & MARKS).unwrap();
        if packet.is_marked() || mark {
            flags |= Flags::ECN;
        }
        if self.has(Flaw::ForgetsOverflow) {
            flags = flags.without(Flags::OVERFLOW);
        }
        let mut at = repr.index.0 as usize;
        if self.has(Flaw::HalfTheCells) {
            at = (segment.offset.0 + (repr.index.0 - segment.offset.0) % segment.size.div_ceil(2))
                as usize;
        }
        let flaw = self.flaw;
        let cell = &mut self.cells[at];
        let idle = cell.remaining.is_empty();
        if (round > cell.round || round < cell.round && flaw == Some(Flaw::TakesOldRounds)) && idle
        {
            // A: a new task.
            cell.round = round;
            cell.remaining = everyone;
            let zeros = vec![0; usize::from(repr.values)];
            cell.sum = Sum { values: zeros, flags: Flags::NONE };
            match flaw {
                Some(Flaw::CopyEndsEarly) => cell.copied = 0,
                Some(Flaw::CopyIsOverwritten) => cell.copy.values.fill(0),
                _ => {}
            }
            self.counters.absorbed += 1;
        } else if round > cell.round {
            // E: the cell is busy.
            self.counters.asynchronous += 1;
            if self.protocol == Protocol::SwitchMl {
                return None;
            }
            let repr = Repr { kind: Kind::Asynchronous, flags: repr.flags | Flags::ECN, ..repr };
            let words: Vec<i32> = packet.values_i32().collect();
            return Some(Out::To(unit, frame(turned(packet), repr, &words)));
        } else if round < cell.round {
            // D: an old round.
            if cell.copied == round && self.protocol == Protocol::P4inc {
                return self.answer(unit, packet, at);
            }
            if !local && repr.flags.contains(Flags::RESEND) {
                self.counters.resent += 1;
                return Some(Out::Up(self.as_it_is(packet, repr.flags, mark)));
            }
            self.counters.stale += 1;
            return None;
        } else if !own.is_subset(cell.remaining) && flaw != Some(Flaw::CountsTwice) {
            // C: already added.
            if idle {
                return self.answer(unit, packet, at);
            }
            if !(cell.remaining & members).is_empty() {
                self.counters.duplicate += 1;
                return None;
            }
            self.counters.resent += 1;
            let sum = cell.sum.clone();
            return Some(Out::Up(part(packet, members, Flags::RESEND, &sum)));
        } else {
            self.counters.added += 1;
        }
        // B, and the end of A: add, and test whether the sum is complete.
        let cell = &mut self.cells[at];
        if flaw == Some(Flaw::CopyIsOverwritten) {
            cell.copy.add(packet, Flags::NONE);
        }
        cell.sum.add(packet, flags);
        cell.remaining = cell.remaining.without(own);
        if !(cell.remaining & members).is_empty() {
            return None;
        }
        self.counters.completed += 1;
        let sum = cell.sum.clone();
        if local {
            cell.copied = round;
            cell.copy = sum.clone();
            let repr = Repr { kind: Kind::Parameter, flags: sum.flags, bitmap: everyone, ..repr };
            return Some(Out::Group(frame(packet.envelope(), repr, &sum.values)));
        }
        if flaw == Some(Flaw::PartialIsFinal) {
            cell.remaining = Bitmap::EMPTY;
            cell.copied = round;
            cell.copy = sum.clone();
        }
        Some(Out::Up(part(packet, members, Flags::NONE, &sum)))
    }

    /// Answers a worker that missed a result from the cell that keeps it.
    fn answer(&mut self, unit: u8, packet: &Packet<&[u8]>, at: usize) -> Option<Out> {
        if self.has(Flaw::NoCopy) {
            return None;
        }
        self.counters.repeated += 1;
        let cell = &self.cells[at];
        let kept = if self.protocol == Protocol::SwitchMl { &cell.sum } else { &cell.copy };
        let bitmap = self.entries.everyone;
        let repr = Repr { kind: Kind::Reply, flags: kept.flags, bitmap, ..*packet.repr() };
        Some(Out::To(unit, frame(turned(packet), repr, &kept.values)))
    }

    fn as_it_is(&self, packet: &Packet<&[u8]>, flags: Flags, mark: bool) -> Vec<u8> {
        let mut envelope = packet.envelope();
        if mark {
            envelope.ecn = Ecn::CongestionExperienced;
        }
        let words: Vec<i32> = packet.values_i32().collect();
        frame(envelope, Repr { flags, ..*packet.repr() }, &words)
    }
}

/// A unit's sum, addressed to the PS.
fn part(packet: &Packet<&[u8]>, members: Bitmap, flags: Flags, sum: &Sum) -> Vec<u8> {
    let repr = Repr { flags: sum.flags | flags, bitmap: members, ..*packet.repr() };
    frame(packet.envelope(), repr, &sum.values)
}

/// Returns the packet to its sender.
fn turned(packet: &Packet<&[u8]>) -> Envelope {
    let envelope = packet.envelope();
    Envelope { source: envelope.destination, destination: envelope.source, ..envelope }
}
