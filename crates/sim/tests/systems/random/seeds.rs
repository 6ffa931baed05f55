//! Runs many seeds on all cores.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::case::{Calm, Case};
use super::judge::{Judge, Violation};
use super::liveness::Wait;
use super::shrink::{Shrunk, shrink};

/// Number of printed rows of a chart.
const ROWS: usize = 80;

/// A failing seed.
type Failure = (u64, Case, Violation);

/// The first failing seed, if there is one.
pub(crate) fn first_failure(
    judge: &Judge,
    seeds: Range<u64>,
    case: impl Fn(u64) -> Case + Sync,
) -> Option<Failure> {
    all_waits(judge, seeds, case).err().map(|failure| *failure)
}

/// The longest wait of each seed that has one; an error for the first failing seed.
fn all_waits(
    judge: &Judge,
    seeds: Range<u64>,
    case: impl Fn(u64) -> Case + Sync,
) -> Result<Vec<(Case, Wait)>, Box<Failure>> {
    let next = AtomicU64::new(seeds.start);
    let waits: Mutex<Vec<(Case, Wait)>> = Mutex::default();
    let failed: Mutex<Option<Box<Failure>>> = Mutex::new(None);
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
                    match judge.judge_waits(&case) {
                        Ok((_, wait)) => {
                            waits.lock().unwrap().extend(wait.map(|wait| (case, wait)));
                        }
                        Err(violation) => {
                            let failure = Box::new((seed, case, violation));
                            failed.lock().unwrap().get_or_insert(failure);
                        }
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap().map_or_else(|| Ok(waits.into_inner().unwrap()), Err)
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
    if let Some(Calm { at, dark }) = case.calm {
        let _ = writeln!(text, "# calm from {at:?} on, after {dark:?} with all links down");
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

/// Runs seeds; panics with a report of the first failure. Returns the longest wait of each seed that
/// has one.
pub(crate) fn hold(
    judge: &Judge,
    seeds: Range<u64>,
    case: impl Fn(u64) -> Case + Sync,
) -> Vec<(Case, Wait)> {
    all_waits(judge, seeds, case).unwrap_or_else(|failure| {
        let (seed, case, first) = *failure;
        let shrunk = shrink(judge, case, first.clone());
        panic!("{}", report(judge, seed, &first, &shrunk));
    })
}
