//! The search finds what it is there to find: switches whose program is wrong, and the shrinker makes
//! a chart of it that a reader can follow.

use tributary_controller::programs::Source;
use tributary_sim::Fate;

use super::case::Case;
use super::judge::Judge;
use super::seeds::{first_failure, report};
use super::shrink::shrink;

/// The program with one line replaced.
fn with(file: &str, right: &str, wrong: &str) -> Source {
    let mut source = Source::built_in("esa").unwrap();
    let (_, text) = source.files.iter_mut().find(|(path, _)| path == file).unwrap();
    assert_eq!(text.matches(right).count(), 1, "{file} has changed");
    *text = text.replace(right, wrong);
    source
}

/// Finds a violation of one of the invariants within some seeds and shrinks it; returns the case, its
/// chart's rows, and the report.
fn find(source: Source, invariant: &str) -> (Case, usize, String) {
    let judge = Judge::new(source);
    let found = first_failure(&judge, 0..500, Case::random);
    let (seed, case, first) = found.expect("500 seeds find it");
    assert_eq!(first.invariant, invariant, "{}", first.what);
    let shrunk = shrink(&judge, case, first.clone());
    // The same again: a seed, and what it shrinks to, stand for one course of events.
    assert_eq!(judge.judge(&shrunk.case).unwrap_err(), shrunk.violation);
    let trace = judge.run(&shrunk.case, true).trace.unwrap();
    let report = report(&judge, seed, &first, &shrunk);
    println!("{report}");
    let disturbed = trace.sightings().iter().filter(|seen| seen.fate == Fate::Lost).count();
    assert!(disturbed <= 2, "{report}");
    (shrunk.case, trace.sightings().len(), report)
}

fn workers(case: &Case) -> usize {
    case.jobs.iter().map(|job| job.workers).sum()
}

fn fragments(case: &Case) -> usize {
    case.jobs.iter().flat_map(|job| &job.tensors).map(|tensor| tensor.fragments()).sum()
}

#[test]
fn a_switch_that_stores_instead_of_adding_is_found() {
    let source = with(
        "include/aggregator/values.p4",
        "sum = sum + values.v##i; \\",
        "sum = values.v##i; \\",
    );
    let (case, rows, report) = find(source, "I1, I2, I5");
    // Two workers of one job, one fragment, and nothing that goes wrong on the way.
    assert_eq!((case.jobs.len(), workers(&case), fragments(&case)), (1, 2, 1), "{report}");
    assert_eq!((case.loss, case.duplicate, case.reorder, case.acts.len()), (0, 0, 0, 0));
    assert!(case.ps_rack.is_none(), "{report}");
    assert!(rows <= 12, "{report}");
}

#[test]
fn a_switch_that_adds_a_contribution_twice_is_found() {
    let source = with(
        "include/aggregator/bitmap.p4",
        "meta.overlap = 1;",
        "meta.overlap = meta.pass == pass_t.FIRST ? 1w0 : 1w1;",
    );
    let (case, rows, report) = find(source, "I1, I2, I5");
    // One contribution arrives twice: that takes one doubled frame.
    assert_eq!((case.jobs.len(), workers(&case), fragments(&case)), (1, 2, 1), "{report}");
    assert_eq!((case.loss, case.reorder, case.acts.len()), (0, 0, 0), "{report}");
    assert_eq!(case.only.map(|only| only.len()), Some(1), "{report}");
    assert!(rows <= 14, "{report}");
}

#[test]
fn a_sweep_that_frees_nothing_is_found() {
    let source = with(
        "include/aggregator/identity.p4",
        "tasks.write(index, old[47:32] == job ? 0 : old);",
        "tasks.write(index, old);",
    );
    let (case, rows, report) = find(source, "I4");
    assert_eq!((case.jobs.len(), fragments(&case)), (1, 1), "{report}");
    assert!(rows <= 20, "{report}");
}
