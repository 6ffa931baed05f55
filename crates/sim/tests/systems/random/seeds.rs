//! Runs many seeds on all cores.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::case::Case;
use super::judge::{Judge, Violation};
use super::shrink::{Shrunk, shrink};

/// Number of printed rows of a chart.
const ROWS: usize = 80;

/// The first failing seed, if there is one.
pub(crate) fn first_failure(
    judge: &Judge,
    seeds: Range<u64>,
    case: impl Fn(u64) -> Case + Sync,
) -> Option<(u64, Case, Violation)> {
    let next = AtomicU64::new(seeds.start);
    let failed: Mutex<Option<(u64, Case, Violation)>> = Mutex::new(None);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || failed.lock().unwrap().is_some() {
                        return;
                    }
                    let case = case(seed);
                    if let Err(violation) = judge.judge(&case) {
                        failed.lock().unwrap().get_or_insert((seed, case, violation));
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap()
}

/// A report of a failed seed.
pub(crate) fn report(judge: &Judge, seed: u64, first: &Violation, shrunk: &Shrunk) -> String {
    let Shrunk { case, violation } = shrunk;
    let mut text = format!(
        "seed {seed} (replay with TRIBUTARY_SEED={seed}) violates {} {}\n\
         shrunk, it still does: {}\n\n{}",
        first.invariant,
        first.what,
        violation.what,
        case.job_file()
    );
    for (time, act) in &case.acts {
        let _ = writeln!(text, "# after {time:?}: {act:?}");
    }
    for (time, long) in &case.outages {
        let _ = writeln!(text, "# after {time:?}: no link between the units for {long:?}");
    }
    if let Some(only) = &case.only {
        let _ = writeln!(text, "# disturbed: {} frames", only.len());
    }
    if let Some(chart) = judge.chart(case, "") {
        // The start of a chart is enough for a run that waits forever.
        let chart = chart.to_string();
        let rows: Vec<&str> = chart.lines().take(ROWS).collect();
        let _ = writeln!(text, "\n{}", rows.join("\n"));
        if chart.lines().count() > ROWS {
            text += "and so on\n";
        }
    }
    text
}

/// Runs seeds; panics with a report of the first failure.
pub(crate) fn hold(judge: &Judge, seeds: Range<u64>, case: impl Fn(u64) -> Case + Sync) {
    if let Some((seed, case, first)) = first_failure(judge, seeds, case) {
        let shrunk = shrink(judge, case, first.clone());
        panic!("{}", report(judge, seed, &first, &shrunk));
    }
}
