//! Tests of the policies through the public interface.

mod all_reduce;
mod baselines;
mod common;
mod enable;
mod explain;
mod feasible;
mod readings;
mod same_plans;
