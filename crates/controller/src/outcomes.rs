//! Outcomes of packets, as switches count them.

use std::ops::{AddAssign, Index};

use tributary_p4runtime::p4::v1::{
    self as p4, CounterData, CounterEntry, DirectCounterEntry, Entity, TableEntry, entity,
};
use tributary_wire::Epoch;

use crate::catalogue::{Catalogue, SLOT_COUNTERS};
use crate::entries::{self, JobSlot};

/// The outcome of a packet. Each packet is counted under exactly one, in the order of the P4
/// programs' `outcome_t`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Outcome {
    /// Plain traffic, forwarded.
    Forwarded,
    /// First of its task: occupied an empty aggregator.
    Absorbed,
    /// Added to its task's aggregator.
    Added,
    /// Added as the last contribution; left with the sum.
    Completed,
    /// Found another task's aggregator; forwarded unchanged and marked. ESA halves that
    /// aggregator's priority.
    Collided,
    /// Needed no aggregator here: marked, overflowed, already complete, or for another switch.
    Bypassed,
    /// A resend that found no aggregator.
    Resent,
    /// A resend in ATP that took its task's partial sum to the PS and freed the aggregator.
    Flushed,
    /// Its contribution was already in the aggregator.
    Duplicate,
    /// Took over an aggregator that had been idle for long.
    Seized,
    /// A result, multicast to the workers.
    Distributed,
    /// A result for one worker.
    Replied,
    /// A query for one worker.
    Queried,
    /// One step of a sweep.
    Swept,
    /// Its port may not send such packets for its job.
    Rejected,
    /// Wrong length, count, flags, bitmap, priority or index.
    Malformed,
    /// Evicted another task from its aggregator and left as that task's partial sum. Counted for
    /// the job that took the aggregator.
    Preempted,
    /// A reminder that fetched a partial sum and freed the aggregator.
    Reminded,
    /// A reminder that found no partial sum.
    Absent,
    /// An answer of another switch to a reminder, forwarded.
    Answered,
    /// Named an aggregator outside its job's segment.
    Outside,
    /// Its round was over: the result was returned to its sender, from the copy.
    Repeated,
    /// Named an aggregator still busy with an earlier round: returned to its sender, marked.
    Asynchronous,
    /// Of an old round whose result the aggregator no longer keeps.
    Stale,
    /// Plain traffic that a host could parse as an aggregation packet: tags, EtherTypes other than
    /// IPv4, IPv6 and ARP, UDP with IP options or in fragments, tunnels. Dropped.
    Barred,
    /// More than its port may send, for its job or of plain traffic. Dropped.
    Exceeded,
}

impl Outcome {
    /// All outcomes, in the order of their codes.
    pub const ALL: [Self; 26] = [
        Self::Forwarded,
        Self::Absorbed,
        Self::Added,
        Self::Completed,
        Self::Collided,
        Self::Bypassed,
        Self::Resent,
        Self::Flushed,
        Self::Duplicate,
        Self::Seized,
        Self::Distributed,
        Self::Replied,
        Self::Queried,
        Self::Swept,
        Self::Rejected,
        Self::Malformed,
        Self::Preempted,
        Self::Reminded,
        Self::Absent,
        Self::Answered,
        Self::Outside,
        Self::Repeated,
        Self::Asynchronous,
        Self::Stale,
        Self::Barred,
        Self::Exceeded,
    ];

    /// Name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Forwarded => "forwarded",
            Self::Absorbed => "absorbed",
            Self::Added => "added",
            Self::Completed => "completed",
            Self::Collided => "collided",
            Self::Bypassed => "bypassed",
            Self::Resent => "resent",
            Self::Flushed => "flushed",
            Self::Duplicate => "duplicate",
            Self::Seized => "seized",
            Self::Distributed => "distributed",
            Self::Replied => "replied",
            Self::Queried => "queried",
            Self::Swept => "swept",
            Self::Rejected => "rejected",
            Self::Malformed => "malformed",
            Self::Preempted => "preempted",
            Self::Reminded => "reminded",
            Self::Absent => "absent",
            Self::Answered => "answered",
            Self::Outside => "outside",
            Self::Repeated => "repeated",
            Self::Asynchronous => "asynchronous",
            Self::Stale => "stale",
            Self::Barred => "barred",
            Self::Exceeded => "exceeded",
        }
    }
}

/// A number of packets and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes, Ethernet headers included.
    pub bytes: u64,
}

impl Count {
    fn of(data: &CounterData) -> Self {
        Self {
            packets: u64::try_from(data.packet_count).unwrap_or(0),
            bytes: u64::try_from(data.byte_count).unwrap_or(0),
        }
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// Packets per outcome: `outcomes[Outcome::Absorbed].packets`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcomes([Count; Outcome::ALL.len()]);

impl Outcomes {
    /// Each outcome and its count.
    pub fn iter(&self) -> impl Iterator<Item = (Outcome, Count)> + '_ {
        Outcome::ALL.into_iter().zip(self.0)
    }

    /// The counters to read: those of a job, or (`None`) of packets that belong to no job.
    #[must_use]
    pub fn request(catalogue: &Catalogue, slot: Option<JobSlot>) -> Vec<Entity> {
        let first = i64::from(slot.map_or(0, JobSlot::get)) * SLOT_COUNTERS as i64;
        let counter = |index| CounterEntry {
            counter_id: catalogue.outcomes,
            index: Some(p4::Index { index }),
            data: None,
        };
        (first..first + Outcome::ALL.len() as i64)
            .map(|index| entries::entity(entity::Entity::CounterEntry(counter(index))))
            .collect()
    }

    /// The counts in a switch's answer to [`Outcomes::request`].
    #[must_use]
    pub fn of(catalogue: &Catalogue, slot: Option<JobSlot>, answer: &[Entity]) -> Self {
        let mut counts = Self::default();
        for entity in answer {
            let Some(entity::Entity::CounterEntry(counter)) = &entity.entity else { continue };
            let (Some(index), Some(data)) = (&counter.index, &counter.data) else { continue };
            let Ok(index) = usize::try_from(index.index) else { continue };
            let own_slot = index / SLOT_COUNTERS == usize::from(slot.map_or(0, JobSlot::get));
            if counter.counter_id == catalogue.outcomes
                && own_slot
                && let Some(count) = counts.0.get_mut(index % SLOT_COUNTERS)
            {
                *count = Count::of(data);
            }
        }
        counts
    }
}

impl Index<Outcome> for Outcomes {
    type Output = Count;

    fn index(&self, outcome: Outcome) -> &Count {
        &self.0[outcome as usize]
    }
}

impl AddAssign for Outcomes {
    fn add_assign(&mut self, other: Self) {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            *own += other;
        }
    }
}

/// The counters of evicted partial sums to read; empty if the program does not evict.
#[must_use]
pub fn evictions_request(catalogue: &Catalogue) -> Vec<Entity> {
    let servers = catalogue.servers.iter();
    let all = servers.map(|servers| DirectCounterEntry {
        table_entry: Some(TableEntry { table_id: servers.table.id, ..TableEntry::default() }),
        data: None,
    });
    all.map(|all| entries::entity(entity::Entity::DirectCounterEntry(all))).collect()
}

/// Number of a run's evicted partial sums, from a switch's answer to [`evictions_request`].
#[must_use]
pub fn evictions(catalogue: &Catalogue, epoch: Epoch, answer: &[Entity]) -> Count {
    let mut count = Count::default();
    for entity in answer {
        let Some(entity::Entity::DirectCounterEntry(counter)) = &entity.entity else { continue };
        let (Some(entry), Some(data)) = (&counter.table_entry, &counter.data) else { continue };
        if entries::server_of(catalogue, entry) == Some(epoch) {
            count += Count::of(data);
        }
    }
    count
}
