//! Training on the handwritten digits: one round per step of gradient descent.

use std::ops::Range;

use crate::train::{Metrics, TrainConfig, Trainer};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use tributary_model::Digits;
use tributary_protocol::Tensor;

use super::{Rule, Workload};

pub(super) struct Training {
    trainer: Trainer,
    workers: usize,
    first: Metrics,
}

/// The result of a training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainingReport {
    /// Steps taken.
    pub steps: usize,
    /// Epochs completed.
    pub epochs: usize,
    /// Loss on the training images before the first step.
    pub first_loss: f64,
    /// Loss on the training images at the end.
    pub loss: f64,
    /// Fraction of the test images that is recognised.
    pub test_accuracy: f64,
    /// Digest of the weights' bits.
    pub weights: String,
}

/// The configuration of a training that a job file describes.
pub(super) fn config(digits: &Digits, workers: usize) -> TrainConfig {
    TrainConfig {
        workers,
        epochs: digits.epochs as usize,
        batch: digits.batch as usize,
        learning_rate: digits.learning_rate as f32,
        momentum: digits.momentum as f32,
        hidden: digits.hidden as usize,
        seed: digits.seed,
    }
}

impl Training {
    pub(super) fn new(digits: &Digits, workers: usize, worker: usize) -> Result<Self> {
        let trainer = Trainer::new(config(digits, workers), worker)?;
        let first = trainer.train_metrics();
        Ok(Self { trainer, workers, first })
    }
}

fn tensors(gradients: Vec<Vec<f32>>) -> Vec<Tensor> {
    gradients.into_iter().map(Tensor::from).collect()
}

impl Workload for Training {
    fn rounds(&self) -> u64 {
        self.trainer.config().steps() as u64
    }

    fn next(&mut self) -> Result<Option<Vec<Tensor>>> {
        if self.trainer.is_finished() {
            return Ok(None);
        }
        Ok(Some(tensors(self.trainer.gradients()?.to_vec())))
    }

    fn everyone(&mut self, _: Option<&Range<usize>>) -> Result<Option<Vec<Vec<Tensor>>>> {
        let of = |worker| Ok(tensors(self.trainer.gradients_of(worker)?));
        (0..self.workers).map(of).collect::<Result<_>>().map(Some)
    }

    fn finish(&mut self, sums: Vec<Tensor>) -> Result<()> {
        let floats = |tensor| match tensor {
            Tensor::F32(values) => Some(values.into()),
            Tensor::I32(_) => None,
        };
        let summed: Vec<Vec<f32>> = sums.into_iter().filter_map(floats).collect();
        Ok(self.trainer.apply(&summed)?)
    }

    fn note(&self) -> Option<String> {
        let progress = self.trainer.progress();
        let steps_an_epoch = progress.steps / progress.epochs;
        progress.step.is_multiple_of(steps_an_epoch).then(|| {
            format!(
                "epoch {:>2} of {}: loss {:.4}, {:4.1} % of the test images recognised",
                progress.epoch,
                progress.epochs,
                self.trainer.train_metrics().loss,
                100.0 * self.trainer.test_metrics().accuracy
            )
        })
    }

    fn training(&self) -> Option<TrainingReport> {
        let progress = self.trainer.progress();
        let train = self.trainer.train_metrics();
        Some(TrainingReport {
            steps: progress.step,
            epochs: progress.epoch,
            first_loss: self.first.loss,
            loss: train.loss,
            test_accuracy: self.trainer.test_metrics().accuracy,
            weights: format!("{:016x}", self.trainer.weights_digest()),
        })
    }
}

/// Digest of the weights of the same training in one process.
///
/// # Errors
/// If the training diverges.
pub fn reference_digest(
    digits: &Digits,
    workers: usize,
    epochs: usize,
    rule: Rule,
) -> Result<String> {
    let config = TrainConfig { epochs, ..config(digits, workers) };
    let outcome = crate::train::reference(&config, |all| rule.sum(all))?;
    Ok(format!("{:016x}", outcome.digest))
}
