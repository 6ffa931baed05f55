//! Tensors of random numbers that depend only on the seed, the worker and the round.

use std::ops::Range;

use anyhow::Result;
use rand::Rng;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use tributary_model::{Distribution, RandomTensors, Verify};
use tributary_protocol::Tensor;

use super::Workload;

pub(super) struct Random {
    description: RandomTensors,
    /// Those that take part.
    workers: Vec<usize>,
    worker: usize,
    /// Number of rounds begun.
    round: u64,
    /// The tensor of the last round.
    current: Tensor,
}

impl Random {
    pub(super) fn new(description: RandomTensors, workers: usize, worker: usize) -> Self {
        let (workers, current) = ((0..workers).collect(), Tensor::F32(Vec::new().into()));
        Self { description, workers, worker, round: 0, current }
    }

    /// Some elements of a worker's tensor.
    fn tensor(&self, worker: usize, number: u64, part: Range<usize>) -> Tensor {
        let RandomTensors { seed, distribution, magnitude, .. } = self.description;
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream((worker as u64) << 32 | number);
        // Words of 32 bits that an element takes from the stream.
        let words = match distribution {
            Distribution::Uniform => 2,
            Distribution::Normal => 4,
        };
        random.set_word_pos(words * part.start as u128);
        let draw = |_| match distribution {
            Distribution::Uniform => (magnitude * random.random_range(-1.0..=1.0)) as f32,
            Distribution::Normal => {
                // The Box–Muller transform; 1 − u is never zero.
                let radius = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt();
                let angle = std::f64::consts::TAU * random.random::<f64>();
                (magnitude * radius * angle.cos()) as f32
            }
        };
        Tensor::F32(part.map(draw).collect())
    }

    fn elements(&self) -> usize {
        self.description.elements as usize
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
            let number = self.round / self.repeats();
            self.current = self.tensor(self.worker, number, 0..self.elements());
        }
        self.round += 1;
        let last = self.round.is_multiple_of(self.repeats());
        let tensor = if last {
            std::mem::replace(&mut self.current, Tensor::F32(Vec::new().into()))
        } else {
            self.current.clone()
        };
        Ok(Some(vec![tensor]))
    }

    fn part(&self, fragment: usize) -> Option<Range<usize>> {
        if self.description.verify == Verify::All {
            return None;
        }
        let fragments = self.elements().div_ceil(fragment);
        let start = |worker: usize| {
            (fragments * worker / self.workers.len() * fragment).min(self.elements())
        };
        Some(start(self.worker)..start(self.worker + 1))
    }

    fn everyone(&mut self, part: Option<&Range<usize>>) -> Result<Option<Vec<Vec<Tensor>>>> {
        let number = (self.round - 1) / self.repeats();
        let part = part.cloned().unwrap_or(0..self.elements());
        let of = |worker| vec![self.tensor(worker, number, part.clone())];
        Ok(Some(self.workers.iter().copied().map(of).collect()))
    }

    fn go_on(&mut self, done: u64, workers: &[usize]) -> Result<()> {
        self.workers = workers.to_vec();
        self.round = done;
        if !done.is_multiple_of(self.repeats()) {
            self.current = self.tensor(self.worker, done / self.repeats(), 0..self.elements());
        }
        Ok(())
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
            verify: Verify::All,
        };
        let once = RandomTensors { repeat: 1, warm_up: 0, ..description.clone() };
        let mut expected = Random::new(once, 2, 1);
        let mut repeated = Random::new(description, 2, 1);
        assert_eq!(repeated.rounds(), 6);
        while let Some(tensors) = expected.next().unwrap() {
            let everyone = expected.everyone(None).unwrap().unwrap();
            assert_eq!(everyone[1], tensors);
            for _ in 0..3 {
                assert_eq!(repeated.next().unwrap().unwrap(), tensors);
                assert_eq!(repeated.everyone(None).unwrap().unwrap(), everyone);
            }
        }
        assert_eq!(repeated.next().unwrap(), None);
    }

    #[test]
    fn rounds_are_summed_again_with_the_same_tensors_of_fewer_workers() {
        let description = RandomTensors {
            tensors: 3,
            repeat: 2,
            warm_up: 0,
            elements: 5,
            seed: 7,
            distribution: Distribution::Normal,
            magnitude: 1.0,
            verify: Verify::All,
        };
        let rounds = |random: &mut Random| {
            let round = |random: &mut Random| {
                Some((random.next().unwrap()?, random.everyone(None).unwrap().unwrap()))
            };
            std::iter::from_fn(|| round(random)).collect::<Vec<_>>()
        };
        let all = rounds(&mut Random::new(description.clone(), 3, 2));
        assert_eq!(all.len(), 6);
        for done in 0..=6 {
            // One that is in the round, and one that has its sum.
            for summed in done..=(done + 1).min(6) {
                let mut random = Random::new(description.clone(), 3, 2);
                (0..=summed).for_each(|_| drop(random.next().unwrap()));
                random.go_on(done, &[0, 2]).unwrap();
                let again = rounds(&mut random);
                assert_eq!(again.len() as u64, 6 - done);
                for ((own, some), (before, everyone)) in again.iter().zip(&all[done as usize..]) {
                    assert_eq!(own, before);
                    assert_eq!(some, &[everyone[0].clone(), everyone[2].clone()]);
                }
            }
        }
    }

    #[test]
    fn shares_of_whole_fragments_cover_a_tensor_once() {
        for distribution in [Distribution::Uniform, Distribution::Normal] {
            for (elements, fragment, workers) in [(1_000, 64, 3), (64, 64, 4), (5, 2, 2), (7, 1, 7)]
            {
                let description = RandomTensors {
                    tensors: 1,
                    repeat: 1,
                    warm_up: 0,
                    elements,
                    seed: 7,
                    distribution,
                    magnitude: 1.0,
                    verify: Verify::Share,
                };
                let mut end = 0;
                for worker in 0..workers {
                    let mut own = Random::new(description.clone(), workers, worker);
                    own.next().unwrap();
                    let part = own.part(fragment).unwrap();
                    assert_eq!(part.start, end);
                    assert!(part.start.is_multiple_of(fragment) || part.is_empty());
                    end = part.end;
                    let whole = own.everyone(None).unwrap().unwrap();
                    let shares = own.everyone(Some(&part)).unwrap().unwrap();
                    for (whole, share) in whole.iter().zip(&shares) {
                        let [Tensor::F32(whole)] = &whole[..] else { panic!("one tensor") };
                        assert_eq!(share[..], [Tensor::F32(whole[part.clone()].to_vec().into())]);
                    }
                }
                assert_eq!(end as u64, elements);
            }
        }
    }
}
