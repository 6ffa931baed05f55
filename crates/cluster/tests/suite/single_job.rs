//! A single job: algorithm 1 against the closed form of table 1 and figure 5.

use proptest::prelude::*;
use tributary_cluster::aggregation::{RackSwitch, Single, single};
use tributary_cluster::{
    Cluster, Job, JobId, Plan, Rack, RackIndex, Server, ServerIndex, SteadyNetwork,
};

const PLENTY_GBPS: f64 = 1e6;
const ONE: JobId = JobId(1);

/// A job that is limited only by its workers' links of `rate_gbps`.
struct Alone {
    cluster: Cluster,
    plan: Plan,
    ps: ServerIndex,
}

impl Alone {
    /// The parameter server is in rack 0, on its own server.
    fn new(root: RackSwitch, leaves: &[RackSwitch], rate_gbps: f64) -> Self {
        let mut servers = Vec::new();
        let mut racks = Vec::new();
        let mut shares = Vec::new();
        for (index, switch) in [root].iter().chain(leaves).enumerate() {
            let rack = RackIndex(index as u32);
            let first = servers.len() as u32;
            for _ in 0..switch.workers {
                shares.push((ServerIndex(servers.len() as u32), 1));
                servers.push(Server { rack, gpus: 1, link_gbps: rate_gbps });
            }
            if index == 0 {
                servers.push(Server { rack, gpus: 0, link_gbps: PLENTY_GBPS });
            }
            racks.push(Rack {
                servers: first..servers.len() as u32,
                pod: None,
                uplink_gbps: PLENTY_GBPS,
                pat_gbps: switch.pat_gbps,
            });
        }
        let ps = ServerIndex(root.workers);
        let cluster = Cluster::new(servers, racks, Vec::new());
        let mut plan = Plan::spread(&cluster, &shares, ps);
        plan.aggregating = (0..=leaves.len() as u32).map(RackIndex).collect();
        Self { cluster, plan, ps }
    }

    fn network(&self) -> SteadyNetwork {
        let mut state = tributary_cluster::State::new(&self.cluster);
        let job = Job {
            id: ONE,
            submit_s: 0.0,
            gpus: self.plan.ranks.len() as u32,
            iterations: 1.0,
            compute_s: 1.0,
            gradient_bytes: 1.0,
            value: 1.0,
        };
        state.start(&job, self.plan.clone()).expect("it fits");
        let network = state.network().clone();
        let plain = SteadyNetwork::plain(&self.cluster, [(ONE, &self.plan)]);
        assert!(near(network.rate_gbps(ONE), plain.rate_gbps(ONE)));
        network
    }
}

/// The load of a link of [`PLENTY_GBPS`].
fn load_gbps(available_gbps: f64) -> f64 {
    PLENTY_GBPS - available_gbps
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1.0)
}

/// Flows, aggregated and forwarded rates equal those of the closed form.
fn check(root: RackSwitch, leaves: &[RackSwitch], rate_gbps: f64) -> Single {
    let alone = Alone::new(root, leaves, rate_gbps);
    let network = alone.network();
    let closed = single(root, leaves, rate_gbps);
    assert!(near(network.rate_gbps(ONE), rate_gbps));
    assert_eq!(network.flows(alone.ps), closed.fs);
    assert_eq!(network.rack_flows(RackIndex(0)), closed.fc);
    let root_share = network.aggregated_gbps(ONE, RackIndex(0));
    assert!(near(root_share, closed.root.aggregated_gbps), "{root_share} of {closed:?}");
    for (leaf, rack) in closed.leaves.iter().zip((1..).map(RackIndex)) {
        assert_eq!(network.rack_flows(rack), leaf.flows);
        assert!(near(network.aggregated_gbps(ONE, rack), leaf.aggregated_gbps));
        assert!(near(load_gbps(network.rack_available_gbps(rack)), leaf.gbps()));
    }
    // Table 1 at the root, minus the part of the root's unaggregated traffic that the leaves still
    // aggregated.
    let to_ps = load_gbps(network.available_gbps(alone.ps));
    let saved: f64 = leaves
        .iter()
        .map(|leaf| {
            let both = (leaf.pat_gbps.min(rate_gbps) - root.pat_gbps).max(0.0);
            let counted = if leaf.pat_gbps >= rate_gbps { 1 } else { leaf.workers };
            f64::from(counted - 1) * both
        })
        .sum();
    assert!(near(to_ps + saved, closed.root.gbps()), "{to_ps} and {saved} of {closed:?}");
    closed
}

/// Figure 5b's staircase, by algorithm 1.
#[test]
fn figure_5b() {
    let rack = |pat_gbps| RackSwitch { workers: 2, pat_gbps };
    let staircase = [
        (5.0, (3, 1)),
        (10.0, (3, 1)),
        (15.0, (4, 1)),
        (20.0, (4, 1)),
        (25.0, (4, 6)),
        (30.0, (4, 6)),
        (35.0, (5, 7)),
        (40.0, (5, 7)),
        (45.0, (6, 8)),
    ];
    for (rate_gbps, flows) in staircase {
        let closed = check(rack(20.0), &[rack(10.0), rack(30.0), rack(40.0)], rate_gbps);
        assert_eq!((closed.fc, closed.fs), flows, "at {rate_gbps} Gb/s");
    }
}

fn switch(least: u32) -> impl Strategy<Value = RackSwitch> {
    let pat_gbps = prop_oneof![Just(0.0), 1.0..200.0, Just(100.0)];
    (least..6u32, pat_gbps).prop_map(|(workers, pat_gbps)| RackSwitch { workers, pat_gbps })
}

proptest! {
    /// Table 1 in one rack, and figure 5 with any racks.
    #[test]
    fn any_hierarchy(
        root in switch(2),
        leaves in prop::collection::vec(switch(1), 0..5),
        rate_gbps in prop_oneof![1.0..200.0, Just(100.0)],
    ) {
        check(root, &leaves, rate_gbps);
    }
}
