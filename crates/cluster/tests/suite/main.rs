//! The steady-state simulator.

mod single_job;
mod steady;
