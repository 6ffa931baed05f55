//! Two runs of one job, the second of which begins at any point of the first: whatever the first
//! has on its way, in switches and in a PS that goes on, comes to the second at any time, and its
//! workers may still be there. No sum of the second has anything of the first in it, and it
//! completes.
//!
//! Values of the two runs are different digits. Switches are swept between the runs, as the
//! controller has it done; where cells say whose they are (ATP, ESA) it must make no difference if
//! they are not.

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
/// A worker in the unit of the PS, the other in the other one: the PS goes on.
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

/// What epochs are for: with one epoch for both runs, packets of the first come into sums of the
/// second.
#[test]
fn one_epoch_for_both_runs_makes_sums_wrong() {
    for setting in [ATP, ESA, P4INC, SWITCHML, PARTIAL] {
        let setting = Setting { again: Some(Again::SameEpoch), ..setting };
        found(setting, NO_FAULTS, &Source::built_in(setting.protocol).unwrap());
    }
}

/// What the sweep is for where cells do not say whose they are.
#[test]
fn segments_that_are_not_swept_make_sums_wrong() {
    for setting in [P4INC, SWITCHML] {
        let setting = Setting { again: Some(Again::Unswept), ..setting };
        found(setting, NO_FAULTS, &Source::built_in(setting.protocol).unwrap());
    }
}

/// What the epoch in a cell's identity is for.
#[test]
fn cells_that_say_only_the_fragment_make_sums_wrong_unless_they_are_swept() {
    let file = "include/v1model/aggregator/identity.p4";
    let source = broken_of("atp", file, "epoch ++ sequence", "32w1 ++ sequence");
    found(Setting { again: Some(Again::Unswept), ..ATP }, NO_FAULTS, &source);
}

fn found(setting: Setting, bounds: Bounds, source: &Source) {
    let found = search("a fault", setting, bounds, source);
    let found = found.unwrap_or_else(|| panic!("{}: it is to be found", setting.protocol));
    assert!(found.contains("I1"), "{}: {found}", setting.protocol);
}
