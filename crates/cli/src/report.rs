//! What a run came to, as a table for people and as JSON for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use serde::{Deserialize, Serialize};
use tributary_controller::outcomes::{Outcome, Outcomes};
use tributary_jobfile::Job;
use tributary_protocol::server;

use crate::agent::WorkerReport;
use crate::workload::TrainingReport;

/// What a run came to.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RunReport {
    /// Name of the job file.
    pub(crate) name: String,
    /// Fabric.
    pub(crate) fabric: &'static str,
    /// Seed.
    pub(crate) seed: u64,
    /// Seconds from the first worker's start to the last one's end.
    pub(crate) seconds: f64,
    /// The jobs.
    pub(crate) jobs: Vec<JobReport>,
    /// The switches.
    pub(crate) switches: Vec<SwitchReport>,
}

/// What a parameter server did for a job.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ServerReport {
    /// Fragments completed.
    pub(crate) completed: u64,
    /// Of them, those that one packet completed: summed by the switches alone.
    pub(crate) complete_on_arrival: u64,
    /// Packets merged.
    pub(crate) merged: u64,
    /// Fragments of which a packet met another task's aggregator.
    pub(crate) collisions: u64,
    /// Fragments collected in floating point.
    pub(crate) overflows: u64,
    /// Partial sums dropped because they overlapped what was there.
    pub(crate) overlaps: u64,
    /// Results sent once more to one worker.
    pub(crate) replies: u64,
    /// Workers asked for a fragment.
    pub(crate) queries: u64,
}

impl From<&server::Stats> for ServerReport {
    fn from(stats: &server::Stats) -> Self {
        Self {
            completed: stats.completed,
            complete_on_arrival: stats.complete_on_arrival,
            merged: stats.merged,
            collisions: stats.collisions,
            overflows: stats.overflow_tasks,
            overlaps: stats.overlaps,
            replies: stats.replies,
            queries: stats.queries,
        }
    }
}

impl ServerReport {
    /// Share of the additions that switches made. A fragment of n workers needs n − 1 additions;
    /// the parameter server made one a packet it merged, but for the first. `None` if there was
    /// nothing to add.
    pub(crate) fn summed_in_network(&self, workers: usize) -> Option<f64> {
        let needed = self.completed * (workers as u64 - 1);
        let by_server = self.merged.saturating_sub(self.completed);
        (needed > 0).then(|| 1.0 - by_server as f64 / needed as f64)
    }
}

/// What a job came to.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct JobReport {
    /// Its name.
    pub(crate) name: String,
    /// How it aggregated.
    pub(crate) protocol: &'static str,
    /// Bytes that each worker had summed.
    pub(crate) bytes: u64,
    /// Bytes summed a second in all-reduce at the slowest worker, in Gb/s.
    pub(crate) goodput_gbps: f64,
    /// Share of the additions that switches made.
    pub(crate) summed_in_network: Option<f64>,
    /// Numbers compared with sums computed apart, over all workers; all were equal.
    pub(crate) verified: u64,
    /// Whether the final weights equal those of the same training with the sums in one process.
    pub(crate) matches_reference: Option<bool>,
    /// Bytes of gradient packets that came into switches and did not leave them.
    pub(crate) kept_bytes: u64,
    /// Packets in the switches by what became of them.
    pub(crate) outcomes: BTreeMap<&'static str, u64>,
    /// What the training came to.
    pub(crate) training: Option<TrainingReport>,
    /// What the parameter server did.
    pub(crate) server: ServerReport,
    /// What the workers did, by index.
    pub(crate) workers: Vec<WorkerReport>,
}

impl JobReport {
    /// From the reports of its endpoints, and what all switches together counted for it.
    pub(crate) fn new(
        job: &Job,
        server: ServerReport,
        workers: Vec<WorkerReport>,
        outcomes: &Outcomes,
    ) -> Self {
        let bytes = workers.first().map_or(0, |worker| 4 * worker.values);
        let slowest = workers.iter().map(|worker| worker.reduce_seconds).fold(0.0, f64::max);
        Self {
            name: job.name.clone(),
            protocol: job.protocol.name(),
            bytes,
            goodput_gbps: if slowest > 0.0 { bytes as f64 * 8.0 / slowest / 1e9 } else { 0.0 },
            summed_in_network: server.summed_in_network(workers.len()),
            verified: workers.iter().map(|worker| worker.verified).sum(),
            matches_reference: None,
            kept_bytes: kept_bytes(outcomes),
            outcomes: outcomes.iter().map(|(of, count)| (of.name(), count.packets)).collect(),
            training: workers.first().and_then(|worker| worker.training.clone()),
            server,
            workers,
        }
    }

    fn sum(&self, field: impl Fn(&WorkerReport) -> u64) -> u64 {
        self.workers.iter().map(field).sum()
    }
}

/// Bytes of gradient packets (Ethernet headers included) that came into switches and did not leave
/// them: stored, added, or dropped as they were in already. Every other packet that comes in leaves
/// in some form.
fn kept_bytes(outcomes: &Outcomes) -> u64 {
    const STAYED: [Outcome; 4] =
        [Outcome::Absorbed, Outcome::Seized, Outcome::Added, Outcome::Duplicate];
    STAYED.into_iter().map(|outcome| outcomes[outcome].bytes).sum()
}

/// What a switch came to.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct SwitchReport {
    /// Its name.
    pub(crate) name: String,
    /// Packets by what became of them, all jobs together.
    pub(crate) outcomes: BTreeMap<&'static str, u64>,
    /// Longest egress queue, in packets; `None` where the switch does not tell.
    pub(crate) longest_queue: Option<u64>,
    /// Packets dropped at full queues; `None` where the switch does not tell.
    pub(crate) queue_drops: Option<u64>,
    /// Aggregators that were still held when the jobs ended, and were freed.
    pub(crate) swept: u64,
}

impl RunReport {
    /// The report as text.
    pub(crate) fn to_text(&self) -> String {
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
        let _ = writeln!(text, "{}", self.switch_table());
        let verified: u64 = self.jobs.iter().map(|job| job.verified).sum();
        let _ = write!(
            text,
            "{} results compared with sums computed apart: all equal. {:.2} s.",
            grouped(verified),
            self.seconds
        );
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
            let share = |count: u64| {
                let of = job.server.completed.max(1);
                format!("{} ({:.1} %)", grouped(count), 100.0 * count as f64 / of as f64)
            };
            let in_network = job.summed_in_network;
            table.add_row([
                format!("{} ({})", job.name, job.protocol),
                job.workers.len().to_string(),
                bytes(job.bytes),
                format!("{:.3} Gb/s", job.goodput_gbps),
                in_network.map_or("–".into(), |share| format!("{:.1} %", 100.0 * share)),
                bytes(job.kept_bytes),
                share(job.server.collisions),
                share(job.server.completed - job.server.complete_on_arrival),
                grouped(job.sum(|worker| worker.resends)),
                share(job.server.overflows),
            ]);
        }
        table
    }

    fn switch_table(&self) -> Table {
        let mut table = table(&[
            "switch",
            "absorbed",
            "added",
            "completed",
            "collided",
            "flushed",
            "duplicate",
            "dropped",
            "longest queue",
            "swept",
        ]);
        for switch in &self.switches {
            let count = |outcome: &str| switch.outcomes.get(outcome).copied().unwrap_or(0);
            let dropped =
                count("malformed") + count("rejected") + switch.queue_drops.unwrap_or_default();
            table.add_row([
                switch.name.clone(),
                grouped(count("absorbed") + count("seized")),
                grouped(count("added")),
                grouped(count("completed")),
                grouped(count("collided")),
                grouped(count("flushed")),
                grouped(count("duplicate")),
                grouped(dropped),
                switch.longest_queue.map_or("–".into(), grouped),
                grouped(switch.swept),
            ]);
        }
        table
    }
}

/// An empty table; all columns but the first hold numbers.
pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A number with its digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A number of bytes with a unit.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["B", "KB", "MB", "GB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1 234 567");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(65_536), "65.5 KB");
        assert_eq!(bytes(4_000_000), "4.0 MB");
    }

    #[test]
    fn share_of_the_additions_made_in_the_network() {
        // 10 fragments of 4 workers: 30 additions. 8 arrive whole; of the ninth the parameter
        // server merged 2 partial sums, of the tenth 4 packets.
        let server = ServerReport { completed: 10, merged: 14, ..ServerReport::default() };
        let share = server.summed_in_network(4).unwrap();
        assert!((share - 26.0 / 30.0).abs() < 1e-12, "{share}");
        assert_eq!(server.summed_in_network(1), None);
    }
}
