//! Whole jobs through networks that lose, duplicate, delay, reorder and misdeliver frames: every
//! sum is exact at every worker for every seed (I1, I2, I5, I6), and every task completes (I7).

use std::time::Duration;

use crate::network::net::expect::{Inputs, bits};
use crate::network::net::switch::Counters;
use crate::network::net::{Fabric, Faults, Net, QUIET, STORM, Setup};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_protocol::Time;
use tributary_protocol::worker::TensorId;

/// The tensors of one job, and when each worker submits each tensor.
pub(crate) struct Load {
    pub(crate) setup: Setup,
    tensors: Vec<Inputs>,
    when: Vec<Vec<Time>>,
}

impl Load {
    pub(crate) fn random(rng: &mut ChaCha8Rng, setup: Setup, overflows: f64) -> Self {
        let count = rng.random_range(1..5);
        let max_len = usize::from(setup.values) * rng.random_range(1..30);
        let tensors: Vec<Inputs> = (0..count)
            .map(|_| Inputs::random(rng, setup.workers, max_len, setup.scale, overflows))
            .collect();
        // Half of the time, workers are late by up to 20 ms.
        let spread = if rng.random_bool(0.5) { 20_000_000 } else { 1_000 };
        let when = (0..setup.workers)
            .map(|_| {
                let mut at = 0;
                let mut next = || {
                    at += rng.random_range(0..spread);
                    Time::from_nanos(at)
                };
                (0..count).map(|_| next()).collect()
            })
            .collect();
        Self { setup, tensors, when }
    }

    /// Number of all fragments, and of those that cannot be summed in integers.
    fn fragments(&self) -> (u64, u64) {
        let Setup { values, scale, .. } = self.setup;
        let values = usize::from(values);
        let fragments: usize = self.tensors.iter().map(|t| t.len().div_ceil(values)).sum();
        let overflow = self.tensors.iter().map(|t| t.overflow_fragments(scale, values));
        (fragments as u64, overflow.sum::<usize>() as u64)
    }
}

/// Runs the loads together and checks all results. Returns the network for more checks.
fn run(seed: u64, fabric: Fabric, faults: Faults, loads: &[Load]) -> Net {
    let setups: Vec<Setup> = loads.iter().map(|load| load.setup).collect();
    let what = format!("seed {seed}, {fabric:?}, {setups:?}");
    let net = run_in(Net::new(seed, fabric, faults, &setups), &what, loads);
    for (job, load) in net.jobs.iter().zip(loads) {
        let (fragments, overflow) = load.fragments();
        let stats = job.server.stats();
        assert_eq!(stats.completed, fragments, "{what}");
        assert_eq!(stats.overflow_tasks, overflow, "{what}");
    }
    net
}

/// The same in a network that the test prepared.
pub(crate) fn run_in(mut net: Net, what: &str, loads: &[Load]) -> Net {
    let mut submissions = vec![];
    for (j, load) in loads.iter().enumerate() {
        for (w, times) in load.when.iter().enumerate() {
            submissions.extend(times.iter().enumerate().map(|(t, at)| (*at, j, w, t)));
        }
    }
    submissions.sort();
    for (at, j, w, t) in submissions {
        loop {
            net.drain();
            match net.next_time() {
                Some(next) if next < at => net.advance(next),
                _ => break,
            }
        }
        net.advance(at);
        let id = net.jobs[j].workers[w].submit(loads[j].tensors[t].of(w));
        assert_eq!(id, Ok(TensorId(t as u64)), "{what}");
    }
    net.run_until(what, Net::all_idle);
    check(what, &net, loads);
    net
}

fn check(what: &str, net: &Net, loads: &[Load]) {
    for (job, load) in net.jobs.iter().zip(loads) {
        let values = usize::from(load.setup.values);
        let scale = load.setup.scale;
        let (fragments, overflow) = load.fragments();
        for (w, results) in job.results.iter().enumerate() {
            let ids: Vec<u64> = results.iter().map(|(id, _)| id.0).collect();
            assert_eq!(ids, (0..load.tensors.len() as u64).collect::<Vec<_>>(), "{what}");
            for ((id, got), inputs) in results.iter().zip(&load.tensors) {
                assert_eq!(bits(got), inputs.sums(scale, values), "{what}: worker {w}, {id:?}");
            }
            assert_eq!(job.workers[w].stats().results, fragments, "{what}");
            assert_eq!(job.workers[w].stats().overflow_results, overflow, "{what}");
        }
        if job.gone.is_empty() {
            assert_eq!(job.server.pending_tasks(), 0, "{what}");
        }
        assert!(job.worker_events.is_empty(), "{what}: {:?}", job.worker_events);
    }
}

pub(crate) fn random_setup(rng: &mut ChaCha8Rng) -> Setup {
    let mut setup = Setup {
        workers: rng.random_range(1..=8),
        values: rng.random_range(1..=9),
        slots: 1 << rng.random_range(0..6),
        pool: rng.random_range(1..=64),
        scale: *[1.0, 1000.0, 65536.0, 0.1, 1e6].get(rng.random_range(0..5)).unwrap(),
        initial_window: rng.random_bool(0.5).then(|| rng.random_range(1..40)),
        ..Setup::default()
    };
    if rng.random_bool(0.1) {
        setup.workers = 32;
    }
    // Tests of liveness ignore stalls.
    setup.timing.stall_timeout = Duration::from_secs(3600);
    setup
}

pub(crate) fn random_faults(rng: &mut ChaCha8Rng) -> Faults {
    if rng.random_bool(0.2) {
        return QUIET;
    }
    Faults {
        loss: rng.random_range(0.0..0.3),
        duplicate: rng.random_range(0.0..0.3),
        late: rng.random_range(0.0..0.05),
        jitter: Duration::from_nanos(rng.random_range(0..100_000)),
        ..STORM
    }
}

fn seeds(fabric: Fabric, seeds: std::ops::Range<u64>, jobs: usize, overflows: f64) -> Vec<Net> {
    let one = |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x7269_7665_7200);
        let faults = random_faults(&mut rng);
        let pool = rng.random_range(1..=64);
        let load = |_| {
            let setup = Setup { pool, ..random_setup(&mut rng) };
            Load::random(&mut rng, setup, overflows)
        };
        let loads: Vec<Load> = (0..jobs).map(load).collect();
        run(seed, fabric, faults, &loads)
    };
    seeds.map(one).collect()
}

#[test]
fn exact_without_a_switch() {
    seeds(Fabric::Direct, 0..150, 1, 0.0);
}

#[test]
fn exact_without_a_switch_and_with_overflows() {
    let nets = seeds(Fabric::Direct, 1000..1150, 1, 0.01);
    let overflows: u64 = nets.iter().map(|net| net.jobs[0].server.stats().overflow_tasks).sum();
    assert!(overflows > 100, "{overflows}");
}

#[test]
fn exact_through_one_switch() {
    let nets = seeds(Fabric::OneSwitch, 2000..2150, 1, 0.003);
    let server = |f: fn(&tributary_protocol::server::Stats) -> u64| -> u64 {
        nets.iter().map(|net| f(net.jobs[0].server.stats())).sum()
    };
    // The tested case did occur.
    assert!(server(|s| s.complete_on_arrival) > 100);
    assert!(server(|s| s.overlaps) > 10, "{}", server(|s| s.overlaps));
    assert!(server(|s| s.collisions) > 100 && server(|s| s.marked) > 100);
    assert!(server(|s| s.replies) > 100 && server(|s| s.queries) > 100);
    let switch = |f: fn(&Counters) -> u64| -> u64 {
        nets.iter().map(|net| f(&net.switches[0].counters)).sum()
    };
    assert!(switch(|c| c.flushed) > 100 && switch(|c| c.takeovers) > 10);
}

#[test]
fn exact_through_two_levels() {
    let nets = seeds(Fabric::TwoLevels, 3000..3150, 1, 0.003);
    let completed: Vec<u64> =
        (0..2).map(|s| nets.iter().map(|net| net.switches[s].counters.completed).sum()).collect();
    assert!(completed.iter().all(|n| *n > 100), "{completed:?}");
}

#[test]
fn jobs_that_share_a_small_pool_do_not_disturb_each_other() {
    let nets = seeds(Fabric::OneSwitch, 4000..4060, 3, 0.003);
    let strays = nets.iter().flat_map(|net| &net.jobs);
    let rejected: u64 = strays.map(|job| job.server.stats().rejected.other_job).sum();
    assert!(rejected > 100);
    seeds(Fabric::TwoLevels, 5000..5060, 3, 0.003);
    seeds(Fabric::Direct, 6000..6030, 3, 0.003);
}

#[test]
fn a_seed_reproduces() {
    let once = || {
        let nets = seeds(Fabric::TwoLevels, 3007..3008, 2, 0.01);
        let net = nets.into_iter().next().unwrap();
        let stats: Vec<_> = net.jobs.iter().map(|job| *job.server.stats()).collect();
        let workers: Vec<_> =
            net.jobs.iter().flat_map(|job| &job.workers).map(|w| *w.stats()).collect();
        (net.now, net.delivered, stats, workers)
    };
    assert_eq!(once(), once());
}

#[test]
fn a_quiet_network_needs_no_resend() {
    for (fabric, slots) in [(Fabric::Direct, 64), (Fabric::OneSwitch, 64), (Fabric::TwoLevels, 16)]
    {
        let mut rng = ChaCha8Rng::seed_from_u64(9);
        let setup = Setup {
            workers: 5,
            slots,
            // Large enough that no two slots collide.
            pool: 1 << 20,
            ..Setup::default()
        };
        let load = Load {
            setup,
            tensors: vec![Inputs::random(&mut rng, 5, 4000, setup.scale, 0.0)],
            when: vec![vec![Time::ZERO]; 5],
        };
        let net = run(1, fabric, QUIET, &[load]);
        let server = net.jobs[0].server.stats();
        assert_eq!((server.replies, server.queries, server.timeouts), (0, 0, 0), "{fabric:?}");
        assert_eq!(server.rejected.total(), 0);
        for worker in &net.jobs[0].workers {
            assert_eq!((worker.stats().resent, worker.stats().timeouts), (0, 0), "{fabric:?}");
        }
        if fabric != Fabric::Direct {
            assert_eq!(server.complete_on_arrival, server.completed);
            assert_eq!(server.gradients, server.completed);
        }
    }
}
