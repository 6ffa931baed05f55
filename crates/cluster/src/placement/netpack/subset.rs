//! Step 1: selects the waiting jobs to place (NetPack §5.2).
//!
//! This is a 0/1 knapsack: the free GPUs are its capacity, each job's GPUs are a weight, and its
//! value is the profit. Values are counted in millionths, and every job has at least one, so that
//! no job waits forever because its value is zero. Among equally valuable subsets, the one wins
//! that omits the latest job in the order of (GPUs, descending value, submission), then the next
//! latest, and so on: small jobs are preferred.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::Pending;

/// A job as an item of the knapsack.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Item {
    gpus: u32,
    value: Reverse<i64>,
    /// Its index among the waiting jobs.
    at: usize,
}

/// The indices of the jobs to place, in descending order of value: the fast implementation.
///
/// Jobs with equal numbers of GPUs are taken best first, so that only their number is unknown. The
/// added value is concave in this number, and the best number grows with the capacity. The cost is
/// one pass over all jobs, sorting those that fit, and GPUs × log GPUs for each different size.
#[must_use]
pub fn subset(waiting: &[Pending], free_gpus: u32) -> Vec<usize> {
    let items = items(waiting, free_gpus);
    let demand: u64 = items.clone().map(|item| u64::from(item.gpus)).sum();
    let chosen = if demand <= u64::from(free_gpus) {
        items.collect()
    } else {
        let mut sizes: BTreeMap<u32, Vec<Item>> = BTreeMap::new();
        for item in items {
            sizes.entry(item.gpus).or_default().push(item);
        }
        // Of each size, only as many jobs are considered as fit.
        for (gpus, size) in &mut sizes {
            let most = (free_gpus / (*gpus).max(1)) as usize;
            if most < size.len() {
                size.select_nth_unstable(most);
                size.truncate(most);
            }
            size.sort_unstable();
        }
        let sizes: Vec<_> = sizes.into_values().collect();
        let mut best = vec![0; free_gpus as usize + 1];
        let counts: Vec<_> = sizes
            .iter()
            .map(|size| {
                let (next, counts) = with_size(&best, size);
                best = next;
                counts
            })
            .collect();
        let mut left = free_gpus as usize;
        let mut chosen = Vec::new();
        for (size, counts) in sizes.iter().zip(&counts).rev() {
            let count = counts[left] as usize;
            chosen.extend_from_slice(&size[..count]);
            left -= count * size[0].gpus as usize;
        }
        chosen
    };
    by_value(chosen)
}

/// [`subset`] as in textbooks, job by job: the reference.
#[must_use]
pub fn subset_plain(waiting: &[Pending], free_gpus: u32) -> Vec<usize> {
    let mut items: Vec<_> = items(waiting, free_gpus).collect();
    items.sort_unstable();
    let capacity = free_gpus as usize;
    let mut best = vec![0; capacity + 1];
    let mut taken = Vec::new();
    for item in &items {
        let gpus = item.gpus as usize;
        let before = best.clone();
        let mut takes = vec![false; capacity + 1];
        for left in gpus..=capacity {
            let with = before[left - gpus] + item.value.0;
            if with > before[left] {
                best[left] = with;
                takes[left] = true;
            }
        }
        taken.push(takes);
    }
    let mut left = capacity;
    let mut chosen = Vec::new();
    for (item, takes) in items.iter().zip(&taken).rev() {
        if takes[left] {
            chosen.push(*item);
            left -= item.gpus as usize;
        }
    }
    by_value(chosen)
}

/// The jobs that fit individually.
fn items(waiting: &[Pending], free_gpus: u32) -> impl Iterator<Item = Item> + Clone + '_ {
    let fit = move |(_, pending): &(usize, &Pending)| pending.job.gpus <= free_gpus;
    waiting.iter().enumerate().filter(fit).map(|(at, pending)| Item {
        gpus: pending.job.gpus,
        value: Reverse(((pending.value * 1e6).round() as i64).clamp(1, i64::MAX >> 24)),
        at,
    })
}

/// Most valuable first, then in the order of submission (algorithm 2, line 3).
fn by_value(mut chosen: Vec<Item>) -> Vec<usize> {
    chosen.sort_unstable_by_key(|item| (item.value, item.at));
    chosen.into_iter().map(|item| item.at).collect()
}

/// Adds the jobs of one more size: the best values, and the number of these jobs taken, by
/// capacity.
fn with_size(best: &[i64], size: &[Item]) -> (Vec<i64>, Vec<u32>) {
    let gpus = size[0].gpus as usize;
    let mut sums = vec![0];
    sums.extend(size.iter().scan(0, |sum, item| {
        *sum += item.value.0;
        Some(*sum)
    }));
    let mut next = best.to_vec();
    let mut counts = vec![0; best.len()];
    for residue in 0..gpus.min(best.len()) {
        let last = (best.len() - 1 - residue) / gpus;
        let mut step =
            Step { best, sums: &sums, residue, gpus, next: &mut next, counts: &mut counts };
        step.fill(0, last, 0, last);
    }
    (next, counts)
}

/// Capacities `residue + n·gpus`. Jobs of `gpus` GPUs lead only from one of these to another.
struct Step<'a> {
    best: &'a [i64],
    /// The total value of the first `n` jobs.
    sums: &'a [i64],
    residue: usize,
    gpus: usize,
    next: &'a mut [i64],
    counts: &'a mut [u32],
}

impl Step<'_> {
    /// Fills in capacities `low..=high`, given that the best number of jobs is reached from one of
    /// `from..=to`.
    fn fill(&mut self, low: usize, high: usize, from: usize, to: usize) {
        let middle = low + (high - low) / 2;
        let first = from.max(middle.saturating_sub(self.sums.len() - 1));
        let value = |before: usize| {
            self.best[self.residue + before * self.gpus] + self.sums[middle - before]
        };
        let (before, best) = (first..=to.min(middle))
            .map(|before| (before, value(before)))
            .max_by_key(|&(before, value)| (value, before))
            .expect("bounds contain the best");
        let at = self.residue + middle * self.gpus;
        self.next[at] = best;
        self.counts[at] = (middle - before) as u32;
        if low < middle {
            self.fill(low, middle - 1, from, before);
        }
        if middle < high {
            self.fill(middle + 1, high, before, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Job, JobId};
    use proptest::prelude::*;

    use super::*;

    fn waiting(jobs: &[(u32, f64)]) -> Vec<Pending> {
        (0..)
            .zip(jobs)
            .map(|(id, &(gpus, value))| Pending {
                job: Job {
                    id: JobId(id),
                    submit_s: 0.0,
                    gpus,
                    iterations: 1.0,
                    compute_s: 1.0,
                    gradient_bytes: 1.0,
                    value,
                },
                value,
            })
            .collect()
    }

    #[test]
    fn all_jobs_are_placed_when_all_fit() {
        let waiting = waiting(&[(4, 1.0), (8, 3.0), (1, 0.0)]);
        assert_eq!(subset(&waiting, 13), [1, 0, 2]);
    }

    #[test]
    fn value_for_gpus_decides_when_not_all_fit() {
        // FIFO would take the first job, which fills the capacity.
        let waiting = waiting(&[(8, 2.0), (4, 1.5), (4, 1.0)]);
        assert_eq!(subset(&waiting, 8), [1, 2]);
    }

    #[test]
    fn ageing_eventually_places_a_job() {
        let mut waiting = waiting(&[(8, 1.0), (4, 1.0), (4, 1.0)]);
        let rounds = (0..100)
            .take_while(|_| {
                let passed_over = !subset(&waiting, 8).contains(&0);
                waiting[0].value += 0.25;
                passed_over
            })
            .count();
        assert_eq!(rounds, 5, "2.25 is the first value above 1 + 1");
    }

    #[test]
    fn jobs_larger_than_the_free_gpus_are_omitted() {
        assert_eq!(subset(&waiting(&[(9, 100.0), (8, 1.0)]), 8), [1]);
        assert!(subset(&waiting(&[(9, 100.0)]), 0).is_empty());
    }

    proptest! {
        #[test]
        fn the_fast_search_equals_the_plain_one(
            jobs in prop::collection::vec((1_u32..12, 0_u32..6), 0..40),
            free_gpus in 0_u32..120,
        ) {
            let jobs: Vec<_> =
                jobs.into_iter().map(|(gpus, value)| (gpus, f64::from(value) / 4.0)).collect();
            let waiting = waiting(&jobs);
            prop_assert_eq!(subset(&waiting, free_gpus), subset_plain(&waiting, free_gpus));
        }

        #[test]
        fn nothing_is_worth_more(
            jobs in prop::collection::vec((1_u32..8, 1_u32..9), 0..10),
            free_gpus in 0_u32..30,
        ) {
            let pairs: Vec<_> =
                jobs.iter().map(|&(gpus, value)| (gpus, f64::from(value))).collect();
            let worth = |chosen: &mut dyn Iterator<Item = usize>| {
                chosen.fold((0, 0), |(gpus, value), at| (gpus + jobs[at].0, value + jobs[at].1))
            };
            let best = (0_u32..1 << jobs.len())
                .map(|set| worth(&mut (0..jobs.len()).filter(|at| set >> at & 1 == 1)))
                .filter(|(gpus, _)| *gpus <= free_gpus)
                .map(|(_, value)| value)
                .max();
            let chosen = subset(&waiting(&pairs), free_gpus);
            let (gpus, value) = worth(&mut chosen.into_iter());
            prop_assert!(gpus <= free_gpus);
            prop_assert_eq!(Some(value), best);
        }
    }
}
