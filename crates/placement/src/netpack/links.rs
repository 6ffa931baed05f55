//! The use of links by running jobs, as the searches count it.

use std::collections::HashMap;

use tributary_cluster::{Job, Link, Network, RackIndex, ServerIndex, State};

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
    network: &'a Network,
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
    pub(super) fn of(state: &State<'_>, network: &'a Network, duty: Duty) -> Self {
        let cycles = match duty {
            Duty::Always => None,
            Duty::Cycles => Some(cycles(state, network)),
        };
        Self { network, cycles }
    }

    /// Number of flows on a server's link, in units of [`FLOW`].
    pub(super) fn flows(&self, server: ServerIndex) -> u32 {
        self.count(Link::Server(server), |network| network.flows(server))
    }

    /// Number of flows on a rack's uplinks, in units of [`FLOW`].
    pub(super) fn rack_flows(&self, rack: RackIndex) -> u32 {
        self.count(Link::Uplinks(rack), |network| network.rack_flows(rack))
    }

    fn count(&self, link: Link, steady: impl Fn(&Network) -> u32) -> u32 {
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
fn cycles(state: &State<'_>, network: &Network) -> HashMap<Link, Use> {
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
