//! Whose job it is, and how much each tenant may have.

use tributary_access::{Grant, Tenant};
use tributary_wire::JobId;

use super::{Refusal, State};

impl State {
    /// Checks that a job is the business of a client.
    pub(super) fn check_owner(&self, job: JobId, grant: &Grant) -> Result<(), Refusal> {
        let tenant = self.tenant(job)?;
        if grant.covers(tenant.as_deref()) { Ok(()) } else { Err(Refusal::Foreign(job)) }
    }

    /// The tenant of a job; `None` if it has none.
    pub(super) fn tenant(&self, job: JobId) -> Result<Option<String>, Refusal> {
        self.jobs.get(&job).map(|entry| entry.tenant.clone()).ok_or(Refusal::Unknown(job))
    }

    /// Checks that a tenant may have one more job, or a job `instead` of the one that it has.
    pub(super) fn check_quota(
        &self,
        tenant: &Tenant,
        size: u32,
        instead: Option<JobId>,
    ) -> Result<(), Refusal> {
        let others = self.jobs.iter().filter(|(job, entry)| {
            entry.tenant.as_deref() == Some(&*tenant.name) && Some(**job) != instead
        });
        let others: Vec<u32> = others.map(|(_, entry)| entry.size).collect();
        let count = u32::try_from(others.len()).unwrap_or(u32::MAX);
        let has = others.iter().fold(0_u32, |sum, size| sum.saturating_add(*size));
        let jobs = tenant.jobs.filter(|_| instead.is_none());
        for (what, has, more, most) in
            [("jobs", count, 1, jobs), ("aggregators", has, size, tenant.aggregators)]
        {
            if let Some(most) = most.filter(|most| has.saturating_add(more) > *most) {
                let tenant = tenant.name.clone();
                return Err(Refusal::Quota { tenant, what, has, more, most });
            }
        }
        Ok(())
    }
}
