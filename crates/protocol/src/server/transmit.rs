//! Choosing and writing the next packet.

use tributary_wire::agg::Repr;
use tributary_wire::{
    AggregatorIndex, Audience, Bitmap, Ecn, Envelope, Flags, Host, Kind, Rack, Sequence,
    WorkerIndex, WorkerSet, emit_frame,
};

use super::ParameterServer;
use super::slots::Finished;
use crate::bits::SlotSet;
use crate::{Time, fixed};

/// Packets to send, by slot. Its memory is bounded however many packets ask for an answer, and the
/// same answer is never queued twice.
#[derive(Clone, Debug)]
pub(super) struct Outbox {
    parameters: Queue,
    replies: Queue,
    queries: Queue,
    recalls: Queue,
    /// Per slot, the workers to which a Reply is due.
    reply_to: Box<[WorkerSet]>,
    /// Per slot, the workers to query.
    query_to: Box<[WorkerSet]>,
    /// Per slot, the workers to ask for a lost result.
    recall_from: Box<[WorkerSet]>,
}

/// A set of slots, served in turn.
#[derive(Clone, Debug)]
struct Queue {
    slots: SlotSet,
    count: u32,
    /// The slot to serve first.
    cursor: u32,
}

impl Queue {
    fn new(count: u32) -> Self {
        Self { slots: SlotSet::new(count), count, cursor: 0 }
    }

    fn insert(&mut self, number: usize) {
        self.slots.insert(number as u32);
    }

    fn remove(&mut self, number: usize) {
        self.slots.remove(number as u32);
    }

    /// The next slot at or after the cursor, which moves to it. The slot stays in the set.
    fn peek(&mut self) -> Option<usize> {
        let found = self.slots.next(self.cursor, self.cursor + self.count)?;
        self.cursor = found & (self.count - 1);
        Some(self.cursor as usize)
    }
}

impl Outbox {
    pub(super) fn new(slots: u32) -> Self {
        Self {
            parameters: Queue::new(slots),
            replies: Queue::new(slots),
            queries: Queue::new(slots),
            recalls: Queue::new(slots),
            reply_to: vec![WorkerSet::EMPTY; slots as usize].into(),
            query_to: vec![WorkerSet::EMPTY; slots as usize].into(),
            recall_from: vec![WorkerSet::EMPTY; slots as usize].into(),
        }
    }

    /// A task of the slot is complete. Its Parameter is due, and older packets of the slot are
    /// dropped.
    pub(super) fn finished(&mut self, number: usize) {
        self.replies.remove(number);
        self.reply_to[number] = WorkerSet::EMPTY;
        self.queries.remove(number);
        self.query_to[number] = WorkerSet::EMPTY;
        self.parameters.insert(number);
    }

    /// Workers miss the slot's result. A Parameter that is still due serves them, too.
    pub(super) fn reply(&mut self, number: usize, workers: WorkerSet) {
        if !self.parameters.slots.contains(number as u32) {
            self.replies.insert(number);
            self.reply_to[number] |= workers;
        }
    }

    /// Queries workers for their values of the slot's task.
    pub(super) fn query(&mut self, number: usize, workers: WorkerSet) {
        self.queries.insert(number);
        self.query_to[number] |= workers;
    }

    /// Asks workers for a lost result of the slot.
    pub(super) fn recall(&mut self, number: usize, workers: WorkerSet) {
        self.recalls.insert(number);
        self.recall_from[number] |= workers;
    }

    /// A result of the slot was handed over. Drops due packets of earlier results. The workers in
    /// `lack` may lack the result.
    pub(super) fn adopted(&mut self, number: usize, lack: WorkerSet) {
        self.parameters.remove(number);
        self.replies.insert(number);
        self.reply_to[number] = lack;
    }

    fn next_parameter(&mut self) -> Option<usize> {
        let number = self.parameters.peek()?;
        self.parameters.remove(number);
        Some(number)
    }

    fn next_reply(&mut self) -> Option<(usize, WorkerIndex)> {
        next(&mut self.replies, &mut self.reply_to)
    }

    fn next_query(&mut self) -> Option<(usize, WorkerIndex)> {
        next(&mut self.queries, &mut self.query_to)
    }

    fn next_recall(&mut self) -> Option<(usize, WorkerIndex)> {
        next(&mut self.recalls, &mut self.recall_from)
    }
}

/// The next slot and the lowest of its workers, which is removed.
fn next(queue: &mut Queue, workers: &mut [WorkerSet]) -> Option<(usize, WorkerIndex)> {
    while let Some(number) = queue.peek() {
        let due = &mut workers[number];
        let worker = due.lowest();
        if let Some(worker) = worker {
            *due = due.without(WorkerSet::of(worker));
        }
        if due.is_empty() {
            queue.remove(number);
        }
        if let Some(worker) = worker {
            return Some((number, worker));
        }
    }
    None
}

impl ParameterServer {
    /// Results first, because workers wait for them; then replies; then queries.
    pub(super) fn transmit(&mut self, _now: Time, frame: &mut Vec<u8>) -> bool {
        if let Some(number) = self.outbox.next_parameter()
            && let Some(finished) = self.slots.get(number).finished
        {
            let group = Host::group(self.config.job.job);
            self.write_result(Kind::Parameter, number, finished, group, frame);
            self.stats.parameters += 1;
            return true;
        }
        if let Some((number, worker)) = self.outbox.next_reply()
            && let Some(finished) = self.slots.get(number).finished
        {
            let host = self.worker(worker);
            self.write_result(Kind::Reply, number, finished, host, frame);
            self.stats.replies += 1;
            return true;
        }
        while let Some((number, worker)) = self.outbox.next_recall() {
            if let Some(lost) = self.slots.get(number).lost {
                self.write_query(lost.sequence, Flags::NONE, worker, frame);
                return true;
            }
        }
        while let Some((number, worker)) = self.outbox.next_query() {
            let task = self.slots.get(number).task.as_ref();
            // The worker's values may have arrived since the query was queued.
            if let Some(task) = task.filter(|task| !task.merged.contains(worker)) {
                let float = if task.floats.is_some() { Flags::OVERFLOW } else { Flags::NONE };
                self.write_query(task.sequence, float, worker, frame);
                return true;
            }
        }
        false
    }

    /// Writes a Parameter or a Reply, which differ only in kind and destination.
    fn write_result(
        &self,
        kind: Kind,
        number: usize,
        finished: Finished,
        to: Host,
        frame: &mut Vec<u8>,
    ) {
        let repr = Repr {
            values: self.config.job.values_per_packet,
            bitmap: self.config.job.whole(),
            index: finished.index,
            ..self.header(kind, finished.flags, finished.sequence, finished.salt)
        };
        let payload = emit_frame(frame, &self.envelope(to), &repr);
        fixed::write(self.slots.kept(number), payload);
    }

    /// Writes a Query. A successor's Query also asks for the result, if one exists.
    fn write_query(
        &mut self,
        sequence: u32,
        float: Flags,
        worker: WorkerIndex,
        frame: &mut Vec<u8>,
    ) {
        let successor = self.slots.is_successor();
        let flags = if successor { float | Flags::HAND_OVER } else { float };
        let (rack, bitmap) = self.config.job.racks.name(worker);
        let repr = Repr {
            rack,
            bitmap,
            index: self.slots.index(sequence),
            ..self.header(Kind::Query, flags, sequence, self.slots.salt(sequence))
        };
        emit_frame(frame, &self.envelope(self.worker(worker)), &repr);
        self.stats.queries += 1;
    }

    fn header(&self, kind: Kind, flags: Flags, sequence: u32, salt: u8) -> Repr {
        let job = &self.config.job;
        Repr {
            protocol: job.protocol,
            kind,
            flags,
            priority: if job.protocol.has_services() { job.assignment.service.get() } else { salt },
            job: job.job,
            epoch: job.epoch,
            values: 0,
            sequence: Sequence(sequence),
            bitmap: Bitmap::EMPTY,
            rack: Rack::NONE,
            audience: Audience::ALL,
            index: AggregatorIndex(0),
        }
    }

    fn envelope(&self, destination: Host) -> Envelope {
        Envelope { source: self.config.host, destination, ecn: Ecn::Ect0 }
    }

    fn worker(&self, worker: WorkerIndex) -> Host {
        // Sets have been checked against the job's workers, and each worker has an address.
        self.config.workers[usize::from(worker.get())]
    }
}
