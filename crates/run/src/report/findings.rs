//! What the rules find in the reports of a run.

use tributary_model::{JobSpec, Scenario};
use tributary_worker::rounds::WorkerReport;

use crate::findings::{WorkerNow, late_workers, small_pool};

/// What keeps a job waiting, one line each. `indices` are the workers that have reported.
pub fn findings(
    scenario: &Scenario,
    job: &JobSpec,
    indices: &[usize],
    workers: &[WorkerReport],
) -> Vec<String> {
    let topology = &scenario.network.topology;
    let worker = |(&index, report): (&usize, &WorkerReport)| WorkerNow {
        index,
        host: &topology.host(job.workers[index]).name,
        measured: report.measured(&report.stats),
    };
    let workers: Vec<WorkerNow<'_>> = indices.iter().zip(workers).map(worker).collect();
    // A worker that comes back has been in other sums than those that were there before.
    let late = late_workers(0, &workers).filter(|_| !job.on_death.goes_on());
    let pool = small_pool(0, &workers, scenario.network.switch.pool);
    late.into_iter().chain(pool).map(|finding| finding.text).collect()
}
