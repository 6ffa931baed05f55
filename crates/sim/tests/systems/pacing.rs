//! Goodput follows the rate that a job's workers are assigned.

use std::time::Duration;

use tributary_protocol::Rate;
use tributary_sim::{Act, Options, Run};

use crate::cases::{inputs, program, scenario};
use crate::exact::check_exact;

/// Bits of values in a packet.
const PACKET: f64 = 32.0 * 64.0;

/// Seconds until a tensor of so many packets is summed at the file's rate, which changes at some times.
fn sum(file: &str, packets: usize, changes: &[(Duration, u64)]) -> f64 {
    let scenario = scenario(file);
    let inputs = inputs(&scenario, 1, 64 * packets);
    let options = Options::seeded(scenario.seed);
    let program = program(&scenario);
    let mut run = Run::start(&scenario, &program, inputs.clone(), &options).unwrap();
    for &(at, rate) in changes {
        run.at(at, Act::Pace(0, Rate::new(rate)));
    }
    while run.step().unwrap() {}
    let outcome = run.finish().unwrap();
    assert!(outcome.complete);
    check_exact(&scenario, &inputs, &outcome.sums).unwrap();
    outcome.time.as_secs_f64()
}

fn file(protocol: &str, more: &str) -> String {
    format!("protocol = \"{protocol}\"\n[switch]\npool = 65536\n[[job]]\n{more}\n")
}

#[test]
fn a_worker_keeps_its_rate() {
    const PACKETS: usize = 6_000;
    for protocol in ["atp", "esa", "p4inc", "switchml"] {
        for (text, rate) in [("20Mb/s", 2e7), ("1Gb/s", 1e9), ("6Gb/s", 6e9)] {
            let time = sum(&file(protocol, &format!("rate = \"{text}\"")), PACKETS, &[]);
            let ratio = PACKET * PACKETS as f64 / time / rate;
            assert!((0.98..=1.02).contains(&ratio), "{protocol}, {text}: {ratio} of the rate");
        }
    }
}

#[test]
fn a_change_in_an_iteration_takes_effect_at_once() {
    const PACKETS: usize = 20_000;
    for protocol in ["atp", "esa", "p4inc", "switchml"] {
        let [first, second, third] = [1e9, 2e8, 4e9];
        let at = |ms| Duration::from_millis(ms);
        let changes = [(at(10), second as u64), (at(60), third as u64)];
        let time = sum(&file(protocol, "rate = \"1Gb/s\""), PACKETS, &changes);
        let before = 0.010 * first + 0.050 * second;
        let expected = 0.060 + (PACKET * PACKETS as f64 - before) / third;
        let ratio = time / expected;
        assert!((0.98..=1.02).contains(&ratio), "{protocol}: {ratio} of the time");
        // No limit any more.
        let free = sum(&file(protocol, "rate = \"1Gb/s\""), PACKETS, &[(at(10), 0)]);
        let line = 0.010 + (PACKET * PACKETS as f64 - 0.010 * first) / 9e9;
        assert!(free < 1.3 * line, "{protocol}: {free} s, at line rate {line} s");
    }
}

#[test]
fn the_rate_is_kept_under_loss() {
    const PACKETS: usize = 4_000;
    let text = "rate = \"500Mb/s\"\n[faults]\nloss = 0.01\n";
    for protocol in ["atp", "esa", "p4inc", "switchml"] {
        let time = sum(&file(protocol, text), PACKETS, &[]);
        let ratio = PACKET * PACKETS as f64 / time / 5e8;
        // What is sent again counts, so that the goodput is lower by that.
        assert!((0.85..=1.0).contains(&ratio), "{protocol}: {ratio} of the rate");
    }
}
