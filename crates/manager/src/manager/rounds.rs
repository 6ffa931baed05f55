//! A placement round: passes the waiting jobs and the current cluster to a policy.

use tributary_base::DECISIONS;
use tributary_cluster::{Job, JobId, Pending, Plan, Round, State};
use tributary_wire::POSITIONS_MAX;

use super::explain::Names;
use super::{Action, Agent, Manager, Wait, lives};
use crate::durable::Change;
use crate::job::{Phase, Record, Request, Run, Task};
use crate::site::{Part, Site, Summed};

impl Manager {
    /// Starts the waiting jobs that the policy places.
    pub(super) fn round(&mut self, now_ms: u64) {
        let waiting: Vec<Pending> = self
            .durable
            .jobs
            .values()
            .filter(|record| record.phase == Phase::Waiting)
            .map(|record| self.pending(now_ms, record))
            .collect();
        let before = std::mem::take(&mut self.waits);
        self.weighed.retain(|job, _| {
            self.durable.jobs.get(job).is_some_and(|record| record.phase.run().is_some())
        });
        if waiting.is_empty() {
            return;
        }
        let (_, free_before) = self.gpus();
        for (job, plan) in self.plans(&waiting) {
            let value = waiting.iter().find(|pending| pending.job.id.0 == job);
            self.begin(now_ms, job, plan, value.map_or(0.0, |pending| pending.value));
        }
        self.explain_waits(&waiting, &before, free_before);
    }

    /// The job in the policy's terms, and its current value: every round since its submission has
    /// passed it over.
    pub(super) fn pending(&self, now_ms: u64, record: &Record) -> Pending {
        let job = described(record);
        let waited_ms = now_ms.saturating_sub(record.submitted_ms);
        let rounds = (waited_ms / self.settings.period_ms.max(1)) as f64;
        let value = job.value * (1.0 + self.settings.ageing * rounds);
        Pending { job, value }
    }

    /// The servers with a connected agent.
    pub(super) fn present(&self) -> Part {
        self.site.part(|name| self.is_here(name))
    }

    /// These servers with the attempts that hold GPUs.
    pub(super) fn state<'c>(&self, part: &'c Part) -> State<'c> {
        let mut state = State::new(&part.cluster);
        // Numbers counted down from the maximum are not used by our jobs.
        let mut spare = (0..=u32::MAX).rev().map(JobId);
        for record in self.durable.jobs.values() {
            let Some(run) = record.phase.run() else { continue };
            for (job, plan) in occupied(&self.site, record, run, part, &mut spare) {
                if let Err(error) = state.start(&job, plan) {
                    // Only possible if the site file has changed. The remaining GPUs of the job are
                    // not assigned to others.
                    tracing::warn!(job = record.id, "cannot use its GPUs: {error}");
                }
            }
        }
        state
    }

    /// Asks the policy, which sees only servers with a connected agent.
    fn plans(&mut self, waiting: &[Pending]) -> Vec<(u32, Planned)> {
        let part = self.present();
        let mut state = self.state(&part);
        let names = Names { site: &self.site, part: &part };
        let mut round = Round::in_network(&mut state);
        round.keep_weighed();
        self.policy.place(&mut round, waiting);
        let started = round.started().to_vec();
        for &job in &started {
            self.weighed.insert(job.0, names.weighed(round.take_weighed(job)));
        }
        let (state, network) = state.with_network();
        let plan = |job: JobId| {
            let plan = &state.running()[&job].plan;
            let workers = plan.workers().into_iter();
            let switches = plan.aggregating.iter().map(|&rack| self.site.switch(rack).to_owned());
            let planned = Planned {
                workers: workers.map(|(server, gpus)| (names.server(server), gpus)).collect(),
                summed: self.site.summed(&part, plan),
                switches: switches.collect(),
                rate_gbps: network.rate_gbps(job),
            };
            (job.0, planned)
        };
        started.into_iter().map(plan).collect()
    }

    /// Records an attempt, and lets the switches serve it or its process start.
    fn begin(&mut self, now_ms: u64, job: u32, planned: Planned, value: f64) {
        let Some(mut record) = self.durable.jobs.get(&job).cloned() else { return };
        let Planned { workers, summed: Summed { ps, adding }, switches, rate_gbps } = planned;
        if workers.len() > usize::from(POSITIONS_MAX) {
            let count = workers.len();
            let what = format!("{count} servers; packets name {POSITIONS_MAX} at most");
            record.phase = Phase::Failed(format!("the policy's plan has {what}"));
            self.put(record);
            return self.forget_old();
        }
        let wire = match workers.len() {
            2.. => match self.next_wire(job) {
                Some(wire) => Some(wire),
                None => {
                    self.waits.insert(job, Wait::NoNumber);
                    return;
                }
            },
            _ => None,
        };
        record.attempts += 1;
        let task = |(worker, (server, gpus))| {
            let Some(&Agent::Here { incarnation, .. }) = self.agents.get(&server) else {
                return None;
            };
            Some(Task { worker, server, incarnation, gpus, exit: None })
        };
        let tasks: Option<Vec<Task>> = (0..).zip(workers).map(task).collect();
        let Some(tasks) = tasks else { return };
        let (attempt, key) = (record.attempts, (self.draw)());
        let run = Run { attempt, since_ms: now_ms, wire, epoch: None, adding, ps, key, tasks };
        self.outbox.extend(lives::admission(&self.site, &record, &run).map(Action::Admit));
        log_placed(&record, &run, &switches, rate_gbps, value, self.policy.name());
        let ps = run.ps.as_ref().map_or(String::new(), |ps| format!(", parameter server on {ps}"));
        record.note(now_ms, &format!("attempt {attempt} on {}{ps}", places(&run)));
        record.servers = run.tasks.iter().map(|task| task.server.clone()).collect();
        record.phase = Phase::Running(run);
        if let Some(wire) = wire {
            let mut counters = self.durable.counters;
            counters.wire = wire;
            self.strangers.remove(&wire);
            self.change(Change::Counters(counters));
        }
        self.put(record);
        self.start_tasks(job, |_| true);
    }

    /// A number for packets that neither an attempt nor a job on the switches uses: the job's own, by which people
    /// know it, or else the next one. `None` if all are in use.
    fn next_wire(&self, job: u32) -> Option<u16> {
        let taken = |wire: u16| {
            if self.served.contains(&wire) {
                return true;
            }
            let runs = self.durable.jobs.values().filter_map(|record| record.phase.run());
            runs.into_iter().any(|run| run.wire == Some(wire))
        };
        let last = self.durable.counters.wire;
        let after = (last..u16::MAX).map(|wire| wire + 1);
        let own = u16::try_from(job).ok().filter(|&wire| !taken(wire));
        // Another job's number would lead people to that one.
        let others = |wire: &u16| self.durable.jobs.contains_key(&(*wire).into());
        own.or_else(|| after.chain(1..=last).find(|wire| !others(wire) && !taken(*wire)))
    }
}

/// A plan with the names of servers and switches.
struct Planned {
    workers: Vec<(String, u32)>,
    summed: Summed,
    /// The switches that aggregate in the policy's model.
    switches: Vec<String>,
    /// Rate of each worker in the steady state; infinite if it sends nothing.
    rate_gbps: f64,
}

/// The servers of an attempt, each with the number of its GPUs.
fn places(run: &Run) -> String {
    let places = run.tasks.iter().map(|task| format!("{}×{}", task.server, task.gpus));
    places.collect::<Vec<_>>().join(" ")
}

/// Logs where a job is placed, and what was expected of that.
fn log_placed(
    record: &Record,
    run: &Run,
    switches: &[String],
    rate_gbps: f64,
    value: f64,
    policy: &str,
) {
    let Record { id: job, request: Request { name, tenant, .. }, .. } = record;
    let workers = places(run);
    let (tenant, attempt) = (tenant.as_deref(), run.attempt);
    if run.wire.is_none() {
        return tracing::info!(
            target: DECISIONS,
            job, name, tenant, attempt, workers, value, policy, "placed on one server: it sends nothing"
        );
    }
    let ps = run.ps.as_deref().unwrap_or("none, or the controller's choice");
    let aggregating = switches.join(" ");
    tracing::info!(
        target: DECISIONS,
        job, name, tenant, attempt, workers, ps, aggregating, rate_gbps, value, policy, "placed"
    );
}

/// A recorded job in the policy's terms.
fn described(record: &Record) -> Job {
    let Request { gpus, iterations, compute_us, gradient_bytes, value, .. } = record.request;
    Job {
        id: JobId(record.id),
        submit_s: record.submitted_ms as f64 / 1e3,
        gpus,
        iterations: iterations.into(),
        compute_s: compute_us as f64 / 1e6,
        gradient_bytes: gradient_bytes as f64,
        value,
    }
}

/// The resources that an attempt holds on these servers: its plan if all of its servers are among
/// them; otherwise its GPUs without traffic, as a separate job per server.
fn occupied(
    site: &Site,
    record: &Record,
    run: &Run,
    part: &Part,
    spare: &mut impl Iterator<Item = JobId>,
) -> Vec<(Job, Plan)> {
    let job = described(record);
    let places: Vec<_> =
        run.tasks.iter().map(|task| (part.index(&task.server), task.gpus)).collect();
    let all: Option<Vec<_>> = places.iter().map(|&(server, gpus)| Some((server?, gpus))).collect();
    // Where the controller has put a parameter server is not known here.
    let ps = match (&run.ps, &all) {
        (Some(server), _) => part.index(server),
        (None, shares) => shares.as_ref().and_then(|shares| shares.first()).map(|share| share.0),
    };
    match (all.as_deref(), ps) {
        (Some(&[(server, gpus)]), _) if run.wire.is_none() => {
            vec![(job, Plan::on_one(server, gpus))]
        }
        (Some(shares), Some(ps)) => {
            let mut plan = Plan::spread(&part.cluster, shares, ps);
            site.leave_out(&mut plan, run.adding.as_deref());
            vec![(job, plan)]
        }
        _ => {
            let there = places.into_iter().filter_map(|(server, gpus)| Some((server?, gpus)));
            there
                .zip(spare)
                .map(|((server, gpus), id)| {
                    (Job { id, gpus, ..job.clone() }, Plan::on_one(server, gpus))
                })
                .collect()
        }
    }
}
