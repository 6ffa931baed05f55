//! Jobs that go on when a worker dies.

use tributary_base::document::{Error, Table};

use super::Jobs;
use crate::{JobSpec, OnDeath, RandomTensors, Topology, Verify, Workload};

const CHOICES: [(&str, OnDeath); 3] =
    [("end", OnDeath::End), ("continue", OnDeath::Continue { least: 1 }), ("wait", OnDeath::Wait)];

/// Reads `on_death` and `min_workers`.
pub(super) fn on_death(
    table: &Table<'_>,
    workers: usize,
    threads: u32,
    workload: &Workload,
) -> Result<OnDeath, Error> {
    let choice = table.or("on_death", OnDeath::End, |item| item.choice(&CHOICES))?;
    let least = table.get("min_workers");
    if let (OnDeath::End | OnDeath::Wait, Some(item)) = (choice, &least) {
        let what = match choice {
            OnDeath::Wait => "the job waits for workers that die, so `min_workers` has no meaning",
            _ => "the job ends when a worker dies, so `min_workers` has no meaning",
        };
        return Err(item.fault(what, "add on_death = \"continue\", or leave it out"));
    }
    if choice == OnDeath::End {
        return Ok(choice);
    }
    let refuse = |what: &str, fix: &str| Err(table.place_of("on_death").fault(what, fix));
    if threads > 1 {
        return refuse(
            "a job with several threads per worker cannot go on without one of its workers",
            "leave `threads` or `on_death` out",
        );
    }
    match workload {
        Workload::Random(RandomTensors { verify: Verify::All, .. }) => {}
        Workload::Random(_) => {
            return refuse(
                "with verify = \"share\", nobody would compare the share of a worker that dies",
                "leave `verify` or `on_death` out",
            );
        }
        Workload::Files(_) => {
            return refuse(
                "a job that sums files has one round, and nothing to go on with after it",
                "leave `on_death` out",
            );
        }
        Workload::Digits(_) => {
            return refuse(
                "training on digits is compared with a training of all workers, which the job would not be",
                "leave `on_death` out, or take a workload of kind \"random\"",
            );
        }
    }
    if choice == OnDeath::Wait {
        return Ok(choice);
    }
    let most = u32::try_from(workers).unwrap_or(u32::MAX);
    let least = least.map_or(Ok(1), |item| item.integer32(1..=most))?;
    Ok(OnDeath::Continue { least })
}

impl Jobs<'_> {
    /// Refuses jobs over several units that go on without workers, where the switch of one unit may add for them: how the
    /// loop schedules a running iteration depends on its workers.
    pub(crate) fn refuse_losses_of_parts(
        &self,
        topology: &Topology,
        jobs: &[JobSpec],
    ) -> Result<(), Error> {
        for (table, job) in self.tables.iter().zip(jobs) {
            let mut units = job.workers.iter().map(|&host| topology.attachment(host).0);
            let first = units.next();
            let wide = units.any(|unit| Some(unit) != first);
            if wide && matches!(job.on_death, OnDeath::Continue { .. }) {
                return Err(table.place_of("on_death").fault(
                    "with `partial_inc`, a job over several units cannot go on without one of its workers",
                    "set on_death = \"wait\", or leave it out",
                ));
            }
        }
        Ok(())
    }
}
