//! The events of the simulation and their effects.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use super::meter::Meter;
use super::queue::Queue;
use super::{
    Communication, Input, Observer, Options, Reason, Record, Results, Sample, Sums, Totals,
};
use crate::job::{Job, JobId};
use crate::policy::{Policy, Round};
use crate::state::{Running, State};
use crate::topology::Cluster;

/// Number of consecutive rounds without a start, while values grow and no other event is due, after
/// which the waiting jobs are given up.
const PATIENCE: u32 = 256;

/// A running job. The state has the job and its plan.
#[derive(Debug)]
struct Progress {
    id: JobId,
    /// Whether it is an occupant, which ends at its time whatever the network gives it.
    fixed: bool,
    distributed: bool,
    start_s: f64,
    /// Number of iterations completed at `since_s`.
    done: f64,
    since_s: f64,
    /// Iterations per second since then.
    speed: f64,
    /// Number of changes of speed. A predicted end with an older version is void.
    version: u32,
    traffic_bytes: f64,
    /// GPU-hours of computing per hour, if it uses the network.
    earning: f64,
}

/// A predicted end.
#[derive(Clone, Copy, PartialEq, Debug)]
struct End {
    time_s: f64,
    /// Index of the job.
    job: usize,
    version: u32,
}

impl Eq for End {}

impl Ord for End {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_time = self.time_s.total_cmp(&other.time_s);
        by_time.then(self.job.cmp(&other.job)).then(self.version.cmp(&other.version))
    }
}

impl PartialOrd for End {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

pub(super) struct Engine<'c, J> {
    input: Input<'c, J>,
    options: Options,
    results: &'c mut dyn Results,
    /// The next job to arrive.
    next: Option<Job>,
    /// Number of occupants, and of jobs that have arrived.
    arrived: usize,
    /// Indices of the waiting and running jobs: occupants, then jobs by submission.
    index: HashMap<JobId, usize>,
    waiting: Queue,
    state: State<'c>,
    running: BTreeMap<usize, Progress>,
    /// Number of running jobs that are not occupants.
    live: usize,
    ends: BinaryHeap<Reverse<End>>,
    /// Number of the next round, if the period is not zero.
    round: u64,
    /// Number of consecutive rounds that started nothing, since a job last arrived or ended.
    fruitless: u32,
    /// Number of GPUs of the running jobs that do not use the network.
    local_gpus: u64,
    /// Number of the other running jobs.
    distributed: u32,
    /// GPU-hours per hour that those jobs earn.
    distributed_earning: f64,
    /// Those that started since the speeds were last settled.
    fresh: Vec<usize>,
    meter: Meter<'c>,
    /// Number of measured jobs, and of those whose result is not known.
    total: usize,
    left: usize,
}

/// The events of one instant.
#[derive(Clone, Copy, Debug, Default)]
struct Happened {
    arrived: bool,
    ended: bool,
    /// Whether a job that uses the network started or ended.
    network: bool,
}

impl<'c, J: Iterator<Item = Job>> Engine<'c, J> {
    pub(super) fn new(
        input: Input<'c, J>,
        options: &Options,
        results: &'c mut dyn Results,
    ) -> Self {
        let sane = |value: f64| value >= 0.0 && value.is_finite();
        assert!(sane(options.period_s) && sane(options.ageing), "options are numbers from zero on");
        let (cluster, total) = (input.cluster, input.measured);
        let mut engine = Self {
            input,
            options: *options,
            results,
            next: None,
            arrived: 0,
            index: HashMap::new(),
            waiting: Queue::new(options.ageing),
            state: State::new(cluster),
            running: BTreeMap::new(),
            live: 0,
            ends: BinaryHeap::new(),
            round: 0,
            fruitless: 0,
            local_gpus: 0,
            distributed: 0,
            distributed_earning: 0.0,
            fresh: Vec::new(),
            meter: Meter::new(cluster, 0.0, options),
            total,
            left: total,
        };
        engine.fetch();
        let start_s = engine.next.as_ref().map_or(0.0, |job| job.submit_s);
        engine.meter = Meter::new(cluster, start_s, options);
        engine
    }

    pub(super) fn run<S: Sums>(
        mut self,
        policy: &mut dyn Policy,
        observer: &mut dyn Observer,
        sums: &mut S,
    ) -> Result<(Totals, Vec<Sample>), S::Error> {
        let mut occupied = self.occupy(observer);
        while self.left > 0
            && let Some((now_s, round)) = self.next_instant()
        {
            self.meter.advance(now_s);
            let mut happened =
                Happened { network: std::mem::take(&mut occupied), ..Happened::default() };
            self.end(now_s, &mut happened, observer);
            self.arrive(now_s, &mut happened);
            if happened.arrived || happened.ended {
                self.fruitless = 0;
            }
            let eventful = self.options.period_s == 0.0 && (happened.arrived || happened.ended);
            if (round || eventful) && !self.waiting.is_empty() {
                self.hold_round(now_s, policy, &mut happened, observer);
            }
            if happened.network {
                self.settle(now_s, observer, sums)?;
            }
            let earning = self.local_gpus as f64 + self.distributed_earning;
            self.meter.close(self.waiting.len(), earning, happened.arrived);
            observer.progress(now_s, self.total - self.left, self.total);
        }
        Ok(self.finish())
    }

    /// Starts the occupants. Whether any of them uses the network.
    fn occupy(&mut self, observer: &mut dyn Observer) -> bool {
        let (cluster, now_s) = (self.input.cluster, self.meter.now.time_s);
        let mut network = false;
        for (index, occupant) in self.input.occupants.iter().enumerate() {
            let job = occupant.job(JobId(u32::MAX - index as u32), now_s);
            let mut plan = occupant.plan.clone();
            let distributed = plan.is_distributed();
            if distributed && self.options.communication == Communication::InNetwork {
                plan = plan.with_server(cluster);
            }
            self.meter.start(&plan, 0.0);
            observer.started(now_s, &job, &plan);
            self.state.start(&job, plan).expect("occupants fit the cluster");
            let earning = f64::from(job.gpus);
            if distributed {
                self.distributed += 1;
                self.distributed_earning += earning;
            } else {
                self.local_gpus += u64::from(job.gpus);
            }
            network |= distributed;
            self.index.insert(job.id, index);
            let progress =
                Progress { fixed: true, earning, ..Progress::new(job.id, distributed, now_s) };
            self.running.insert(index, progress);
            if let Some(until_s) = occupant.until_s {
                self.ends.push(Reverse(End { time_s: until_s.max(now_s), job: index, version: 0 }));
            }
        }
        self.arrived = self.input.occupants.len();
        network
    }

    /// Fetches the next job that can run, and reports those before it that cannot.
    fn fetch(&mut self) {
        let last_s = self.next.take().map_or(f64::NEG_INFINITY, |job| job.submit_s);
        for job in self.input.jobs.by_ref() {
            let Some(reason) = unfit(self.input.cluster, &job) else {
                assert!(last_s <= job.submit_s, "jobs come in the order of submission");
                self.next = Some(job);
                return;
            };
            if self.options.measures(&job) {
                self.left -= 1;
                self.results.unfinished(job, reason);
            }
        }
    }

    /// The time of the next event, and whether a round is due then.
    fn next_instant(&mut self) -> Option<(f64, bool)> {
        if self.live == 0 && self.next.is_none() && self.waiting.is_empty() {
            // Only occupants are left.
            return None;
        }
        let end_s = self.next_end();
        let arrival_s = self.next.as_ref().map(|job| job.submit_s);
        let event_s = match (end_s, arrival_s) {
            (Some(end_s), Some(arrival_s)) => Some(end_s.min(arrival_s)),
            (end_s, arrival_s) => end_s.or(arrival_s),
        };
        let round_s = self.next_round(event_s);
        match (event_s, round_s) {
            (Some(event_s), Some(round_s)) if event_s < round_s => Some((event_s, false)),
            (_, Some(round_s)) => Some((round_s, true)),
            // A job that arrives at the time of a round takes part in it.
            (Some(event_s), None) => Some((event_s, self.is_round(event_s))),
            (None, None) => None,
        }
    }

    /// The earliest predicted end that is still valid.
    fn next_end(&mut self) -> Option<f64> {
        while let Some(Reverse(end)) = self.ends.peek() {
            match self.running.get(&end.job) {
                Some(progress) if progress.version == end.version => return Some(end.time_s),
                _ => drop(self.ends.pop()),
            }
        }
        None
    }

    /// The time of the next round, if jobs wait and the round can start any.
    fn next_round(&mut self, event_s: Option<f64>) -> Option<f64> {
        let Options { period_s, ageing, .. } = self.options;
        if self.waiting.is_empty() {
            return None;
        }
        // Without ageing, a round after a fruitless one has the same outcome. With ageing, values
        // change.
        let hopeless = if ageing > 0.0 { PATIENCE } else { 1 };
        if self.fruitless >= hopeless && (ageing == 0.0 || event_s.is_none()) {
            return None;
        }
        if period_s == 0.0 {
            // Rounds coincide with events. Once there are no events, values may still grow.
            return event_s.is_none().then_some(self.meter.now.time_s);
        }
        // Earlier rounds were either held or had no waiting jobs.
        let now_s = self.meter.now.time_s;
        let due = (now_s / period_s).floor() as u64;
        self.round = self.round.max(due);
        while self.round as f64 * period_s < now_s {
            self.round += 1;
        }
        Some(self.round as f64 * period_s)
    }

    /// Whether a round that has not been held yet is due at a time.
    fn is_round(&self, time_s: f64) -> bool {
        let period_s = self.options.period_s;
        if period_s == 0.0 {
            return false;
        }
        let number = (time_s / period_s).round();
        number * period_s == time_s && number as u64 >= self.round
    }

    fn end(&mut self, now_s: f64, happened: &mut Happened, observer: &mut dyn Observer) {
        while self.next_end().is_some_and(|end_s| end_s <= now_s) {
            let Some(Reverse(end)) = self.ends.pop() else { break };
            let Some(progress) = self.running.remove(&end.job) else { break };
            let Progress { id, fixed, start_s, traffic_bytes, distributed, earning, .. } = progress;
            let Some(Running { job, plan }) = self.state.end(id) else { break };
            self.index.remove(&id);
            self.meter.end(&plan, traffic_bytes);
            if distributed {
                self.distributed -= 1;
                self.distributed_earning -= earning;
            } else {
                self.local_gpus -= u64::from(job.gpus);
            }
            happened.ended = true;
            happened.network |= distributed;
            observer.ended(now_s, id);
            if !fixed {
                self.live -= 1;
                self.meter.finished();
                if self.options.measures(&job) {
                    self.left -= 1;
                    let record = Record { job, plan, start_s, end_s: now_s, traffic_bytes };
                    self.results.finished(record);
                }
            }
        }
    }

    fn arrive(&mut self, now_s: f64, happened: &mut Happened) {
        while self.next.as_ref().is_some_and(|job| job.submit_s <= now_s) {
            let job = self.next.clone().expect("it was looked at");
            let other = self.index.insert(job.id, self.arrived);
            assert_eq!(other, None, "every job has a number of its own");
            self.arrived += 1;
            self.waiting.push(job);
            self.fetch();
            happened.arrived = true;
        }
    }

    fn hold_round(
        &mut self,
        now_s: f64,
        policy: &mut dyn Policy,
        happened: &mut Happened,
        observer: &mut dyn Observer,
    ) {
        let full = self.state.free_total() == 0;
        let mut round = match self.options.communication {
            Communication::InNetwork => Round::in_network(&mut self.state),
            Communication::AllReduce(_) => Round::new(&mut self.state),
        };
        // Every job needs a GPU, so no job can start on a full cluster.
        if !full {
            policy.place(&mut round, self.waiting.jobs());
        }
        let started: Vec<_> = round.started().to_vec();
        self.meter.totals.rounds += 1;
        if self.options.period_s > 0.0 {
            self.round = (now_s / self.options.period_s).round() as u64 + 1;
        }
        self.fruitless = if started.is_empty() { self.fruitless + 1 } else { 0 };
        for &id in &started {
            self.start(id, now_s, happened, observer);
        }
        self.waiting.remove(started);
        self.waiting.age();
    }

    fn start(
        &mut self,
        id: JobId,
        now_s: f64,
        happened: &mut Happened,
        observer: &mut dyn Observer,
    ) {
        let index = self.index[&id];
        let Running { job, plan } = &self.state.running()[&id];
        let distributed = plan.is_distributed();
        let traffic_bytes = match self.options.communication {
            _ if !distributed => 0.0,
            Communication::InNetwork => job.gradient_bytes * plan.workers().len() as f64,
            Communication::AllReduce(collective) => {
                collective.cross_machine_bytes(job.gradient_bytes, &plan.ranks)
            }
        };
        self.meter.start(plan, traffic_bytes);
        observer.started(now_s, job, plan);
        let progress = Progress { traffic_bytes, ..Progress::new(id, distributed, now_s) };
        self.running.insert(index, progress);
        self.live += 1;
        if distributed {
            happened.network = true;
            self.distributed += 1;
            self.fresh.push(index);
        } else {
            self.local_gpus += u64::from(job.gpus);
            let speed = 1.0 / job.compute_s;
            self.change_speed(index, speed, now_s, observer);
        }
    }

    /// Updates the speeds of the jobs that use the network and are affected by a change.
    fn settle<S: Sums>(
        &mut self,
        now_s: f64,
        observer: &mut dyn Observer,
        sums: &mut S,
    ) -> Result<(), S::Error> {
        self.meter.totals.settlings += 1;
        let fresh = std::mem::take(&mut self.fresh);
        let felt: Vec<(usize, f64)> = match self.options.communication {
            Communication::InNetwork => {
                let felt = sums.settle(&mut self.state)?;
                felt.into_iter().map(|(id, sum_s)| (self.index[&id], sum_s)).collect()
            }
            // Jobs do not affect each other, so the speed of a running job is constant.
            Communication::AllReduce(collective) => {
                let sum_s = |index: usize| {
                    let Running { job, plan } = &self.state.running()[&self.running[&index].id];
                    collective.time_s(self.input.cluster, job.gradient_bytes, &plan.ranks)
                };
                fresh.into_iter().map(|index| (index, sum_s(index))).collect()
            }
        };
        for (index, sum_s) in felt {
            let progress = self.running.get_mut(&index).expect("it sends, so it runs");
            if progress.fixed {
                continue;
            }
            let job = &self.state.running()[&progress.id].job;
            let speed = 1.0 / (job.compute_s + sum_s);
            let earning = f64::from(job.gpus) * job.compute_s * speed;
            self.distributed_earning += earning - std::mem::replace(&mut progress.earning, earning);
            if speed != progress.speed {
                self.change_speed(index, speed, now_s, observer);
            }
        }
        if self.distributed == 0 {
            // Clear rounding errors.
            self.distributed_earning = 0.0;
        }
        if matches!(self.options.communication, Communication::InNetwork) {
            observer.network(now_s, &mut self.state);
        }
        Ok(())
    }

    fn change_speed(&mut self, index: usize, speed: f64, now_s: f64, observer: &mut dyn Observer) {
        let progress = self.running.get_mut(&index).expect("only running jobs change speed");
        let job = &self.state.running()[&progress.id].job;
        progress.done += progress.speed * (now_s - progress.since_s);
        progress.since_s = now_s;
        progress.speed = speed;
        progress.version += 1;
        observer.speed(now_s, job.id, speed);
        if speed > 0.0 {
            let left = (job.iterations - progress.done).max(0.0);
            let time_s = now_s + left / speed;
            self.ends.push(Reverse(End { time_s, job: index, version: progress.version }));
        }
    }

    fn finish(self) -> (Totals, Vec<Sample>) {
        let waiting = self.waiting.into_jobs().map(|job| (job, Reason::NotPlaced));
        let running = self.running.into_values().filter(|progress| !progress.fixed);
        let stalled = running
            .map(|progress| (self.state.running()[&progress.id].job.clone(), Reason::Stalled));
        for (job, reason) in waiting.chain(stalled).filter(|(job, _)| self.options.measures(job)) {
            self.results.unfinished(job, reason);
        }
        self.meter.finish()
    }
}

impl Progress {
    const fn new(id: JobId, distributed: bool, now_s: f64) -> Self {
        Self {
            id,
            fixed: false,
            distributed,
            start_s: now_s,
            done: 0.0,
            since_s: now_s,
            speed: 0.0,
            version: 0,
            traffic_bytes: 0.0,
            earning: 0.0,
        }
    }
}

/// The reason for which a job cannot run.
fn unfit(cluster: &Cluster, job: &Job) -> Option<Reason> {
    let positive = |value: f64| value > 0.0 && value.is_finite();
    let sane = job.gpus > 0
        && job.submit_s.is_finite()
        && positive(job.iterations)
        && positive(job.compute_s)
        && (0.0..f64::INFINITY).contains(&job.gradient_bytes);
    if !sane {
        Some(Reason::Senseless)
    } else if job.gpus > cluster.gpus() {
        Some(Reason::TooLarge)
    } else {
        None
    }
}
