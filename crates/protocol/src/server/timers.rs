//! Tasks that wait too long.
//!
//! A timer holds a lower bound of the time at which a slot is due. When it fires, the PS scans all
//! slots and sets it to the first due time. Two scans are at least one timeout apart. Packets only
//! set the timer for the first task.

use tributary_wire::{Sequence, WorkerSet};

use super::{Event, ParameterServer};
use crate::Time;

/// The PS's timers.
#[derive(Clone, Copy)]
pub(super) enum Timer {
    /// A task has waited for a timeout: query the missing workers.
    Query,
    /// Report that no task makes progress.
    Stall,
}

impl Timer {
    pub(super) const COUNT: usize = 2;
}

impl From<Timer> for usize {
    fn from(timer: Timer) -> Self {
        timer as Self
    }
}

impl ParameterServer {
    pub(super) fn on_query_timer(&mut self, now: Time) {
        let mut first = None;
        for number in 0..self.config.job.slots as usize {
            let Some(task) = &mut self.slots.get_mut(number).task else {
                continue;
            };
            if task.ask_at <= now {
                self.stats.timeouts += 1;
                task.timeouts = task.timeouts.saturating_add(1);
                task.ask_at = now + self.rtt.timeout_after(task.timeouts);
                task.ask_again_from = now + self.rtt.base_timeout();
                task.asked = Some(now);
                self.outbox.query(number, self.config.job.everyone().without(task.merged));
            }
            let at = task.ask_at;
            first = Some(first.map_or(at, |first: Time| first.min(at)));
        }
        if let Some(at) = first {
            self.timers.set(Timer::Query, at);
        }
    }

    pub(super) fn on_stall_timer(&mut self, now: Time) {
        let timeout = self.config.timing.stall_timeout;
        let latest = now.as_nanos().checked_sub(timeout.as_nanos() as u64).map(Time::from_nanos);
        let stalled = latest.and_then(|latest| self.slots.lowest_begun_by(latest));
        if let Some((sequence, merged, since)) = stalled {
            self.report_stall(sequence, now, since, merged);
            self.timers.set(Timer::Stall, now + timeout);
        } else if let Some(since) = self.slots.tasks().map(|(_, task)| task.since).min() {
            self.timers.set(Timer::Stall, since + timeout);
        }
    }

    fn report_stall(&mut self, sequence: Sequence, now: Time, since: Time, merged: WorkerSet) {
        if self.stall_reported == Some(sequence) {
            return;
        }
        self.stall_reported = Some(sequence);
        self.events.push_back(Event::Stalled {
            sequence,
            missing: self.config.job.everyone().without(merged),
            waited: now - since,
            quiet: now - self.last_heard >= self.config.timing.stall_timeout / 2,
        });
    }
}
