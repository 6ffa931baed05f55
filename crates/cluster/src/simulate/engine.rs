//! The events of the simulation and their effects.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use super::meter::Meter;
use super::queue::Queue;
use super::{Communication, Observer, Options, Outcome, Reason, Record, Sums};
use crate::job::{Job, JobId};
use crate::plan::Plan;
use crate::policy::{Policy, Round};
use crate::state::State;
use crate::topology::Cluster;

/// Number of consecutive rounds without a start, while values grow and no other event is due, after
/// which the waiting jobs are given up.
const PATIENCE: u32 = 256;

/// A running job.
#[derive(Debug)]
struct Progress {
    plan: Plan,
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

#[derive(Debug)]
pub(super) struct Engine<'c> {
    cluster: &'c Cluster,
    options: Options,
    /// Jobs that can run, by time of submission, then by number.
    jobs: Vec<Job>,
    index: HashMap<JobId, usize>,
    /// Index of the next job to arrive.
    next: usize,
    waiting: Queue,
    state: State<'c>,
    running: BTreeMap<usize, Progress>,
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
    records: Vec<(usize, Record)>,
    unfinished: Vec<(Job, Reason)>,
    /// Number of measured jobs, and of those that have not ended.
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

impl<'c> Engine<'c> {
    pub(super) fn new(cluster: &'c Cluster, jobs: &[Job], options: &Options) -> Self {
        let sane = |value: f64| value >= 0.0 && value.is_finite();
        assert!(sane(options.period_s) && sane(options.ageing), "options are numbers from zero on");
        let (mut jobs, mut unfinished) = sort_out(cluster, jobs);
        jobs.sort_by(by_submission);
        unfinished.sort_by(|(a, _), (b, _)| by_submission(a, b));
        let index: HashMap<_, _> = jobs.iter().zip(0..).map(|(job, at)| (job.id, at)).collect();
        assert_eq!(index.len(), jobs.len(), "every job has a number of its own");
        unfinished.retain(|(job, _)| options.measures(job));
        let left = jobs.iter().filter(|job| options.measures(job)).count();
        let start_s = jobs.first().map_or(0.0, |job| job.submit_s);
        Self {
            cluster,
            options: *options,
            index,
            next: 0,
            waiting: Queue::new(options.ageing),
            state: State::new(cluster),
            running: BTreeMap::new(),
            ends: BinaryHeap::new(),
            round: 0,
            fruitless: 0,
            local_gpus: 0,
            distributed: 0,
            distributed_earning: 0.0,
            fresh: Vec::new(),
            meter: Meter::new(cluster, start_s, options),
            records: Vec::with_capacity(left),
            total: left + unfinished.len(),
            left,
            unfinished,
            jobs,
        }
    }

    pub(super) fn run<S: Sums>(
        mut self,
        policy: &mut dyn Policy,
        observer: &mut dyn Observer,
        sums: &mut S,
    ) -> Result<Outcome, S::Error> {
        while self.left > 0
            && let Some((now_s, round)) = self.next_instant()
        {
            self.meter.advance(now_s);
            let mut happened = Happened::default();
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
            observer.progress(now_s, self.records.len() + self.unfinished.len(), self.total);
        }
        Ok(self.finish())
    }

    /// The time of the next event, and whether a round is due then.
    fn next_instant(&mut self) -> Option<(f64, bool)> {
        let end_s = self.next_end();
        let arrival_s = self.jobs.get(self.next).map(|job| job.submit_s);
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
            let job = &self.jobs[end.job];
            let Progress { plan, start_s, traffic_bytes, distributed, earning, .. } = progress;
            self.state.end(job.id);
            self.meter.end(&plan, traffic_bytes);
            if distributed {
                self.distributed -= 1;
                self.distributed_earning -= earning;
            } else {
                self.local_gpus -= u64::from(job.gpus);
            }
            happened.ended = true;
            happened.network |= distributed;
            observer.ended(now_s, job.id);
            if self.options.measures(job) {
                let job = job.clone();
                let record = Record { job, plan, start_s, end_s: now_s, traffic_bytes };
                self.records.push((end.job, record));
                self.left -= 1;
            }
        }
    }

    fn arrive(&mut self, now_s: f64, happened: &mut Happened) {
        while let Some(job) = self.jobs.get(self.next).filter(|job| job.submit_s <= now_s) {
            self.waiting.push(job.clone());
            self.next += 1;
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
        let job = &self.jobs[index];
        let plan = self.state.running()[&id].plan.clone();
        let distributed = plan.is_distributed();
        let traffic_bytes = match self.options.communication {
            _ if !distributed => 0.0,
            Communication::InNetwork => job.gradient_bytes * plan.workers().len() as f64,
            Communication::AllReduce(collective) => {
                collective.cross_machine_bytes(job.gradient_bytes, &plan.ranks)
            }
        };
        self.meter.start(&plan, traffic_bytes);
        observer.started(now_s, job, &plan);
        let progress = Progress {
            plan,
            distributed,
            start_s: now_s,
            done: 0.0,
            since_s: now_s,
            speed: 0.0,
            version: 0,
            traffic_bytes,
            earning: 0.0,
        };
        self.running.insert(index, progress);
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
                    let ranks = &self.running[&index].plan.ranks;
                    collective.time_s(self.cluster, self.jobs[index].gradient_bytes, ranks)
                };
                fresh.into_iter().map(|index| (index, sum_s(index))).collect()
            }
        };
        for (index, sum_s) in felt {
            let job = &self.jobs[index];
            let speed = 1.0 / (job.compute_s + sum_s);
            let progress = self.running.get_mut(&index).expect("it sends, so it runs");
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
        let job = &self.jobs[index];
        let progress = self.running.get_mut(&index).expect("only running jobs change speed");
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

    fn finish(mut self) -> Outcome {
        let waiting = self.waiting.into_jobs().map(|job| (job, Reason::NotPlaced));
        let jobs = &self.jobs;
        let stalled = self.running.keys().map(|&at| (jobs[at].clone(), Reason::Stalled));
        let measured = |(job, _): &(Job, Reason)| self.options.measures(job);
        self.unfinished.extend(waiting.chain(stalled).filter(measured));
        self.unfinished.sort_by(|(a, _), (b, _)| by_submission(a, b));
        self.records.sort_by_key(|&(index, _)| index);
        let records = self.records.into_iter().map(|(_, record)| record).collect();
        let (totals, series) = self.meter.finish();
        Outcome { records, unfinished: self.unfinished, totals, series }
    }
}

fn by_submission(a: &Job, b: &Job) -> Ordering {
    a.submit_s.total_cmp(&b.submit_s).then(a.id.cmp(&b.id))
}

/// Separates the jobs that can run from those that cannot.
fn sort_out(cluster: &Cluster, jobs: &[Job]) -> (Vec<Job>, Vec<(Job, Reason)>) {
    let gpus = cluster.gpus();
    let positive = |value: f64| value > 0.0 && value.is_finite();
    let mut fit = Vec::with_capacity(jobs.len());
    let mut unfit = Vec::new();
    for job in jobs {
        let sane = job.gpus > 0
            && job.submit_s.is_finite()
            && positive(job.iterations)
            && positive(job.compute_s)
            && (0.0..f64::INFINITY).contains(&job.gradient_bytes);
        if !sane {
            unfit.push((job.clone(), Reason::Senseless));
        } else if job.gpus > gpus {
            unfit.push((job.clone(), Reason::TooLarge));
        } else {
            fit.push(job.clone());
        }
    }
    (fit, unfit)
}
