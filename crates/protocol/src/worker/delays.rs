//! Where a worker's time goes: what it waits for while nothing arrives.
//!
//! The time of a job passes between results. The time between a result and the one before it is *lost* if
//! the later result is of a fragment that was repaired: the window was used up, or the tensor was at its
//! end, and the worker waited for the repair. While other fragments have results, a repair loses almost
//! no time, however long it takes.
//!
//! A worker cannot know whether another has begun a tensor before it has a result of it. So the time to
//! the first result after an idle period is not counted: it may be a wait for a slow worker.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Worker;
use crate::stats::add_counters;
use crate::waits::seconds;
use crate::{Time, Waits};

/// Where the time of a worker went. Times of several lanes of a worker add up, although lanes wait at the
/// same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Delays {
    /// Time with fragments in flight, from the first packet after an idle period to the last result.
    /// Serialised in seconds.
    #[serde(rename = "in_flight_seconds", with = "seconds")]
    pub in_flight: Duration,
    /// Waits without any result that ended with a result in a packet, of a fragment that was sent again.
    pub resent: Waits,
    /// ESA: waits without any result that ended with a result in a packet, of a fragment of which the
    /// reminder agent was reminded. Reminders, and the answers of workers, go over the reliable channel.
    pub reminded: Waits,
    /// ESA: waits without any result that ended with a result over the reliable channel.
    pub delivered: Waits,
    /// ESA: the time from the worker's last result, or its [`leave`](Worker::leave) if that is later, to its
    /// dismissal in a packet.
    pub dismissed: Waits,
    /// ESA: the same if the dismissal came over the reliable channel.
    pub dismissed_by_agent: Waits,
}

add_counters!(Delays: in_flight, resent, reminded, delivered, dismissed, dismissed_by_agent);

impl Delays {
    /// Time without results until those of repaired fragments.
    pub fn repairs(&self) -> Duration {
        self.resent.total + self.reminded.total + self.delivered.total
    }

    /// Time from the last result to the dismissal.
    pub fn farewell(&self) -> Duration {
        self.dismissed.total + self.dismissed_by_agent.total
    }
}

/// The times that [`Delays`] are measured from. They have no effect on what a worker does.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stopwatch {
    /// When the first packet after the last idle period was sent.
    begun: Time,
    /// Whether a result has arrived since then.
    under_way: bool,
    /// When the worker had all results and was told to leave.
    done: Option<Time>,
}

impl Worker {
    /// A fragment is about to be sent while no other is in flight.
    pub(super) fn note_begin(&mut self, now: Time) {
        self.progress = now;
        if !self.stopwatch.under_way {
            self.stopwatch.begun = now;
        }
    }

    /// A result arrived that completes a fragment. `resent` is whether the fragment was sent more than once,
    /// or repaired in another way. Call it before the result counts as progress.
    pub(super) fn note_result(&mut self, now: Time, fragment: u32, resent: bool, delivered: bool) {
        let under_way = std::mem::replace(&mut self.stopwatch.under_way, true);
        if !under_way || !(resent || delivered) || now <= self.progress {
            return;
        }
        let reminded = !delivered && self.was_reminded(fragment);
        let Delays { resent, reminded: by_agent, delivered: over_channel, .. } =
            &mut self.stats.delays;
        let waits = match (delivered, reminded) {
            (true, _) => over_channel,
            (false, true) => by_agent,
            (false, false) => resent,
        };
        waits.add(now - self.progress);
    }

    /// The worker has become idle.
    pub(super) fn note_idle(&mut self, now: Time) {
        self.stopwatch.under_way = false;
        self.stats.delays.in_flight += now - self.stopwatch.begun;
    }

    /// The worker has all results and submits nothing more.
    pub(super) fn note_leaving(&mut self, now: Time) {
        self.stopwatch.done.get_or_insert(now);
    }

    pub(super) fn note_dismissal(&mut self, now: Time, by_agent: bool) {
        let Delays { dismissed, dismissed_by_agent, .. } = &mut self.stats.delays;
        let waits = if by_agent { dismissed_by_agent } else { dismissed };
        waits.add(now - self.stopwatch.done.unwrap_or(now));
    }
}
