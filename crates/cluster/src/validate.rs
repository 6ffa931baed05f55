//! An independent check of what a policy decided and what the network was said to give.
//!
//! Nothing here uses [`State`]'s bookkeeping or the network's: a [`Validator`] sees starts,
//! ends and rates, counts GPUs itself and adds up every link's load by its own arithmetic from
//! table 1 of NetPack. It can watch a simulation, or be fed by hand.

use std::collections::BTreeMap;

use crate::job::{Job, JobId};
use crate::plan::Plan;
use crate::simulate::Observer;
use crate::state::State;
use crate::topology::{Cluster, PodIndex, RackIndex, ServerIndex};

/// Loads may exceed a limit by this part of it, and by `ROUNDING_GBPS`.
const ROUNDING: f64 = 1e-9;
const ROUNDING_GBPS: f64 = 1e-6;

/// What a job gets from the network, as reported.
#[derive(Clone, PartialEq, Debug)]
pub struct Share {
    /// The job.
    pub job: JobId,
    /// Rate of each of its workers, Gb/s.
    pub rate_gbps: f64,
    /// How much of that rate the switches of racks aggregate, Gb/s; racks that are not named, none.
    pub aggregated_gbps: Vec<(RackIndex, f64)>,
}

/// A link of a cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Link {
    /// From a server to its rack's switch.
    Server(ServerIndex),
    /// From a rack upwards.
    Rack(RackIndex),
    /// From a pod upwards.
    Pod(PodIndex),
}

/// A rule that was broken.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Broken {
    /// Time went back.
    #[error("time goes back to {0} s")]
    Time(f64),
    /// A job started before it was submitted.
    #[error("job {} starts before it was submitted at {submit_s} s", job.0)]
    Early {
        /// The job.
        job: JobId,
        /// When it was submitted.
        submit_s: f64,
    },
    /// A job started that runs already or ran before.
    #[error("job {} starts a second time", .0.0)]
    Again(JobId),
    /// A job ended that does not run.
    #[error("job {} ends without running", .0.0)]
    NotRunning(JobId),
    /// A plan has too few or too many GPUs.
    #[error("job {} wants {wanted} GPUs, its plan has {planned}", job.0)]
    Gpus {
        /// The job.
        job: JobId,
        /// GPUs that it wants.
        wanted: u32,
        /// GPUs in its plan.
        planned: u32,
    },
    /// A plan names a server or a rack that does not exist.
    #[error("the plan of job {} names {what} {index}, which the cluster does not have", job.0)]
    Unknown {
        /// The job.
        job: JobId,
        /// What it names.
        what: &'static str,
        /// The number.
        index: u32,
    },
    /// More GPUs of a server are taken than it has.
    #[error("with job {} server {} has {taken} of its {all} GPUs taken", job.0, server.0)]
    Overbooked {
        /// The job that was one too many.
        job: JobId,
        /// The server.
        server: ServerIndex,
        /// GPUs taken.
        taken: u32,
        /// GPUs that it has.
        all: u32,
    },
    /// A job on several servers has no parameter server.
    #[error("job {} runs on several servers and has no parameter server", .0.0)]
    NoPs(JobId),
    /// A rack aggregates for a job that has nothing there, or is named twice.
    #[error("rack {} aggregates for job {}, which is not there, or twice", rack.0, job.0)]
    Aggregates {
        /// The job.
        job: JobId,
        /// The rack.
        rack: RackIndex,
    },
    /// A running job that sends has no rate, or one that does not send has one.
    #[error("the rates are not those of the jobs that send: job {} is missing or too many", .0.0)]
    Reported(JobId),
    /// A rate or a part of it that is aggregated makes no sense.
    #[error("job {} gets {rate_gbps} Gb/s, of which {aggregated_gbps} Gb/s are aggregated", job.0)]
    Rate {
        /// The job.
        job: JobId,
        /// Its rate.
        rate_gbps: f64,
        /// What is aggregated of it at some rack.
        aggregated_gbps: f64,
    },
    /// A rack aggregates for a job that its plan does not have it aggregate for.
    #[error("rack {} aggregates for job {} against its plan", rack.0, job.0)]
    NotEnabled {
        /// The job.
        job: JobId,
        /// The rack.
        rack: RackIndex,
    },
    /// A link carries more than it can.
    #[error("{link:?} carries {load_gbps} Gb/s of {capacity_gbps} Gb/s")]
    Overloaded {
        /// The link.
        link: Link,
        /// What it carries.
        load_gbps: f64,
        /// What it can carry.
        capacity_gbps: f64,
    },
    /// A switch aggregates more than it can.
    #[error("the switch of rack {} aggregates {load_gbps} Gb/s, it can {pat_gbps} Gb/s", rack.0)]
    Pat {
        /// Its rack.
        rack: RackIndex,
        /// What it aggregates.
        load_gbps: f64,
        /// What it can aggregate.
        pat_gbps: f64,
    },
}

/// A rule that was broken, and when.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("at {time_s} s: {broken}")]
pub struct Violation {
    /// When, seconds from the start of the trace.
    pub time_s: f64,
    /// The rule.
    pub broken: Broken,
}

/// Watches for rules that are broken.
#[derive(Clone, Debug)]
pub struct Validator<'c> {
    cluster: &'c Cluster,
    /// Whether jobs sum their gradients at a parameter server.
    in_network: bool,
    now_s: f64,
    taken: Vec<u32>,
    running: BTreeMap<JobId, Plan>,
    ran: std::collections::HashSet<JobId>,
    violations: Vec<Violation>,
}

impl<'c> Validator<'c> {
    /// For an empty cluster; `in_network`: whether jobs on several servers need a parameter server.
    #[must_use]
    pub fn new(cluster: &'c Cluster, in_network: bool) -> Self {
        Self {
            cluster,
            in_network,
            now_s: f64::NEG_INFINITY,
            taken: vec![0; cluster.servers().len()],
            running: BTreeMap::new(),
            ran: std::collections::HashSet::new(),
            violations: Vec::new(),
        }
    }

    /// Rules broken so far, in the order of time.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    fn broken(&mut self, broken: Broken) {
        self.violations.push(Violation { time_s: self.now_s, broken });
    }

    fn at(&mut self, now_s: f64) {
        if now_s.is_nan() || now_s < self.now_s {
            self.broken(Broken::Time(now_s));
        }
        self.now_s = self.now_s.max(now_s);
    }

    /// A job starts under a plan.
    pub fn start(&mut self, now_s: f64, job: &Job, plan: &Plan) {
        self.at(now_s);
        let id = job.id;
        if now_s < job.submit_s {
            self.broken(Broken::Early { job: id, submit_s: job.submit_s });
        }
        if !self.ran.insert(id) {
            self.broken(Broken::Again(id));
            // Its GPUs would be counted twice.
            return;
        }
        let planned = plan.ranks.len() as u32;
        if planned != job.gpus {
            self.broken(Broken::Gpus { job: id, wanted: job.gpus, planned });
        }
        self.running.insert(id, plan.clone());
        let servers = self.taken.len();
        for &server in plan.ranks.iter().chain(&plan.ps) {
            if server.at() >= servers {
                self.broken(Broken::Unknown { job: id, what: "server", index: server.0 });
                return;
            }
        }
        for &server in &plan.ranks {
            self.taken[server.at()] += 1;
        }
        let mut seen: Vec<_> = plan.ranks.clone();
        seen.sort_unstable();
        seen.dedup();
        for server in seen {
            let (taken, all) = (self.taken[server.at()], self.cluster.server(server).gpus);
            if taken > all {
                self.broken(Broken::Overbooked { job: id, server, taken, all });
            }
        }
        self.check_aggregation(id, plan);
    }

    /// Parameter server and racks that aggregate.
    fn check_aggregation(&mut self, job: JobId, plan: &Plan) {
        let several = plan.ranks.iter().any(|&server| server != plan.ranks[0]);
        if self.in_network && several && plan.ps.is_none() {
            self.broken(Broken::NoPs(job));
        }
        for (at, &rack) in plan.aggregating.iter().enumerate() {
            if rack.at() >= self.cluster.racks().len() {
                self.broken(Broken::Unknown { job, what: "rack", index: rack.0 });
                continue;
            }
            let servers = &self.cluster.rack(rack).servers;
            let has = plan.ranks.iter().chain(&plan.ps).any(|server| servers.contains(&server.0));
            if !has || plan.aggregating[..at].contains(&rack) {
                self.broken(Broken::Aggregates { job, rack });
            }
        }
    }

    /// Whether all servers of a plan exist.
    fn knows(&self, plan: &Plan) -> bool {
        plan.ranks.iter().chain(&plan.ps).all(|server| server.at() < self.taken.len())
    }

    /// A job ends.
    pub fn end(&mut self, now_s: f64, job: JobId) {
        self.at(now_s);
        let Some(plan) = self.running.remove(&job) else {
            return self.broken(Broken::NotRunning(job));
        };
        if self.knows(&plan) {
            for &server in &plan.ranks {
                self.taken[server.at()] -= 1;
            }
        }
    }

    /// The network reports what every job that sends gets, all that run now.
    pub fn rates(&mut self, now_s: f64, shares: &[Share]) {
        self.at(now_s);
        let sends = |plan: &Plan| plan.ranks.iter().any(|&server| server != plan.ranks[0]);
        let mut missing: Vec<_> =
            self.running.iter().filter(|(_, plan)| sends(plan)).map(|(&job, _)| job).collect();
        let mut loads = Loads::new(self.cluster);
        for share in shares {
            match missing.iter().position(|&job| job == share.job) {
                Some(at) => drop(missing.remove(at)),
                None => {
                    self.broken(Broken::Reported(share.job));
                    continue;
                }
            }
            let plan = self.running[&share.job].clone();
            if self.check_share(share, &plan) {
                loads.add(share, &plan);
            }
        }
        for job in missing {
            self.broken(Broken::Reported(job));
        }
        for broken in loads.broken() {
            self.broken(broken);
        }
    }

    /// Whether a share makes sense at all.
    fn check_share(&mut self, share: &Share, plan: &Plan) -> bool {
        let Share { job, rate_gbps, .. } = *share;
        let sane = |value: f64| (0.0..f64::INFINITY).contains(&value);
        // Links of servers that do not exist carry nothing.
        let mut good = plan.ps.is_some() && self.knows(plan);
        if !sane(rate_gbps) {
            self.broken(Broken::Rate { job, rate_gbps, aggregated_gbps: 0.0 });
            good = false;
        }
        for &(rack, aggregated_gbps) in &share.aggregated_gbps {
            if !sane(aggregated_gbps) || !within(aggregated_gbps, rate_gbps) {
                self.broken(Broken::Rate { job, rate_gbps, aggregated_gbps });
                good = false;
            }
            if aggregated_gbps > ROUNDING_GBPS && !plan.aggregating.contains(&rack) {
                self.broken(Broken::NotEnabled { job, rack });
            }
        }
        good
    }
}

fn within(load: f64, limit: f64) -> bool {
    load <= limit * (1.0 + ROUNDING) + ROUNDING_GBPS
}

/// What links carry and switches aggregate.
#[derive(Debug)]
struct Loads<'c> {
    cluster: &'c Cluster,
    links: BTreeMap<Link, f64>,
    aggregated: BTreeMap<RackIndex, f64>,
}

impl<'c> Loads<'c> {
    const fn new(cluster: &'c Cluster) -> Self {
        Self { cluster, links: BTreeMap::new(), aggregated: BTreeMap::new() }
    }

    fn load(&mut self, link: Link, gbps: f64) {
        *self.links.entry(link).or_default() += gbps;
    }

    /// Adds a job whose plan has a parameter server.
    fn add(&mut self, share: &Share, plan: &Plan) {
        let Some(ps) = plan.ps else { return };
        let rate = share.rate_gbps;
        let mut workers = plan.ranks.clone();
        workers.sort_unstable();
        workers.dedup();
        let mut per_rack = BTreeMap::<RackIndex, f64>::new();
        for &server in &workers {
            self.load(Link::Server(server), rate);
            *per_rack.entry(self.cluster.server(server).rack).or_default() += 1.0;
        }
        let aggregated = |rack: RackIndex| {
            let at = share.aggregated_gbps.iter().find(|&&(named, _)| named == rack);
            at.map_or(0.0, |&(_, gbps)| gbps.min(rate))
        };
        for &(rack, gbps) in &share.aggregated_gbps {
            *self.aggregated.entry(rack).or_default() += gbps;
        }
        // Up to the level `root` of the rate the top switch sends one flow, above it all that come.
        let top = self.cluster.server(ps).rack;
        let root = aggregated(top);
        let mut to_ps = root;
        for (rack, flows) in per_rack {
            if rack == top {
                to_ps += (rate - root) * flows;
                continue;
            }
            // A worker's rack sends one flow up to the level `own`, above it one for each worker.
            let own = aggregated(rack);
            let out = own + (rate - own) * flows;
            to_ps += (own - root).max(0.0) + (rate - own.max(root)) * flows;
            self.cross(rack, top, out);
        }
        self.load(Link::Server(ps), to_ps);
    }

    /// Traffic from a rack to another.
    fn cross(&mut self, from: RackIndex, to: RackIndex, gbps: f64) {
        self.load(Link::Rack(from), gbps);
        self.load(Link::Rack(to), gbps);
        let pods = self.cluster.rack(from).pod.zip(self.cluster.rack(to).pod);
        if let Some((from, to)) = pods.filter(|(from, to)| from != to) {
            self.load(Link::Pod(from), gbps);
            self.load(Link::Pod(to), gbps);
        }
    }

    fn broken(&self) -> Vec<Broken> {
        let links = self.links.iter().filter_map(|(&link, &load_gbps)| {
            let capacity_gbps = match link {
                Link::Server(server) => self.cluster.server(server).link_gbps,
                Link::Rack(rack) => self.cluster.rack(rack).uplink_gbps,
                Link::Pod(pod) => self.cluster.pods()[pod.at()].uplink_gbps,
            };
            let over = !within(load_gbps, capacity_gbps);
            over.then_some(Broken::Overloaded { link, load_gbps, capacity_gbps })
        });
        let switches = self.aggregated.iter().filter_map(|(&rack, &load_gbps)| {
            let pat_gbps = self.cluster.racks().get(rack.at()).map_or(0.0, |rack| rack.pat_gbps);
            let over = !within(load_gbps, pat_gbps);
            over.then_some(Broken::Pat { rack, load_gbps, pat_gbps })
        });
        links.chain(switches).collect()
    }
}

/// A validator may watch a simulation; asking the network is all that it takes from the state.
impl Observer for Validator<'_> {
    fn started(&mut self, now_s: f64, job: &Job, plan: &Plan) {
        self.start(now_s, job, plan);
    }

    fn ended(&mut self, now_s: f64, job: JobId) {
        self.end(now_s, job);
    }

    fn network(&mut self, now_s: f64, state: &mut State<'_>) {
        let network = state.network();
        let sends = self.running.iter().filter(|(_, plan)| plan.is_distributed());
        let shares: Vec<_> = sends
            .map(|(&job, plan)| Share {
                job,
                rate_gbps: network.rate_gbps(job),
                aggregated_gbps: plan
                    .racks(self.cluster)
                    .into_iter()
                    .map(|rack| (rack, network.aggregated_gbps(job, rack)))
                    .collect(),
            })
            .collect();
        self.rates(now_s, &shares);
    }
}

#[cfg(test)]
mod tests;
