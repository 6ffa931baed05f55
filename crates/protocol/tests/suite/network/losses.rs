//! Loss of particular frames.

use std::time::Duration;

use tributary_protocol::server::Event;
use tributary_protocol::worker::Tensor;
use tributary_wire::{Flags, Kind, WorkerSet};

use crate::network::net::{Fabric, Net, Node, QUIET, Setup};

const FABRICS: [Fabric; 3] = [Fabric::Direct, Fabric::OneSwitch, Fabric::TwoLevels];

fn setup() -> Setup {
    Setup { pool: 1 << 16, ..Setup::default() }
}

/// Runs one tensor of ten fragments with the filter, and checks the sums.
fn run(
    fabric: Fabric,
    filter: impl FnMut(Node, Node, &tributary_wire::agg::Repr) -> bool + 'static,
) -> Net {
    let mut net = Net::new(1, fabric, QUIET, &[setup()]);
    net.filter = Some(Box::new(filter));
    for (w, worker) in net.jobs[0].workers.iter_mut().enumerate() {
        let values = (0..40).map(|i| i * (w as i32 + 1)).collect();
        worker.submit(Tensor::I32(values)).unwrap();
    }
    net.run_until(&format!("{fabric:?}"), Net::all_idle);
    let sums = Tensor::I32((0..40).map(|i| i * 6).collect());
    for results in &net.jobs[0].results {
        assert_eq!(results.len(), 1);
        assert_eq!(results[0].1, sums);
    }
    net
}

/// A filter that drops the first `times` frames that `which` selects.
fn first(
    times: u32,
    which: impl Fn(Node, Node, &tributary_wire::agg::Repr) -> bool,
) -> impl FnMut(Node, Node, &tributary_wire::agg::Repr) -> bool {
    let mut left = times;
    move |from, to, repr| {
        let lose = left > 0 && which(from, to, repr);
        left -= u32::from(lose);
        lose
    }
}

const LAST: u32 = 9;

#[test]
fn the_last_gradient_of_one_worker() {
    for fabric in FABRICS {
        for times in [1, 2, 5] {
            let lost = move |from, _, repr: &tributary_wire::agg::Repr| {
                from == Node::Worker(0, 1) && repr.sequence.0 == LAST && repr.kind == Kind::Gradient
            };
            let net = run(fabric, first(times, lost));
            assert!(net.jobs[0].workers[1].stats().resent >= 1);
        }
    }
}

#[test]
fn the_last_gradients_of_all_workers() {
    for fabric in FABRICS {
        let lost = |from, _, repr: &tributary_wire::agg::Repr| {
            matches!(from, Node::Worker(..)) && repr.sequence.0 >= LAST - 2
        };
        run(fabric, first(9, lost));
    }
}

#[test]
fn the_last_parameter_to_everyone() {
    for fabric in FABRICS {
        let lost = |from, _, repr: &tributary_wire::agg::Repr| {
            matches!(from, Node::Server(_))
                && repr.kind == Kind::Parameter
                && repr.sequence.0 == LAST
        };
        let net = run(fabric, first(3, lost));
        // Each result is multicast once; all others are Replies.
        let stats = net.jobs[0].server.stats();
        assert_eq!(stats.parameters, 10);
        assert!(stats.replies >= 3);
    }
}

#[test]
fn the_parameter_to_one_worker_and_its_replies() {
    for fabric in FABRICS {
        let lost = |_, to, repr: &tributary_wire::agg::Repr| {
            to == Node::Worker(0, 2)
                && matches!(repr.kind, Kind::Parameter | Kind::Reply)
                && repr.sequence.0 == 0
        };
        let net = run(fabric, first(4, lost));
        assert!(net.jobs[0].server.stats().replies >= 4);
        // Meanwhile the other workers advanced by a whole window, and no further.
        assert_eq!(net.jobs[0].server.stats().out_of_window, 0);
    }
}

#[test]
fn every_query() {
    for fabric in FABRICS {
        let mut lossy = first(5, |from, _, repr| {
            from == Node::Worker(0, 0) && repr.kind == Kind::Gradient && repr.sequence.0 == 3
        });
        run(fabric, move |from, to, repr| repr.kind == Kind::Query || lossy(from, to, repr));
    }
}

#[test]
fn every_first_transmission() {
    for fabric in FABRICS {
        run(fabric, |from, _, repr| {
            matches!(from, Node::Worker(..)) && !repr.flags.contains(Flags::RESEND)
        });
    }
}

#[test]
fn every_parameter() {
    for fabric in FABRICS {
        let net = run(fabric, |_, _, repr| repr.kind == Kind::Parameter);
        assert!(net.jobs[0].server.stats().replies >= 30);
    }
}

#[test]
fn a_dead_worker_is_named_by_the_server() {
    for fabric in FABRICS {
        let mut net = Net::new(1, fabric, QUIET, &[setup()]);
        for worker in &mut net.jobs[0].workers[..2] {
            worker.submit(Tensor::I32(vec![1; 100].into())).unwrap();
        }
        net.run_until("a stall", |net| !net.jobs[0].server_events.is_empty());
        let Event::Stalled { missing, sequence, waited, quiet } = net.jobs[0].server_events[0];
        assert_eq!((missing, sequence.0), (WorkerSet::from_low_bits(0b100), 0), "{fabric:?}");
        assert!(!quiet, "{fabric:?}: the others are heard of");
        assert!(waited >= Duration::from_secs(10));
        // It was only late: the job continues.
        net.jobs[0].workers[2].submit(Tensor::I32(vec![1; 100].into())).unwrap();
        net.run_until("the end", Net::all_idle);
        assert!(net.jobs[0].results.iter().all(|r| r[0].1 == Tensor::I32(vec![3; 100].into())));
    }
}

#[test]
fn a_dead_network_is_distinguished_from_a_dead_worker() {
    for fabric in FABRICS {
        let mut net = Net::new(1, fabric, QUIET, &[setup()]);
        for worker in &mut net.jobs[0].workers {
            worker.submit(Tensor::I32(vec![1; 100].into())).unwrap();
        }
        // The first packets arrive except those of worker 2. All later ones are lost.
        let mut left = 20;
        net.filter = Some(Box::new(move |from, to, _| {
            left -= i32::from(to == Node::Server(0) && left > 0);
            left <= 10 || from == Node::Worker(0, 2)
        }));
        net.run_until("a stall", |net| !net.jobs[0].server_events.is_empty());
        let Event::Stalled { quiet, .. } = net.jobs[0].server_events[0];
        assert!(quiet, "{fabric:?}");
    }
}

#[test]
fn a_late_worker_costs_the_early_ones_few_resends() {
    let mut net = Net::new(1, Fabric::OneSwitch, QUIET, &[Setup { slots: 64, ..setup() }]);
    let submit = |net: &mut Net, w: usize| {
        net.jobs[0].workers[w].submit(Tensor::I32(vec![1; 4000].into())).map(drop)
    };
    for w in 0..3 {
        submit(&mut net, w).unwrap();
    }
    net.run_until("the first tensor", Net::all_idle);
    // Round trips of microseconds have been measured, and the timeout is 1 ms. Worker 2 is 50 ms
    // late.
    submit(&mut net, 0).unwrap();
    submit(&mut net, 1).unwrap();
    let late = net.now + Duration::from_millis(50);
    net.drain();
    while net.next_time().is_some_and(|at| at < late) {
        net.step();
    }
    net.advance(late);
    submit(&mut net, 2).unwrap();
    net.run_until("the second tensor", Net::all_idle);
    for worker in &net.jobs[0].workers {
        let stats = worker.stats();
        assert_eq!(stats.results, 2000);
        // Two resends per probe.
        assert!(stats.resent <= 24, "{stats:?}");
    }
}
