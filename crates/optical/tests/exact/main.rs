//! Bounds, the refining scheduler and the exact model against each other and against brute force.

mod brute;
use std::time::Duration;

use tributary_optical::{
    Case, Circuits, Demand, Exact, Input, Job, Load, Network, Refine, Schedule, Scheduler, Setting,
    UnitId, Unsolved, bound, check, compare, quick_bound, read, schedulers,
};

/// Three units with one port and one aggregator each, which every transfer of a job needs.
fn tiny() -> Setting {
    Setting {
        units: 3,
        servers: 2,
        ports: 1,
        inc: 1,
        local_inc_only: false,
        arrivals: 2.0,
        sizes: vec![(2, 1), (4, 1)],
        megabytes: (1_000.0, 5_000.0),
        sum_rate: 150e9,
        ..Setting::default()
    }
}

/// The jobs of a setting, without those that need more ports than their units have.
fn instance(setting: &Setting, jobs: usize, seed: u64) -> (Network, Vec<Job>) {
    let network = setting.network();
    let mut jobs = setting.training(jobs, seed).expect("a possible setting");
    jobs.retain(|job| quick_bound(&network, std::slice::from_ref(job)).is_ok());
    (network, jobs)
}

fn exact(initial: Option<Circuits>) -> Exact {
    Exact { initial, limit: Duration::from_secs(60) }
}

fn completion(network: &Network, jobs: &[Job], schedule: &Schedule) -> f64 {
    match check(network, jobs, schedule) {
        Ok(checked) => checked.completion,
        Err(violations) => panic!("{}", violations[0]),
    }
}

/// Compares the exact model with brute force. False if brute force needs more slots.
fn agrees(
    setting: &Setting,
    jobs: usize,
    seed: u64,
    initial: Option<Circuits>,
    slots: usize,
) -> bool {
    let (mut network, jobs) = instance(setting, jobs, seed);
    if jobs.is_empty() {
        return false;
    }
    // Penalties large enough to decide.
    network.reconfiguration = [0.0, 0.1, 0.3][seed as usize % 3];
    network.units.iter_mut().for_each(|unit| unit.bandwidth = 8.0 * network.port_rate);
    let refine = Refine { initial: initial.clone() };
    let start = refine.schedule(&network, &jobs).expect("possible jobs");
    let refined = completion(&network, &jobs, &start);
    let solved = exact(initial.clone()).solve(&network, &jobs, start).expect("a solution");
    assert_eq!(completion(&network, &jobs, &solved.schedule), solved.completion);
    assert_eq!(solved.gap(), 0.0, "seed {seed}");
    let linear = bound(&network, &jobs).expect("possible jobs");
    assert!(linear <= solved.completion + 1e-9, "seed {seed}");
    assert!(solved.completion <= refined, "seed {seed}");
    match brute::optimum(&network, &jobs, initial.as_ref(), slots) {
        Some(best) => {
            assert!((best - solved.completion).abs() < 1e-6, "seed {seed}: {best} {solved:?}");
            true
        }
        None => {
            let last = solved
                .schedule
                .slots
                .iter()
                .rposition(|slot| slot.rates.iter().any(|&rate| rate > 0.0));
            assert!(last.is_some_and(|last| last >= slots), "seed {seed}: {solved:?}");
            false
        }
    }
}

#[test]
fn the_exact_model_agrees_with_brute_force_on_two_jobs() {
    let found = (0..60).filter(|&seed| agrees(&tiny(), 2, seed, None, 3)).count();
    assert!(found >= 20, "only {found} instances with an optimum in 3 slots");
}

#[test]
fn the_exact_model_agrees_with_brute_force_where_all_circuits_must_be_set_up() {
    let dark = || Some(Circuits::none(3));
    let found = (0..60).filter(|&seed| agrees(&tiny(), 2, seed, dark(), 3)).count();
    assert!(found >= 20, "only {found} instances with an optimum in 3 slots");
}

#[test]
fn the_exact_model_agrees_with_brute_force_on_three_jobs() {
    let setting = Setting { ports: 2, arrivals: 1e9, megabytes: (500.0, 3_500.0), ..tiny() };
    let found = (0..40).filter(|&seed| agrees(&setting, 3, seed, None, 2)).count();
    assert!(found >= 10, "only {found} instances with an optimum in 2 slots");
}

#[test]
fn refined_schedules_are_valid_repeatable_and_above_the_bounds() {
    for seed in 0..300 {
        let setting = Setting {
            units: 2 + seed as usize % 7,
            servers: 16,
            ports: 2 + (seed % 5) as u32 * 4,
            inc: (seed % 4) as u32,
            local_inc_only: seed % 3 == 0,
            arrivals: [1e9, 20.0, 5.0][seed as usize % 3],
            megabytes: (1_000.0, 7_500.0),
            ..Setting::default()
        };
        let (network, jobs) = instance(&setting, 1 + seed as usize % 40, seed);
        let initial = (seed % 2 == 0).then(|| Circuits::none(setting.units));
        let refine = Refine { initial };
        let schedule = refine.schedule(&network, &jobs).expect("possible jobs");
        let refined = completion(&network, &jobs, &schedule);
        let quick = quick_bound(&network, &jobs).expect("possible jobs");
        assert!(quick <= refined, "seed {seed}");
        if seed % 10 == 0 {
            let linear = bound(&network, &jobs).expect("possible jobs");
            assert!(quick <= linear && linear <= refined, "seed {seed}");
            assert_eq!(schedule, refine.schedule(&network, &jobs).expect("possible jobs"));
        }
    }
}

#[test]
fn refined_schedules_of_table_i_are_on_average_within_5_percent_of_the_bound() {
    let settings = [
        Setting::small(),
        Setting::loaded(24),
        Setting { ports: 8, ..Setting::small() },
        Setting::loaded(8),
    ];
    for setting in settings {
        let gap = |seed| {
            let (network, jobs) = instance(&setting, 60, seed);
            let initial = Some(Circuits::uniform(&network));
            let schedule = Refine { initial }.schedule(&network, &jobs).expect("possible jobs");
            let lower = bound(&network, &jobs).expect("possible jobs");
            completion(&network, &jobs, &schedule) / lower - 1.0
        };
        let gaps: Vec<f64> = (0..10).map(gap).collect();
        assert!(gaps.iter().sum::<f64>() / 10.0 <= 0.05, "{setting:?}: {gaps:?}");
    }
}

#[test]
fn refined_schedules_of_table_i_with_24_ports_are_within_5_percent_of_the_bound() {
    for (setting, jobs) in [Setting::small(), Setting::loaded(24)]
        .into_iter()
        .flat_map(|setting| [40, 50, 60, 80, 100].map(|jobs| (setting.clone(), jobs)))
    {
        for seed in 0..10 {
            let (network, jobs) = instance(&setting, jobs, seed);
            let schedule = Scheduler::schedule(&Refine::default(), &network, &jobs);
            let refined = completion(&network, &jobs, &schedule.expect("possible jobs"));
            let lower = quick_bound(&network, &jobs).expect("possible jobs");
            let count = jobs.len();
            assert!(refined <= 1.05 * lower, "{count} jobs, seed {seed}: {refined}, {lower}");
        }
    }
}

/// Three units with one port each and no aggregators.
fn one_port() -> Network {
    let setting = Setting { units: 3, ports: 1, inc: 0, ..Setting::default() };
    setting.network()
}

/// Half a slot would carry each of both flows, but the port has one circuit in a slot.
#[test]
fn the_quick_bound_counts_whole_circuits() {
    let network = one_port();
    let job = |id, to| {
        let demand = Demand { from: UnitId(0), to: UnitId(to), bits: 0.4 * network.port_rate };
        Job::coflow(id, 0, 3, &[demand]).expect("a possible job")
    };
    let jobs = [job(0, 1), job(1, 2)];
    assert_eq!(quick_bound(&network, &jobs), Ok(2.0));
    let schedule = Scheduler::schedule(&Refine::default(), &network, &jobs).expect("possible jobs");
    assert_eq!(completion(&network, &jobs, &schedule), 2.0);
}

/// A job that needs two of three slots sends in the middle one, which is the only one of the other job.
#[test]
fn the_quick_bound_counts_what_a_job_cannot_send_at_other_times() {
    let network = one_port();
    let demand = Demand { from: UnitId(0), to: UnitId(1), bits: 1.5 * network.port_rate };
    let long = Job::coflow(0, 0, 3, &[demand]).expect("a possible job");
    let update = 0.5;
    let short = Job::training(1, 1, &[1, 0, 0], UnitId(2), 1e9, update).expect("a possible job");
    let jobs = [long, short];
    assert_eq!(quick_bound(&network, &jobs), Ok(3.5));
    let schedule = Scheduler::schedule(&Refine::default(), &network, &jobs).expect("possible jobs");
    assert_eq!(completion(&network, &jobs, &schedule), 3.5);
}

/// Two units, and aggregators for a single job in each slot.
#[test]
fn jobs_that_share_an_aggregator_need_a_slot_each() {
    let setting = Setting { units: 2, inc: 1, arrivals: 1e9, ..Setting::default() };
    let network = setting.network();
    // An update takes longer than three slots, so that a switch must aggregate.
    let job = |id| Job::training(id, 0, &[2, 0], UnitId(1), 1e9, 9.0).expect("a possible job");
    let jobs: Vec<Job> = (0..3).map(job).collect();
    let schedule = Refine::default().schedule(&network, &jobs).expect("possible jobs");
    assert_eq!(completion(&network, &jobs, &schedule), 3.0);
    assert_eq!(quick_bound(&network, &jobs), Ok(3.0));
    assert_eq!(bound(&network, &jobs), Ok(3.0));
}

#[test]
fn comparisons_are_between_the_bound_and_the_schedules() {
    let case = |setting: Setting| Case { x: 20.0, setting, jobs: 20, load: Load::Training };
    let cases = [case(Setting::small()), case(Setting::loaded(8))];
    let limit = Duration::from_millis(500);
    let all = compare(&cases, &schedulers(), 3, limit, &|_, _| ()).expect("valid schedules");
    let order: Vec<(usize, u64)> = all.iter().map(|one| (one.case, one.seed)).collect();
    assert_eq!(order, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]);
    for one in &all {
        assert!(one.bound <= one.completion, "{one:?}");
        assert!(one.runs.iter().all(|run| one.completion <= run.ct_bti), "{one:?}");
        assert!(one.runs.iter().all(|run| one.above(run.ct_bti) >= 0.0), "{one:?}");
    }
}

#[test]
fn an_impossible_job_is_one_clear_line() {
    let (mut network, jobs) = instance(&tiny(), 2, 1);
    network.units.iter_mut().for_each(|unit| unit.bandwidth = 0.0);
    let error = Refine::default().schedule(&network, &jobs).expect_err("no bandwidth");
    assert_eq!(
        error.to_string(),
        "job 0: switches, ports or aggregation are missing for each of its ways; give the units more"
    );
}

/// Both ports would carry the data in a slot, but a circuit must be set up first.
#[test]
fn the_optimum_is_above_the_bound_of_a_job_that_needs_a_new_circuit() {
    let text = include_str!("../cases/bound-not-optimum.toml");
    let Input { network, jobs } = read(text, "case.toml").expect("a valid file");
    let uniform = Circuits::uniform(&network);
    let start = Scheduler::schedule(&Refine::default(), &network, &jobs).expect("possible jobs");
    assert_eq!(Exact::check_size(&jobs, &start), Ok(()));
    let solved = exact(Some(uniform)).solve(&network, &jobs, start.clone()).expect("a solution");
    assert_eq!((solved.completion, solved.bound), (2.0, 2.0));
    assert_eq!(completion(&network, &jobs, &start), 2.0);
    assert_eq!(bound(&network, &jobs), Ok(1.0));
}

/// Both ways take no slot, but only aggregation in the switch takes no update.
#[test]
fn the_optimum_without_data_is_an_update_or_none() {
    let network = tiny().network();
    let uniform = || Some(Circuits::uniform(&network));
    let job = Job::training(0, 0, &[1, 0, 0], UnitId(1), 0.0, 0.25).expect("a possible job");
    let local = [job.clone().local_inc_only()];
    // Without aggregation.
    let start = schedulers()[0].schedule(&network, &local).expect("possible jobs");
    assert_eq!(completion(&network, &local, &start), 0.25);
    let solved = exact(uniform()).solve(&network, &local, start).expect("a solution");
    assert_eq!((solved.completion, solved.bound), (0.0, 0.0));
    let server = [Job { ways: job.ways[..1].to_vec(), ..job.clone() }];
    let start = Scheduler::schedule(&Refine::default(), &network, &server).expect("possible jobs");
    let solved = exact(uniform()).solve(&network, &server, start).expect("a solution");
    assert_eq!((solved.completion, solved.bound), (0.25, 0.25));
    // Beside a job that sends for a slot, and starts from a schedule that ends with an update.
    let sends = Job { id: 1, arrival: 0, bits: 1e9, ..job.clone() };
    let jobs = [Job { arrival: 1, ..job }, sends];
    let start = schedulers()[0].schedule(&network, &jobs).expect("possible jobs");
    assert_eq!(completion(&network, &jobs, &start), 1.25);
    let solved = exact(uniform()).solve(&network, &jobs, start).expect("a solution");
    assert_eq!((solved.completion, solved.bound), (1.0, 1.0));
}

#[test]
fn a_large_exact_model_is_one_clear_line() {
    let network = Setting::loaded(8).network();
    let jobs = Setting::loaded(8).training(500, 0).expect("a possible setting");
    let start = schedulers()[3].schedule(&network, &jobs).expect("possible jobs");
    let error = Exact::check_size(&jobs, &start).expect_err("too large").to_string();
    assert!(error.starts_with("the exact model has ") && !error.contains('\n'), "{error}");
    assert!(
        error.contains(" slots, above 10000; give it fewer jobs or units, less data, "),
        "{error}"
    );
    // Table I's largest instances are small.
    for seed in 0..10 {
        let jobs = Setting::loaded(8).training(100, seed).expect("a possible setting");
        let start = Scheduler::schedule(&Refine::default(), &network, &jobs);
        assert_eq!(Exact::check_size(&jobs, &start.expect("possible jobs")), Ok(()));
    }
}

#[test]
fn the_exact_model_rejects_an_invalid_start() {
    let (network, jobs) = instance(&tiny(), 2, 1);
    let start = Schedule { ways: vec![0; 2], initial: Circuits::none(3), slots: Vec::new() };
    let error = exact(None).solve(&network, &jobs, start).expect_err("nothing is sent");
    assert!(matches!(error, Unsolved::Start(_)), "{error}");
}
