//! What the aggregators of a switch hold, from reads of its registers. For people who watch: nothing that
//! the controller does depends on it, and BMv2's P4Runtime server cannot read registers.

use std::collections::BTreeMap;
use std::ops::Range;

use tributary_p4runtime::p4::config::v1::P4Info;
use tributary_p4runtime::p4::v1::{
    self as p4, Entity, P4Data, RegisterEntry, TableEntry, entity, p4_data, table_action,
};
use tributary_wire::{Bitmap, Epoch, JobId, Run};

use crate::catalogue::{Catalogue, is_named};
use crate::entries::{self, JobSlot, key, number};

/// The registers that say what aggregators hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Registers {
    kind: Kind,
    /// Number of aggregators.
    size: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Aggregators that jobs share: the task, and who has contributed.
    Shared { tasks: u32, bitmaps: u32 },
    /// Aggregators in segments of jobs: the round, and who is missing.
    Segments { rounds: u32 },
}

/// What an aggregator holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// The job's run; `None` for aggregators in a segment of a job, which do not say it.
    pub epoch: Option<Epoch>,
    /// Tells apart what the job's aggregators are used for, one after the other.
    pub task: u32,
    /// Who has contributed, or is missing.
    parts: Parts,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Parts {
    Contributed(Bitmap),
    Missing(Bitmap),
}

impl Held {
    /// Whether it waits for those that a bitmap names at this switch.
    #[must_use]
    pub fn waits_for(&self, workers: Bitmap) -> bool {
        match self.parts {
            Parts::Contributed(parts) => !workers.is_subset(parts),
            Parts::Missing(parts) => parts.0 & workers.0 != 0,
        }
    }
}

impl Registers {
    /// `None` if the program has no such registers.
    #[must_use]
    pub fn new(info: &P4Info) -> Option<Self> {
        let register = |name: &str| {
            let mut all = info.registers.iter();
            let found = all.find(|register| is_named(register.preamble.as_ref(), name))?;
            Some((found.preamble.as_ref()?.id, u32::try_from(found.size).ok()?))
        };
        if let (Some((tasks, size)), Some((bitmaps, _))) = (register("tasks"), register("bitmaps"))
        {
            return Some(Self { kind: Kind::Shared { tasks, bitmaps }, size });
        }
        let (rounds, size) = register("rounds")?;
        Some(Self { kind: Kind::Segments { rounds }, size })
    }

    /// Number of aggregators.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// What to read to learn what these aggregators hold.
    #[must_use]
    pub fn request(&self, aggregators: impl IntoIterator<Item = u32>) -> Vec<Entity> {
        let entry = |register, index| {
            let index = Some(p4::Index { index: i64::from(index) });
            let entry = RegisterEntry { register_id: register, index, data: None };
            entries::entity(entity::Entity::RegisterEntry(entry))
        };
        let registers: Vec<u32> = match self.kind {
            Kind::Shared { tasks, bitmaps } => vec![tasks, bitmaps],
            Kind::Segments { rounds } => vec![rounds],
        };
        let of = |index| registers.iter().map(move |&register| entry(register, index));
        aggregators.into_iter().flat_map(of).collect()
    }

    /// What they hold, from a switch's answer to [`request`](Self::request); free ones are missing.
    #[must_use]
    pub fn held(&self, answer: &[Entity]) -> BTreeMap<u32, Held> {
        let mut words: BTreeMap<u32, [u64; 2]> = BTreeMap::new();
        for entity in answer {
            let Some(entity::Entity::RegisterEntry(entry)) = &entity.entity else { continue };
            let Some((index, word)) = entry.index.as_ref().zip(entry.data.as_ref().and_then(word))
            else {
                continue;
            };
            let Ok(index) = u32::try_from(index.index) else { continue };
            let place = match self.kind {
                Kind::Shared { bitmaps, .. } => usize::from(entry.register_id == bitmaps),
                Kind::Segments { .. } => 0,
            };
            words.entry(index).or_default()[place] = word;
        }
        let held = words.into_iter().filter_map(|(index, [first, second])| {
            let (high, low) = ((first >> 32) as u32, first as u32);
            let held = match self.kind {
                Kind::Shared { .. } => Held {
                    epoch: Some(Epoch::new(high)?),
                    task: low,
                    parts: Parts::Contributed(Bitmap(second as u32)),
                },
                Kind::Segments { .. } => {
                    if low == 0 {
                        return None;
                    }
                    Held { epoch: None, task: high, parts: Parts::Missing(Bitmap(low)) }
                }
            };
            Some((index, held))
        });
        held.collect()
    }
}

/// A register's element as one word. Programs for Tofino have two halves, the lower one first.
fn word(data: &P4Data) -> Option<u64> {
    match data.data.as_ref()? {
        p4_data::Data::Bitstring(bytes) => number(bytes),
        p4_data::Data::Struct(halves) => match halves.members.as_slice() {
            [low, high] => Some(word(high)? << 32 | word(low)? & u64::from(u32::MAX)),
            _ => None,
        },
        _ => None,
    }
}

/// What a switch's tables say about its jobs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Served {
    /// The runs, and their counter slots.
    pub runs: BTreeMap<Run, JobSlot>,
    /// By run, the ports that workers or racks are behind, and their bitmaps.
    pub units: BTreeMap<Run, BTreeMap<u16, Bitmap>>,
    /// Aggregators of jobs that have their own.
    pub segments: BTreeMap<JobId, Range<u32>>,
}

impl Served {
    /// What to read.
    #[must_use]
    pub fn request(catalogue: &Catalogue) -> Vec<Entity> {
        let services = catalogue.services.as_ref().map(|services| services.table.id);
        let all = |table_id| {
            let entry = TableEntry { table_id, ..TableEntry::default() };
            entries::entity(entity::Entity::TableEntry(entry))
        };
        std::iter::once(catalogue.memberships.id).chain(services).map(all).collect()
    }

    /// From a switch's answer to [`request`](Self::request).
    #[must_use]
    pub fn of(catalogue: &Catalogue, answer: &[Entity]) -> Self {
        let mut served = Self::default();
        for entity in answer {
            let Some(entity::Entity::TableEntry(entry)) = &entity.entity else { continue };
            let action = entry.action.as_ref().and_then(|action| action.r#type.as_ref());
            let Some(table_action::Type::Action(action)) = action else { continue };
            let param = |id: u32| {
                let param = action.params.iter().find(|param| param.param_id == id)?;
                u32::try_from(number(&param.value)?).ok()
            };
            if let Some(run) = entries::run_of(catalogue, entry) {
                let contributes = action.action_id == catalogue.contribute.id;
                if !contributes {
                    continue;
                }
                let [unit, .., slot] = catalogue.contribute.params;
                if let Some(slot) = param(slot).and_then(|slot| u8::try_from(slot).ok())
                    && let Some(slot) = JobSlot::new(slot)
                {
                    served.runs.insert(run, slot);
                }
                let port = key(entry, catalogue.memberships.id, catalogue.memberships.fields[2]);
                let port = port.and_then(|port| u16::try_from(port).ok());
                if let Some((port, unit)) = port.zip(param(unit)) {
                    served.units.entry(run).or_default().insert(port, Bitmap(unit));
                }
            } else if let Some(services) = &catalogue.services
                && action.action_id == services.aggregate.id
            {
                let job = key(entry, services.table.id, services.table.fields[0]);
                let job = job.and_then(|job| u16::try_from(job).ok()).and_then(JobId::new);
                let [offset, size, ..] = services.aggregate.params;
                if let (Some(job), Some(offset), Some(size)) = (job, param(offset), param(size)) {
                    served.segments.insert(job, offset..offset.saturating_add(size));
                }
            }
        }
        served
    }
}
