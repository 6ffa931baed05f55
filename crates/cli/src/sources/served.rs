//! The jobs of a controller, and what their tenants may have.

use std::collections::BTreeMap;
use std::fmt;

use tributary_access::Policy;
use tributary_controller::service::{Jobs, Listed};
use tributary_metrics::{Page, Source};
use tributary_wire::JobId;

/// The jobs of a controller, and who may use it.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) jobs: Jobs,
    pub(crate) policy: Policy,
}

impl Source for Served {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        let jobs = self.jobs.list();
        let tenant = |job: &Listed| job.tenant.clone().unwrap_or_default();
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let mut sizes: BTreeMap<String, u64> = BTreeMap::new();
        counts.insert(String::new(), 0);
        for job in &jobs {
            *counts.entry(tenant(job)).or_default() += 1;
            let size = job.placement.assignment.segment.size;
            *sizes.entry(tenant(job)).or_default() += u64::from(size);
        }
        let tenants = self.policy.tenants();
        for tenant in &tenants {
            counts.entry(tenant.name.clone()).or_default();
            sizes.entry(tenant.name.clone()).or_default();
        }
        page.gauge(
            "tributary_controller_jobs",
            "Admitted jobs of a tenant; an empty name stands for jobs without one",
            counts.into_iter().map(|(tenant, count)| ([("tenant", tenant)], count as f64)),
        )?;
        page.gauge(
            "tributary_controller_segment_aggregators",
            "Aggregators in the segments of a tenant's jobs (P4INC, SwitchML)",
            sizes.into_iter().map(|(tenant, size)| ([("tenant", tenant)], size as f64)),
        )?;
        let quotas = tenants.iter().flat_map(|tenant| {
            let quotas = [("jobs", tenant.jobs), ("aggregators", tenant.aggregators)];
            quotas.into_iter().filter_map(|(what, most)| {
                let labels = [("tenant", tenant.name.clone()), ("resource", what.to_owned())];
                Some((labels, f64::from(most?)))
            })
        });
        page.gauge(
            "tributary_controller_quota",
            "Most that a tenant may have of a resource",
            quotas,
        )?;
        let refused = self.jobs.refused().into_iter().map(|((tenant, reason), count)| {
            ([("tenant", tenant), ("reason", reason.to_owned())], count)
        });
        page.counter(
            "tributary_controller_admissions_refused_total",
            "Admissions that were refused",
            refused,
        )?;
        self.write_switches(page)?;
        write_jobs(page, &jobs, self.jobs.protocol().name())
    }
}

impl Served {
    fn write_switches(&self, page: &mut Page<'_>) -> fmt::Result {
        let rooms = self.jobs.room();
        let topology = self.jobs.topology();
        let switch = |room: &tributary_model::memory::Room| {
            [("switch", topology.switch(room.switch).name.clone())]
        };
        page.gauge(
            "tributary_controller_switch_aggregators",
            "Aggregators of a switch that can be given to jobs",
            rooms.iter().map(|room| (switch(room), f64::from(room.aggregators))),
        )?;
        page.gauge(
            "tributary_controller_switch_free_aggregators",
            "Aggregators of a switch that no job has",
            rooms.iter().map(|room| (switch(room), f64::from(room.free))),
        )?;
        page.gauge(
            "tributary_controller_switch_largest_gap_aggregators",
            "Aggregators in the largest free piece: the largest segment that a job can get",
            rooms.iter().map(|room| (switch(room), f64::from(room.largest))),
        )
    }
}

fn write_jobs(page: &mut Page<'_>, jobs: &[Listed], protocol: &'static str) -> fmt::Result {
    let id = |job: &Listed| ("job_id", job.placement.job.get().to_string());
    page.gauge(
        "tributary_job_info",
        "Name and protocol of a job; always 1",
        jobs.iter().flat_map(|job| {
            let named = |lane: &JobId| {
                let id = ("job_id", lane.get().to_string());
                ([id, ("name", job.name.clone()), ("protocol", protocol.to_owned())], 1.0)
            };
            job.lanes.iter().map(named)
        }),
    )?;
    let tenants =
        jobs.iter().filter_map(|job| Some(([id(job), ("tenant", job.tenant.clone()?)], 1.0)));
    page.gauge("tributary_controller_job_tenant", "Whose job it is; always 1", tenants)?;
    page.gauge(
        "tributary_controller_job_iteration",
        "Number of iterations that a job has begun, if clients begin them",
        jobs.iter().filter(|job| job.stepped).map(|job| ([id(job)], job.iteration.number as f64)),
    )?;
    let rates = jobs.iter().filter_map(|job| Some(([id(job)], job.rate?.get() as f64 / 8.0)));
    page.gauge(
        "tributary_controller_job_rate_limit_bytes_per_second",
        "Rate of each worker of a job",
        rates,
    )?;
    let leases = jobs.iter().filter_map(|job| Some(([id(job)], if job.held? { 1.0 } else { 0.0 })));
    page.gauge(
        "tributary_controller_job_lease_held",
        "Whether a client holds the lease of a job; without one it is released soon",
        leases,
    )
}
