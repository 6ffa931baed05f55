//! The default searches, which take about a minute on two cores, and those on demand. The coverage
//! is printed (`--nocapture`). Some of the larger searches, each to its end:
//!
//! | | window | duplicates | timers | restarts | states | steps | depth |
//! | --- | --- | --- | --- | --- | --- | --- | --- |
//! | 2 jobs × 2 workers × 2 fragments | 1 | 0 | 0 | 0 | 12 272 | 36 039 | 27 |
//! | the same | 1 | 1 | 0 | 0 | 658 396 | 2 379 198 | 32 |
//! | the same (on demand, 3 min) | 1 | 0 | 1 | 0 | 4 145 393 | 16 976 269 | 38 |
//! | 2 jobs × 2 workers × 1 fragment (48 s) | 1 | 1 | 1 | 0 | 1 799 938 | 7 753 399 | 26 |
//! | 1 job × 2 workers × 2 fragments | 2 | 0 | 1 | 0 | 262 971 | 1 004 687 | 28 |
//! | 1 job × 2 workers × 1 fragment | 1 | 2 | 2 | 0 | 355 711 | 1 539 771 | 24 |
//! | the same, late starts, leave | 1 | 1 | 2 | 1 | 435 628 | 1 756 367 | 33 |
//!
//! Losses are unbounded in all searches.
//!
//! Those of P4INC and SwitchML are in [`segments`](crate::segments). `TRIBUTARY_SEARCH` sets other
//! bounds, optionally with a depth, for the two jobs with two fragments, or selects another system:
//! `atp`, `p4inc`, `switchml`, `units`, `more-units`:
//!
//! ```text
//! TRIBUTARY_SEARCH=window=1,duplicates=1,timers=1,restarts=0,depth=24 \
//!     cargo test --release -p tributary-sim --test exhaustive on_demand -- --nocapture
//! ```

use std::sync::atomic::Ordering;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};
use tributary_controller::programs::Source;
use tributary_protocol::Recovery;

use crate::model::{Bounds, Search};
use crate::segments::{LOCAL, STATIC, UNITS};
use crate::system::{Setting, System};

const STAR: &str = "kind = \"star\"\nworkers = 4";
pub(crate) const RACKS: &str = "kind = \"racks\"\nracks = 2\nhosts_per_rack = 2\nps_rack = 1";

/// One job of two workers with one fragment.
pub(crate) const ONE: Setting = Setting {
    protocol: "esa",
    topology: STAR,
    levels: 1,
    workers: &[2],
    priorities: &[&[5]],
    slots: 1,
    segment: 0,
    too_great: false,
    recovery: Recovery::Papers,
    late_starts: false,
    leave: false,
    deaf: false,
    parts: None,
    again: None,
};

/// Two jobs of two workers with one fragment each.
pub(crate) const TWO: Setting = Setting { workers: &[2, 2], priorities: &[&[9], &[6]], ..ONE };

/// Two jobs of two workers with two fragments each, of which the second is sent after the first
/// result. Each job's first fragment has a higher priority than the other's second.
const FOUR: Setting = Setting { priorities: &[&[9, 4], &[6, 2]], ..TWO };

pub(crate) const NO_FAULTS: Bounds = Bounds { duplicates: 0, timers: 0, restarts: 0, depth: None };

pub(crate) fn esa() -> Source {
    Source::built_in("esa").unwrap()
}

/// Searches, prints the coverage, and returns the violation if there is one.
pub(crate) fn search(
    name: &str,
    setting: Setting,
    bounds: Bounds,
    source: &Source,
) -> Option<String> {
    let started = Instant::now();
    let search = Search::new(System::new(setting, source), bounds);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let checker = search.checker().threads(threads).finish_when(HasDiscoveries::AnyFailures);
    let checker = match bounds.depth {
        Some(depth) => checker.target_max_depth(depth),
        None => checker,
    };
    let checker = checker.spawn_bfs().join();
    let search = checker.model();
    println!(
        "{}: {name}, {bounds:?}: {} states, {} steps, depth {}, {} fair runs, in {:.1?}; {}",
        setting.protocol,
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        search.runs.load(Ordering::Relaxed),
        started.elapsed(),
        search.system.coverage(),
    );
    let (property, path) = checker.discoveries().into_iter().next()?;
    let last = path.last_state().clone();
    let steps = path.into_actions();
    let why = search.trouble(&last).or_else(|| search.why()).unwrap_or_default();
    Some(format!("not so: {property}: {why}\n{}", search.describe(&steps)))
}

pub(crate) fn holds(name: &str, setting: Setting, bounds: Bounds) {
    let source = Source::built_in(setting.protocol).unwrap();
    if let Some(found) = search(name, setting, bounds, &source) {
        panic!("{found}");
    }
}

#[test]
fn one_fragment_with_two_duplicates_and_two_timers() {
    holds("1 job × 2 workers × 1 fragment", ONE, Bounds { duplicates: 2, timers: 2, ..NO_FAULTS });
}

#[test]
fn one_fragment_whose_ps_is_replaced() {
    let bounds = Bounds { timers: 2, restarts: 1, ..NO_FAULTS };
    holds("1 job × 2 workers × 1 fragment, PS replaced", ONE, bounds);
}

#[test]
fn one_fragment_of_workers_that_start_and_leave_at_any_time() {
    let setting = Setting { late_starts: true, leave: true, ..ONE };
    let bounds = Bounds { duplicates: 1, timers: 2, ..NO_FAULTS };
    holds("1 job × 2 workers × 1 fragment, from late start to leave", setting, bounds);
}

#[test]
fn two_fragments_in_one_window() {
    let setting = Setting { priorities: &[&[9, 4]], slots: 2, ..ONE };
    holds("1 job × 2 workers × 2 fragments, window 2", setting, Bounds { timers: 1, ..NO_FAULTS });
    let bounds = Bounds { duplicates: 1, ..NO_FAULTS };
    holds("1 job × 2 workers × 2 fragments, window 2", setting, bounds);
}

#[test]
fn two_levels() {
    // Workers 0 and 1 in the rack of the PS, worker 2 and a fourth in the other.
    let setting = Setting { topology: RACKS, workers: &[4], ..ONE };
    holds("1 job × 4 workers in 2 racks × 1 fragment", setting, NO_FAULTS);
    let bounds = Bounds { duplicates: 1, ..NO_FAULTS };
    holds("1 job × 4 workers in 2 racks × 1 fragment", setting, bounds);
    // The other rack has a position of its own.
    let setting = Setting { levels: 2, ..setting };
    for bounds in [NO_FAULTS, bounds] {
        holds("1 job × 4 workers in 2 racks × 1 fragment, by rack", setting, bounds);
    }
}

#[test]
fn two_jobs_with_a_timer() {
    let bounds = Bounds { timers: 1, ..NO_FAULTS };
    holds("2 jobs × 2 workers × 1 fragment", TWO, bounds);
    let bounds = Bounds { restarts: 1, ..NO_FAULTS };
    holds("2 jobs × 2 workers × 1 fragment, PS replaced", TWO, bounds);
}

#[test]
fn two_jobs_with_two_fragments_and_a_duplicate() {
    let bounds = Bounds { duplicates: 1, ..NO_FAULTS };
    holds("2 jobs × 2 workers × 2 fragments, window 1", FOUR, bounds);
}

#[test]
fn two_jobs_with_two_fragments_a_duplicate_and_a_timer_up_to_eleven_steps() {
    let bounds = Bounds { duplicates: 1, timers: 1, depth: Some(11), ..NO_FAULTS };
    holds("2 jobs × 2 workers × 2 fragments, window 1", FOUR, bounds);
}

#[test]
fn two_jobs_with_two_fragments_in_one_window_up_to_some_steps() {
    let setting = Setting { slots: 2, ..FOUR };
    let name = "2 jobs × 2 workers × 2 fragments, window 2";
    holds(name, setting, Bounds { depth: Some(8), ..NO_FAULTS });
    holds(name, setting, Bounds { duplicates: 1, timers: 1, depth: Some(6), ..NO_FAULTS });
}

#[test]
fn on_demand() {
    let Ok(text) = std::env::var("TRIBUTARY_SEARCH") else { return };
    let (mut setting, mut bounds) = (FOUR, NO_FAULTS);
    for part in text.split(',') {
        let (key, value) = part.split_once('=').expect("key=value");
        if key == "system" {
            setting = match value {
                "esa" => FOUR,
                "p4inc" => LOCAL,
                "units" => UNITS,
                "more-units" => Setting { workers: &[4], ..UNITS },
                "switchml" => STATIC,
                "atp" => crate::atp::ONE_JOB,
                _ => panic!("there is no system `{value}`"),
            };
            continue;
        }
        let number: u8 = value.parse().expect("a small number");
        match key {
            "window" => setting.slots = number.into(),
            "segment" => setting.segment = number.into(),
            "duplicates" => bounds.duplicates = number,
            "timers" => bounds.timers = number,
            "restarts" => bounds.restarts = number,
            "depth" => bounds.depth = Some(number.into()),
            _ => panic!("there is no bound `{key}`"),
        }
    }
    holds(&text, setting, bounds);
}
