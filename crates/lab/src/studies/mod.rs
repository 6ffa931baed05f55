//! Experiments in virtual time.
//!
//! - [`training`]: training jobs at one switch, packet by packet, as in ESA's evaluation;
//! - [`testbed`]: a trace of training jobs at rates measured with packets, as on NetPack's testbed;
//! - [`sharing`]: the jobs' shares of a switch's memory and links, for comparison with a model;
//! - [`loss`]: the cost of loss for each protocol.

pub mod loss;
pub mod sharing;
pub mod testbed;
pub mod training;
