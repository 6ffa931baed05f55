//! Worker runtime: tensors in, summed tensors out.
//!
//! A [`Node`] is a worker of a job on a network port; [`tensors`] reads and writes the files that
//! tensors come from and sums go to. The protocol itself is in `tributary-protocol`.
//!
//! Sums of floats are exact after rounding to fixed point; [`Node::stats`] tells what that cost.

mod node;
pub mod tensors;

pub use node::{Error, Node};
