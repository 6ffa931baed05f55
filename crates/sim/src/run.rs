//! A whole scenario in virtual time: from admission to sweep.

mod acts;
mod cells;
mod service;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tributary_controller::entries::{self, JobSlot};
use tributary_controller::outcomes::Outcomes;
use tributary_controller::segments::{Allocator, Refusal as NoMemory};
use tributary_controller::{Catalogue, plan, sweep};
use tributary_jobfile::{Aggregation, Job, Profile, Scenario, SwitchId};
use tributary_netio::faults::{InvalidFaults, Statistics};
use tributary_p4runtime_proto::p4::v1::Update;
use tributary_protocol::esa::{self, Target};
use tributary_protocol::priority::{Horizon, JobProfile, Priority};
use tributary_protocol::rtt::RttConfig;
use tributary_protocol::{
    Assignment, ConfigError, ParameterServer, SubmitError, Tensor, Time, Worker, server, worker,
};
use tributary_switch::{Refusal, Switch, SwitchConfig};
use tributary_wire::{Sequence, Service, WorkerIndex};

use crate::channel::Pace;
use crate::line::Cable;
use crate::network::{Disturbance, Happening, Network};
use crate::process::Process;
use crate::program::Program;
use crate::trace::Trace;

pub use acts::Act;
pub use cells::Held;

/// Virtual time that a walk through all aggregators may take.
const SWEEP_TIME: Duration = Duration::from_secs(60);

/// What each worker sums: by job, worker and round.
pub type Inputs = Vec<Vec<Vec<Tensor>>>;

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the links are like.
    pub cable: Cable,
    /// Seed of the links' faults.
    pub seed: u64,
    /// Virtual time after which the run is given up.
    pub limit: Duration,
    /// What reliable channels are like.
    pub pace: Pace,
    /// How long workers wait for a result before they take it for lost.
    pub worker_rtt: RttConfig,
    /// How long a worker that has everything waits for its dismissal (ESA). An agent that was replaced
    /// in the middle of it knows nothing of those that have gone, and would wait for them for ever.
    pub farewell: Duration,
    /// Record every frame and message.
    pub trace: bool,
    /// Of all the faults that chance would bring, let only these happen.
    pub only: Option<BTreeSet<Disturbance>>,
}

impl Options {
    /// From a seed, within ten virtual minutes.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self {
            cable: Cable::default(),
            seed,
            limit: Duration::from_secs(600),
            pace: Pace::default(),
            worker_rtt: RttConfig::default(),
            farewell: Duration::from_secs(5),
            trace: false,
            only: None,
        }
    }
}

/// Why a scenario could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The links' faults make no sense.
    #[error(transparent)]
    Faults(#[from] InvalidFaults),
    /// An endpoint's settings contradict each other.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A tensor cannot be summed.
    #[error("job {job}, worker {worker}: {source}")]
    Submit {
        /// Index of the job.
        job: usize,
        /// Index of the worker.
        worker: usize,
        /// Why.
        source: SubmitError,
    },
    /// A worker cannot be served in another way.
    #[error("job {job}, worker {worker}: {source}")]
    Reassign {
        /// Index of the job.
        job: usize,
        /// Index of the worker.
        worker: usize,
        /// Why.
        source: worker::ReassignError,
    },
    /// A switch refused an update.
    #[error("switch {switch}: {refusal}")]
    Refused {
        /// Which.
        switch: usize,
        /// Why.
        refusal: Refusal,
    },
    /// A sweep did not come back.
    #[error("switch {switch}: the sweep did not come back within {SWEEP_TIME:?}")]
    SweepLost {
        /// Which.
        switch: usize,
    },
    /// The program has not what the controller needs, or a job cannot be placed.
    #[error(transparent)]
    Controller(#[from] tributary_controller::Error),
    /// The switches have no memory for a job.
    #[error(transparent)]
    Memory(#[from] NoMemory),
}

/// What the parts behind a job's switches counted (ESA), since they were started last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EsaStats {
    /// The parameter server.
    pub server: esa::server::Stats,
    /// The reminder agent.
    pub agent: esa::agent::Stats,
}

/// What a run came to.
#[derive(Debug)]
pub struct Outcome {
    /// Whether every worker of a job that was not ended early got every sum before the limit, and
    /// could go.
    pub complete: bool,
    /// Sums that did not come.
    pub outstanding: usize,
    /// Workers that went without having been dismissed.
    pub undismissed: u64,
    /// Sums, by job, worker and round; as many rounds as came.
    pub sums: Inputs,
    /// Virtual time from the start to the last sum.
    pub time: Duration,
    /// The same for each job.
    pub times: Vec<Duration>,
    /// What each job's workers counted.
    pub workers: Vec<Vec<worker::Stats>>,
    /// What each job's parameter server counted (ATP, P4INC).
    pub servers: Vec<server::Stats>,
    /// What each job's parameter server and reminder agent counted (ESA).
    pub esa: Vec<EsaStats>,
    /// What became of packets: by job, at each switch.
    pub outcomes: Vec<Vec<Outcomes>>,
    /// What became of packets of no job, at each switch.
    pub unattributed: Vec<Outcomes>,
    /// What endpoints complained about.
    pub stalls: Vec<String>,
    /// Aggregators that sweeps freed, by job.
    pub swept: Vec<u64>,
    /// Aggregators that a job held after it was ended, or moved, and swept.
    pub leaks: Vec<Held>,
    /// Aggregators that were still held when all jobs had been swept, over all switches.
    pub left_behind: u64,
    /// What went wrong on the links.
    pub faults: Statistics,
    /// Frames that arrived somewhere.
    pub hops: u64,
    /// Messages that arrived over reliable channels.
    pub messages: u64,
    /// Packets that were to be lost and never came by.
    pub losses_to_come: usize,
    /// Which frames that concerned.
    pub disturbances: BTreeSet<Disturbance>,
    /// What was seen, if it was to be recorded.
    pub trace: Option<Trace>,
}

/// A scenario under way.
#[derive(Debug)]
pub struct Run<'a> {
    scenario: &'a Scenario,
    catalogue: Catalogue,
    /// The network, to look into or to disturb.
    pub network: Network,
    inputs: Inputs,
    /// Priorities of tensors, by job and round, where they do not follow from the job's profile.
    priorities: Vec<Vec<Priority>>,
    sums: Inputs,
    /// Tensors that each worker submitted.
    submitted: Vec<Vec<usize>>,
    /// Who holds which aggregators, where jobs have some of their own.
    memory: Option<Allocator>,
    /// How switches serve each job.
    assignments: Vec<Assignment>,
    /// The service that each job had last.
    services: Vec<Service>,
    /// Jobs that are to be moved, and before which iteration.
    moves: BTreeMap<usize, (usize, Aggregation)>,
    /// When workers submit their next tensor.
    due: BTreeSet<(Time, usize, usize)>,
    /// What is to be done, and when.
    acts: BTreeSet<(Time, Act)>,
    /// Sums that are to come, of all jobs and of each.
    outstanding: usize,
    missing: Vec<usize>,
    /// Workers that have not gone.
    present: BTreeSet<(usize, usize)>,
    /// What workers that have gone counted.
    departed: BTreeMap<(usize, usize), worker::Stats>,
    /// Aggregators that each job's last sweep freed, and jobs that were ended.
    freed: Vec<u64>,
    ended: BTreeSet<usize>,
    leaks: Vec<Held>,
    stalls: Vec<String>,
    pace: Pace,
    worker_rtt: RttConfig,
    farewell: Duration,
    /// Until when workers that have everything wait.
    farewells: BTreeMap<(usize, usize), Time>,
    undismissed: u64,
    /// When each job's last sum came.
    last: Vec<Time>,
    limit: Time,
}

impl<'a> Run<'a> {
    /// Programs the switches, admits all jobs and starts their endpoints.
    ///
    /// # Errors
    /// [`Error`].
    pub fn start(
        scenario: &'a Scenario,
        program: &Program,
        inputs: Inputs,
        options: &Options,
    ) -> Result<Self, Error> {
        let topology = &scenario.topology;
        let switches = topology.switch_ids().map(|id| switch(scenario, program, id)).collect();
        let Options { cable, seed, ref only, .. } = *options;
        let mut network = Network::new(scenario, switches, cable, seed, only.as_ref())?;
        if options.trace {
            network.record();
        }
        let catalogue = Catalogue::new(program.p4info())?;
        let missing: Vec<usize> = inputs.iter().map(|job| job.iter().map(Vec::len).sum()).collect();
        let workers = scenario.jobs.iter().enumerate();
        let mut run = Self {
            sums: scenario.jobs.iter().map(|job| vec![Vec::new(); job.workers.len()]).collect(),
            submitted: scenario.jobs.iter().map(|job| vec![0; job.workers.len()]).collect(),
            memory: service::memory(scenario),
            assignments: vec![Assignment::NONE; scenario.jobs.len()],
            services: vec![Service::FORWARDED; scenario.jobs.len()],
            moves: BTreeMap::new(),
            outstanding: missing.iter().sum(),
            missing,
            present: workers
                .flat_map(|(job, its)| (0..its.workers.len()).map(move |worker| (job, worker)))
                .collect(),
            departed: BTreeMap::new(),
            freed: vec![0; scenario.jobs.len()],
            ended: BTreeSet::new(),
            leaks: Vec::new(),
            scenario,
            catalogue,
            network,
            inputs,
            priorities: Vec::new(),
            due: BTreeSet::new(),
            acts: BTreeSet::new(),
            stalls: Vec::new(),
            pace: options.pace,
            worker_rtt: options.worker_rtt,
            farewell: options.farewell,
            farewells: BTreeMap::new(),
            undismissed: 0,
            last: vec![Time::ZERO; scenario.jobs.len()],
            limit: Time::ZERO + options.limit,
        };
        for (switch, forwarding) in plan::forwarding(topology).iter().enumerate() {
            let entities = entries::forwarding(&run.catalogue, forwarding);
            run.write(SwitchId(switch), &entries::insert(entities))?;
        }
        for index in 0..scenario.jobs.len() {
            run.admit(index)?;
        }
        Ok(run)
    }

    fn admit(&mut self, index: usize) -> Result<(), Error> {
        let scenario = self.scenario;
        let job = &scenario.jobs[index];
        self.serve(index, job.aggregation)?;
        self.start_server(index, ParameterServer::new)?;
        self.start_agent(index)?;
        for (worker, &host) in job.workers.iter().enumerate() {
            let assignment = self.assignments[index];
            let mut config = scenario.worker_config(job, assignment, worker_index(worker));
            config.timing.rtt = self.worker_rtt;
            self.network.start(host, Process::Worker(job.id, Worker::new(config)?));
            self.schedule(index, worker);
        }
        self.connect(job)
    }

    /// Does something when `after` has passed since the start.
    pub fn at(&mut self, after: Duration, act: Act) {
        self.acts.insert((Time::ZERO + after, act));
    }

    /// Gives tensors priorities, by job and round, instead of those that follow from the jobs'
    /// profiles (ESA).
    pub fn prioritize(&mut self, priorities: Vec<Vec<Priority>>) {
        self.priorities = priorities;
    }

    fn priority(&self, job: usize, round: usize) -> Priority {
        if let Some(&priority) = self.priorities.get(job).and_then(|own| own.get(round)) {
            return priority;
        }
        let own = self.scenario.jobs[job].profile;
        let Profile { layers, communication, computation, remaining } = own;
        let attained = self.network.now() - Time::ZERO;
        let profile = JobProfile {
            layers,
            communication,
            computation,
            horizon: remaining.map_or(Horizon::Attained(attained), Horizon::Remaining),
        };
        let of = self.inputs[job].iter().map(Vec::len).max().unwrap_or(0);
        profile.of_layer(own.layer(round, of))
    }

    fn write(&mut self, switch: SwitchId, updates: &[Update]) -> Result<(), Error> {
        let refused = |refusal| Error::Refused { switch: switch.0, refusal };
        let results = self.network.switch_mut(switch).write(updates).map_err(refused)?;
        results.into_iter().collect::<Result<(), _>>().map_err(refused)
    }

    /// The switches that aggregate for a job, and how the agent reaches them.
    fn targets(&self, job: &Job) -> Result<Vec<Target>, Error> {
        let topology = &self.scenario.topology;
        let target = |target: plan::Target| {
            let via = topology.host(target.via).address;
            Target { members: target.members, via }
        };
        Ok(plan::targets(topology, &job.into())?.into_iter().map(target).collect())
    }

    /// The worker's next tensor is submitted after its pause, if there is one; else it leaves.
    fn schedule(&mut self, job: usize, worker: usize) {
        if self.sums[job][worker].len() == self.inputs[job][worker].len() {
            let Job { id, workers, .. } = &self.scenario.jobs[job];
            self.network.with_worker(workers[worker], *id, Worker::leave);
            self.farewells.insert((job, worker), self.network.now() + self.farewell);
        } else {
            let pause = self.scenario.jobs[job].straggler_delay(worker_index(worker));
            self.due.insert((self.network.now() + pause, job, worker));
        }
    }

    /// Virtual time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.network.now() - Time::ZERO
    }

    /// Lets the next thing happen; false when every sum is in and every worker has gone, or the limit
    /// has passed.
    ///
    /// # Errors
    /// If a tensor cannot be summed, or a switch refuses.
    pub fn step(&mut self) -> Result<bool, Error> {
        self.let_go();
        if self.is_over() || self.network.now() >= self.limit {
            return Ok(false);
        }
        let submission = self.due.first().copied();
        let act = self.acts.first().copied();
        let times = [
            Some(self.limit),
            submission.map(|(time, ..)| time),
            act.map(|(time, _)| time),
            self.farewells.values().min().copied(),
        ];
        let until = times.into_iter().flatten().min().unwrap_or(self.limit);
        if !self.network.step(until) {
            let now = self.network.now();
            if let Some((_, act)) = act.filter(|(time, _)| *time <= now) {
                self.acts.pop_first();
                self.act(act)?;
            } else if let Some((_, job, worker)) = submission.filter(|(time, ..)| *time <= now) {
                self.due.pop_first();
                self.submit(job, worker)?;
            }
        }
        self.hear();
        self.move_jobs()?;
        Ok(true)
    }

    /// Whether all sums are in and all workers have gone.
    fn is_over(&self) -> bool {
        self.outstanding == 0 && self.present.iter().all(|(job, _)| self.ended.contains(job))
    }

    /// Workers that nobody needs any more go, and those that have waited long enough to be told so.
    fn let_go(&mut self) {
        while let Some((index, worker)) = self.next_to_go() {
            let Job { id, workers, .. } = &self.scenario.jobs[index];
            if let Some(endpoint) = self.network.worker(workers[worker], *id) {
                self.undismissed += u64::from(!endpoint.is_dismissed());
                self.departed.insert((index, worker), *endpoint.stats());
            }
            self.farewells.remove(&(index, worker));
            self.present.remove(&(index, worker));
            self.network.kill(workers[worker], *id);
        }
    }

    fn next_to_go(&self) -> Option<(usize, usize)> {
        let over = self.farewells.iter().find(|(_, until)| **until <= self.network.now());
        let over = over.map(|(worker, _)| *worker);
        over.or_else(|| {
            self.present.iter().copied().find(|&(index, worker)| {
                let Job { id, workers, .. } = &self.scenario.jobs[index];
                let endpoint = self.network.worker(workers[worker], *id);
                self.missing[index] == 0 && endpoint.is_some_and(Worker::is_dismissed)
            })
        })
    }

    fn submit(&mut self, job: usize, worker: usize) -> Result<(), Error> {
        let round = self.sums[job][worker].len();
        if self.moves.get(&job).is_some_and(|(before, _)| *before == round) {
            // It waits for the move.
            return Ok(());
        }
        self.submitted[job][worker] = round + 1;
        let tensor = self.inputs[job][worker][round].clone();
        let priority = self.priority(job, round);
        let Job { id, workers, .. } = &self.scenario.jobs[job];
        let submit = |worker: &mut Worker| worker.submit_with(tensor, priority);
        let submitted = self.network.with_worker(workers[worker], *id, submit);
        match submitted {
            Some(Err(source)) => Err(Error::Submit { job, worker, source }),
            // A worker that was killed submits nothing.
            Some(Ok(_)) | None => Ok(()),
        }
    }

    fn hear(&mut self) {
        for happening in self.network.take_happenings() {
            match happening {
                Happening::Worker(host, id, worker::Event::TensorDone { tensor, .. }) => {
                    let jobs = &self.scenario.jobs;
                    let job = jobs.iter().position(|job| job.id == id).expect("a job of ours");
                    let workers = &jobs[job].workers;
                    let worker = workers.iter().position(|at| *at == host).expect("its worker");
                    self.sums[job][worker].push(tensor);
                    self.outstanding -= 1;
                    self.missing[job] -= 1;
                    self.last[job] = self.network.now();
                    self.schedule(job, worker);
                }
                Happening::Worker(_, id, event) => {
                    self.stalls.push(format!("worker of job {id}: {event:?}"));
                }
                Happening::Server(id, event) => {
                    self.stalls.push(format!("server of job {id}: {event:?}"));
                }
            }
        }
    }

    /// Ends the jobs as the controller does, entries first and then the sweep, and looks what is
    /// left in the switches.
    ///
    /// # Errors
    /// If a switch refuses.
    pub fn finish(mut self) -> Result<Outcome, Error> {
        let scenario = self.scenario;
        let mut workers = Vec::new();
        let mut servers = Vec::new();
        let mut esa = Vec::new();
        for (index, job) in scenario.jobs.iter().enumerate() {
            let stats = |(worker, host): (usize, &_)| {
                let living = self.network.worker(*host, job.id).map(|worker| *worker.stats());
                living.or(self.departed.get(&(index, worker)).copied()).unwrap_or_default()
            };
            workers.push(job.workers.iter().enumerate().map(stats).collect());
            let server = job.ps.and_then(|ps| self.network.server(ps, job.id));
            let server = server.map(|server| *server.stats());
            servers.push(server.unwrap_or_default());
            esa.push(self.esa_stats(job));
        }
        let outcomes = (0..scenario.jobs.len())
            .map(|job| self.outcomes(Some(slot(job))))
            .collect::<Result<_, _>>()?;
        let unattributed = self.outcomes(None)?;
        let complete = self.is_over();
        let outstanding = self.outstanding;
        // Packets of a job that were on their way when it was swept may not take a cell again.
        self.find_leaks();
        for index in 0..scenario.jobs.len() {
            if !self.ended.contains(&index) {
                self.end(index)?;
            }
        }
        let swept = self.freed.clone();
        let left_behind = self.held().len() as u64;
        let times: Vec<Duration> = self.last.iter().map(|last| *last - Time::ZERO).collect();
        Ok(Outcome {
            complete,
            outstanding,
            undismissed: self.undismissed,
            sums: self.sums,
            time: times.iter().max().copied().unwrap_or_default(),
            times,
            workers,
            servers,
            esa,
            outcomes,
            unattributed,
            stalls: self.stalls,
            swept,
            leaks: self.leaks,
            left_behind,
            faults: self.network.faults(),
            hops: self.network.hops(),
            messages: self.network.messages(),
            losses_to_come: self.network.losses_to_come(),
            disturbances: self.network.disturbances(),
            trace: self.network.trace().cloned(),
        })
    }

    fn esa_stats(&self, job: &Job) -> EsaStats {
        let mut stats = EsaStats::default();
        let own_agent = |agent: &esa::Agent| {
            agent.stats().find(|(id, _)| *id == job.id).map(|(_, stats)| *stats)
        };
        let hosts = job.ps.into_iter().chain(job.agent);
        for process in hosts.flat_map(|host| self.network.processes(host)) {
            match process {
                Process::Together(id, both) if *id == job.id => {
                    let servers = both.servers().iter();
                    servers.for_each(|server| stats.server = *server.stats());
                    stats.agent = own_agent(both.agent()).unwrap_or_default();
                }
                Process::EsaServer(id, server) if *id == job.id => stats.server = *server.stats(),
                Process::Agent(id, agent) if *id == job.id => {
                    stats.agent = own_agent(agent).unwrap_or_default();
                }
                _ => {}
            }
        }
        stats
    }

    /// Aggregators that were in use when a job was swept last, before the end of the run.
    pub fn freed(&self, job: usize) -> u64 {
        self.freed[job]
    }

    /// Whether a job was ended before the others.
    pub fn has_ended(&self, job: usize) -> bool {
        self.ended.contains(&job)
    }

    /// What became of packets at each switch.
    fn outcomes(&self, slot: Option<JobSlot>) -> Result<Vec<Outcomes>, Error> {
        let request = Outcomes::request(&self.catalogue, slot);
        let read = |id: SwitchId| {
            let answer = self.network.switch(id).read(&request);
            let answer = answer.map_err(|refusal| Error::Refused { switch: id.0, refusal })?;
            Ok(Outcomes::of(&self.catalogue, slot, &answer))
        };
        self.scenario.topology.switch_ids().map(read).collect()
    }

    /// Sends a sweep through a switch's pool, or a job's segment of it; returns how many aggregators
    /// it freed.
    fn sweep(&mut self, switch: SwitchId, index: usize) -> Result<u32, Error> {
        let nonce = Sequence(0);
        let run = self.scenario.jobs[index].run();
        let assignment = self.assignments[index];
        let frame = sweep::frame(self.catalogue.protocol(), run, assignment, nonce);
        let now_us = self.network.now().as_nanos() / 1000;
        self.network.switch_mut(switch).packet_out(now_us, &frame);
        self.network.poke_switch(switch);
        let deadline = self.network.now() + SWEEP_TIME;
        while self.network.now() < deadline {
            for (from, frame) in self.network.take_packets_in() {
                if let Some(freed) = sweep::freed(&frame, run, nonce)
                    && from == switch
                {
                    return Ok(freed);
                }
            }
            let soon = self.network.now() + Duration::from_millis(1);
            while self.network.step(soon) {}
        }
        Err(Error::SweepLost { switch: switch.0 })
    }
}

/// Runs a scenario to its end.
///
/// # Errors
/// [`Error`]; a run that does not complete is no error.
pub fn run(
    scenario: &Scenario,
    program: &Program,
    inputs: Inputs,
    options: &Options,
) -> Result<Outcome, Error> {
    let mut run = Run::start(scenario, program, inputs, options)?;
    while run.step()? {}
    run.finish()
}

fn switch(scenario: &Scenario, program: &Program, id: SwitchId) -> Switch {
    let mut switch = Switch::new(SwitchConfig {
        device_id: id.0 as u64 + 1,
        ports: scenario.topology.ports(id).map(|(port, ..)| port).collect(),
        queue_limit: scenario.switch.queue_capacity as usize,
        ..SwitchConfig::default()
    });
    switch.commit(program.load());
    switch
}

fn slot(job: usize) -> JobSlot {
    u8::try_from(job + 1).ok().and_then(JobSlot::new).expect("at most 255 jobs")
}

fn worker_index(worker: usize) -> WorkerIndex {
    u8::try_from(worker).ok().and_then(WorkerIndex::new).expect("at most 32 workers")
}
