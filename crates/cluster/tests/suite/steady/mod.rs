//! The steady state of many jobs: the fast implementation against algorithm 1, both against linear
//! programs, and the effects of each interpretation of the paper's lines.
//!
//! A seed determines a run. `TRIBUTARY_SEED=n` runs one seed, `TRIBUTARY_SEEDS=n` runs n seeds:
//!
//! ```sh
//! TRIBUTARY_SEEDS=100000 cargo test -p tributary-cluster --test steady incremental
//! ```

mod fair;
mod hierarchy;
mod incremental;
mod oracle;
mod random;
mod readings;

use std::ops::Range;

/// The seeds to run, unless the environment selects others.
fn seeds(usual: u64) -> Range<u64> {
    let number = |name| {
        let text = std::env::var(name).ok()?;
        Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not '{text}'")))
    };
    if let Some(seed) = number("TRIBUTARY_SEED") {
        return seed..seed + 1;
    }
    0..number("TRIBUTARY_SEEDS").unwrap_or(usual)
}

/// Whether two rates are equal up to rounding.
fn near(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= 1e-7 * a.abs().max(b.abs()).max(1.0)
}
