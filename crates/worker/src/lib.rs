//! Worker runtime: tensors in, sums out.
//!
//! A [`Node`] is a worker of a job on a network port; [`tensors`] reads and writes files of tensors
//! and sums. The protocol itself is in `tributary-protocol`.
//!
//! | module | content |
//! | --- | --- |
//! | [`workload`] | the source of a job's tensors, and their expected sums |
//! | [`rounds`] | one worker's rounds: tensors, pauses, verification |
//! | [`measured`] | what a worker measures of its job meanwhile |
//! | [`live`] | those rounds over a port, in real time |
//! | [`numbers`] | what running workers count, for metrics |
//! | [`rounding`] | the effect of fixed point on the values |
//! | [`lost`] | the time that repairs cost, in words |
//! | [`daemon`] | `tributary worker` |
//!
//! Sums of floats are exact after rounding to fixed point; [`Node::stats`] counts its effect.

pub mod daemon;
pub mod live;
pub mod lost;
pub mod measured;
mod node;
pub mod numbers;
mod part;
mod parts;
pub mod rounding;
pub mod rounds;
pub mod tensors;
pub mod train;
mod waits;
pub mod workload;

pub use node::{Error, Lane, Node, Sums};
