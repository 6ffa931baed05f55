//! Timers, and what is taken for lost.
//!
//! Timers are lazy: a result does not touch them. One that fires looks at what is outstanding
//! then, and if nothing is due yet it is set again. So a packet costs nothing, and a timer that
//! finds nothing to do fires at most once a timeout.

use super::{Event, Timer, Worker};
use crate::Time;

impl Worker {
    pub(super) fn on_resend_timer(&mut self, now: Time) {
        let Some(oldest) = self.fragments.oldest() else {
            return;
        };
        let timeout = self.rtt.timeout();
        if oldest + timeout > now {
            self.timers.set(Timer::Resend, oldest + timeout);
            return;
        }
        self.stats.timeouts += 1;
        // `oldest` is at least a timeout ago, so `now` is no less than the timeout.
        let latest = Time::from_nanos(now.as_nanos().saturating_sub(timeout.as_nanos() as u64));
        self.fragments.suspect_sent_by(latest);
        self.allowance = 1;
        let std::ops::Range { start, end } = self.outstanding();
        self.controller.on_congestion(start, end);
        self.rtt.back_off();
        self.timers.set(Timer::Resend, now + self.rtt.timeout());
    }

    pub(super) fn on_stall_timer(&mut self, now: Time) {
        if self.fragments.nothing_outstanding() {
            return;
        }
        let timeout = self.config.timing.stall_timeout;
        let waited = now - self.progress;
        if waited < timeout {
            self.timers.set(Timer::Stall, self.progress + timeout);
            return;
        }
        let sequence = self.sequence(self.fragments.base());
        if self.stall_reported != Some(sequence) {
            self.stall_reported = Some(sequence);
            self.events.push_back(Event::Stalled { sequence, waited });
        }
        self.timers.set(Timer::Stall, now + timeout);
    }
}
