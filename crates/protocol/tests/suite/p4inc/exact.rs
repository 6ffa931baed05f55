//! Whole jobs through networks that lose, duplicate, delay and reorder frames: every sum is exact
//! at the rung that the largest value needs, all workers have the same bits, and every fragment
//! completes.

use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_protocol::{Mode, ParameterServer, Time};
use tributary_wire::Protocol;

use crate::p4inc::expect::{Inputs, bits};
use crate::p4inc::net::{Faults, Net, QUIET};
use crate::p4inc::setup::{FORWARDED, LOCAL, PARTIAL, SWITCHML, Setup};
use crate::p4inc::switch::Flaw;

/// A test case: the job's parameters, the number of switches, and the probability of large values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) setup: Setup,
    pub(crate) units: usize,
    pub(crate) faults: Faults,
    pub(crate) great: f64,
}

impl Case {
    /// Like `base`, with random values for parameters that do not matter to the mode.
    pub(crate) fn random(rng: &mut ChaCha8Rng, base: Setup) -> Self {
        let slots = 1 << rng.random_range(0..6);
        let partial = base.mode == Mode::Partial;
        let setup = Setup {
            service: if base.service == 0 { 0 } else { rng.random_range(1..=255) },
            size: match (base.protocol, base.mode) {
                (Protocol::SwitchMl, _) => 2 * slots + rng.random_range(0..5),
                (_, Mode::Local) => slots + rng.random_range(0..9),
                (_, Mode::Partial) => rng.random_range(1..=2 * slots),
                (_, Mode::Forwarded) => 0,
            },
            workers: match rng.random_range(0..20) {
                0 => 32,
                _ => rng.random_range(if partial { 2..=8 } else { 1..=8 }),
            },
            values: rng.random_range(1..=9),
            slots,
            scale: [1.0, 1000.0, 65536.0, 0.1, 1e6][rng.random_range(0..5)],
            initial_window: rng.random_bool(0.5).then(|| rng.random_range(1..40)),
            ..base
        };
        let units = match base.mode {
            Mode::Local => 1,
            _ => rng
                .random_range(1..=3)
                .min(usize::from(setup.workers))
                .max(1 + usize::from(partial)),
        };
        let great = if rng.random_bool(0.5) { 0.0 } else { rng.random_range(0.0..0.2) };
        Self { setup, units, faults: Faults::random(rng), great }
    }

    pub(crate) fn start(&self, seed: u64, flaw: Option<Flaw>) -> Net {
        Net::new(seed, self.setup, self.units, self.faults, flaw)
    }

    pub(crate) fn tensors(&self, rng: &mut ChaCha8Rng) -> Vec<Inputs> {
        let Setup { values, workers, scale, .. } = self.setup;
        let most = usize::from(values) * rng.random_range(1..60);
        let count = rng.random_range(1..4);
        (0..count).map(|_| Inputs::random(rng, workers, most, scale, self.great)).collect()
    }
}

/// Virtual time after which a run counts as stuck.
const LIMIT: Duration = Duration::from_secs(600);

/// Sums tensors, and checks the results and the workers' reports.
pub(crate) fn iterate(
    net: &mut Net,
    rng: &mut ChaCha8Rng,
    tensors: &[Inputs],
    setup: &Setup,
) -> Result<(), String> {
    let before: Vec<(u64, u64, usize)> = net
        .workers
        .iter()
        .zip(&net.results)
        .map(|(w, results)| (w.stats().results, w.stats().coarser, results.len()))
        .collect();
    let values = usize::from(setup.values);
    let mut order: Vec<usize> = (0..net.workers.len()).collect();
    for w in (1..order.len()).rev() {
        order.swap(w, rng.random_range(0..=w));
    }
    for worker in order {
        for inputs in tensors {
            net.workers[worker].submit(inputs.of(worker)).map_err(|e| e.to_string())?;
        }
        // The next worker is late.
        let most = if rng.random_bool(0.5) { 20_000_000 } else { 10_000 };
        net.run_for(Duration::from_nanos(rng.random_range(0..most)));
    }
    net.finish(LIMIT)?;
    let rungs: Vec<u8> = tensors.iter().flat_map(|t| t.rungs(setup.scale, values)).collect();
    let climbs: u64 = rungs.iter().map(|r| u64::from(*r)).sum();
    for (worker, (results, coarser, len)) in before.into_iter().enumerate() {
        let got = &net.results[worker][len..];
        if got.len() != tensors.len() {
            return Err(format!("worker {worker}: {} tensors", got.len()));
        }
        for (t, (got, inputs)) in got.iter().zip(tensors).enumerate() {
            if bits(got) != inputs.sums(setup.scale, values) {
                return Err(format!("worker {worker}, tensor {t}: wrong sums"));
            }
        }
        let stats = net.workers[worker].stats();
        let counted = (stats.results - results, stats.coarser - coarser);
        if counted != (rungs.len() as u64, climbs) {
            return Err(format!("worker {worker}: {counted:?} results, {climbs} climbs"));
        }
    }
    Ok(())
}

fn run(seed: u64, base: Setup) -> Net {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let case = Case::random(&mut rng, base);
    let tensors = case.tensors(&mut rng);
    let mut net = case.start(seed, None);
    let result = iterate(&mut net, &mut rng, &tensors, &case.setup);
    result.unwrap_or_else(|error| panic!("seed {seed}, {case:?}: {error}"));
    net
}

const SEEDS: u64 = 300;

#[test]
fn local_jobs_are_exact_without_a_server() {
    let mut repaired = 0;
    for seed in 0..SEEDS {
        let net = run(seed, LOCAL);
        assert!(net.server_is_silent(), "seed {seed}");
        let counters = net.switches[0].counters;
        assert_eq!((counters.asynchronous, counters.outside, counters.rejected), (0, 0, 0));
        repaired += counters.repeated;
    }
    assert!(repaired > 1000, "{repaired} results from the copies");
}

#[test]
fn switchml_jobs_are_exact() {
    let mut repaired = 0;
    for seed in 0..SEEDS {
        let net = run(seed, SWITCHML);
        let counters = net.switches[0].counters;
        assert_eq!((counters.asynchronous, counters.outside, counters.rejected), (0, 0, 0));
        repaired += counters.repeated;
    }
    assert!(repaired > 1000, "{repaired} results from the cells");
}

#[test]
fn jobs_over_several_units_are_exact() {
    let (mut asynchronous, mut repaired, mut resent, mut replies) = (0, 0, 0, 0);
    for seed in 0..SEEDS {
        let net = run(seed, PARTIAL);
        for switch in &net.switches {
            asynchronous += switch.counters.asynchronous;
            repaired += switch.counters.repeated;
            resent += switch.counters.resent;
            assert_eq!((switch.counters.outside, switch.counters.rejected), (0, 0));
        }
        replies += net.server.as_ref().unwrap().stats().replies;
    }
    for (what, count) in [
        ("turned back", asynchronous),
        ("from copies", repaired),
        ("partial sums again", resent),
        ("from the server", replies),
    ] {
        assert!(count > 100, "{count} {what}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for base in [LOCAL, PARTIAL, FORWARDED, SWITCHML] {
        let [one, other] = [0, 1].map(|_| {
            let net = run(7, base);
            let stats: Vec<_> = net.workers.iter().map(|w| *w.stats()).collect();
            (net.now, stats, net.switches[0].counters)
        });
        assert_eq!(one, other);
    }
}

#[test]
fn the_runs_climb_to_every_rung() {
    let mut climbs = [0; 8];
    for seed in 0..SEEDS {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let case = Case::random(&mut rng, LOCAL);
        for tensor in case.tensors(&mut rng) {
            let rungs = tensor.rungs(case.setup.scale, case.setup.values.into());
            rungs.iter().for_each(|rung| climbs[usize::from(*rung)] += 1);
        }
    }
    assert!(climbs.iter().all(|count| *count > 50), "{climbs:?}");
}

#[test]
fn forwarded_jobs_are_exact() {
    for seed in 0..SEEDS {
        let net = run(seed, FORWARDED);
        let counters = net.switches[0].counters;
        assert_eq!((counters.absorbed, counters.rejected), (0, 0));
    }
}

#[test]
fn a_job_is_moved_while_old_packets_are_in_flight() {
    let mut late = 0;
    for seed in 0..SEEDS {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let slots = 1 << rng.random_range(0..5);
        let units = rng.random_range(1..=2);
        let case = Case {
            setup: Setup {
                workers: 4,
                slots,
                size: slots + 3,
                ..if units == 1 { LOCAL } else { PARTIAL }
            },
            units,
            faults: Faults { late: 0.05, ..Faults::random(&mut rng) },
            great: 0.02,
        };
        let mut net = case.start(seed, None);
        for service in 17..23 {
            let forwarded = rng.random_bool(0.4);
            let setup = match forwarded {
                true => FORWARDED,
                false => Setup { service, size: slots + rng.random_range(0..9), ..case.setup },
            };
            net.reassign(setup.assignment());
            assert_eq!(net.mode(), setup.mode);
            let tensors = case.tensors(&mut rng);
            let result = iterate(&mut net, &mut rng, &tensors, &case.setup);
            result.unwrap_or_else(|error| panic!("seed {seed}, {setup:?}: {error}"));
        }
        late += net.workers.iter().map(|w| w.stats().rejected.other_service).sum::<u64>();
        late += net.switches.iter().map(|s| s.counters.rejected).sum::<u64>();
    }
    assert!(late > 100, "{late} packets of another service");
}

#[test]
fn a_server_is_replaced_between_iterations() {
    for seed in 0..100 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let base = if seed % 2 == 0 { PARTIAL } else { FORWARDED };
        let case = Case::random(&mut rng, base);
        let mut net = case.start(seed, None);
        for _ in 0..4 {
            let tensors = case.tensors(&mut rng);
            let result = iterate(&mut net, &mut rng, &tensors, &case.setup);
            result.unwrap_or_else(|error| panic!("seed {seed}, {case:?}: {error}"));
            // By then even the latest frames have arrived.
            net.run_for(Duration::from_secs(1));
            net.server = Some(ParameterServer::new(case.setup.server()).unwrap());
        }
    }
}

#[test]
fn a_server_is_replaced_at_random_times_in_an_iteration() {
    for base in [PARTIAL, FORWARDED] {
        let (mut replaced, mut adopted, mut handed_over) = (0, 0, 0);
        for seed in 0..200 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x6465_6164);
            let case = Case::random(&mut rng, base);
            let tensors = case.tensors(&mut rng);
            let mut net = case.start(seed, None);
            let spread = [300_000, 3_000_000, 40_000_000][seed as usize % 3];
            let mut at = Time::ZERO;
            for _ in 0..20 {
                at += Duration::from_nanos(rng.random_range(0..spread));
                net.replacements.insert(0, at);
            }
            let result = iterate(&mut net, &mut rng, &tensors, &case.setup);
            result.unwrap_or_else(|error| panic!("seed {seed}, {case:?}: {error}"));
            replaced += 20 - net.replacements.len();
            adopted += net.adopted;
            handed_over += net.switches.iter().map(|s| s.counters.handed_over).sum::<u64>();
        }
        assert!(replaced > 500 && adopted > 50, "{base:?}: {replaced} {adopted}");
        assert_eq!(handed_over > 100, base.mode == Mode::Partial, "{base:?}: {handed_over}");
    }
}

#[test]
fn a_too_large_window_over_two_units_is_halved_and_sums_are_exact() {
    // 32 slots on 4 aggregators, in a network without faults.
    let setup = Setup { slots: 32, size: 4, workers: 4, initial_window: Some(32), ..PARTIAL };
    let case = Case { setup, units: 2, faults: QUIET, great: 0.0 };
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut net = case.start(1, None);
    assert_eq!(net.workers[0].window(), 32);
    let tensors = [Inputs::random(&mut rng, 4, 2000, setup.scale, 0.0)];
    iterate(&mut net, &mut rng, &tensors, &setup).unwrap();
    for (worker, switch) in net.workers.iter().zip([0, 1, 0, 1]) {
        assert!(net.switches[switch].counters.asynchronous > 0);
        let stats = worker.stats();
        assert!(stats.asynchronous > 0 && worker.window() <= 16, "{stats:?}");
    }
}

#[test]
fn results_that_no_or_one_or_every_worker_gets_are_repaired_from_the_copy() {
    for lost in 0..8u8 {
        let case = Case { setup: LOCAL, units: 1, faults: QUIET, great: 0.0 };
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut net = case.start(1, None);
        // Drop the results of every fifth fragment, including the last, in the switch's first
        // transmission.
        net.filter = Some(Box::new(move |_, to, packet| {
            let crate::p4inc::net::Node::Worker(worker) = to else { return false };
            let first = packet.kind() == tributary_wire::Kind::Parameter;
            first && lost >> worker & 1 == 1 && packet.round().fragment % 5 == 4
        }));
        let tensors = [Inputs::I32(vec![(0..100).collect(); 3])];
        iterate(&mut net, &mut rng, &tensors, &LOCAL).unwrap();
        assert!(net.server_is_silent());
        let counters = net.switches[0].counters;
        assert!(counters.repeated >= 10 * u64::from(lost.count_ones()), "{lost:b}: {counters:?}");
    }
}
