//! The dictionary: partial sums of tasks, and results of tasks that were completed here.
//!
//! The window bounds its memory. At any time, the results that workers lack span at most two
//! windows, because the first and the last of them are less than a window apart. An entry beyond
//! that range belongs to a completed task, which the agent finds out, or to a task that never
//! began, because a faulty worker may name any sequence. So a full dictionary drops its highest
//! entry in favour of a lower one. Dropping an entry is safe: the loss of a PS drops all entries.

use std::collections::BTreeMap;

use bytes::Bytes;
use tributary_wire::channel::Values;
use tributary_wire::{Flags, WorkerIndex, WorkerSet};

use crate::floats::{FloatPool, Floats};
use crate::{JobConfig, Time, fixed};

/// A task that is being collected.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) sequence: u32,
    /// The workers whose values are merged.
    pub(super) merged: WorkerSet,
    /// The workers that reported that they lack the result.
    pub(super) lacking: WorkerSet,
    /// Whether a worker sent its values in a repair packet because it lacks the result.
    pub(super) repaired: bool,
    /// The worker that was last asked in a packet, and when.
    pub(super) asked: Option<(WorkerIndex, Time)>,
    /// Whether a merged packet carried a congestion mark.
    pub(super) marked: bool,
    /// When the entry was set up.
    pub(super) since: Time,
    sums: Box<[i32]>,
    floats: Option<Floats>,
}

impl Entry {
    /// Whether the task is collected in `f32` (I5).
    pub(super) fn is_float(&self) -> bool {
        self.floats.is_some()
    }

    /// The next worker to ask. The workers whose values are missing take turns. If only a result
    /// was lost, each of these workers has it, so one answer is enough.
    pub(super) fn next_asked(&self, everyone: WorkerSet) -> Option<WorkerIndex> {
        let missing = everyone.without(self.merged);
        let last = self.asked.map(|(worker, _)| worker);
        let later = missing.iter().find(|worker| last.is_none_or(|last| last < *worker));
        later.or(missing.lowest())
    }

    /// Adds integer sums of workers that are not merged yet.
    pub(super) fn add(&mut self, workers: WorkerSet, payload: &[u8]) {
        fixed::accumulate(&mut self.sums, payload);
        self.merged |= workers;
    }
}

/// A result.
#[derive(Clone, Debug)]
pub(super) struct Finished {
    pub(super) flags: Flags,
    pub(super) values: Values,
    /// When this server last multicast it.
    pub(super) published: Option<Time>,
}

/// State of a job's tasks.
#[derive(Clone, Debug)]
pub(super) struct Entries {
    entries: BTreeMap<u32, Entry>,
    finished: BTreeMap<u32, Finished>,
    floats: FloatPool,
    values: usize,
    window: u32,
    /// The highest sequence that each worker is known to have sent.
    heard: Box<[Option<u32>]>,
}

impl Entries {
    pub(super) fn new(job: &JobConfig) -> Self {
        Self {
            entries: BTreeMap::new(),
            finished: BTreeMap::new(),
            floats: FloatPool::new(job),
            values: job.values_per_packet.into(),
            window: job.slots,
            heard: vec![None; job.workers().into()].into(),
        }
    }

    /// Records that these workers sent a sequence. Removes the entries of tasks whose result all
    /// workers now have, and returns their sequences.
    pub(super) fn hear(&mut self, workers: WorkerSet, sequence: u32) -> Vec<u32> {
        for worker in workers.iter() {
            let heard = &mut self.heard[usize::from(worker.get())];
            *heard = (*heard).max(Some(sequence));
        }
        let Some(floor) = self.floor() else {
            return Vec::new();
        };
        let keep = self.entries.split_off(&floor);
        let gone = std::mem::replace(&mut self.entries, keep);
        self.finished = self.finished.split_off(&floor);
        gone.into_keys().collect()
    }

    /// Removes all entries, and returns their sequences.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = u32> + use<> {
        std::mem::take(&mut self.entries).into_keys()
    }

    /// Records that these workers lack the result of a sequence. They have therefore sent no
    /// sequence a window further on, whatever was recorded before.
    pub(super) fn hear_lack(&mut self, workers: WorkerSet, sequence: u32) {
        let most = sequence.saturating_add(self.window - 1);
        for worker in workers.iter() {
            let heard = &mut self.heard[usize::from(worker.get())];
            *heard = (*heard).min(Some(most));
        }
    }

    /// The lowest task whose result a worker may lack: a worker that sent `s + W` has the result of
    /// `s`.
    fn floor(&self) -> Option<u32> {
        let lowest = self.heard.iter().copied().min().flatten()?;
        Some(lowest.saturating_sub(self.window - 1))
    }

    /// Whether all workers are known to have the result.
    pub(super) fn is_over(&self, sequence: u32) -> bool {
        self.floor().is_some_and(|floor| sequence < floor)
    }

    pub(super) fn get(&self, sequence: u32) -> Option<&Entry> {
        self.entries.get(&sequence)
    }

    pub(super) fn get_mut(&mut self, sequence: u32) -> Option<&mut Entry> {
        self.entries.get_mut(&sequence)
    }

    /// Whether there is no room for another entry.
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= 2 * self.window as usize
    }

    /// The highest entry.
    pub(super) fn highest(&self) -> Option<u32> {
        self.entries.keys().next_back().copied()
    }

    /// Sets up an entry.
    pub(super) fn open(&mut self, now: Time, sequence: u32) {
        let entry = Entry {
            sequence,
            merged: WorkerSet::EMPTY,
            lacking: WorkerSet::EMPTY,
            repaired: false,
            asked: None,
            marked: false,
            since: now,
            sums: vec![0; self.values].into(),
            floats: None,
        };
        self.entries.insert(sequence, entry);
    }

    /// Collects the entry in floats from now on and discards its integers (I5).
    pub(super) fn make_float(&mut self, sequence: u32) {
        if let Some(entry) = self.entries.get_mut(&sequence) {
            entry.merged = WorkerSet::EMPTY;
            entry.floats = Some(self.floats.take());
        }
    }

    /// Stores the floats of the single worker in `workers`.
    pub(super) fn set_floats(&mut self, sequence: u32, workers: WorkerSet, payload: &[u8]) {
        if let Some(entry) = self.entries.get_mut(&sequence)
            && let Some(floats) = &mut entry.floats
            && let Some(worker) = workers.lowest()
        {
            floats.set(worker, tributary_wire::values::read_f32(payload));
            entry.merged |= workers;
        }
    }

    /// Removes an entry.
    pub(super) fn remove(&mut self, sequence: u32) -> Option<Entry> {
        let mut entry = self.entries.remove(&sequence)?;
        if let Some(floats) = entry.floats.take() {
            self.floats.give_back(floats);
        }
        Some(entry)
    }

    /// Converts a complete entry into a result. `None` if there is no such entry.
    pub(super) fn finish(&mut self, sequence: u32) -> Option<Flags> {
        let mut entry = self.entries.remove(&sequence)?;
        let float = entry.is_float();
        if let Some(floats) = entry.floats.take() {
            floats.sum(&mut entry.sums);
            self.floats.give_back(floats);
        }
        let mut payload = vec![0; 4 * self.values];
        fixed::write(&entry.sums, &mut payload);
        let mut flags = Flags::NONE;
        if float {
            flags |= Flags::OVERFLOW;
        }
        if entry.marked {
            flags |= Flags::ECN;
        }
        self.keep(sequence, flags, Values { float, payload: Bytes::from(payload) });
        Some(flags)
    }

    /// Keeps a result. Beyond two windows of results, the lowest is dropped: workers that lack it
    /// are served from the caches of other workers.
    pub(super) fn keep(&mut self, sequence: u32, flags: Flags, values: Values) {
        self.finished.insert(sequence, Finished { flags, values, published: None });
        if self.finished.len() > 2 * self.window as usize {
            self.finished.pop_first();
        }
    }

    pub(super) fn result(&self, sequence: u32) -> Option<&Finished> {
        self.finished.get(&sequence)
    }

    pub(super) fn result_mut(&mut self, sequence: u32) -> Option<&mut Finished> {
        self.finished.get_mut(&sequence)
    }

    /// The entries that are being collected, by sequence.
    pub(super) fn pending(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }
}
