//! Virtual time: the endpoints are event handlers, and a run is a function of job file and seed.

mod slots;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tributary_controller::programs::Compiled;
use tributary_model::{
    Deployment, HostId, JobSpec, LinkId, Scenario, SwitchId, plan::JobAtSwitch, worker_index,
};
use tributary_netio::FrameCount;
use tributary_p4runtime::p4::v1::Entity;
use tributary_protocol::worker::{Event as WorkerEvent, Stats};
use tributary_protocol::{ParameterServer, Tensor, Time, Worker};
use tributary_ps::report::{self as servers, ServerReport};
use tributary_sim::Taps;
use tributary_sim::{Happening, Options as SimOptions, System, Trace};
use tributary_wire::JobId;
use tributary_worker::Error as WorkerError;
use tributary_worker::rounds::{Event, Rounds};
use tributary_worker::workload::{Verifier, need};

use slots::Slots;

use super::{
    Counted, Crossing, Crossings, Fabric, Note, PortCount, QueueReport, Removed, SwitchEnd,
};
use crate::Options;

/// Network events between two checks for an interrupt.
const BATCH: usize = 10_000;

/// Packets whose simulation takes about a minute.
const MANY_PACKETS: u64 = 5_000_000;

/// A simulated network with the endpoints of a deployment.
pub struct Sim {
    deployment: Arc<Deployment>,
    system: System,
    /// By job and worker.
    workers: BTreeMap<(usize, usize), SimWorker>,
    /// When workers submit their next round.
    due: BTreeSet<(Time, usize, usize)>,
    /// Deadlines of finished workers that wait for the others.
    leaving: BTreeMap<(usize, usize), Time>,
    notes: VecDeque<Note>,
    /// Start of the endpoints.
    begin: Time,
    /// When the run wants to look.
    pause: Option<Time>,
    /// The control loop, if there is a cross-connect.
    slots: Option<Slots>,
}

/// A worker's rounds.
struct SimWorker {
    rounds: Rounds,
    /// Tensors that wait for the end of a pause.
    next: Vec<Tensor>,
    /// Sums of the current round so far, and their total number.
    sums: Vec<Tensor>,
    expected: usize,
    submitted: Time,
    /// Rounds that are over.
    done: u64,
}

impl Sim {
    /// A warning if the simulation of a scenario takes minutes or more.
    #[must_use]
    pub fn long(scenario: &Scenario) -> Option<String> {
        let packets = need::packets(scenario);
        (packets > MANY_PACKETS).then(|| {
            format!(
                "the workers send about {} million packets, each of which `--fabric sim` simulates: this can \
                 take minutes or hours; make the tensors fewer or smaller, or choose another fabric",
                packets / 1_000_000
            )
        })
    }

    /// The recorded trace of the network, if there is one.
    #[must_use]
    pub fn trace(&self) -> Option<&Trace> {
        self.system.network.trace()
    }

    /// Hands the last frame to the capture, if there is one.
    pub fn end_capture(&mut self) {
        self.system.network.end_capture();
    }

    fn host(&self, (job, worker): (usize, usize)) -> (HostId, JobId) {
        let JobSpec { id, ref workers, .. } = *self.deployment.job(job);
        (workers[worker], id)
    }

    /// Schedules a worker's next round after its pause; after the last round the worker leaves.
    fn schedule(&mut self, at: (usize, usize)) -> Result<()> {
        let now = self.system.network.now();
        let worker = self.workers.get_mut(&at).context("a worker of the job")?;
        if let Some((pause, tensors)) = worker.rounds.begin()? {
            worker.next = tensors;
            let round = worker.done + 1;
            match &mut self.slots {
                Some(slots) if !slots.may_begin(at.0, round) => slots.hold(at, pause),
                _ => drop(self.due.insert((now + pause, at.0, at.1))),
            }
            return Ok(());
        }
        let patience = worker.rounds.patience();
        let (host, job) = self.host(at);
        self.system.network.with_worker(host, job, Worker::leave);
        self.leaving.insert(at, now + patience);
        Ok(())
    }

    fn submit(&mut self, at: (usize, usize)) -> Result<()> {
        let now = self.system.network.now();
        let elapsed = now - self.begin;
        let (host, job) = self.host(at);
        let worker = self.workers.get_mut(&at).context("a worker of the job")?;
        let tensors = worker.rounds.prioritize(std::mem::take(&mut worker.next), elapsed);
        worker.submitted = now;
        worker.expected = tensors.len();
        for (tensor, (values, priority)) in tensors.into_iter().enumerate() {
            let submit = |worker: &mut Worker| worker.submit_with(values, priority);
            if let Some(submitted) = self.system.network.with_worker(host, job, submit) {
                submitted.map_err(|source| WorkerError::Submit { tensor, source })?;
            }
        }
        Ok(())
    }

    /// Adds a sum to a worker's round.
    fn take(&mut self, at: (usize, usize), sum: Tensor) -> Result<()> {
        let now = self.system.network.now();
        let (host, job) = self.host(at);
        let endpoint = self.system.network.worker(host, job);
        let stats: Stats = endpoint.map(|worker| *worker.stats()).unwrap_or_default();
        let worker = self.workers.get_mut(&at).context("a worker of the job")?;
        worker.sums.push(sum);
        if worker.sums.len() < worker.expected {
            return Ok(());
        }
        let sums = std::mem::take(&mut worker.sums);
        let event = worker.rounds.end(sums, now - worker.submitted, &stats)?;
        worker.done += 1;
        self.notes.push_back(Note::Worker { job: at.0, worker: at.1, event });
        self.schedule(at)
    }

    /// Runs an action for a worker; its error becomes the worker's last note.
    fn attempt(&mut self, at: (usize, usize), act: impl FnOnce(&mut Self) -> Result<()>) {
        if let Err(error) = act(self) {
            let event = Event::Failed { reason: tributary_base::one_line(error.as_ref()) };
            self.notes.push_back(Note::Worker { job: at.0, worker: at.1, event });
        }
    }

    fn hear(&mut self) {
        for happening in self.system.network.take_happenings() {
            match happening {
                Happening::Worker(host, id, event) => {
                    let at = self.deployment.scenario().worker_on(host, id);
                    let at = at.expect("only workers of the scenario run");
                    self.attempt(at, |sim| sim.on_event(at, event));
                }
                Happening::Server(id, event) => {
                    self.notes.push_back(Note::Servers(servers::Event::of(id, &event)));
                }
            }
        }
    }

    fn on_event(&mut self, at: (usize, usize), event: WorkerEvent) -> Result<()> {
        match event {
            WorkerEvent::TensorDone { tensor, .. } => self.take(at, tensor),
            WorkerEvent::Stalled { sequence, waited } => {
                let stalled = WorkerError::Stalled { sequence, waited, channel: None };
                Err(self.workers[&at].rounds.explain_stall(&stalled))
            }
            WorkerEvent::Failed(failure) => Err(failure.into()),
        }
    }

    /// Ends the workers that were dismissed or have waited long enough.
    fn let_go(&mut self) {
        let now = self.system.network.now();
        let gone = |(&at, &until): (&(usize, usize), &Time)| {
            let (host, job) = self.host(at);
            let worker = self.system.network.worker(host, job)?;
            (worker.is_dismissed() || until <= now).then(|| (at, *worker.stats()))
        };
        let gone: Vec<_> = self.leaving.iter().filter_map(gone).collect();
        for (at, stats) in gone {
            self.leaving.remove(&at);
            let (host, job) = self.host(at);
            self.system.network.kill(host, job);
            let report = Box::new(self.workers[&at].rounds.report(&stats));
            let event = Event::Done(report);
            self.notes.push_back(Note::Worker { job: at.0, worker: at.1, event });
        }
    }

    /// Processes the next event, not later than `limit`.
    fn step(&mut self, limit: Time) {
        let limit = self.control().map_or(limit, |next| limit.min(next));
        let submission = self.due.first().map(|&(time, ..)| time);
        let farewell = self.leaving.values().min().copied();
        let until = submission.into_iter().chain(farewell).fold(limit, Time::min);
        if !self.system.network.step(until)
            && let Some(&(time, job, worker)) = self.due.first()
            && time <= self.system.network.now()
        {
            self.due.pop_first();
            self.attempt((job, worker), |sim| sim.submit((job, worker)));
        }
        self.hear();
        self.let_go();
    }
}

impl Fabric for Sim {
    async fn start(
        deployment: &Arc<Deployment>,
        program: Compiled,
        options: &Options,
        taps: Option<&Taps>,
    ) -> Result<Self> {
        let settings = SimOptions {
            engine: options.engine,
            trace: options.trace,
            capture: taps.map(|taps| taps.recorder.clone()),
            processing: options.processing,
            ..SimOptions::seeded(deployment.scenario().seed)
        };
        let system = System::start(Deployment::clone(deployment), &program.into(), &settings)?;
        Ok(Self {
            deployment: Arc::clone(deployment),
            workers: BTreeMap::new(),
            due: BTreeSet::new(),
            leaving: BTreeMap::new(),
            notes: VecDeque::new(),
            begin: system.network.now(),
            pause: None,
            slots: Slots::of(deployment.scenario()),
            system,
        })
    }

    async fn admit(&mut self, job: usize) -> Result<()> {
        Ok(self.system.serve(job)?)
    }

    fn start_endpoints(&mut self) -> Result<()> {
        self.begin = self.system.network.now();
        let deployment = Arc::clone(&self.deployment);
        let scenario = deployment.scenario();
        for (job, its) in scenario.jobs.iter().enumerate() {
            self.system.start_endpoints(job, ParameterServer::successor)?;
            let values = scenario.network.switch.values_per_packet;
            let verifier = Verifier::new(its, values, its.workers.len());
            for worker in 0..its.workers.len() {
                let (deployment, verifier) = (Arc::clone(&deployment), verifier.clone());
                let rounds = Rounds::new(deployment, job, worker_index(worker), verifier)?;
                let idle = SimWorker {
                    rounds,
                    next: Vec::new(),
                    sums: Vec::new(),
                    expected: 0,
                    submitted: self.begin,
                    done: 0,
                };
                self.workers.insert((job, worker), idle);
                self.attempt((job, worker), |sim| sim.schedule((job, worker)));
            }
        }
        Ok(())
    }

    async fn next_note(&mut self) -> Option<Note> {
        // One nanosecond more, so that the run notices the timeout.
        let timeout = self.deployment.scenario().timeout + Duration::from_nanos(1);
        let limit = self.begin + timeout;
        for _ in 0..BATCH {
            if let Some(note) = self.notes.pop_front() {
                return Some(note);
            }
            let until = self.pause.map_or(limit, |pause| limit.min(pause));
            if self.system.network.now() >= until {
                break;
            }
            self.step(until);
        }
        None
    }

    fn elapsed(&self) -> Duration {
        self.system.network.now() - self.begin
    }

    fn stop_endpoints(&mut self) {
        let mut done = Vec::new();
        for job in &self.deployment.scenario().jobs {
            if job.protocol.has_reminder_agent() {
                done.extend(self.system.backends(job.id).map(servers::Event::backend));
            } else if let Some(ps) = job.ps
                && let Some(server) = self.system.network.server(ps, job.id)
            {
                let stats = servers::Stats::Plain(*server.stats());
                let servers = vec![(job.id.get(), ServerReport { stats, agent: None })];
                done.push(servers::Event::Done { servers, agents: Vec::new() });
            }
        }
        self.notes.extend(done.into_iter().map(Note::Servers));
        for job in &self.deployment.scenario().jobs {
            for host in self.deployment.scenario().network.topology.host_ids() {
                self.system.network.kill(host, job.id);
            }
        }
    }

    async fn remove(&mut self, job: usize) -> Result<Vec<Removed>> {
        let outcomes = self.system.outcomes(job)?;
        let evictions = self.system.evictions(job)?;
        let parts = self.system.deployment().parts(job);
        let freed: BTreeMap<_, _> = self.system.forget(job)?.into_iter().collect();
        let parts = parts.into_iter();
        let removed = parts.map(|JobAtSwitch { switch, .. }| {
            let evictions = evictions.get(&switch).copied().unwrap_or_default();
            let freed = freed.get(&switch).copied().unwrap_or_default();
            Removed { switch, outcomes: outcomes[switch.0], evictions, freed }
        });
        Ok(removed.collect())
    }

    fn stop_switches(&mut self) -> Vec<SwitchEnd> {
        let topology = &self.deployment.scenario().network.topology;
        let end = |id| {
            let switch = self.system.network.switch(id);
            let ports: Vec<_> =
                topology.ports(id).filter_map(|(port, ..)| switch.port_statistics(port)).collect();
            SwitchEnd { queues: Some(QueueReport::of(ports.iter())), cpu: None }
        };
        topology.switch_ids().map(end).collect()
    }

    async fn counts(&self, job: usize) -> Result<Vec<(SwitchId, Counted)>> {
        let outcomes = self.system.outcomes(job)?;
        let evictions = self.system.evictions(job)?;
        let parts = self.system.deployment().parts(job).into_iter();
        let counted = parts.map(|JobAtSwitch { switch, .. }| {
            let evictions = evictions.get(&switch).copied().unwrap_or_default();
            (switch, Counted { outcomes: outcomes[switch.0], evictions })
        });
        Ok(counted.collect())
    }

    async fn read(&self, switch: SwitchId, request: Vec<Entity>) -> Result<Vec<Entity>> {
        let read = self.system.network.switch(switch).read(&request);
        read.map_err(|refusal| anyhow!("{}", refusal.message))
    }

    async fn ports(&self, switch: SwitchId) -> Vec<(u16, PortCount)> {
        let ports = self.deployment.scenario().network.topology.port_numbers(switch);
        let switch = self.system.network.switch(switch);
        ports.filter_map(|port| Some((port, switch.port_statistics(port)?.into()))).collect()
    }

    /// No other end of a link could count so exactly.
    async fn crossings(&self) -> Crossings {
        let links = self.deployment.scenario().network.topology.fixed_links();
        let crossing =
            |FrameCount { sent, received }| Some(Crossing { sent, received, under_way: 0 });
        (0..links).map(|link| self.system.network.crossed(LinkId(link)).map(crossing)).collect()
    }

    fn is_real(&self) -> bool {
        false
    }

    fn pause_at(&mut self, elapsed: Duration) {
        self.pause = Some(self.begin + elapsed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_simulation_has_a_warning() {
        let warning = |tensors: u32, bytes: &str| {
            let text = format!(
                "protocol = \"esa\"\n[topology]\nworkers = 3\n[switch]\npool = 32\n[[job]]\nworkload = \
                 {{ kind = \"random\", tensors = {tensors}, bytes = \"{bytes}\" }}\n"
            );
            Sim::long(
                &tributary_model::jobfile::parse(&text, "f")
                    .unwrap_or_else(|error| panic!("{error}")),
            )
        };
        let found = warning(4, "1000000KB").expect("a warning");
        assert!(found.starts_with("the workers send about 46 million packets, "), "{found}");
        assert!(!found.contains('\n'));
        assert_eq!(warning(4, "4000KB"), None);
    }
}
