//! What is wrong with a run: rules over what its parts have measured.
//!
//! Each rule is a function from measured numbers to [findings](Finding). The same rules serve the report, the live view,
//! and the warnings while a run lasts. A rule is silent where its numbers are too few, or cannot tell a fault from
//! health.

use tributary_worker::lost::time;
use tributary_worker::measured::Measured;

use crate::fabric::Crossing;
use crate::live::model::{Finding, Rule};

/// A worker that spends less than this part of the others' time in sums is the one that they wait for.
const LATE: f64 = 0.8;

/// Shorter waits in each round, in seconds, are the machine's.
const WAIT: f64 = 1e-3;

/// In fewer rounds, that workers start one after another counts too much.
const ROUNDS: u64 = 10;

/// From this part of the fragments on, the pool is too small.
const COLLIDED: f64 = 0.2;

/// Fragments of a worker from which on their share is known.
const FRAGMENTS: u64 = 100;

/// From this part of its frames on, a link is lossy.
const LOSSY: f64 = 0.01;

/// Fewer lost frames may be chance, or those of an endpoint that has ended.
const LOST: u64 = 20;

/// A link is the culprit if it loses so many times as much as the median of all directions.
const OUTLIER: f64 = 3.0;

/// From this part of the time on, the processor is the limit if workers wait for a core.
const CORE: f64 = 0.4;

/// A worker of a job.
#[derive(Clone, Debug)]
pub(crate) struct WorkerNow<'a> {
    /// Its index.
    pub(crate) index: usize,
    /// The name of its host.
    pub(crate) host: &'a str,
    /// What it has measured.
    pub(crate) measured: Measured,
}

/// How much later than most each worker begins a round, in seconds on average. Empty if that is not known.
///
/// A sum ends at all workers at the same time, so those that spend less time in it than most have begun it later. What
/// they have waited longer for a core before is not their fault.
pub(crate) fn lateness(workers: &[WorkerNow<'_>]) -> Vec<f64> {
    let (means, usual) = means(workers);
    means.iter().map(|mean| (usual - mean).max(0.0)).collect()
}

/// The time of a round that each worker would spend in its sum if it had waited for a core no longer than most before
/// that, and the time that most spend there. Nothing if there are too few rounds.
fn means(workers: &[WorkerNow<'_>]) -> (Vec<f64>, f64) {
    if workers.iter().any(|worker| worker.measured.rounds < ROUNDS) {
        return (Vec::new(), 0.0);
    }
    let each = |of: fn(&Measured) -> f64| -> Vec<f64> {
        let mean = |it: &WorkerNow<'_>| of(&it.measured) / it.measured.rounds as f64;
        workers.iter().map(mean).collect()
    };
    let (sums, waits) = (each(|it| it.reduce_seconds), each(|it| it.core_wait_seconds));
    let usual_wait = usual(&waits);
    let means = sums.iter().zip(waits).map(|(sum, wait)| sum + (wait - usual_wait).max(0.0));
    (means.collect(), usual(&sums))
}

/// The time of most: of an even number, the longer one in the middle.
fn usual(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// The workers that the others of a job wait for.
pub(crate) fn late_workers(job: usize, workers: &[WorkerNow<'_>]) -> Option<Finding> {
    let (means, usual) = means(workers);
    let wait = usual - means.iter().copied().fold(f64::INFINITY, f64::min);
    let late = workers.iter().zip(&means).filter(|(_, mean)| **mean < LATE * usual);
    let late: Vec<&WorkerNow<'_>> = late.map(|(worker, _)| worker).collect();
    if late.is_empty() || wait < WAIT {
        return None;
    }
    let name = |worker: &&WorkerNow<'_>| format!("worker {} ({})", worker.index, worker.host);
    let names: Vec<String> = late.iter().map(name).collect();
    let text =
        format!("the others wait up to {} for {} in each round", time(wait), names.join(" and "));
    let workers = late.iter().map(|worker| worker.index).collect();
    Some(Finding { job: Some(job), workers, ..finding(Rule::LateWorker, text) })
}

/// Whether the fragments of a job meet other tasks in a pool of so many aggregators.
pub(crate) fn small_pool(job: usize, workers: &[WorkerNow<'_>], pool: u32) -> Option<Finding> {
    let sum = |of: fn(&Measured) -> u64| workers.iter().map(|it| of(&it.measured)).sum::<u64>();
    let fragments = sum(|measured| measured.fragments);
    let share = sum(|measured| measured.collisions) as f64 / fragments.max(1) as f64;
    let text = format!(
        "{:.0} % of its fragments found an aggregator taken: enlarge `pool` in [switch], which is {pool}, or make \
         windows smaller",
        100.0 * share,
    );
    let enough = fragments >= FRAGMENTS * workers.len() as u64;
    (enough && share >= COLLIDED)
        .then(|| Finding { job: Some(job), ..finding(Rule::SmallPool, text) })
}

/// The links that lose more of their frames than the others. `names` are those of the ends of each link.
pub(crate) fn lossy_links(
    names: &[[String; 2]],
    crossings: &[[Option<Crossing>; 2]],
) -> Vec<Finding> {
    let part = |frames, crossing: &Crossing| frames as f64 / crossing.sent.max(1) as f64;
    let certain = |crossing: &Crossing| part(crossing.lost(), crossing);
    // Most of the frames that may be under way are not.
    let share = |crossing: &Crossing| part(crossing.missing(), crossing);
    let known = crossings.iter().flatten().flatten().filter(|crossing| crossing.sent >= LOST);
    let mut shares: Vec<f64> = known.map(certain).collect();
    shares.sort_by(f64::total_cmp);
    let median = shares.get(shares.len().saturating_sub(1) / 2).copied().unwrap_or_default();
    // Links that lose as much as most are not the culprits; then all are named together.
    let all = median >= LOSSY;
    let is_lossy = |crossing: &Crossing| {
        let lost = certain(crossing);
        crossing.lost() >= LOST && lost >= LOSSY && lost >= OUTLIER * median
    };
    let mut found = Vec::new();
    for (link, (ways, [first, second])) in crossings.iter().zip(names).enumerate() {
        let lossy = ways.map(|way| way.filter(is_lossy));
        let (ends, shares) = match lossy {
            [None, None] => continue,
            [Some(there), None] => (format!("{first} → {second}"), vec![share(&there)]),
            [None, Some(back)] => (format!("{second} → {first}"), vec![share(&back)]),
            [Some(there), Some(back)] => {
                (format!("{first} ↔ {second}"), vec![share(&there), share(&back)])
            }
        };
        let text = format!("{ends} loses {} of its frames", percent(&shares));
        let ways = lossy.map(|way| way.is_some());
        found.push(Finding { link: Some(link), ways, ..finding(Rule::LossyLink, text) });
    }
    if all {
        let text = format!(
            "most links lose frames: half of their directions {} or more",
            percent(&[median])
        );
        found.push(finding(Rule::LossyLink, text));
    }
    found
}

/// Whether workers wait for a core for so large a part of the time.
pub(crate) fn busy_processor(waits: f64) -> Option<Finding> {
    let text = format!(
        "the processor is the limit: workers wait {:.0} % of the time for a core",
        100.0 * waits
    );
    (waits >= CORE).then(|| finding(Rule::BusyProcessor, text))
}

fn finding(rule: Rule, text: String) -> Finding {
    Finding { rule, job: None, workers: Vec::new(), link: None, ways: [false; 2], text }
}

/// Shares as people write them: 8 %, or 1.5 to 8 %.
fn percent(shares: &[f64]) -> String {
    let number = |share: f64| match 100.0 * share {
        small if small < 9.95 => format!("{small:.1}").trim_end_matches(".0").to_owned(),
        large => format!("{large:.0}"),
    };
    let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
    let most = shares.iter().copied().fold(0.0, f64::max);
    // Two directions that lose about the same have one number.
    match most < 1.5 * least {
        true => format!("{} %", number(shares.iter().sum::<f64>() / shares.len() as f64)),
        false => format!("{} to {} %", number(least), number(most)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workers(reduce: &[f64], rounds: u64) -> Vec<WorkerNow<'static>> {
        let worker = |(index, seconds): (usize, &f64)| {
            let reduce_seconds = *seconds * rounds as f64 / 10.0;
            let measured = Measured { rounds, reduce_seconds, ..Measured::default() };
            WorkerNow { index: index + 3, host: "h", measured }
        };
        reduce.iter().enumerate().map(worker).collect()
    }

    fn late(reduce: &[f64]) -> Vec<usize> {
        late_workers(0, &workers(reduce, 10)).map_or_else(Vec::new, |found| found.workers)
    }

    #[test]
    fn workers_that_wait_less_than_most_are_late() {
        let found = late_workers(2, &workers(&[1.0, 1.02, 0.8, 1.01], 10)).unwrap();
        assert_eq!((found.job, &found.workers[..]), (Some(2), &[5][..]));
        assert_eq!(found.text, "the others wait up to 21.0 ms for worker 5 (h) in each round");
        assert_eq!(late(&[0.5, 1.0]), [3], "of two, the one that waits less");
        assert_eq!(late(&[0.5, 0.6, 1.0, 1.0]), [3, 4]);
        assert_eq!(
            late_workers(0, &workers(&[0.5, 1.0], 9)),
            None,
            "nine rounds after the warm-up"
        );
        for equal in [&[][..], &[1.0], &[1.0, 0.9], &[0.010, 0.001], &[1.0, 1.1, 1.2, 0.9]] {
            assert!(late(equal).is_empty(), "{equal:?}");
        }
    }

    #[test]
    fn workers_that_are_a_round_apart_are_compared_by_their_means() {
        let mut some = workers(&[1.0, 1.0, 1.0], 30);
        some[1].measured.rounds = 29;
        some[1].measured.reduce_seconds *= 29.0 / 30.0;
        assert_eq!(late_workers(0, &some), None);
        assert!(lateness(&some).iter().all(|late| *late < 1e-9));
        some[1].measured.reduce_seconds *= 0.5;
        assert_eq!(late_workers(0, &some).unwrap().workers, [4]);
        let late: Vec<f64> = lateness(&some).iter().map(|late| (1e3 * late).round()).collect();
        assert_eq!(late, [0.0, 50.0, 0.0]);
        assert!(lateness(&workers(&[1.0, 0.5], 9)).is_empty());
    }

    #[test]
    fn a_worker_that_waits_longer_for_a_core_is_not_late() {
        let mut some = workers(&[1.0, 0.6, 1.0], 20);
        assert_eq!(late_workers(0, &some).unwrap().workers, [4]);
        some[1].measured.core_wait_seconds = 0.7;
        assert_eq!(late_workers(0, &some), None);
        assert_eq!(lateness(&some).iter().map(|late| (1e3 * late).round()).sum::<f64>(), 5.0);
        some[0].measured.core_wait_seconds = 0.7;
        some[2].measured.core_wait_seconds = 0.7;
        assert_eq!(late_workers(0, &some).unwrap().workers, [4], "all wait for a core");
        some[0].measured.core_wait_seconds = 0.0;
        some[2].measured.core_wait_seconds = 0.0;
        // It is late by more than that.
        some[1].measured.core_wait_seconds = 0.2;
        let found = late_workers(0, &some).unwrap();
        assert!(found.text.starts_with("the others wait up to 30.0 ms for"), "{}", found.text);
    }

    #[test]
    fn a_pool_is_too_small_if_many_fragments_find_it_taken() {
        let mut all = workers(&[1.0, 1.0], 10);
        all[0].measured.fragments = 200;
        all[0].measured.collisions = 39;
        assert_eq!(small_pool(0, &all, 64), None);
        all[0].measured.collisions = 80;
        let found = small_pool(1, &all, 64).unwrap();
        assert!(found.text.starts_with("40 % of its fragments"), "{}", found.text);
        assert!(found.text.contains("which is 64"), "{}", found.text);
        all[0].measured.fragments = 199;
        assert_eq!(small_pool(0, &all, 64), None, "too few to tell");
        assert_eq!(small_pool(0, &[], 64), None);
    }

    /// Links of four hosts of one switch, with so many frames sent and lost from each end.
    fn lines(crossings: [[(u64, u64); 2]; 4]) -> Vec<String> {
        let names = ["w1", "w2", "w3", "ps1"].map(|host| [host.to_owned(), "s1".to_owned()]);
        let crossing = |(sent, lost)| Crossing { sent, received: sent - lost, under_way: 0 };
        let crossings = crossings.map(|ways| ways.map(|way| Some(crossing(way)))).to_vec();
        lossy_links(&names, &crossings).into_iter().map(|found| found.text).collect()
    }

    #[test]
    fn the_link_that_loses_more_than_the_others_is_named_by_direction() {
        let fine = [(10_000, 0), (10_000, 0)];
        assert!(lines([fine; 4]).is_empty());
        let lossy = [(10_000, 790), (10_000, 810)];
        assert_eq!(lines([fine, lossy, fine, fine]), ["w2 ↔ s1 loses 8 % of its frames"]);
        let there = [(10_000, 2500), (10_000, 0)];
        assert_eq!(lines([fine, there, fine, fine]), ["w2 → s1 loses 25 % of its frames"]);
        let back = [(10_000, 0), (10_000, 123)];
        assert_eq!(lines([fine, fine, fine, back]), ["s1 → ps1 loses 1.2 % of its frames"]);
        let both = [(10_000, 150), (10_000, 800)];
        assert_eq!(lines([fine, both, fine, fine]), ["w2 ↔ s1 loses 1.5 to 8 % of its frames"]);
    }

    #[test]
    fn chance_few_frames_and_links_like_all_others_are_not_named() {
        let fine = [(10_000, 0), (10_000, 0)];
        let rare = [(10_000, 90), (10_000, 60)];
        assert!(lines([fine, rare, fine, fine]).is_empty(), "less than 1 %");
        let few = [(30, 19), (100, 10)];
        assert!(lines([fine, few, fine, fine]).is_empty(), "19 frames");
        // All lose as much, so none of them is the culprit.
        let most = "most links lose frames: half of their directions 2 % or more";
        let lossy = [(10_000, 200), (10_000, 200)];
        assert_eq!(lines([lossy; 4]), [most]);
        let worst = [(10_000, 800), (10_000, 200)];
        assert_eq!(lines([lossy, worst, lossy, lossy]), ["w2 → s1 loses 8 % of its frames", most]);
    }

    #[test]
    fn frames_under_way_are_not_lost() {
        let names = [["w1".to_owned(), "s1".to_owned()]];
        let crossings =
            |received, under_way| vec![[Some(Crossing { sent: 5000, received, under_way }), None]];
        assert!(lossy_links(&names, &crossings(4500, 512)).is_empty());
        assert!(lossy_links(&names, &crossings(6000, 0)).is_empty(), "counted later");
        let found = lossy_links(&names, &crossings(4000, 512));
        assert_eq!(
            (found.len(), found[0].link),
            (1, None),
            "with one direction, it is most of them"
        );
        assert!(lossy_links(&names, &[[None, None]]).is_empty());
    }

    #[test]
    fn the_processor_is_the_limit_if_workers_wait_long_for_a_core() {
        assert_eq!(busy_processor(0.39), None);
        let text = busy_processor(0.6).unwrap().text;
        assert_eq!(text, "the processor is the limit: workers wait 60 % of the time for a core");
    }
}
