//! What is taken for lost, and when it is sent again.
//!
//! | file | rule | source |
//! | --- | --- | --- |
//! | `rack` | what was sent later was answered; a probe when nothing is | RFC 8985 (RACK-TLP), RFC 9002 |
//! | `papers` | three later results; one timeout for the worker | ATP §3.5, ESA §5.3, RFC 6298 |
//! | `order` | in which order fragments were sent | RFC 8985 §5.2 |
//! | `times` | how long results take: quantiles | |
//! | `lateness` | how late this process itself is | |
//!
//! # What a worker can know
//!
//! A result needs a packet of every worker. So a worker that lacks one cannot know whether its own
//! packet was lost, that of another, or the result; with all protocols it knows only once the result is
//! there. A query of the PS says that its own is missing, and is obeyed at once. What it does know is when
//! *nobody's* packets can be late: when a fragment that all of them sent later is complete. It
//! therefore resends what such a result makes late, although another worker's packet may have been lost:
//! the switch or the PS drops duplicates. While no results arrive at all, another worker is late or the network
//! is down, and it sends only occasional probes.
//!
//! Timers are lazy: a result does not touch them. One that fires looks at what is outstanding then, and if
//! nothing is due yet it is set again.

mod lateness;
mod order;
mod papers;
mod rack;
mod times;

use std::time::Duration;

use tributary_wire::Protocol;

use super::fragments::Fragments;
use super::{Event, Timer, Worker};
use crate::{JobConfig, Recovery, Time, Timing};
pub(super) use order::SendOrder;
use papers::Papers;
use rack::Rack;

/// The last sending of a fragment before its result came in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    pub(super) sent: Time,
    /// Its place among all sendings.
    pub(super) serial: u64,
    /// It was sent before that, so nobody knows which sending was answered (Karn's rule); or it went
    /// around the switch, which takes another time.
    pub(super) resent: bool,
}

/// What is lost, as far as is known now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    /// Fragments that are due to be sent at once.
    pub(super) count: u64,
    /// The lowest of them.
    pub(super) lowest: Option<u32>,
    /// Whether they say that the network is congested.
    pub(super) congestion: bool,
    /// When to look again, though no further result may come.
    pub(super) again: Option<Time>,
    /// When the timeout is due, if that is earlier than was known.
    pub(super) timeout: Option<Time>,
}

/// What the timeout came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expiry {
    /// Whether something was due.
    pub(super) expired: bool,
    /// Whether that says that the network is congested.
    pub(super) congestion: bool,
    /// When it is next due.
    pub(super) next: Time,
}

/// The rules that are in force.
#[derive(Clone, Debug)]
pub(super) enum Rules {
    Rack(Box<Rack>),
    Papers(Papers),
}

impl Rules {
    pub(super) fn new(timing: &Timing, job: &JobConfig) -> Self {
        match timing.recovery {
            Recovery::Rack => {
                // The PS of ESA has to ask another worker first.
                let detour = u32::from(job.protocol == Protocol::Esa);
                Self::Rack(Box::new(Rack::new(timing.rtt, detour)))
            }
            Recovery::Papers => Self::Papers(Papers::new(timing.rtt, job.slots)),
        }
    }

    /// The usual time from sending a fragment to its result.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        match self {
            Self::Rack(rack) => rack.round_trip(),
            Self::Papers(papers) => papers.round_trip(),
        }
    }

    /// How long to wait for a first result.
    pub(super) fn timeout(&self) -> Duration {
        match self {
            Self::Rack(rack) => rack.timeout(),
            Self::Papers(papers) => papers.timeout(),
        }
    }

    /// A fragment was sent, for the first time in its slot if `first`.
    pub(super) fn on_sent(&mut self, fragment: u32, first: bool) {
        match self {
            Self::Rack(_) => {}
            Self::Papers(papers) => papers.on_sent(fragment, first),
        }
    }

    /// A result came in.
    pub(super) fn on_result(
        &mut self,
        fragments: &mut Fragments,
        now: Time,
        fragment: u32,
        answered: &Answered,
    ) -> Losses {
        match self {
            Self::Rack(rack) => rack.on_result(fragments, now, fragment, answered),
            Self::Papers(papers) => papers.on_result(fragments, now, fragment, answered),
        }
    }

    /// The timeout fired, which was due `late` ago. The last result, or the first packet after an
    /// idle time, was at `progress`. Something is outstanding.
    fn on_timeout(
        &mut self,
        fragments: &mut Fragments,
        now: Time,
        late: Duration,
        progress: Time,
    ) -> Expiry {
        match self {
            Self::Rack(rack) => rack.on_timeout(fragments, now, late, progress),
            Self::Papers(papers) => papers.on_timeout(fragments, now),
        }
    }

    /// The next fragment to be sent again for want of results, as far as that is allowed.
    pub(super) fn next_suspect(&mut self, fragments: &Fragments) -> Option<u32> {
        match self {
            Self::Rack(_) => None,
            Self::Papers(papers) => papers.next_suspect(fragments),
        }
    }
}

impl Worker {
    /// Does what losses call for, besides sending again.
    pub(super) fn on_losses(&mut self, losses: &Losses) {
        self.stats.fast_resends += losses.count;
        if let Some(lowest) = losses.lowest.filter(|_| losses.congestion) {
            self.controller.on_congestion(self.sequence(lowest), self.next_sequence());
        }
        if let Some(again) = losses.again {
            self.timers.set(Timer::Reorder, again);
        }
        if let Some(timeout) = losses.timeout {
            self.timers.set(Timer::Resend, timeout);
        }
    }

    pub(super) fn on_reorder_timer(&mut self, now: Time) {
        if let Rules::Rack(rack) = &mut self.rules {
            let losses = rack.look(&mut self.fragments, now);
            self.on_losses(&losses);
        }
    }

    pub(super) fn on_resend_timer(&mut self, now: Time, due: Time) {
        if self.fragments.nothing_outstanding() {
            return;
        }
        let late = now - due;
        let expiry = self.rules.on_timeout(&mut self.fragments, now, late, self.progress);
        self.stats.timeouts += u64::from(expiry.expired);
        if expiry.congestion {
            let std::ops::Range { start, end } = self.outstanding();
            self.controller.on_congestion(start, end);
        }
        self.timers.set(Timer::Resend, expiry.next);
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
