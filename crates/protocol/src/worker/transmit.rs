//! Which packet is next, and writing it.

use tributary_wire::agg::Repr;
use tributary_wire::{Flags, Kind, Sequence, emit_frame};

use super::tensors::{Encoding, KindMismatch};
use super::{Failure, Timer, Worker};
use crate::Time;

impl Worker {
    /// In this order: what is to be sent again at once, what timed out as far as the allowance goes,
    /// and new fragments as far as the window goes.
    pub(super) fn transmit(&mut self, now: Time, frame: &mut Vec<u8>) -> bool {
        if self.failed.is_some() {
            return false;
        }
        if self.channel.is_none() {
            if let Some(sequence) = self.fragments.next_due() {
                return self.send(now, sequence, frame);
            }
            if let Some(sequence) = self.take_suspect() {
                return self.send(now, sequence, frame);
            }
        }
        while self.may_send_new() {
            if self.fragments.nothing_outstanding() {
                self.progress = now;
            }
            let sequence = self.fragments.next();
            if !self.hand_over(now, sequence) {
                return self.send(now, sequence, frame);
            }
        }
        false
    }

    /// The lowest fragment that timed out, as far as the allowance goes.
    pub(super) fn take_suspect(&mut self) -> Option<u32> {
        if self.allowance == 0 {
            return None;
        }
        let sequence = self.fragments.next_suspect()?;
        self.allowance -= 1;
        Some(sequence)
    }

    fn may_send_new(&self) -> bool {
        let next = self.fragments.next();
        next < self.tensors.end()
            && next < self.fragments.end()
            // At least one, or nothing would ever be sent.
            && next - self.fragments.base() < self.controller.window().max(1)
    }

    /// Writes the packet of a fragment: an outstanding one, or the next new one. Returns whether it
    /// did; if not, the worker has failed.
    fn send(&mut self, now: Time, sequence: u32, frame: &mut Vec<u8>) -> bool {
        let sending = self.fragments.sending(sequence);
        let mut repr = Repr {
            protocol: self.config.job.protocol,
            kind: Kind::Gradient,
            flags: if sending.direct { Flags::RESEND } else { Flags::NONE },
            priority: match self.channel {
                Some(_) => self.tensors.priority(sequence).get(),
                None => 0,
            },
            job: self.config.job.job,
            values: self.config.job.values_per_packet,
            sequence: Sequence(sequence),
            bitmap: self.bit(),
            index: sending.index,
        };
        if sending.float {
            repr.flags |= Flags::OVERFLOW;
        }
        let encoding = match self.write(&repr, frame) {
            // I5: too great for integers. Rare, so the headers may be written twice.
            Ok(Encoding::Float) if !sending.float => {
                repr.flags |= Flags::OVERFLOW;
                self.write(&repr, frame)
            }
            other => other,
        };
        let Ok(encoding) = encoding else {
            let sequence = Sequence(sequence);
            self.fail(Failure::KindMismatch { sequence });
            return false;
        };
        let float = encoding == Encoding::Float;
        self.stats.sent += 1;
        self.stats.resent += u64::from(sending.direct);
        self.stats.overflow_packets += u64::from(float);
        self.fragments.sent(now, sequence, sending.direct, float);
        self.expect_result(now);
        true
    }

    /// A fragment is under way: its result is due some time.
    pub(super) fn expect_result(&mut self, now: Time) {
        self.timers.set_if_unset(Timer::Resend, now + self.rtt.timeout());
        self.timers.set_if_unset(Timer::Stall, self.progress + self.config.timing.stall_timeout);
    }

    fn write(&self, repr: &Repr, frame: &mut Vec<u8>) -> Result<Encoding, KindMismatch> {
        let float = repr.flags.contains(Flags::OVERFLOW);
        let payload = emit_frame(frame, &self.envelope(), repr);
        self.tensors.encode(repr.sequence.0, float, self.config.scale, self.limit, payload)
    }
}
