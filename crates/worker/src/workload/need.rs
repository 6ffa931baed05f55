//! Checks that a job file fits into memory, before any tensor or switch is created.
//!
//! Each worker has its tensors in memory once and sums in place. For verification, every process
//! with a worker also creates the tensors of all workers, or a share of each.

use anyhow::{Result, ensure};
use tributary_base::{memory, size};
use tributary_model::{JobSpec, Scenario, Workload};

/// The memory of one round of a job.
#[derive(Clone, Copy)]
struct Need {
    /// Bytes of one worker's tensors.
    tensors: u64,
    /// How many copies of its own tensors a worker has.
    own: u64,
    /// How many copies a process creates for verification, and computes of the sum.
    compared: u64,
    workers: u64,
}

impl Need {
    fn of(job: &JobSpec) -> Self {
        let (tensors, own) = match &job.workload {
            Workload::Random(random) => {
                (4 * random.elements, if random.repeat > 1 { 2 } else { 1 })
            }
            Workload::Files(files) => {
                let length = |path| std::fs::metadata(path).map_or(0, |file| file.len());
                // Values; and while another worker's file is read and compared, bytes and values.
                (files.inputs.iter().map(length).max().unwrap_or(0), 3)
            }
            // The data set is a small table.
            Workload::Digits(_) => (0, 1),
        };
        let workers = job.workers.len() as u64;
        // Each thread but the first has a copy of its part.
        let own = own + u64::from(job.lane.count > 1);
        // A share of each worker's tensor is one tensor in all.
        let compared = if job.workload.shares_verification() { 2 } else { workers + 1 };
        Self { tensors, own, compared, workers }
    }

    /// Bytes of a process with this many workers, including the expected sum.
    fn of_process(self, workers: u64) -> u64 {
        let copies = workers * self.own + self.compared;
        self.tensors.saturating_mul(copies)
    }
}

/// Approximate bytes of an aggregator besides its values.
const BESIDES: u64 = 32;

/// Most copies of the values per aggregator: P4INC and SwitchML keep two.
const CELLS: u64 = 2;

/// Refuses a run if this machine lacks the memory. `apart`: every worker has a process of its own.
///
/// # Errors
/// If it needs more than is available.
pub fn check_run(scenario: &Scenario, apart: bool) -> Result<()> {
    let of_job = |job: &JobSpec| {
        let need = Need::of(job);
        match apart {
            true => need.of_process(1).saturating_mul(need.workers),
            false => need.of_process(need.workers),
        }
    };
    for (_, job) in scenario.whole_jobs() {
        refuse(job, "its workers", of_job(job), memory::available())?;
    }
    let jobs = scenario.whole_jobs().map(|(_, job)| job);
    let tensors = jobs.map(of_job).fold(0, u64::saturating_add);
    let cell = 4 * u64::from(scenario.network.switch.values_per_packet) + BESIDES;
    let pool = CELLS * cell * u64::from(scenario.network.switch.pool);
    let switches = pool * scenario.network.topology.switches.len() as u64;
    let needed = tensors.saturating_add(switches);
    let Some(available) = memory::available() else { return Ok(()) };
    ensure!(
        needed <= available,
        "the run needs about {} of memory ({} for tensors, {} for aggregators of {} switches), and {} \
         are available; choose smaller tensors, a smaller `pool`, or fewer workers, jobs or switches",
        size(needed),
        size(tensors),
        size(switches),
        scenario.network.topology.switches.len(),
        size(available)
    );
    Ok(())
}

/// About how many packets of values the workers of all jobs send.
#[must_use]
pub fn packets(scenario: &Scenario) -> u64 {
    let values = u64::from(scenario.network.switch.values_per_packet);
    let of_job = |job: &JobSpec| {
        let rounds = match &job.workload {
            Workload::Random(random) => random.rounds(),
            Workload::Files(_) | Workload::Digits(_) => 1,
        };
        let Need { tensors, workers, .. } = Need::of(job);
        (tensors / 4).div_ceil(values).saturating_mul(workers).saturating_mul(rounds)
    };
    scenario.whole_jobs().map(|(_, job)| of_job(job)).fold(0, u64::saturating_add)
}

/// Refuses to run a worker of a job if this machine lacks the memory.
///
/// # Errors
/// If it needs more than is available.
pub fn check_worker(job: &JobSpec) -> Result<()> {
    refuse(job, "a worker", Need::of(job).of_process(1), memory::available())
}

fn refuse(job: &JobSpec, who: &str, needed: u64, available: Option<u64>) -> Result<()> {
    let Some(available) = available else { return Ok(()) };
    ensure!(
        needed <= available,
        "job {}: with tensors of {} each, {who} need about {} of memory, and {} are available; choose \
         smaller tensors or fewer workers, or put the workers on more machines",
        job.name,
        size(Need::of(job).tensors),
        size(needed),
        size(available)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(workload: &str) -> JobSpec {
        let text = format!(
            "[topology]\nkind = \"star\"\n[[job]]\nname = \"big\"\nworkers = 4\nworkload = {workload}\n"
        );
        tributary_model::jobfile::parse(&text, "job.toml").unwrap().jobs.remove(0)
    }

    #[test]
    fn tensors_count_for_each_worker_and_once_more_for_the_comparison() {
        let job = job("{ kind = \"random\", tensors = 1, bytes = \"16GB\" }");
        let need = Need::of(&job);
        assert_eq!(need.of_process(4), 9 * 16_000_000_000);
        assert_eq!(need.of_process(1), 6 * 16_000_000_000);
        let error = refuse(&job, "its workers", need.of_process(4), Some(8 << 30)).unwrap_err();
        let said = "job big: with tensors of 14.9 GiB each, its workers need about 134.1 GiB of memory, \
                    and 8.0 GiB are available; choose smaller tensors or fewer workers, or put the \
                    workers on more machines";
        assert_eq!(error.to_string(), said);
        assert!(refuse(&job, "its workers", need.of_process(4), Some(200 << 30)).is_ok());
        assert!(refuse(&job, "its workers", need.of_process(4), None).is_ok());
        let shares = "{ kind = \"random\", repeat = 2, bytes = \"4GB\", verify = \"share\" }";
        assert_eq!(Need::of(&self::job(shares)).of_process(1), 4 * 4_000_000_000);
        let threads = Need { own: need.own + 1, ..need };
        let mut parted = job;
        parted.lane.count = 2;
        assert_eq!(Need::of(&parted).of_process(1), threads.of_process(1));
    }
}
