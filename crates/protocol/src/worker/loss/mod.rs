//! Loss detection and retransmission.
//!
//! | file | rule | source |
//! | --- | --- | --- |
//! | `rack` | later packets were answered; probes when no results arrive | RFC 8985 (RACK-TLP), RFC 9002 |
//! | `papers` | three later results; one timeout for the worker | ATP §3.5, ESA §5.3, RFC 6298 |
//! | `times` | quantiles of the time to a result | |
//!
//! # What a worker can know
//!
//! A result needs a packet of every worker. A worker that lacks one cannot know whether its own
//! packet, another worker's packet or the result was lost; in every protocol it learns that only
//! with the result. A query of the PS tells that its own packet is missing, and is answered at
//! once. A worker can also know when *no* worker's packet can still be in flight: when a fragment
//! that all workers sent later is complete. It therefore resends the fragments that such a result
//! shows to be late, although another worker's packet may have been lost: the switch or the PS
//! drops duplicates. While no results arrive at all, another worker is late or the network is down,
//! and it sends only occasional probes.
//!
//! Timers are lazy: a result does not reset them. When one fires, it checks the outstanding
//! fragments, and is set again if none is due.

mod papers;
mod rack;
mod times;

use std::time::Duration;

use tributary_wire::Protocol;

use super::fragments::{Answered, Fragments};
use super::{Event, Timer, Worker};
use crate::{JobConfig, Recovery, Time, Timing};
use papers::Papers;
use rack::Rack;

/// The losses detected so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    /// Number of fragments to send at once.
    pub(super) count: u64,
    /// The lowest of these fragments.
    pub(super) lowest: Option<u32>,
    /// Whether the rules exclude congestion as the cause. Otherwise the controller decides.
    pub(super) harmless: bool,
    /// When to check again, even if no further result arrives.
    pub(super) again: Option<Time>,
    /// When the timeout is due, if that is earlier than before.
    pub(super) timeout: Option<Time>,
}

/// The outcome of a timeout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expiry {
    /// Whether a fragment was due.
    pub(super) expired: bool,
    /// Whether the timeout indicates congestion.
    pub(super) congestion: bool,
    /// When the timeout is next due.
    pub(super) next: Time,
}

/// The loss detection rules in use.
#[derive(Clone, Debug)]
pub(super) enum Rules {
    Rack(Box<Rack>),
    Papers(Papers),
}

impl Rules {
    pub(super) fn new(timing: &Timing, job: &JobConfig) -> Self {
        match timing.recovery {
            Recovery::Rack => {
                let rack = match job.protocol {
                    Protocol::Esa => Rack::of_esa(timing.rtt),
                    _ => Rack::new(timing.rtt),
                };
                Self::Rack(Box::new(rack))
            }
            Recovery::Papers => {
                let halve = timing.readings.later_results.halve(job.protocol);
                Self::Papers(Papers::new(timing.rtt, job.slots, halve))
            }
        }
    }

    /// The typical time from sending a fragment to its result.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        match self {
            Self::Rack(rack) => rack.round_trip(),
            Self::Papers(papers) => papers.round_trip(),
        }
    }

    /// The shortest time from sending a fragment to its result.
    pub(super) fn least(&self) -> Option<Duration> {
        match self {
            Self::Rack(rack) => rack.least(),
            Self::Papers(_) => None,
        }
    }

    /// The timeout while no result arrives.
    pub(super) fn timeout(&self) -> Duration {
        match self {
            Self::Rack(rack) => rack.timeout(),
            Self::Papers(papers) => papers.timeout(),
        }
    }

    /// A fragment was sent. `first` is true if it is the first transmission of this fragment in its
    /// slot.
    pub(super) fn on_sent(&mut self, fragment: u32, first: bool) {
        match self {
            Self::Rack(_) => {}
            Self::Papers(papers) => papers.on_sent(fragment, first),
        }
    }

    /// A result arrived.
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

    /// The timeout fired. The last result, or the first packet after an idle period, was at `progress`.
    /// At least one fragment is outstanding.
    fn on_timeout(&mut self, fragments: &mut Fragments, now: Time, progress: Time) -> Expiry {
        match self {
            Self::Rack(rack) => rack.on_timeout(fragments, now, progress),
            Self::Papers(papers) => papers.on_timeout(fragments, now),
        }
    }

    /// The next fragment to resend because of a timeout, within the allowance.
    pub(super) fn next_suspect(&mut self, fragments: &Fragments) -> Option<u32> {
        match self {
            Self::Rack(_) => None,
            Self::Papers(papers) => papers.next_suspect(fragments),
        }
    }
}

impl Worker {
    /// Handles the effects of losses other than resending.
    pub(super) fn on_losses(&mut self, losses: &Losses) {
        self.stats.fast_resends += losses.count;
        if let Some(lowest) = losses.lowest.filter(|_| !losses.harmless) {
            self.controller.on_loss(self.sequence(lowest), self.next_sequence());
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

    pub(super) fn on_resend_timer(&mut self, now: Time) {
        if self.fragments.nothing_outstanding() {
            return;
        }
        let expiry = self.rules.on_timeout(&mut self.fragments, now, self.progress);
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
