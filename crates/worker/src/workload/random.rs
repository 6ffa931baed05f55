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
    round: u32,
}

impl Random {
    pub(super) fn new(description: RandomTensors, workers: usize, worker: usize) -> Self {
        Self { description, workers, worker, round: 0 }
    }

    fn tensor(&self, worker: usize, round: u32) -> Tensor {
        let RandomTensors { elements, seed, distribution, magnitude, .. } = self.description;
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream((worker as u64) << 32 | u64::from(round));
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
        self.description.tensors.into()
    }

    fn next(&mut self) -> Result<Option<Vec<Tensor>>> {
        if self.round == self.description.tensors {
            return Ok(None);
        }
        let tensor = self.tensor(self.worker, self.round);
        self.round += 1;
        Ok(Some(vec![tensor]))
    }

    fn everyone(&mut self) -> Result<Option<Vec<Vec<Tensor>>>> {
        let round = self.round - 1;
        Ok(Some((0..self.workers).map(|worker| vec![self.tensor(worker, round)]).collect()))
    }

    fn finish(&mut self, _: Vec<Tensor>) -> Result<()> {
        Ok(())
    }
}
