//! Servers at a switch, and jobs that arrive, train and leave: every packet of every iteration.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tributary_controller::entries::{self, JobSlot};
use tributary_model::{
    Aggregation, HostId, JobSpec, SwitchId,
    plan::{self, JobAtSwitch, Placement},
    worker_index,
};
use tributary_p4runtime::p4::v1::Update;
use tributary_protocol::{Assignment, ParameterServer, Tensor, Time, Worker, worker};
use tributary_wire::{Epoch, JobId};

use super::Error;
use super::rig::{Rig, VALUES};
use super::shape::Sender;
use tributary_sim::Process;
use tributary_sim::{Happening, Network};

const SWITCH: SwitchId = SwitchId(0);

/// The workload of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Work {
    /// A worker's computing time before each sum.
    pub(super) compute: Duration,
    /// Packets per sum.
    pub(super) packets: u32,
    /// Sums that a worker has in flight at once; with more than one, it never pauses.
    pub(super) ahead: u32,
    /// Number of sums of the job.
    pub(super) iterations: u64,
}

#[derive(Debug)]
struct Training {
    job: JobSpec,
    slot: u8,
    parts: Vec<JobAtSwitch>,
    work: Work,
    /// Number of sums of each worker.
    done: Vec<u64>,
}

/// The servers, the switch, and the running jobs.
#[derive(Debug)]
pub(super) struct Bench<'a> {
    rig: &'a Rig,
    network: Network,
    jobs: BTreeMap<JobId, Training>,
    /// When workers finish computing.
    due: BTreeSet<(Time, JobId, usize)>,
    /// Number of the last job.
    last: u16,
}

impl<'a> Bench<'a> {
    pub(super) fn new(rig: &'a Rig) -> Result<Self, Error> {
        let network = Network::new(&rig.scenario, vec![rig.switch()], Rig::cable(), 1, None, None);
        let network = network.map_err(tributary_sim::Error::from)?;
        let mut bench = Self { rig, network, jobs: BTreeMap::new(), due: BTreeSet::new(), last: 0 };
        for forwarding in plan::forwarding(&rig.scenario.network.topology) {
            let entities = entries::forwarding(&rig.catalogue, &forwarding);
            bench.write(&entries::insert(entities))?;
        }
        Ok(bench)
    }

    pub(super) fn now(&self) -> Time {
        self.network.now()
    }

    /// Frame arrivals at any host or switch.
    pub(super) fn hops(&self) -> u64 {
        self.network.hops()
    }

    /// Starts a job: its workers begin to compute.
    pub(super) fn start(&mut self, sender: &Sender, work: Work) -> Result<JobId, Error> {
        self.last += 1;
        let id = JobId::new(self.last).expect("jobs count from 1");
        let job = JobSpec {
            id,
            epoch: Epoch::new(self.last.into()).expect("jobs count from 1"),
            workers: sender.workers.iter().map(|&server| HostId(server as usize)).collect(),
            ps: Some(HostId(sender.ps as usize)),
            aggregation: match sender.aggregates {
                true => Aggregation::Network,
                false => Aggregation::Server,
            },
            ..self.rig.scenario.jobs[0].clone()
        };
        let taken: BTreeSet<u8> = self.jobs.values().map(|job| job.slot).collect();
        let slot = (1..=u8::MAX).find(|slot| !taken.contains(slot)).expect("few jobs run at once");
        let parts = plan::job(&self.rig.scenario.network.topology, &Placement::unassigned(&job));
        for part in &parts {
            let entities = entries::job(&self.rig.catalogue, part, job.run(), job_slot(slot));
            self.write(&entries::insert(entities))?;
        }
        let scenario = &self.rig.scenario;
        let server = ParameterServer::new(scenario.network.ps_config(&job, Assignment::NONE));
        let server = Process::Server(id, server.map_err(tributary_sim::Error::from)?);
        self.network.start(job.server(), server);
        for (worker, &host) in job.workers.iter().enumerate() {
            let config =
                scenario.network.worker_config(&job, Assignment::NONE, worker_index(worker));
            let endpoint = Worker::new(config).map_err(tributary_sim::Error::from)?;
            self.network.start(host, Process::Worker(id, endpoint));
            self.due.insert((self.now() + work.compute, id, worker));
        }
        let done = vec![0; job.workers.len()];
        self.jobs.insert(id, Training { job, slot, parts, work, done });
        Ok(id)
    }

    /// Processes events until a job ends, which is removed and returned, or until `until`.
    pub(super) fn run_until(&mut self, until: Time) -> Result<Option<JobId>, Error> {
        loop {
            let due = self.due.first().copied().filter(|(time, ..)| *time <= until);
            let limit = due.map_or(until, |(time, ..)| time);
            if self.network.step(limit) {
                if let Some(over) = self.hear()? {
                    self.stop(over)?;
                    return Ok(Some(over));
                }
            } else if let Some(due) = due {
                self.due.remove(&due);
                self.submit(due.1, due.2, None)?;
            } else {
                return Ok(None);
            }
        }
    }

    /// Sums of single packets that each job's parameter server completed, and how many of them
    /// arrived complete from the switch.
    pub(super) fn counts(&self, id: JobId) -> (u64, u64) {
        let server = self.network.server(self.jobs[&id].job.server(), id).expect("it runs");
        (server.stats().completed, server.stats().complete_on_arrival)
    }

    fn submit(&mut self, id: JobId, worker: usize, memory: Option<Vec<i32>>) -> Result<(), Error> {
        let training = &self.jobs[&id];
        let Work { packets, ahead, .. } = training.work;
        let host = training.job.workers[worker];
        let values = packets as usize * VALUES;
        let mut memory = memory.into_iter();
        // The first time, submit as many as may be in flight.
        let more = if training.done[worker] == 0 && memory.len() == 0 { ahead } else { 1 };
        for _ in 0..more {
            let mut ones = memory.next().unwrap_or_default();
            ones.clear();
            ones.resize(values, 1);
            let submitted = self
                .network
                .with_worker(host, id, |worker| worker.submit(Tensor::I32(ones.into())));
            if let Some(Err(source)) = submitted {
                let job = usize::from(id.get());
                return Err(tributary_sim::Error::Submit { job, worker, source }.into());
            }
        }
        Ok(())
    }

    /// Handles the endpoints' events. Returns a job that has all its sums.
    fn hear(&mut self) -> Result<Option<JobId>, Error> {
        let mut over = None;
        for happening in self.network.take_happenings() {
            let Happening::Worker(host, id, worker::Event::TensorDone { tensor, .. }) = happening
            else {
                continue;
            };
            let training = self.jobs.get_mut(&id).expect("it runs");
            let workers = training.job.workers.len();
            let worker = training.job.workers.iter().position(|&at| at == host);
            let worker = worker.expect("a worker of its own");
            let Tensor::I32(sums) = tensor else { unreachable!("integers were submitted") };
            if let Some(&sum) = sums.iter().find(|&&sum| sum as usize != workers) {
                return Err(Error::Sum { workers, sum });
            }
            training.done[worker] += 1;
            let Work { compute, iterations, ahead, .. } = training.work;
            if training.done.iter().all(|&done| done >= iterations) {
                over = Some(id);
            } else if training.done[worker] < iterations {
                if ahead > 1 {
                    self.submit(id, worker, Some(sums.into()))?;
                } else {
                    self.due.insert((self.now() + compute, id, worker));
                }
            }
        }
        Ok(over)
    }

    fn stop(&mut self, id: JobId) -> Result<(), Error> {
        let Training { job, slot, parts, .. } = self.jobs.remove(&id).expect("it runs");
        for &host in job.workers.iter().chain(&job.ps) {
            self.network.kill(host, id);
        }
        self.due.retain(|(_, its, _)| *its != id);
        for part in &parts {
            let entities =
                entries::memberships(&self.rig.catalogue, part, job.run(), job_slot(slot));
            self.write(&entries::delete(entities))?;
        }
        Ok(())
    }

    fn write(&mut self, updates: &[Update]) -> Result<(), Error> {
        let refused = |refusal| tributary_sim::Error::Refused { switch: SWITCH.0, refusal };
        let results = self.network.switch_mut(SWITCH).write(updates).map_err(refused)?;
        Ok(results.into_iter().collect::<Result<(), _>>().map_err(refused)?)
    }
}

fn job_slot(slot: u8) -> JobSlot {
    JobSlot::new(slot).expect("slots count from 1")
}
