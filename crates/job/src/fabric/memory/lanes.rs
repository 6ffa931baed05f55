//! A switch's end of the link to a host whose worker or parameter servers have several threads.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use tributary_jobfile::{HostId, Job, Scenario};
use tributary_netio::memory::MemoryPort;
use tributary_netio::{FrameIo, Watch};
use tributary_wire::agg;

/// The place of the job's ID in a frame.
const JOB: Range<usize> = agg::OFFSET + agg::field::JOB.start..agg::OFFSET + agg::field::JOB.end;

/// Number of threads of a host's worker: one for each lane.
pub(super) fn of_worker(scenario: &Scenario, host: HostId) -> usize {
    let jobs = scenario.jobs.iter().filter(|job| job.workers.contains(&host));
    jobs.map(|job| job.lane.count).max().unwrap_or(1)
}

/// Sends each frame to the port of the thread that its job has, as network cards choose a queue.
pub(super) struct Lanes {
    ports: Vec<MemoryPort>,
    /// The ports of jobs. Other frames go to the first port.
    of_jobs: BTreeMap<u16, usize>,
    /// The port that may receive first.
    turn: usize,
}

impl Lanes {
    /// `ports` are in the order of the threads.
    pub(super) fn new(scenario: &Scenario, ports: Vec<MemoryPort>) -> Self {
        let thread = |job: &Job| (job.id.get(), job.lane.thread(ports.len()));
        let of_jobs = scenario.jobs.iter().map(thread);
        Self { of_jobs: of_jobs.collect(), ports, turn: 0 }
    }
}

impl FrameIo for Lanes {
    fn receive(&mut self, max: usize, sink: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        let count = self.ports.len();
        let mut received = 0;
        for offset in 0..count {
            received += self.ports[(self.turn + offset) % count].receive(max - received, sink)?;
        }
        self.turn = (self.turn + 1) % count;
        Ok(received)
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<bool> {
        let job = frame.get(JOB).map(|job| u16::from_be_bytes([job[0], job[1]]));
        let port = job.and_then(|job| self.of_jobs.get(&job)).copied().unwrap_or_default();
        self.ports[port].send(frame)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.ports.iter_mut().try_for_each(FrameIo::flush)
    }

    fn watch(&mut self, watch: &mut Watch) -> io::Result<()> {
        self.ports.iter_mut().try_for_each(|port| port.watch(watch))
    }
}
