//! `INC-Refine` is never worse than another scheduler, and a port more in every unit is never worse. Files that
//! failed with earlier versions are in `cases`.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_optical::{
    Demand, Input, Job, Network, Refine, Scheduler, Unit, UnitId, check, outcome, quick_bound,
    read, schedulers,
};

/// Seconds that are rounding.
const ROUNDING: f64 = 1e-6;

/// The completion time of `INC-Refine`, after a check, if the jobs can be carried out.
fn best(network: &Network, jobs: &[Job], what: &str) -> Option<f64> {
    let refine = Refine::default();
    let schedule = Scheduler::schedule(&refine, network, jobs).ok()?;
    let checked = check(network, jobs, &schedule);
    let checked = checked.unwrap_or_else(|violations| panic!("{what}: {}", violations[0]));
    assert_eq!(outcome(network, jobs, &schedule).ct_bti, checked.completion, "{what}");
    assert_eq!(schedule.initial, tributary_optical::Circuits::uniform(network), "{what}");
    Some(checked.completion)
}

/// The completion times with each number of ports up to `most`, after comparing them with each other and with
/// the other schedulers.
fn by_ports(network: &Network, jobs: &[Job], most: u32, what: &str) -> Vec<Option<f64>> {
    let mut network = network.clone();
    let mut times: Vec<Option<f64>> = Vec::new();
    for ports in 0..=most {
        network.units.iter_mut().for_each(|unit| unit.ports = ports);
        let what = format!("{what}, {ports} ports");
        let time = best(&network, jobs, &what);
        for scheduler in schedulers() {
            let Ok(schedule) = scheduler.schedule(&network, jobs) else { continue };
            let other = outcome(&network, jobs, &schedule).ct_bti;
            let name = scheduler.name();
            assert!(time.is_some_and(|time| time <= other), "{what}: {time:?}, {name}: {other}");
        }
        if let Some(fewer) = times.last().copied().flatten() {
            assert!(time.is_some_and(|time| time <= fewer + ROUNDING), "{what}: {time:?}, {fewer}");
        }
        times.push(time);
    }
    times
}

fn random_job(random: &mut ChaCha8Rng, id: u32, units: usize) -> Job {
    let arrival = random.random_range(0..4);
    let unit = |random: &mut ChaCha8Rng| UnitId(random.random_range(0..units));
    // Sizes between a fraction of a slot and some slots, many of them exactly what a circuit carries.
    let bits =
        |random: &mut ChaCha8Rng| [0.8e9, 4e9, 16e9, 40e9, 80e9][random.random_range(0..5_usize)];
    if random.random_bool(0.3) {
        let demand = |random: &mut ChaCha8Rng| Demand {
            from: unit(random),
            to: unit(random),
            bits: bits(random),
        };
        let demands: Vec<Demand> =
            (0..random.random_range(1..=2)).map(|_| demand(random)).collect();
        return Job::coflow(id, arrival, units, &demands).unwrap();
    }
    let mut workers = vec![0; units];
    for _ in 0..random.random_range(1..=2) {
        workers[unit(random).0] += random.random_range(1..=4);
    }
    let update = [0.0, 0.02, 0.3][random.random_range(0..3_usize)];
    let job = Job::training(id, arrival, &workers, unit(random), bits(random), update).unwrap();
    if random.random_bool(0.7) { job.local_inc_only() } else { job }
}

#[test]
fn no_scheduler_is_better_and_a_port_more_is_never_later() {
    let mut carried = 0;
    for seed in 0..120 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let units = random.random_range(2..=5);
        let unit = Unit { ports: 0, inc: random.random_range(0..=2), bandwidth: 640e9 };
        let network = Network {
            units: vec![unit; units],
            port_rate: 40e9,
            reconfiguration: [0.0, 0.02, 0.3][seed as usize % 3],
            slot: 1.0,
        };
        let count = random.random_range(1..=6);
        let jobs: Vec<Job> = (0..count).map(|id| random_job(&mut random, id, units)).collect();
        let times = by_ports(&network, &jobs, 7, &format!("seed {seed}"));
        carried += times.iter().flatten().count();
    }
    assert!(carried > 500, "{carried}");
}

#[test]
fn no_scheduler_is_better_in_any_small_instance() {
    let training = |workers: &[u32], server: usize, bits: f64, update: f64| {
        Job::training(0, 0, workers, UnitId(server), bits, update).unwrap().local_inc_only()
    };
    let demand = |from, to, bits| Demand { from: UnitId(from), to: UnitId(to), bits };
    let kinds = [
        training(&[1, 0, 0], 1, 80e9, 0.0),
        training(&[2, 0, 0], 2, 20e9, 0.3),
        training(&[1, 1, 0], 0, 40e9, 0.0),
        training(&[0, 0, 3], 1, 10e9, 0.02),
        Job::coflow(0, 0, 3, &[demand(0, 1, 40e9)]).unwrap(),
        Job::coflow(0, 0, 3, &[demand(1, 2, 100e9), demand(2, 0, 20e9)]).unwrap(),
    ];
    for inc in 0..=1 {
        let unit = Unit { ports: 0, inc, bandwidth: 640e9 };
        let network =
            Network { units: vec![unit; 3], port_rate: 40e9, reconfiguration: 0.02, slot: 1.0 };
        for (a, first) in kinds.iter().enumerate() {
            for (b, second) in kinds.iter().enumerate() {
                for arrival in 0..=1 {
                    let jobs =
                        [Job { id: 0, ..first.clone() }, Job { id: 1, arrival, ..second.clone() }];
                    let what = format!("kinds {a} and {b}, arrival {arrival}, inc {inc}");
                    by_ports(&network, &jobs, 4, &what);
                }
            }
        }
    }
}

fn case(text: &str) -> Input {
    read(text, "case.toml").unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_job_in_one_unit_is_summed_there() {
    let Input { network, jobs } = case(include_str!("cases/one-job.toml"));
    // 80 Gb in a slot, by the switch: no ports are needed.
    let times = by_ports(&network, &jobs, 6, "one job");
    assert_eq!(times, [Some(1.0); 7]);
    let schedule = Scheduler::schedule(&Refine::default(), &network, &jobs).unwrap();
    assert_eq!(outcome(&network, &jobs, &schedule).reconfigurations, 0);
}

#[test]
fn the_search_does_not_lose_to_what_it_refines() {
    let Input { network, jobs } = case(include_str!("cases/refine-worse.toml"));
    let times = by_ports(&network, &jobs, 6, "refine-worse");
    assert!(times[2].is_some_and(|time| time <= 4.0), "{times:?}");
}

#[test]
fn a_job_that_needs_no_port_is_scheduled_without_ports() {
    let Input { network, jobs } = case(include_str!("cases/no-ports.toml"));
    assert_eq!(quick_bound(&network, &jobs), Ok(1.0));
    assert_eq!(best(&network, &jobs, "no ports"), Some(1.0));
    for scheduler in schedulers() {
        let schedule = scheduler.schedule(&network, &jobs);
        match scheduler.name().starts_with("noINC") {
            true => assert!(schedule.unwrap_err().to_string().contains("more ports")),
            false => assert_eq!(outcome(&network, &jobs, &schedule.unwrap()).ct_bti, 1.0),
        }
    }
}

#[test]
fn a_job_waits_for_the_switch_that_it_needs() {
    let Input { network, jobs } = case(include_str!("cases/no-ports.toml"));
    let jobs: Vec<Job> = (0..3).map(|id| Job { id, ..jobs[0].clone() }).collect();
    for scheduler in schedulers().iter().filter(|one| !one.name().starts_with("noINC")) {
        let schedule = scheduler.schedule(&network, &jobs).unwrap();
        check(&network, &jobs, &schedule).unwrap();
        assert_eq!(outcome(&network, &jobs, &schedule).ct_bti, 3.0, "{}", scheduler.name());
    }
    assert_eq!(best(&network, &jobs, "three jobs"), Some(3.0));
}

#[test]
fn without_data_nothing_is_sent() {
    let Input { network, .. } = case(include_str!("cases/one-job.toml"));
    let inside = Demand { from: UnitId(2), to: UnitId(2), bits: 8e9 };
    let nothing = Job::training(0, 4, &[1, 0, 0], UnitId(1), 0.0, 0.25).unwrap();
    let jobs = vec![nothing, Job::coflow(1, 2, 3, &[inside]).unwrap()];
    assert_eq!(best(&network, &jobs[1..], "a coflow within a unit"), Some(2.0));
    for scheduler in schedulers() {
        let schedule = scheduler.schedule(&network, &jobs).unwrap();
        assert_eq!(schedule.slots, []);
        assert_eq!(outcome(&network, &jobs, &schedule).completion, [4.25, 2.0]);
        assert_eq!(check(&network, &jobs, &schedule).unwrap().completion, 4.25);
    }
    assert!(best(&network, &jobs, "no data").is_some_and(|time| time <= 4.25));
}

#[test]
fn inputs_that_would_take_hours_or_all_memory_are_one_line() {
    for (text, expected) in [
        (include_str!("cases/huge.toml"), "f:2:9: `units` is 1000000000, out of range; "),
        (include_str!("cases/hugep.toml"), "f:3:9: `ports` is 1000000000, out of range; "),
        (include_str!("cases/far.toml"), "`arrival` is 4000000000, out of range; "),
        (
            include_str!("cases/megabytes-1e12.toml"),
            "f:14:13: it arrives in slot 0 and sends for at least ",
        ),
    ] {
        let error = read(text, "f").expect_err("a limit").to_string();
        assert!(error.contains(expected) && !error.contains('\n'), "{error}");
    }
    // Each job alone ends in time, but not all together.
    let Input { network, jobs } = case(include_str!("cases/one-job.toml"));
    let large = Job { bits: 80e9 * 9_000.0, ..jobs[0].clone() };
    let jobs: Vec<Job> = (0..20).map(|id| Job { id, ..large.clone() }).collect();
    let expected = "the schedule has more than 10000 slots; give the jobs less data, or the network \
                    longer slots";
    assert_eq!(quick_bound(&network, &jobs).unwrap_err().to_string(), expected);
    for scheduler in schedulers() {
        let error = scheduler.schedule(&network, &jobs).unwrap_err().to_string();
        assert_eq!(error, expected, "{}", scheduler.name());
    }
    assert_eq!(Refine::default().schedule(&network, &jobs).unwrap_err().to_string(), expected);
}

#[test]
fn any_number_of_jobs_per_switch_is_allowed() {
    let Input { mut network, jobs } = case(include_str!("cases/one-job.toml"));
    // The job's own switch takes none.
    network.units[1..].iter_mut().for_each(|unit| unit.inc = u32::MAX);
    network.units[0].inc = 0;
    assert_eq!(best(&network, &jobs, "4 billion jobs per switch"), Some(2.0));
    network.units[0].inc = u32::MAX;
    assert_eq!(best(&network, &jobs, "4 billion jobs per switch"), Some(1.0));
}
