//! The searches with the default recovery rules: workers resend other fragments at other times than
//! with the papers' rules, and ESA repairs in packets. Clocks advance only when a timer fires, so
//! any packet sent before an answered one is immediately late.

use tributary_protocol::Recovery;

use crate::atp::ONE_JOB;
use crate::cases::{NO_FAULTS, ONE, TWO, holds};
use crate::model::Bounds;
use crate::segments::{LOCAL, STATIC, UNITS};
use crate::system::Setting;

const fn rack(setting: Setting) -> Setting {
    Setting { recovery: Recovery::Rack, ..setting }
}

const fn faults(duplicates: u8, timers: u8, restarts: u8) -> Bounds {
    Bounds { duplicates, timers, restarts, ..NO_FAULTS }
}

/// With three timers a fragment bypasses the switches.
#[test]
fn esa_with_one_fragment() {
    let name = "1 job × 2 workers × 1 fragment, repairs in packets";
    for bounds in [faults(1, 3, 0), faults(0, 3, 1)] {
        holds(name, rack(ONE), bounds);
    }
    let setting = rack(Setting { late_starts: true, leave: true, ..ONE });
    holds("the same, from late start to leave", setting, faults(0, 3, 0));
}

#[test]
fn esa_with_two_jobs_or_two_fragments() {
    holds("2 jobs × 2 workers × 1 fragment, repairs in packets", rack(TWO), faults(0, 2, 0));
    let setting = rack(Setting { priorities: &[&[9, 4]], slots: 2, ..ONE });
    holds("1 job × 2 workers × 2 fragments, window 2", setting, NO_FAULTS);
}

#[test]
fn atp_with_two_fragments() {
    let name = "1 job × 2 workers × 2 fragments";
    for bounds in [faults(1, 2, 0), faults(0, 3, 0), faults(1, 2, 1)] {
        holds(name, rack(ONE_JOB), bounds);
    }
}

#[test]
fn p4inc_and_switchml() {
    let setting = Setting { slots: 2, segment: 2, ..LOCAL };
    holds("local job, 2 workers × 3 fragments, 2 aggregators", rack(setting), faults(1, 2, 0));
    holds(
        "2 workers × 3 fragments, 2 slots",
        rack(Setting { slots: 2, ..STATIC }),
        faults(1, 1, 0),
    );
    let name = "2 + 1 workers in two units × 2 fragments, window 1, 1 aggregator";
    holds(name, rack(UNITS), faults(0, 1, 0));
}
