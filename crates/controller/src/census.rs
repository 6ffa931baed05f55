//! What a switch's own state tells about the jobs that it serves: which there are, what their packets met,
//! and whose its aggregators are.
//!
//! A [`Census`] knows what to read, and what the answers mean. Reading is up to its user: a process that has
//! the switch inside reads without a connection. BMv2 does not let its registers be read, so that only the
//! embedded switch tells whose aggregators are.

use std::collections::BTreeMap;

use tributary_p4runtime::p4::config::v1::P4Info;
use tributary_p4runtime::p4::v1::{
    Entity, P4Data, RegisterEntry, TableEntry, entity, p4_data, table_action,
};
use tributary_wire::{Epoch, JobId, Run, Segment};

use crate::catalogue::Catalogue;
use crate::entries::{self, JobSlot};
use crate::outcomes::{self, Count, Outcomes};

/// What to read of a switch with one of our programs.
#[derive(Clone, Debug)]
pub struct Census {
    catalogue: Catalogue,
    pool: Option<Pool>,
}

/// The register that tells whether an aggregator is in use.
#[derive(Clone, Copy, Debug)]
struct Pool {
    register: u32,
    size: u32,
    has_segments: bool,
}

/// The jobs of a switch.
#[derive(Clone, Debug, Default)]
pub struct Present {
    /// The runs that it serves, and their counters.
    pub runs: BTreeMap<Run, JobSlot>,
    /// Jobs and their segments.
    segments: Vec<(JobId, Segment)>,
}

/// Aggregators in use, by job; `None` for those that no present job has.
pub type InUse = BTreeMap<Option<JobId>, u32>;

impl Census {
    /// `None` if the program is not made of the blocks in `p4src/include`.
    #[must_use]
    pub fn new(info: &P4Info) -> Option<Self> {
        let catalogue = Catalogue::new(info).ok()?;
        let has_segments = catalogue.services.is_some();
        let name = if has_segments { "rounds" } else { "tasks" };
        let register = info.registers.iter().find(|register| {
            let own = register.preamble.as_ref();
            own.is_some_and(|own| own.name.rsplit('.').next() == Some(name))
        });
        let pool = register.and_then(|register| {
            let size = u32::try_from(register.size).ok()?;
            Some(Pool { register: register.preamble.as_ref()?.id, size, has_segments })
        });
        Some(Self { catalogue, pool })
    }

    /// Number of aggregators, if the program tells.
    #[must_use]
    pub fn pool(&self) -> Option<u32> {
        self.pool.map(|pool| pool.size)
    }

    /// Asks for the jobs.
    #[must_use]
    pub fn jobs_request(&self) -> Vec<Entity> {
        let services = self.catalogue.services.as_ref().map(|services| services.table.id);
        let tables = std::iter::once(self.catalogue.memberships.id).chain(services);
        let all = tables.map(|table_id| TableEntry { table_id, ..TableEntry::default() });
        all.map(|all| entries::entity(entity::Entity::TableEntry(all))).collect()
    }

    /// The jobs, from the answer to [`jobs_request`](Self::jobs_request).
    #[must_use]
    pub fn jobs(&self, answer: &[Entity]) -> Present {
        let mut present = Present::default();
        for entity in answer {
            let Some(entity::Entity::TableEntry(entry)) = &entity.entity else { continue };
            if let Some(run) = entries::run_of(&self.catalogue, entry)
                && let Some(slot) = self.slot(entry)
            {
                present.runs.insert(run, slot);
            }
            present.segments.extend(entries::segment_of(&self.catalogue, entry));
        }
        present
    }

    /// The counters that a membership entry names.
    fn slot(&self, entry: &TableEntry) -> Option<JobSlot> {
        let Catalogue { contribute, distribute, remind, answer, pass, .. } = &self.catalogue;
        let [.., last] = contribute.params;
        let places = [
            (contribute.id, last),
            (distribute.id, distribute.params[1]),
            (remind.id, remind.params[1]),
            (answer.id, answer.params[0]),
            (pass.id, pass.params[0]),
        ];
        let action = entry.action.as_ref()?.r#type.as_ref()?;
        let table_action::Type::Action(action) = action else { return None };
        let (_, param) = places.into_iter().find(|(id, _)| *id == action.action_id)?;
        let slot = action.params.iter().find(|given| given.param_id == param)?;
        JobSlot::new(u8::try_from(number(&slot.value)?).ok()?)
    }

    /// Asks for the outcomes of a job's packets, or (`None`) of packets that belong to no job.
    #[must_use]
    pub fn outcomes_request(&self, slot: Option<JobSlot>) -> Vec<Entity> {
        Outcomes::request(&self.catalogue, slot)
    }

    /// The outcomes, from that answer.
    #[must_use]
    pub fn outcomes(&self, slot: Option<JobSlot>, answer: &[Entity]) -> Outcomes {
        Outcomes::of(&self.catalogue, slot, answer)
    }

    /// Asks for evicted partial sums; empty if the program does not evict.
    #[must_use]
    pub fn evictions_request(&self) -> Vec<Entity> {
        outcomes::evictions_request(&self.catalogue)
    }

    /// A run's evicted partial sums, from that answer.
    #[must_use]
    pub fn evictions(&self, epoch: Epoch, answer: &[Entity]) -> Count {
        outcomes::evictions(&self.catalogue, epoch, answer)
    }

    /// Asks for the state of all aggregators; empty if the program does not tell.
    #[must_use]
    pub fn aggregators_request(&self) -> Vec<Entity> {
        let all = self
            .pool
            .map(|pool| RegisterEntry { register_id: pool.register, ..Default::default() });
        all.map(|all| entries::entity(entity::Entity::RegisterEntry(all))).into_iter().collect()
    }

    /// Adds the aggregators in use that a part of that answer has.
    pub fn count(&self, present: &Present, answer: &[Entity], in_use: &mut InUse) {
        let Some(pool) = self.pool else { return };
        let by_epoch: BTreeMap<Epoch, JobId> =
            present.runs.keys().map(|run| (run.epoch, run.job)).collect();
        for entity in answer {
            let Some(entity::Entity::RegisterEntry(cell)) = &entity.entity else { continue };
            let Some((upper, lower)) = cell.data.as_ref().and_then(words) else { continue };
            let job = if pool.has_segments {
                // The workers that a round still waits for are below, and none is when it is over.
                if lower == 0 {
                    continue;
                }
                let index = cell.index.as_ref().and_then(|index| u32::try_from(index.index).ok());
                let holds = |segment: &Segment| {
                    index
                        .and_then(|at| at.checked_sub(segment.offset.0))
                        .is_some_and(|at| at < segment.size)
                };
                present.segments.iter().find(|(_, segment)| holds(segment)).map(|(job, _)| *job)
            } else {
                // The run above, the fragment below.
                let Some(epoch) = Epoch::new(upper) else { continue };
                by_epoch.get(&epoch).copied()
            };
            *in_use.entry(job).or_default() += 1;
        }
    }
}

/// The upper and the lower half of a cell, which is one number of 64 bits, or a struct with the lower half
/// first.
fn words(data: &P4Data) -> Option<(u32, u32)> {
    let half = |data: &P4Data| match &data.data {
        Some(p4_data::Data::Bitstring(bytes)) => number(bytes),
        _ => None,
    };
    match &data.data {
        Some(p4_data::Data::Struct(both)) => {
            let [lower, upper] = both.members.as_slice() else { return None };
            Some((u32::try_from(half(upper)?).ok()?, u32::try_from(half(lower)?).ok()?))
        }
        _ => half(data).map(|word| ((word >> 32) as u32, word as u32)),
    }
}

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.iter().try_fold(0_u64, |number, &byte| {
        number.checked_mul(256).map(|number| number | u64::from(byte))
    })
}

#[cfg(test)]
mod tests {
    use tributary_p4runtime::p4::v1::P4StructLike;

    use super::*;

    #[test]
    fn cells_of_both_architectures_have_the_same_halves() {
        let bits = |bytes: &[u8]| P4Data { data: Some(p4_data::Data::Bitstring(bytes.to_vec())) };
        let members = vec![bits(&[7]), bits(&[1, 0])];
        let both = P4Data { data: Some(p4_data::Data::Struct(P4StructLike { members })) };
        assert_eq!(words(&bits(&[1, 0, 0, 0, 0, 7])), Some((256, 7)));
        assert_eq!(words(&both), Some((256, 7)));
        assert_eq!(words(&bits(&[0])), Some((0, 0)));
    }
}
