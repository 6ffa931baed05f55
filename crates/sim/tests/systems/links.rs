//! Rates and latencies of links, against closed forms.

use std::time::Duration;

use tributary_sim::{Options, Outcome, run};

use crate::cases::{inputs, program, scenario};
use crate::exact::{check_exact, describe};

/// Bytes of values in a packet.
const PAYLOAD: usize = 4 * 64;

/// Bits of such a packet on a link: with headers (70 bytes), and preamble, check sequence and gap.
const PACKET_BITS: f64 = 8.0 * (PAYLOAD + 70 + 24) as f64;

/// Sums one tensor of so many packets.
fn sum(file: &str, packets: usize) -> Outcome {
    let scenario = scenario(file);
    let inputs = inputs(&scenario, 1, 64 * packets);
    let options = Options::seeded(scenario.seed);
    let outcome = run(&scenario, &program(&scenario), inputs.clone(), &options).unwrap();
    assert!(outcome.complete, "{}", describe(&outcome));
    check_exact(&scenario, &inputs, &outcome.sums).unwrap();
    outcome
}

/// Nanoseconds from the first bit of a packet at one end to its last bit at the other.
fn hop(gbps: f64, latency_ns: f64) -> f64 {
    PACKET_BITS / gbps + latency_ns
}

#[test]
fn the_slowest_link_of_a_worker_sets_the_goodput() {
    const PACKETS: usize = 4_000;
    for protocol in ["atp", "esa", "p4inc", "switchml"] {
        let goodput = |rate: &str| {
            let file = format!(
                "protocol = \"{protocol}\"\n[topology]\nkind = \"star\"\n[[topology.link]]\n\
                 between = [\"w2\", \"s1\"]\nrate = \"{rate}\"\n[switch]\npool = 65536\n[[job]]\n"
            );
            let time = sum(&file, PACKETS).time;
            8.0 * (PACKETS * PAYLOAD) as f64 / time.as_secs_f64()
        };
        for (rate, bits_per_second) in [("1Gb/s", 1e9), ("100Mb/s", 1e8)] {
            let expected = bits_per_second * 8.0 * PAYLOAD as f64 / PACKET_BITS;
            let ratio = goodput(rate) / expected;
            assert!((0.98..=1.0).contains(&ratio), "{protocol}, {rate}: {ratio} of the rate");
        }
    }
}

#[test]
fn a_fragment_takes_its_serialisation_and_propagation() {
    let outcome = sum(
        "protocol = \"switchml\"\n[topology]\nkind = \"star\"\nworkers = 3\n[[topology.link]]\n\
         between = [\"s1\", \"w3\"]\nrate = \"1Gb/s\"\nlatency = \"5us\"\n[[job]]\n",
        1,
    );
    // The other links are five times shorter and ten times faster.
    let expected = 2.0 * hop(1.0, 5_000.0);
    assert_eq!(outcome.time, Duration::from_nanos(expected as u64));
}

#[test]
fn each_link_of_a_way_has_its_own_rate_and_latency() {
    let outcome = sum(
        "[topology]\nracks = 2\nhosts_per_rack = 1\nrate = \"25Gb/s\"\nlatency = \"2us\"\n\
         [[topology.link]]\nbetween = [\"rack1\", \"rack2\"]\nrate = \"40Gb/s\"\nlatency = \"20us\"\n\
         [[job]]\n",
        1,
    );
    // From the worker of the far rack to the parameter server, and back.
    let expected = 2.0 * (hop(25.0, 2_000.0) + hop(40.0, 20_000.0) + hop(25.0, 2_000.0));
    assert_eq!(outcome.time, Duration::from_nanos(expected as u64));
}

#[test]
fn explicit_defaults_change_nothing() {
    let time = |links: &str| sum(&format!("[topology]\nworkers = 4\n{links}\n[[job]]\n"), 500).time;
    assert_eq!(time(""), time("rate = \"10Gb/s\"\nlatency = \"1us\""));
}
