//! The pause of a worker before each round: a straggler's delay, and a random part.

use std::time::Duration;

use rand::Rng;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use tributary_model::{JobSpec, Scenario};
use tributary_wire::WorkerIndex;

/// Separates these numbers from others drawn from the same seed.
const STREAM: u64 = 0x7061_7573;

/// The pauses of one worker, determined by the scenario's seed, the job and the worker.
pub struct Pauses {
    delay: Duration,
    jitter: Duration,
    random: ChaCha8Rng,
}

impl Pauses {
    /// The pauses of a worker of a job.
    #[must_use]
    pub fn new(scenario: &Scenario, job: &JobSpec, worker: WorkerIndex) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(scenario.seed);
        let endpoint = u64::from(job.id.get()) << 8 | u64::from(worker.get());
        random.set_stream(STREAM << 32 | endpoint);
        Self { delay: job.straggler_delay(worker), jitter: job.jitter, random }
    }

    /// The pause before the next round.
    pub fn draw(&mut self) -> Duration {
        self.delay + self.jitter.mul_f64(self.random.random_range(0.0..=1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(seed: u64, worker: u16, text: &str) -> Vec<Duration> {
        let text = format!("seed = {seed}\n[[job]]\nworkers = 2\n{text}");
        let scenario = tributary_model::jobfile::parse(&text, "f").unwrap();
        let worker = WorkerIndex::new(worker).unwrap();
        let mut pauses = Pauses::new(&scenario, &scenario.jobs[0], worker);
        (0..1000).map(|_| pauses.draw()).collect()
    }

    #[test]
    fn jitter_is_uniform_and_follows_from_the_seed() {
        let text = "jitter = \"300us\"\n[[job.straggler]]\nworker = 1\ndelay = \"1ms\"\n";
        let (first, second) = (pauses(1, 0, text), pauses(1, 1, text));
        assert_eq!(first, pauses(1, 0, text));
        assert_ne!(first, pauses(2, 0, text));
        let low = Duration::from_millis(1);
        assert!(
            second.iter().all(|pause| (low..=low + Duration::from_micros(300)).contains(pause))
        );
        assert_ne!(first[0], second[0] - low, "workers differ");
        let mean = first.iter().sum::<Duration>() / 1000;
        assert!((140..160).contains(&mean.as_micros()), "{mean:?}");
        assert!(first.iter().max() > Some(&Duration::from_micros(295)));
    }

    #[test]
    fn workers_without_delay_and_jitter_do_not_pause() {
        assert!(pauses(1, 0, "").iter().all(Duration::is_zero));
    }
}
