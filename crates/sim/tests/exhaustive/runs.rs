//! Two runs of one job, the second of which begins at any point of the first. Whatever is left of
//! the first run, in flight, in switches and in a continuing PS, may reach the second run at any
//! time, and workers of the first run may still be active. No sum of the second run contains
//! anything of the first, and the second run completes.
//!
//! Values of the two runs are different digits. Switches are swept between the runs, as the
//! controller does; where cells name their task (ATP, ESA), omitting the sweep must make no
//! difference.

use tributary_controller::programs::Source;

use crate::broken::broken_of;
use crate::cases::{NO_FAULTS, ONE, holds, search};
use crate::model::Bounds;
use crate::segments::{LOCAL, STATIC, UNITS};
use crate::system::{Again, Setting};

/// Two workers and one fragment, twice.
const ESA: Setting =
    Setting { workers: &[2, 2], priorities: &[&[5], &[5]], again: Some(Again::Swept), ..ONE };
const ATP: Setting = Setting { protocol: "atp", ..ESA };
const P4INC: Setting = Setting {
    topology: "kind = \"star\"\nworkers = 4\nps_hosts = 0",
    workers: &[2, 2],
    priorities: &[&[1], &[1]],
    again: Some(Again::Swept),
    ..LOCAL
};
const SWITCHML: Setting = Setting { protocol: STATIC.protocol, ..P4INC };
/// One worker in the unit of the PS, the other in another unit: the PS continues.
const PARTIAL: Setting = Setting {
    topology: "kind = \"racks\"\nracks = 2\nhosts_per_rack = 2\nps_hosts = 1\nps_rack = 1",
    workers: &[2, 2],
    priorities: &[&[1], &[1]],
    again: Some(Again::Swept),
    ..UNITS
};

const TIMER: Bounds = Bounds { timers: 1, ..NO_FAULTS };

#[test]
fn atp() {
    for again in [Again::Swept, Again::Unswept] {
        let setting = Setting { again: Some(again), ..ATP };
        holds(&format!("2 runs × 2 workers × 1 fragment, {again:?}"), setting, TIMER);
    }
}

#[test]
fn esa() {
    for again in [Again::Swept, Again::Unswept] {
        let setting = Setting { again: Some(again), ..ESA };
        holds(&format!("2 runs × 2 workers × 1 fragment, {again:?}"), setting, TIMER);
    }
}

#[test]
fn p4inc() {
    holds("2 runs × 2 workers × 1 fragment", P4INC, TIMER);
    let setting = Setting { priorities: &[&[1, 1], &[1, 1]], ..P4INC };
    holds("2 runs × 2 workers × 2 fragments", setting, TIMER);
}

#[test]
fn switchml() {
    holds("2 runs × 2 workers × 1 fragment", SWITCHML, TIMER);
    let setting = Setting { priorities: &[&[1, 1], &[1, 1]], ..SWITCHML };
    holds("2 runs × 2 workers × 2 fragments", setting, TIMER);
}

#[test]
fn p4inc_in_two_units() {
    holds("2 runs × 1 + 1 workers × 1 fragment, PS goes on", PARTIAL, TIMER);
}

/// Why epochs are needed: with one epoch for both runs, packets of the first enter sums of the
/// second.
#[test]
fn one_epoch_for_both_runs_makes_sums_wrong() {
    for setting in [ATP, ESA, P4INC, SWITCHML, PARTIAL] {
        let setting = Setting { again: Some(Again::SameEpoch), ..setting };
        found(setting, NO_FAULTS, &Source::built_in(setting.protocol).unwrap());
    }
}

/// Why sweeps are needed if cells do not name their task.
#[test]
fn unswept_segments_make_sums_wrong() {
    for setting in [P4INC, SWITCHML] {
        let setting = Setting { again: Some(Again::Unswept), ..setting };
        found(setting, NO_FAULTS, &Source::built_in(setting.protocol).unwrap());
    }
}

/// Why a cell's identity contains the epoch.
#[test]
fn cells_that_name_only_the_fragment_make_sums_wrong_unless_swept() {
    let file = "include/v1model/aggregator/identity.p4";
    let source = broken_of("atp", file, "epoch ++ sequence", "32w1 ++ sequence");
    found(Setting { again: Some(Again::Unswept), ..ATP }, NO_FAULTS, &source);
}

fn found(setting: Setting, bounds: Bounds, source: &Source) {
    let found = search("a fault", setting, bounds, source);
    let found = found.unwrap_or_else(|| panic!("{}: it is to be found", setting.protocol));
    assert!(found.contains("I1"), "{}: {found}", setting.protocol);
}
