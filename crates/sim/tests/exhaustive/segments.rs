//! What is searched of P4INC and SwitchML.

use crate::cases::{NO_FAULTS, ONE, holds};
use crate::model::Bounds;
use crate::system::Setting;

/// A job of two workers below one switch, and nobody else.
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
fn too_great_for_the_scale() {
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
    holds(name, setting, NO_FAULTS);
    holds(name, setting, Bounds { depth: Some(12), ..faults(1, 1) });
}

#[test]
fn two_units_with_a_window_beyond_their_segment() {
    let setting = Setting { slots: 2, ..UNITS };
    let name = "2 + 1 workers in two units × 2 fragments, window 2, 1 aggregator";
    holds(name, setting, NO_FAULTS);
    holds(name, setting, Bounds { depth: Some(11), ..faults(1, 1) });
}
