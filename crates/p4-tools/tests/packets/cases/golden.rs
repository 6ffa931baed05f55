//! The golden frames of the packet format, through the P4 parser.

use std::collections::BTreeSet;

use tributary_wire::golden::VECTORS;

use super::cases;
use crate::entries::{Entry, FLOOD};
use crate::frames::{HEADERS, INDEX, RACK, SWEEP};
use crate::lab::{Lab, NO_JOB, Outcome::*};
use crate::target::{Build, PORTS};

cases!("golden":
    values_32, values_64, esa_values_32, esa_values_64, p4inc_values_32, p4inc_values_64,
    switchml_values_32, switchml_values_64,
);

fn values_32() {
    pass_unchanged(Build { values: 32, ..Build::PATIENT }, 16);
}

fn values_64() {
    pass_unchanged(Build { values: 64, ..Build::PATIENT }, 16);
}

fn esa_values_32() {
    pass_unchanged(Build { values: 32, ..Build::ESA }, 6);
}

fn esa_values_64() {
    pass_unchanged(Build { values: 64, ..Build::ESA }, 6);
}

fn p4inc_values_32() {
    pass_unchanged(Build { values: 32, ..Build::P4INC }, 10);
}

fn p4inc_values_64() {
    pass_unchanged(Build { values: 64, ..Build::P4INC }, 10);
}

fn switchml_values_32() {
    pass_unchanged(Build { values: 32, ..Build::SWITCHML }, 2);
}

fn switchml_values_64() {
    pass_unchanged(Build { values: 64, ..Build::SWITCHML }, 2);
}

/// Parsing and deparsing keep a frame unchanged. Frames of other sizes are malformed.
fn pass_unchanged(build: Build, at_least: u32) {
    let values = build.values;
    let mut lab = Lab::new(Build { pool: 0x1_0000, ..build });
    lab.insert(&[Entry::group(FLOOD, &PORTS.collect::<Vec<_>>())]);
    let (mut known, mut services) = (BTreeSet::new(), BTreeSet::new());
    let mut passed = 0;
    for vector in VECTORS {
        let frame = vector.bytes();
        let (kind, job) = (frame[43], u16::from_be_bytes([frame[46], frame[47]]));
        let rack = frame[RACK];
        let slot = 5;
        if frame[42] != build.program.protocol() {
            lab.check_gone(1, &frame, (NO_JOB, Malformed));
            continue;
        }
        if kind == SWEEP {
            let outcome = if sweep_is_over(&frame) { Malformed } else { Rejected };
            lab.check_gone(1, &frame, (NO_JOB, outcome));
            continue;
        }
        if known.insert((job, kind, rack)) {
            lab.insert(&[Entry::pass(job, 1, kind, slot).of_rack(rack)]);
        }
        let service = frame[45];
        if build.program.has_rounds() && services.insert((job, service)) {
            lab.insert(&[Entry::forward(job, service)]);
        }
        if frame.len() == HEADERS || frame.len() == HEADERS + 4 * values {
            let out = [2, 3, 4, 5, 6].map(|port| (port, frame.clone()));
            lab.check(1, &frame, (slot, Bypassed), &out);
            passed += 1;
        } else {
            lab.check_gone(1, &frame, (NO_JOB, Malformed));
        }
    }
    assert!(passed >= at_least, "{passed} frames of {values} values");
}

/// A finished sweep names the cell after the last one.
fn sweep_is_over(frame: &[u8]) -> bool {
    u32::from_be_bytes(frame[INDEX..INDEX + 4].try_into().expect("four bytes")) >= 0x1_0000
}
