//! Worker runtime: tensors in, summed tensors out.
//!
//! A [`Node`] is a worker of a job on a network port; [`tensors`] reads and writes the files that
//! tensors come from and sums go to. The protocol itself is in `tributary-protocol`.
//!
//! | module | concern |
//! | --- | --- |
//! | [`workload`] | where a job's tensors come from, and what their sums must be |
//! | [`rounds`] | one worker's rounds: tensors, pauses, comparison with sums computed apart |
//! | [`live`] | those rounds over a port, in real time |
//! | [`alone`] | a worker with its parameter server in one process |
//! | [`rounding`] | what fixed point made of the values |
//! | [`daemon`] | `tributary worker` |
//!
//! Sums of floats are exact after rounding to fixed point; [`Node::stats`] tells what that cost.

pub mod alone;
pub mod daemon;
pub mod live;
mod node;
pub mod rounding;
pub mod rounds;
pub mod tensors;
pub mod workload;

pub use node::{Error, Node};
