//! Distributions of requested GPUs that replace a trace's: figures 7 and 8 of NetPack repeat their
//! runs with Poisson and normal demands.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Trace;

/// A distribution of the number of GPUs per job. Values below 1 become 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Demand {
    /// Poisson.
    Poisson {
        /// Mean number of GPUs.
        mean: f64,
    },
    /// Normal, rounded to the nearest integer.
    Normal {
        /// Mean number of GPUs.
        mean: f64,
        /// Standard deviation of the number of GPUs.
        deviation: f64,
    },
}

impl Demand {
    /// Assigns every job of a trace a demand of this distribution. Times are unchanged.
    pub fn apply(self, trace: &mut Trace, seed: u64) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        for job in &mut trace.submissions {
            job.gpus = self.draw(&mut rng);
        }
    }

    /// Draws the demand of one job.
    pub fn draw(self, rng: &mut impl Rng) -> u32 {
        let drawn = match self {
            Self::Poisson { mean } => poisson(mean, rng),
            Self::Normal { mean, deviation } => mean + deviation * normal(rng),
        };
        drawn.round().clamp(1.0, f64::from(u32::MAX)) as u32
    }
}

/// Number of arrivals within a time of `mean` in a Poisson process of rate 1.
fn poisson(mean: f64, rng: &mut impl Rng) -> f64 {
    let mut count = 0.0;
    let mut time = exponential(rng);
    while time <= mean {
        count += 1.0;
        time += exponential(rng);
    }
    count
}

fn exponential(rng: &mut impl Rng) -> f64 {
    // In (0, 1], so that its logarithm is finite.
    -(1.0 - rng.random::<f64>()).ln()
}

/// Standard normal (Box and Muller).
fn normal(rng: &mut impl Rng) -> f64 {
    let radius = (2.0 * exponential(rng)).sqrt();
    radius * (std::f64::consts::TAU * rng.random::<f64>()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and variance of many draws.
    fn moments(draw: impl Fn(&mut ChaCha8Rng) -> f64) -> (f64, f64) {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let draws: Vec<f64> = (0..40_000).map(|_| draw(&mut rng)).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let squares: f64 = draws.iter().map(|draw| (draw - mean).powi(2)).sum();
        (mean, squares / draws.len() as f64)
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let (mean, variance) = moments(|rng| poisson(5.0, rng));
        assert!((mean - 5.0).abs() < 0.06 && (variance - 5.0).abs() < 0.2, "{mean} {variance}");
        let (mean, variance) = moments(normal);
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.04, "{mean} {variance}");
    }

    #[test]
    fn a_job_requests_at_least_one_gpu() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for demand in [Demand::Poisson { mean: 0.5 }, Demand::Normal { mean: 0.0, deviation: 3.0 }]
        {
            let draws: Vec<u32> = (0..1000).map(|_| demand.draw(&mut rng)).collect();
            assert_eq!(draws.iter().min(), Some(&1));
            assert!(draws.iter().max() > Some(&1), "{demand:?}");
        }
    }
}
