//! The ring of slots, each with a task being collected and a result being kept.

use std::ops::Range;

use tributary_wire::{AggregatorIndex, Flags, RUNGS, Round, Sequence, WorkerSet};

use crate::addressing::Places;
use crate::floats::Floats;
use crate::numbering::Numbering;
use crate::{JobConfig, Time, fixed};

/// A task whose result is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finished {
    pub(super) sequence: u32,
    /// The flags of the result, equal in every Parameter and Reply.
    pub(super) flags: Flags,
    /// The aggregator that the task used.
    pub(super) index: AggregatorIndex,
    /// The salt from which the aggregator is derived.
    pub(super) salt: u8,
}

/// A task that is being collected.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) sequence: u32,
    /// Collision, congestion and overflow flags of the merged packets.
    pub(super) flags: Flags,
    /// The workers whose values are merged.
    pub(super) merged: WorkerSet,
    /// The values, if the task is collected in `f32`. Integers are summed in the slot's memory.
    pub(super) floats: Option<Floats>,
    /// When the first packet arrived.
    pub(super) since: Time,
    /// When to query the missing workers.
    pub(super) ask_at: Time,
    /// Before this time, an overlapping packet causes no query.
    pub(super) ask_again_from: Time,
    /// Number of queries caused by the timeout.
    pub(super) timeouts: u32,
    /// When a worker was last queried.
    pub(super) asked: Option<Time>,
    /// Whether a merged packet had been sent again.
    pub(super) resent: bool,
}

impl Task {
    pub(super) fn new(sequence: u32, now: Time, ask_at: Time, ask_again_from: Time) -> Self {
        Self {
            sequence,
            flags: Flags::NONE,
            merged: WorkerSet::EMPTY,
            floats: None,
            since: now,
            ask_at,
            ask_again_from,
            timeouts: 0,
            asked: None,
            resent: false,
        }
    }
}

/// A result that a worker asked for and that only the preceding PS had.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lost {
    pub(super) sequence: u32,
    /// The workers that sent values for it. At least one of these workers lacks the result.
    pub(super) wanted_by: WorkerSet,
    /// Workers are not asked for it again before this time.
    pub(super) ask_again_from: Time,
}

/// One slot.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) finished: Option<Finished>,
    pub(super) lost: Option<Lost>,
    pub(super) task: Option<Task>,
    /// Whether the task uses the odd one of the slot's two versions of values.
    odd: bool,
    /// The sequence of the task that is being collected or comes next. It has 64 bits, because the
    /// last tasks that a packet can name have no successor.
    due: u64,
    /// Whether `due` is certain, rather than only the highest task received so far.
    sure: bool,
}

impl Slot {
    /// The sequence of the due task: being collected, or next.
    pub(super) fn due(&self) -> u64 {
        self.due
    }

    /// Whether a task above the due one may replace it.
    pub(super) fn may_skip(&self) -> bool {
        !self.sure
    }
}

/// All slots of a job, and their memory.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    slots: Box<[Slot]>,
    places: Places,
    /// Two versions of V words per slot, between which consecutive tasks of a slot alternate.
    words: Box<[i32]>,
    values: usize,
    numbering: Numbering,
    /// Whether there may have been an earlier PS, so that the due task is never certain.
    successor: bool,
}

impl Slots {
    pub(super) fn new(job: &JobConfig, successor: bool) -> Self {
        let numbering = Numbering::of(job.protocol);
        // A PS that counts fragments serves the job from the first fragment on.
        let sure = numbering == Numbering::Fragments && !successor;
        let slot = |number| Slot {
            finished: None,
            lost: None,
            task: None,
            odd: false,
            due: if sure { u64::from(number) } else { 0 },
            sure,
        };
        let values = usize::from(job.values_per_packet);
        Self {
            slots: (0..job.slots).map(slot).collect(),
            places: Places::new(job),
            words: vec![0; 2 * job.slots as usize * values].into(),
            values,
            numbering,
            successor,
        }
    }

    /// Whether there may have been an earlier PS.
    pub(super) fn is_successor(&self) -> bool {
        self.successor
    }

    /// Switches to another assignment while all workers are idle. The due tasks are no longer
    /// certain, but they are lower bounds.
    pub(super) fn reassign(&mut self, job: &JobConfig) {
        self.places = Places::new(job);
        for slot in &mut self.slots {
            slot.finished = None;
            slot.lost = None;
            slot.task = None;
            slot.sure = false;
        }
    }

    /// The slot that a sequence belongs to.
    pub(super) fn number(&self, sequence: u32) -> usize {
        self.numbering.round(Sequence(sequence)).fragment as usize & (self.slots.len() - 1)
    }

    pub(super) fn get(&self, number: usize) -> &Slot {
        &self.slots[number]
    }

    pub(super) fn get_mut(&mut self, number: usize) -> &mut Slot {
        &mut self.slots[number]
    }

    /// The aggregator of a due task.
    pub(super) fn index(&self, sequence: u32) -> AggregatorIndex {
        self.places.index(self.fragment(sequence))
    }

    /// The salt of a due task.
    pub(super) fn salt(&self, sequence: u32) -> u8 {
        self.places.salt(self.fragment(sequence))
    }

    /// Whether a packet may name an aggregator for a task. A successor does not know the salts and
    /// accepts the packet's.
    pub(super) fn is_right(&self, sequence: u32, index: AggregatorIndex, salt: u8) -> bool {
        let fragment = self.fragment(sequence);
        match self.successor {
            true => index == self.places.index_at(fragment, salt),
            false => index == self.places.index(fragment),
        }
    }

    fn fragment(&self, sequence: u32) -> u32 {
        self.numbering.round(Sequence(sequence)).fragment
    }

    /// The sums of the slot's task.
    pub(super) fn sums_mut(&mut self, number: usize) -> &mut [i32] {
        let range = self.range(number, self.slots[number].odd);
        &mut self.words[range]
    }

    /// The values of the result that the slot keeps: `i32` sums, or bit patterns of `f32` sums.
    pub(super) fn kept(&self, number: usize) -> &[i32] {
        &self.words[self.range(number, !self.slots[number].odd)]
    }

    /// Makes the highest task received so far the due one, in a slot that may skip. All earlier
    /// tasks are complete, or the sender would not have reached this one. The salt comes from the
    /// task's first packet.
    pub(super) fn skip_to(&mut self, number: usize, sequence: u32, salt: u8) {
        let fragment = self.fragment(sequence);
        let slot = &mut self.slots[number];
        if slot.due < sequence.into() {
            slot.due = sequence.into();
            slot.task = None;
        }
        if self.successor && slot.task.is_none() {
            self.places.set_salt(fragment, salt);
        }
    }

    /// Keeps a result that a worker handed over. Discards what is collected for the same or an
    /// earlier task. Returns the workers that may lack the result.
    pub(super) fn adopt(&mut self, number: usize, finished: Finished, payload: &[u8]) -> WorkerSet {
        let Finished { sequence, flags, salt, .. } = finished;
        let round = self.numbering.round(Sequence(sequence));
        let due = self.following(round, flags);
        let range = self.range(number, !self.slots[number].odd);
        fixed::read(payload, &mut self.words[range]);
        let slot = &mut self.slots[number];
        slot.finished = Some(finished);
        let lost = slot.lost.take_if(|lost| lost.sequence <= sequence);
        let task = slot.task.take_if(|task| task.sequence <= sequence);
        if slot.due < due {
            slot.due = due;
        }
        if slot.task.is_none() {
            self.places.set_salt(round.fragment, salt);
        }
        let lost = lost.map(|lost| (lost.sequence, lost.wanted_by));
        let task = task.map(|task| (task.sequence, task.merged));
        let lack = lost.into_iter().chain(task).filter(|(wanted, _)| *wanted == sequence);
        lack.fold(WorkerSet::EMPTY, |all, (_, workers)| all | workers)
    }

    /// Keeps the result of the slot's task, discards the preceding result, and makes the next task
    /// due.
    pub(super) fn finish(&mut self, number: usize, finished: Finished) {
        let round = self.numbering.round(Sequence(finished.sequence));
        let due = self.following(round, finished.flags);
        let slot = &mut self.slots[number];
        slot.task = None;
        slot.lost = None;
        slot.finished = Some(finished);
        slot.odd = !slot.odd;
        slot.due = due;
        slot.sure = !self.successor;
        self.places.over(round.fragment, finished.flags.contains(Flags::COLLISION));
    }

    /// The sequence of the task that follows a round in its slot.
    fn following(&self, round: Round, flags: Flags) -> u64 {
        let next = u64::from(round.fragment) + self.slots.len() as u64;
        match self.numbering {
            Numbering::Fragments => next,
            Numbering::Rounds => match round.coarser() {
                Some(coarser) if flags.contains(Flags::OVERFLOW) => coarser.sequence().0.into(),
                _ => next * u64::from(RUNGS),
            },
        }
    }

    /// The tasks being collected, with the numbers of their slots.
    pub(super) fn tasks(&self) -> impl Iterator<Item = (usize, &Task)> {
        let numbered = self.slots.iter().enumerate();
        numbered.filter_map(|(number, slot)| Some((number, slot.task.as_ref()?)))
    }

    /// The lowest of the tasks that began at or before `latest`: its sequence, whose values are in,
    /// and when
    /// it began.
    pub(super) fn lowest_begun_by(&self, latest: Time) -> Option<(Sequence, WorkerSet, Time)> {
        self.tasks()
            .filter(|(_, task)| task.since <= latest)
            .map(|(_, task)| (Sequence(task.sequence), task.merged, task.since))
            .min_by_key(|(sequence, ..)| *sequence)
    }

    fn range(&self, number: usize, odd: bool) -> Range<usize> {
        let version = 2 * number + usize::from(odd);
        version * self.values..(version + 1) * self.values
    }
}
