//! A whole scenario in virtual time: from admission to sweep.

mod acts;
mod cells;
mod moves;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tributary_controller::Deployment;
use tributary_controller::outcomes::Outcomes;
use tributary_dataplane::EngineKind;
use tributary_jobfile::{Aggregation, Job, Scenario};
use tributary_netio::faults::{InvalidFaults, Statistics};
use tributary_protocol::priority::Priority;
use tributary_protocol::rtt::RttConfig;
use tributary_protocol::{
    Assignment, ConfigError, ParameterServer, SubmitError, Tensor, Time, Worker, esa, server,
    worker,
};
use tributary_switch::Refusal;

use crate::channel::Pace;
use crate::line::Cable;
use crate::network::{Disturbance, Happening};
use crate::program::Program;
use crate::system::{System, worker_index};
use crate::trace::Trace;

pub use acts::Act;
pub use cells::Held;

/// Virtual time that a walk through all aggregators may take.
pub(crate) const SWEEP_TIME: Duration = Duration::from_secs(60);

/// What each worker sums: by job, worker and round.
pub type Inputs = Vec<Vec<Vec<Tensor>>>;

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the links are like.
    pub cable: Cable,
    /// Seed of the links' faults.
    pub seed: u64,
    /// What executes the program in switches.
    pub engine: EngineKind,
    /// Virtual time after which the run is given up.
    pub limit: Duration,
    /// What reliable channels are like.
    pub pace: Pace,
    /// How long workers wait for a result before they take it for lost, in place of the scenario's.
    pub worker_rtt: Option<RttConfig>,
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
            engine: EngineKind::default(),
            limit: Duration::from_secs(600),
            pace: Pace::default(),
            worker_rtt: None,
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
    /// The switches and endpoints.
    pub system: System,
    inputs: Inputs,
    /// Priorities of tensors, by job and round, where they do not follow from the job's profile.
    priorities: Vec<Vec<Priority>>,
    sums: Inputs,
    /// Tensors that each worker submitted.
    submitted: Vec<Vec<usize>>,
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
        let deployment = Deployment::new(scenario.clone())?;
        let system = System::start(deployment, program, options)?;
        let missing: Vec<usize> = inputs.iter().map(|job| job.iter().map(Vec::len).sum()).collect();
        let workers = scenario.jobs.iter().enumerate();
        let mut run = Self {
            sums: scenario.jobs.iter().map(|job| vec![Vec::new(); job.workers.len()]).collect(),
            submitted: scenario.jobs.iter().map(|job| vec![0; job.workers.len()]).collect(),
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
            system,
            inputs,
            priorities: Vec::new(),
            due: BTreeSet::new(),
            acts: BTreeSet::new(),
            stalls: Vec::new(),
            farewell: options.farewell,
            farewells: BTreeMap::new(),
            undismissed: 0,
            last: vec![Time::ZERO; scenario.jobs.len()],
            limit: Time::ZERO + options.limit,
        };
        for index in 0..scenario.jobs.len() {
            run.admit(index)?;
        }
        Ok(run)
    }

    fn admit(&mut self, index: usize) -> Result<(), Error> {
        self.system.serve(index)?;
        self.system.start_endpoints(index, ParameterServer::new)?;
        for worker in 0..self.scenario.jobs[index].workers.len() {
            self.schedule(index, worker);
        }
        Ok(())
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
        let of = self.inputs[job].iter().map(Vec::len).max().unwrap_or(0);
        self.scenario.jobs[job].profile.priority(round, of, self.elapsed())
    }

    /// The worker's next tensor is submitted after its pause, if there is one; else it leaves.
    fn schedule(&mut self, job: usize, worker: usize) {
        if self.sums[job][worker].len() == self.inputs[job][worker].len() {
            let Job { id, workers, .. } = &self.scenario.jobs[job];
            self.system.network.with_worker(workers[worker], *id, Worker::leave);
            self.farewells.insert((job, worker), self.system.network.now() + self.farewell);
        } else {
            let pause = self.scenario.jobs[job].straggler_delay(worker_index(worker));
            self.due.insert((self.system.network.now() + pause, job, worker));
        }
    }

    /// Virtual time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.system.network.now() - Time::ZERO
    }

    /// Lets the next thing happen; false when every sum is in and every worker has gone, or the limit
    /// has passed.
    ///
    /// # Errors
    /// If a tensor cannot be summed, or a switch refuses.
    pub fn step(&mut self) -> Result<bool, Error> {
        self.let_go();
        if self.is_over() || self.system.network.now() >= self.limit {
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
        if !self.system.network.step(until) {
            let now = self.system.network.now();
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
            if let Some(endpoint) = self.system.network.worker(workers[worker], *id) {
                self.undismissed += u64::from(!endpoint.is_dismissed());
                self.departed.insert((index, worker), *endpoint.stats());
            }
            self.farewells.remove(&(index, worker));
            self.present.remove(&(index, worker));
            self.system.network.kill(workers[worker], *id);
        }
    }

    fn next_to_go(&self) -> Option<(usize, usize)> {
        let over = self.farewells.iter().find(|(_, until)| **until <= self.system.network.now());
        let over = over.map(|(worker, _)| *worker);
        over.or_else(|| {
            self.present.iter().copied().find(|&(index, worker)| {
                let Job { id, workers, .. } = &self.scenario.jobs[index];
                let endpoint = self.system.network.worker(workers[worker], *id);
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
        let submitted = self.system.network.with_worker(workers[worker], *id, submit);
        match submitted {
            Some(Err(source)) => Err(Error::Submit { job, worker, source }),
            // A worker that was killed submits nothing.
            Some(Ok(_)) | None => Ok(()),
        }
    }

    fn hear(&mut self) {
        for happening in self.system.network.take_happenings() {
            match happening {
                Happening::Worker(host, id, worker::Event::TensorDone { tensor, .. }) => {
                    let jobs = &self.scenario.jobs;
                    let job = jobs.iter().position(|job| job.id == id).expect("a job of ours");
                    let workers = &jobs[job].workers;
                    let worker = workers.iter().position(|at| *at == host).expect("its worker");
                    self.sums[job][worker].push(tensor);
                    self.outstanding -= 1;
                    self.missing[job] -= 1;
                    self.last[job] = self.system.network.now();
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
                let living =
                    self.system.network.worker(*host, job.id).map(|worker| *worker.stats());
                living.or(self.departed.get(&(index, worker)).copied()).unwrap_or_default()
            };
            workers.push(job.workers.iter().enumerate().map(stats).collect());
            let server = job.ps.and_then(|ps| self.system.network.server(ps, job.id));
            let server = server.map(|server| *server.stats());
            servers.push(server.unwrap_or_default());
            esa.push(self.esa_stats(job));
        }
        let jobs = 0..scenario.jobs.len();
        let outcomes = jobs.map(|job| self.system.outcomes(job)).collect::<Result<_, _>>()?;
        let unattributed = self.system.unattributed()?;
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
            faults: self.system.network.faults(),
            hops: self.system.network.hops(),
            messages: self.system.network.messages(),
            losses_to_come: self.system.network.losses_to_come(),
            disturbances: self.system.network.disturbances(),
            trace: self.system.network.trace().cloned(),
        })
    }

    fn esa_stats(&self, job: &Job) -> EsaStats {
        let mut stats = EsaStats::default();
        for backend in self.system.backends(job.id) {
            if let Some(server) = backend.server(job.id) {
                stats.server = *server.stats();
            }
            if let Some(agent) = backend.agent().stats_of(job.id) {
                stats.agent = *agent;
            }
        }
        stats
    }

    /// Aggregators that were in use when a job was swept last, before the end of the run.
    pub fn freed(&self, job: usize) -> u64 {
        self.freed[job]
    }

    /// How switches serve a job at the moment.
    pub fn assignment(&self, job: usize) -> Assignment {
        self.system.deployment().assignment(job)
    }

    /// Whether a job was ended before the others.
    pub fn has_ended(&self, job: usize) -> bool {
        self.ended.contains(&job)
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
