//! The rules of the papers: three later results, or a timeout (ATP §3.5, ESA §5.3).
//!
//! - A fragment is resent at once when three later fragments have received results since its
//!   transmission, at most once between two timeouts.
//! - There is one timeout for the whole worker (RFC 6298), doubled each time that it fires. It
//!   resends only the lowest of the timed-out fragments. Every result of a resent fragment releases
//!   two more. So the number of round trips that repair a burst of losses is logarithmic in the
//!   size of the burst.
//! - A timeout halves the window. Three later results do so in P4INC and SwitchML, but not in ATP and
//!   ESA: there, results of tasks that a switch has completed overtake those of tasks that the server
//!   has to complete, without any loss. They make the worker resend the fragment (ATP) or remind the
//!   agent (ESA), but do not indicate congestion. [`LaterResults`](crate::LaterResults) selects
//!   another rule.

use std::time::Duration;

use super::{Expiry, Losses};
use crate::Time;
use crate::bits::SlotSet;
use crate::rtt::{RttConfig, RttEstimator};
use crate::worker::fragments::{Answered, Fragments};

/// Number of later results after which a fragment is lost (ESA §5.3, case 1).
const LATER_RESULTS: u8 = 3;

#[derive(Clone, Debug)]
pub(crate) struct Papers {
    rtt: RttEstimator,
    /// Per slot: results of later fragments since the last transmission of the slot's fragment.
    later: Box<[u8]>,
    /// Fragments that were resent because of later results since the last timeout.
    fast: SlotSet,
    /// Fragments that timed out.
    suspect: SlotSet,
    /// How many of these fragments may be sent before the next timeout.
    allowance: u32,
    /// Whether three later results indicate congestion.
    later_results_halve: bool,
}

impl Papers {
    pub(super) fn new(rtt: RttConfig, slots: u32, later_results_halve: bool) -> Self {
        Self {
            rtt: RttEstimator::new(rtt),
            later: vec![0; slots as usize].into(),
            fast: SlotSet::new(slots),
            suspect: SlotSet::new(slots),
            allowance: 0,
            later_results_halve,
        }
    }

    pub(super) fn round_trip(&self) -> Option<Duration> {
        self.rtt.smoothed()
    }

    pub(super) fn timeout(&self) -> Duration {
        self.rtt.timeout()
    }

    pub(super) fn on_sent(&mut self, fragment: u32, first: bool) {
        let slot = self.slot(fragment);
        self.later[slot] = 0;
        self.suspect.remove(fragment);
        if first {
            self.fast.remove(fragment);
        }
    }

    pub(super) fn on_result(
        &mut self,
        fragments: &mut Fragments,
        now: Time,
        fragment: u32,
        answered: &Answered,
    ) -> Losses {
        self.suspect.remove(fragment);
        if answered.resent {
            self.rtt.progress();
            self.allowance = self.allowance.saturating_add(2);
        } else {
            self.rtt.sample(now - answered.sent);
        }
        let mut losses = Losses { harmless: !self.later_results_halve, ..Losses::default() };
        // Results in order leave this loop without iterations.
        let mut from = fragments.base();
        while let Some(earlier) = fragments.next_sent(from, fragment) {
            from = earlier + 1;
            let slot = self.slot(earlier);
            self.later[slot] = self.later[slot].saturating_add(1);
            if self.later[slot] >= LATER_RESULTS && !self.fast.contains(earlier) {
                self.fast.insert(earlier);
                fragments.lose(earlier);
                losses.count += 1;
                losses.lowest.get_or_insert(earlier);
            }
        }
        losses
    }

    pub(super) fn on_timeout(&mut self, fragments: &mut Fragments, now: Time) -> Expiry {
        let timeout = self.rtt.timeout();
        let oldest = fragments.oldest().unwrap_or(now);
        if oldest + timeout > now {
            return Expiry { expired: false, congestion: false, next: oldest + timeout };
        }
        let mut from = fragments.base();
        while let Some(fragment) = fragments.next_outstanding(from) {
            from = fragment + 1;
            self.fast.remove(fragment);
            if fragments.sent_at(fragment) + timeout <= now {
                self.suspect.insert(fragment);
            }
        }
        self.allowance = 1;
        self.rtt.back_off();
        Expiry { expired: true, congestion: true, next: now + self.rtt.timeout() }
    }

    /// The lowest fragment that timed out.
    pub(super) fn next_suspect(&mut self, fragments: &Fragments) -> Option<u32> {
        if self.allowance == 0 {
            return None;
        }
        let fragment = self.suspect.next(fragments.base(), fragments.next())?;
        self.allowance -= 1;
        Some(fragment)
    }

    fn slot(&self, fragment: u32) -> usize {
        fragment as usize & (self.later.len() - 1)
    }
}
