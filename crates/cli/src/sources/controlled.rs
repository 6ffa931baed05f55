//! What a controller reads of its switches, whatever they are: embedded, BMv2 or Tofino.

use std::fmt;
use std::sync::Arc;

use tributary_controller::jobs::Controller;
use tributary_controller::outcomes::Outcomes;
use tributary_controller::service;
use tributary_metrics::{Page, Source};

use super::wait;

/// The switches of a controller.
#[derive(Debug)]
pub(crate) struct Controlled(pub(crate) Arc<Controller>);

impl Controlled {
    /// The outcomes of each job's packets in each switch that answers.
    fn outcomes(&self) -> Vec<(u16, String, Outcomes)> {
        let read = async {
            let mut all = Vec::new();
            for job in self.0.job_ids() {
                // A job may end meanwhile.
                let Ok(at) = self.0.present_outcomes(job).await else { continue };
                let named =
                    |(switch, outcomes)| (job.get(), self.0.switch(switch).into(), outcomes);
                all.extend(at.into_iter().map(named));
            }
            all
        };
        wait(read).unwrap_or_default()
    }
}

impl Source for Controlled {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        let switches = self.0.switches();
        page.gauge(
            "tributary_controller_switch_up",
            "Whether the controller is connected to the switch, and its entries are installed",
            switches.iter().map(|session| {
                let up = if session.health().is_ok() { 1.0 } else { 0.0 };
                ([("switch", session.name().to_owned())], up)
            }),
        )?;
        page.counter(
            "tributary_controller_switch_connections_total",
            "Connections to the switch that were made, the first one included",
            switches
                .iter()
                .map(|session| ([("switch", session.name().to_owned())], session.connections())),
        )?;
        let outcomes = self.outcomes();
        let packets = outcomes.iter().flat_map(|(job, switch, outcomes)| {
            outcomes.iter().map(move |(outcome, count)| {
                let labels = [
                    ("switch", switch.clone()),
                    ("job_id", job.to_string()),
                    ("outcome", outcome.name().to_owned()),
                ];
                (labels, count.packets)
            })
        });
        page.counter(
            "tributary_controller_packets_total",
            "Packets of a job by outcome, as the switch's counters tell the controller",
            packets,
        )
    }
}

/// The runs of a controller's jobs.
#[derive(Debug)]
pub(crate) struct TakingPart(pub(crate) service::Jobs);

impl Source for TakingPart {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        let jobs = self.0.taking_part();
        let of = |number: fn(u32, u32) -> u32| {
            jobs.iter().map(move |(job, there, all)| {
                ([("job_id", job.get().to_string())], f64::from(number(*there, *all)))
            })
        };
        page.gauge(
            "tributary_controller_job_workers",
            "Workers that take part in the job's run",
            of(|there, _| there),
        )?;
        page.gauge(
            "tributary_controller_job_workers_lost",
            "Workers that have died, and without which the job's run goes on",
            of(|there, all| all - there),
        )
    }
}
