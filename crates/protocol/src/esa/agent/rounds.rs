//! When the agent begins a round, and what the round does.

use tributary_wire::channel::ToWorker;
use tributary_wire::{JobId, Sequence};

use super::{Agent, Served, ToPeer};
use crate::Time;

/// Number of contributions to later tasks that count as a "dupACK" (ESA §5.1).
const LATER_CONTRIBUTIONS: u8 = 3;

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

impl Agent {
    pub(super) fn on_timers(&mut self, now: Time) {
        while let Some((at, job, sequence)) = self.due.first().copied()
            && at <= now
        {
            self.round(now, job, sequence, Cause::Timer);
        }
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
                watch.timeouts = watch.timeouts.saturating_add(1);
                watch.later = 0;
                watch.fast = false;
            }
            Cause::DupAck => stats.dup_acks += 1,
            Cause::Urgent => stats.urgent += 1,
        }
        self.due.remove(&(watch.due, job, sequence));
        watch.due = now + rtt.timeout_after(watch.timeouts);
        self.due.insert((watch.due, job, sequence));
        watch.rest_until = now + rtt.base_timeout();
        watch.pursued = true;
        watch.stopwatch.pursued.get_or_insert(now);
        watch.ask = cause != Cause::DupAck;
        watch.asked = false;
        watch.awaited = 0;
        for (number, members) in below.iter().enumerate() {
            if !members.is_disjoint(watch.missing) {
                watch.awaited += 1;
                self.reminders.push_back((job, sequence, number));
            }
        }
        if watch.awaited == 0 || repeated {
            self.ask(now, job, sequence);
        }
    }

    /// Handles the answer of a switch.
    pub(super) fn answered(&mut self, now: Time, job: JobId, sequence: u32) {
        let watch = self.jobs.get_mut(&job).and_then(|served| served.watches.get_mut(&sequence));
        if let Some(watch) = watch {
            watch.awaited = watch.awaited.saturating_sub(1);
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
