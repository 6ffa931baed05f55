//! Packets from switches and messages from the agent: merging, completing, closing.

use bytes::Bytes;
use tributary_wire::agg::{Packet, Repair, Repaired};
use tributary_wire::channel::{FromServer, ToServer, Values};
use tributary_wire::{Flags, Kind, Protocol, Sequence, WorkerSet};

use super::Server;
use crate::Time;

/// A part of a task, from a switch or a worker.
struct Part<'a> {
    sequence: u32,
    workers: WorkerSet,
    float: bool,
    marked: bool,
    payload: &'a [u8],
}

impl Server {
    /// [`Endpoint::handle_frame`](crate::Endpoint::handle_frame) for a driver that has already
    /// validated the frame.
    pub fn handle_packet(&mut self, now: Time, packet: &Packet<&[u8]>) {
        let job = &self.config.job;
        let rejected = &mut self.stats.rejected;
        let reason = if packet.job() != job.job {
            &mut rejected.other_job
        } else if packet.epoch() != job.epoch {
            &mut rejected.other_run
        } else if packet.protocol() != Protocol::Esa {
            &mut rejected.other_protocol
        } else if packet.kind() != Kind::Gradient {
            &mut rejected.wrong_kind
        } else if packet.values() != job.values_per_packet {
            &mut rejected.wrong_values
        } else if packet.index() != self.tasks.index(packet.sequence()) {
            &mut rejected.wrong_index
        } else if let Some(workers) = job.racks.members(packet.rack(), packet.bitmap()) {
            self.last_heard = now;
            self.stats.gradients += 1;
            let part = Part {
                sequence: packet.sequence().0,
                workers,
                float: packet.flags().contains(Flags::OVERFLOW),
                marked: packet.is_marked(),
                payload: packet.payload(),
            };
            if packet.flags().contains(Flags::REPAIR) {
                self.on_repair(now, packet.repr().repair(), &part);
            } else {
                self.merge(now, &part);
            }
            return;
        } else {
            &mut rejected.wrong_bitmap
        };
        *reason += 1;
    }

    /// Handles a repair packet: the values of a worker that lacks the result, or the result.
    fn on_repair(&mut self, now: Time, repair: Option<Repair>, part: &Part<'_>) {
        let Part { sequence, workers, payload, .. } = *part;
        let Some(Repair { what, float }) = repair else {
            self.stats.rejected.wrong_kind += 1;
            return;
        };
        if workers.len() != 1 {
            self.stats.rejected.wrong_bitmap += 1;
            return;
        }
        self.stats.repairs += 1;
        if what == Repaired::Farewell {
            return self.on_farewell(workers);
        }
        if what == Repaired::Result {
            if let Some((asked, at)) = self.entries.get(sequence).and_then(|entry| entry.asked)
                && workers == WorkerSet::of(asked)
            {
                self.answer.add(now - at);
            }
            self.hear(workers, sequence);
            let payload = Bytes::copy_from_slice(payload);
            self.on_known(sequence, Values { float, payload });
            return;
        }
        self.entries.hear_lack(workers, sequence);
        self.merge(now, &Part { float, ..*part });
        if let Some(result) = self.entries.result(sequence) {
            if self.may_be_answered(now, result.published) {
                self.publish(sequence);
            }
        } else if let Some(entry) = self.entries.get_mut(sequence) {
            entry.repaired = true;
            // The answer of the worker that was asked may come sooner than any before it, because it
            // may be nearer. The next worker is asked at once, and not only after the next repair.
            let asked = entry.asked.filter(|(worker, _)| workers != WorkerSet::of(*worker));
            let asked = asked.map(|(_, at)| at);
            if self.may_be_answered(now, asked) && !self.questions.contains(&sequence) {
                self.questions.push_back(sequence);
            }
        }
    }

    /// Workers have all results and submit nothing more. When all have said so, each may stop, and learns it from the
    /// answer; one that misses that says farewell again.
    fn on_farewell(&mut self, workers: WorkerSet) {
        self.farewells |= workers;
        if !self.have_all_gone() {
            return;
        }
        self.dismissal = true;
        // Those that late copies opened.
        for gone in self.entries.clear() {
            self.stats.over += 1;
            self.messages.push_back(FromServer::Closed { sequence: Sequence(gone) });
        }
    }

    /// Whether all workers have said farewell.
    fn have_all_gone(&self) -> bool {
        self.everyone().is_subset(self.farewells)
    }

    /// Whether a packet that arrives now can be a reaction to one sent at `sent`.
    fn may_be_answered(&self, now: Time, sent: Option<Time>) -> bool {
        sent.is_none_or(|sent| self.answer.get().is_none_or(|least| now - sent >= least))
    }

    /// Queues the result for multicast, once.
    fn publish(&mut self, sequence: u32) {
        if !self.parameters.contains(&sequence) {
            self.parameters.push_back(sequence);
        }
    }

    /// Handles a message of the agent.
    pub fn handle_message(&mut self, now: Time, message: ToServer) {
        self.last_heard = now;
        match message {
            ToServer::Missing { sequence, workers } => self.on_missing(now, sequence.0, workers),
            ToServer::Partial { sequence, workers, marked, values } => {
                if values.payload.len() != self.payload_len() {
                    self.stats.rejected.wrong_values += 1;
                    return;
                }
                self.stats.brought += 1;
                let part = Part {
                    sequence: sequence.0,
                    workers,
                    float: values.float,
                    marked,
                    payload: &values.payload,
                };
                self.merge(now, &part);
            }
            ToServer::Known { sequence, values } => self.on_known(sequence.0, values),
            ToServer::Finished { workers } => self.on_farewell(workers),
            ToServer::Over { sequence } => {
                if self.entries.remove(sequence.0).is_some() {
                    self.stats.over += 1;
                    self.messages.push_back(FromServer::Closed { sequence });
                }
            }
        }
    }

    /// Records that these workers sent the fragment, and drops state that all workers are past.
    fn hear(&mut self, workers: WorkerSet, sequence: u32) {
        for gone in self.entries.hear(workers, sequence) {
            self.stats.over += 1;
            self.messages.push_back(FromServer::Closed { sequence: Sequence(gone) });
        }
    }

    /// Workers lack the result. If the server has it, it sends it to them. Otherwise it opens an
    /// entry, which the agent completes at once (ESA §5.3, case 1).
    fn on_missing(&mut self, now: Time, sequence: u32, workers: WorkerSet) {
        if !workers.is_subset(self.everyone()) {
            self.stats.rejected.wrong_bitmap += 1;
            return;
        }
        self.entries.hear_lack(workers, sequence);
        self.hear(workers, sequence);
        if let Some(result) = self.entries.result(sequence) {
            let values = result.values.clone();
            self.deliver(sequence, workers, values);
        } else if self.entry(now, sequence) {
            if let Some(entry) = self.entries.get_mut(sequence) {
                entry.lacking |= workers;
            }
            self.tell(sequence, true);
        }
    }

    /// A worker has the result of a task. The server sends it to all workers that are known to lack
    /// it and closes the entry (ESA §5.3, case 2).
    fn on_known(&mut self, sequence: u32, values: Values) {
        if values.payload.len() != self.payload_len() {
            self.stats.rejected.wrong_values += 1;
            return;
        }
        let Some(entry) = self.entries.remove(sequence) else {
            return;
        };
        self.stats.known += 1;
        let flags = if values.float { Flags::OVERFLOW } else { Flags::NONE };
        self.entries.keep(sequence, flags, values.clone());
        self.messages.push_back(FromServer::Closed { sequence: Sequence(sequence) });
        self.deliver(sequence, entry.lacking, values);
        if entry.repaired {
            self.publish(sequence);
        }
    }

    fn deliver(&mut self, sequence: u32, workers: WorkerSet, values: Values) {
        if !workers.is_empty() {
            self.stats.deliveries += u64::from(workers.len());
            let sequence = Sequence(sequence);
            self.messages.push_back(FromServer::Deliver { sequence, workers, values });
        }
    }

    /// Merges a part into its entry if the two are disjoint. Otherwise drops the whole part.
    fn merge(&mut self, now: Time, part: &Part<'_>) {
        let Part { sequence, workers, .. } = *part;
        // No switch adds floats, so they come from a single worker.
        let known = !workers.is_empty() && workers.is_subset(self.everyone());
        if !known || part.float && workers.len() != 1 {
            self.stats.rejected.wrong_bitmap += 1;
            return;
        }
        self.hear(workers, sequence);
        if self.entries.result(sequence).is_some() {
            self.stats.duplicates += 1;
            return;
        }
        if !self.entry(now, sequence) {
            return;
        }
        let is_float = self.entries.get(sequence).is_some_and(super::entries::Entry::is_float);
        if part.float && !is_float {
            self.entries.make_float(sequence);
        }
        let Some(entry) = self.entries.get_mut(sequence) else {
            return;
        };
        let has = entry.merged;
        if entry.is_float() && !part.float {
            self.stats.fixed_after_overflow += 1;
            self.tell(sequence, true);
            return;
        }
        if !workers.is_disjoint(has) {
            if workers.is_subset(has) {
                self.stats.duplicates += 1;
            } else {
                // Some of the missing values were just dropped.
                self.stats.overlaps += 1;
                self.tell(sequence, true);
            }
            return;
        }
        entry.marked |= part.marked;
        if part.float {
            self.entries.set_floats(sequence, workers, part.payload);
        } else {
            entry.add(workers, part.payload);
        }
        self.stats.merged += 1;
        if has | workers == self.everyone() {
            self.complete(sequence);
        } else {
            // The other workers must send floats, too, and do not know it yet.
            self.tell(sequence, part.float && !is_float);
        }
    }

    fn complete(&mut self, sequence: u32) {
        let Some(flags) = self.entries.finish(sequence) else {
            return;
        };
        self.stats.completed += 1;
        self.stats.overflow_tasks += u64::from(flags.contains(Flags::OVERFLOW));
        self.publish(sequence);
        self.messages.push_back(FromServer::Closed { sequence: Sequence(sequence) });
    }

    /// Ensures that the entry exists. Returns `false` if there is no room for it.
    fn entry(&mut self, now: Time, sequence: u32) -> bool {
        if self.entries.get(sequence).is_some() {
            return true;
        }
        if self.entries.is_over(sequence) || self.have_all_gone() {
            self.stats.stale += 1;
            return false;
        }
        if self.entries.is_full() {
            self.stats.full += 1;
            let Some(highest) = self.entries.highest().filter(|highest| *highest > sequence) else {
                return false;
            };
            self.entries.remove(highest);
            self.messages.push_back(FromServer::Closed { sequence: Sequence(highest) });
        }
        self.entries.open(now, sequence);
        self.stats.entries += 1;
        let stall = now + self.config.timing.stall_timeout;
        self.stall_at.get_or_insert(stall);
        true
    }

    /// Reports the state of an entry to the agent.
    fn tell(&mut self, sequence: u32, urgent: bool) {
        if let Some(entry) = self.entries.get(sequence) {
            let (merged, float) = (entry.merged, entry.is_float());
            let sequence = Sequence(sequence);
            self.messages.push_back(FromServer::Entry { sequence, merged, float, urgent });
        }
    }

    fn payload_len(&self) -> usize {
        4 * usize::from(self.config.job.values_per_packet)
    }
}
