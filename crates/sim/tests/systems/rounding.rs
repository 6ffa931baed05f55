//! The workers' counters of rounding errors, compared with an `f64` computation over whole tensors.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_model::{Protocol, Scenario};
use tributary_protocol::Tensor;
use tributary_protocol::fixed::Rounding;
use tributary_sim::{Inputs, Options, run};

use crate::cases::{program, scenario};
use crate::exact::{LADDER, check_exact, describe, seeds};

const PROTOCOLS: [&str; 4] = ["atp", "esa", "p4inc", "switchml"];
const VALUES: usize = 64;

fn job(protocol: &str, rest: &str) -> Scenario {
    scenario(&format!(
        "protocol = \"{protocol}\"\n[topology]\nkind = \"star\"\n{rest}[[job]]\nworkers = 3\n"
    ))
}

/// The expected errors of one worker's values: `all` has the tensors of all workers.
fn expected(scenario: &Scenario, all: &[Vec<f32>], worker: usize) -> Rounding {
    let job = &scenario.jobs[0];
    let limit = f64::from(i32::MAX / i32::try_from(all.len()).unwrap());
    let mut expected = Rounding::default();
    for start in (0..all[0].len()).step_by(VALUES) {
        let part = start..all[0].len().min(start + VALUES);
        let fits = |scale: f64| {
            let values = all.iter().flat_map(|own| &own[part.clone()]);
            values.into_iter().all(|v| (f64::from(*v) * scale).round_ties_even().abs() <= limit)
        };
        let ladder = matches!(job.protocol, Protocol::P4inc | Protocol::SwitchMl);
        let rungs = if ladder { &LADDER[..] } else { &LADDER[..1] };
        let rung = rungs.iter().position(|exponent| fits(job.scale / 2f64.powi(*exponent)));
        for value in &all[worker][part] {
            if *value == 0.0 {
                continue;
            }
            expected.values += 1;
            let Some(rung) = rung else { continue };
            let scale = job.scale / 2f64.powi(LADDER[rung]);
            let units = f64::from(value.abs()) * scale;
            let zeroed = units.round_ties_even() == 0.0;
            expected.zeroed += u64::from(zeroed);
            expected.zeroed_coarser += u64::from(zeroed && rung > 0);
            expected.imprecise += u64::from(!zeroed && units < 50.0);
            if rung == 0 {
                expected.greatest = expected.greatest.max(value.abs());
                let least = Some(expected.least).filter(|least| *least > 0.0);
                expected.least = least.unwrap_or(f32::MAX).min(value.abs());
            }
        }
    }
    expected
}

/// Sums the tensors, one per worker, and returns the counters of each, which must be as expected.
fn count(scenario: &Scenario, all: &[Vec<f32>], seed: u64) -> Vec<Rounding> {
    let inputs: Inputs =
        vec![all.iter().map(|values| vec![Tensor::F32(values.clone().into())]).collect()];
    let options = Options::seeded(seed);
    let outcome = run(scenario, &program(scenario), inputs.clone(), &options).unwrap();
    assert!(outcome.complete, "seed {seed}: {}", describe(&outcome));
    check_exact(scenario, &inputs, &outcome.sums).unwrap();
    let counted: Vec<Rounding> = outcome.workers[0].iter().map(|stats| stats.rounding).collect();
    for (worker, counted) in counted.iter().enumerate() {
        let expected = expected(scenario, all, worker);
        let place = format!("{}, seed {seed}, worker {worker}", scenario.jobs[0].protocol.name());
        assert_eq!(*counted, expected, "{place}");
    }
    counted
}

/// A value of N(0, deviation), by the Box–Muller transform.
fn normal(random: &mut ChaCha8Rng, deviation: f64) -> f32 {
    let (radius, angle): (f64, f64) = (1.0 - random.random::<f64>(), random.random());
    (deviation * (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()) as f32
}

#[test]
fn rounding_errors_are_counted_once_under_network_faults() {
    let faults = "[faults]\nloss = 0.05\nduplicate = 0.05\nreorder = 0.05\n";
    for protocol in PROTOCOLS {
        let scenario = job(protocol, faults);
        for seed in seeds(20).0 {
            let random = &mut ChaCha8Rng::seed_from_u64(seed);
            let mut value = || match random.random_range(0..200) {
                0 => normal(random, 1e6),
                1..20 => 0.0,
                _ => {
                    let deviation = 10f64.powi(random.random_range(-8..1));
                    normal(random, deviation)
                }
            };
            let all: Vec<Vec<f32>> =
                (0..3).map(|_| (0..10 * VALUES + 7).map(|_| value()).collect()).collect();
            let counted = count(&scenario, &all, seed);
            assert!(counted.iter().all(|own| own.zeroed > 0 && own.zeroed < own.values));
        }
    }
}

#[test]
fn nearly_all_values_of_a_small_deviation_become_zero() {
    for protocol in PROTOCOLS {
        let scenario = job(protocol, "");
        let random = &mut ChaCha8Rng::seed_from_u64(1);
        let all: Vec<Vec<f32>> =
            (0..3).map(|_| (0..4 * VALUES).map(|_| normal(random, 1e-7)).collect()).collect();
        for own in count(&scenario, &all, 1) {
            assert!(own.zeroed >= 4 * VALUES as u64 - 1, "{own:?}");
            assert_eq!(own.zeroed_coarser, 0);
        }
    }
}

#[test]
fn a_large_value_makes_its_neighbours_zero_at_coarser_scales() {
    for protocol in PROTOCOLS {
        let scenario = job(protocol, "");
        let mut all = vec![vec![1.0f32; 4 * VALUES]; 3];
        all[1][VALUES + 5] = 3e37;
        let ladder = matches!(protocol, "p4inc" | "switchml");
        for (worker, own) in count(&scenario, &all, 1).iter().enumerate() {
            let neighbours = if worker == 1 { VALUES as u64 - 1 } else { VALUES as u64 };
            let zeroed = if ladder { neighbours } else { 0 };
            assert_eq!((own.zeroed, own.zeroed_coarser), (zeroed, zeroed), "{protocol}");
        }
    }
}
