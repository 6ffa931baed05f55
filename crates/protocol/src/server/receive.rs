//! Gradients: merging, completing, asking for missing values.

use std::time::Duration;

use tributary_wire::agg::Packet;
use tributary_wire::{Flags, Kind, Protocol, WorkerSet};

use super::ParameterServer;
use super::slots::{Finished, Lost, Task};
use super::timers::Timer;
use crate::{Mode, Recovery, Time, fixed};

impl ParameterServer {
    pub(super) fn receive(&mut self, now: Time, packet: &Packet<&[u8]>) {
        let Some(workers) = self.accepts(packet) else {
            return;
        };
        if packet.epoch().is_after(self.config.job.epoch) {
            self.begin(packet.epoch());
        }
        self.last_heard = now;
        let sequence = packet.sequence().0;
        let number = self.slots.number(sequence);
        if packet.flags().contains(Flags::RESULT) {
            self.on_handed_over(number, packet);
            return;
        }
        let slot = self.slots.get(number);
        if slot.finished.is_some_and(|finished| finished.sequence == sequence) {
            self.on_finished(number, packet, workers);
            return;
        }
        // Exactly one task is due in a slot. A packet above it would mean that a worker skipped
        // one. A packet below the kept result is obsolete, because all workers have that task's
        // result.
        let due = slot.due();
        let is_right = self.slots.is_right(sequence, packet.index(), packet.priority());
        match u64::from(sequence) {
            sequence if sequence < due => self.on_over(now, number, packet, workers),
            sequence if sequence > due && !slot.may_skip() => self.stats.out_of_window += 1,
            _ if !is_right => self.stats.rejected.wrong_index += 1,
            _ => {
                self.slots.skip_to(number, sequence, packet.priority());
                if self.is_float(packet) {
                    self.merge_float(now, number, packet, workers);
                } else {
                    self.merge_fixed(now, number, packet, workers);
                }
            }
        }
    }

    /// A gradient for a completed task whose result is not here. Either the packet is a late copy,
    /// or the preceding PS had the result and all workers except the sender may have gone on. In
    /// the second case the PS asks the workers for the result.
    fn on_over(&mut self, now: Time, number: usize, packet: &Packet<&[u8]>, workers: WorkerSet) {
        let sequence = packet.sequence().0;
        let timeout = self.rtt.base_timeout();
        let everyone = self.config.job.everyone();
        let successor = self.slots.is_successor();
        let slot = self.slots.get_mut(number);
        let newest = slot.finished.map(|finished| finished.sequence);
        let newest = newest.max(slot.lost.map(|lost| lost.sequence));
        let asks = packet.flags().contains(Flags::RESEND);
        if !successor || !asks || newest.is_some_and(|newest| newest > sequence) {
            self.stats.stale += 1;
            return;
        }
        slot.lost.take_if(|lost| lost.sequence < sequence);
        let wanted_by = WorkerSet::EMPTY;
        let lost = slot.lost.get_or_insert(Lost { sequence, wanted_by, ask_again_from: now });
        lost.wanted_by |= workers;
        if lost.ask_again_from <= now {
            lost.ask_again_from = now + timeout;
            self.outbox.recall(number, everyone);
        }
    }

    /// A worker hands over a result. A successor keeps it unless it has a later result of the slot,
    /// and forwards it.
    fn on_handed_over(&mut self, number: usize, packet: &Packet<&[u8]>) {
        let sequence = packet.sequence().0;
        let (index, salt) = (packet.index(), packet.priority());
        let finished = self.slots.get(number).finished;
        if !self.slots.is_successor() || finished.is_some_and(|kept| kept.sequence >= sequence) {
            self.stats.duplicates += 1;
            return;
        }
        if !self.slots.is_right(sequence, index, salt) {
            self.stats.rejected.wrong_index += 1;
            return;
        }
        self.stats.adopted += 1;
        let flags = packet.flags() & Flags::OVERFLOW;
        let finished = Finished { sequence, flags, index, salt };
        let lack = self.slots.adopt(number, finished, packet.payload());
        self.outbox.adopted(number, lack);
    }

    /// Whether a gradient's values are floats, which only ATP has. In P4INC the same flag means
    /// that the packet has no valid values.
    fn is_float(&self, packet: &Packet<&[u8]>) -> bool {
        self.config.job.protocol == Protocol::Atp && packet.flags().contains(Flags::OVERFLOW)
    }

    /// Performs the checks that do not depend on the task. Accepts packets of a later run, which
    /// begin that run. Returns the workers whose contributions are in the packet; `None` if it is
    /// dropped.
    fn accepts(&mut self, packet: &Packet<&[u8]>) -> Option<WorkerSet> {
        let job = &self.config.job;
        let workers = job.racks.members(packet.rack(), packet.bitmap());
        let workers = workers.filter(|workers| !workers.is_empty());
        // The switch never adds floats, so they come from one worker. So does a result.
        let alone = self.is_float(packet) || packet.flags().contains(Flags::RESULT);
        let workers = workers.filter(|workers| !alone || workers.len() == 1);
        let assigned = !job.protocol.has_services()
            || packet.service() == job.assignment.service && job.assignment.mode != Mode::Local;
        let rejected = &mut self.stats.rejected;
        let reason = if packet.job() != job.job {
            &mut rejected.other_job
        } else if packet.epoch() != job.epoch
            && (!self.config.follows_runs || job.epoch.is_after(packet.epoch()))
        {
            &mut rejected.other_run
        } else if packet.protocol() != job.protocol {
            &mut rejected.other_protocol
        } else if !assigned {
            &mut rejected.other_service
        } else if packet.kind() != Kind::Gradient {
            &mut rejected.wrong_kind
        } else if packet.values() != job.values_per_packet {
            &mut rejected.wrong_values
        } else if workers.is_none() {
            &mut rejected.wrong_bitmap
        } else {
            self.stats.gradients += 1;
            return workers;
        };
        *reason += 1;
        None
    }

    /// A gradient for a complete task. A resend comes from a worker that missed the result. Other
    /// packets are late copies: a worker that lacks the result resends.
    fn on_finished(&mut self, number: usize, packet: &Packet<&[u8]>, workers: WorkerSet) {
        self.stats.duplicates += 1;
        if packet.flags().contains(Flags::RESEND) {
            self.outbox.reply(number, workers);
        }
    }

    fn merge_fixed(
        &mut self,
        now: Time,
        number: usize,
        packet: &Packet<&[u8]>,
        workers: WorkerSet,
    ) {
        let sequence = packet.sequence().0;
        let has = self.task(now, number, sequence).merged;
        if self.task(now, number, sequence).floats.is_some() {
            self.stats.fixed_after_overflow += 1;
            self.ask_missing(now, number);
            return;
        }
        if !workers.is_disjoint(has) {
            if workers.is_subset(has) {
                self.stats.duplicates += 1;
            } else {
                self.stats.overlaps += 1;
            }
            self.ask_missing(now, number);
            return;
        }
        let words = self.slots.sums_mut(number);
        if has.is_empty() {
            // The memory still holds the values of the last task but one.
            fixed::read(packet.payload(), words);
        } else {
            fixed::accumulate(words, packet.payload());
        }
        self.merged(now, number, packet, workers);
    }

    fn merge_float(
        &mut self,
        now: Time,
        number: usize,
        packet: &Packet<&[u8]>,
        workers: WorkerSet,
    ) {
        let Some(worker) = workers.lowest() else {
            return;
        };
        let sequence = packet.sequence().0;
        if self.task(now, number, sequence).floats.is_none() {
            // I5: discard the integers, whose workers must send floats.
            let floats = self.floats.take();
            let task = self.task(now, number, sequence);
            task.merged = WorkerSet::EMPTY;
            task.floats = Some(floats);
            task.ask_again_from = now;
        }
        let task = self.task(now, number, sequence);
        if task.merged.contains(worker) {
            self.stats.duplicates += 1;
            self.ask_missing(now, number);
            return;
        }
        if let Some(floats) = &mut task.floats {
            floats.set(worker, packet.values_f32());
        }
        let first = task.merged.is_empty();
        self.merged(now, number, packet, workers);
        if first {
            self.ask_missing(now, number);
        }
    }

    /// The due task of a slot. Creates it on its first packet.
    fn task(&mut self, now: Time, number: usize, sequence: u32) -> &mut Task {
        let timeout = self.rtt.base_timeout();
        // Workers detect losses sooner than a PS, which does not know whether they have sent
        // anything yet. A first duplicate means that they have begun to resend.
        let ask_from = match self.config.timing.recovery {
            Recovery::Rack => now + self.rest(),
            Recovery::Papers => now,
        };
        self.slots.get_mut(number).task.get_or_insert_with(|| {
            self.timers.set_if_unset(Timer::Query, now + timeout);
            self.timers.set_if_unset(Timer::Stall, now + self.config.timing.stall_timeout);
            Task::new(sequence, now, now + timeout, ask_from)
        })
    }

    /// A packet's values were merged. Records its flags and completes the task if it was the last.
    fn merged(&mut self, now: Time, number: usize, packet: &Packet<&[u8]>, workers: WorkerSet) {
        self.stats.merged += 1;
        let Some(task) = &mut self.slots.get_mut(number).task else {
            return;
        };
        if let Some(asked) = task.asked.filter(|_| packet.flags().contains(Flags::RESEND)) {
            self.answer.add(now - asked);
        }
        task.resent |= packet.flags().contains(Flags::RESEND);
        let first = task.merged.is_empty();
        task.merged |= workers;
        task.flags |= packet.flags() & (Flags::COLLISION | Flags::OVERFLOW);
        if packet.is_marked() {
            task.flags |= Flags::ECN;
        }
        if task.merged == self.config.job.everyone() {
            if first && task.floats.is_none() {
                self.stats.complete_on_arrival += 1;
            } else if task.asked.is_none() || !task.resent {
                // ESA §6: the "RTT" of a PS is the time from the set-up of the entry to its
                // completion. If it asked, and what it asked for was on its way, it asked too early: without this
                // sample it would ask too early each time, and the answers would delay all that comes after them.
                self.rtt.sample(now - task.since);
            }
            self.complete(number);
        }
    }

    fn complete(&mut self, number: usize) {
        let Some(task) = self.slots.get_mut(number).task.take() else {
            return;
        };
        let (index, salt) = (self.slots.index(task.sequence), self.slots.salt(task.sequence));
        let mut flags = task.flags;
        if let Some(floats) = task.floats {
            flags |= Flags::OVERFLOW;
            floats.sum(self.slots.sums_mut(number));
            self.floats.give_back(floats);
        }
        self.stats.completed += 1;
        self.stats.overflow_tasks += u64::from(flags.contains(Flags::OVERFLOW));
        self.stats.collisions += u64::from(flags.contains(Flags::COLLISION));
        self.stats.marked += u64::from(flags.contains(Flags::ECN));
        let finished = Finished { sequence: task.sequence, flags, index, salt };
        self.slots.finish(number, finished);
        self.outbox.finished(number);
    }

    /// The task could not use a packet: some worker waits, and part of the missing values may just
    /// have been dropped. Queries the missing workers, but not again before they can have answered.
    fn ask_missing(&mut self, now: Time, number: usize) {
        let rest = self.rest();
        let everyone = self.config.job.everyone();
        let Some(task) = &mut self.slots.get_mut(number).task else {
            return;
        };
        if now < task.ask_again_from {
            return;
        }
        task.ask_again_from = now + rest;
        task.asked = Some(now);
        self.outbox.query(number, everyone.without(task.merged));
    }

    /// The time to wait for an answer. With the papers' rules it is a timeout. Otherwise it is the
    /// shortest answer time so far, because workers repeat unanswered packets.
    fn rest(&self) -> Duration {
        let rack = self.config.timing.recovery == Recovery::Rack;
        let answer = self.answer.get().filter(|_| rack);
        answer.unwrap_or(self.rtt.base_timeout())
    }
}
