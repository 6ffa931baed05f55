//! What was sent later and answered makes the rest late (RFC 8985, RACK-TLP; RFC 9002 §6).
//!
//! - *Each loss by itself.* Every sending has a number. Once one is answered, those with lower numbers
//!   that are older than its time to result are late, and after a reordering window they are lost: sent
//!   again at once, by and by as often as it takes. Neither how many are lost nor how often delays another.
//! - *The reordering window* starts at a quarter of the least round-trip time, as in RFC 8985 §6.2.
//!   It grows whenever a result comes sooner after a resend than any packet can travel, for then the first
//!   sending was late only, and it shrinks again while that does not happen.
//! - *Doubt.* Of a fragment that was sent more than once nobody knows which sending was answered. It makes
//!   others lost only if they stay away for another round trip; and only lower ones, which all
//!   workers sent before it: those above it some workers may not have sent at all.
//! - *Silence.* Nothing is lost for want of results alone: another worker may be slow. When none has come
//!   for three round trips, the lowest fragment and the highest are sent again, then with an
//!   interval that doubles up to sixteen times: the lowest because all others wait for it, the highest
//!   because its answer shows what else is lost. If that is of no avail for long, the interval grows on.
//! - *Patience.* A worker cannot tell another one's loss from its slowness, but networks differ: those
//!   that lose packets do so all the time. Every probe costs a credit, and every loss that is found earns
//!   one. Probes after which nothing comes that was sent once before them were needed, and eight of them
//!   are paid back. With credit, a round trip is the least that there was. Without, it is what
//!   results take usually; and silence has to last 32 times as long while more than a few fragments wait,
//!   unless a fragment above the lowest is complete: then all workers have sent the lowest, which waits
//!   for none of them but for a repair. So on a network without loss, slow workers cause next to no
//!   resends.
//! - *What results take* is a low quantile: some include the wait for other workers' repairs, and who waits
//!   for these makes them longer. The least is looked for over many thousands, for one worker may be ahead
//!   of another all that time.
//! - *The way around the switches* takes longer with ESA, as its PS first has to ask another worker.
//! - *Congestion.* A loss is a sign of it only if packets queue: if not one of the last results came
//!   within eight times the least round trip.

use std::time::Duration;

use super::lateness::Lateness;
use super::times::Times;
use super::{Answered, Expiry, Losses};
use crate::Time;
use crate::rtt::RttConfig;
use crate::worker::fragments::{Fragments, Sent, Walk};

/// The least time of silence before a probe: timers of a computer do not fire much more exactly.
const LEAST_SILENCE: Duration = Duration::from_micros(10);

/// Probes until the interval between them doubles, and how often it does then.
const STEADY: u32 = 2;
const BACK_OFF: u32 = 4;

/// Probes after which it doubles again, for something is down: up to the greatest timeout.
const DOWN: u32 = 64;

/// Round trips of silence before a probe, without patience.
const SILENT_ROUND_TRIPS: u32 = 3;

/// Fragments that may wait for results without any need for patience.
const FEW: u32 = 8;

/// How much longer it is without credit.
const PATIENCE: u32 = 32;

/// Probes that are paid back once they turn out to have been needed.
const PAID_BACK: u32 = 8;

/// Credit to begin with, and at most.
const CREDIT: [u32; 2] = [2, 32];

/// Times the least round trip that packets take when they queue as much as congestion makes them.
const QUEUED: u32 = 8;

/// Results without reordering after which the window shrinks by a step.
const CALM: u32 = 256;

/// Steps of a quarter of the least round-trip time that the reordering window has at most.
const STEPS: u32 = 8;

/// A sending that was answered.
#[derive(Clone, Copy, Debug)]
struct Mark {
    fragment: u32,
    serial: u64,
    round_trip: Duration,
    /// When it was answered.
    at: Time,
}

#[derive(Clone, Debug)]
pub(crate) struct Rack {
    bounds: RttConfig,
    times: Times,
    lateness: Lateness,
    /// The last sending that was answered of a fragment that was sent once, and of one that was
    /// sent more often.
    sure: Option<Mark>,
    doubtful: Option<Mark>,
    /// The reordering window, in quarters of the least round-trip time.
    steps: u32,
    calm: u32,
    /// Probes since a result came, and when the last one was.
    probes: u32,
    probed: Time,
    /// Nothing has told yet whether the last probe was needed.
    open: bool,
    /// Probes that it may still tell of.
    spent: u32,
    credit: u32,
    /// Round trips that it takes longer around the switches.
    detour: u32,
    /// One more than the highest fragment whose result is in.
    reached: u32,
}

impl Rack {
    pub(super) fn new(bounds: RttConfig, detour: u32) -> Self {
        Self {
            bounds,
            times: Times::new(),
            lateness: Lateness::default(),
            sure: None,
            doubtful: None,
            steps: 1,
            calm: 0,
            probes: 0,
            probed: Time::ZERO,
            open: false,
            spent: 0,
            credit: CREDIT[0],
            detour,
            reached: 0,
        }
    }

    pub(super) fn round_trip(&self) -> Option<Duration> {
        self.times.quantile(50)
    }

    /// How long silence lasts until it is probed.
    pub(super) fn timeout(&self) -> Duration {
        let usual = match self.credit {
            0 => self.times.quantile(10),
            _ => self.times.least(),
        };
        let silence = usual.map(|it| (it * SILENT_ROUND_TRIPS).max(LEAST_SILENCE));
        silence.unwrap_or(self.bounds.min).min(self.bounds.max)
    }

    /// Whether a fragment above the lowest is complete.
    fn has_hole(&self, fragments: &Fragments) -> bool {
        !fragments.nothing_outstanding() && fragments.base() < self.reached
    }

    pub(super) fn on_result(
        &mut self,
        fragments: &mut Fragments,
        now: Time,
        fragment: u32,
        answered: &Answered,
    ) -> Losses {
        let round_trip = now - answered.sent;
        let too_soon = self.times.least().is_some_and(|least| round_trip < least);
        let mark = Mark { fragment, serial: answered.serial, round_trip, at: now };
        if !answered.resent {
            self.times.add(round_trip);
            if self.open {
                self.open = false;
                if answered.sent >= self.probed {
                    self.earn(self.spent.min(PAID_BACK));
                }
                self.spent = 0;
            }
            if self.sure.is_none_or(|sure| sure.serial < mark.serial) {
                self.sure = Some(mark);
            }
        } else if !too_soon {
            // Of two, the one further on says more, until it has said it.
            let said = |it: Mark| it.at + 2 * it.round_trip < now;
            if self.doubtful.is_none_or(|it| it.fragment < fragment || said(it)) {
                self.doubtful = Some(mark);
            }
        }
        if answered.resent && too_soon {
            self.steps = (self.steps + 1).min(STEPS);
            self.calm = 0;
        } else {
            self.calm += 1;
            if self.calm == CALM {
                self.steps = (self.steps - 1).max(1);
                self.calm = 0;
            }
        }
        self.reached = self.reached.max(fragment + 1);
        let mut losses = self.look(fragments, now);
        // The timer was set for a longer silence: before anything was known, after a probe, or when there
        // was no hole.
        if self.probes > 0 || self.times.is_first() || self.has_hole(fragments) {
            self.probes = 0;
            losses.timeout = Some(now + self.timeout());
        }
        losses
    }

    fn earn(&mut self, credit: u32) {
        self.credit = (self.credit + credit).min(CREDIT[1]);
    }

    /// Looks for what is lost by now.
    pub(super) fn look(&mut self, fragments: &mut Fragments, now: Time) -> Losses {
        let least = self.times.least().unwrap_or_default();
        let window = least * self.steps / 4;
        let mut losses = Losses::default();
        let (sure, doubtful) = (self.sure, self.doubtful);
        let decided_at = doubtful.map(|mark| mark.at + mark.round_trip + window);
        let decided = doubtful.filter(|_| decided_at.is_some_and(|at| at <= now));
        let mut again = decided_at.filter(|at| *at > now);
        fragments.lose_of_sent(|fragment, Sent { at, serial, around }| {
            let sure = sure.filter(|mark| serial < mark.serial);
            let detour = if around { self.detour } else { 0 };
            let late_at = sure.map(|mark| at + (1 + detour) * mark.round_trip + window);
            if late_at.is_some_and(|at| at <= now)
                || decided.is_some_and(|mark| serial < mark.serial && fragment < mark.fragment)
            {
                losses.count += 1;
                let lowest = losses.lowest.unwrap_or(fragment);
                losses.lowest = Some(lowest.min(fragment));
                return Walk::Lose;
            }
            // Those sent later are not late by this either, unless this one takes longer.
            again = late_at.into_iter().chain(again).min();
            let decided = decided.filter(|mark| serial < mark.serial);
            if decided.is_some() || detour > 0 { Walk::Keep } else { Walk::End }
        });
        if decided.is_some() {
            self.doubtful = None;
        }
        losses.again = again;
        self.earn(losses.count as u32);
        let usual = self.times.quantile(0).filter(|_| losses.count > 0);
        losses.congestion = usual.is_some_and(|usual| usual > QUEUED * least);
        losses
    }

    pub(super) fn on_timeout(
        &mut self,
        fragments: &mut Fragments,
        now: Time,
        late: Duration,
        progress: Time,
    ) -> Expiry {
        self.lateness.add(late);
        let patience = self.credit == 0 && fragments.waiting() > FEW && !self.has_hole(fragments);
        let interval = if patience { self.timeout() * PATIENCE } else { self.timeout() };
        let doublings = self.probes.saturating_sub(STEADY).min(BACK_OFF)
            + self.probes.saturating_sub(DOWN).min(20);
        let interval = interval.saturating_mul(1 << doublings);
        let interval = interval.min(self.bounds.max) + 2 * self.lateness.get();
        let quiet_since = progress.max(fragments.last_sent().unwrap_or(now)).max(self.probed);
        if quiet_since + interval > now {
            return Expiry { expired: false, congestion: false, next: quiet_since + interval };
        }
        fragments.lose_ends();
        self.probes += 1;
        self.probed = now;
        self.open = true;
        self.spent += u32::from(self.credit > 0);
        self.credit = self.credit.saturating_sub(1);
        Expiry { expired: true, congestion: false, next: now + interval }
    }
}
