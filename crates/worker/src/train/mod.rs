//! The training example: a small classifier of handwritten digits, trained data-parallel.
//!
//! Every worker holds a copy of the same [`Model`] and takes its share of every batch. A
//! [`Trainer`] computes that share's gradients, something else sums them over the workers, and
//! each trainer applies the same sums to its copy:
//!
//! ```
//! use tributary_worker::train::{TrainConfig, Trainer};
//!
//! let config = TrainConfig { workers: 1, epochs: 1, ..TrainConfig::default() };
//! let mut trainer = Trainer::new(config, 0)?;
//! while !trainer.is_finished() {
//!     let summed = trainer.gradients()?.to_vec(); // the all-reduce goes here
//!     trainer.apply(&summed)?;
//! }
//! assert!(trainer.test_metrics().accuracy > 0.5);
//! # Ok::<(), tributary_worker::train::Error>(())
//! ```
//!
//! The arithmetic is plain sequential `f32` in one fixed order, without threads and without the
//! platform's `exp`, and all randomness comes from the seed. So the weights are bit-identical at
//! all workers, and equal to those of [`reference()`], which trains in one process and takes the
//! summing function as an argument.
//!
//! [`verify`] computes the exact sums that the network's results must equal. It deliberately shares
//! no code with the endpoints.
//!
//! This module has no networking. Start reading at [`trainer`].

mod config;
mod dataset;
mod digest;
mod exp;
mod model;
mod random;
pub mod trainer;
pub mod verify;

pub use config::{Error, TrainConfig};
pub use dataset::{CLASSES, Dataset, DatasetError, PIXELS, Sample, TEST_SAMPLES, TRAIN_SAMPLES};
pub use model::{Metrics, Model, TensorSpec};
pub use trainer::{Outcome, Progress, Trainer, reference};
