//! The policies from the outside.

mod all_reduce;
mod baselines;
mod common;
mod enable;
mod feasible;
mod readings;
mod same_plans;
