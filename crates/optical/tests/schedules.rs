//! Schedules respect the constraints of §IV, over many random networks and workloads.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_optical::{
    Circuits, Demand, Fcfs, Job, Network, Refine, Schedule, Scheduler, Setting, Slot, Take, Tw,
    Unit, UnitId, outcome, quick_bound, schedulers,
};

/// Relative error of sums of rates.
const ROUNDING: f64 = 1e-6;

/// All schedulers, also with other readings of what a job may take, and of FCFS's order.
fn all() -> Vec<Box<dyn Scheduler + Send + Sync>> {
    let mut all = schedulers();
    all.push(Box::new(Refine::default()));
    for inc in [false, true] {
        for (take, ordered) in [(Take::Enough, false), (Take::All, true), (Take::Enough, true)] {
            all.push(Box::new(Fcfs { inc, take, ordered }));
        }
        all.push(Box::new(Tw { inc, reconfigure: true, take: Take::All }));
    }
    all
}

/// A small random network with scarce ports, bandwidth and aggregation.
fn random_network(random: &mut ChaCha8Rng) -> Network {
    let units = random.random_range(2..=6);
    let unit = |random: &mut ChaCha8Rng| Unit {
        // Enough that every pair has a circuit when circuits cannot change.
        ports: units as u32 - 1 + random.random_range(0..=3),
        inc: random.random_range(0..=2),
        bandwidth: random.random_range(200.0..2_000.0) * 1e9,
    };
    let ports = unit(random).ports;
    Network {
        units: (0..units).map(|_| Unit { ports, ..unit(random) }).collect(),
        port_rate: 40e9,
        reconfiguration: random.random_range(0.0..0.3),
        slot: random.random_range(0.4..2.0),
    }
}

fn random_job(random: &mut ChaCha8Rng, id: u32, units: usize) -> Job {
    let arrival = random.random_range(0..5);
    let unit = |random: &mut ChaCha8Rng| UnitId(random.random_range(0..units));
    if random.random_bool(0.3) {
        let demands = random.random_range(1..=units);
        let demand = |random: &mut ChaCha8Rng| Demand {
            from: unit(random),
            to: unit(random),
            bits: random.random_range(0.1..60.0) * 1e9,
        };
        let demands: Vec<Demand> = (0..demands).map(|_| demand(random)).collect();
        return Job::coflow(id, arrival, units, &demands).unwrap();
    }
    let mut workers = vec![0; units];
    for _ in 0..random.random_range(1..=2) {
        workers[unit(random).0] += random.random_range(1..=8);
    }
    let bits = random.random_range(0.1..30.0) * 1e9;
    let update = random.random_range(0.0..0.5);
    let job = Job::training(id, arrival, &workers, unit(random), bits, update).unwrap();
    if random.random_bool(0.5) { job.local_inc_only() } else { job }
}

/// The independent checker accepts a schedule, and computes the same from it.
fn check(network: &Network, jobs: &[Job], schedule: &Schedule, name: &str) {
    let checked = tributary_optical::check(network, jobs, schedule);
    let checked = checked.unwrap_or_else(|violations| panic!("{name}: {}", violations[0]));
    let result = outcome(network, jobs, schedule);
    assert!((checked.completion - result.ct_bti).abs() < 1e-9, "{name}: {checked:?}, {result:?}");
    assert_eq!(checked.reconfigured, result.reconfigurations, "{name}");
    assert_eq!(result.slots, schedule.slots.len());
    let sends = |slot: &Slot| slot.rates.iter().any(|&rate| rate > 0.0);
    assert!(schedule.slots.last().is_none_or(sends), "{name}: no slot after the last transfer");
    let bound = quick_bound(network, jobs).unwrap();
    assert!(bound <= checked.completion * (1.0 + ROUNDING), "{name}: {bound}, {checked:?}");
}

#[test]
fn schedules_respect_every_constraint() {
    for seed in 0..200 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let network = random_network(&mut random);
        let count = random.random_range(1..=25);
        let jobs: Vec<Job> =
            (0..count).map(|id| random_job(&mut random, id, network.units.len())).collect();
        for scheduler in all() {
            let name = format!("seed {seed}, {}", scheduler.name());
            // Every pair of units has a circuit, so each job can be carried out.
            let schedule = scheduler.schedule(&network, &jobs).unwrap();
            check(&network, &jobs, &schedule, &name);
            assert_eq!(scheduler.schedule(&network, &jobs).unwrap(), schedule, "{name}");
            let none = Circuits::none(network.units.len());
            // INC-TW-NoRecon needs the circuits that it cannot set up.
            if let Ok(schedule) = scheduler.schedule_from(&network, &jobs, none.clone()) {
                check(&network, &jobs, &schedule, &format!("{name}, without circuits"));
                assert_eq!(schedule.initial, none, "{name}");
            }
        }
    }
}

#[test]
fn circuits_that_cannot_change_stay_uniform() {
    let jobs = Setting::small().training(60, 1).unwrap();
    let network = Setting::small().network();
    let schedule = Tw::new(true, false).schedule(&network, &jobs).unwrap();
    assert_eq!(schedule.initial, Circuits::uniform(&network));
    assert!(schedule.slots.iter().all(|slot| slot.circuits == schedule.initial));
    assert_eq!(outcome(&network, &jobs, &schedule).reconfigurations, 0);
}

#[test]
fn no_switch_aggregates_without_inc() {
    let jobs = Setting::small().training(60, 1).unwrap();
    for scheduler in schedulers() {
        let schedule = scheduler.schedule(&Setting::small().network(), &jobs).unwrap();
        let aggregates = schedule.ways.iter().any(|&way| way > 0);
        assert_eq!(aggregates, !scheduler.name().starts_with("noINC"), "{}", scheduler.name());
    }
}

/// Three units with this number of ports. With two, each pair has one circuit at the start.
fn three_units(ports: u32) -> Network {
    let unit = Unit { ports, inc: 1, bandwidth: 1e12 };
    Network { units: vec![unit; 3], port_rate: 40e9, reconfiguration: 0.1, slot: 1.0 }
}

fn transfer(id: u32, from: usize, to: usize, bits: f64) -> Job {
    let demand = Demand { from: UnitId(from), to: UnitId(to), bits };
    Job::coflow(id, 0, 3, &[demand]).unwrap()
}

#[test]
fn the_last_step_ends_with_the_transfer() {
    let jobs = [transfer(0, 0, 1, 14e9)];
    let rates = |scheduler: &dyn Scheduler| {
        let schedule = scheduler.schedule(&three_units(2), &jobs).unwrap();
        schedule.slots.iter().map(|slot| slot.rates[0]).collect::<Vec<_>>()
    };
    assert_eq!(rates(&Tw::new(true, true)), [14e9]);
    // With everything that is free, two circuits instead of one.
    assert_eq!(rates(&Fcfs::new(true)), [80e9]);
}

#[test]
fn ordered_jobs_pass_none_that_gets_nothing() {
    // Each unit has two ports, and the first job takes those of units 0 and 1.
    let unit = Unit { ports: 2, inc: 0, bandwidth: 1e12 };
    let network = Network { units: vec![unit; 4], ..three_units(2) };
    let job = |id, from, to| {
        let demand = Demand { from: UnitId(from), to: UnitId(to), bits: 14e9 };
        Job::coflow(id, 0, 4, &[demand]).unwrap()
    };
    let jobs = [job(0, 0, 1), job(1, 0, 2), job(2, 2, 3)];
    let first = |ordered| {
        let fcfs = Fcfs { ordered, ..Fcfs::new(false) };
        let schedule = fcfs.schedule(&network, &jobs).unwrap();
        (0..3)
            .map(|job| schedule.slots.iter().position(|slot| slot.rates[job] > 0.0).unwrap())
            .collect()
    };
    let (passing, ordered): (Vec<usize>, Vec<usize>) = (first(false), first(true));
    assert_eq!(passing, [0, 1, 0]);
    assert_eq!(ordered, [0, 1, 2]);
}

#[test]
fn a_step_is_smaller_where_the_ports_carry_less() {
    // 16 workers at 10 Gb/s need 4 circuits; a unit has 2.
    let job = Job::training(0, 0, &[16, 0, 0], UnitId(1), 5e9, 0.0).unwrap();
    let schedule = Tw::new(false, true).schedule(&three_units(2), &[job]).unwrap();
    assert_eq!(schedule.slots[0].rates, [5e9]);
}

#[test]
fn idle_circuits_stay_until_their_ports_are_needed() {
    // Uniform circuits with 2 ports are one circuit for each pair.
    let network = three_units(2);
    let reconfigurations = |jobs: &[Job]| {
        let schedule = Tw::new(false, true).schedule(&network, jobs).unwrap();
        outcome(&network, jobs, &schedule).reconfigurations
    };
    let pairs = [(0, 1), (1, 2), (0, 2)];
    let job = |(slot, &(from, to)): (usize, &(usize, usize))| Job {
        arrival: slot,
        ..transfer(slot as u32, from, to, 1e9)
    };
    let jobs: Vec<Job> = pairs.iter().enumerate().map(job).collect();
    assert_eq!(reconfigurations(&jobs), 0);
    // 60 Gb in a slot need a second circuit between two units, at the cost of both others.
    assert_eq!(reconfigurations(&[transfer(0, 0, 1, 60e9)]), 1);
}

#[test]
fn a_job_that_no_ports_can_carry_is_one_clear_line() {
    let demand = |to| Demand { from: UnitId(0), to: UnitId(to), bits: 1e9 };
    let wide = Job::coflow(4, 0, 3, &[demand(1), demand(2)]).unwrap();
    let error = Tw::new(true, true).schedule(&three_units(1), &[wide]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "job 4: its flows need more ports than a unit has; split it, or give units more ports"
    );
    let apart = [transfer(5, 0, 2, 1e9)];
    let error = Tw::new(true, false).schedule(&three_units(1), &apart).unwrap_err();
    assert_eq!(
        error.to_string(),
        "job 5: two of its units have no circuit, and circuits cannot change; allow it, or give \
         units more ports"
    );
    let other = Job::training(6, 0, &[1], UnitId(0), 1.0, 0.0).unwrap();
    let error = Tw::new(true, true).schedule(&three_units(1), &[other]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "job 6: it was made for another network than this one of 3 units"
    );
}
