//! I1–I7 of the protocols under random networks, jobs and faults: the endpoints and the P4 program
//! together, in virtual time.
//!
//! A run is a function of its seed. `TRIBUTARY_SEED=n` replays one and prints its frames if it
//! fails; `TRIBUTARY_SEEDS=n` runs that many.

use std::collections::HashMap;
use std::time::Duration;

use crate::exact::{check_exact, describe, seeds};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_controller::programs::Source;
use tributary_model::jobfile::parse;
use tributary_model::{Scenario, SwitchSettings};
use tributary_protocol::Tensor;
use tributary_sim::{Cable, Inputs, Options, Program, run};

/// Default number of seeds.
const SEEDS: u64 = 300;

/// A random job file: pools of a few aggregators, windows larger than them, tensors of some dozen
/// fragments, one to three jobs in one or two racks, and links with all kinds of faults.
fn job_file(random: &mut ChaCha8Rng) -> String {
    let jobs = random.random_range(1..=3);
    let racks = random.random_range(1..=2);
    let workers: Vec<u32> = (0..jobs).map(|_| random.random_range(1..=4)).collect();
    let hosts: u32 = workers.iter().sum();
    let pool = [1, 3, 16, 256].choose(random).copied().unwrap_or(16);
    let slots = [4, 16, 64].choose(random).copied().unwrap_or(16);
    let mut file = format!(
        "[topology]\n{}\n[protocol]\nvalues_per_packet = 32\nslots = {slots}\nwindow = {}\n\
         scale = 1000.0\n[switch]\npool = {pool}\necn_threshold = {}\nqueue_capacity = {}\n\
         idle_timeout = \"{}us\"\n",
        if racks == 1 {
            format!("kind = \"star\"\nworkers = {hosts}")
        } else {
            format!(
                "kind = \"racks\"\nracks = 2\nhosts_per_rack = {}\nps_rack = {}",
                hosts.div_ceil(2),
                random.random_range(1..=2)
            )
        },
        random.random_range(1..=slots),
        random.random_range(2..8),
        random.random_range(8..64),
        [100, 5_000, 50_000].choose(random).copied().unwrap_or(5_000),
    );
    let mut fault =
        |most: f64| if random.random_bool(0.7) { random.random_range(0.0..most) } else { 0.0 };
    file += &format!(
        "[faults]\nloss = {:.3}\nduplicate = {:.3}\nreorder = {:.3}\n",
        fault(0.25),
        fault(0.3),
        fault(0.3)
    );
    file += &format!("jitter = \"{}us\"\n", random.random_range(0..50));
    // Distribute hosts so that no host has two workers.
    let mut names: Vec<u32> = (1..=hosts).collect();
    for own in workers {
        let names: Vec<String> =
            names.drain(..own as usize).map(|name| format!("\"w{name}\"")).collect();
        file += &format!("[[job]]\nworkers = [{}]\n", names.join(", "));
        if random.random_bool(0.3) {
            let delay = random.random_range(1..30);
            file += &format!("[[job.straggler]]\nworker = 0\ndelay = \"{delay}ms\"\n");
        }
    }
    file
}

/// Tensors for every worker: floats that sometimes overflow their fixed point, or integers.
fn inputs(scenario: &Scenario, random: &mut ChaCha8Rng) -> Inputs {
    let of_job = |workers: usize, random: &mut ChaCha8Rng| {
        let mut all = vec![Vec::new(); workers];
        for _ in 0..random.random_range(1..=3) {
            let values = random.random_range(0..1500);
            let integers = random.random_bool(0.3);
            let overflows = random.random_bool(0.3);
            let limit = i32::MAX / workers as i32;
            for own in &mut all {
                own.push(if integers {
                    Tensor::I32((0..values).map(|_| random.random_range(-limit..=limit)).collect())
                } else {
                    let mut float = |_| {
                        let great = overflows && random.random_bool(0.001);
                        random.random_range(-1e3..1e3) * if great { 1e6 } else { 1.0 }
                    };
                    Tensor::F32((0..values).map(&mut float).collect())
                });
            }
        }
        all
    };
    scenario.jobs.iter().map(|job| of_job(job.workers.len(), random)).collect()
}

/// Programs by their settings: compiling takes longer than many runs.
#[derive(Default)]
struct Programs(HashMap<(u32, u128, u32), Program>);

impl Programs {
    fn get(&mut self, settings: &SwitchSettings) -> &Program {
        let key = (settings.pool, settings.idle_timeout.as_micros(), settings.ecn_threshold);
        self.0.entry(key).or_insert_with(|| {
            Program::compile(&Source::built_in("atp").unwrap(), settings).unwrap()
        })
    }
}

fn try_seed(seed: u64, programs: &mut Programs, trace: bool) -> Result<(), String> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let file = job_file(&mut random);
    let scenario = parse(&file, "random.toml").map_err(|error| format!("{error}\n{file}"))?;
    let inputs = inputs(&scenario, &mut random);
    let options = Options {
        cable: Cable { bandwidth: 1e9, latency: Duration::from_micros(2) },
        limit: Duration::from_secs(120),
        trace,
        ..Options::seeded(seed)
    };
    let program = programs.get(&scenario.network.switch);
    let outcome =
        run(&scenario, program, inputs.clone(), &options).map_err(|error| error.to_string())?;
    let failed = |what: String| Err(format!("{what}\n{}\n{file}", describe(&outcome)));
    if !outcome.complete {
        return failed("I7: not every sum came in".into());
    }
    if let Err(difference) = check_exact(&scenario, &inputs, &outcome.sums) {
        return failed(format!("I1, I2, I5: {difference}"));
    }
    if outcome.left_behind > 0 {
        return failed(format!("I3, I4: {} aggregators left behind", outcome.left_behind));
    }
    Ok(())
}

#[test]
fn hold_under_random_faults() {
    let mut programs = Programs::default();
    let (seeds, single) = seeds(SEEDS);
    for seed in seeds {
        if let Err(failure) = try_seed(seed, &mut programs, single) {
            panic!("seed {seed} (replay with TRIBUTARY_SEED={seed}): {failure}");
        }
    }
}

#[test]
fn a_seed_decides_everything() {
    let mut random = ChaCha8Rng::seed_from_u64(12);
    let file = job_file(&mut random);
    let scenario = parse(&file, "random.toml").unwrap();
    let inputs = inputs(&scenario, &mut random);
    let program =
        Program::compile(&Source::built_in("atp").unwrap(), &scenario.network.switch).unwrap();
    let options = Options { trace: true, ..Options::seeded(5) };
    let once = run(&scenario, &program, inputs.clone(), &options).unwrap();
    let again = run(&scenario, &program, inputs.clone(), &options).unwrap();
    assert_eq!(once.trace.unwrap().to_string(), again.trace.unwrap().to_string());
    let other = run(&scenario, &program, inputs, &Options::seeded(6)).unwrap();
    assert_ne!(once.faults, other.faults);
}
