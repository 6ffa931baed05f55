//! Data-parallel training, one step at a time, and the same training in one process.
//!
//! A step computes the gradients of this worker's share of the batch, sums them over all workers
//! (elsewhere), and applies stochastic gradient descent with the sum. Every epoch shuffles the
//! training images, in the same way at all workers. Worker `w` of `n` takes part `w` of `n`
//! contiguous parts of each batch, whose sizes differ by at most one.

use std::ops::Range;

use crate::train::config::{Error, TrainConfig};
use crate::train::dataset::{Dataset, Sample, TRAIN_SAMPLES};
use crate::train::model::{self, Metrics, Model, TensorSpec};
use crate::train::random::Random;

/// Random number stream of the first epoch's order. Each later epoch uses the next stream.
const SHUFFLE_STREAM: u64 = 1 << 32;

impl TrainConfig {
    /// Number of steps of the whole training: batches per epoch times epochs.
    pub fn steps(&self) -> usize {
        self.epochs * TRAIN_SAMPLES.div_ceil(self.batch)
    }

    /// Name and shape of each tensor of gradients, in the order in which they are computed.
    pub fn tensors(&self) -> Vec<TensorSpec> {
        model::specs(self.hidden)
    }
}

/// The progress of a training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Number of steps taken.
    pub step: usize,
    /// Total number of steps.
    pub steps: usize,
    /// Number of completed epochs.
    pub epoch: usize,
    /// Total number of epochs.
    pub epochs: usize,
}

/// The order of the images.
#[derive(Clone, Debug)]
struct Schedule {
    seed: u64,
    epoch: usize,
    /// Indices of the training images in this epoch's order.
    order: Vec<usize>,
    /// Index in `order` of the start of the current batch.
    start: usize,
    batch: usize,
}

impl Schedule {
    fn new(config: &TrainConfig) -> Self {
        let mut schedule =
            Self { seed: config.seed, epoch: 0, order: Vec::new(), start: 0, batch: config.batch };
        schedule.shuffle();
        schedule
    }

    /// Starts from the sorted order, so that an epoch's order depends only on seed and epoch.
    fn shuffle(&mut self) {
        self.order = (0..TRAIN_SAMPLES).collect();
        Random::new(self.seed, SHUFFLE_STREAM + self.epoch as u64).shuffle(&mut self.order);
    }

    fn batch(&self) -> &[usize] {
        let end = self.order.len().min(self.start + self.batch);
        &self.order[self.start..end]
    }

    fn advance(&mut self) {
        self.start += self.batch;
        if self.start >= self.order.len() {
            self.start = 0;
            self.epoch += 1;
            self.shuffle();
        }
    }
}

/// The part of a batch of `len` images for worker `worker` of `workers`.
fn share(len: usize, worker: usize, workers: usize) -> Range<usize> {
    len * worker / workers..len * (worker + 1) / workers
}

/// One worker's side of the training.
#[derive(Clone, Debug)]
pub struct Trainer {
    config: TrainConfig,
    worker: usize,
    data: &'static Dataset,
    model: Model,
    /// Momentum of each weight.
    velocity: Vec<Vec<f32>>,
    schedule: Schedule,
    step: usize,
    gradients: Vec<Vec<f32>>,
    /// Whether `gradients` belong to the current step.
    computed: bool,
}

impl Trainer {
    /// Creates a trainer for worker `worker`, counted from 0, with the initial weights of the seed.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if the configuration is invalid, [`Error::NoSuchWorker`].
    pub fn new(config: TrainConfig, worker: usize) -> Result<Self, Error> {
        config.validate()?;
        if worker >= config.workers {
            return Err(Error::NoSuchWorker { worker, workers: config.workers });
        }
        let model = Model::new(config.hidden, config.seed);
        Ok(Self {
            worker,
            data: Dataset::digits(),
            velocity: model.zeros(),
            gradients: model.zeros(),
            schedule: Schedule::new(&config),
            step: 0,
            computed: false,
            model,
            config,
        })
    }

    /// This worker's gradients at the current step: the derivatives of the cross-entropy summed
    /// over its share of the batch, divided by the size of the whole batch. Each layer has one
    /// tensor of weights and one of biases, in the order of [`TrainConfig::tensors`]. Calls before
    /// the next [`apply`](Self::apply) return the same gradients.
    ///
    /// # Errors
    ///
    /// [`Error::Finished`] after the last step; [`Error::Diverged`] if a value is not finite.
    pub fn gradients(&mut self) -> Result<&[Vec<f32>], Error> {
        if !self.computed {
            let mut gradients = std::mem::take(&mut self.gradients);
            let outcome = self.share_gradients(self.worker, &mut gradients);
            self.gradients = gradients;
            outcome?;
            self.computed = true;
        }
        Ok(&self.gradients)
    }

    /// The [`gradients`](Self::gradients) of another worker in this step. All workers have the same
    /// weights and images, so this worker can compute them.
    ///
    /// # Errors
    ///
    /// As for [`gradients`](Self::gradients); [`Error::NoSuchWorker`].
    pub fn gradients_of(&self, worker: usize) -> Result<Vec<Vec<f32>>, Error> {
        let workers = self.config.workers;
        if worker >= workers {
            return Err(Error::NoSuchWorker { worker, workers });
        }
        let mut gradients = self.model.zeros();
        self.share_gradients(worker, &mut gradients)?;
        Ok(gradients)
    }

    /// Takes one step of gradient descent with the gradients summed over all workers, and moves to
    /// the next batch. Every worker must be given the same bits.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfTurn`] unless [`gradients`](Self::gradients) was called for this step,
    /// [`Error::WrongCount`] or [`Error::WrongLength`] if the sums do not fit the model. The
    /// trainer is then unchanged.
    pub fn apply(&mut self, summed: &[Vec<f32>]) -> Result<(), Error> {
        if !self.computed {
            return Err(Error::OutOfTurn { step: self.step });
        }
        self.update(summed)
    }

    /// Whether all steps are taken.
    pub fn is_finished(&self) -> bool {
        self.step == self.config.steps()
    }

    /// The progress of the training.
    pub fn progress(&self) -> Progress {
        Progress {
            step: self.step,
            steps: self.config.steps(),
            epoch: self.schedule.epoch,
            epochs: self.config.epochs,
        }
    }

    /// Loss and accuracy on all training images.
    pub fn train_metrics(&self) -> Metrics {
        self.model.metrics(self.data.train())
    }

    /// Loss and accuracy on the held-out images.
    pub fn test_metrics(&self) -> Metrics {
        self.model.metrics(self.data.test())
    }

    /// 64-bit FNV-1a digest of the weights' bits: equal for bit-identical weights.
    pub fn weights_digest(&self) -> u64 {
        self.model.digest()
    }

    /// The current classifier.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The configuration.
    pub fn config(&self) -> &TrainConfig {
        &self.config
    }

    fn samples<'a>(&'a self, indices: &'a [usize]) -> impl Iterator<Item = &'a Sample> {
        indices.iter().map(|index| &self.data.train()[*index])
    }

    fn share_gradients(&self, worker: usize, gradients: &mut [Vec<f32>]) -> Result<(), Error> {
        if self.is_finished() {
            return Err(Error::Finished { steps: self.step });
        }
        let batch = self.schedule.batch();
        let mine = &batch[share(batch.len(), worker, self.config.workers)];
        (self.model).gradients(self.samples(mine), batch.len(), gradients);
        for (tensor, values) in gradients.iter().enumerate() {
            if let Some(index) = values.iter().position(|value| !value.is_finite()) {
                return Err(Error::Diverged {
                    step: self.step,
                    worker,
                    tensor: self.model.specs()[tensor].name,
                    index,
                    value: values[index].to_string(),
                });
            }
        }
        Ok(())
    }

    fn update(&mut self, summed: &[Vec<f32>]) -> Result<(), Error> {
        self.model.check_lengths(summed)?;
        for (velocity, gradient) in self.velocity.iter_mut().flatten().zip(summed.iter().flatten())
        {
            *velocity = self.config.momentum * *velocity + gradient;
        }
        self.model.descend(&self.velocity, self.config.learning_rate);
        self.schedule.advance();
        self.step += 1;
        self.computed = false;
        Ok(())
    }
}

/// The outcome of a whole training.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The trained classifier.
    pub model: Model,
    /// The model's [`Model::digest`].
    pub digest: u64,
    /// On all training images, before the first step and after each epoch.
    pub train: Vec<Metrics>,
    /// On the held-out images, at the end.
    pub test: Metrics,
}

/// The same training in one process. At each step it computes the gradients of all workers' shares,
/// and `sum` sums them. `sum` receives one tensor of every worker, in the order of the workers.
///
/// # Errors
///
/// Those of [`Trainer`]; [`Error::WrongLength`] if `sum` returns another number of values than it
/// received.
pub fn reference(
    config: &TrainConfig,
    mut sum: impl FnMut(&[&[f32]]) -> Vec<f32>,
) -> Result<Outcome, Error> {
    let mut trainer = Trainer::new(*config, 0)?;
    let mut workers = vec![trainer.model.zeros(); config.workers];
    let mut train = vec![trainer.train_metrics()];
    while !trainer.is_finished() {
        for (worker, gradients) in workers.iter_mut().enumerate() {
            trainer.share_gradients(worker, gradients)?;
        }
        let summed: Vec<Vec<f32>> = (0..trainer.model.tensors().len())
            .map(|tensor| {
                let contributions: Vec<&[f32]> =
                    workers.iter().map(|own| own[tensor].as_slice()).collect();
                sum(&contributions)
            })
            .collect();
        trainer.update(&summed)?;
        if trainer.progress().epoch == train.len() {
            train.push(trainer.train_metrics());
        }
    }
    Ok(Outcome {
        digest: trainer.weights_digest(),
        test: trainer.test_metrics(),
        train,
        model: trainer.model,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::verify::exact_sum;

    const SCALE: f64 = (1u64 << 24) as f64;

    fn network(contributions: &[&[f32]]) -> Vec<f32> {
        exact_sum(contributions, SCALE, 64)
    }

    fn short(workers: usize) -> TrainConfig {
        TrainConfig { workers, epochs: 2, ..TrainConfig::default() }
    }

    /// All workers, each with its own trainer, as in a job.
    fn train_apart(config: TrainConfig) -> Vec<Trainer> {
        let mut trainers: Vec<Trainer> =
            (0..config.workers).map(|worker| Trainer::new(config, worker).unwrap()).collect();
        while !trainers[0].is_finished() {
            for worker in 0..config.workers {
                let seen_by_others = trainers[0].gradients_of(worker).unwrap();
                assert_eq!(trainers[worker].gradients().unwrap(), seen_by_others);
            }
            let summed: Vec<Vec<f32>> = (0..config.tensors().len())
                .map(|tensor| {
                    let all: Vec<&[f32]> =
                        trainers.iter().map(|t| &t.gradients[tensor][..]).collect();
                    network(&all)
                })
                .collect();
            for trainer in &mut trainers {
                trainer.apply(&summed).unwrap();
            }
        }
        trainers
    }

    #[test]
    fn all_workers_end_with_the_weights_of_the_reference() {
        for workers in [1, 2, 4, 8] {
            let config = short(workers);
            let outcome = reference(&config, network).unwrap();
            for trainer in train_apart(config) {
                assert_eq!(trainer.model(), &outcome.model, "{workers} workers");
                assert_eq!(trainer.weights_digest(), outcome.digest);
                assert_eq!(trainer.test_metrics(), outcome.test);
            }
        }
    }

    /// Recorded once. A different digest means that arithmetic, data, shuffling or initial weights
    /// changed, or that a platform computes differently.
    #[test]
    fn digest_is_the_recorded_one() {
        let outcome = reference(&short(4), network).unwrap();
        assert_eq!(format!("{:016x}", outcome.digest), "91f5c7df97d6e261");
    }

    #[test]
    fn one_seed_one_outcome() {
        let config = short(4);
        let first = reference(&config, network).unwrap();
        assert_eq!(first, reference(&config, network).unwrap());
        let other = TrainConfig { seed: 2, ..config };
        assert_ne!(first.digest, reference(&other, network).unwrap().digest);
    }

    /// Apart from fixed-point rounding, the number of workers does not change the trained model.
    #[test]
    fn number_of_workers_hardly_matters() {
        let losses: Vec<f64> = [1, 2, 4, 8]
            .map(|workers| reference(&short(workers), network).unwrap().test.loss)
            .to_vec();
        for loss in &losses {
            assert!((loss - losses[0]).abs() < 1e-3, "{losses:?}");
        }
    }

    #[test]
    fn learns_the_digits() {
        let outcome = reference(&TrainConfig::default(), network).unwrap();
        let losses: Vec<f64> = outcome.train.iter().map(|m| m.loss).collect();
        assert_eq!(losses.len(), 11);
        assert!(losses[0] > 2.0, "{losses:?}");
        assert!(losses[10] < 0.1, "{losses:?}");
        assert!(outcome.train[10].accuracy > 0.97, "{:?}", outcome.train);
        assert!(outcome.test.accuracy > 0.88, "{:?}", outcome.test);
    }

    #[test]
    fn learns_without_a_hidden_layer_and_momentum() {
        let config =
            TrainConfig { hidden: 0, momentum: 0.0, learning_rate: 0.5, ..TrainConfig::default() };
        let outcome = reference(&config, network).unwrap();
        assert!(outcome.train[10].loss < 0.3, "{:?}", outcome.train);
        assert!(outcome.test.accuracy > 0.85, "{:?}", outcome.test);
    }

    #[test]
    fn shares_cover_a_batch_once_and_evenly() {
        for len in [1, 29, 64, 1437] {
            for workers in 1..=32 {
                let shares: Vec<_> = (0..workers).map(|w| share(len, w, workers)).collect();
                let all: Vec<usize> = shares.iter().cloned().flatten().collect();
                assert!(all.into_iter().eq(0..len));
                let sizes = shares.iter().map(ExactSizeIterator::len);
                assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1);
            }
        }
    }

    #[test]
    fn an_epoch_sees_every_image_once() {
        let mut schedule = Schedule::new(&TrainConfig::default());
        let mut orders = Vec::new();
        for _ in 0..3 {
            let epoch = schedule.epoch;
            let mut seen = Vec::new();
            while schedule.epoch == epoch {
                seen.extend_from_slice(schedule.batch());
                schedule.advance();
            }
            let mut sorted = seen.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..TRAIN_SAMPLES));
            orders.push(seen);
        }
        assert!(orders[0] != orders[1] && orders[1] != orders[2]);
    }

    /// 1437 = 22 · 64 + 29: the last batch is divided by 29. With 32 workers some have no image.
    #[test]
    fn last_batch_is_a_mean_of_what_is_left() {
        let config = TrainConfig { workers: 32, epochs: 1, ..TrainConfig::default() };
        assert_eq!(config.steps(), 23);
        let mut one = Trainer::new(TrainConfig { workers: 1, ..config }, 0).unwrap();
        for _ in 0..22 {
            let own = one.gradients().unwrap().to_vec();
            one.apply(&own).unwrap();
        }
        assert_eq!(one.schedule.batch().len(), 29);
        let mut many = one.clone();
        many.config.workers = 32;
        let mut sum = one.model.zeros();
        let mut idle = 0;
        for worker in 0..32 {
            let mut own = one.model.zeros();
            many.share_gradients(worker, &mut own).unwrap();
            idle += usize::from(own.iter().flatten().all(|v| *v == 0.0));
            for (total, value) in sum.iter_mut().flatten().zip(own.iter().flatten()) {
                *total += value;
            }
        }
        assert_eq!(idle, 3);
        let whole = one.gradients().unwrap();
        for (a, b) in sum.iter().flatten().zip(whole.iter().flatten()) {
            assert!((a - b).abs() < 1e-6);
        }
    }

    #[test]
    fn momentum_and_rate_follow_their_definition() {
        let config = TrainConfig {
            workers: 1,
            learning_rate: 0.5,
            momentum: 0.25,
            hidden: 0,
            ..TrainConfig::default()
        };
        let mut trainer = Trainer::new(config, 0).unwrap();
        let before = trainer.model.tensors()[0][0];
        let constant: Vec<Vec<f32>> =
            (trainer.model.zeros().iter()).map(|t| vec![1.0; t.len()]).collect();
        for _ in 0..2 {
            trainer.gradients().unwrap();
            trainer.apply(&constant).unwrap();
        }
        // First step 1, second 1 + 0.25, each halved.
        assert_eq!(trainer.model.tensors()[0][0], before - 0.5 - 0.625);
    }

    #[test]
    fn misuse_is_refused_and_changes_nothing() {
        let config = short(2);
        assert_eq!(
            Trainer::new(config, 2).unwrap_err(),
            Error::NoSuchWorker { worker: 2, workers: 2 }
        );
        let mut trainer = Trainer::new(config, 0).unwrap();
        let digest = trainer.weights_digest();
        let own = trainer.model.zeros();
        assert_eq!(trainer.apply(&own), Err(Error::OutOfTurn { step: 0 }));
        let own = trainer.gradients().unwrap().to_vec();
        assert_eq!(trainer.gradients().unwrap(), own);
        let expected = Error::WrongCount { expected: 4, got: 3 };
        assert_eq!(trainer.apply(&own[..3]), Err(expected));
        let mut short = own.clone();
        short[1].pop();
        let expected = Error::WrongLength { tensor: 1, expected: 10, got: 9 };
        assert_eq!(trainer.apply(&short), Err(expected));
        assert_eq!(trainer.weights_digest(), digest);
        trainer.apply(&own).unwrap();
        assert_eq!(trainer.apply(&own), Err(Error::OutOfTurn { step: 1 }));
    }

    #[test]
    fn after_the_last_step_there_is_nothing_to_compute() {
        let config =
            TrainConfig { workers: 1, epochs: 1, batch: TRAIN_SAMPLES, ..TrainConfig::default() };
        let mut trainer = Trainer::new(config, 0).unwrap();
        let own = trainer.gradients().unwrap().to_vec();
        trainer.apply(&own).unwrap();
        assert!(trainer.is_finished());
        let done = Progress { step: 1, steps: 1, epoch: 1, epochs: 1 };
        assert_eq!(trainer.progress(), done);
        assert_eq!(trainer.gradients(), Err(Error::Finished { steps: 1 }));
    }

    #[test]
    fn divergence_is_reported() {
        let config = TrainConfig { learning_rate: 1e30, ..TrainConfig::default() };
        let error = reference(&config, network).unwrap_err();
        assert!(matches!(error, Error::Diverged { .. }), "{error}");
        assert!(error.to_string().contains("lower the learning rate"));
    }
}
