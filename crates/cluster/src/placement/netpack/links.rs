//! The use of links by running jobs, as the searches count it.

use std::collections::HashMap;

use crate::{Job, Link, RackIndex, ServerIndex, State, SteadyNetwork};

use super::readings::Duty;

/// One flow that sends all the time. Numbers of flows are multiples of a quarter of it, because a
/// job that also computes counts as a fraction.
pub(super) const FLOW: u32 = 4;

/// Repetitions of the estimate of duty cycles. It converges geometrically; after these the error is
/// below a quarter of a flow.
const ROUNDS: usize = 16;

/// The links of a cluster at one time.
#[derive(Clone, Debug)]
pub(super) struct Links<'a> {
    /// The steady state.
    network: &'a SteadyNetwork,
    /// The use of each link, if jobs take turns.
    cycles: Option<HashMap<Link, Use>>,
}

/// The use of a link by jobs that take turns.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Use {
    /// Mean number of flows at the same time.
    flows: f64,
    /// Mean traffic in Gb/s.
    load_gbps: f64,
}

impl<'a> Links<'a> {
    /// The links of a cluster with its running jobs.
    pub(super) fn of(state: &State<'_>, network: &'a SteadyNetwork, duty: Duty) -> Self {
        let cycles = match duty {
            Duty::Always => None,
            Duty::Cycles => Some(cycles(state, network)),
        };
        Self { network, cycles }
    }

    /// The state of the network, for [`changed_since`](Self::changed_since).
    pub(super) const fn settlements(&self) -> u64 {
        self.network.settlements()
    }

    /// The servers whose links have changed since an earlier state of the network; `None` if any
    /// may have.
    pub(super) fn changed_since(&self, settlements: u64) -> Option<&'a [ServerIndex]> {
        match self.cycles {
            None => self.network.changed_since(settlements),
            Some(_) => None,
        }
    }

    /// Number of flows on a server's link, in units of [`FLOW`].
    pub(super) fn flows(&self, server: ServerIndex) -> u32 {
        self.count(Link::Server(server), |network| network.flows(server))
    }

    /// Number of flows on a rack's uplinks, in units of [`FLOW`].
    pub(super) fn rack_flows(&self, rack: RackIndex) -> u32 {
        self.count(Link::Uplinks(rack), |network| network.rack_flows(rack))
    }

    fn count(&self, link: Link, steady: impl Fn(&SteadyNetwork) -> u32) -> u32 {
        match &self.cycles {
            None => steady(self.network) * FLOW,
            Some(cycles) => {
                cycles.get(&link).map_or(0, |used| (used.flows * f64::from(FLOW)).round() as u32)
            }
        }
    }

    /// Remaining bandwidth of a server's link in Gb/s.
    pub(super) fn available_gbps(&self, server: ServerIndex, link_gbps: f64) -> f64 {
        match &self.cycles {
            None => self.network.available_gbps(server),
            Some(cycles) => {
                let used = cycles.get(&Link::Server(server));
                link_gbps - used.map_or(0.0, |used| used.load_gbps)
            }
        }
    }

    /// Whether a rack's switch has memory left.
    pub(super) fn aggregates(&self, rack: RackIndex) -> bool {
        self.network.pat_left_gbps(rack) > 0.0
    }
}

/// A job that uses the network.
struct Sender<'a> {
    job: &'a Job,
    /// Its links, with its number of flows on each.
    links: Vec<(Link, f64)>,
    /// Its workers' rate while it sends.
    rate_gbps: f64,
    /// The fraction of the time for which it sends.
    duty: f64,
}

impl Sender<'_> {
    /// Sets the rate, if `others` flows of other jobs share a link with it.
    fn settle(&mut self, capacity_gbps: impl Fn(Link) -> f64, others: impl Fn(Link, f64) -> f64) {
        let rates = self.links.iter().map(|&(link, flows)| {
            capacity_gbps(link) / (flows + others(link, flows * self.duty).max(0.0))
        });
        self.rate_gbps = rates.fold(f64::INFINITY, f64::min);
        let sending_s = self.job.gradient_bytes * 8e-9 / self.rate_gbps;
        let iteration_s = sending_s + self.job.compute_s;
        self.duty = if iteration_s > 0.0 { sending_s / iteration_s } else { 0.0 };
    }
}

/// The use of links by jobs that compute, then send, and so on, each independently of the others.
///
/// A job shares each link with the mean number of flows that others have there. It sends for longer
/// if it shares, and then others share more: a fixed point, reached from below.
fn cycles(state: &State<'_>, network: &SteadyNetwork) -> HashMap<Link, Use> {
    let cluster = state.cluster();
    let capacity_gbps = |link| match link {
        Link::Server(server) => cluster.server(server).link_gbps,
        Link::Uplinks(rack) => cluster.rack(rack).uplink_gbps,
    };
    let mut senders: Vec<Sender<'_>> = state
        .running()
        .values()
        .filter_map(|running| {
            let links = network.links(running.job.id);
            (!links.is_empty()).then(|| Sender {
                job: &running.job,
                links: links.into_iter().map(|(link, flows)| (link, f64::from(flows))).collect(),
                rate_gbps: 0.0,
                duty: 0.0,
            })
        })
        .collect();
    let mut used: HashMap<Link, Use> = HashMap::new();
    for _ in 0..ROUNDS {
        for sender in &mut senders {
            let flows = |link| used.get(&link).map_or(0.0, |used: &Use| used.flows);
            sender.settle(capacity_gbps, |link, own| flows(link) - own);
        }
        used.clear();
        for sender in &senders {
            for &(link, flows) in &sender.links {
                let used = used.entry(link).or_default();
                used.flows += flows * sender.duty;
                used.load_gbps += flows * sender.duty * sender.rate_gbps;
            }
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use crate::{Cluster, JobId, Plan, Rack, Server};

    use super::*;

    const GBPS: f64 = 100.0;

    /// Three servers of one rack. Each job has a worker on the first and the second, and its
    /// parameter server on the third.
    fn with<T>(jobs: &[f64], look: impl FnOnce(&Links<'_>) -> T) -> T {
        let rack = RackIndex(0);
        let servers = vec![Server { rack, gpus: 4, link_gbps: GBPS }; 3];
        let racks =
            vec![Rack { servers: 0..3, pod: None, uplink_gbps: 3.0 * GBPS, pat_gbps: 1000.0 }];
        let cluster = Cluster::new(servers, racks, Vec::new());
        let mut state = State::new(&cluster);
        for (id, &compute_s) in (0..).zip(jobs) {
            let job = Job {
                id: JobId(id),
                submit_s: 0.0,
                gpus: 2,
                iterations: 1.0,
                compute_s,
                // A second at 100 Gb/s.
                gradient_bytes: GBPS * 1e9 / 8.0,
                value: 1.0,
            };
            let shares = [(ServerIndex(0), 1), (ServerIndex(1), 1)];
            let plan = Plan::spread(&cluster, &shares, ServerIndex(2));
            state.start(&job, plan).unwrap();
        }
        let (state, network) = state.with_network();
        look(&Links::of(state, network, Duty::Cycles))
    }

    #[test]
    fn a_job_alone_counts_for_the_time_in_which_it_sends() {
        with(&[3.0], |links| {
            for server in 0..3 {
                let server = ServerIndex(server);
                assert_eq!(links.flows(server), FLOW / 4);
                assert!((links.available_gbps(server, GBPS) - 0.75 * GBPS).abs() < 1e-9);
            }
        });
        with(&[0.0], |links| assert_eq!(links.flows(ServerIndex(1)), FLOW));
        with(&[], |links| assert_eq!(links.flows(ServerIndex(1)), 0));
    }

    /// Each sends for a fraction *d* of the time, and so shares with *d* flows: it sends for 1 + *d*
    /// seconds and computes for one, so *d* = (1 + *d*) / (2 + *d*), the golden ratio's inverse.
    #[test]
    fn two_like_jobs_send_for_longer_than_one_alone() {
        let duty = (5.0_f64.sqrt() - 1.0) / 2.0;
        with(&[1.0, 1.0], |links| {
            let server = ServerIndex(0);
            assert_eq!(links.flows(server), (2.0 * duty * f64::from(FLOW)).round() as u32);
            let load = 2.0 * duty * GBPS / (1.0 + duty);
            let available = links.available_gbps(server, GBPS);
            assert!((available - (GBPS - load)).abs() < 1e-3, "{available}");
        });
    }

    /// Jobs that never compute send all the time: as the steady state counts them.
    #[test]
    fn without_computing_all_flows_count() {
        with(&[0.0; 3], |links| {
            let server = ServerIndex(2);
            assert_eq!(links.flows(server), 3 * FLOW);
            assert!(links.available_gbps(server, GBPS).abs() < 1e-6);
        });
    }
}
