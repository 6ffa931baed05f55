//! Tensors of random numbers that depend only on the seed, the worker and the round.

use anyhow::Result;
use rand::Rng;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use tributary_jobfile::{Distribution, RandomTensors};
use tributary_protocol::Tensor;

use super::Workload;

pub(super) struct Random {
    description: RandomTensors,
    workers: usize,
    worker: usize,
    /// Number of rounds begun.
    round: u64,
    /// The tensor of the last round.
    current: Tensor,
}

impl Random {
    pub(super) fn new(description: RandomTensors, workers: usize, worker: usize) -> Self {
        Self { description, workers, worker, round: 0, current: Tensor::F32(Vec::new()) }
    }

    fn tensor(&self, worker: usize, number: u64) -> Tensor {
        let RandomTensors { elements, seed, distribution, magnitude, .. } = self.description;
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream((worker as u64) << 32 | number);
        let draw = |_| match distribution {
            Distribution::Uniform => (magnitude * random.random_range(-1.0..=1.0)) as f32,
            Distribution::Normal => {
                // The Box–Muller transform; 1 − u is never zero.
                let radius = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt();
                let angle = std::f64::consts::TAU * random.random::<f64>();
                (magnitude * radius * angle.cos()) as f32
            }
        };
        Tensor::F32((0..elements).map(draw).collect())
    }
}

impl Workload for Random {
    fn rounds(&self) -> u64 {
        self.description.rounds()
    }

    fn repeats(&self) -> u64 {
        self.description.repeat.into()
    }

    fn warm_up(&self) -> u64 {
        self.description.warm_up.into()
    }

    fn next(&mut self) -> Result<Option<Vec<Tensor>>> {
        if self.round == self.rounds() {
            return Ok(None);
        }
        if self.round.is_multiple_of(self.repeats()) {
            self.current = self.tensor(self.worker, self.round / self.repeats());
        }
        self.round += 1;
        let last = self.round.is_multiple_of(self.repeats());
        let tensor = if last {
            std::mem::replace(&mut self.current, Tensor::F32(Vec::new()))
        } else {
            self.current.clone()
        };
        Ok(Some(vec![tensor]))
    }

    fn everyone(&mut self) -> Result<Option<Vec<Vec<Tensor>>>> {
        let number = (self.round - 1) / self.repeats();
        Ok(Some((0..self.workers).map(|worker| vec![self.tensor(worker, number)]).collect()))
    }

    fn finish(&mut self, _: Vec<Tensor>) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_come_as_often_as_they_should_and_everyone_knows_them() {
        let description = RandomTensors {
            tensors: 2,
            repeat: 3,
            warm_up: 1,
            elements: 5,
            seed: 7,
            distribution: Distribution::Uniform,
            magnitude: 1.0,
        };
        let once = RandomTensors { repeat: 1, warm_up: 0, ..description.clone() };
        let mut expected = Random::new(once, 2, 1);
        let mut repeated = Random::new(description, 2, 1);
        assert_eq!(repeated.rounds(), 6);
        while let Some(tensors) = expected.next().unwrap() {
            let everyone = expected.everyone().unwrap().unwrap();
            assert_eq!(everyone[1], tensors);
            for _ in 0..3 {
                assert_eq!(repeated.next().unwrap().unwrap(), tensors);
                assert_eq!(repeated.everyone().unwrap().unwrap(), everyone);
            }
        }
        assert_eq!(repeated.next().unwrap(), None);
    }
}
