//! When the agent begins a round, and what the round does.

use std::time::Duration;

use tributary_wire::channel::ToWorker;
use tributary_wire::{JobId, Sequence, WorkerSet};

use super::watch::Watch;
use super::{Agent, Served, ToPeer};
use crate::{Recovery, Time, Timing};

/// Number of contributions to later tasks that count as a "dupACK" (ESA §5.1).
const LATER_CONTRIBUTIONS: u8 = 3;

/// The shortest wait for a poll.
const LEAST_PAUSE: Duration = Duration::from_micros(1);

/// The cause of a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cause {
    /// The entry's timer.
    Timer,
    /// Three contributions to later tasks.
    DupAck,
    /// A worker waits, or the server dropped a partial sum.
    Urgent,
}

impl Served {
    /// How long the agent waits until it polls the switches for an entry, after this number of polls;
    /// `None` if it does not.
    ///
    /// The wait begins with the time that an answer takes, and doubles: a task is then completed at most
    /// about twice as late as its last value allows, and one that waits for a slow worker costs few
    /// packets.
    pub(super) fn pause(&self, polls: u32) -> Option<Duration> {
        let Timing { recovery, readings, .. } = self.config.timing;
        if recovery != Recovery::Rack || readings.blind {
            return None;
        }
        let first = self.answers.smoothed()?.max(LEAST_PAUSE);
        Some(first.saturating_mul(1_u32.checked_shl(polls)?))
    }

    /// When an entry is due that has been polled so often: for the next poll, or by its timer.
    pub(super) fn due(&self, now: Time, polls: u32, timer: Time) -> Time {
        self.pause(polls).map_or(timer, |pause| timer.min(now + pause))
    }
}

impl Agent {
    pub(super) fn on_timers(&mut self, now: Time) {
        while let Some((at, job, sequence)) = self.due.first().copied()
            && at <= now
        {
            if !self.poll(now, job, sequence) {
                self.round(now, job, sequence, Cause::Timer);
            }
        }
    }

    /// Fetches what the switches hold of a task by now. Returns false if its timer has fired instead.
    fn poll(&mut self, now: Time, job: JobId, sequence: u32) -> bool {
        let Some(served) = self.jobs.get_mut(&job) else { return false };
        let Some(watch) = served.watches.get(&sequence).filter(|watch| now < watch.timer) else {
            return false;
        };
        let due = served.due(now, watch.polls + 1, watch.timer);
        let Some(watch) = served.watches.get_mut(&sequence) else { return false };
        served.stats.polls += 1;
        self.due.remove(&(watch.due, job, sequence));
        self.due.insert((due, job, sequence));
        watch.due = due;
        watch.polls += 1;
        // A worker that reminds the agent meanwhile is asked after the answers.
        watch.rest_until = due;
        watch.asked = false;
        watch.stopwatch.pursued.get_or_insert(now);
        remind(&served.below, watch, now, |switch| {
            self.reminders.push_back((job, sequence, switch));
        });
        true
    }

    /// A contribution to a task reached the server. Counts it for the watched earlier tasks.
    pub(super) fn count_later(&mut self, now: Time, job: JobId, sequence: u32) {
        let Some(served) = self.jobs.get_mut(&job) else {
            return;
        };
        let mut passed = Vec::new();
        for (&earlier, watch) in served.watches.range_mut(..sequence) {
            watch.later = watch.later.saturating_add(1);
            if watch.later >= LATER_CONTRIBUTIONS && !watch.fast {
                watch.fast = true;
                passed.push(earlier);
            }
        }
        for earlier in passed {
            self.round(now, job, earlier, Cause::DupAck);
        }
    }

    /// Begins a round: reminders to the switches, then queries to the workers.
    pub(super) fn round(&mut self, now: Time, job: JobId, sequence: u32, cause: Cause) {
        let Some(served) = self.jobs.get_mut(&job) else {
            return;
        };
        let Some(watch) = served.watches.get(&sequence) else {
            return;
        };
        // After three later gradients, workers may still be about to send.
        let polls = if cause == Cause::DupAck { watch.polls } else { u32::BITS };
        let timeouts = watch.timeouts.saturating_add(u32::from(cause == Cause::Timer));
        let timer = now + served.rtt.timeout_after(timeouts);
        let due = served.due(now, polls, timer);
        let Served { config, below, rtt, watches, stats, .. } = served;
        let Some(watch) = watches.get_mut(&sequence) else {
            return;
        };
        if cause != Cause::Timer && now < watch.rest_until {
            // A round's reminders may complete the entry, or the answers of workers that it asked.
            // If all reminders have been answered, nobody was asked and a worker still waits, the
            // rest is in the switches by now, or was lost.
            let busy = watch.awaited > 0 || watch.asked;
            let wait = busy || config.timing.readings.reminders_wait;
            if cause == Cause::DupAck || wait {
                watch.ask |= cause == Cause::Urgent;
                return;
            }
        }
        // The last round's answers or queries were lost, or no worker could answer.
        let repeated = cause == Cause::Timer && watch.timeouts > 0;
        match cause {
            Cause::Timer => {
                stats.timeouts += 1;
                watch.timeouts = timeouts;
                watch.later = 0;
                watch.fast = false;
            }
            Cause::DupAck => stats.dup_acks += 1,
            Cause::Urgent => stats.urgent += 1,
        }
        self.due.remove(&(watch.due, job, sequence));
        (watch.due, watch.timer, watch.polls) = (due, timer, polls);
        self.due.insert((watch.due, job, sequence));
        watch.rest_until = now + rtt.base_timeout();
        watch.pursued = true;
        watch.stopwatch.pursued.get_or_insert(now);
        watch.ask = cause != Cause::DupAck;
        watch.asked = false;
        remind(below, watch, now, |switch| self.reminders.push_back((job, sequence, switch)));
        if watch.awaited == 0 || repeated {
            self.ask(now, job, sequence);
        }
    }

    /// Handles the answer of a switch.
    pub(super) fn answered(&mut self, now: Time, job: JobId, sequence: u32) {
        let Some(served) = self.jobs.get_mut(&job) else { return };
        if let Some(watch) = served.watches.get_mut(&sequence) {
            watch.awaited = watch.awaited.saturating_sub(1);
            if watch.awaited == 0
                && let Some(reminded) = watch.reminded.take()
            {
                served.answers.sample(now - reminded);
            }
            if watch.awaited == 0 && watch.ask {
                self.ask(now, job, sequence);
            }
        }
    }

    /// Queries the workers whose values are missing.
    fn ask(&mut self, now: Time, job: JobId, sequence: u32) {
        let Some(served) = self.jobs.get_mut(&job) else {
            return;
        };
        let Some(watch) = served.watches.get_mut(&sequence) else {
            return;
        };
        watch.ask = false;
        watch.asked = !watch.missing.is_empty();
        if watch.asked {
            watch.stopwatch.asked.get_or_insert(now);
        }
        let float = watch.float;
        for worker in watch.missing.iter() {
            served.stats.queries += 1;
            let message = ToWorker::Query { sequence: Sequence(sequence), float };
            self.messages.push_back(ToPeer::Worker { job, worker, message });
        }
    }
}

/// Sends a reminder to each switch that may hold missing values.
fn remind(below: &[WorkerSet], watch: &mut Watch, now: Time, mut send: impl FnMut(usize)) {
    // Otherwise an answer may be one to an earlier reminder.
    watch.reminded = (watch.awaited == 0).then_some(now);
    watch.awaited = 0;
    for (switch, members) in below.iter().enumerate() {
        if !members.is_disjoint(watch.missing) {
            watch.awaited += 1;
            send(switch);
        }
    }
}
