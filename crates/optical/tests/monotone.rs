//! `INC-Refine` over random networks and jobs: no other scheduler is better, and a port more in every unit is never
//! later. With less data, every schedule stays valid, and neither bound rises; `INC-Refine` is rarely later.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tributary_optical::{
    Demand, Job, Network, Refine, Schedule, Scheduler, Unit, UnitId, bound, check, quick_bound,
    schedulers,
};

/// Seconds that are rounding.
const ROUNDING: f64 = 1e-6;

/// The completion time of a schedule, in seconds, after a check.
fn completion(network: &Network, jobs: &[Job], schedule: &Schedule) -> f64 {
    let checked = check(network, jobs, schedule);
    checked.unwrap_or_else(|violations| panic!("{}", violations[0])).completion
}

/// `INC-Refine`'s completion time in seconds, if the jobs can be carried out.
fn refined(network: &Network, jobs: &[Job]) -> Option<f64> {
    let schedule = Scheduler::schedule(&Refine::default(), network, jobs).ok()?;
    Some(completion(network, jobs, &schedule))
}

fn networks() -> impl Strategy<Value = Network> {
    let unit = |ports| {
        (Just(ports), 0..=2_u32, 200e9..1_000e9).prop_map(|(ports, inc, bandwidth)| Unit {
            ports,
            inc,
            bandwidth,
        })
    };
    let units = (2..=5_usize, 0..=6_u32)
        .prop_flat_map(move |(units, ports)| prop::collection::vec(unit(ports), units));
    (units, prop::sample::select(vec![0.0, 0.02, 0.3])).prop_map(|(units, reconfiguration)| {
        Network { units, port_rate: 40e9, reconfiguration, slot: 1.0 }
    })
}

/// Bits: anything up to some slots, or exactly what circuits carry in a slot.
fn bits() -> impl Strategy<Value = f64> {
    prop_oneof![0.1e9..100e9, prop::sample::select(vec![0.0, 16e9, 40e9, 80e9])]
}

fn job(units: usize) -> impl Strategy<Value = Job> {
    let demand = (0..units, 0..units, bits()).prop_map(|(from, to, bits)| Demand {
        from: UnitId(from),
        to: UnitId(to),
        bits,
    });
    let coflow = (0..4_usize, prop::collection::vec(demand, 1..=2))
        .prop_map(move |(arrival, demands)| Job::coflow(0, arrival, units, &demands).unwrap());
    let workers = prop::collection::vec((0..units, 1..=4_u32), 1..=2);
    let training = (0..4_usize, workers, 0..units, bits(), 0.0..0.5, any::<bool>()).prop_map(
        move |(arrival, places, server, bits, update, local)| {
            let mut workers = vec![0; units];
            places.into_iter().for_each(|(unit, count)| workers[unit] += count);
            let job = Job::training(0, arrival, &workers, UnitId(server), bits, update).unwrap();
            if local { job.local_inc_only() } else { job }
        },
    );
    prop_oneof![1 => coflow, 2 => training]
}

fn instances() -> impl Strategy<Value = (Network, Vec<Job>)> {
    networks().prop_flat_map(|network| {
        let jobs = prop::collection::vec(job(network.units.len()), 1..=6);
        (Just(network), jobs).prop_map(|(network, mut jobs)| {
            jobs.iter_mut().zip(0..).for_each(|(job, id)| job.id = id);
            (network, jobs)
        })
    })
}

/// Jobs, each with a part of its data.
fn scaled(jobs: &[Job], parts: &[f64]) -> Vec<Job> {
    let part = |(job, part): (&Job, &f64)| Job { bits: job.bits * part, ..job.clone() };
    jobs.iter().zip(parts).map(part).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1_000) })]

    #[test]
    fn no_scheduler_is_better(
        (mut network, jobs) in instances(),
        more in prop::collection::vec(0..=2_u32, 5),
    ) {
        network.units.iter_mut().zip(more).for_each(|(unit, more)| unit.ports += more);
        let best = refined(&network, &jobs);
        for scheduler in schedulers() {
            if let Ok(schedule) = scheduler.schedule(&network, &jobs) {
                let other = completion(&network, &jobs, &schedule);
                let better = best.is_some_and(|best| best <= other);
                prop_assert!(better, "{best:?}, {}: {other}", scheduler.name());
            }
        }
    }

    #[test]
    fn a_port_more_in_every_unit_is_never_later((network, jobs) in instances()) {
        if let Some(fewer) = refined(&network, &jobs) {
            let mut network = network;
            network.units.iter_mut().for_each(|unit| unit.ports += 1);
            let more = refined(&network, &jobs);
            prop_assert!(more.is_some_and(|more| more <= fewer + ROUNDING), "{more:?}, {fewer}");
        }
    }

    #[test]
    fn a_schedule_carries_less_data_no_later(
        (network, jobs) in instances(),
        parts in prop::collection::vec(0.0..=1.0, 6),
    ) {
        let less = scaled(&jobs, &parts);
        let Ok(before) = quick_bound(&network, &jobs) else { return Ok(()) };
        prop_assert!(quick_bound(&network, &less).unwrap() <= before + ROUNDING);
        prop_assert!(bound(&network, &less).unwrap() <= bound(&network, &jobs).unwrap() + ROUNDING);
        let mut all = schedulers();
        all.push(Box::new(Refine::default()));
        for schedule in all.iter().filter_map(|one| one.schedule(&network, &jobs).ok()) {
            let (more, less) =
                (completion(&network, &jobs, &schedule), completion(&network, &less, &schedule));
            prop_assert!(less <= more, "{less}, {more}");
        }
    }
}

/// The search may miss with less data what it finds with more. The documentation has the printed number.
#[test]
fn less_data_is_rarely_later() {
    let mut runner = TestRunner::deterministic();
    let strategy = (instances(), prop::collection::vec(0.3..=1.0, 6));
    let (mut all, mut later) = (0, 0);
    for _ in 0..2_000 {
        let ((network, jobs), parts) = strategy.new_tree(&mut runner).unwrap().current();
        let Some(before) = refined(&network, &jobs) else { continue };
        let after = refined(&network, &scaled(&jobs, &parts)).unwrap();
        all += 1;
        later += usize::from(after > before + ROUNDING);
    }
    println!("{later} of {all} random instances end later with less data");
    assert!(all > 1_000 && later * 500 <= all, "{later} of {all}");
}
