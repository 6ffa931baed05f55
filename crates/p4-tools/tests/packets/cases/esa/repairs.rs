//! Packets between workers and parameter server that bypass the aggregators: gradients with both
//! the collision and the overflow flag, and queries that travel like results.

use super::{A, B, ONE, RACK, rack, values};
use crate::cases::cases;
use crate::frames::{COLLISION, CONGESTED, GRADIENT, OVERFLOW};
use crate::lab::Outcome::*;
use crate::scene::{PS, sum};

cases!("esa::repairs":
    contributions_pass_as_they_are, questions_reach_all_workers_and_free_the_aggregator,
    of_others_are_refused,
);

const REPAIR: u8 = COLLISION | OVERFLOW;

/// They pass with any code in the priority byte, whether or not the aggregator is occupied, and
/// leave it unchanged.
fn contributions_pass_as_they_are() {
    let mut lab = rack();
    let [x, y, z] = values(&lab);
    for (sequence, code) in [(7, 2), (7, 3), (7, 4), (8, 5), (9, 255)] {
        let frame = A.gradient(1, sequence, 3, &y).flags(REPAIR).priority(code);
        for frame in [frame.clone(), frame.ecn(CONGESTED)] {
            lab.check(2, &frame.bytes(), (A.slot, Bypassed), &[(PS, frame.bytes())]);
        }
        if (sequence, code) == (7, 2) {
            lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Absorbed));
            lab.check_gone(3, &A.gradient(2, 7, 3, &z).bytes(), (A.slot, Added));
        }
    }
    let last = A.gradient(1, 7, 3, &y);
    let result = A.result(&last, &sum(&[&x, &y, &z]));
    lab.check(2, &last.bytes(), (A.slot, Completed), &A.for_workers(&result));
    for job in [RACK, ONE] {
        let frame = job.gradient(0, 7, 3, &x).flags(REPAIR).priority(2);
        lab.check(1, &frame.bytes(), (job.slot, Bypassed), &[(PS, frame.bytes())]);
    }
}

/// Values left there by other workers are no longer needed: the workers will be asked for them.
fn questions_reach_all_workers_and_free_the_aggregator() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Absorbed));
    let zeros = vec![0; x.len()];
    for bitmap in [0b001, 0b110] {
        let question = A.parameter(7, 3, &zeros).bitmap(bitmap).flags(REPAIR).priority(6);
        lab.check(PS, &question.bytes(), (A.slot, Distributed), &A.for_workers(&question));
    }
    lab.check_gone(2, &B.gradient(0, 1, 3, &y).priority(1).bytes(), (B.slot, Absorbed));
    // A query for another task leaves the aggregator unchanged.
    let question = A.parameter(8, 3, &zeros).bitmap(1).flags(REPAIR).priority(6);
    lab.check(PS, &question.bytes(), (A.slot, Distributed), &A.for_workers(&question));
    let last = B.gradient(1, 1, 3, &x);
    let result = B.result(&last, &sum(&[&x, &y]));
    lab.check(3, &last.bytes(), (B.slot, Completed), &B.for_workers(&result));
}

/// Workers can neither send for other workers nor send queries.
fn of_others_are_refused() {
    let mut lab = rack();
    let [x] = values(&lab);
    for bitmap in [0, 0b010, 0b011, 0b111, u32::MAX] {
        let frame = A.gradient(0, 7, 3, &x).flags(REPAIR).priority(2).bitmap(bitmap);
        lab.check_gone(1, &frame.bytes(), (A.slot, Malformed));
    }
    for port in [PS, B.ps] {
        let frame = A.gradient(0, 7, 3, &x).flags(REPAIR).priority(2);
        assert_eq!(frame.kind, GRADIENT);
        lab.check_gone(port, &frame.bytes(), (crate::lab::NO_JOB, Rejected));
    }
    for port in [1, 2, 3, B.ps] {
        let question = A.parameter(7, 3, &x).bitmap(1).flags(REPAIR).priority(6);
        lab.check_gone(port, &question.bytes(), (crate::lab::NO_JOB, Rejected));
    }
}
