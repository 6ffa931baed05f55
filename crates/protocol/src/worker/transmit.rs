//! Choosing and writing the next packet.

use tributary_wire::agg::{Repair, Repaired, Repr};
use tributary_wire::{Flags, Kind, Protocol, frame_len};

use super::codec::{Encoding, Form, KindMismatch};
use super::{Failure, Timer, Worker};
use crate::priority::Priority;
use crate::{Recovery, Time};

impl Worker {
    /// Sends in this order: results that a PS lacks, fragments to send at once, timed-out fragments
    /// within the allowance, and new fragments within the window.
    pub(super) fn transmit(&mut self, now: Time, frame: &mut Vec<u8>) -> bool {
        if self.failed.is_some() {
            return false;
        }
        if self.write_result(frame) {
            return true;
        }
        if self.only_reminds() {
            if let Some(fragment) = self.fragments.next_due_if(false) {
                return self.send(now, fragment, frame);
            }
        } else {
            if let Some(fragment) = self.fragments.next_due() {
                return self.send(now, fragment, frame);
            }
            if let Some(fragment) = self.rules.next_suspect(&self.fragments) {
                return self.send(now, fragment, frame);
            }
        }
        while self.may_send_new() {
            if self.fragments.nothing_outstanding() {
                self.note_begin(now);
            }
            let fragment = self.fragments.next();
            if !self.hand_over(now, fragment) {
                return self.send(now, fragment, frame);
            }
        }
        self.write_farewell(now, frame)
    }

    fn may_send_new(&self) -> bool {
        let next = self.fragments.next();
        // At least one, or no packet would ever be sent.
        let window = self.window().max(1);
        let used = match self.config.timing.recovery {
            // Count the fragments in flight. A fragment under repair delays others only through the
            // number of slots.
            Recovery::Rack => self.fragments.waiting(),
            Recovery::Papers => next - self.fragments.base(),
        };
        let crowded =
            self.room.as_ref().is_some_and(|room| next - self.fragments.base() >= room.span());
        next < self.tensors.end() && next < self.fragments.end() && used < window && !crowded
    }

    /// Writes the packet of an outstanding fragment or of the next new one. Returns false if the
    /// worker has failed.
    fn send(&mut self, now: Time, fragment: u32, frame: &mut Vec<u8>) -> bool {
        let sending = self.fragments.sending(fragment);
        let role = self.tensors.role(fragment);
        let mut repr = Repr {
            protocol: self.config.job.protocol,
            kind: Kind::Gradient,
            flags: if sending.again { Flags::RESEND } else { Flags::NONE },
            priority: self.priority(fragment),
            job: self.config.job.job,
            epoch: self.config.job.epoch,
            // No switch answers a packet without values, so one that is sent again has them.
            values: if role.gives || sending.repeated {
                self.config.job.values_per_packet
            } else {
                0
            },
            sequence: self.numbering.sequence(sending.round),
            bitmap: self.name.1,
            rack: self.name.0,
            audience: role.audience,
            index: sending.index,
        };
        if sending.repeated && self.channel.is_some() {
            repr.priority = Priority::LOWEST.get();
        }
        let repairs = sending.again && self.channel.is_some();
        let mark = |repr: &mut Repr, float: bool| {
            if repairs {
                repr.flags = Flags::REPAIR;
                repr.priority = Repair { what: Repaired::Contribution, float }.code();
            } else if float {
                repr.flags |= Flags::OVERFLOW;
            }
        };
        mark(&mut repr, sending.float);
        let form = match sending.float {
            true => Form::Float,
            false => Form::Fixed { rung: sending.round.rung },
        };
        let place = (fragment, role.gives);
        let encoding = match self.write(&repr, place, form, frame) {
            // I5: too large for integers. This is rare, so writing the packet twice is acceptable.
            Ok(Encoding::Float | Encoding::TooGreat) if !sending.float => {
                mark(&mut repr, true);
                self.write(&repr, place, form, frame)
            }
            other => other,
        };
        let Ok(encoding) = encoding else {
            self.fail(Failure::KindMismatch { sequence: repr.sequence });
            return false;
        };
        let overflow = sending.float || encoding != Encoding::Fixed;
        self.stats.sent += 1;
        self.stats.resent += u64::from(sending.again || sending.repeated);
        self.stats.overflow_packets += u64::from(overflow);
        self.note_sent(now, fragment, sending.again, encoding == Encoding::Float);
        if repairs {
            self.consider_reminding(now, fragment);
        }
        true
    }

    /// The header's byte for priority, service or salt.
    pub(super) fn priority(&self, fragment: u32) -> u8 {
        match self.config.job.protocol {
            Protocol::Atp => self.fragments.salt(fragment),
            Protocol::Esa => self.tensors.priority(fragment).get(),
            Protocol::P4inc | Protocol::SwitchMl => self.config.job.assignment.service.get(),
        }
    }

    /// Records that a fragment is in flight.
    pub(super) fn note_sent(&mut self, now: Time, fragment: u32, again: bool, float: bool) {
        let first = self.fragments.is_first(fragment);
        self.fragments.sent(now, fragment, again, float);
        self.rules.on_sent(fragment, first);
        if !self.timers.is_set(Timer::Resend) {
            self.timers.set(Timer::Resend, now + self.rules.timeout());
        }
        self.timers.set_if_unset(Timer::Stall, self.progress + self.config.timing.stall_timeout);
    }

    /// Inlined, so that the header's fields come from registers: read back from memory, where they have
    /// just been stored one by one, they wait for all stores before, a tenth of a worker's time.
    #[inline]
    fn write(
        &self,
        repr: &Repr,
        (fragment, gives): (u32, bool),
        form: Form,
        frame: &mut Vec<u8>,
    ) -> Result<Encoding, KindMismatch> {
        // The content of the last frame is overwritten, not cleared before.
        frame.resize(frame_len(repr.values), 0);
        let (headers, payload) = frame.split_first_chunk_mut().expect("it has all headers");
        *headers = if repr.values == 0 { self.headers_without_values } else { self.headers };
        repr.emit(headers.last_chunk_mut().expect("the aggregation header is the last"));
        if !gives {
            payload.fill(0);
            return Ok(Encoding::Fixed);
        }
        self.tensors.encode(fragment, form, payload)
    }
}
