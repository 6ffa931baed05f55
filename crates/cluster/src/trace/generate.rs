//! Synthetic traces like Philly's, of any length and without original data.
//!
//! As in the original trace, times between submissions depend on the hour of day, and durations on
//! the number of GPUs. Between two known quantiles with a known mean, drawn values have that mean.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::philly::{DURATIONS_BY_GPUS, GAPS_BY_HOUR, GPUS, Marginal, PARTS};
use super::{DAY_S, Submission, Trace};

/// Generates submissions.
#[derive(Clone, Debug)]
pub struct Generator {
    rng: ChaCha8Rng,
    /// Time of the next submission in seconds from the first, which is at midnight.
    now_s: f64,
    line: u32,
}

impl Generator {
    /// A generator. Equal seeds give equal traces.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // The header of a table is line 1.
        Self { rng: ChaCha8Rng::seed_from_u64(seed), now_s: 0.0, line: 2 }
    }

    /// A trace of `jobs` jobs.
    #[must_use]
    pub fn trace(jobs: usize, seed: u64) -> Trace {
        Trace {
            file: format!("generated with seed {seed}").into(),
            submissions: Self::new(seed).take(jobs).collect(),
            groups: Vec::new(),
            told: Vec::new(),
            models: Vec::new(),
            time_of_day_s: 0.0,
            warnings: Vec::new(),
        }
    }

    /// Draws a value of a distribution, in whole seconds.
    fn draw(&mut self, marginal: &Marginal) -> f64 {
        let at: f64 = self.rng.random();
        let part = PARTS.partition_point(|&part| part <= at).clamp(1, PARTS.len() - 1) - 1;
        let within = (at - PARTS[part]) / (PARTS[part + 1] - PARTS[part]);
        let ((low, mean), (high, _)) = (marginal[part], marginal[part + 1]);
        if mean <= low || high <= mean {
            return mean;
        }
        // The mean of low + (high - low) x^k over x from 0 to 1 is low + (high - low) / (k + 1).
        let exponent = (high - low) / (mean - low) - 1.0;
        let value = low + (high - low) * within.powf(exponent);
        let whole = value.floor();
        whole + f64::from(u8::from(self.rng.random::<f64>() < value - whole))
    }

    fn gpus(&mut self) -> u32 {
        let all: u32 = GPUS.iter().map(|&(_, jobs)| jobs).sum();
        let mut at = self.rng.random_range(0..all);
        for &(gpus, jobs) in &GPUS {
            if at < jobs {
                return gpus;
            }
            at -= jobs;
        }
        1
    }
}

impl Iterator for Generator {
    type Item = Submission;

    /// The next submission; never `None`.
    fn next(&mut self) -> Option<Submission> {
        let gpus = self.gpus();
        let duration_s = self.draw(&DURATIONS_BY_GPUS[class(gpus)]).max(1.0);
        let (line, submit_s) = (self.line, self.now_s);
        let submission = Submission { submit_s, duration_s, line, gpus, group: None, told: None };
        let hour = (self.now_s.rem_euclid(DAY_S) / 3600.0) as usize;
        self.now_s += self.draw(&GAPS_BY_HOUR[hour.min(23)]);
        self.line += 1;
        Some(submission)
    }
}

/// The class of durations for a number of GPUs: one, two to seven, or more.
#[must_use]
pub const fn class(gpus: u32) -> usize {
    match gpus {
        0 | 1 => 0,
        2..8 => 1,
        _ => 2,
    }
}
