//! How long jobs take to get over a failure.
//!
//! A failure is over when every job that it can concern has summed a round that was reported after the part was
//! back: the worker's own job for a worker, which must report the round itself; all jobs for other parts.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::chaos::schedule::Kind;

/// A failure that jobs have not got over.
#[derive(Debug)]
struct Wound {
    kind: Kind,
    name: String,
    at: Instant,
    /// When the part was back.
    back: Option<Instant>,
    /// Jobs that have not summed anything since.
    jobs: BTreeSet<usize>,
    /// The worker that must report the round.
    worker: Option<usize>,
}

/// All failures.
#[derive(Debug, Default)]
pub(crate) struct Wounds {
    open: Vec<(u64, Wound)>,
    next: u64,
    healed: Vec<Healed>,
}

/// A failure that jobs have got over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Healed {
    pub(crate) kind: Kind,
    /// The part.
    pub(crate) name: String,
    /// Time from the failure until the part was back.
    pub(crate) back: Duration,
    /// Time from the failure until all jobs that it concerns had summed something.
    pub(crate) after: Duration,
}

impl Wounds {
    /// A part has failed; `worker` is the job and the index of a worker. Returns the number of the failure.
    pub(crate) fn add(
        &mut self,
        kind: Kind,
        name: &str,
        worker: Option<(usize, usize)>,
        jobs: usize,
        at: Instant,
    ) -> u64 {
        let jobs = worker.map_or_else(|| (0..jobs).collect(), |(job, _)| BTreeSet::from([job]));
        let worker = worker.map(|(_, index)| index);
        let wound = Wound { kind, name: name.to_owned(), at, back: None, jobs, worker };
        self.next += 1;
        self.open.push((self.next, wound));
        self.next
    }

    /// The part of a failure is back.
    pub(crate) fn back(&mut self, number: u64, now: Instant) {
        if let Some((_, wound)) = self.open.iter_mut().find(|(other, _)| *other == number) {
            wound.back = Some(now);
        }
    }

    /// A worker has reported a round.
    pub(crate) fn round(&mut self, job: usize, worker: usize, now: Instant) {
        for (_, wound) in &mut self.open {
            if wound.back.is_some() && wound.worker.is_none_or(|own| own == worker) {
                wound.jobs.remove(&job);
            }
        }
        for (_, wound) in self.open.extract_if(.., |(_, wound)| wound.jobs.is_empty()) {
            let Wound { kind, name, at, back, .. } = wound;
            let back = back.unwrap_or(now) - at;
            self.healed.push(Healed { kind, name, back, after: now - at });
        }
    }

    /// Number of failures that jobs have not got over.
    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    /// The oldest failure, if it is older than this.
    pub(crate) fn older_than(&self, age: Duration, now: Instant) -> Option<String> {
        let (_, wound) = self.open.first().filter(|(_, wound)| now - wound.at > age)?;
        Some(wound.name.clone())
    }

    /// How long it took to get over the failures of a kind, in order.
    pub(crate) fn times(&self, kind: Kind) -> Vec<Duration> {
        let of = self.healed.iter().filter(|healed| healed.kind == kind);
        let mut times: Vec<Duration> = of.map(|healed| healed.after).collect();
        times.sort();
        times
    }

    /// All failures that jobs have got over, in that order.
    pub(crate) fn healed(&self) -> &[Healed] {
        &self.healed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_failure_is_over_when_all_jobs_go_on_after_the_part_is_back() {
        let start = Instant::now();
        let mut wounds = Wounds::default();
        let switch = wounds.add(Kind::Switch, "s1", None, 2, start);
        wounds.round(0, 0, start + SECOND);
        wounds.round(1, 0, start + SECOND);
        assert_eq!(wounds.open(), 1, "rounds before the switch is back prove nothing");
        wounds.back(switch, start + 2 * SECOND);
        wounds.round(0, 1, start + 3 * SECOND);
        assert_eq!(wounds.open(), 1, "the other job still waits");
        assert_eq!(wounds.older_than(3 * SECOND, start + 4 * SECOND).as_deref(), Some("s1"));
        wounds.round(1, 1, start + 5 * SECOND);
        assert_eq!((wounds.open(), wounds.times(Kind::Switch)), (0, vec![5 * SECOND]));
        assert_eq!(wounds.older_than(Duration::ZERO, start + 9 * SECOND), None);
    }

    #[test]
    fn a_worker_must_take_part_again_itself() {
        let start = Instant::now();
        let mut wounds = Wounds::default();
        let worker = wounds.add(Kind::Worker, "w", Some((1, 3)), 2, start);
        wounds.back(worker, start + SECOND);
        wounds.round(1, 2, start + SECOND);
        wounds.round(0, 3, start + SECOND);
        assert_eq!(wounds.open(), 1);
        wounds.round(1, 3, start + 2 * SECOND);
        assert_eq!(wounds.times(Kind::Worker), [2 * SECOND]);
    }
}
