//! Occupied aggregators and their jobs.

use std::collections::BTreeSet;

use tributary_dataplane::Pipeline;
use tributary_model::{SwitchId, services};
use tributary_p4::ir::ExternId;
use tributary_wire::{AggregatorIndex, Epoch, JobId, Sequence};

use super::Run;

/// An aggregator that is not in its initial state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// The switch.
    pub switch: SwitchId,
    /// Its index.
    pub cell: u64,
    /// The job that it names or, if jobs have segments, whose segment contains it.
    pub job: Option<JobId>,
    /// Its fragment or round.
    pub sequence: Sequence,
}

impl Run<'_> {
    /// Occupied aggregators. If jobs have segments, an aggregator is occupied from its first
    /// contribution to the sweep.
    pub fn held(&self) -> Vec<Held> {
        self.scenario.network.topology.switch_ids().flat_map(|id| self.held_at(id)).collect()
    }

    fn held_at(&self, id: SwitchId) -> Vec<Held> {
        let forwarding = self.system.network.switch(id).forwarding().expect("a program was pushed");
        let pipeline = forwarding.pipeline();
        if let Some(tasks) = register(pipeline, ".tasks") {
            let holder = |(cell, identity): (u64, u64)| {
                let epoch = Epoch::new((identity >> 32) as u32)?;
                let job = self.scenario.jobs.iter().find(|job| job.epoch == epoch);
                let job = job.map(|job| job.id);
                Some(Held { switch: id, cell, job, sequence: Sequence(identity as u32) })
            };
            return cells(pipeline, tasks).filter_map(holder).collect();
        }
        let rounds =
            register(pipeline, "rounds.rounds").expect("the program keeps one or the other");
        let copied: Option<Vec<u64>> = register(pipeline, "copied.copied")
            .map(|copied| cells(pipeline, copied).map(|(_, round)| round).collect());
        let owners = self.owners(id);
        let holder = |(cell, round): (u64, u64)| {
            let copied = copied.as_ref().map_or(0, |copied| copied[cell as usize]);
            if round == 0 && copied == 0 {
                return None;
            }
            let index = AggregatorIndex(cell as u32);
            let owner = owners.iter().find(|(_, segment)| segment.contains(index));
            let job = owner.map(|(job, _)| *job);
            // Plus one, because zero is an aggregator that was never used.
            let sequence = Sequence(((round >> 32) as u32).wrapping_sub(1));
            Some(Held { switch: id, cell, job, sequence })
        };
        cells(pipeline, rounds).filter_map(holder).collect()
    }

    /// The segments of a switch, and their jobs.
    fn owners(&self, id: SwitchId) -> Vec<(JobId, tributary_wire::Segment)> {
        let topology = &self.scenario.network.topology;
        let mut owners = Vec::new();
        for (index, job) in self.scenario.jobs.iter().enumerate() {
            let placement = self.system.deployment().placement(index);
            let adders = services::adders(topology, &placement);
            if !self.ended.contains(&index) && adders.contains(&id) {
                owners.push((job.id, self.assignment(index).segment));
            }
        }
        owners
    }

    /// Finds aggregators of jobs that were ended, or of no job.
    pub(super) fn find_leaks(&mut self) {
        let jobs = self.scenario.jobs.iter().enumerate();
        let live: BTreeSet<JobId> =
            jobs.filter(|(index, _)| !self.ended.contains(index)).map(|(_, job)| job.id).collect();
        let leaked = |held: &Held| !held.job.is_some_and(|job| live.contains(&job));
        let found: Vec<Held> = self.held().into_iter().filter(leaked).collect();
        self.leaks.extend(found);
    }
}

fn register(pipeline: &Pipeline, name: &str) -> Option<ExternId> {
    let externs = &pipeline.program().externs;
    let number = externs.iter().position(|instance| instance.name.ends_with(name))?;
    u32::try_from(number).ok().map(ExternId)
}

/// The cells of a register of at most 64 bits. In a register of pairs, the second scalar is above
/// the first, which has 32 bits.
fn cells(pipeline: &Pipeline, register: ExternId) -> impl Iterator<Item = (u64, u64)> + '_ {
    let cells = 0..pipeline.array_size(register).unwrap_or_default();
    cells.filter_map(move |cell| {
        let scalar = |at| pipeline.register_read_scalar(register, cell, at).ok()?.to_u64();
        Some((cell, scalar(0)? | scalar(1).map_or(0, |high| high << 32)))
    })
}
