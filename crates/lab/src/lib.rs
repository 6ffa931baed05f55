//! Measurements, simulations and trials.

pub mod bench;
pub mod chaos;
pub mod figures;
pub mod soak;
pub mod studies;
