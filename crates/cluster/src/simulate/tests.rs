mod occupied;

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::collective::Collective;
use crate::job::JobId;
use crate::model::Profiles;
use crate::policy::{Pending, Round};
use crate::state::State;
use crate::topology::{RackIndex, ServerIndex, Shape};
use crate::trace::Generator;

/// Places each job on the first servers with free GPUs. The parameter server is on the first server
/// without a worker of the job.
#[derive(Default)]
struct FirstFit {
    /// Values of jobs when they were passed over.
    values: Vec<(JobId, f64)>,
}

impl Policy for FirstFit {
    fn name(&self) -> &'static str {
        "first fit"
    }

    fn place(&mut self, round: &mut Round<'_, '_>, waiting: &[Pending]) {
        for pending in waiting {
            self.values.push((pending.job.id, pending.value));
            if let Some(plan) = first_fit(round, &pending.job) {
                round.start(&pending.job, plan).expect("it fits");
            }
        }
    }
}

fn first_fit(state: &State<'_>, job: &Job) -> Option<Plan> {
    let mut wanted = job.gpus;
    let mut shares = Vec::new();
    for server in state.cluster().server_indices() {
        let taken = state.free(server).min(wanted);
        if taken > 0 {
            shares.push((server, taken));
            wanted -= taken;
        }
    }
    if wanted > 0 {
        return None;
    }
    let part = |server: &ServerIndex| shares.iter().any(|(part, _)| part == server);
    let ps = state.cluster().server_indices().find(|server| !part(server));
    match shares[..] {
        [(server, gpus)] => Some(Plan::on_one(server, gpus)),
        _ => Some(Plan::spread(state.cluster(), &shares, ps.unwrap_or(ServerIndex(0)))),
    }
}

/// The progress of every job, as seen by an observer.
#[derive(Default)]
struct Work {
    speeds: BTreeMap<JobId, (f64, f64)>,
    done: BTreeMap<JobId, f64>,
    ended: Vec<JobId>,
}

impl Work {
    fn go_on(&mut self, now_s: f64, job: JobId) {
        let (since_s, speed) = self.speeds[&job];
        *self.done.entry(job).or_default() += speed * (now_s - since_s);
    }
}

impl Observer for Work {
    fn started(&mut self, now_s: f64, job: &Job, _: &Plan) {
        assert!(self.speeds.insert(job.id, (now_s, 0.0)).is_none(), "no job starts twice");
    }

    fn speed(&mut self, now_s: f64, job: JobId, speed: f64) {
        self.go_on(now_s, job);
        self.speeds.insert(job, (now_s, speed));
    }

    fn ended(&mut self, now_s: f64, job: JobId) {
        self.go_on(now_s, job);
        self.ended.push(job);
    }
}

fn cluster(racks: u32, servers_per_rack: u32, gpus_per_server: u32) -> Cluster {
    Cluster::uniform(&Shape { racks, servers_per_rack, gpus_per_server, ..Shape::default() })
}

/// A job with `work_s` seconds of computing, half a second per iteration.
fn job(id: u32, submit_s: f64, gpus: u32, work_s: f64) -> Job {
    Job {
        id: JobId(id),
        submit_s,
        gpus,
        iterations: work_s * 2.0,
        compute_s: 0.5,
        gradient_bytes: 5e8,
        value: 1.0,
    }
}

fn run(cluster: &Cluster, jobs: &[Job], options: &Options) -> Outcome {
    simulate(cluster, jobs, &mut FirstFit::default(), options, &mut ())
}

fn times(outcome: &Outcome) -> Vec<(u32, f64, f64)> {
    let of = |record: &Record| (record.job.id.0, record.start_s, record.end_s);
    outcome.records.iter().map(of).collect()
}

const AT_ONCE: Options = Options {
    period_s: 0.0,
    ageing: 0.0,
    communication: Communication::InNetwork,
    sample_s: Some(0.0),
    window_s: None,
};

#[test]
fn jobs_on_one_server_take_their_time_of_computing() {
    let cluster = cluster(1, 1, 4);
    let jobs = [job(0, 0.0, 4, 10.0), job(1, 1.0, 2, 5.0), job(2, 2.0, 2, 7.0)];
    let outcome = run(&cluster, &jobs, &AT_ONCE);
    assert_eq!(times(&outcome), [(0, 0.0, 10.0), (1, 10.0, 15.0), (2, 10.0, 17.0)]);
    assert_eq!(outcome.unfinished, []);
    assert_eq!(outcome.totals.makespan_s, 17.0);
    assert_eq!(outcome.totals.gpu_s, 40.0 + 10.0 + 14.0);
    assert_eq!((outcome.totals.machine_s, outcome.totals.busy_s), (17.0, 17.0));
    // 2 of 4 GPUs are idle for the last 2 seconds.
    assert_eq!(outcome.totals.fragmentation_s, 1.0);
    assert_eq!(outcome.totals.settlings, 0, "nobody sends");
}

#[test]
fn rounds_are_held_at_multiples_of_the_period() {
    let cluster = cluster(1, 1, 4);
    let options = Options { period_s: 60.0, ..AT_ONCE };
    let jobs = [job(0, 0.0, 4, 10.0), job(1, 0.5, 4, 60.0), job(2, 120.0, 4, 1.0)];
    let outcome = run(&cluster, &jobs, &options);
    // Job 1 ends and job 2 arrives at the time of the round at 120.
    assert_eq!(times(&outcome), [(0, 0.0, 10.0), (1, 60.0, 120.0), (2, 120.0, 121.0)]);
}

#[test]
fn a_trace_may_start_between_two_rounds() {
    let options = Options { period_s: 60.0, ..AT_ONCE };
    let jobs = [job(0, 61.0, 1, 10.0), job(1, 240.0, 1, 1.0)];
    let outcome = run(&cluster(1, 1, 1), &jobs, &options);
    assert_eq!(times(&outcome), [(0, 120.0, 130.0), (1, 240.0, 241.0)]);
    assert_eq!(outcome.totals.rounds, 2, "rounds without waiting jobs are not held");
    assert_eq!(outcome.totals.makespan_s, 180.0);
}

#[test]
fn two_jobs_share_a_link() {
    // The workers are on the two servers of rack 0, the parameter server on the first of rack 1.
    // All GPUs of a server are one worker. 5e8 bytes take 40 ms at 100 Gb/s and 80 ms at half the
    // rate.
    let cluster = cluster(2, 2, 2);
    let jobs = [job(0, 0.0, 4, 10.0)];
    let alone = run(&cluster, &jobs, &AT_ONCE);
    let end_s = alone.records[0].end_s;
    assert!((end_s - 20.0 * 0.54).abs() < 1e-9, "{end_s}");
    assert_eq!(alone.records[0].traffic_bytes, 1e9);

    // The second job's workers are on the server of the first job's parameter server.
    let jobs = [job(0, 0.0, 4, 10.0), job(1, 0.0, 4, 5.0)];
    let mut work = Work::default();
    let both = simulate(&cluster, &jobs, &mut FirstFit::default(), &AT_ONCE, &mut work);
    // Until job 1 ends, links carry both jobs: a worker's flow and the other job's flow to its
    // parameter server.
    let first_s = 10.0 * 0.58;
    assert!((both.records[1].end_s - first_s).abs() < 1e-9, "{:?}", times(&both));
    let left = 20.0 - first_s / 0.58;
    assert!((both.records[0].end_s - (first_s + left * 0.54)).abs() < 1e-9, "{:?}", times(&both));
    assert_eq!(work.ended, [JobId(1), JobId(0)]);
}

#[test]
fn an_all_reduce_takes_the_time_of_the_plan_and_no_more() {
    let cluster = cluster(2, 2, 2);
    let options = Options { communication: Communication::AllReduce(Collective::Ring), ..AT_ONCE };
    let jobs = [job(0, 0.0, 4, 10.0), job(1, 0.0, 4, 5.0)];
    let outcome = run(&cluster, &jobs, &options);
    for record in &outcome.records {
        let sum_s = Collective::Ring.time_s(&cluster, 5e8, &record.plan.ranks);
        assert!(sum_s > 0.0);
        let expected_s = record.job.iterations * (0.5 + sum_s);
        assert!((record.run_s() - expected_s).abs() < 1e-9);
        let bytes = Collective::Ring.cross_machine_bytes(5e8, &record.plan.ranks);
        assert_eq!(record.traffic_bytes, bytes);
    }
    assert_eq!(outcome.records.len(), 2);
}

#[test]
fn jobs_that_cannot_run_are_counted_with_reasons() {
    let jobs = [
        job(0, 0.0, 5, 10.0),
        job(1, 1.0, 0, 10.0),
        job(2, 2.0, 1, -1.0),
        job(3, 3.0, 1, f64::NAN),
        job(4, 4.0, 1, 1.0),
        Job { compute_s: 0.0, ..job(5, 5.0, 1, 1.0) },
    ];
    let outcome = run(&cluster(1, 2, 2), &jobs, &AT_ONCE);
    let why: Vec<_> = outcome.unfinished.iter().map(|(job, why)| (job.id.0, *why)).collect();
    let senseless = Reason::Senseless;
    assert_eq!(
        why,
        [(0, Reason::TooLarge), (1, senseless), (2, senseless), (3, senseless), (5, senseless)]
    );
    assert_eq!(times(&outcome), [(4, 4.0, 5.0)]);
}

#[test]
fn jobs_without_bandwidth_stall_and_later_jobs_are_not_placed() {
    let shape = Shape { link_gbps: 0.0, racks: 1, servers_per_rack: 2, ..Shape::default() };
    let cluster = Cluster::uniform(&shape);
    for options in [AT_ONCE, Options::default(), Options { period_s: 0.0, ..Options::default() }] {
        let jobs = [job(0, 0.0, 8, 10.0), job(1, 1.0, 8, 1.0)];
        let outcome = run(&cluster, &jobs, &options);
        let why: Vec<_> = outcome.unfinished.iter().map(|(job, why)| (job.id.0, *why)).collect();
        assert_eq!(why, [(0, Reason::Stalled), (1, Reason::NotPlaced)]);
        assert_eq!(outcome.records, []);
    }
}

/// Places nothing.
struct Idle;

impl Policy for Idle {
    fn name(&self) -> &'static str {
        "idle"
    }

    fn place(&mut self, _: &mut Round<'_, '_>, _: &[Pending]) {}
}

#[test]
fn a_simulation_ends_even_if_the_policy_places_nothing() {
    let jobs = [job(0, 0.0, 1, 10.0), job(1, 100.0, 1, 1.0)];
    for options in [AT_ONCE, Options::default(), Options { ageing: 0.0, ..Options::default() }] {
        let outcome = simulate(&cluster(1, 1, 1), &jobs, &mut Idle, &options, &mut ());
        let why: Vec<_> = outcome.unfinished.iter().map(|(_, why)| *why).collect();
        assert_eq!(why, [Reason::NotPlaced; 2]);
    }
}

/// Distributes a job over two servers without a parameter server.
struct NoPs;

impl Policy for NoPs {
    fn name(&self) -> &'static str {
        "no ps"
    }

    fn place(&mut self, round: &mut Round<'_, '_>, waiting: &[Pending]) {
        let ranks = vec![ServerIndex(0), ServerIndex(1)];
        round.start(&waiting[0].job, Plan { ranks, ..Plan::default() }).expect("it fits");
    }
}

#[test]
fn only_jobs_summed_in_the_network_get_a_parameter_server() {
    let jobs = [job(0, 0.0, 2, 10.0)];
    let plan = |options| {
        let outcome = simulate(&cluster(1, 2, 2), &jobs, &mut NoPs, &options, &mut ());
        outcome.records[0].plan.clone()
    };
    assert!(plan(AT_ONCE).ps.is_some(), "or it would send nothing and be done in no time");
    let communication = Communication::AllReduce(Collective::Ring);
    assert_eq!(plan(Options { communication, ..AT_ONCE }).ps, None);
}

#[test]
fn values_grow_with_every_round_that_passes_a_job_over() {
    // One GPU stays free. A policy is not called on a full cluster.
    let cluster = cluster(1, 1, 3);
    let options = Options { period_s: 10.0, ageing: 0.5, ..AT_ONCE };
    let jobs = [job(0, 0.0, 2, 25.0), Job { value: 3.0, ..job(1, 0.0, 2, 1.0) }];
    let mut policy = FirstFit::default();
    simulate(&cluster, &jobs, &mut policy, &options, &mut ());
    let of_1: Vec<_> = policy.values.iter().filter(|(id, _)| id.0 == 1).map(|v| v.1).collect();
    assert_eq!(of_1, [3.0, 3.5, 4.0, 4.5]);
}

/// Places only the waiting job with the highest value, if it fits.
struct Dearest;

impl Policy for Dearest {
    fn name(&self) -> &'static str {
        "dearest"
    }

    fn place(&mut self, round: &mut Round<'_, '_>, waiting: &[Pending]) {
        let dearest = waiting.iter().rev().max_by(|a, b| a.value.total_cmp(&b.value));
        let job = &dearest.expect("rounds have waiting jobs").job;
        if let Some(plan) = first_fit(round, job) {
            round.start(job, plan).expect("it fits");
        }
    }
}

#[test]
fn without_ageing_a_cheap_job_starves() {
    // A valuable job arrives in every round. The cheap one waits until its own value has grown
    // enough.
    let cluster = cluster(1, 1, 1);
    let dear = (1..50).map(|n| Job { value: 5.0, ..job(n, f64::from(n - 1) * 10.0, 1, 10.0) });
    let jobs: Vec<_> = dear.chain([job(0, 0.0, 1, 10.0)]).collect();
    let start_s = |ageing| {
        let options = Options { period_s: 10.0, ageing, ..AT_ONCE };
        let outcome = simulate(&cluster, &jobs, &mut Dearest, &options, &mut ());
        outcome.records.iter().find(|record| record.job.id.0 == 0).unwrap().start_s
    };
    assert_eq!(start_s(0.0), 490.0, "it is last");
    assert_eq!(start_s(1.0), 40.0, "four rounds make it as dear, and it was there first");
}

#[test]
fn samples_describe_the_cluster() {
    let cluster = cluster(2, 2, 4);
    let jobs = [job(0, 0.0, 3, 10.0), job(1, 2.0, 5, 2.0)];
    let outcome = run(&cluster, &jobs, &AT_ONCE);
    let series = &outcome.series;
    // Job 1 gets one GPU of server 0 and all of server 1.
    assert_eq!(series[0].fragmentation, 0.25);
    assert_eq!((series[1].used_machines, series[1].busy_gpus, series[1].running), (2, 8, 2));
    assert_eq!((series[1].fragmentation, series[1].traffic_bytes), (0.0, 1e9));
    let share = 0.5 / (0.5 + 0.04);
    assert!((series[1].profit_rate - (3.0 + 5.0 * share) / 2.0).abs() < 1e-9);
    let last = series.last().unwrap();
    let empty = Sample { time_s: 10.0, ..Sample::default() };
    assert_eq!(*last, empty);
    let profit = series[0].profit_rate + series[1].profit_rate;
    assert!((outcome.totals.profit - profit).abs() < 1e-12, "one of each arrival");
    let sparse = run(&cluster, &jobs, &Options { sample_s: Some(5.0), ..AT_ONCE });
    assert_eq!(sparse.series.iter().map(|s| s.time_s).collect::<Vec<_>>(), [0.0, 10.0]);
    assert_eq!(sparse.totals, outcome.totals);
}

/// A run of which a part is measured has the same events: those records, and integrals over that time.
#[test]
fn a_part_of_a_run_can_be_measured() {
    let cluster = cluster(1, 1, 4);
    let jobs: Vec<_> = (0..8).map(|id| job(id, f64::from(id), 2, 3.0)).collect();
    let whole = run(&cluster, &jobs, &AT_ONCE);
    let part = run(&cluster, &jobs, &Options { window_s: Some([2.0, 5.5]), ..AT_ONCE });
    let records = &whole.records[2..6];
    assert_eq!((part.records.as_slice(), part.unfinished.len()), (records, 0));
    // Two of them run at a time from second 1 on, and so during the measured 3.5 s.
    assert_eq!((part.totals.gpu_s, part.totals.capacity_s), (14.0, 14.0));
    assert_eq!((part.totals.busy_s, part.totals.peak_machines), (3.5, 1));
    let last_s = records.iter().map(|record| record.end_s).fold(0.0, f64::max);
    assert_eq!(part.totals.makespan_s, last_s, "it ends with the last of them");
    assert!(whole.totals.makespan_s > last_s);
    assert_eq!(whole.totals.capacity_s, 4.0 * whole.totals.makespan_s);
}

#[test]
#[should_panic(expected = "every job has a number of its own")]
fn jobs_with_one_number_are_refused() {
    run(&cluster(1, 1, 1), &[job(0, 0.0, 1, 1.0), job(0, 1.0, 1, 1.0)], &AT_ONCE);
}

/// Iterations of a job in a second.
fn speed(cluster: &Cluster, by: Communication, state: &mut State<'_>, job: &Job) -> f64 {
    let Some(running) = state.running().get(&job.id) else { return 0.0 };
    let plan = running.plan.clone();
    let sum_s = match by {
        Communication::AllReduce(collective) => {
            collective.time_s(cluster, job.gradient_bytes, &plan.ranks)
        }
        Communication::InNetwork if plan.is_distributed() => {
            job.gradient_bytes * 8e-9 / state.network().rate_gbps(job.id)
        }
        Communication::InNetwork => 0.0,
    };
    1.0 / (job.compute_s + sum_s)
}

/// The same simulation, computed naively: every step looks at all jobs and advances all of them by
/// its length.
fn naive(cluster: &Cluster, jobs: &[Job], options: &Options) -> Vec<(u32, f64, f64)> {
    struct Live {
        job: Job,
        value: f64,
        start_s: Option<f64>,
        end_s: Option<f64>,
        left: f64,
    }
    let mut live: Vec<_> = jobs
        .iter()
        .map(|job| Live {
            value: job.value,
            left: job.iterations,
            job: job.clone(),
            start_s: None,
            end_s: None,
        })
        .collect();
    live.sort_by(|a, b| {
        (a.job.submit_s, a.job.id).partial_cmp(&(b.job.submit_s, b.job.id)).unwrap()
    });
    let mut state = State::new(cluster);
    // Before the first arrival.
    let mut now_s = -1.0_f64;
    let mut policy = FirstFit::default();
    while live.iter().any(|live| live.end_s.is_none()) {
        let speeds: Vec<f64> = live
            .iter()
            .map(|live| speed(cluster, options.communication, &mut state, &live.job))
            .collect();
        let waits = live.iter().any(|live| live.start_s.is_none() && live.job.submit_s <= now_s);
        let mut next_s = f64::INFINITY;
        for (live, speed) in live.iter().zip(&speeds) {
            if live.job.submit_s > now_s {
                next_s = next_s.min(live.job.submit_s);
            }
            if *speed > 0.0 && live.end_s.is_none() {
                next_s = next_s.min(now_s + live.left / speed);
            }
        }
        let period_s = options.period_s;
        if waits && period_s > 0.0 {
            next_s = next_s.min(((now_s / period_s).floor() + 1.0) * period_s);
        }
        let step_s = next_s - now_s;
        now_s = next_s;
        for (live, speed) in live.iter_mut().zip(&speeds) {
            if live.start_s.is_some() && live.end_s.is_none() {
                live.left -= speed * step_s;
                if live.left <= live.job.iterations * 1e-12 {
                    live.end_s = Some(now_s);
                    state.end(live.job.id);
                }
            }
        }
        let due = period_s == 0.0 || (now_s / period_s).fract() == 0.0;
        let waiting: Vec<_> = live
            .iter()
            .filter(|live| live.start_s.is_none() && live.job.submit_s <= now_s)
            .map(|live| Pending { job: live.job.clone(), value: live.value })
            .collect();
        if due && !waiting.is_empty() {
            policy.place(&mut Round::new(&mut state), &waiting);
            for live in live.iter_mut().filter(|live| live.start_s.is_none()) {
                if state.running().contains_key(&live.job.id) {
                    live.start_s = Some(now_s);
                } else if live.job.submit_s <= now_s {
                    live.value += options.ageing;
                }
            }
        }
    }
    live.iter().map(|l| (l.job.id.0, l.start_s.unwrap(), l.end_s.unwrap())).collect()
}

fn some_jobs() -> impl Strategy<Value = Vec<Job>> {
    let one = (0..40_u32, 1..9_u32, 1..30_u32, 1..4_u32, 1..6_u32);
    prop::collection::vec(one, 1..14).prop_map(|jobs| {
        let job =
            |((submit, gpus, work, compute, size), id): ((u32, u32, u32, u32, u32), u32)| Job {
                id: JobId(id),
                submit_s: f64::from(submit) * 2.5,
                gpus,
                iterations: f64::from(work),
                // Not a round number. If a job could end when another one is submitted, rounding
                // would decide which comes first.
                compute_s: f64::from(compute) * 0.250_137,
                gradient_bytes: f64::from(size) * 1e9,
                value: 1.0,
            };
        jobs.into_iter().zip(0..).map(job).collect()
    })
}

fn some_options() -> impl Strategy<Value = Options> {
    let communication = prop_oneof![
        3 => Just(Communication::InNetwork),
        1 => Just(Communication::AllReduce(Collective::HalvingDoubling)),
    ];
    (
        prop_oneof![Just(0.0), Just(7.0), Just(60.0)],
        prop_oneof![Just(0.0), Just(1.0)],
        communication,
    )
        .prop_map(|(period_s, ageing, communication)| Options {
            period_s,
            ageing,
            communication,
            sample_s: None,
            window_s: None,
        })
}

fn some_cluster() -> impl Strategy<Value = Cluster> {
    (1..4_u32, 2..4_u32, 1..5_u32, 1..5_u32, 0..3_u32).prop_map(
        |(racks, servers, gpus, oversubscription, pat)| {
            Cluster::uniform(&Shape {
                racks,
                servers_per_rack: servers,
                gpus_per_server: gpus,
                oversubscription: f64::from(oversubscription),
                pat_gbps: f64::from(pat) * 60.0,
                ..Shape::default()
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn equals_the_naive_simulation(
        cluster in some_cluster(),
        jobs in some_jobs(),
        options in some_options(),
    ) {
        let jobs: Vec<_> = jobs.into_iter().filter(|job| job.gpus <= cluster.gpus()).collect();
        let outcome = run(&cluster, &jobs, &options);
        let expected = naive(&cluster, &jobs, &options);
        prop_assert_eq!(outcome.records.len(), expected.len());
        for (found, expected) in times(&outcome).iter().zip(&expected) {
            prop_assert_eq!(found.0, expected.0);
            prop_assert!((found.1 - expected.1).abs() < 1e-6, "{:?} {:?}", found, expected);
            prop_assert!((found.2 - expected.2).abs() < 1e-6, "{:?} {:?}", found, expected);
        }
    }

    #[test]
    fn every_job_does_its_work_and_no_more(
        cluster in some_cluster(),
        jobs in some_jobs(),
        options in some_options(),
    ) {
        let mut work = Work::default();
        let mut policy = FirstFit::default();
        let outcome = simulate(&cluster, &jobs, &mut policy, &options, &mut work);
        prop_assert_eq!(outcome.records.len() + outcome.unfinished.len(), jobs.len());
        for (_, why) in &outcome.unfinished {
            prop_assert_eq!(*why, Reason::TooLarge);
        }
        for record in &outcome.records {
            let done = work.done[&record.job.id];
            prop_assert!((done / record.job.iterations - 1.0).abs() < 1e-9, "{}", done);
            prop_assert!(record.job.submit_s <= record.start_s && record.start_s < record.end_s);
            prop_assert!(record.run_s() >= record.job.ideal_s() * (1.0 - 1e-9));
        }
        // The allocated GPU time, counted in two ways, is the same.
        let held: f64 = outcome.records.iter().map(|r| r.run_s() * f64::from(r.job.gpus)).sum();
        prop_assert!((outcome.totals.gpu_s - held).abs() <= 1e-9 * held.max(1.0));
    }

    #[test]
    fn runs_are_equal_whatever_the_order_of_the_jobs(
        cluster in some_cluster(),
        (jobs, shuffled) in some_jobs().prop_flat_map(|jobs| {
            (Just(jobs.clone()), Just(jobs).prop_shuffle())
        }),
        options in some_options(),
    ) {
        let sampled = Options { sample_s: Some(0.0), ..options };
        let (a, b) = (run(&cluster, &jobs, &sampled), run(&cluster, &shuffled, &sampled));
        prop_assert_eq!(&a, &b);
    }
}

#[test]
fn a_generated_trace_of_a_day_finishes() {
    let trace = Generator::trace(3000, 5);
    let jobs = trace.jobs(Profiles::netpack().all(), 5);
    let cluster = Cluster::uniform(&Shape::default());
    let mut work = Work::default();
    let options = Options::default();
    let mut policy = FirstFit::default();
    let outcome = simulate(&cluster, &jobs, &mut policy, &options, &mut work);
    assert_eq!(outcome.records.len(), 3000);
    for record in &outcome.records {
        assert!((work.done[&record.job.id] / record.job.iterations - 1.0).abs() < 1e-9);
        assert_eq!(record.start_s % 60.0, 0.0);
    }
    let racks: Vec<RackIndex> = outcome.records[0].plan.racks(&cluster);
    assert_eq!(racks, [RackIndex(0)]);
}
