//! Finds out why jobs wait.

use std::collections::BTreeMap;
use std::mem::discriminant;

use tributary_base::{DECISIONS, counted};
use tributary_cluster::Pending;

use super::{Manager, Wait};
use crate::job::{Phase, Record};

/// Number of jobs that a reason names.
const NAMED: usize = 3;

impl Manager {
    /// GPUs of the servers with an agent, and those of them that no job holds.
    pub(super) fn gpus(&self) -> (u32, u32) {
        let here = self.site.servers().filter(|server| self.is_here(&server.name));
        let all: u32 = here.map(|server| server.gpus).sum();
        let runs = self.durable.jobs.values().filter_map(|record| record.phase.run());
        let tasks = runs.flat_map(|run| &run.tasks).filter(|task| self.is_here(&task.server));
        (all, all.saturating_sub(tasks.map(|task| task.gpus).sum()))
    }

    /// Notes why jobs still wait, and logs what is new. `before` are the reasons after the preceding
    /// round, and `free_before` the GPUs that this one could give.
    pub(super) fn explain_waits(
        &mut self,
        waiting: &[Pending],
        before: &BTreeMap<u32, Wait>,
        free_before: u32,
    ) {
        let (all, free) = self.gpus();
        let waits = |record: &Record| record.phase == Phase::Waiting;
        let (still, placed): (Vec<&Pending>, Vec<&Pending>) = waiting
            .iter()
            .partition(|pending| self.durable.jobs.get(&pending.job.id.0).is_some_and(waits));
        for &Pending { ref job, value } in still {
            let (id, wanted) = (job.id.0, job.gpus);
            let why = match self.waits.get(&id) {
                Some(why) => why.clone(),
                None if all == 0 => Wait::NoAgent,
                None if wanted > all => Wait::TooFew { wanted, there: all },
                None if wanted > free_before => Wait::Busy { wanted, free },
                None if wanted > free => Wait::PassedOver {
                    wanted,
                    value: format!("{value:.3}"),
                    free: free_before,
                    taken: free_before - free.min(free_before),
                    others: self.named(id, &placed),
                },
                None => Wait::NoPlace { free, policy: self.policy.name().to_owned() },
            };
            let is_new = before.get(&id).map(discriminant) != Some(discriminant(&why));
            if is_new && let Some(record) = self.durable.jobs.get(&id) {
                let (name, tenant) = (&*record.request.name, record.request.tenant.as_deref());
                let policy = self.policy.name();
                tracing::info!(target: DECISIONS, job = id, name, tenant, value, policy, "waits: {why}");
            }
            self.waits.insert(id, why);
        }
    }

    /// The placed jobs, for the reason of a job that waits. Tenants do not learn of each other's jobs.
    fn named(&self, waits: u32, placed: &[&Pending]) -> String {
        let tenant = |job: u32| {
            let record = self.durable.jobs.get(&job);
            record.and_then(|record| record.request.tenant.as_deref())
        };
        let own = tenant(waits);
        let (shown, hidden): (Vec<&Pending>, Vec<&Pending>) =
            placed.iter().partition(|other| own.is_none() || tenant(other.job.id.0) == own);
        let named = shown.iter().take(NAMED);
        let named = named.map(|other| format!("job {} (value {:.3})", other.job.id.0, other.value));
        let more = Some(shown.len().saturating_sub(NAMED)).filter(|more| *more > 0);
        let more = more.map(|more| format!("{more} more"));
        let hidden = Some(hidden.len()).filter(|hidden| *hidden > 0);
        let hidden = hidden.map(|hidden| format!("{} of other tenants", counted(hidden, "job")));
        named.chain(more).chain(hidden).collect::<Vec<_>>().join(", ")
    }
}
