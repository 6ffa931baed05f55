//! Seeds, exact sums, and reports of failed runs.

use std::env;
use std::ops::Range;

use tributary_model::{JobSpec, Protocol, Scenario};
use tributary_protocol::Tensor;
use tributary_sim::{Inputs, Outcome};
use tributary_worker::train::verify;

/// The seeds to run, and whether a single one was requested.
pub(crate) fn seeds(default: u64) -> (Range<u64>, bool) {
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse().ok());
    match number("TRIBUTARY_SEED") {
        Some(seed) => (seed..seed + 1, true),
        None => (0..number("TRIBUTARY_SEEDS").unwrap_or(default), false),
    }
}

/// Compares all sums, bit by bit, with those computed without the endpoints' code.
pub(crate) fn check_exact(
    scenario: &Scenario,
    inputs: &Inputs,
    sums: &Inputs,
) -> Result<(), String> {
    check_sums(scenario, inputs, sums, |_| false)
}

/// The same, but some jobs may lack sums.
pub(crate) fn check_sums(
    scenario: &Scenario,
    inputs: &Inputs,
    sums: &Inputs,
    may_miss: impl Fn(usize) -> bool,
) -> Result<(), String> {
    let fragment = usize::from(scenario.network.switch.values_per_packet);
    let jobs = scenario.jobs.iter().enumerate();
    for ((index, job), (inputs, sums)) in jobs.zip(inputs.iter().zip(sums)) {
        for round in 0..inputs[0].len() {
            let all: Vec<&Tensor> = inputs.iter().map(|own| &own[round]).collect();
            let expected = expected(&all, job, fragment)?;
            for (worker, own) in sums.iter().enumerate() {
                let place = format!("job {}, worker {worker}, tensor {round}", job.name);
                let Some(got) = own.get(round) else {
                    if may_miss(index) {
                        continue;
                    }
                    return Err(format!("{place}: no sum"));
                };
                same(&expected, got).map_err(|difference| format!("{place}: {difference}"))?;
            }
        }
    }
    Ok(())
}

fn expected(all: &[&Tensor], job: &JobSpec, fragment: usize) -> Result<Tensor, String> {
    let floats: Vec<&[f32]> = all
        .iter()
        .filter_map(|tensor| match tensor {
            Tensor::F32(values) => Some(&values[..]),
            Tensor::I32(_) => None,
        })
        .collect();
    if floats.len() == all.len() {
        let sum = match job.protocol {
            Protocol::Atp | Protocol::Esa => verify::exact_sum(&floats, job.scale, fragment),
            Protocol::P4inc | Protocol::SwitchMl => ladder_sum(&floats, job.scale, fragment),
        };
        return Ok(Tensor::F32(sum.into()));
    }
    let integers: Vec<&[i32]> = all
        .iter()
        .filter_map(|tensor| match tensor {
            Tensor::I32(values) => Some(&values[..]),
            Tensor::F32(_) => None,
        })
        .collect();
    verify::exact_sum_i32(&integers).map(Tensor::from).map_err(|error| error.to_string())
}

/// The powers of two by which the scale is divided, step by step, for a fragment that does not fit.
pub(crate) const LADDER: [i32; 8] = [0, 4, 8, 16, 32, 64, 96, 128];

/// The sums of P4INC and SwitchML: each fragment at the first scale of the ladder at which all
/// values of all workers fit.
fn ladder_sum(all: &[&[f32]], scale: f64, fragment: usize) -> Vec<f32> {
    let limit = f64::from(i32::MAX / i32::try_from(all.len()).unwrap());
    let mut sums = Vec::new();
    for start in (0..all[0].len()).step_by(fragment) {
        let values = start..all[0].len().min(start + fragment);
        let column = |at: usize| all.iter().map(move |own| f64::from(own[at]));
        let scales = LADDER.map(|exponent| scale / 2f64.powi(exponent));
        let fits = |scale: &f64| {
            let mut columns = values.clone().flat_map(column);
            columns.all(|value| (value * scale).round_ties_even().abs() <= limit)
        };
        let scale = scales.into_iter().find(fits).expect("what never fits is refused");
        sums.extend(values.clone().map(|at| {
            let sum: i64 = column(at).map(|value| (value * scale).round_ties_even() as i64).sum();
            (sum as f64 / scale) as f32
        }));
    }
    sums
}

fn same(expected: &Tensor, got: &Tensor) -> Result<(), String> {
    let result = match (expected, got) {
        (Tensor::F32(expected), Tensor::F32(got)) => verify::same_bits(expected, got),
        (Tensor::I32(expected), Tensor::I32(got)) => verify::same_integers(expected, got),
        _ => return Err("another type".into()),
    };
    result.map_err(|difference| difference.to_string())
}

/// Describes a failed run.
pub(crate) fn describe(outcome: &Outcome) -> String {
    let mut text = format!(
        "after {:?}, faults {:?}\nservers {:#?}\nstalls {:?}\n",
        outcome.time, outcome.faults, outcome.servers, outcome.stalls
    );
    if let Some(trace) = &outcome.trace {
        text += &trace.to_string();
    }
    text
}
