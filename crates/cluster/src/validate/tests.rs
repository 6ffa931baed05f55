use proptest::prelude::*;

use super::*;
use crate::policy::{Pending, Policy, Round};
use crate::simulate::{Options, simulate};
use crate::topology::Shape;

#[derive(Clone, PartialEq, Debug)]
enum Event {
    Start(f64, Job, Plan),
    End(f64, JobId),
    Rates(f64, Vec<Share>),
}

/// Two racks of two servers of two GPUs, 100 Gb/s, 100 Gb/s of uplink, 60 Gb/s of aggregation.
fn cluster() -> Cluster {
    Cluster::uniform(&Shape {
        racks: 2,
        servers_per_rack: 2,
        gpus_per_server: 2,
        oversubscription: 2.0,
        pat_gbps: 60.0,
        ..Shape::default()
    })
}

fn job(id: u32, gpus: u32) -> Job {
    Job {
        id: JobId(id),
        submit_s: 0.0,
        gpus,
        iterations: 10.0,
        compute_s: 1.0,
        gradient_bytes: 1e9,
        value: 1.0,
    }
}

fn spread(cluster: &Cluster, shares: &[(u32, u32)], ps: u32) -> Plan {
    let shares: Vec<_> = shares.iter().map(|&(at, gpus)| (ServerIndex(at), gpus)).collect();
    Plan::spread(cluster, &shares, ServerIndex(ps))
}

fn share(job: u32, rate_gbps: f64, aggregated_gbps: &[(u32, f64)]) -> Share {
    let named = aggregated_gbps.iter().map(|&(rack, gbps)| (RackIndex(rack), gbps)).collect();
    Share { job: JobId(job), rate_gbps, aggregated_gbps: named }
}

/// A run without violations. Job 0 has one worker on each server of rack 0 and its parameter server
/// on server 2. Job 1 is on server 3 alone.
fn good(cluster: &Cluster) -> Vec<Event> {
    let plan = spread(cluster, &[(0, 1), (1, 1)], 2);
    vec![
        Event::Start(0.0, job(0, 2), plan),
        Event::Start(0.0, job(1, 2), Plan::on_one(ServerIndex(3), 2)),
        Event::Rates(0.0, vec![share(0, 80.0, &[(0, 60.0), (1, 60.0)])]),
        Event::End(5.0, JobId(1)),
        Event::End(9.0, JobId(0)),
    ]
}

fn replay(cluster: &Cluster, in_network: bool, events: &[Event]) -> Vec<Violation> {
    let mut validator = Validator::new(cluster, in_network);
    for event in events {
        match event {
            Event::Start(now_s, job, plan) => validator.start(*now_s, job, plan),
            Event::End(now_s, job) => validator.end(*now_s, *job),
            Event::Rates(now_s, shares) => validator.rates(*now_s, shares),
        }
    }
    validator.violations().to_vec()
}

/// The violations after a change to the run without violations.
fn broken(change: impl FnOnce(&mut Vec<Event>)) -> Vec<Broken> {
    let cluster = cluster();
    let mut events = good(&cluster);
    change(&mut events);
    replay(&cluster, true, &events).into_iter().map(|violation| violation.broken).collect()
}

fn plan(event: &mut Event) -> &mut Plan {
    match event {
        Event::Start(_, _, plan) => plan,
        other => panic!("{other:?} has no plan"),
    }
}

fn shares(event: &mut Event) -> &mut Vec<Share> {
    match event {
        Event::Rates(_, shares) => shares,
        other => panic!("{other:?} has no shares"),
    }
}

#[test]
fn a_valid_run_has_no_violations() {
    assert_eq!(broken(|_| {}), []);
}

#[test]
fn gpus_are_counted() {
    let id = JobId(1);
    assert_eq!(
        broken(|events| plan(&mut events[1]).ranks.truncate(1)),
        [Broken::Gpus { job: id, wanted: 2, planned: 1 }]
    );
    assert_eq!(
        broken(|events| plan(&mut events[1]).ranks.push(ServerIndex(2))),
        [Broken::Gpus { job: id, wanted: 2, planned: 3 }, Broken::NoPs(id), Broken::Reported(id)]
    );
    assert_eq!(
        broken(|events| plan(&mut events[1]).ranks = vec![ServerIndex(0); 2]),
        [Broken::Overbooked { job: id, server: ServerIndex(0), taken: 3, all: 2 }]
    );
    let unknown = broken(|events| plan(&mut events[1]).ranks = vec![ServerIndex(4); 2]);
    assert_eq!(unknown, [Broken::Unknown { job: id, what: "server", index: 4 }]);
    // A job's GPUs are free once it has ended, not before.
    let next = Event::Start(7.0, job(2, 2), Plan::on_one(ServerIndex(3), 2));
    assert_eq!(broken(|events| events.insert(4, next.clone())), []);
    assert_eq!(broken(|events| events.insert(3, next.clone())).len(), 2);
}

#[test]
fn starts_and_ends_belong_together() {
    let id = JobId(1);
    assert_eq!(
        broken(|events| events.insert(2, events[1].clone())),
        [Broken::Again(id)],
        "even on free GPUs"
    );
    assert_eq!(
        broken(|events| events.push(Event::Start(
            10.0,
            job(1, 2),
            Plan::on_one(ServerIndex(3), 2)
        ))),
        [Broken::Again(id)]
    );
    assert_eq!(broken(|events| events.push(events[3].clone()))[1], Broken::NotRunning(id));
    let early = broken(|events| match &mut events[1] {
        Event::Start(_, job, _) => job.submit_s = 0.5,
        _ => unreachable!("the second event is a start"),
    });
    assert_eq!(early, [Broken::Early { job: id, submit_s: 0.5 }]);
    let back = broken(|events| match &mut events[4] {
        Event::End(now_s, _) => *now_s = 4.0,
        _ => unreachable!("the last event is an end"),
    });
    assert_eq!(back, [Broken::Time(4.0)]);
}

#[test]
fn a_distributed_job_has_a_parameter_server_that_exists() {
    let without = broken(|events| plan(&mut events[0]).ps = None);
    assert_eq!(
        without,
        [Broken::NoPs(JobId(0)), Broken::Aggregates { job: JobId(0), rack: RackIndex(1) }]
    );
    let unknown = broken(|events| plan(&mut events[0]).ps = Some(ServerIndex(9)));
    assert_eq!(unknown[0], Broken::Unknown { job: JobId(0), what: "server", index: 9 });
    // All-reduces need no parameter server.
    let cluster = cluster();
    let plan = Plan { ranks: vec![ServerIndex(0), ServerIndex(1)], ..Plan::default() };
    assert_eq!(replay(&cluster, false, &[Event::Start(0.0, job(0, 2), plan)]), []);
}

#[test]
fn racks_aggregate_only_for_jobs_in_them() {
    let id = JobId(0);
    let set = |racks: &[u32]| {
        let racks: Vec<_> = racks.iter().copied().map(RackIndex).collect();
        broken(|events| {
            plan(&mut events[0]).aggregating = racks;
            shares(&mut events[2])[0] = share(0, 50.0, &[]);
        })
    };
    assert_eq!(set(&[]), []);
    assert_eq!(set(&[0, 0]), [Broken::Aggregates { job: id, rack: RackIndex(0) }]);
    assert_eq!(set(&[2]), [Broken::Unknown { job: id, what: "rack", index: 2 }]);
    let alone = broken(|events| plan(&mut events[1]).aggregating = vec![RackIndex(0)]);
    assert_eq!(alone, [Broken::Aggregates { job: JobId(1), rack: RackIndex(0) }]);
    // The rates report that a rack aggregates although the plan does not include it.
    let against = broken(|events| plan(&mut events[0]).aggregating = vec![RackIndex(1)]);
    assert_eq!(against, [Broken::NotEnabled { job: id, rack: RackIndex(0) }]);
}

#[test]
fn every_job_on_the_network_has_a_valid_rate() {
    let id = JobId(0);
    assert_eq!(broken(|events| shares(&mut events[2]).clear()), [Broken::Reported(id)]);
    let twice = broken(|events| {
        let share = shares(&mut events[2])[0].clone();
        shares(&mut events[2]).push(share);
    });
    assert_eq!(twice, [Broken::Reported(id)]);
    let other = broken(|events| shares(&mut events[2]).push(share(1, 1.0, &[])));
    assert_eq!(other, [Broken::Reported(JobId(1))], "it is on one server");
    for rate_gbps in [-1.0, f64::INFINITY] {
        let bad = broken(|events| shares(&mut events[2])[0] = share(0, rate_gbps, &[]));
        assert_eq!(bad, [Broken::Rate { job: id, rate_gbps, aggregated_gbps: 0.0 }]);
    }
    let more = broken(|events| shares(&mut events[2])[0] = share(0, 30.0, &[(0, 40.0)]));
    assert_eq!(more, [Broken::Rate { job: id, rate_gbps: 30.0, aggregated_gbps: 40.0 }]);
    let less = broken(|events| shares(&mut events[2])[0] = share(0, 30.0, &[(1, -1.0)]));
    assert_eq!(less, [Broken::Rate { job: id, rate_gbps: 30.0, aggregated_gbps: -1.0 }]);
}

#[test]
fn links_and_switches_have_limits() {
    let over = |link, load_gbps| Broken::Overloaded { link, load_gbps, capacity_gbps: 100.0 };
    // 60 Gb/s as one flow, the rest as two: at a rate of 80, 100 Gb/s leave the rack.
    let up = [Link::Rack(RackIndex(0)), Link::Rack(RackIndex(1))];
    let ps = Link::Server(ServerIndex(2));
    let faster =
        broken(|events| shares(&mut events[2])[0] = share(0, 81.0, &[(0, 60.0), (1, 60.0)]));
    assert_eq!(faster, [over(ps, 102.0), over(up[0], 102.0), over(up[1], 102.0)]);
    // Less aggregation means more traffic.
    let plain = broken(|events| shares(&mut events[2])[0] = share(0, 80.0, &[]));
    assert_eq!(plain, [over(ps, 160.0), over(up[0], 160.0), over(up[1], 160.0)]);
    let at_top = broken(|events| shares(&mut events[2])[0] = share(0, 80.0, &[(1, 60.0)]));
    assert_eq!(at_top, [over(up[0], 160.0), over(up[1], 160.0)]);
    let worker = broken(|events| {
        shares(&mut events[2])[0] = share(0, 101.0, &[(0, 60.0), (1, 60.0)]);
    });
    assert_eq!(worker[0], over(Link::Server(ServerIndex(0)), 101.0));
    let memory = broken(|events| shares(&mut events[2])[0] = share(0, 70.0, &[(0, 61.0)]));
    assert_eq!(memory, [Broken::Pat { rack: RackIndex(0), load_gbps: 61.0, pat_gbps: 60.0 }]);
}

#[test]
fn a_worker_beside_the_parameter_server_loads_its_link_twice() {
    // Equation 3 of table 3: x v + y (a + ...), because every worker's packets go to the switch.
    let cluster = cluster();
    let plan = spread(&cluster, &[(0, 1), (1, 1)], 0);
    let loads = |rate_gbps: f64, aggregated: f64| {
        let start = Event::Start(0.0, job(0, 2), plan.clone());
        let rates = Event::Rates(0.0, vec![share(0, rate_gbps, &[(0, aggregated)])]);
        replay(&cluster, true, &[start, rates])
    };
    assert_eq!(loads(50.0, 50.0), []);
    assert_eq!(loads(50.1, 50.1).len(), 1);
    assert_eq!(loads(100.0 / 3.0, 0.0), []);
    assert_eq!(loads(100.0 / 3.0 + 0.1, 0.0).len(), 1);
}

#[test]
fn traffic_between_pods_crosses_their_uplinks() {
    let shape = Shape { racks: 4, servers_per_rack: 1, racks_per_pod: Some(2), ..Shape::default() };
    let mut parts = Cluster::uniform(&shape);
    let mut pods = parts.pods().to_vec();
    pods[1].uplink_gbps = 40.0;
    parts = Cluster::new(parts.servers().to_vec(), parts.racks().to_vec(), pods);
    let check = |ps: u32| {
        let plan = spread(&parts, &[(0, 1), (1, 1)], ps);
        let start = Event::Start(0.0, job(0, 2), plan);
        // Without aggregation: two flows of 30 Gb/s.
        replay(&parts, true, &[start, Event::Rates(0.0, vec![share(0, 30.0, &[])])])
    };
    let over =
        Broken::Overloaded { link: Link::Pod(PodIndex(1)), load_gbps: 60.0, capacity_gbps: 40.0 };
    assert_eq!(check(2), [Violation { time_s: 0.0, broken: over }]);
    assert_eq!(check(0), [], "within a pod nothing crosses its uplink");
}

#[test]
fn a_violation_is_one_line() {
    let over = Broken::Pat { rack: RackIndex(3), load_gbps: 61.5, pat_gbps: 60.0 };
    let text = Violation { time_s: 2.5, broken: over }.to_string();
    assert_eq!(text, "at 2.5 s: the switch of rack 3 aggregates 61.5 Gb/s, it can 60 Gb/s");
}

/// Places jobs at random, from a seed.
struct Anywhere(u64);

impl Anywhere {
    fn below(&mut self, limit: usize) -> usize {
        // A step of a linear congruential generator, which is random enough here.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

impl Policy for Anywhere {
    fn name(&self) -> &'static str {
        "anywhere"
    }

    fn place(&mut self, round: &mut Round<'_, '_>, waiting: &[Pending]) {
        for pending in waiting {
            let cluster = round.cluster();
            let mut gpus: Vec<_> = cluster
                .server_indices()
                .flat_map(|server| std::iter::repeat_n(server, round.free(server) as usize))
                .collect();
            if gpus.len() < pending.job.gpus as usize {
                continue;
            }
            let mut ranks = Vec::new();
            for _ in 0..pending.job.gpus {
                ranks.push(gpus.swap_remove(self.below(gpus.len())));
            }
            let ps = ServerIndex(self.below(cluster.servers().len()) as u32);
            let mut plan = Plan { ranks, ps: Some(ps), aggregating: Vec::new() };
            if plan.is_distributed() {
                let racks = plan.racks(cluster);
                plan.aggregating = racks.into_iter().filter(|_| self.below(3) > 0).collect();
            } else {
                plan.ps = None;
            }
            round.start(&pending.job, plan).expect("its GPUs are free");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_network_keeps_to_its_limits_wherever_jobs_are(
        (racks, servers, gpus, oversubscription, pat) in
            (1..4_u32, 1..4_u32, 1..4_u32, 1..5_u32, 0..4_u32),
        pods in prop::option::of(1..3_u32),
        sizes in prop::collection::vec((1..10_u32, 0..20_u32), 1..16),
        seed: u64,
    ) {
        let cluster = Cluster::uniform(&Shape {
            racks,
            servers_per_rack: servers,
            gpus_per_server: gpus,
            oversubscription: f64::from(oversubscription),
            pat_gbps: f64::from(pat) * 35.0,
            racks_per_pod: pods,
            ..Shape::default()
        });
        let jobs: Vec<_> = sizes
            .into_iter()
            .zip(0..)
            .map(|((gpus, submit), id)| Job { submit_s: f64::from(submit), ..job(id, gpus) })
            .collect();
        let options = Options { period_s: 0.0, ..Options::default() };
        let mut validator = Validator::new(&cluster, true);
        simulate(&cluster, &jobs, &mut Anywhere(seed), &options, &mut validator);
        let violations: Vec<_> = validator.violations().iter().map(ToString::to_string).collect();
        prop_assert_eq!(violations, Vec::<String>::new());
    }
}
