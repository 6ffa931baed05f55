//! Fresh gradients without another task in their cell, and results.

use super::{A, B, ONE, RACK, rack, values};
use crate::cases::cases;
use crate::frames::{CAPABLE, COLLISION, CONGESTED, MARKED, OVERFLOW};
use crate::lab::Outcome::*;
use crate::scene::{PS, sum};

cases!("esa::fresh":
    absorbed_added_and_completed_at_the_top, completed_below_the_top, completing_frees,
    duplicate, alone_at_the_top, bypassed_with_flags, marks_reach_the_result, result_of_the_server_frees,
    swept,
);

fn absorbed_added_and_completed_at_the_top() {
    let mut lab = rack();
    let [x, y, z] = values(&lab);
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Absorbed));
    lab.check_gone(3, &A.gradient(2, 7, 3, &z).bytes(), (A.slot, Added));
    let last = A.gradient(1, 7, 3, &y);
    let result = A.result(&last, &sum(&[&x, &y, &z]));
    lab.check(2, &last.bytes(), (A.slot, Completed), &A.for_workers(&result));
}

/// The sum continues as a fresh packet.
fn completed_below_the_top() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    lab.check_gone(1, &RACK.gradient(0, 7, 3, &x).bytes(), (RACK.slot, Absorbed));
    let last = RACK.gradient(1, 7, 3, &y).priority(99);
    let whole = last.clone().bitmap(0b11).values(&sum(&[&x, &y]));
    lab.check(2, &last.bytes(), (RACK.slot, Completed), &[(PS, whole.bytes())]);
}

/// Unlike in ATP, the next task finds the cell free at once.
fn completing_frees() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    for sequence in 0..3 {
        for job in [RACK, B] {
            let first = job.gradient(0, sequence, 3, &x).priority(1);
            let last = job.gradient(1, sequence, 3, &y).priority(1);
            let total = sum(&[&x, &y]);
            let [from, to] = [job.workers[0], job.workers[1]];
            lab.check_gone(from, &first.bytes(), (job.slot, Absorbed));
            let out = match job.group {
                0 => vec![(PS, last.clone().bitmap(0b11).values(&total).bytes())],
                _ => job.for_workers(&job.result(&last, &total)),
            };
            lab.check(to, &last.bytes(), (job.slot, Completed), &out);
        }
    }
    // A late copy starts again, with nothing of the old sum.
    lab.check_gone(3, &B.gradient(1, 2, 3, &y).bytes(), (B.slot, Absorbed));
}

fn duplicate() {
    let mut lab = rack();
    let [x, y, z] = values(&lab);
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Absorbed));
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).ecn(CONGESTED).bytes(), (A.slot, Duplicate));
    lab.check_gone(2, &A.gradient(1, 7, 3, &y).bytes(), (A.slot, Added));
    lab.check_gone(2, &A.gradient(1, 7, 3, &z).bytes(), (A.slot, Duplicate));
    let last = A.gradient(2, 7, 3, &z);
    let result = A.result(&last, &sum(&[&x, &y, &z]));
    lab.check(3, &last.bytes(), (A.slot, Completed), &A.for_workers(&result));
}

/// A job of one worker, at its switch.
fn alone_at_the_top() {
    let mut lab = rack();
    let [x] = values(&lab);
    for (ecn, flags, marked) in [(CAPABLE, 0, 0), (CONGESTED, 0, MARKED), (CAPABLE, MARKED, MARKED)]
    {
        let only = ONE.gradient(0, 7, 3, &x).ecn(ecn).flags(flags);
        let result = ONE.result(&only, &x).flags(marked);
        lab.check(1, &only.bytes(), (ONE.slot, Completed), &ONE.for_workers(&result));
    }
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Absorbed));
}

/// Packets that failed to preempt elsewhere, and those that switches may not add, pass unchanged.
fn bypassed_with_flags() {
    let mut lab = rack();
    let [x] = values(&lab);
    for flags in [COLLISION, OVERFLOW, COLLISION | OVERFLOW, COLLISION | MARKED] {
        for priority in [1, 255] {
            let frame = A.gradient(0, 7, 3, &x).flags(flags).priority(priority).ecn(CONGESTED);
            lab.check(1, &frame.bytes(), (A.slot, Bypassed), &[(PS, frame.bytes())]);
        }
    }
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Absorbed));
}

fn marks_reach_the_result() {
    let mut lab = rack();
    let [x] = values(&lab);
    for (sequence, which) in [(1, None), (2, Some(0)), (3, Some(1)), (4, Some(2))] {
        let frame = |worker: usize| {
            let ecn = if which == Some(worker) { CONGESTED } else { CAPABLE };
            A.gradient(worker, sequence, 3, &x).ecn(ecn)
        };
        lab.check_gone(1, &frame(0).bytes(), (A.slot, Absorbed));
        lab.check_gone(2, &frame(1).bytes(), (A.slot, Added));
        let flags = if which.is_some() { MARKED } else { 0 };
        let result = A.result(&frame(2), &sum(&[&x, &x, &x])).flags(flags);
        lab.check(3, &frame(2).bytes(), (A.slot, Completed), &A.for_workers(&result));
    }
}

/// It frees the cell of its own task only.
fn result_of_the_server_frees() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Absorbed));
    let other = A.parameter(8, 3, &y);
    lab.check(PS, &other.bytes(), (A.slot, Distributed), &A.for_workers(&other));
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Duplicate));
    let own = A.parameter(7, 3, &y);
    lab.check(PS, &own.bytes(), (A.slot, Distributed), &A.for_workers(&own));
    lab.check_gone(2, &B.gradient(0, 1, 3, &x).priority(1).bytes(), (B.slot, Absorbed));
}

fn swept() {
    let mut lab = rack();
    let [x] = values(&lab);
    for cell in [0, 3, 15] {
        lab.check_gone(1, &A.gradient(0, cell, cell, &x).bytes(), (A.slot, Absorbed));
    }
    lab.check_gone(2, &B.gradient(0, 1, 4, &x).bytes(), (B.slot, Absorbed));
    let sweep = A.frame(crate::frames::SWEEP, 0, 0, 77, 0);
    for freed in [3, 0] {
        let back = sweep.clone().bitmap(freed).with(|f| f.index = 16);
        assert_eq!(lab.packet_out(&sweep.bytes()).packets_in, [back.bytes()]);
    }
    lab.counted();
    lab.check_gone(2, &B.gradient(0, 1, 4, &x).bytes(), (B.slot, Duplicate));
    lab.check_gone(2, &B.gradient(0, 2, 3, &x).priority(1).bytes(), (B.slot, Absorbed));
}
