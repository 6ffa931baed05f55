//! The result of a run, as a table for people and as JSON for programs.

mod findings;
mod lost;
mod segments;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;
use tributary_base::decimal_size;
use tributary_controller::outcomes::Outcome;
use tributary_model::{JobSpec, Protocol};
use tributary_protocol::fixed::Rounding;
use tributary_ps::report::ServerReport;
use tributary_worker::rounding::{self, complaint, grouped};
use tributary_worker::rounds::{Loss, WorkerReport};
use tributary_worker::workload::TrainingReport;

use crate::capture::CaptureReport;
use crate::fabric::{self, Counted};

pub use findings::findings;
pub use lost::LostReport;
pub use segments::{SegmentReport, aggregator_bits};

/// The result of a run.
#[derive(Clone, Debug, Serialize)]
pub struct RunReport {
    /// Name of the job file.
    pub name: String,
    /// Fabric.
    pub fabric: &'static str,
    /// Kind of the switches.
    pub switch: &'static str,
    /// Seed.
    pub seed: u64,
    /// Seconds from the first worker's start to the last one's end.
    pub seconds: f64,
    /// The jobs.
    pub jobs: Vec<JobReport>,
    /// What was wrong with links, or with the machine, one line each.
    pub findings: Vec<String>,
    /// The switches.
    pub switches: Vec<SwitchReport>,
    /// Processor time of all parameter servers and reminder agents in seconds while the workers ran,
    /// after the warm-up; `None` if they have no processes of their own.
    pub servers_cpu_seconds: Option<f64>,
    /// The capture, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capture: Option<CaptureReport>,
}

/// Counters of preemption and reminders of a job (ESA).
#[derive(Clone, Copy, Debug, Serialize)]
pub struct EsaReport {
    /// Packets of the job that took an aggregator from another task.
    pub preemptions: u64,
    /// Partial sums of the job that another task evicted.
    pub evictions: u64,
    /// Packets of the job that failed to preempt, and so lowered an aggregator's priority.
    pub downgradings: u64,
    /// Reminder packets sent to switches.
    pub reminders: u64,
    /// Reminders answered with a partial sum.
    pub fetched: u64,
    /// Reminders answered with "nothing here".
    pub absent: u64,
    /// Queries to workers for a fragment.
    pub queries: u64,
    /// Times that a worker's values went to the parameter server over TCP.
    pub retransmissions: u64,
    /// Fragments that switches completed.
    pub results_of_switches: u64,
    /// Fragments that the parameter server completed.
    pub results_of_server: u64,
    /// Results that workers received over TCP, from the parameter server or each other.
    pub delivered: u64,
}

impl EsaReport {
    /// Combines the reports of a job's endpoints with the counters of all switches.
    fn new(
        fragments: u64,
        server: &ServerReport,
        workers: &[WorkerReport],
        counted: &Counted,
    ) -> Self {
        let agent = server.agent.unwrap_or_default();
        Self {
            preemptions: counted.outcomes[Outcome::Preempted].packets,
            evictions: counted.evictions.packets,
            downgradings: counted.outcomes[Outcome::Collided].packets,
            reminders: agent.reminders,
            fetched: agent.fetched,
            absent: agent.absent,
            queries: agent.queries,
            retransmissions: workers.iter().map(|worker| worker.stats.direct).sum(),
            results_of_switches: fragments.saturating_sub(server.stats.completed()),
            results_of_server: server.stats.completed(),
            delivered: workers.iter().map(|worker| worker.stats.delivered).sum(),
        }
    }
}

/// The result of a job.
#[derive(Clone, Debug, Serialize)]
pub struct JobReport {
    /// Its name.
    pub name: String,
    /// Its protocol.
    pub protocol: &'static str,
    /// Bytes that each worker had summed.
    pub bytes: u64,
    /// Bytes summed per second of all-reduce at the slowest worker after the warm-up, in Gb/s.
    pub goodput_gbps: f64,
    /// Fraction of the additions that switches performed.
    pub summed_in_network: Option<f64>,
    /// Values compared with separately computed sums, over all workers; all were equal.
    pub verified: u64,
    /// Whether the final weights equal those of the same training in one process.
    pub matches_reference: Option<bool>,
    /// Number of fragments.
    pub fragments: u64,
    /// Preemption and reminders (ESA).
    pub esa: Option<EsaReport>,
    /// Its segment (P4INC, SwitchML).
    pub segment: Option<SegmentReport>,
    /// Bytes of gradient packets that entered switches and did not leave them.
    pub kept_bytes: u64,
    /// Packets in the switches by outcome.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// Effect of fixed point on the values of all workers.
    pub rounding: Rounding,
    /// Time lost to repairs.
    pub lost: Option<LostReport>,
    /// What kept it waiting, one line each.
    pub findings: Vec<String>,
    /// Warnings for the user about a job that finished.
    pub warnings: Vec<String>,
    /// Result of the training.
    pub training: Option<TrainingReport>,
    /// The parameter server's report, if there was one.
    pub server: Option<ServerReport>,
    /// Workers that have died, and without which the job went on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<Loss>,
    /// The workers' reports, by index, without those that have died.
    pub workers: Vec<WorkerReport>,
}

impl JobReport {
    /// Combines the reports of a job's endpoints with the counters of all switches.
    pub fn new(
        job: &JobSpec,
        server: Option<ServerReport>,
        workers: Vec<WorkerReport>,
        counted: &Counted,
    ) -> Self {
        let served = server.unwrap_or_default();
        let bytes = workers.first().map_or(0, |worker| 4 * worker.values);
        let measured = workers.first().map_or(0, |worker| 4 * worker.measured);
        let fragments = workers.first().map_or(0, |worker| worker.stats.results);
        let rounding: Rounding = workers.iter().map(|worker| worker.stats.rounding).sum();
        let complaint =
            |worker: &WorkerReport| complaint(&worker.stats.rounding, job, rounding.greatest);
        let warnings = workers
            .iter()
            .enumerate()
            .find_map(|(index, worker)| Some(format!("worker {index}: {}", complaint(worker)?)));
        let slowest = workers.iter().map(|worker| worker.reduce_seconds).fold(0.0, f64::max);
        Self {
            name: job.name.clone(),
            protocol: job.protocol.name(),
            bytes,
            goodput_gbps: if slowest > 0.0 { measured as f64 * 8.0 / slowest / 1e9 } else { 0.0 },
            summed_in_network: served.summed_in_network(fragments, workers.len()),
            verified: workers.iter().map(|worker| worker.verified).sum(),
            matches_reference: None,
            fragments,
            esa: (job.protocol == Protocol::Esa)
                .then(|| EsaReport::new(fragments, &served, &workers, counted)),
            segment: None,
            kept_bytes: counted.kept_bytes(),
            outcomes: counted
                .outcomes
                .iter()
                .map(|(of, count)| (of.name(), count.packets))
                .collect(),
            rounding,
            lost: LostReport::new(&workers, job.lane.count),
            findings: Vec::new(),
            warnings: warnings.into_iter().collect(),
            training: workers.first().and_then(|worker| worker.training.clone()),
            server,
            losses: workers.first().map_or_else(Vec::new, |worker| worker.losses.clone()),
            workers,
        }
    }

    fn sum(&self, field: impl Fn(&WorkerReport) -> u64) -> u64 {
        self.workers.iter().map(field).sum()
    }
}

/// The result of a switch.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SwitchReport {
    /// Its name.
    pub name: String,
    /// Packets of all jobs by outcome.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// Longest egress queue, in packets; `None` if the switch does not report it.
    pub longest_queue: Option<u64>,
    /// Packets dropped at full queues; `None` if the switch does not report them.
    pub queue_drops: Option<u64>,
    /// Processor time in seconds while the workers ran, after the warm-up; `None` if the switch has no
    /// process of its own.
    pub cpu_seconds: Option<f64>,
    /// Aggregators still occupied when the jobs ended, which were then freed.
    pub swept: u64,
    /// Memory of all aggregators, in bytes.
    pub memory_bytes: u64,
}

impl RunReport {
    /// The report as text.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for job in &self.jobs {
            if let Some(training) = &job.training {
                let verdict = match job.matches_reference {
                    Some(true) => ", the same as with the sums taken in one process",
                    Some(false) => ", NOT the same as with the sums taken in one process",
                    None => "",
                };
                let _ = writeln!(
                    text,
                    "{}: loss {:.4} → {:.4} in {} steps, {:.1} % of the test images recognised;\n\
                     {:indent$}  weights {} at all workers{verdict}.",
                    job.name,
                    training.first_loss,
                    training.loss,
                    training.steps,
                    100.0 * training.test_accuracy,
                    "",
                    training.weights,
                    indent = job.name.len(),
                );
            }
        }
        let _ = writeln!(text, "{}", self.job_table());
        for job in &self.jobs {
            if let Some(rounding) = rounding::text(&job.rounding) {
                let _ = writeln!(text, "{}: {rounding}.", job.name);
            }
            if let Some(lost) = job.lost.and_then(|lost| lost.text()) {
                let _ = writeln!(text, "{}: {lost}.", job.name);
            }
            for finding in &job.findings {
                let _ = writeln!(text, "{}: {finding}.", job.name);
            }
        }
        for finding in &self.findings {
            let _ = writeln!(text, "{finding}.");
        }
        if self.jobs.iter().any(|job| job.esa.is_some()) {
            let _ = writeln!(text, "{}", self.esa_table());
        }
        let segments =
            || self.jobs.iter().filter_map(|job| Some((&*job.name, job.segment.as_ref()?)));
        if segments().next().is_some() {
            let _ = writeln!(text, "{}", segments::segment_table(segments()));
        }
        let _ = writeln!(text, "{}", self.switch_table());
        let verified: u64 = self.jobs.iter().map(|job| job.verified).sum();
        let time = match self.fabric == fabric::Kind::Sim.name() {
            true => format!("{:.3} ms of virtual time", 1e3 * self.seconds),
            false => format!("{:.2} s", self.seconds),
        };
        let _ = write!(
            text,
            "{} results compared with sums computed separately: all equal. {time}.",
            grouped(verified),
        );
        if let Some(capture) = &self.capture {
            let _ = write!(text, "\n{}", capture.to_text());
        }
        for (job, loss) in
            self.jobs.iter().flat_map(|job| job.losses.iter().map(move |loss| (&job.name, loss)))
        {
            let _ = write!(text, "\nwarning: job {job} {}", loss.went_on());
        }
        for (job, warning) in self
            .jobs
            .iter()
            .flat_map(|job| job.warnings.iter().map(move |warning| (&job.name, warning)))
        {
            let _ = write!(text, "\nwarning: job {job}: {warning}");
        }
        text
    }

    fn job_table(&self) -> Table {
        let mut table = table(&[
            "job",
            "workers",
            "summed",
            "goodput",
            "in network",
            "kept off",
            "collided",
            "fallback",
            "resent",
            "overflow",
        ]);
        for job in &self.jobs {
            let server = job.server.unwrap_or_default();
            let share = |count: u64| {
                let of = job.fragments.max(1);
                format!("{} ({:.1} %)", grouped(count), 100.0 * count as f64 / of as f64)
            };
            let in_network = job.summed_in_network;
            table.add_row([
                format!("{} ({})", job.name, job.protocol),
                job.workers.len().to_string(),
                decimal_size(job.bytes),
                rate(job.goodput_gbps),
                in_network.map_or("–".into(), |share| format!("{:.1} %", 100.0 * share)),
                decimal_size(job.kept_bytes),
                if job.protocol == Protocol::Atp.name() {
                    share(server.stats.collisions())
                } else {
                    "–".into()
                },
                share(server.stats.completed() - server.stats.complete_on_arrival()),
                grouped(job.sum(|worker| worker.stats.resent + worker.stats.direct)),
                if job.segment.is_some() {
                    "–".into()
                } else {
                    share(server.stats.overflow_tasks())
                },
            ]);
        }
        table
    }

    fn esa_table(&self) -> Table {
        let mut table = table(&[
            "job",
            "preempted",
            "evicted",
            "downgraded",
            "reminders",
            "fetched",
            "absent",
            "queries",
            "values by TCP",
            "results by TCP",
            "by switches",
            "by server",
        ]);
        for (job, esa) in self.jobs.iter().filter_map(|job| Some((job, job.esa.as_ref()?))) {
            let numbers = [
                esa.preemptions,
                esa.evictions,
                esa.downgradings,
                esa.reminders,
                esa.fetched,
                esa.absent,
                esa.queries,
                esa.retransmissions,
                esa.delivered,
                esa.results_of_switches,
                esa.results_of_server,
            ];
            table.add_row(std::iter::once(job.name.clone()).chain(numbers.map(grouped)));
        }
        table
    }

    fn switch_table(&self) -> Table {
        // The outcomes between completed and duplicate depend on the program. In ESA a collision
        // without preemption lowers the aggregator's priority.
        let between: [(&str, &[&str]); 3] = if self.jobs.iter().any(|job| job.segment.is_some()) {
            [
                ("turned back", &["asynchronous"]),
                ("repeated", &["repeated"]),
                ("resent", &["resent"]),
            ]
        } else {
            let esa = self.jobs.iter().any(|job| job.esa.is_some());
            let collided = if esa { "downgraded" } else { "collided" };
            [
                ("preempted", &["preempted"]),
                (collided, &["collided"]),
                ("flushed", &["flushed", "reminded"]),
            ]
        };
        let columns: Vec<(&str, &[&str])> = [
            ("absorbed", &["absorbed", "seized"][..]),
            ("added", &["added"]),
            ("completed", &["completed"]),
        ]
        .into_iter()
        .chain(between)
        .chain([("duplicate", &["duplicate", "stale"][..])])
        .collect();
        let heads = columns.iter().map(|&(head, _)| head);
        let heads = ["switch"].into_iter().chain(heads);
        let mut table =
            table(&heads.chain(["dropped", "longest queue", "swept"]).collect::<Vec<_>>());
        for switch in &self.switches {
            let count = |outcomes: &[&str]| -> u64 {
                outcomes.iter().filter_map(|&outcome| switch.outcomes.get(outcome)).sum()
            };
            let dropped = count(&["malformed", "rejected", "outside", "barred", "exceeded"])
                + switch.queue_drops.unwrap_or_default();
            let counts = columns.iter().map(|(_, outcomes)| grouped(count(outcomes)));
            let last = [
                grouped(dropped),
                switch.longest_queue.map_or("–".into(), grouped),
                grouped(switch.swept),
            ];
            table.add_row([switch.name.clone()].into_iter().chain(counts).chain(last));
        }
        table
    }
}

/// An empty table; all columns but the first are numeric.
pub fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A rate in Gb/s as three digits with a suitable unit.
fn rate(gbps: f64) -> String {
    const UNITS: [&str; 4] = ["Gb/s", "Mb/s", "kb/s", "b/s"];
    let (mut value, mut unit) = (gbps, 0);
    while value < 0.9995 && unit + 1 < UNITS.len() {
        value *= 1000.0;
        unit += 1;
    }
    let decimals = match value {
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units_and_few_digits() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1 234 567");
        let rates = [123.4, 99.96, 9.994, 1.0, 0.9996, 0.118, 0.000_3, 0.000_000_09, 0.0];
        let texts = ["123 Gb/s", "100 Gb/s", "9.99 Gb/s", "1.00 Gb/s", "1.00 Gb/s", "118 Mb/s"];
        let small = ["300 kb/s", "90.0 b/s", "0.00 b/s"];
        assert_eq!(rates.map(rate).to_vec(), [&texts[..], &small].concat());
    }
}
