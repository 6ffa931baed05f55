//! What loss and other mishaps cost: goodput, resends and time, in virtual time.

use std::time::Duration;

use tributary_jobfile::Protocol;
use tributary_protocol::Recovery;
use tributary_sim::loss::{Cost, Trial};

/// ESA's repairs go over TCP, whose own timers decide how long they take.
const WITHOUT_CHANNEL: [Protocol; 3] = [Protocol::Atp, Protocol::P4inc, Protocol::SwitchMl];

/// Two tensors of a thousand fragments.
fn trial(protocol: Protocol) -> Trial {
    Trial { bytes: 256_000, ..Trial::new(protocol) }
}

fn run(trial: &Trial, seed: u64) -> Cost {
    let cost = trial.run(seed).unwrap();
    assert!(cost.complete, "{trial:?}, seed {seed}: {cost:?}");
    cost
}

/// The middle one of three seeds.
fn median(trial: &Trial) -> Cost {
    let mut costs: Vec<_> = (1..=3).map(|seed| run(trial, seed)).collect();
    costs.sort_by_key(|cost| cost.time);
    costs[1]
}

#[test]
fn goodput_under_loss() {
    let goals = [(0.001, 0.95), (0.01, 0.75), (0.05, 0.45), (0.1, 0.25), (0.2, 0.08)];
    for protocol in WITHOUT_CHANNEL {
        // At little loss the end of a tensor weighs more than in the tensors that goals are for.
        let long = |loss: f64| Trial {
            bytes: if loss < 0.01 { 4_000_000 } else { 1_000_000 },
            ..Trial::new(protocol)
        };
        for (loss, goal) in goals {
            let lossless = run(&long(loss), 1).goodput_bps;
            let share = median(&long(loss).with_loss(loss)).goodput_bps / lossless;
            assert!(share >= goal, "{protocol:?} at {loss}: {share}");
        }
    }
}

#[test]
fn the_papers_rules_get_through_as_well_but_slowly() {
    for protocol in [Protocol::Atp, Protocol::P4inc, Protocol::SwitchMl, Protocol::Esa] {
        let rack = Trial { bytes: 64_000, ..Trial::new(protocol).with_loss(0.02) };
        let papers = Trial { recovery: Recovery::Papers, ..rack.clone() };
        assert!(2 * median(&rack).time < median(&papers).time, "{protocol:?}");
    }
}

#[test]
fn without_loss_nothing_is_sent_again() {
    for protocol in [Protocol::Atp, Protocol::P4inc, Protocol::SwitchMl, Protocol::Esa] {
        let cost = run(&trial(protocol), 1);
        assert_eq!((cost.resent, cost.timeouts), (0, 0), "{protocol:?}");
    }
}

#[test]
fn few_resends_for_a_straggler_of_half_a_second() {
    for protocol in WITHOUT_CHANNEL {
        let job = "[[job.straggler]]\nworker = 2\ndelay = \"500ms\"\n".to_owned();
        let cost = run(&Trial { job, ..trial(protocol) }, 1);
        // Two tensors, and it is late for each.
        assert!(cost.time > Duration::from_millis(1_000), "{protocol:?}: {cost:?}");
        assert!(cost.time < Duration::from_millis(1_020), "{protocol:?}: {cost:?}");
        assert!(cost.resent * 20 < cost.sent, "{protocol:?}: {cost:?}");
    }
}

#[test]
fn duplicates_and_jitter_beyond_the_round_trip() {
    for protocol in WITHOUT_CHANNEL {
        let lossless = run(&trial(protocol), 1);
        let duplicates = Trial { faults: "duplicate = 0.2\n".into(), ..trial(protocol) };
        let cost = median(&duplicates);
        assert!(cost.time < 2 * lossless.time, "{protocol:?}: {cost:?}");
        let jitter = Trial { faults: "jitter = \"50us\"\n".into(), ..trial(protocol) };
        let cost = median(&jitter);
        // 50 µs on each of four links: a round trip of 200 µs for every window of 256 fragments.
        assert!(cost.time < Duration::from_millis(8), "{protocol:?}: {cost:?}");
    }
}

/// A fragment takes a round trip, or a few more: with loss p on every link, 1/(1−p)^k of them where it has
/// to pass k links without a loss. Before a first round trip is known, silence lasts 20 ms.
#[test]
fn the_time_of_one_fragment_is_bounded() {
    for protocol in WITHOUT_CHANNEL {
        let alone =
            |loss| Trial { bytes: 256, tensors: 1000, ..Trial::new(protocol).with_loss(loss) };
        let lossless = run(&alone(0.0), 1).time;
        for loss in [0.05, 0.1, 0.2] {
            let time = median(&alone(loss)).time.saturating_sub(Duration::from_millis(60));
            // Four gradients, the sum to the PS and back, four results.
            let links = 4.0 + 2.0 + 4.0;
            let expected = lossless.as_secs_f64() / (1.0f64 - loss).powf(links);
            let factor = time.as_secs_f64() / expected;
            assert!(factor < 40.0, "{protocol:?} at {loss}: {time:?}, {factor} times {expected}");
        }
    }
}
