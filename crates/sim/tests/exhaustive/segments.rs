//! The searches of P4INC and SwitchML, each to its end unless a depth is given. The largest ones
//! (losses, reordering and delay are unbounded):
//!
//! | | duplicates | timers | states | steps | depth |
//! | --- | --- | --- | --- | --- | --- |
//! | local, 2 workers × 3 fragments, window 1, 1 aggregator | 3 | 3 | 48 045 | 320 245 | 21 |
//! | the same (on demand, 5 s) | 4 | 4 | 154 747 | 1 209 699 | 24 |
//! | local, 3 workers × 3 fragments, window 1, 1 aggregator | 2 | 2 | 121 729 | 724 303 | 24 |
//! | local, 2 workers × 3 fragments, window 2, 2 aggregators | 1 | 2 | 99 350 | 539 541 | 19 |
//! | the same (on demand, 12 s) | 2 | 2 | 302 904 | 2 067 661 | 20 |
//! | local, 2 workers × 2 fragments at 2 and 3 scales, window 1 | 2 | 2 | 19 348 | 98 555 | 26 |
//! | SwitchML, 2 workers × 3 fragments, 1 slot | 3 | 3 | 120 975 | 889 635 | 21 |
//! | SwitchML, 2 workers × 3 fragments, 2 slots | 2 | 1 | 67 904 | 386 829 | 17 |
//! | SwitchML, 2 workers × 2 fragments at 2 and 3 scales, 1 slot | 2 | 2 | 37 601 | 208 391 | 26 |
//! | local, 2 workers × 3 fragments that are scattered, window 1 | 2 | 2 | 11 596 | 57 183 | 18 |
//! | the same, gathered | 2 | 2 | 8 657 | 42 638 | 18 |
//! | SwitchML, 2 workers × 3 fragments that are scattered, 1 slot | 2 | 2 | 21 927 | 114 871 | 18 |
//! | the same, gathered | 2 | 2 | 19 917 | 104 245 | 18 |
//! | 2 + 1 workers in 2 units × 2 fragments, window 1, 1 aggregator | 0 | 1 | 30 037 | 111 142 | 38 |
//! | the same (on demand, 56 s) | 1 | 1 | 2 093 343 | 10 496 649 | 48 |
//! | 2 + 2 workers, otherwise the same | 1 | 0 | 112 186 | 491 979 | 46 |
//! | the same (on demand, 6 s) | 0 | 1 | 317 853 | 1 411 604 | 49 |
//! | 2 + 1 workers in 2 units × 2 fragments, window 2, 1 aggregator | 0 | 0 | 2 542 | 8 347 | 27 |
//! | the same (on demand, 16 s) | 1 | 0 | 426 060 | 2 039 784 | 37 |
//! | the same, up to 11 steps | 1 | 1 | 132 590 | 529 561 | 11 |
//!
//! In the last three the window is larger than the segment, so rounds come too early.

use tributary_protocol::Exchange;

use crate::cases::{NO_FAULTS, ONE, holds};
use crate::model::Bounds;
use crate::system::Setting;

/// A job of two workers below one switch, and no other job.
pub(crate) const LOCAL: Setting = Setting {
    protocol: "p4inc",
    topology: "kind = \"star\"\nworkers = 3\nps_hosts = 0",
    priorities: &[&[1, 1, 1]],
    segment: 1,
    ..ONE
};

/// The same with SwitchML.
pub(crate) const STATIC: Setting = Setting { protocol: "switchml", ..LOCAL };

/// Two workers in the unit of the PS, a third one in the other.
pub(crate) const UNITS: Setting = Setting {
    topology: "kind = \"racks\"\nracks = 2\nhosts_per_rack = 2\nps_hosts = 1\nps_rack = 1",
    workers: &[3],
    priorities: &[&[1, 1]],
    ..LOCAL
};

const fn faults(duplicates: u8, timers: u8) -> Bounds {
    Bounds { duplicates, timers, ..NO_FAULTS }
}

#[test]
fn local_with_one_aggregator() {
    let name = "local job, 2 workers × 3 fragments, 1 aggregator";
    for (duplicates, timers) in [(0, 0), (1, 1), (2, 2), (3, 3)] {
        holds(name, LOCAL, faults(duplicates, timers));
    }
    let setting = Setting { workers: &[3], ..LOCAL };
    let name = "local job, 3 workers × 3 fragments, 1 aggregator";
    for (duplicates, timers) in [(0, 0), (1, 1), (2, 2)] {
        holds(name, setting, faults(duplicates, timers));
    }
}

#[test]
fn local_with_two_aggregators() {
    let setting = Setting { slots: 2, segment: 2, ..LOCAL };
    let name = "local job, 2 workers × 3 fragments, 2 aggregators";
    for (duplicates, timers) in [(0, 0), (1, 1), (2, 1), (1, 2)] {
        holds(name, setting, faults(duplicates, timers));
    }
}

#[test]
fn values_too_large_for_the_scale() {
    let setting = Setting { too_great: true, priorities: &[&[1, 1]], ..LOCAL };
    let name = "local job, 2 workers × 2 fragments at 2 and 3 scales, 1 aggregator";
    for (duplicates, timers) in [(0, 0), (1, 1), (2, 2)] {
        holds(name, setting, faults(duplicates, timers));
    }
    let setting = Setting { protocol: "switchml", ..setting };
    let name = "2 workers × 2 fragments at 2 and 3 scales, 1 slot";
    for (duplicates, timers) in [(0, 0), (1, 1), (2, 2)] {
        holds(name, setting, faults(duplicates, timers));
    }
}

/// Each worker gets the sums of its fragments, or what their owners have.
#[test]
fn parts_of_tensors() {
    for exchange in [Exchange::ReduceScatter, Exchange::AllGather] {
        for (protocol, setting) in [("p4inc", LOCAL), ("switchml", STATIC)] {
            let setting = Setting { parts: Some(exchange), ..setting };
            let name = format!("{protocol}, {exchange:?}, 2 workers × 3 fragments");
            for (duplicates, timers) in [(0, 0), (1, 1), (2, 2)] {
                holds(&name, setting, faults(duplicates, timers));
            }
            let setting = Setting { workers: &[3], ..setting };
            let name = format!("{protocol}, {exchange:?}, 3 workers × 3 fragments");
            for (duplicates, timers) in [(0, 0), (1, 1)] {
                holds(&name, setting, faults(duplicates, timers));
            }
        }
    }
    let scattered = Some(Exchange::ReduceScatter);
    let setting = Setting { too_great: true, priorities: &[&[1, 1]], parts: scattered, ..LOCAL };
    holds("scattered, 2 workers × 2 fragments at 2 and 3 scales", setting, faults(1, 1));
}

#[test]
fn switchml_with_one_slot() {
    let name = "2 workers × 3 fragments, 1 slot";
    for (duplicates, timers) in [(0, 0), (1, 1), (2, 2), (3, 3)] {
        holds(name, STATIC, faults(duplicates, timers));
    }
}

#[test]
fn switchml_with_two_slots() {
    let setting = Setting { slots: 2, ..STATIC };
    let name = "2 workers × 3 fragments, 2 slots";
    for (duplicates, timers) in [(0, 0), (1, 1), (2, 1)] {
        holds(name, setting, faults(duplicates, timers));
    }
}

#[test]
fn two_units_with_one_aggregator_each() {
    let name = "2 + 1 workers in two units × 2 fragments, window 1, 1 aggregator";
    for (duplicates, timers) in [(0, 0), (1, 0), (0, 1)] {
        holds(name, UNITS, faults(duplicates, timers));
    }
    let setting = Setting { workers: &[4], ..UNITS };
    let name = "2 + 2 workers in two units × 2 fragments, window 1, 1 aggregator";
    holds(name, setting, faults(1, 0));
    holds(name, setting, Bounds { depth: Some(12), ..faults(1, 1) });
}

#[test]
fn two_units_with_a_window_beyond_their_segment() {
    let setting = Setting { slots: 2, ..UNITS };
    let name = "2 + 1 workers in two units × 2 fragments, window 2, 1 aggregator";
    holds(name, setting, NO_FAULTS);
    holds(name, setting, Bounds { depth: Some(11), ..faults(1, 1) });
}

/// Two workers in the unit of the PS, two in another, which packets name by that unit.
#[test]
fn a_unit_with_a_position_of_its_own() {
    let setting = Setting { levels: 2, workers: &[4], priorities: &[&[1]], ..UNITS };
    let name = "2 + 2 workers in two units × 1 fragment, by unit";
    for (duplicates, timers) in [(0, 0), (0, 1), (1, 0)] {
        holds(name, setting, faults(duplicates, timers));
    }
}
