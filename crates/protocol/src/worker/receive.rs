//! Results, queries and returned packets.

use tributary_wire::agg::{Packet, Repair, Repaired};
use tributary_wire::{Bitmap, Flags, Kind, Protocol, Rack, Round, Sequence};

use super::codec::{Form, KindMismatch};
use super::fragments::Answered;
use super::fragments::RoundState;
use super::results::Kept;
use super::{Failure, Worker};
use crate::numbering::Numbering;
use crate::{Mode, Time};

/// How a fragment became complete.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completion {
    /// Whether the result has the collision flag.
    pub(super) collided: bool,
    /// Whether the result has a congestion mark.
    pub(super) marked: bool,
    /// Whether the result came over ESA's reliable channel.
    pub(super) delivered: bool,
}

impl Worker {
    pub(super) fn receive(&mut self, now: Time, packet: &Packet<&[u8]>) {
        let rejected = &mut self.stats.rejected;
        let job = &self.config.job;
        if packet.job() != job.job {
            rejected.other_job += 1;
            return;
        }
        if packet.epoch() != job.epoch {
            rejected.other_run += 1;
            return;
        }
        if packet.protocol() != job.protocol {
            rejected.other_protocol += 1;
            return;
        }
        if job.protocol.has_services() && packet.service() != job.assignment.service {
            rejected.other_service += 1;
            return;
        }
        match (packet.kind(), job.protocol, job.assignment.mode) {
            (Kind::Parameter, Protocol::Esa, _) if packet.flags().contains(Flags::REPAIR) => {
                match packet.repr().repair() {
                    Some(Repair { what: Repaired::Question, float }) => {
                        self.on_query(packet, float, true);
                    }
                    Some(Repair { what: Repaired::Farewell, .. }) => self.on_farewell(now, packet),
                    _ => rejected.wrong_kind += 1,
                }
            }
            (Kind::Parameter, ..) => self.on_result(now, packet),
            (Kind::Reply, Protocol::Atp | Protocol::P4inc | Protocol::SwitchMl, _) => {
                self.on_result(now, packet);
            }
            (Kind::Query, Protocol::Atp, _)
            | (Kind::Query, Protocol::P4inc, Mode::Partial | Mode::Forwarded) => {
                let flags = packet.flags();
                let float = flags.contains(Flags::OVERFLOW) && job.protocol == Protocol::Atp;
                self.on_query(packet, float, flags.contains(Flags::HAND_OVER));
            }
            (Kind::Asynchronous, Protocol::P4inc, Mode::Local | Mode::Partial) => {
                self.on_asynchronous(packet);
            }
            _ => rejected.wrong_kind += 1,
        }
    }

    fn on_result(&mut self, now: Time, packet: &Packet<&[u8]>) {
        let round = self.numbering.round(packet.sequence());
        let workers = (Rack::NONE, self.config.job.whole());
        if packet.values() == 0 {
            // For those who do not need them, there may be no values.
            if !self.names(packet, workers) || !self.is_due(round) {
                return;
            }
            if self.tensors.role(round.fragment).takes {
                self.stats.rejected.wrong_values += 1;
                return;
            }
        } else if !self.has_shape(packet, workers) || !self.is_due(round) {
            return;
        }
        if !self.fragments.agree(round.fragment, packet.index(), packet.priority()) {
            self.stats.rejected.wrong_index += 1;
            return;
        }
        let flags = packet.flags();
        let overflow = flags.contains(Flags::OVERFLOW);
        let taken = match self.numbering {
            Numbering::Rounds if overflow => self.climb(now, round, packet),
            _ => {
                let rung = round.rung;
                let form = if overflow { Form::Float } else { Form::Fixed { rung } };
                let taken = self.take_result(round.fragment, form, packet.payload());
                if taken {
                    let collided = flags.contains(Flags::COLLISION);
                    self.stats.collisions += u64::from(collided);
                    let how = Completion { collided, marked: packet.is_marked(), delivered: false };
                    self.complete(now, round.fragment, how);
                }
                taken
            }
        };
        self.stats.replies += u64::from(taken && packet.kind() == Kind::Reply);
    }

    /// All workers have said farewell.
    fn on_farewell(&mut self, now: Time, packet: &Packet<&[u8]>) {
        if self.has_shape(packet, (Rack::NONE, self.config.job.whole())) {
            self.dismiss(now, false);
        }
    }

    /// Whether a packet has V values and names these workers.
    fn has_shape(&mut self, packet: &Packet<&[u8]>, workers: (Rack, Bitmap)) -> bool {
        let rejected = &mut self.stats.rejected;
        if packet.values() != self.config.job.values_per_packet {
            rejected.wrong_values += 1;
            return false;
        }
        self.names(packet, workers)
    }

    /// Whether a packet names these workers.
    fn names(&mut self, packet: &Packet<&[u8]>, workers: (Rack, Bitmap)) -> bool {
        let names = (packet.rack(), packet.bitmap()) == workers;
        self.stats.rejected.wrong_bitmap += u64::from(!names);
        names
    }

    /// Whether a round is in flight. If not, counts its result as dropped.
    pub(super) fn is_due(&mut self, round: Round) -> bool {
        match self.fragments.state(round) {
            RoundState::Due => return true,
            RoundState::Over => self.stats.duplicates += 1,
            RoundState::Unsent => self.stats.unsent += 1,
        }
        false
    }

    /// Stores the result of a due fragment. Returns false if the worker failed.
    pub(super) fn take_result(&mut self, fragment: u32, form: Form, payload: &[u8]) -> bool {
        match self.tensors.store(fragment, form, payload) {
            Ok(rounding) => self.stats.rounding += rounding,
            Err(KindMismatch) => {
                let sequence = self.sequence(fragment);
                self.fail(Failure::KindMismatch { sequence });
                return false;
            }
        }
        let float = form == Form::Float;
        self.keep(fragment, float, payload);
        self.stats.results += 1;
        self.stats.overflow_results += u64::from(float);
        true
    }

    /// Keeps the result of a fragment's current round for a PS that lacks it.
    fn keep(&mut self, fragment: u32, overflow: bool, payload: &[u8]) {
        let kept = Kept { sequence: self.sequence(fragment), overflow };
        let wanted = self.has_server() || self.channel.is_some();
        if let Some(handover) = self.handover.as_mut().filter(|_| wanted) {
            handover.results.keep(fragment, kept, payload);
        }
    }

    /// A result was stored, so the fragment is complete.
    pub(super) fn complete(&mut self, now: Time, fragment: u32, how: Completion) {
        let sequence = self.sequence(fragment);
        let answered = self.fragments.done(fragment, how.collided);
        self.note_result(now, fragment, answered.resent, how.delivered);
        self.heard(now, fragment, sequence, &answered, how.marked);
        if let Some(room) = &mut self.room {
            room.on_result(now, self.rules.least());
            self.controller.limit(room.window());
        }
        self.deliver();
        if self.is_idle() {
            self.note_idle(now);
        }
    }

    /// A round's result has the overflow flag: some worker's values do not fit its rung. All
    /// workers send the fragment again at the next rung. Returns false if there is no such rung and
    /// the worker failed.
    fn climb(&mut self, now: Time, round: Round, packet: &Packet<&[u8]>) -> bool {
        let sequence = round.sequence();
        if self.tensors.is_integer(round.fragment) {
            self.fail(Failure::KindMismatch { sequence });
            return false;
        }
        if round.coarser().is_none() {
            self.fail(Failure::OffLadder { sequence });
            return false;
        }
        self.stats.coarser += 1;
        self.keep(round.fragment, true, packet.payload());
        let answered = self.fragments.coarser(now, round.fragment);
        self.heard(now, round.fragment, sequence, &answered, packet.is_marked());
        true
    }

    /// Processes what a result tells about the network.
    fn heard(
        &mut self,
        now: Time,
        fragment: u32,
        sequence: Sequence,
        answered: &Answered,
        marked: bool,
    ) {
        if marked {
            self.stats.marked += 1;
            self.controller.on_mark(sequence, self.next_sequence());
        } else {
            self.controller.on_result();
        }
        if !answered.resent {
            self.round_trips.add(now - answered.sent);
        }
        let losses = self.rules.on_result(&mut self.fragments, now, fragment, answered);
        self.on_losses(&losses);
        self.progress = now;
    }

    /// The PS queries a fragment, possibly as floats, or its result.
    fn on_query(&mut self, packet: &Packet<&[u8]>, float: bool, hand_over: bool) {
        let (rack, own) = self.name;
        if packet.rack() != rack || packet.bitmap().is_disjoint(own) {
            // A question of ESA is multicast, but only addresses some workers.
            let strays = &mut self.stats.rejected.wrong_bitmap;
            *strays += u64::from(packet.kind() == Kind::Query);
            return;
        }
        // The named aggregator may be that of a result which this worker has not received yet.
        let round = self.numbering.round(packet.sequence());
        let answered =
            self.fragments.ask(round, float) || hand_over && self.hand_over_result(round);
        if answered {
            self.stats.queries += 1;
        } else {
            self.stats.stale_queries += 1;
        }
    }

    /// The switch returned a packet of this worker, which arrived before the aggregator had
    /// completed an earlier round (P4INC-AOI §VI.B, error control). That indicates congestion: the
    /// window is too large for the job's aggregators.
    fn on_asynchronous(&mut self, packet: &Packet<&[u8]>) {
        let round = self.numbering.round(packet.sequence());
        if !self.has_shape(packet, self.name) || !self.is_due(round) {
            return;
        }
        if packet.index() != self.fragments.index(round.fragment) {
            self.stats.rejected.wrong_index += 1;
            return;
        }
        self.stats.asynchronous += 1;
        self.fragments.turned_back(round.fragment);
        self.controller.on_congestion(round.sequence(), self.next_sequence());
    }
}
