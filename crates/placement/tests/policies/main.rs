//! NetPack and the policies that it is compared with, from the outside.

mod baselines;
mod common;
mod enable;
mod feasible;
mod readings;
mod same_plans;
