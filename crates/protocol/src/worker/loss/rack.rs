//! RACK-TLP: fragments are lost when later transmissions are answered (RFC 8985; RFC 9002 §6).
//!
//! - *Each loss is detected separately.* Every transmission has a serial number. When a
//!   transmission is answered, earlier transmissions that are older than its time to result are
//!   late. After a reordering window they are lost and resent at once, as often as necessary.
//!   Detection does not slow down with the number of losses.
//! - *Reordering window.* It starts at a quarter of the minimum round-trip time, as in RFC 8985
//!   §6.2. It grows whenever a result follows a resend sooner than any packet can travel, because
//!   the first transmission was then only late. It shrinks after a period without such results.
//! - *Ambiguity.* The answer to a fragment that was sent more than once does not tell which
//!   transmission it answers. It marks other fragments as lost only after another round trip, and
//!   only lower ones, which all workers sent before it. Some workers may not have sent the
//!   fragments above it at all.
//! - *Silence.* Missing results alone do not mean a loss, because another worker may be slow. After
//!   three round trips without a result, the worker resends the lowest and the highest fragment as
//!   a probe, and repeats that at intervals that double up to sixteen-fold. The lowest is needed
//!   for progress, and the answer to the highest reveals the other losses. If probes stay
//!   unanswered for long, the interval doubles further. The highest is not answered if the workers'
//!   windows end at different fragments. So if a probe is answered, and the next results do not come
//!   without another one, that one has twice as many of the lowest fragments as were answered, as in slow
//!   start. Nothing else bounds what workers resend that wait for the same slow one.
//! - *Patience.* A worker cannot distinguish another worker's loss from its slowness, but a network
//!   that loses packets does so repeatedly. So every probe costs one credit, and every detected
//!   loss earns one. If no result arrives of a fragment that was sent once and before the probes,
//!   the probes were needed, and up to eight credits are returned. With credit, a round trip is the
//!   minimum round-trip time, or a sixteenth of the usual time to a result, if that is more: then hosts or
//!   switches wait for processors, and probes would only add to their work. Without credit, it is the
//!   usual time, and silence must last 32 times as long while more than a few fragments wait. The
//!   exception is a complete fragment above the lowest: all workers have then sent the lowest, which
//!   waits only for a repair. So in a network without loss, slow workers cause almost no resends.
//! - *Time to result.* The usual time is a low quantile, because some results include the wait for
//!   another worker's repair. The minimum is taken over many thousands of results, because one
//!   worker may be ahead of another for that long.
//! - *Bypassing the switches* takes longer in ESA, because its PS first has to ask another worker.
//! - *Congestion.* Times say nothing about it: a host or switch that waits for a processor delays
//!   results as a queue does. The switches' marks decide (`Dctcp`). In ESA, a detected loss says nothing
//!   either: the server completes the tasks that collided later than switches complete the others, so these
//!   tasks are taken for lost although no packet was. Where memory is short that is frequent, and a burst of
//!   marks would make each of them halve the window.
//! - *Timers that fire late.* A driver passes in what has arrived before it fires a timer. So silence
//!   is real, however late the timer, and the next probe does not wait longer for it.

use std::time::Duration;

use super::times::Times;
use super::{Expiry, Losses};
use crate::Time;
use crate::rtt::RttConfig;
use crate::worker::fragments::{Answered, Fragments, Sent, Walk};

/// The minimum silence before a probe. The timers of an operating system are not much more precise.
const LEAST_SILENCE: Duration = Duration::from_micros(10);

/// Number of probes before the interval between them doubles, and the number of doublings.
const STEADY: u32 = 1;
const BACK_OFF: u32 = 4;

/// Number of probes after which the interval doubles again, up to the maximum timeout, because a
/// host or link is down.
const DOWN: u32 = 64;

/// Round trips of silence before a probe, if there is credit.
const SILENT_ROUND_TRIPS: u32 = 3;

/// Ratio of the usual time to a result and a round trip, if that is longer than the minimum.
const SHARED: u32 = 16;

/// Number of waiting fragments up to which no patience is needed.
const FEW: u32 = 8;

/// Factor by which silence must last longer without credit.
const PATIENCE: u32 = 32;

/// Maximum credit returned for probes that turn out to have been needed.
const PAID_BACK: u32 = 8;

/// Initial and maximum credit.
const CREDIT: [u32; 2] = [2, 32];

/// Number of results without reordering after which the window shrinks by a step.
const CALM: u32 = 256;

/// Maximum size of the reordering window, in steps of a quarter of the minimum round-trip time.
const STEPS: u32 = 8;

/// A transmission that was answered.
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
    /// The latest answered transmission of a fragment that was sent once, and of one that was sent
    /// more often.
    sure: Option<Mark>,
    doubtful: Option<Mark>,
    /// The reordering window, in quarters of the minimum round-trip time.
    steps: u32,
    calm: u32,
    /// Number of probes since the last result, and the time of the last probe.
    probes: u32,
    probed: Time,
    /// Number of results since the last probe that do not end the need for probes.
    answers: u32,
    /// Whether it is still unknown if the last probe was needed.
    open: bool,
    /// Number of probes whose credit may be returned.
    spent: u32,
    credit: u32,
    /// Additional round trips when bypassing the switches.
    detour: u32,
    /// Whether losses say nothing about congestion.
    harmless: bool,
    /// The sequence after the highest fragment with a result.
    reached: u32,
}

impl Rack {
    pub(super) fn new(bounds: RttConfig) -> Self {
        Self {
            bounds,
            times: Times::new(),
            sure: None,
            doubtful: None,
            steps: 1,
            calm: 0,
            probes: 0,
            probed: Time::ZERO,
            answers: 0,
            open: false,
            spent: 0,
            credit: CREDIT[0],
            detour: 0,
            harmless: false,
            reached: 0,
        }
    }

    /// The rules for ESA: its PS first has to ask another worker, and completes tasks that collided.
    pub(super) fn of_esa(bounds: RttConfig) -> Self {
        Self { detour: 1, harmless: true, ..Self::new(bounds) }
    }

    pub(super) fn round_trip(&self) -> Option<Duration> {
        self.times.quantile(50)
    }

    pub(super) fn least(&self) -> Option<Duration> {
        self.times.least()
    }

    /// The duration of silence before a probe.
    pub(super) fn timeout(&self) -> Duration {
        let usual = self.times.quantile(10);
        let round_trip = match self.credit {
            0 => usual,
            _ => self.times.least().max(usual.map(|usual| usual / SHARED)),
        };
        let silence = round_trip.map(|it| (it * SILENT_ROUND_TRIPS).max(LEAST_SILENCE));
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
            self.answers = 0;
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
            // Of two ambiguous answers the higher fragment decides more, until it has been
            // evaluated.
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
        self.answers += u32::from(answered.resent);
        self.reached = self.reached.max(fragment + 1);
        let mut losses = self.look(fragments, now);
        // The timer may be set for a longer silence: before the first sample, after a probe, or
        // when there was no hole.
        if self.probes > 0 || self.times.is_first() || self.has_hole(fragments) {
            self.probes = 0;
            losses.timeout = Some(now + self.timeout());
        }
        losses
    }

    fn earn(&mut self, credit: u32) {
        self.credit = (self.credit + credit).min(CREDIT[1]);
    }

    /// Detects the losses at time `now`.
    pub(super) fn look(&mut self, fragments: &mut Fragments, now: Time) -> Losses {
        let least = self.times.least().unwrap_or_default();
        let window = least * self.steps / 4;
        let mut losses = Losses { harmless: self.harmless, ..Losses::default() };
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
            // Later transmissions are not late by this mark either, unless this one bypassed the
            // switches.
            again = late_at.into_iter().chain(again).min();
            let decided = decided.filter(|mark| serial < mark.serial);
            if decided.is_some() || detour > 0 { Walk::Keep } else { Walk::End }
        });
        if decided.is_some() {
            self.doubtful = None;
        }
        losses.again = again;
        self.earn(losses.count as u32);
        losses
    }

    pub(super) fn on_timeout(
        &mut self,
        fragments: &mut Fragments,
        now: Time,
        progress: Time,
    ) -> Expiry {
        let patience = self.credit == 0 && fragments.waiting() > FEW && !self.has_hole(fragments);
        let interval = if patience { self.timeout() * PATIENCE } else { self.timeout() };
        let doublings = self.probes.saturating_sub(STEADY).min(BACK_OFF)
            + self.probes.saturating_sub(DOWN).min(20);
        let interval = interval.saturating_mul(1 << doublings);
        let interval = interval.min(self.bounds.max);
        let quiet_since = progress.max(fragments.last_sent().unwrap_or(now)).max(self.probed);
        if quiet_since + interval > now {
            return Expiry { expired: false, congestion: false, next: quiet_since + interval };
        }
        fragments.lose_ends((2 * self.answers).max(1));
        self.answers = 0;
        self.probes += 1;
        self.probed = now;
        self.open = true;
        self.spent += u32::from(self.credit > 0);
        self.credit = self.credit.saturating_sub(1);
        Expiry { expired: true, congestion: false, next: now + interval }
    }
}
