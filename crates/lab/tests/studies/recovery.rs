//! The cost of loss and other faults: goodput, resends and time, in virtual time.

use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_controller::programs::Source;
use tributary_lab::studies::loss::{Cost, Trial};
use tributary_model::jobfile::parse;
use tributary_model::{HostId, Protocol, Scenario};
use tributary_protocol::{Recovery, Tensor};
use tributary_sim::{Inputs, Options, Outcome, Program, Run};

const PROTOCOLS: [Protocol; 4] =
    [Protocol::Atp, Protocol::Esa, Protocol::P4inc, Protocol::SwitchMl];

/// Two tensors of a thousand fragments.
fn trial(protocol: Protocol) -> Trial {
    Trial { bytes: 256_000, ..Trial::new(protocol) }
}

fn run(trial: &Trial, seed: u64) -> Cost {
    let cost = trial.run(seed).unwrap();
    assert!(cost.complete, "{trial:?}, seed {seed}: {cost:?}");
    cost
}

/// The median of three seeds.
fn median(trial: &Trial) -> Cost {
    median_of(3, trial)
}

fn median_of(seeds: u64, trial: &Trial) -> Cost {
    let mut costs: Vec<_> = (1..=seeds).map(|seed| run(trial, seed)).collect();
    costs.sort_by_key(|cost| cost.time);
    costs[costs.len() / 2]
}

#[test]
fn goodput_under_loss() {
    // As in `tributary-lab bench loss`, except that it has 4 MB for 1 % too. The end of a tensor matters more in
    // short tensors.
    let goals = [
        (0.001, 4_000_000, 0.95),
        (0.01, 1_000_000, 0.75),
        (0.05, 1_000_000, 0.45),
        (0.1, 500_000, 0.25),
        (0.2, 200_000, 0.08),
    ];
    for protocol in PROTOCOLS {
        for (loss, bytes, goal) in goals {
            let trial = Trial { bytes, ..Trial::new(protocol) };
            let lossless = run(&trial, 1).goodput_bps;
            let share = median(&trial.with_loss(loss)).goodput_bps / lossless;
            assert!(share >= goal, "{protocol:?} at {loss}: {share}");
        }
    }
}

#[test]
fn the_papers_rules_also_complete_but_slowly() {
    for protocol in PROTOCOLS {
        let rack = Trial { bytes: 64_000, ..Trial::new(protocol).with_loss(0.02) };
        let papers = Trial { recovery: Recovery::Papers, ..rack.clone() };
        assert!(2 * median(&rack).time < median(&papers).time, "{protocol:?}");
    }
}

#[test]
fn without_loss_nothing_is_sent_again() {
    for protocol in PROTOCOLS {
        let cost = run(&trial(protocol), 1);
        assert_eq!((cost.resent, cost.timeouts), (0, 0), "{protocol:?}");
    }
}

#[test]
fn few_resends_for_a_straggler_of_half_a_second() {
    for protocol in PROTOCOLS {
        let job = "[[job.straggler]]\nworker = 2\ndelay = \"500ms\"\n".to_owned();
        let cost = run(&Trial { job, ..trial(protocol) }, 1);
        // Two tensors, and the straggler delays each.
        assert!(cost.time > Duration::from_millis(1_000), "{protocol:?}: {cost:?}");
        assert!(cost.time < Duration::from_millis(1_020), "{protocol:?}: {cost:?}");
        assert!(cost.resent * 10 < cost.sent, "{protocol:?}: {cost:?}");
    }
}

#[test]
fn duplicates_and_jitter_beyond_the_round_trip() {
    for protocol in PROTOCOLS {
        let lossless = run(&trial(protocol), 1);
        let duplicates = Trial { faults: "duplicate = 0.2\n".into(), ..trial(protocol) };
        let cost = median(&duplicates);
        assert!(cost.time < 2 * lossless.time, "{protocol:?}: {cost:?}");
        let jitter = Trial { faults: "jitter = \"50us\"\n".into(), ..trial(protocol) };
        let cost = median(&jitter);
        // 50 µs on each of four links: a round trip of 200 µs for each window of 256 fragments.
        assert!(cost.time < Duration::from_millis(8), "{protocol:?}: {cost:?}");
    }
}

/// A fragment takes one round trip or a few more: with loss p on every link, 1/(1−p)^k of them if
/// it must pass k links without loss.
#[test]
fn the_time_of_one_fragment_is_bounded() {
    for protocol in PROTOCOLS {
        let alone =
            |loss| Trial { bytes: 256, tensors: 1000, ..Trial::new(protocol).with_loss(loss) };
        let lossless = run(&alone(0.0), 1).time;
        for loss in [0.05, 0.1, 0.2] {
            let time = median(&alone(loss)).time;
            // Four gradients, the sum to the PS and back, four results.
            let links = 4.0 + 2.0 + 4.0;
            let expected = lossless.as_secs_f64() / (1.0f64 - loss).powf(links);
            let factor = time.as_secs_f64() / expected;
            assert!(factor < 12.0, "{protocol:?} at {loss}: {time:?}, {factor} times {expected}");
        }
    }
}

/// A bad link recovers only after as many frames as the burst has, which may be probes.
#[test]
fn bursts_cost_little_more_than_as_many_single_losses() {
    for protocol in PROTOCOLS {
        let single = median(&trial(protocol).with_loss(0.02));
        for burst in [4, 16] {
            let faults = format!("loss = 0.02\nburst = {burst}\n");
            // A burst at the end of a tensor takes longer, and it is rare.
            let cost = median_of(15, &Trial { faults, ..trial(protocol) });
            assert!(cost.time < 3 * single.time, "{protocol:?}, {burst}: {cost:?}, {single:?}");
        }
    }
}

fn start<'a>(scenario: &'a Scenario, tensors: u32, values: u32) -> Run<'a> {
    let source = Source::built_in(scenario.jobs[0].protocol.name()).unwrap();
    let program = Program::compile(&source, &scenario.network.switch).unwrap();
    let tensor = || Tensor::I32((0..values.cast_signed()).collect());
    let of_worker = |_: &HostId| (0..tensors).map(|_| tensor()).collect();
    let of_job = |job: &tributary_model::JobSpec| job.workers.iter().map(of_worker).collect();
    let inputs: Inputs = scenario.jobs.iter().map(of_job).collect();
    Run::start(scenario, &program, inputs, &Options::seeded(1)).unwrap()
}

fn finish(mut run: Run<'_>) -> Outcome {
    while run.step().unwrap() {}
    let outcome = run.finish().unwrap();
    assert!(outcome.complete, "{:?}", outcome.stalls);
    outcome
}

/// One direction of a worker is dead for 100 ms: then the job continues within a few milliseconds,
/// and the network was not flooded in between.
#[test]
fn a_direction_that_is_dead_for_a_while() {
    for protocol in PROTOCOLS {
        for from_worker in [true, false] {
            let scenario = trial(protocol).scenario();
            let host = scenario.jobs[0].workers[1];
            let link = scenario.network.topology.host(host).link;
            let ends = scenario.network.topology.link(link).ends;
            let worker = scenario.network.topology.end_name(ends[0])
                == scenario.network.topology.host(host).name;
            let end = ends[usize::from(worker != from_worker)];
            let mut run = start(&scenario, 2, 64_000);
            let (dead, alive) = (Duration::from_micros(100), Duration::from_micros(100_100));
            while run.elapsed() < dead && run.step().unwrap() {}
            run.system.network.set_down_from(link, end, true);
            while run.elapsed() < alive && run.step().unwrap() {}
            run.system.network.set_down_from(link, end, false);
            let outcome = finish(run);
            let case = format!("{protocol:?}, {from_worker}: {:?}", outcome.time);
            // The longest interval between two probes, and then as long as without the fault.
            assert!(outcome.time < alive + Duration::from_millis(115), "{case}");
            let sent: u64 = outcome.workers[0].iter().map(|worker| worker.sent).sum();
            let resent: u64 = outcome.workers[0].iter().map(|worker| worker.resent).sum();
            assert!(resent * 4 < sent, "{case}: {resent} of {sent}");
        }
    }
}

/// Two jobs over one link between two racks. One loses 1 % on the links of its workers. The other
/// keeps nine tenths of its share, measured against the later end of both without loss. Ten random
/// systems.
#[test]
fn a_job_that_loses_packets_does_not_slow_down_another() {
    for seed in 0..10 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let protocol = PROTOCOLS[(seed % 3) as usize].name();
        let values = [32, 64][random.random_range(0..2)];
        let slots = [64, 256][random.random_range(0..2)];
        let ecn = ["", "ecn_threshold = 20\n"][random.random_range(0..2)];
        let fragments = random.random_range(2_000..4_000);
        let file = |loss: &str| {
            format!(
                "worker_timeout = \"10min\"\n[topology]\nkind = \"racks\"\nracks = 2\nhosts_per_rack = 2\n\
                 ps_rack = 1\nps_hosts = 2\n[switch]\n{ecn}\
                 [protocol]\nkind = \"{protocol}\"\nvalues_per_packet = {values}\nslots = {slots}\n{loss}\
                 [[job]]\nworkers = [\"w1\", \"w3\"]\n[[job]]\nworkers = [\"w2\", \"w4\"]\n"
            )
        };
        let lossy = "[[faults.link]]\nbetween = [\"w1\", \"rack1\"]\nloss = 0.01\n\
                     [[faults.link]]\nbetween = [\"w3\", \"rack2\"]\nloss = 0.01\n";
        let time = |loss: &str| {
            let scenario =
                parse(&file(loss), "fair.toml").unwrap_or_else(|error| panic!("{error}"));
            let outcome = finish(start(&scenario, 1, values * fragments));
            assert_eq!(outcome.faults.lost > 0, !loss.is_empty());
            outcome.times
        };
        let (without, with) = (time(""), time(lossy));
        let share = *without.iter().max().unwrap();
        assert!(9 * with[1] < 10 * share, "seed {seed}, {protocol}: {without:?}, {with:?}");
    }
}
