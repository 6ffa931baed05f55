//! The ring of slots: a task being collected and a result being kept in each.

use std::num::NonZeroU32;
use std::ops::Range;

use tributary_wire::{AggregatorIndex, Bitmap, Flags, JobId, Sequence};

use crate::addressing::Address;
use crate::floats::Floats;
use crate::{JobConfig, Time};

/// A task whose result is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finished {
    pub(super) sequence: u32,
    /// What the result says, the same in every Parameter and Reply.
    pub(super) flags: Flags,
    /// The aggregator that the task used.
    pub(super) index: AggregatorIndex,
}

/// A task that is being collected.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) sequence: u32,
    /// Collision and congestion, as far as merged packets said so.
    pub(super) flags: Flags,
    /// Whose values are in.
    pub(super) bitmap: Bitmap,
    /// The values, if the task is collected in `f32`; else they are added up in the slot's memory.
    pub(super) floats: Option<Floats>,
    /// When the first packet came in.
    pub(super) since: Time,
    /// When the workers that are missing are to be asked.
    pub(super) ask_at: Time,
    /// Before this, a packet that overlaps is no reason to ask.
    pub(super) ask_again_from: Time,
    /// How often the timeout made the PS ask.
    pub(super) timeouts: u32,
    /// Somebody was asked, so the time to completion says nothing of the network.
    pub(super) asked: bool,
}

impl Task {
    pub(super) fn new(sequence: u32, now: Time, ask_at: Time) -> Self {
        Self {
            sequence,
            flags: Flags::NONE,
            bitmap: Bitmap::EMPTY,
            floats: None,
            since: now,
            ask_at,
            ask_again_from: now,
            timeouts: 0,
            asked: false,
        }
    }
}

/// One slot.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) finished: Option<Finished>,
    pub(super) task: Option<Task>,
    address: Address,
    /// The sequence of the task that comes next, or is being collected. In 64 bits, as the last ones
    /// a packet can name have no successor.
    due: u64,
}

impl Slot {
    /// The sequence of the task that is due: being collected, or next.
    pub(super) fn due(&self) -> u64 {
        self.due
    }

    /// The aggregator of the task that is due.
    pub(super) fn index(&self) -> AggregatorIndex {
        self.address.index()
    }
}

/// All slots of a job, and their memory.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Box<[Slot]>,
    /// Two versions of V words for each slot: consecutive tasks of a slot alternate.
    words: Box<[i32]>,
    values: usize,
    job: JobId,
    pool: NonZeroU32,
}

impl Slots {
    pub(super) fn new(job: &JobConfig) -> Self {
        let slot = |number| Slot {
            finished: None,
            task: None,
            address: Address::new(job.job, number, job.pool),
            due: number.into(),
        };
        let values = usize::from(job.values_per_packet);
        Self {
            slots: (0..job.slots).map(slot).collect(),
            words: vec![0; 2 * job.slots as usize * values].into(),
            values,
            job: job.job,
            pool: job.pool,
        }
    }

    /// The slot that a sequence belongs to.
    pub(super) fn number(&self, sequence: u32) -> usize {
        sequence as usize & (self.slots.len() - 1)
    }

    pub(super) fn get(&self, number: usize) -> &Slot {
        &self.slots[number]
    }

    pub(super) fn get_mut(&mut self, number: usize) -> &mut Slot {
        &mut self.slots[number]
    }

    /// The values of a task or result: `i32` sums, or bit patterns of `f32` sums.
    pub(super) fn words(&self, sequence: u32) -> &[i32] {
        &self.words[self.range(sequence)]
    }

    pub(super) fn words_mut(&mut self, sequence: u32) -> &mut [i32] {
        let range = self.range(sequence);
        &mut self.words[range]
    }

    /// Keeps the result of the slot's task, which ends the one before it, and makes the next task
    /// due.
    pub(super) fn finish(&mut self, number: usize, finished: Finished) {
        let period = self.slots.len() as u64;
        let slot = &mut self.slots[number];
        slot.task = None;
        slot.finished = Some(finished);
        slot.due = u64::from(finished.sequence) + period;
        if finished.flags.contains(Flags::COLLISION) {
            slot.address.collided(self.job, number as u32, self.pool);
        }
    }

    /// The tasks that are being collected, with their slots.
    pub(super) fn tasks(&self) -> impl Iterator<Item = (usize, &Task)> {
        let numbered = self.slots.iter().enumerate();
        numbered.filter_map(|(number, slot)| Some((number, slot.task.as_ref()?)))
    }

    /// The lowest of the tasks that began by `latest`: its sequence, what it has, when it began.
    pub(super) fn lowest_begun_by(&self, latest: Time) -> Option<(Sequence, Bitmap, Time)> {
        self.tasks()
            .filter(|(_, task)| task.since <= latest)
            .map(|(_, task)| (Sequence(task.sequence), task.bitmap, task.since))
            .min_by_key(|(sequence, ..)| *sequence)
    }

    fn range(&self, sequence: u32) -> Range<usize> {
        let version = sequence as usize & (2 * self.slots.len() - 1);
        version * self.values..(version + 1) * self.values
    }
}
