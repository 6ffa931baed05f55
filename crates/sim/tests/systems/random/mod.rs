//! ESA's invariants I1–I7 under random networks, jobs, priorities, faults, deaths and broken
//! connections: the endpoints and the P4 program together, in virtual time.
//!
//! A seed decides everything. `TRIBUTARY_SEED=n` runs one of them; `TRIBUTARY_SEEDS=n` runs as many
//! as that, on all cores. One that fails is shrunk to a small case, whose course is printed as a
//! sequence chart.

mod broken;
mod case;
mod judge;
mod seeds;
mod shrink;

use judge::Judge;
use tributary_controller::programs::Source;

use crate::exact::seeds;

/// Seeds of a test run without further orders.
const SEEDS: u64 = 2_000;

#[test]
fn hold_under_random_schedules() {
    let judge = Judge::new(Source::built_in("esa").unwrap());
    let (seeds, _) = seeds(SEEDS);
    seeds::hold(&judge, seeds);
}
