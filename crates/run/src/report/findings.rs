//! What keeps a job waiting, as far as the counters of its workers tell.

use tributary_model::{JobSpec, Scenario};
use tributary_worker::lost::time;
use tributary_worker::rounds::WorkerReport;

/// A worker that spends less than this part of the others' time in sums is the one that they wait for.
const LATE: f64 = 0.8;

/// Shorter waits in each round are the machine's.
const WAIT: f64 = 1e-3;

/// In fewer rounds, that workers start one after another counts too much.
const ROUNDS: f64 = 10.0;

/// From this part of the fragments on, the pool is too small.
const COLLIDED: f64 = 0.2;

/// What to tell of a job, one line each. `indices` are the workers that have reported.
pub fn findings(
    scenario: &Scenario,
    job: &JobSpec,
    indices: &[usize],
    workers: &[WorkerReport],
) -> Vec<String> {
    // A worker that comes back has been in other sums than those that were there before.
    let late = late(workers).filter(|_| !job.on_death.goes_on()).map(|(late, wait)| {
        let name = |at: usize| {
            let worker = indices[at];
            format!(
                "worker {worker} ({})",
                scenario.network.topology.host(job.workers[worker]).name
            )
        };
        let names: Vec<String> = late.into_iter().map(name).collect();
        format!("the others wait up to {} for {} in each round", time(wait), names.join(" and "))
    });
    let collided = collided(workers).map(|share| {
        format!(
            "{:.0} % of its fragments found an aggregator taken: enlarge `pool` in [switch], which is {}, or make \
             windows smaller",
            100.0 * share,
            scenario.network.switch.pool
        )
    });
    late.into_iter().chain(collided).collect()
}

/// The workers that the others wait for, by their places, and for how long in each round on average. A sum ends at all
/// workers at the same time, so those that spend less time in it than most have begun it later.
fn late(workers: &[WorkerReport]) -> Option<(Vec<usize>, f64)> {
    let mut seconds: Vec<f64> = workers.iter().map(|worker| worker.reduce_seconds).collect();
    seconds.sort_by(f64::total_cmp);
    let (least, usual) = (*seconds.first()?, seconds[seconds.len() / 2]);
    let is_late = |at: &usize| workers[*at].reduce_seconds < LATE * usual;
    let late: Vec<usize> = (0..workers.len()).filter(is_late).collect();
    // Times are those after the warm-up.
    let WorkerReport { rounds, values, measured, .. } = &workers[0];
    let rounds = *rounds as f64 * *measured as f64 / (*values).max(1) as f64;
    let wait = (usual - least) / rounds.max(1.0);
    (!late.is_empty() && wait >= WAIT && rounds >= ROUNDS).then_some((late, wait))
}

/// The part of the fragments that met another task, if it is large.
fn collided(workers: &[WorkerReport]) -> Option<f64> {
    let sum = |of: fn(&WorkerReport) -> u64| workers.iter().map(of).sum::<u64>() as f64;
    let share = sum(|worker| worker.stats.collisions) / sum(|worker| worker.stats.results).max(1.0);
    (share >= COLLIDED).then_some(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workers(reduce: &[f64]) -> Vec<WorkerReport> {
        let worker = |reduce_seconds: &f64| WorkerReport {
            rounds: 20,
            values: 200,
            measured: 100,
            reduce_seconds: *reduce_seconds,
            ..WorkerReport::default()
        };
        reduce.iter().map(worker).collect()
    }

    #[test]
    fn workers_that_wait_less_than_most_are_late() {
        let (late_ones, wait) = late(&workers(&[1.0, 1.02, 0.8, 1.01])).unwrap();
        assert_eq!((late_ones, (1e4 * wait).round()), (vec![2], 210.0));
        assert_eq!(late(&workers(&[0.5, 1.0])).unwrap().0, [0]);
        assert_eq!(late(&workers(&[0.5, 0.6, 1.0, 1.0])).unwrap().0, [0, 1]);
        let mut few = workers(&[0.5, 1.0]);
        few[0].rounds = 19;
        assert_eq!(late(&few), None, "nine rounds after the warm-up");
        for equal in [&[][..], &[1.0], &[1.0, 0.9], &[0.010, 0.001]] {
            assert_eq!(late(&workers(equal)), None, "{equal:?}");
        }
    }

    #[test]
    fn a_pool_is_too_small_if_many_fragments_find_it_taken() {
        let mut all = workers(&[1.0, 1.0]);
        all[0].stats.results = 100;
        all[0].stats.collisions = 19;
        assert_eq!(collided(&all), None);
        all[0].stats.collisions = 40;
        assert_eq!(collided(&all), Some(0.4));
        assert_eq!(collided(&[]), None);
    }
}
