//! Congestion marks and overflow flags: the sum has any contribution's, and the copy keeps them.

use super::{LOCAL, PAIR, SOLO, UNIT, rack, values};
use crate::cases::cases;
use crate::frames::{CAPABLE, CONGESTED, MARKED, NOT_CAPABLE, OVERFLOW, RESEND};
use crate::lab::Outcome::*;
use crate::scene::{PS, sum};

cases!("p4inc::flags":
    any_contribution_marks_the_result, duplicates_mark_nothing, flags_do_not_outlive_their_round,
    flags_of_a_partial_sum, copy_keeps_what_the_cell_forgets, flags_of_one_worker_alone,
);

/// First, middle or last, by the code point or the flag; and overflowed values.
fn any_contribution_marks_the_result() {
    let mut lab = rack();
    let parts: [_; 3] = values(&lab);
    let total = sum(&[&parts[0], &parts[1], &parts[2]]);
    let mut round = 0;
    for (ecn, flags, out) in [
        (CONGESTED, 0, MARKED),
        (CAPABLE, MARKED, MARKED),
        (NOT_CAPABLE, OVERFLOW, OVERFLOW),
        (CONGESTED, OVERFLOW, OVERFLOW | MARKED),
    ] {
        for which in [None, Some(0), Some(1), Some(2)] {
            round += 1;
            let frame = |worker: usize| {
                let frame = LOCAL.gradient(worker, round, 4, &parts[worker]);
                if which == Some(worker) { frame.ecn(ecn).flags(flags) } else { frame }
            };
            lab.check_gone(1, &frame(0).bytes(), (LOCAL.slot, Absorbed));
            lab.check_gone(2, &frame(1).bytes(), (LOCAL.slot, Added));
            let out = if which.is_some() { out } else { 0 };
            // The other fields of the result's IPv4 header are those of the last packet.
            let result = LOCAL.published(&frame(2), &total).flags(out);
            let copies = LOCAL.for_workers(&result);
            lab.check(3, &frame(2).bytes(), (LOCAL.slot, Completed), &copies);
            let again = LOCAL.gradient(1, round, 4, &parts[0]).flags(RESEND);
            let reply = LOCAL.repeated(&again, &total).flags(out);
            lab.check(2, &again.bytes(), (LOCAL.slot, Repeated), &[(2, reply.bytes())]);
        }
    }
}

fn duplicates_mark_nothing() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    lab.check_gone(2, &PAIR.gradient(0, 8, 6, &x).bytes(), (PAIR.slot, Absorbed));
    let again = PAIR.gradient(0, 8, 6, &x).ecn(CONGESTED).flags(RESEND | OVERFLOW | MARKED);
    lab.check_gone(2, &again.bytes(), (PAIR.slot, Duplicate));
    let last = PAIR.gradient(1, 8, 6, &y);
    let result = PAIR.published(&last, &sum(&[&x, &y]));
    assert_eq!(result.flags, 0);
    lab.check(3, &last.bytes(), (PAIR.slot, Completed), &PAIR.for_workers(&result));
}

fn flags_do_not_outlive_their_round() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    for round in 0..6 {
        let flags = if round % 2 == 0 { OVERFLOW | MARKED } else { 0 };
        let first = PAIR.gradient(0, round, 6, &x).flags(flags);
        lab.check_gone(2, &first.bytes(), (PAIR.slot, Absorbed));
        let last = PAIR.gradient(1, round, 6, &y);
        let result = PAIR.published(&last, &sum(&[&x, &y])).flags(flags);
        lab.check(3, &last.bytes(), (PAIR.slot, Completed), &PAIR.for_workers(&result));
    }
}

fn flags_of_a_partial_sum() {
    let mut lab = rack();
    let [x, y, all] = values(&lab);
    let mut round = 8;
    for flags in [0, OVERFLOW, MARKED, OVERFLOW | MARKED] {
        for marked_first in [false, true] {
            round += 8;
            let [one, two] = if marked_first { [flags, 0] } else { [0, flags] };
            let first = UNIT.gradient(0, round, 8, &x).flags(one);
            lab.check_gone(1, &first.bytes(), (UNIT.slot, Absorbed));
            let last = UNIT.gradient(1, round, 8, &y).flags(two);
            let whole = UNIT.summed(&last, &sum(&[&x, &y])).flags(flags);
            lab.check(2, &last.bytes(), (UNIT.slot, Completed), &[(PS, whole.bytes())]);
            // The answer is the same, whatever the flags of the request.
            for own in [RESEND, RESEND | OVERFLOW] {
                let again = UNIT.gradient(0, round, 8, &x).flags(own);
                let whole = UNIT.sent_again(&again, &sum(&[&x, &y])).flags(flags | RESEND);
                lab.check(1, &again.bytes(), (UNIT.slot, Resent), &[(PS, whole.bytes())]);
            }
            let result = UNIT.parameter(round, 8, &all);
            lab.check(PS, &result.bytes(), (UNIT.slot, Distributed), &UNIT.for_workers(&result));
        }
    }
}

/// The flags of the next round do not affect the copy, nor the reverse.
fn copy_keeps_what_the_cell_forgets() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    for (round, old, new) in [(8, OVERFLOW | MARKED, 0), (24, 0, OVERFLOW | MARKED)] {
        let first = PAIR.gradient(0, round, 7, &x).flags(old);
        lab.check_gone(2, &first.bytes(), (PAIR.slot, Absorbed));
        let last = PAIR.gradient(1, round, 7, &y);
        let result = PAIR.published(&last, &sum(&[&x, &y])).flags(old);
        lab.check(3, &last.bytes(), (PAIR.slot, Completed), &PAIR.for_workers(&result));
        let first = PAIR.gradient(0, round + 8, 7, &y).flags(new);
        lab.check_gone(2, &first.bytes(), (PAIR.slot, Absorbed));
        let again = PAIR.gradient(1, round, 7, &y).flags(RESEND);
        let reply = PAIR.repeated(&again, &sum(&[&x, &y])).flags(old);
        lab.check(3, &again.bytes(), (PAIR.slot, Repeated), &[(3, reply.bytes())]);
        let last = PAIR.gradient(1, round + 8, 7, &x);
        let result = PAIR.published(&last, &sum(&[&x, &y])).flags(new);
        lab.check(3, &last.bytes(), (PAIR.slot, Completed), &PAIR.for_workers(&result));
    }
}

fn flags_of_one_worker_alone() {
    let mut lab = rack();
    let [x] = values(&lab);
    for (round, ecn, flags, out) in [
        (8, CONGESTED, RESEND, MARKED),
        (16, CAPABLE, OVERFLOW, OVERFLOW),
        (24, NOT_CAPABLE, MARKED | RESEND, MARKED),
        (32, CAPABLE, 0, 0),
    ] {
        let only = SOLO.gradient(0, round, 14, &x).ecn(ecn).flags(flags);
        let result = SOLO.published(&only, &x).flags(out);
        let copies = SOLO.for_workers(&result);
        lab.check(3, &only.bytes(), (SOLO.slot, Completed), &copies);
        let again = SOLO.gradient(0, round, 14, &x);
        let reply = SOLO.repeated(&again, &x).flags(out);
        lab.check(3, &again.bytes(), (SOLO.slot, Repeated), &[(3, reply.bytes())]);
    }
}
