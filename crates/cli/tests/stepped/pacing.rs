//! Goodput follows the rate that a client assigns, also when it changes in an iteration.
//!
//! An iteration is timed by the client, from its start to the last worker's report.

use std::time::{Duration, Instant};

use tributary_run::testbed::Stream;

use crate::net::{Client, NETWORK, Net, stop, succeed};

/// Values that each worker sends in an iteration.
const ELEMENTS: usize = 1_500_000;

/// Bits of them.
const BITS: f64 = 32.0 * ELEMENTS as f64;

/// Rates of single iterations, in bits of values per second.
const RATES: [u64; 3] = [5_000_000, 20_000_000, 60_000_000];

/// Rates before and after a change, and the seconds from the start of the iteration to the change.
const CHANGES: [(u64, u64, f64); 2] = [(5_000_000, 40_000_000, 2.0), (40_000_000, 10_000_000, 0.4)];

/// Tries of an iteration: a machine that is busy otherwise takes the processor away for longer than
/// the token bucket makes up for.
const TRIES: usize = 10;

/// The least share of what a change lets expect. Workers learn of it one after the other. Then one of them is ahead by
/// up to its window, and what it sends again, because results come later than before, counts as well.
const AFTER_A_CHANGE: f64 = 0.75;

/// Pause before an iteration, in which the workers verify the last sums and draw the next values.
const COMPUTE: Duration = Duration::from_secs(1);

/// The ratio between the goodput, or the time that a change lets expect, and what was measured.
fn ratio(client: &mut Client, number: u64, first: u64, change: Option<(u64, f64)>) -> f64 {
    client.set_rate(first);
    std::thread::sleep(COMPUTE);
    let start = Instant::now();
    client.start(number);
    let mut expected = BITS / first as f64;
    if let Some((second, at)) = change {
        let change = start + Duration::from_secs_f64(at);
        std::thread::sleep(change.saturating_duration_since(Instant::now()));
        client.set_rate(second);
        let at = start.elapsed().as_secs_f64();
        expected = at + (BITS - first as f64 * at) / second as f64;
    }
    client.finished(number);
    expected / start.elapsed().as_secs_f64()
}

fn keeps_its_rates(hosts: [&str; 2], name: &str) {
    let cases = RATES.len() + CHANGES.len();
    let job = format!(
        "worker_timeout = \"20s\"\nprotocol = {{ kind = \"p4inc\", values_per_packet = 256 }}\n\
         [switch]\npool = 1024\n[[job]]\n\
         workers = {hosts:?}\nsegment = 256\nslots = 256\nwindow = 128\n\
         workload = {{ kind = \"random\", tensors = {}, elements = {ELEMENTS} }}\n",
        cases * TRIES
    );
    let Some(net) = Net::with(&job) else { return };
    let controller = net.controller();
    let server = (name == "partial").then(|| net.server());
    let workers = net.workers(&hosts);
    let mut client = net.client();
    client.admit(NETWORK, 256, 0);
    let mut number = 0;
    let mut test = |what: String, first, change, least| {
        let mut ratios = Vec::new();
        for _ in 0..TRIES {
            number += 1;
            let ratio = ratio(&mut client, number, first, change);
            println!("{name}, {what}: {ratio:.4}");
            if (least..=1.02).contains(&ratio) {
                return;
            }
            ratios.push(ratio);
        }
        panic!("{name}, {what}: {ratios:?} of what the rate lets expect");
    };
    for rate in RATES {
        test(format!("{} Mb/s", rate / 1_000_000), rate, None, 0.98);
    }
    for (first, second, at) in CHANGES {
        let [before, after] = [first, second].map(|rate| rate / 1_000_000);
        let what = format!("{before} Mb/s, after {at} s {after} Mb/s");
        test(what, first, Some((second, at)), AFTER_A_CHANGE);
    }
    // What is left is summed without a limit.
    client.set_rate(0);
    (number + 1..=(cases * TRIES) as u64).for_each(|number| client.iterate(number));
    succeed(&workers, cases * TRIES * ELEMENTS);
    for worker in &workers {
        let output = worker.output(Stream::Out);
        let said = output.lines().find(|line| line.contains("resends"));
        println!("{name}: {}", said.unwrap_or_default());
    }
    assert_eq!(client.release(), 0);
    server.iter().for_each(stop);
    stop(&controller);
}

#[test]
fn a_job_that_one_switch_sums_keeps_its_rates() {
    keeps_its_rates(["a1", "a2"], "local");
}

#[test]
fn a_job_over_two_units_keeps_its_rates() {
    keeps_its_rates(["a1", "b1"], "partial");
}
