//! Recovery on processors that busy loops share: with N loops on two cores, the longest run takes at
//! most 1.5 · (1 + N/2) times the median on idle processors, at any loss
//! (`docs/evaluation/measurements.md`, *Beside other load*).

use std::fmt::Write as _;
use std::time::Duration;

use tributary_lab::studies::loss::Trial;
use tributary_model::Protocol;
use tributary_sim::Processing;

/// Nanoseconds for a frame at a host and at the switch: about those of threads joined by memory, and of
/// processes with raw sockets.
const COSTS: [[u64; 2]; 2] = [[1_000, 800], [3_000, 2_400]];

const LOSSES: [f64; 3] = [0.0, 0.01, 0.1];

/// Numbers of busy loops, with the longest time relative to the idle one.
const BOUNDS: [(usize, f64); 3] = [(0, 1.5), (2, 3.0), (8, 7.5)];

/// Runs of each case.
const SEEDS: u64 = 10;

/// Run times beside `busy` loops, in ascending order.
fn times(protocol: Protocol, costs: [u64; 2], loss: f64, busy: usize) -> Vec<Duration> {
    let [host, switch] = costs.map(Duration::from_nanos);
    let processing = Processing { busy, ..Processing::like_linux(2, host, switch) };
    let trial =
        Trial { processing: Some(processing), tensors: 1, ..Trial::new(protocol).with_loss(loss) };
    let time = |seed| {
        let cost = trial.run(seed).unwrap();
        assert!(cost.complete, "{trial:?}, seed {seed}: {cost:?}");
        cost.time
    };
    let mut times: Vec<_> = (1..=SEEDS).map(time).collect();
    times.sort_unstable();
    times
}

fn check(protocol: Protocol) {
    let mut rows = String::new();
    let mut late = 0;
    for costs in COSTS {
        for loss in LOSSES {
            let mut usual = None;
            for (busy, bound) in BOUNDS {
                let times = times(protocol, costs, loss, busy);
                let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
                let usual = *usual.get_or_insert(median);
                let factor = longest.as_secs_f64() / usual.as_secs_f64();
                late += u32::from(factor > bound);
                writeln!(
                    rows,
                    "{costs:?} ns, loss {loss}, {busy} loops: median {median:?}, longest {longest:?}: \
                     {factor:.2} times the idle median, at most {bound}"
                )
                .unwrap();
            }
        }
    }
    println!("{protocol:?}\n{rows}");
    assert_eq!(late, 0, "{protocol:?}:\n{rows}");
}

#[test]
fn atp_beside_busy_loops() {
    check(Protocol::Atp);
}

#[test]
fn esa_beside_busy_loops() {
    check(Protocol::Esa);
}

#[test]
fn p4inc_beside_busy_loops() {
    check(Protocol::P4inc);
}

#[test]
fn switchml_beside_busy_loops() {
    check(Protocol::SwitchMl);
}
