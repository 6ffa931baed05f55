//! What happened between two samples: preemptions, collisions, reminders, losses.

use crate::live::model::{Sample, Scene};

/// Something that happened to a job at a switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Happening {
    /// The time of the later sample, in microseconds.
    pub at_us: u64,
    /// The switch.
    pub switch: usize,
    /// The job.
    pub job: usize,
    /// The outcome.
    pub outcome: &'static str,
    /// How often.
    pub count: u64,
}

/// The outcomes that are told, and what they are called after a number. The page has the same list.
pub const TOLD: [(&str, &str); 9] = [
    ("preempted", "aggregators taken from other tasks"),
    ("seized", "idle aggregators taken over"),
    ("evicted", "partial sums evicted"),
    ("collided", "collisions"),
    ("reminded", "reminders fetched sums"),
    ("absent", "reminders found nothing"),
    ("flushed", "resends fetched sums"),
    ("rejected", "packets rejected"),
    ("malformed", "malformed packets"),
];

/// What happened between two samples, by switch and job.
#[must_use]
pub fn between(scene: &Scene, before: &Sample, after: &Sample) -> Vec<Happening> {
    let mut found = Vec::new();
    for (switch, now) in after.switches.iter().enumerate().take(scene.switches.len()) {
        for (job, counts) in now.counts.iter().enumerate().take(scene.jobs.len()) {
            let old = before.switches.get(switch).and_then(|switch| switch.counts.get(job));
            for (outcome, _) in TOLD {
                let count = |counts: &std::collections::BTreeMap<String, u64>| {
                    counts.get(outcome).copied().unwrap_or(0)
                };
                let more = count(counts).saturating_sub(old.map_or(0, count));
                if more > 0 {
                    found.push(Happening { at_us: after.at_us, switch, job, outcome, count: more });
                }
            }
        }
    }
    found
}

/// The packets that each worker has sent again between two samples: its job, its index and their number, most first.
#[must_use]
pub fn sent_again(before: &Sample, after: &Sample) -> Vec<(usize, usize, u64)> {
    let mut found = Vec::new();
    for (job, now) in after.jobs.iter().enumerate() {
        for (worker, now) in now.workers.iter().enumerate() {
            let old = before.jobs.get(job).and_then(|job| job.workers.get(worker));
            let more = now.resent.saturating_sub(old.map_or(0, |old| old.resent));
            if more > 0 {
                found.push((job, worker, more));
            }
        }
    }
    found.sort_by_key(|(.., more)| std::cmp::Reverse(*more));
    found
}

/// The frames that links have lost between two samples: the link, the direction and their number.
#[must_use]
pub fn lost(before: &Sample, after: &Sample) -> Vec<(usize, usize, u64)> {
    let mut found = Vec::new();
    for (link, now) in after.links.iter().enumerate() {
        let old = before.links.get(link).copied().unwrap_or_default();
        for way in [0, 1] {
            let more = now.lost[way].saturating_sub(old.lost[way]);
            if more > 0 {
                found.push((link, way, more));
            }
        }
    }
    found
}

/// A time, as people read it: `12.5 ms`.
#[must_use]
pub fn time(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{:.2} ms", us as f64 / 1e3),
        1_000_000..60_000_000 => format!("{:.2} s", us as f64 / 1e6),
        _ => format!("{}:{:04.1} min", us / 60_000_000, (us % 60_000_000) as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::model::tests::{sample, scene};

    #[test]
    fn only_what_became_more_is_told() {
        let told = between(&scene(), &sample(1, 1, 2), &sample(5, 2, 9));
        let told: Vec<_> = told.iter().map(|it| (it.job, it.outcome, it.count)).collect();
        assert_eq!(told, [(0, "evicted", 7), (1, "preempted", 7)]);
        assert_eq!(between(&scene(), &sample(1, 1, 2), &sample(5, 4, 2)), []);
    }

    #[test]
    fn workers_and_links_have_events_of_their_own() {
        let (before, mut after) = (sample(1, 1, 0), sample(5, 1, 0));
        after.jobs[0].workers[1].resent = 3;
        after.jobs[1].workers[0].resent = 7;
        after.links[2].lost = [0, 4];
        assert_eq!(sent_again(&before, &after), [(1, 0, 7), (0, 1, 3)]);
        assert_eq!(lost(&before, &after), [(2, 1, 4)]);
        assert_eq!((sent_again(&after, &after), lost(&after, &after)), (vec![], vec![]));
    }

    #[test]
    fn times_are_readable() {
        let times = [7, 1_500, 2_345_678, 125_500_000].map(time);
        assert_eq!(times, ["7 µs", "1.50 ms", "2.35 s", "2:05.5 min"]);
    }
}
