//! The searches of ATP: jobs whose PS is replaced, at any point, by one without state. Packets to
//! and from the previous PS may arrive at any later time.

use crate::cases::{NO_FAULTS, ONE, RACKS, holds};
use crate::model::Bounds;
use crate::segments::UNITS;
use crate::system::Setting;

/// One job of two workers with two fragments, of which the second is sent after the first result.
pub(crate) const ONE_JOB: Setting =
    Setting { protocol: "atp", priorities: &[&[1, 1]], segment: 1, ..ONE };

#[test]
fn one_fragment_whose_ps_is_replaced() {
    let setting = Setting { priorities: &[&[1]], ..ONE_JOB };
    let name = "1 job × 2 workers × 1 fragment, PS replaced";
    for (duplicates, timers, restarts) in [(0, 1, 1), (1, 2, 1), (1, 1, 2)] {
        holds(name, setting, Bounds { duplicates, timers, restarts, depth: None });
    }
}

#[test]
fn two_fragments_whose_ps_is_replaced() {
    let name = "1 job × 2 workers × 2 fragments, PS replaced";
    for (duplicates, timers) in [(0, 0), (0, 1), (1, 0)] {
        holds(name, ONE_JOB, Bounds { duplicates, timers, restarts: 1, depth: None });
    }
}

/// Two workers in the rack of the PS, two in another, which packets name by that rack.
#[test]
fn a_rack_with_a_position_of_its_own() {
    let setting =
        Setting { topology: RACKS, levels: 2, workers: &[4], priorities: &[&[1]], ..ONE_JOB };
    let name = "1 job × 4 workers in 2 racks × 1 fragment, by rack";
    for (duplicates, timers) in [(0, 0), (0, 1), (1, 0)] {
        holds(name, setting, Bounds { duplicates, timers, ..NO_FAULTS });
    }
}

/// A collision of one worker's packet moves the slot to another aggregator.
#[test]
fn two_jobs_that_collide_and_whose_ps_is_replaced() {
    let setting = Setting { workers: &[2, 2], priorities: &[&[1, 1], &[1]], segment: 2, ..ONE_JOB };
    let bounds = Bounds { restarts: 1, depth: Some(12), ..NO_FAULTS };
    holds("2 jobs × 2 workers × 2 and 1 fragments, PS replaced", setting, bounds);
}

#[test]
fn two_units_whose_ps_is_replaced() {
    let name = "P4INC, 2 + 1 workers in two units × 2 fragments, PS replaced";
    holds(name, UNITS, Bounds { restarts: 1, ..NO_FAULTS });
    let bounds = Bounds { timers: 1, restarts: 1, depth: Some(12), ..NO_FAULTS };
    holds(name, UNITS, bounds);
}
