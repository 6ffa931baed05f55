//! The decisions: which held jobs start, and on which nodes; and which jobs the switches must serve
//! or forget.
//!
//! All state is in Slurm and in the controller. A decision follows from one look at both, so the
//! placer may be restarted at any time.

use std::collections::{BTreeMap, BTreeSet};

use crate::site::{Part, Site, Summed};
use tributary_cluster::{Job, JobId, Pending, Plan, Policy, Round, ServerIndex, State};
use tributary_wire::POSITIONS_MAX;

use crate::slurm::decision::Decision;
use crate::slurm::listing::{Node, Phase, QueuedJob};
use crate::slurm::number;
use crate::slurm::wish::{Sums, Wish};

/// The settings of the placer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// Time between two rounds, in milliseconds.
    pub period_ms: u64,
    /// Share of its value that a waiting job gains with each round.
    pub ageing: f64,
    /// How long a placed job may wait for Slurm to start it, in seconds.
    pub patience_s: u64,
}

/// Slurm's jobs and nodes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Listing {
    /// All jobs.
    pub jobs: Vec<QueuedJob>,
    /// All nodes.
    pub nodes: Vec<Node>,
}

/// What is to be done about a job.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Name its nodes and release it.
    Place(u32, Decision),
    /// Hold it again: Slurm has not started it.
    TakeBack(u32, String),
    /// Nothing, for this reason.
    Leave(u32, String),
}

/// A job that the switches serve.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Served {
    /// The nodes of its workers.
    pub workers: Vec<String>,
    /// The node of its parameter server.
    pub ps: String,
    /// Its run.
    pub epoch: u32,
}

/// What is to be done about the switches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Repair {
    /// The Slurm job with this number is over.
    Release(u16),
    /// The controller has forgotten a running job.
    Admit(Admission),
}

/// A job for the switches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Admission {
    /// Its ID in Slurm.
    pub job: u32,
    /// The nodes of its workers, in Slurm's order.
    pub workers: Vec<String>,
    /// The node of its parameter server; `None` if it needs none, or the controller chooses one.
    pub ps: Option<String>,
    /// The switches that aggregate for it; `None` for all that have something to add.
    pub adding: Option<Vec<String>>,
    /// The run to continue; `None` for a new one.
    pub run: Option<u32>,
    /// What `tributary worker` sums in it, if the comment says.
    pub sums: Option<Sums>,
}

/// What was decided for a job, if anything.
fn decided(job: &QueuedJob) -> Option<Decision> {
    job.admin_comment.parse().ok()
}

/// Decides where waiting jobs go.
///
/// Each set of partitions has a round of its own, because its jobs may only use its nodes.
pub fn decide(
    site: &Site,
    policy: &mut dyn Policy,
    settings: &Settings,
    listing: &Listing,
    now_s: u64,
) -> Vec<Step> {
    let mut steps = late(settings, listing, now_s);
    let mut reserved = Reserved::of(listing, &steps);
    let mut waiting: BTreeMap<&[String], Vec<(&QueuedJob, Wish)>> = BTreeMap::new();
    for job in &listing.jobs {
        match candidate(site, listing, job) {
            Ok(Some(wish)) => waiting.entry(&job.partitions).or_default().push((job, wish)),
            Ok(None) => {}
            Err(why) => steps.push(Step::Leave(job.id, why)),
        }
    }
    for (partitions, mut jobs) in waiting {
        jobs.sort_by_key(|(job, _)| (job.submit_s, job.id));
        let mut group = Group::new(site, listing, partitions, &reserved);
        for step in group.place(policy, settings, &jobs, now_s) {
            if let Step::Place(_, decision) = &step {
                reserved.add(decision);
            }
            steps.push(step);
        }
    }
    steps
}

/// The placed jobs that Slurm has not started in time.
fn late(settings: &Settings, listing: &Listing, now_s: u64) -> Vec<Step> {
    let late = |job: &QueuedJob| {
        let decision = decided(job).filter(|_| job.phase == Phase::Pending && !job.held)?;
        let since_s = decision.at_s?.max(job.eligible_s);
        let is_late = now_s.saturating_sub(since_s) > settings.patience_s;
        is_late.then(|| {
            let why = format!(
                "Slurm has not started it for {} s ({}); its nodes are taken back",
                now_s - since_s,
                job.reason
            );
            Step::TakeBack(job.id, why)
        })
    };
    listing.jobs.iter().filter_map(late).collect()
}

/// The reason for which Slurm holds a job that cannot run on the nodes that it names.
const REFUSED: &str = "BadConstraints";

/// What a waiting job asks for; `None` if it is not to be placed now.
fn candidate(site: &Site, listing: &Listing, job: &QueuedJob) -> Result<Option<Wish>, String> {
    if job.phase != Phase::Pending || !job.held {
        return Ok(None);
    }
    let Some(wish) = Wish::read(&job.comment)? else { return Ok(None) };
    if job.reason == REFUSED {
        let on = decided(job).map(|decision| nodes(&decision)).unwrap_or_default();
        return Err(format!(
            "Slurm cannot run it on {on} (BadConstraints): check its --ntasks, CPUs and memory against \
             those nodes, then submit it again"
        ));
    }
    if job.compound {
        return Err("arrays and heterogeneous jobs are not placed; submit single jobs".into());
    }
    if job.gpus_by_part || job.gpus == 0 {
        return Err("ask for the GPUs of the whole job with --gpus=N: the policy divides them \
                    between nodes"
            .into());
    }
    if job.gpus > site.gpus() {
        return Err(format!("it asks for {} GPUs; the site has {}", job.gpus, site.gpus()));
    }
    // Of those that wait, the one with the lower ID is first.
    let same = |other: &&QueuedJob| {
        let is_before = !other.held || other.id < job.id;
        number(other.id) == number(job.id)
            && other.id != job.id
            && other.phase < Phase::Over
            && is_before
            && is_ours(other)
    };
    if let Some(other) = listing.jobs.iter().find(same) {
        return Err(format!("it waits for job {}, which has the same number in packets", other.id));
    }
    Ok((!job.depends).then_some(wish))
}

/// The nodes of a decision and the GPUs there, for people.
#[must_use]
pub fn nodes(decision: &Decision) -> String {
    let node = |(node, gpus): &(String, u32)| format!("{node} ({gpus})");
    decision.on.iter().map(node).collect::<Vec<_>>().join(", ")
}

/// GPUs of jobs that are placed and do not have them yet.
struct Reserved {
    gpus: BTreeMap<String, u32>,
    decisions: Vec<Decision>,
}

impl Reserved {
    fn of(listing: &Listing, steps: &[Step]) -> Self {
        let mut reserved = Self { gpus: BTreeMap::new(), decisions: Vec::new() };
        for job in &listing.jobs {
            let is_back =
                steps.iter().any(|step| matches!(step, Step::TakeBack(id, _) if *id == job.id));
            if job.phase == Phase::Pending
                && !job.held
                && !is_back
                && let Some(decision) = decided(job)
                && decision.at_s.is_some()
            {
                reserved.add(&decision);
            }
        }
        reserved
    }

    fn add(&mut self, decision: &Decision) {
        for (node, gpus) in &decision.on {
            *self.gpus.entry(node.clone()).or_default() += gpus;
        }
        self.decisions.push(decision.clone());
    }

    fn on(&self, node: &str) -> u32 {
        self.gpus.get(node).copied().unwrap_or(0)
    }
}

/// The usable nodes of a set of partitions.
struct Group<'a> {
    site: &'a Site,
    part: Part,
    /// Jobs with traffic: running ones, and placed ones.
    busy: Vec<(Job, Plan)>,
    /// GPUs that Slurm has left, by server.
    free: Vec<u32>,
    partitions: &'a [String],
}

impl<'a> Group<'a> {
    fn new(
        site: &'a Site,
        listing: &Listing,
        partitions: &'a [String],
        reserved: &Reserved,
    ) -> Self {
        let known: BTreeMap<&str, &Node> =
            listing.nodes.iter().map(|node| (node.name.as_str(), node)).collect();
        let is_in = |node: &&&Node| {
            node.usable && node.partitions.iter().any(|name| partitions.contains(name))
        };
        let part = site.part(|name| known.get(name).filter(is_in).is_some());
        // Numbers counted down from the maximum are not used by Slurm.
        let mut spare = (0..=u32::MAX).rev().map(JobId);
        let mut busy = Vec::new();
        let running = listing
            .jobs
            .iter()
            .filter(|job| matches!(job.phase, Phase::Starting | Phase::Running) && is_ours(job));
        let running = running.map(|job| {
            let decision = decided(job);
            let ps = decision.as_ref().and_then(|decision| decision.ps.clone());
            (job.nodes.clone(), ps, decision.and_then(|decision| decision.adding))
        });
        let placed = reserved.decisions.iter();
        let placed = placed
            .map(|decision| (decision.on.clone(), decision.ps.clone(), decision.adding.clone()));
        for (on, ps, adding) in running.chain(placed) {
            let shares = on.iter().map(|(node, gpus)| Some((part.index(node)?, *gpus)));
            // The GPUs of a job that is partly on other nodes are blocked below.
            let Some(shares) = shares.collect::<Option<Vec<_>>>() else { continue };
            let plan = match shares[..] {
                [] => continue,
                [(server, gpus)] => Plan::on_one(server, gpus),
                _ => {
                    let ps = ps.and_then(|ps| part.index(&ps)).unwrap_or(shares[0].0);
                    let mut plan = Plan::spread(&part.cluster, &shares, ps);
                    site.leave_out(&mut plan, adding.as_deref());
                    plan
                }
            };
            if !plan.ranks.is_empty() {
                let id = spare.next().expect("there are fewer jobs than numbers");
                busy.push((job(id, plan.ranks.len()), plan));
            }
        }
        let free = part.names.iter().map(|name| {
            let node = known[name.as_str()];
            node.gpus.saturating_sub(node.used).saturating_sub(reserved.on(name))
        });
        let free = free.collect();
        Self { site, part, busy, free, partitions }
    }

    /// Asks the policy.
    fn place(
        &mut self,
        policy: &mut dyn Policy,
        settings: &Settings,
        jobs: &[(&QueuedJob, Wish)],
        now_s: u64,
    ) -> Vec<Step> {
        let part = &self.part;
        let mut state = State::new(&part.cluster);
        let occupy = |state: &mut State<'_>, job: &Job, plan: Plan| {
            if let Err(error) = state.start(job, plan) {
                tracing::warn!("the site file and Slurm disagree: {error}");
            }
        };
        for (job, plan) in &self.busy {
            occupy(&mut state, job, plan.clone());
        }
        // GPUs of other jobs, and those that Slurm does not have.
        let first = u32::MAX - self.busy.len() as u32;
        for ((server, &free), at) in part.cluster.server_indices().zip(&self.free).zip(0..) {
            let surplus = state.free(server).saturating_sub(free);
            if surplus > 0 {
                let job = job(JobId(first - at), surplus as usize);
                occupy(&mut state, &job, Plan::on_one(server, surplus));
            }
        }
        let waiting: Vec<Pending> = jobs
            .iter()
            .map(|(job, wish)| {
                let limit_s = job.limit_s.map(|limit_s| limit_s as f64);
                let described = wish.job(job.id, job.submit_s as f64, job.gpus, limit_s);
                let waited_ms = now_s.saturating_sub(job.submit_s).saturating_mul(1000);
                let rounds = (waited_ms / settings.period_ms.max(1)) as f64;
                let value = described.value * (1.0 + settings.ageing * rounds);
                Pending { job: described, value }
            })
            .collect();
        // Policies for all-reduce place no parameter server, and get one here.
        let mut round = Round::in_network(&mut state);
        policy.place(&mut round, &waiting);
        let started = round.started().to_vec();
        let mut steps: Vec<Step> =
            started.iter().map(|id| self.step(id.0, &state.running()[id].plan, now_s)).collect();
        let left = jobs.iter().filter(|(job, _)| !started.contains(&JobId(job.id)));
        steps.extend(left.map(|(job, _)| {
            let why = format!(
                "it waits for {} GPUs in partition {}",
                job.gpus,
                self.partitions.join(",")
            );
            Step::Leave(job.id, why)
        }));
        steps
    }

    fn step(&self, job: u32, plan: &Plan, now_s: u64) -> Step {
        let shares = plan.workers();
        if shares.len() > usize::from(POSITIONS_MAX) {
            let why = format!(
                "the policy's plan has {} nodes; packets name {POSITIONS_MAX} at most",
                shares.len()
            );
            return Step::Leave(job, why);
        }
        let name = |server: ServerIndex| self.part.names[server.at()].clone();
        let on = shares.into_iter().map(|(server, gpus)| (name(server), gpus)).collect();
        let Summed { ps, adding } = self.site.summed(&self.part, plan);
        Step::Place(job, Decision { on, ps, adding, at_s: Some(now_s), run: None })
    }
}

/// A job that only occupies GPUs.
fn job(id: JobId, gpus: usize) -> Job {
    Job {
        id,
        submit_s: 0.0,
        gpus: gpus as u32,
        iterations: 1.0,
        compute_s: 1.0,
        gradient_bytes: 4.0,
        value: 1.0,
    }
}

/// Whether the switches may have to serve a job.
#[must_use]
pub fn is_ours(job: &QueuedJob) -> bool {
    decided(job).is_some() || matches!(Wish::read(&job.comment), Ok(Some(_)))
}

/// The admission of a job that has its nodes; `None` if the job sends nothing through the network.
///
/// The controller chooses the parameter server of a job that Slurm placed itself.
#[must_use]
pub fn admission(job: &QueuedJob) -> Option<Admission> {
    if !is_ours(job) || job.nodes.len() < 2 {
        return None;
    }
    let workers: Vec<String> = job.nodes.iter().map(|(node, _)| node.clone()).collect();
    let decision = decided(job);
    let decision = decision.as_ref();
    // After it was requeued by hand, a job may have other nodes than it was placed on.
    let nodes = |decision: &Decision| decision.on.iter().map(|(node, _)| node.clone()).collect();
    let here: BTreeSet<String> = workers.iter().cloned().collect();
    let here = |decision: &&Decision| -> bool { here == nodes(decision) };
    let placed = decision.filter(here);
    let ps = placed.and_then(|decision| decision.ps.clone());
    Some(Admission {
        job: job.id,
        workers,
        ps,
        adding: placed.and_then(|decision| decision.adding.clone()),
        run: decision.and_then(|decision| decision.run),
        sums: Wish::read(&job.comment).ok().flatten().and_then(|wish| wish.sums),
    })
}

/// Compares the served jobs with Slurm's. `served` must be older than `jobs`: then a job that
/// starts between the two looks is not mistaken for one that is over.
///
/// If other clients admit jobs at the controller too (`shared`), only jobs are released that Slurm
/// still knows to be over.
#[must_use]
pub fn reconcile(served: &BTreeMap<u16, Served>, jobs: &[QueuedJob], shared: bool) -> Vec<Repair> {
    let ours = || jobs.iter().filter(|job| is_ours(job));
    let numbers = |wanted: fn(&QueuedJob) -> bool| -> BTreeSet<u16> {
        ours().filter(|job| wanted(job)).map(|job| number(job.id)).collect()
    };
    // A pending job that is not held may start at any moment. Its own prolog replaces what is left
    // of an earlier start.
    let alive = numbers(|job| match job.phase {
        Phase::Pending => !job.held,
        Phase::Starting | Phase::Running | Phase::Completing => true,
        Phase::Over => false,
    });
    let over = numbers(|job| job.phase == Phase::Over || job.held);
    let is_over = |number: &&u16| !alive.contains(number) && (!shared || over.contains(number));
    let releases = served.keys().filter(is_over).map(|&number| Repair::Release(number));
    let forgotten =
        ours().filter(|job| job.phase == Phase::Running && !served.contains_key(&number(job.id)));
    // Without the number of its run, the workers of a job could not be reached.
    let admissions = forgotten.filter_map(admission).filter(|admission| admission.run.is_some());
    releases.chain(admissions.map(Repair::Admit)).collect()
}

#[cfg(test)]
mod tests;
