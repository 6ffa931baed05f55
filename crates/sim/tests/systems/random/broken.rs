//! The search finds faults in broken switch programs, and shrinks them to readable charts.

use tributary_protocol::Recovery;
use tributary_protocol::rtt::RttConfig;
use tributary_sim::{Act, Fate};

use super::case::Case;
use super::judge::Judge;
use super::seeds::{first_failure, report};
use super::shrink::shrink;

/// Finds a violation of an invariant within some seeds and shrinks it. Returns the case, the number
/// of its chart's rows, and the report.
fn find(judge: &Judge, invariant: &str, case: fn(u64) -> Case) -> (Case, usize, String) {
    // The papers' rules send fewest packets, so their charts are shortest.
    let case = |seed| Case { recovery: Recovery::Papers, ..case(seed) };
    let found = first_failure(judge, 0..500, case);
    let (seed, case, first) = found.expect("500 seeds find it");
    assert_eq!(first.invariant, invariant, "{}", first.what);
    let shrunk = shrink(judge, case, first.clone());
    // Repeatable: a seed and its shrunk case determine the run.
    assert_eq!(judge.judge(&shrunk.case).unwrap_err(), shrunk.violation);
    let trace = judge.run(&shrunk.case, true).trace.unwrap();
    let report = report(judge, seed, &first, &shrunk);
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
    let judge = Judge::of_broken(
        "include/v1model/aggregator/values.p4",
        "sum = sum + values.v##i; \\",
        "sum = values.v##i; \\",
    );
    let (case, rows, report) = find(&judge, "I1, I2, I5", Case::esa);
    // Two workers of one job, one fragment, and no faults.
    assert_eq!((case.jobs.len(), workers(&case), fragments(&case)), (1, 2, 1), "{report}");
    assert_eq!((case.loss, case.duplicate, case.reorder, case.acts.len()), (0, 0, 0, 0));
    assert!(case.ps_rack.is_none(), "{report}");
    assert!(rows <= 12, "{report}");
}

#[test]
fn a_switch_that_adds_a_contribution_twice_is_found() {
    let judge = Judge::of_broken(
        "include/v1model/aggregator/bitmap.p4",
        "meta.overlap = 1;",
        "meta.overlap = meta.pass == pass_t.FIRST ? 1w0 : 1w1;",
    );
    let (case, rows, report) = find(&judge, "I1, I2, I5", Case::esa);
    // One contribution arrives twice, which takes one duplicated frame.
    assert_eq!((case.jobs.len(), workers(&case), fragments(&case)), (1, 2, 1), "{report}");
    assert_eq!((case.loss, case.reorder, case.acts.len()), (0, 0, 0), "{report}");
    assert_eq!(case.only.map(|only| only.len()), Some(1), "{report}");
    assert!(rows <= 14, "{report}");
}

#[test]
fn a_sweep_that_frees_nothing_is_found() {
    let judge = Judge::of_broken(
        "include/v1model/aggregator/identity.p4",
        "tasks.write(index, old[63:32] == epoch ? 0 : old);",
        "tasks.write(index, old);",
    );
    let (case, rows, report) = find(&judge, "I4", Case::esa);
    assert_eq!((case.jobs.len(), fragments(&case)), (1, 1), "{report}");
    assert!(rows <= 20, "{report}");
}

// --- Endpoints that complete everything, but late ---------------------------------------------

/// Finds a tensor that takes longer than its bound, and shrinks the case to one job.
fn find_late(judge: &Judge, recovery: Recovery) {
    let case = |seed| Case { recovery, ..Case::esa(seed) };
    let (seed, case, first) = first_failure(judge, 0..500, case).expect("500 seeds find it");
    assert_eq!(first.invariant, "I7 (in time)", "{}", first.what);
    let shrunk = shrink(judge, case, first.clone());
    let report = report(judge, seed, &first, &shrunk);
    println!("{report}");
    assert_eq!(shrunk.case.jobs.len(), 1, "{report}");
    assert!(fragments(&shrunk.case) <= 2, "{report}");
}

/// All timeouts a hundred times as long.
fn hundredfold(RttConfig { initial, min, max }: RttConfig) -> RttConfig {
    RttConfig { initial: 100 * initial, min: 100 * min, max: 100 * max }
}

#[test]
fn an_agent_that_rests_too_long_is_found() {
    let judge = Judge::of_tampered(|scenario, options| {
        options.worker_rtt = Some(scenario.network.timeouts);
        scenario.network.timeouts = hundredfold(scenario.network.timeouts);
    });
    find_late(&judge, Recovery::Papers);
}

#[test]
fn a_worker_that_waits_too_long_is_found() {
    let judge = Judge::of_tampered(|scenario, options| {
        options.worker_rtt = Some(hundredfold(scenario.network.timeouts));
    });
    for recovery in [Recovery::Papers, Recovery::Rack] {
        find_late(&judge, recovery);
    }
}

// --- P4INC and SwitchML -----------------------------------------------------------------------

#[test]
fn a_switch_without_copies_is_found() {
    let judge = Judge::of_broken(
        "include/v1model/aggregator/copies.p4",
        "        if (old == round) {\n            meta.kept = 1;\n        }",
        "",
    );
    let (case, _, report) = find(&judge, "I7", Case::segments);
    // A result is lost without a copy, which takes one fragment.
    assert_eq!((case.jobs.len(), fragments(&case)), (1, 1), "{report}");
    assert_eq!(case.only.map(|only| only.len()), Some(1), "{report}");
}

#[test]
fn a_copy_of_the_first_contribution_is_found() {
    let judge = Judge::of_broken(
        "include/v1model/aggregator/copies.p4",
        "            (access_t.CLAIM, turn_t.STARTS,                 1,   1): keep();",
        "            (access_t.CLAIM, turn_t.STARTS,                 _,   1): keep();",
    );
    let (case, rows, report) = find(&judge, "I1, I2, I5", Case::segments);
    assert_eq!((case.jobs.len(), workers(&case), fragments(&case)), (1, 2, 1), "{report}");
    assert!(rows <= 12, "{report}");
}

#[test]
fn a_switch_that_trusts_workers_to_stay_in_their_segments_is_found() {
    let judge =
        Judge::of_broken("include/v1model/target.p4", "if (place < places) {", "if (places > 0) {");
    let found = first_failure(&judge, 0..500, Case::segments);
    let (_, case, first) = found.expect("500 seeds find it");
    let shrunk = shrink(&judge, case, first);
    let strays = |act: &Act| matches!(act, Act::Stray { .. });
    assert!(shrunk.case.acts.iter().any(|(_, act)| strays(act)), "{:?}", shrunk.violation);
}

#[test]
fn a_round_that_is_admitted_too_early_is_found() {
    let judge = Judge::of_broken(
        "include/v1model/aggregator/rounds.p4",
        "(old[63:32] < round && old[31:0] == 0 ? round ++ others : old));",
        "(old[63:32] < round ? round ++ others : old));",
    );
    let found = first_failure(&judge, 0..500, Case::segments);
    let (_, case, first) = found.expect("500 seeds find it");
    let shrunk = shrink(&judge, case, first);
    // Only a job over several units can have a window larger than its segment.
    assert!(!shrunk.case.is_local(0), "{:?}", shrunk.violation);
}
