//! An independent check of a policy's decisions and of the network's reported rates.
//!
//! It uses neither [`State`]'s bookkeeping nor the network's. A [`Validator`] receives starts, ends
//! and rates, counts GPUs itself and computes every link's load by its own arithmetic from table 1
//! of NetPack. It can observe a simulation, or receive the events directly.

use std::collections::BTreeMap;

use crate::job::{Job, JobId};
use crate::plan::Plan;
use crate::simulate::Observer;
use crate::state::State;
use crate::topology::{Cluster, PodIndex, RackIndex, ServerIndex};

/// Relative tolerance of limits, in addition to `ROUNDING_GBPS`.
const ROUNDING: f64 = 1e-9;
const ROUNDING_GBPS: f64 = 1e-6;

/// The reported rates of a job.
#[derive(Clone, PartialEq, Debug)]
pub struct Share {
    /// The job.
    pub job: JobId,
    /// Rate of each of its workers in Gb/s.
    pub rate_gbps: f64,
    /// The part of that rate that each rack's switch aggregates, in Gb/s; zero for racks not in the
    /// list.
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

/// A violated rule.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Broken {
    /// Time went backwards.
    #[error("time goes back to {0} s")]
    Time(f64),
    /// A job started before it was submitted.
    #[error("job {} starts before it was submitted at {submit_s} s", job.0)]
    Early {
        /// The job.
        job: JobId,
        /// Time of submission.
        submit_s: f64,
    },
    /// A job started that is running or has run before.
    #[error("job {} starts a second time", .0.0)]
    Again(JobId),
    /// A job ended that is not running.
    #[error("job {} ends without running", .0.0)]
    NotRunning(JobId),
    /// A plan has too few or too many GPUs.
    #[error("job {} wants {wanted} GPUs, its plan has {planned}", job.0)]
    Gpus {
        /// The job.
        job: JobId,
        /// Number of GPUs requested.
        wanted: u32,
        /// Number of GPUs in its plan.
        planned: u32,
    },
    /// A plan names a server or a rack that does not exist.
    #[error("the plan of job {} names {what} {index}, which the cluster does not have", job.0)]
    Unknown {
        /// The job.
        job: JobId,
        /// The kind of object.
        what: &'static str,
        /// Its number.
        index: u32,
    },
    /// More GPUs of a server are allocated than it has.
    #[error("with job {} server {} has {taken} of its {all} GPUs taken", job.0, server.0)]
    Overbooked {
        /// The job that exceeded the limit.
        job: JobId,
        /// The server.
        server: ServerIndex,
        /// Number of allocated GPUs.
        taken: u32,
        /// Number of GPUs that it has.
        all: u32,
    },
    /// A distributed job has no parameter server.
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
    /// A running job that uses the network has no rate, or one that does not has one.
    #[error("the rates are not those of the jobs that send: job {} is missing or too many", .0.0)]
    Reported(JobId),
    /// A rate or its aggregated part is invalid.
    #[error("job {} gets {rate_gbps} Gb/s, of which {aggregated_gbps} Gb/s are aggregated", job.0)]
    Rate {
        /// The job.
        job: JobId,
        /// Its rate.
        rate_gbps: f64,
        /// The part that some rack aggregates.
        aggregated_gbps: f64,
    },
    /// A rack aggregates for a job although the job's plan does not include it.
    #[error("rack {} aggregates for job {} against its plan", rack.0, job.0)]
    NotEnabled {
        /// The job.
        job: JobId,
        /// The rack.
        rack: RackIndex,
    },
    /// A link's load exceeds its capacity.
    #[error("{link:?} carries {load_gbps} Gb/s of {capacity_gbps} Gb/s")]
    Overloaded {
        /// The link.
        link: Link,
        /// Its load.
        load_gbps: f64,
        /// Its capacity.
        capacity_gbps: f64,
    },
    /// A switch aggregates more than its throughput allows.
    #[error("the switch of rack {} aggregates {load_gbps} Gb/s, it can {pat_gbps} Gb/s", rack.0)]
    Pat {
        /// Its rack.
        rack: RackIndex,
        /// The rate that it aggregates.
        load_gbps: f64,
        /// Its peak aggregation throughput.
        pat_gbps: f64,
    },
}

/// A violated rule, with its time.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("at {time_s} s: {broken}")]
pub struct Violation {
    /// Time in seconds from the start of the trace.
    pub time_s: f64,
    /// The rule.
    pub broken: Broken,
}

/// Detects violated rules.
#[derive(Clone, Debug)]
pub struct Validator<'c> {
    cluster: &'c Cluster,
    /// Whether jobs sum their gradients at a parameter server.
    in_network: bool,
    now_s: f64,
    taken: Vec<u32>,
    running: BTreeMap<JobId, Plan>,
    /// The numbers of all jobs that ever ran: a bit each, in words of 64, since traces have millions.
    ran: BTreeMap<u32, u64>,
    violations: Vec<Violation>,
}

impl<'c> Validator<'c> {
    /// A validator for a cluster without jobs. `in_network` is whether distributed jobs need a
    /// parameter server.
    #[must_use]
    pub fn new(cluster: &'c Cluster, in_network: bool) -> Self {
        Self {
            cluster,
            in_network,
            now_s: f64::NEG_INFINITY,
            taken: vec![0; cluster.servers().len()],
            running: BTreeMap::new(),
            ran: BTreeMap::new(),
            violations: Vec::new(),
        }
    }

    /// The violations so far, in the order of time.
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
        let (word, bit) = (self.ran.entry(id.0 / 64).or_default(), 1 << (id.0 % 64));
        if std::mem::replace(word, *word | bit) & bit != 0 {
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

    /// Checks the parameter server and the racks that aggregate.
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

    /// The network reports the rates of all running jobs that use it.
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

    /// Whether a share is valid.
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

/// Loads of links and aggregated rates of switches.
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
        // The top switch sends one flow up to the rate `root`, and all arriving flows above it.
        let top = self.cluster.server(ps).rack;
        let root = aggregated(top);
        let mut to_ps = root;
        for (rack, flows) in per_rack {
            if rack == top {
                to_ps += (rate - root) * flows;
                continue;
            }
            // A worker's rack sends one flow up to the rate `own`, and one per worker above it.
            let own = aggregated(rack);
            let out = own + (rate - own) * flows;
            to_ps += (own - root).max(0.0) + (rate - own.max(root)) * flows;
            self.cross(rack, top, out);
        }
        self.load(Link::Server(ps), to_ps);
    }

    /// Adds traffic from one rack to another.
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

/// A validator may observe a simulation. It only queries the network in the state.
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
