//! A whole scenario in virtual time: from admission to sweep.

mod acts;
mod cells;
mod moves;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tributary_controller::outcomes::Outcomes;
use tributary_model::{Deployment, JobSpec, Scenario, SummedAt, circuits::Circuits, worker_index};
use tributary_netio::faults::Statistics;
use tributary_protocol::priority::Priority;
use tributary_protocol::{Assignment, ParameterServer, Tensor, Time, Worker, esa, server, worker};
use tributary_wire::JobId;

use crate::error::Error;
use crate::network::{Disturbance, Happening};
use crate::options::Options;
use crate::program::Program;
use crate::system::System;
use crate::trace::Trace;

pub use acts::Act;
pub use cells::Held;

/// The tensors of each worker: by job, worker and round.
pub type Inputs = Vec<Vec<Vec<Tensor>>>;

/// Counters of a job's parameter server and reminder agent (ESA) since their last start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EsaStats {
    /// The parameter server.
    pub server: esa::server::Stats,
    /// The reminder agent.
    pub agent: esa::agent::Stats,
}

impl EsaStats {
    /// The counters of a job's server and agent in its running processes.
    pub fn of<'a>(backends: impl Iterator<Item = &'a esa::Backend>, job: JobId) -> Self {
        let mut stats = Self::default();
        for backend in backends {
            if let Some(server) = backend.server(job) {
                stats.server = *server.stats();
            }
            if let Some(agent) = backend.agent().stats_of(job) {
                stats.agent = *agent;
            }
        }
        stats
    }
}

/// The course of one tensor at one worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Course {
    /// When the worker submitted it.
    pub submitted: Duration,
    /// When its sum arrived.
    pub summed: Option<Duration>,
}

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Whether every worker of each job that was not ended early got every sum before the limit,
    /// and left.
    pub complete: bool,
    /// Sums that did not arrive.
    pub outstanding: usize,
    /// Workers that left without being dismissed.
    pub undismissed: u64,
    /// Sums, by job, worker and round, as far as they arrived.
    pub sums: Inputs,
    /// The course of each tensor, by job, worker and round, as far as they were submitted.
    pub courses: Vec<Vec<Vec<Course>>>,
    /// Virtual time from the start to the last sum.
    pub time: Duration,
    /// The same for each job.
    pub times: Vec<Duration>,
    /// Counters of each job's workers.
    pub workers: Vec<Vec<worker::Stats>>,
    /// Counters of each job's parameter server (ATP, P4INC).
    pub servers: Vec<server::Stats>,
    /// Counters of each job's parameter server and reminder agent (ESA).
    pub esa: Vec<EsaStats>,
    /// Outcomes of packets: by job, at each switch.
    pub outcomes: Vec<Vec<Outcomes>>,
    /// Outcomes of packets of no job, at each switch.
    pub unattributed: Vec<Outcomes>,
    /// Stalls that endpoints reported.
    pub stalls: Vec<String>,
    /// Aggregators that sweeps freed, by job.
    pub swept: Vec<u64>,
    /// Aggregators that a job still held after it was ended, or moved, and swept.
    pub leaks: Vec<Held>,
    /// Aggregators still occupied in all switches after all jobs had been swept.
    pub left_behind: u64,
    /// Counters of faults on the links.
    pub faults: Statistics,
    /// Frame arrivals at any host or switch.
    pub hops: u64,
    /// Messages that arrived over reliable channels.
    pub messages: u64,
    /// Packets to be lost that were never seen.
    pub losses_to_come: usize,
    /// The frames that were disturbed by chance.
    pub disturbances: BTreeSet<Disturbance>,
    /// The trace, if it was recorded.
    pub trace: Option<Trace>,
}

/// A scenario that is running.
#[derive(Debug)]
pub struct Run<'a> {
    scenario: &'a Scenario,
    /// The switches and endpoints.
    pub system: System,
    inputs: Inputs,
    /// Priorities of tensors, by job and round, if they do not follow from the job's profile.
    priorities: Vec<Vec<Priority>>,
    sums: Inputs,
    /// The course of each tensor that a worker submitted.
    courses: Vec<Vec<Vec<Course>>>,
    /// Jobs to be moved, and before which iteration.
    moves: BTreeMap<usize, (usize, SummedAt)>,
    /// When workers submit their next tensor.
    due: BTreeSet<(Time, usize, usize)>,
    /// Acts by time.
    acts: BTreeSet<(Time, Act)>,
    /// Circuits for [`Act::Patch`].
    pub patches: Vec<Circuits>,
    /// By job, the iterations that may begin, if [`hold`](Self::hold) was called; and the workers that
    /// wait for that.
    allowed: Option<Vec<usize>>,
    held: BTreeSet<(usize, usize)>,
    /// Number of outstanding sums, in total and of each job.
    outstanding: usize,
    missing: Vec<usize>,
    /// Workers that have not left.
    present: BTreeSet<(usize, usize)>,
    /// Counters of workers that have left.
    departed: BTreeMap<(usize, usize), worker::Stats>,
    /// Number of aggregators that each job's last sweep freed, and jobs that were ended.
    freed: Vec<u64>,
    ended: BTreeSet<usize>,
    leaks: Vec<Held>,
    stalls: Vec<String>,
    farewell: Duration,
    /// Deadlines of finished workers that wait for their dismissal.
    farewells: BTreeMap<(usize, usize), Time>,
    undismissed: u64,
    /// Time of each job's last sum.
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
            courses: scenario.jobs.iter().map(|job| vec![Vec::new(); job.workers.len()]).collect(),
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
            patches: Vec::new(),
            allowed: None,
            held: BTreeSet::new(),
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

    /// Schedules an act for `after` from the start.
    pub fn at(&mut self, after: Duration, act: Act) {
        self.acts.insert((Time::ZERO + after, act));
    }

    /// Sets the priorities of tensors, by job and round, instead of those that follow from the
    /// jobs' profiles (ESA).
    pub fn prioritize(&mut self, priorities: Vec<Vec<Priority>>) {
        self.priorities = priorities;
    }

    fn priority(&self, job: usize, round: usize) -> Priority {
        if let Some(&priority) = self.priorities.get(job).and_then(|own| own.get(round)) {
            return priority;
        }
        let of = self.inputs[job].iter().map(Vec::len).max().unwrap_or(0);
        let code = self.scenario.network.priorities;
        self.scenario.jobs[job].profile.priority(round, of, self.elapsed(), code)
    }

    /// Schedules a worker's next tensor after its pause; without one, the worker leaves.
    fn schedule(&mut self, job: usize, worker: usize) {
        if self.sums[job][worker].len() == self.inputs[job][worker].len() {
            let JobSpec { id, workers, .. } = &self.scenario.jobs[job];
            self.system.network.with_worker(workers[worker], *id, Worker::leave);
            self.farewells.insert((job, worker), self.system.network.now() + self.farewell);
        } else if self.allowed.as_ref().is_some_and(|of| self.sums[job][worker].len() >= of[job]) {
            self.held.insert((job, worker));
        } else {
            let pause = self.scenario.jobs[job].straggler_delay(worker_index(worker));
            self.due.insert((self.system.network.now() + pause, job, worker));
        }
    }

    /// Makes the workers of all jobs wait before each iteration until it is [allowed](Self::allow).
    pub fn hold(&mut self) {
        self.allowed = Some(vec![0; self.scenario.jobs.len()]);
        let due = std::mem::take(&mut self.due);
        self.held.extend(due.into_iter().map(|(_, job, worker)| (job, worker)));
    }

    /// Lets the workers of a job begin the next iteration.
    pub fn allow(&mut self, job: usize) {
        if let Some(allowed) = &mut self.allowed {
            allowed[job] += 1;
        }
        let held = self.held.extract_if(.., |(its, _)| *its == job);
        let workers: Vec<usize> = held.map(|(_, worker)| worker).collect();
        for worker in workers {
            self.schedule(job, worker);
        }
    }

    /// Whether a job was ended early.
    #[must_use]
    pub fn is_ended(&self, job: usize) -> bool {
        self.ended.contains(&job)
    }

    /// The tensors of a job's first worker, which have the sizes of all others'.
    #[must_use]
    pub fn inputs(&self, job: usize) -> &[Tensor] {
        self.inputs[job].first().map_or(&[], Vec::as_slice)
    }

    /// Number of iterations that all workers of a job have finished.
    #[must_use]
    pub fn finished(&self, job: usize) -> usize {
        self.sums[job].iter().map(Vec::len).min().unwrap_or(0)
    }

    /// Virtual time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.system.network.now() - Time::ZERO
    }

    /// Processes the next event. Returns false when every sum has arrived and every worker has
    /// left, or the limit has passed.
    ///
    /// # Errors
    /// If a tensor cannot be summed, or a switch refuses.
    pub fn step(&mut self) -> Result<bool, Error> {
        self.step_until(self.limit - Time::ZERO)
    }

    /// The same for an event that happens by this time; without one, the time is this.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn step_until(&mut self, time: Duration) -> Result<bool, Error> {
        self.let_go();
        if self.is_over() || self.system.network.now() >= self.limit {
            return Ok(false);
        }
        let submission = self.due.first().copied();
        let act = self.acts.first().copied();
        let times = [
            Some(self.limit.min(Time::ZERO + time)),
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

    /// Whether all sums have arrived and all workers have left.
    fn is_over(&self) -> bool {
        self.outstanding == 0 && self.present.iter().all(|(job, _)| self.ended.contains(job))
    }

    /// Removes workers that were dismissed or whose deadline has passed.
    fn let_go(&mut self) {
        while let Some((index, worker)) = self.next_to_go() {
            let JobSpec { id, workers, .. } = &self.scenario.jobs[index];
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
        // Asked at every step, and most of the time no job has all of its sums.
        if over.is_some() || !self.missing.contains(&0) {
            return over;
        }
        let mut present = self.present.iter().copied();
        present.find(|&(index, worker)| {
            let JobSpec { id, workers, .. } = &self.scenario.jobs[index];
            self.missing[index] == 0
                && self
                    .system
                    .network
                    .worker(workers[worker], *id)
                    .is_some_and(Worker::is_dismissed)
        })
    }

    fn submit(&mut self, job: usize, worker: usize) -> Result<(), Error> {
        let round = self.sums[job][worker].len();
        if self.moves.get(&job).is_some_and(|(before, _)| *before == round) {
            // It waits for the move.
            return Ok(());
        }
        let submitted = self.elapsed();
        self.courses[job][worker].push(Course { submitted, summed: None });
        let tensor = self.inputs[job][worker][round].clone();
        let priority = self.priority(job, round);
        let JobSpec { id, workers, .. } = &self.scenario.jobs[job];
        let submit = |worker: &mut Worker| worker.submit_with(tensor, priority);
        let submitted = self.system.network.with_worker(workers[worker], *id, submit);
        match submitted {
            Some(Err(source)) => Err(Error::Submit { job, worker, source }),
            // A killed worker submits nothing.
            Some(Ok(_)) | None => Ok(()),
        }
    }

    fn hear(&mut self) {
        for happening in self.system.network.take_happenings() {
            match happening {
                Happening::Worker(host, id, worker::Event::TensorDone { tensor, .. }) => {
                    let at = self.scenario.worker_on(host, id);
                    let (job, worker) = at.expect("only workers of the scenario run");
                    let summed = Some(self.elapsed());
                    if let Some(course) = self.courses[job][worker].last_mut() {
                        course.summed = summed;
                    }
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

    /// Ends the jobs as the controller does, entries first and then the sweep, and checks what is
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
            esa.push(EsaStats::of(self.system.backends(job.id), job.id));
        }
        let jobs = 0..scenario.jobs.len();
        let outcomes = jobs.map(|job| self.system.outcomes(job)).collect::<Result<_, _>>()?;
        let unattributed = self.system.unattributed()?;
        let complete = self.is_over();
        let outstanding = self.outstanding;
        // Packets in flight during a job's sweep must not occupy an aggregator again.
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
            courses: self.courses,
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

    /// Aggregators that a job's last sweep before the end of the run freed.
    pub fn freed(&self, job: usize) -> u64 {
        self.freed[job]
    }

    /// A job's current assignment.
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
/// [`Error`]; a run that does not complete is not an error.
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
