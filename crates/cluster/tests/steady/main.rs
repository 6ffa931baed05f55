//! The steady state of many jobs: the fast way against algorithm 1, both against linear programs, and
//! what the readings of the paper's lines come to.
//!
//! A seed decides everything. `TRIBUTARY_SEED=n` runs one of them, `TRIBUTARY_SEEDS=n` as many as that:
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

/// The seeds to run, unless others are asked for.
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

/// Whether two rates are the same but for rounding.
fn near(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= 1e-7 * a.abs().max(b.abs()).max(1.0)
}
