//! Clusters on which other jobs run already, and simulations that keep no results.

use super::*;
use crate::metrics::{Metric, Summary, Tally};
use crate::occupied::{self, Occupant};
use crate::placement::all_reduce;
use crate::trace::Trace;
use crate::validate::Validator;

/// Runs jobs on an occupied cluster. The validator watches.
fn run_beside(
    cluster: &Cluster,
    occupants: &[Occupant],
    jobs: &[Job],
    policy: &mut dyn Policy,
    options: &Options,
) -> Outcome {
    let in_network = options.communication == Communication::InNetwork;
    let mut validator = Validator::new(cluster, in_network);
    let mut kept = Kept::default();
    let input = Input { cluster, occupants, jobs: jobs.iter().cloned(), measured: jobs.len() };
    let Ok((totals, series)) =
        simulate_each(input, policy, options, &mut validator, &mut SteadyState, &mut kept);
    assert_eq!(validator.violations(), []);
    Outcome { records: kept.records, unfinished: kept.unfinished, totals, series }
}

fn occupant(ranks: &[u32], until_s: Option<f64>) -> Occupant {
    let ranks = ranks.iter().map(|&server| ServerIndex(server)).collect();
    Occupant { plan: Plan { ranks, ..Plan::default() }, until_s }
}

#[test]
fn titans_worked_example() {
    let example = |name: &str| format!("../../examples/placement/titan-example-{name}");
    let cluster = crate::file::load(example("cluster.toml")).unwrap().cluster;
    let occupants = occupied::load(example("occupied.toml"), &cluster).unwrap();
    let trace = Trace::open(example("job.csv"), None).unwrap();
    let jobs = trace.jobs(Profiles::netpack().all(), 0);
    let collective = Collective::HalvingDoubling;
    let communication = Communication::AllReduce(collective);
    let options = Options { communication, ..AT_ONCE };
    // §II-B: launched machines, and traffic between machines in units of the model's size.
    for (policy, machines, traffic) in
        [("elasticflow", 4.0, 0.0), ("hived", 3.0, 1.5), ("titan", 3.0, 1.0)]
    {
        let mut placer = all_reduce(policy, collective).unwrap();
        let outcome = run_beside(&cluster, &occupants, &jobs, &mut *placer, &options);
        let summary = Summary::of(&outcome);
        let found = (summary.get(Metric::UsedMachines), summary.get(Metric::Traffic) / 1e9);
        assert_eq!(found, (machines, traffic), "{policy}");
    }
}

#[test]
fn occupants_hold_their_gpus_until_they_end() {
    let cluster = cluster(1, 2, 2);
    let occupants = [occupant(&[0, 0], Some(30.0)), occupant(&[1], None)];
    let jobs = [job(0, 0.0, 1, 10.0), job(1, 5.0, 2, 10.0), job(2, 6.0, 3, 10.0)];
    let outcome = run_beside(&cluster, &occupants, &jobs, &mut FirstFit::default(), &AT_ONCE);
    assert_eq!(times(&outcome)[..2], [(0, 0.0, 10.0), (1, 30.0, 40.0)]);
    // The last job spans both servers, where a GPU is taken for ever.
    assert_eq!(outcome.records[2].start_s, 40.0);
    assert_eq!(outcome.totals.peak_machines, 2);
    let end_s = outcome.records[2].end_s;
    assert_eq!(outcome.totals.makespan_s, end_s);
    let taken_s = 2.0 * 30.0 + end_s + 10.0 + 20.0 + 3.0 * (end_s - 40.0);
    assert!((outcome.totals.gpu_s - taken_s).abs() < 1e-6, "{:?}", outcome.totals);
    // A run is over with the last of its jobs, whatever runs beside.
    let late = [occupant(&[0, 0], Some(1e9))];
    let outcome = run_beside(&cluster, &late, &jobs[..1], &mut FirstFit::default(), &AT_ONCE);
    assert_eq!(outcome.totals.gpu_s, 30.0);
}

#[test]
fn jobs_that_fit_only_beside_nothing_are_not_placed() {
    let cluster = cluster(1, 2, 2);
    let jobs = [job(0, 0.0, 4, 10.0)];
    let occupants = [occupant(&[1], None)];
    let options = Options::default();
    let outcome = run_beside(&cluster, &occupants, &jobs, &mut FirstFit::default(), &options);
    assert_eq!(outcome.unfinished, [(jobs[0].clone(), Reason::NotPlaced)]);
}

#[test]
fn occupants_on_several_servers_share_the_network() {
    let cluster = cluster(1, 3, 2);
    let jobs = [Job { gradient_bytes: 1e9, ..job(0, 0.0, 3, 10.0) }];
    let run = |occupants: &[Occupant]| {
        let outcome = run_beside(&cluster, occupants, &jobs, &mut FirstFit::default(), &AT_ONCE);
        outcome.records[0].end_s
    };
    let (alone_s, beside_s) = (run(&[occupant(&[0], None)]), run(&[occupant(&[0, 2], None)]));
    assert!(beside_s > alone_s + 0.01, "{alone_s} {beside_s}");
    // Once the other job has ended, nothing is left of it.
    let short_s = run(&[occupant(&[0, 2], Some(0.0))]);
    assert!(short_s < alone_s + 1e-9, "{alone_s} {short_s}");
}

#[test]
fn results_added_up_on_the_way_are_those_of_the_outcome() {
    let trace = Generator::trace(500, 2);
    let profiles = Profiles::netpack();
    let cluster = cluster(2, 4, 4);
    let options = Options { period_s: 60.0, ..AT_ONCE };
    let jobs = trace.jobs(profiles.all(), 5);
    let outcome = run(&cluster, &jobs, &options);
    let input = Input {
        cluster: &cluster,
        occupants: &[],
        jobs: trace.stream(profiles.all(), 5),
        measured: 500,
    };
    let (mut policy, mut tally) = (FirstFit::default(), Tally::default());
    let Ok((totals, series)) =
        simulate_each(input, &mut policy, &options, &mut (), &mut SteadyState, &mut tally);
    assert_eq!((totals, series), (outcome.totals, outcome.series.clone()));
    for ((metric, found), (_, expected)) in
        tally.summary(&totals).iter().zip(Summary::of(&outcome).iter())
    {
        // They are added in another order.
        let close = (found - expected).abs() <= 1e-9 * expected.abs();
        assert!(
            close || found.is_nan() && expected.is_nan(),
            "{}: {found} {expected}",
            metric.key()
        );
    }
}
