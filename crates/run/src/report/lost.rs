//! The time that a job lost to repairs, and what to do about it.

use serde::Serialize;
use tributary_model::{Scenario, Topology};
use tributary_protocol::{Recovery, Waits};
use tributary_wire::Protocol;
use tributary_worker::lost::{Lost, time};
use tributary_worker::rounds::WorkerReport;

/// The time that a job lost to repairs, at the worker that lost most. Where it went is in that worker's
/// `delays`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LostReport {
    /// The index of that worker in its job.
    pub worker: usize,
    /// Seconds without results until those of repaired fragments, and from the worker's last result to its
    /// dismissal (ESA).
    pub seconds: f64,
    /// The time that `seconds` is a part of: with fragments in flight, and from the last result to the dismissal.
    pub of_seconds: f64,
    #[serde(skip)]
    lost: Lost,
}

impl LostReport {
    /// That of a job whose workers have so many lanes; `None` without workers.
    pub fn new(workers: &[WorkerReport], lanes: usize) -> Option<Self> {
        let all = workers.iter().map(|worker| Lost::new(worker.stats.delays, lanes)).enumerate();
        let most = all.max_by(|(_, one), (_, other)| one.seconds.total_cmp(&other.seconds));
        most.map(|(worker, lost)| {
            let Lost { seconds, of_seconds, .. } = lost;
            Self { worker, seconds, of_seconds, lost }
        })
    }

    /// A line for people, if it is worth one and no warning.
    pub fn text(&self) -> Option<String> {
        let is_line = self.lost.is_notable() && !self.lost.is_much();
        is_line.then(|| format!("worker {} {}", self.worker, self.lost))
    }

    /// The warning if the job lost much: where the time went, and what to do. `answers` are the times of the
    /// agent's queries.
    pub fn warning(&self, scenario: &Scenario, answers: &Waits) -> Option<String> {
        if !self.lost.is_much() {
            return None;
        }
        let answers = match answers.count {
            0 => String::new(),
            count => format!(
                "; workers answered the agent's queries after {} on average, at most {}",
                time(answers.total.as_secs_f64() / count as f64),
                time(answers.longest.as_secs_f64()),
            ),
        };
        let advice = advice(scenario, self.lost.is_over_tcp());
        Some(format!("worker {} {}{answers}; {advice}", self.worker, self.lost))
    }
}

/// What to do about lost time, which mostly went by over TCP or not.
fn advice(scenario: &Scenario, over_tcp: bool) -> String {
    let network = &scenario.network;
    let cause = if has_losses(&network.topology) {
        "`[faults]` of the job file lose packets"
    } else {
        "look for links that lose packets, queues that overflow, and hosts that are short of processors"
    };
    let rules = match (network.recovery, network.protocol) {
        (Recovery::Papers, Protocol::Esa) if over_tcp => {
            "with `recovery = \"papers\"`, repairs wait for TCP, where all segments behind a lost one wait: \
             write `recovery = \"rack\"` into [protocol]"
        }
        (Recovery::Papers, _) => {
            "with `recovery = \"papers\"`, timeouts double and each halves the window: write \
             `recovery = \"rack\"` into [protocol]"
        }
        (Recovery::Rack, _) => return cause.into(),
    };
    format!("{cause}; {rules}")
}

fn has_losses(topology: &Topology) -> bool {
    topology.links.iter().any(|link| link.faults.loss > 0.0)
}
