//! A switch's end of the link to a host whose worker or parameter servers have several threads.

use std::collections::BTreeMap;
use std::ops::Range;

use tributary_model::{HostId, JobSpec, Scenario};
use tributary_netio::{Fan, FrameIo};
use tributary_wire::agg;

/// The place of the job's ID in a frame.
const JOB: Range<usize> = agg::OFFSET + agg::field::JOB.start..agg::OFFSET + agg::field::JOB.end;

/// Number of threads of a host's worker: one for each lane.
pub(crate) fn of_worker(scenario: &Scenario, host: HostId) -> usize {
    let jobs = scenario.jobs.iter().filter(|job| job.workers.contains(&host));
    jobs.map(|job| job.lane.count).max().unwrap_or(1)
}

/// Sends each frame to the thread that its job has, as network cards choose a queue, and frames of no
/// job to the first one. `ports` are in the order of the threads.
pub(crate) fn fan<Io: FrameIo + 'static>(scenario: &Scenario, ports: Vec<Io>) -> Box<dyn FrameIo> {
    let thread = |job: &JobSpec| (job.id.get(), job.lane.thread(ports.len()));
    let of_jobs: BTreeMap<u16, usize> = scenario.jobs.iter().map(thread).collect();
    Box::new(Fan::new(ports, move |frame| {
        let job = frame.get(JOB).map(|job| u16::from_be_bytes([job[0], job[1]]));
        job.and_then(|job| of_jobs.get(&job)).copied().unwrap_or_default()
    }))
}
