//! Jobs with workers elsewhere: sums go to the parameter server, whose answer finishes the round.

use super::{LONE, SERVED, UNIT, asynchronous, rack, values};
use crate::cases::cases;
use crate::entries::Entry;
use crate::frames::{COLLISION, CONGESTED, GRADIENT, MARKED, OVERFLOW, RESEND};
use crate::lab::Outcome::*;
use crate::scene::{PS, sum};

cases!("p4inc::partial":
    sum_goes_to_the_server, sum_is_sent_again, not_all_of_it_is_here, round_lasts_until_the_answer,
    answer_finishes_and_fills_the_copy, reply_does_so_too, answer_from_the_copy,
    older_results_are_the_servers, answer_before_the_sum, late_answer, one_worker_here,
    results_handed_over, other_units_pass, sum_sent_again_after_more_rounds,
    local_is_all_workers_and_a_group,
);

fn sum_goes_to_the_server() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    for (cell, flags) in [(8, 0), (9, RESEND)] {
        let first = UNIT.gradient(0, 8, cell, &x).flags(flags);
        lab.check_gone(1, &first.bytes(), (UNIT.slot, Absorbed));
        let last = UNIT.gradient(1, 8, cell, &y).flags(flags);
        let whole = UNIT.summed(&last, &sum(&[&x, &y]));
        assert_eq!((whole.kind, whole.bitmap, whole.flags), (GRADIENT, 0b0011, 0));
        lab.check(2, &last.bytes(), (UNIT.slot, Completed), &[(PS, whole.bytes())]);
    }
}

/// The sum, or the answer to it, was lost: a resend takes the whole sum along.
fn sum_is_sent_again() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    let total = sum(&[&x, &y]);
    lab.check_gone(1, &UNIT.gradient(0, 8, 8, &x).bytes(), (UNIT.slot, Absorbed));
    let last = UNIT.gradient(1, 8, 8, &y);
    let whole = UNIT.summed(&last, &total);
    lab.check(2, &last.bytes(), (UNIT.slot, Completed), &[(PS, whole.bytes())]);
    for (worker, flags) in [(0, RESEND), (1, RESEND), (0, RESEND), (1, 0)] {
        let again = UNIT.gradient(worker, 8, 8, &[5; 32]).flags(flags);
        let whole = UNIT.sent_again(&again, &total);
        assert_eq!((whole.bitmap, whole.flags), (0b0011, RESEND));
        let port = UNIT.workers[worker];
        lab.check(port, &again.bytes(), (UNIT.slot, Resent), &[(PS, whole.bytes())]);
    }
    // A mark that it got on its way is reported once.
    let again = UNIT.gradient(0, 8, 8, &x).flags(RESEND).ecn(CONGESTED);
    let whole = UNIT.sent_again(&again, &total).flags(RESEND | MARKED);
    lab.check(1, &again.bytes(), (UNIT.slot, Resent), &[(PS, whole.bytes())]);
    let again = UNIT.gradient(0, 8, 8, &x).flags(RESEND);
    let whole = UNIT.sent_again(&again, &total);
    lab.check(1, &again.bytes(), (UNIT.slot, Resent), &[(PS, whole.bytes())]);
}

fn not_all_of_it_is_here() {
    let mut lab = rack();
    let [x] = values(&lab);
    lab.check_gone(1, &UNIT.gradient(0, 8, 8, &x).bytes(), (UNIT.slot, Absorbed));
    for flags in [0, RESEND] {
        let again = UNIT.gradient(0, 8, 8, &x).flags(flags);
        lab.check_gone(1, &again.bytes(), (UNIT.slot, Duplicate));
    }
}

/// All contributions of this unit have arrived, but the round is not finished: the cell cannot be
/// taken.
fn round_lasts_until_the_answer() {
    let mut lab = rack();
    let [x, y, z] = values(&lab);
    lab.check_gone(1, &UNIT.gradient(0, 8, 8, &x).bytes(), (UNIT.slot, Absorbed));
    for round in [9, 40] {
        let early = UNIT.gradient(1, round, 8, &z);
        let error = asynchronous(&early).bytes();
        lab.check(2, &early.bytes(), (UNIT.slot, Asynchronous), &[(2, error)]);
    }
    let last = UNIT.gradient(1, 8, 8, &y);
    let whole = UNIT.summed(&last, &sum(&[&x, &y]));
    lab.check(2, &last.bytes(), (UNIT.slot, Completed), &[(PS, whole.bytes())]);
    for worker in 0..2 {
        let port = UNIT.workers[worker];
        let early = UNIT.gradient(worker, 40, 8, &z).flags(RESEND);
        let error = asynchronous(&early).bytes();
        lab.check(port, &early.bytes(), (UNIT.slot, Asynchronous), &[(port, error)]);
    }
    let result = UNIT.parameter(8, 8, &z);
    lab.check(PS, &result.bytes(), (UNIT.slot, Distributed), &UNIT.for_workers(&result));
    lab.check_gone(2, &UNIT.gradient(1, 40, 8, &z).bytes(), (UNIT.slot, Absorbed));
}

fn answer_finishes_and_fills_the_copy() {
    let mut lab = rack();
    let [x, y, all] = values(&lab);
    for round in [8, 9, 16] {
        lab.check_gone(1, &UNIT.gradient(0, round, 8, &x).bytes(), (UNIT.slot, Absorbed));
        let last = UNIT.gradient(1, round, 8, &y);
        let whole = UNIT.summed(&last, &sum(&[&x, &y]));
        lab.check(2, &last.bytes(), (UNIT.slot, Completed), &[(PS, whole.bytes())]);
        let result = UNIT.parameter(round, 8, &all);
        lab.check(PS, &result.bytes(), (UNIT.slot, Distributed), &UNIT.for_workers(&result));
        let again = UNIT.gradient(1, round, 8, &y).flags(RESEND);
        let reply = UNIT.repeated(&again, &all);
        assert_eq!(reply.bitmap, 0b1111);
        lab.check(2, &again.bytes(), (UNIT.slot, Repeated), &[(2, reply.bytes())]);
    }
}

fn reply_does_so_too() {
    let mut lab = rack();
    let [x, y, all] = values(&lab);
    lab.check_gone(1, &UNIT.gradient(0, 8, 8, &x).bytes(), (UNIT.slot, Absorbed));
    let last = UNIT.gradient(1, 8, 8, &y);
    let whole = UNIT.summed(&last, &sum(&[&x, &y]));
    lab.check(2, &last.bytes(), (UNIT.slot, Completed), &[(PS, whole.bytes())]);
    let result = UNIT.reply(0, 8, 8, &all);
    lab.check(PS, &result.bytes(), (UNIT.slot, Replied), &[(1, result.bytes())]);
    let again = UNIT.gradient(1, 8, 8, &y).flags(RESEND);
    let reply = UNIT.repeated(&again, &all);
    lab.check(2, &again.bytes(), (UNIT.slot, Repeated), &[(2, reply.bytes())]);
    lab.check_gone(1, &UNIT.gradient(0, 16, 8, &x).bytes(), (UNIT.slot, Absorbed));
}

/// The next round has begun.
fn answer_from_the_copy() {
    let mut lab = rack();
    let [x, y, all] = values(&lab);
    let result = UNIT.parameter(8, 8, &all);
    lab.check(PS, &result.bytes(), (UNIT.slot, Distributed), &UNIT.for_workers(&result));
    lab.check_gone(1, &UNIT.gradient(0, 16, 8, &x).bytes(), (UNIT.slot, Absorbed));
    let again = UNIT.gradient(1, 8, 8, &y).flags(RESEND);
    let reply = UNIT.repeated(&again, &all);
    lab.check(2, &again.bytes(), (UNIT.slot, Repeated), &[(2, reply.bytes())]);
    let last = UNIT.gradient(1, 16, 8, &y);
    let whole = UNIT.summed(&last, &sum(&[&x, &y]));
    lab.check(2, &last.bytes(), (UNIT.slot, Completed), &[(PS, whole.bytes())]);
    lab.check(2, &again.bytes(), (UNIT.slot, Repeated), &[(2, reply.bytes())]);
}

/// With a window larger than the segment, a worker may request a result that no copy holds any
/// more.
fn older_results_are_the_servers() {
    let mut lab = rack();
    let [x, all] = values(&lab);
    for round in [8, 16] {
        let result = UNIT.parameter(round, 8, &all);
        lab.check(PS, &result.bytes(), (UNIT.slot, Distributed), &UNIT.for_workers(&result));
    }
    for round in [0, 8, 9, 15] {
        let again = UNIT.gradient(1, round, 8, &x).flags(RESEND);
        lab.check(2, &again.bytes(), (UNIT.slot, Resent), &[(PS, again.bytes())]);
        let marked = again.clone().ecn(CONGESTED);
        let out = marked.clone().flags(RESEND | MARKED);
        lab.check(2, &marked.bytes(), (UNIT.slot, Resent), &[(PS, out.bytes())]);
        // Without the request flag, it is a late packet.
        let late = UNIT.gradient(1, round, 8, &x);
        lab.check_gone(2, &late.bytes(), (UNIT.slot, Stale));
    }
}

/// The server got the contributions on other paths: later packets here are answered.
fn answer_before_the_sum() {
    let mut lab = rack();
    let [x, all] = values(&lab);
    lab.check_gone(1, &UNIT.gradient(0, 8, 8, &x).bytes(), (UNIT.slot, Absorbed));
    let result = UNIT.parameter(16, 8, &all);
    lab.check(PS, &result.bytes(), (UNIT.slot, Distributed), &UNIT.for_workers(&result));
    for worker in 0..2 {
        let port = UNIT.workers[worker];
        let again = UNIT.gradient(worker, 16, 8, &x);
        let reply = UNIT.repeated(&again, &all).bytes();
        lab.check(port, &again.bytes(), (UNIT.slot, Repeated), &[(port, reply)]);
    }
    let late = UNIT.gradient(1, 8, 8, &x).flags(RESEND);
    lab.check(2, &late.bytes(), (UNIT.slot, Resent), &[(PS, late.bytes())]);
}

/// A copy of an answer to an earlier round reaches the workers, and has no other effect.
fn late_answer() {
    let mut lab = rack();
    let [x, y, all, other] = values(&lab);
    let result = UNIT.parameter(16, 8, &all);
    lab.check(PS, &result.bytes(), (UNIT.slot, Distributed), &UNIT.for_workers(&result));
    lab.check_gone(1, &UNIT.gradient(0, 24, 8, &x).bytes(), (UNIT.slot, Absorbed));
    for round in [0, 8, 16, 23] {
        let late = UNIT.parameter(round, 8, &other);
        lab.check(PS, &late.bytes(), (UNIT.slot, Distributed), &UNIT.for_workers(&late));
        let late = UNIT.reply(1, round, 8, &other);
        lab.check(PS, &late.bytes(), (UNIT.slot, Replied), &[(2, late.bytes())]);
    }
    let again = UNIT.gradient(1, 16, 8, &y).flags(RESEND);
    let reply = UNIT.repeated(&again, &all);
    lab.check(2, &again.bytes(), (UNIT.slot, Repeated), &[(2, reply.bytes())]);
    let last = UNIT.gradient(1, 24, 8, &y);
    let whole = UNIT.summed(&last, &sum(&[&x, &y]));
    lab.check(2, &last.bytes(), (UNIT.slot, Completed), &[(PS, whole.bytes())]);
}

/// There is nothing to add: its packets pass, whatever the cell's state.
fn one_worker_here() {
    let mut lab = rack();
    let [x, all] = values(&lab);
    for round in [8, 8, 16, 7] {
        for flags in [0, RESEND] {
            let frame = LONE.gradient(0, round, 12, &x).flags(flags).ecn(CONGESTED);
            lab.check(1, &frame.bytes(), (LONE.slot, Bypassed), &[(PS, frame.bytes())]);
        }
        let result = LONE.parameter(8, 12, &all);
        lab.check(PS, &result.bytes(), (LONE.slot, Distributed), &LONE.for_workers(&result));
    }
    // But the bounds of its segment still apply.
    let outside = LONE.gradient(0, 8, 14, &x);
    lab.check_gone(1, &outside.bytes(), (LONE.slot, Outside));
}

/// A result sent by a worker passes, whatever the cell's round, and changes nothing there.
fn results_handed_over() {
    let mut lab = rack();
    let [x, y, result] = values(&lab);
    let flags = RESEND | COLLISION;
    lab.check_gone(1, &UNIT.gradient(0, 16, 8, &x).bytes(), (UNIT.slot, Absorbed));
    for round in [8, 16, 24] {
        for flags in [flags, flags | OVERFLOW, flags | MARKED] {
            for worker in [0, 1] {
                let frame = UNIT.gradient(worker, round, 8, &result).flags(flags).ecn(CONGESTED);
                let port = UNIT.workers[worker];
                lab.check(port, &frame.bytes(), (UNIT.slot, Resent), &[(PS, frame.bytes())]);
            }
        }
    }
    let frame = SERVED.gradient(0, 8, 0, &result).flags(flags);
    lab.check(1, &frame.bytes(), (SERVED.slot, Resent), &[(PS, frame.bytes())]);
    // A result of a worker elsewhere, or of several workers, is invalid.
    for bitmap in [0, 0b0010, 0b0011, 0b0100] {
        let frame = UNIT.gradient(0, 16, 8, &result).flags(flags).bitmap(bitmap);
        lab.check_gone(1, &frame.bytes(), (UNIT.slot, Malformed));
    }
    let last = UNIT.gradient(1, 16, 8, &y);
    let whole = UNIT.summed(&last, &sum(&[&x, &y]));
    lab.check(2, &last.bytes(), (UNIT.slot, Completed), &[(PS, whole.bytes())]);
}

/// Sums of other units' switches are not added again.
fn other_units_pass() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    lab.insert(&[Entry::pass(UNIT.id, 6, GRADIENT, UNIT.slot)]);
    lab.check_gone(1, &UNIT.gradient(0, 8, 8, &x).bytes(), (UNIT.slot, Absorbed));
    for flags in [0, RESEND, MARKED] {
        let frame = UNIT.frame(GRADIENT, 6, PS, 8, 8).values(&y).bitmap(0b1100).flags(flags);
        lab.check(6, &frame.bytes(), (UNIT.slot, Bypassed), &[(PS, frame.bytes())]);
    }
    let last = UNIT.gradient(1, 8, 8, &y);
    let whole = UNIT.summed(&last, &sum(&[&x, &y]));
    lab.check(2, &last.bytes(), (UNIT.slot, Completed), &[(PS, whole.bytes())]);
}

/// The resent sum is that of the current round, not of an earlier one.
fn sum_sent_again_after_more_rounds() {
    let mut lab = rack();
    let parts: [_; 8] = values(&lab);
    for round in 0..4 {
        let [x, y] = &parts[2 * round..][..2] else { unreachable!() };
        let round = 8 * round as u32 + 3;
        let total = sum(&[x, y]);
        lab.check_gone(2, &UNIT.gradient(1, round, 11, y).bytes(), (UNIT.slot, Absorbed));
        let last = UNIT.gradient(0, round, 11, x);
        let whole = UNIT.summed(&last, &total);
        lab.check(1, &last.bytes(), (UNIT.slot, Completed), &[(PS, whole.bytes())]);
        let again = UNIT.gradient(1, round, 11, y).flags(RESEND);
        let whole = UNIT.sent_again(&again, &total);
        lab.check(2, &again.bytes(), (UNIT.slot, Resent), &[(PS, whole.bytes())]);
        let result = UNIT.parameter(round, 11, &parts[0]);
        lab.check(PS, &result.bytes(), (UNIT.slot, Distributed), &UNIT.for_workers(&result));
    }
}

/// A switch makes results only with a group, and only of all workers. Otherwise the server makes
/// them, even if no worker is elsewhere.
fn local_is_all_workers_and_a_group() {
    let mut lab = rack();
    let [x, y, all] = values(&lab);
    let total = sum(&[&x, &y]);
    for (round, group, everyone) in [(8, UNIT.group, 0b1111), (16, 0, 0b0011)] {
        lab.modify(&[
            Entry::contribute_to(UNIT.id, 1, (0b01, 0b11), group, UNIT.slot),
            Entry::contribute_to(UNIT.id, 2, (0b10, 0b11), group, UNIT.slot),
            Entry::aggregate(UNIT.id, UNIT.service, UNIT.segment, everyone),
        ]);
        lab.check_gone(1, &UNIT.gradient(0, round, 8, &x).bytes(), (UNIT.slot, Absorbed));
        let last = UNIT.gradient(1, round, 8, &y);
        let whole = UNIT.summed(&last, &total);
        lab.check(2, &last.bytes(), (UNIT.slot, Completed), &[(PS, whole.bytes())]);
        let again = UNIT.gradient(0, round, 8, &x).flags(RESEND);
        let whole = UNIT.sent_again(&again, &total);
        lab.check(1, &again.bytes(), (UNIT.slot, Resent), &[(PS, whole.bytes())]);
        let result = UNIT.parameter(round, 8, &all).bitmap(everyone);
        lab.check(PS, &result.bytes(), (UNIT.slot, Distributed), &UNIT.for_workers(&result));
        let reply = UNIT.repeated(&again, &all).bitmap(everyone);
        lab.check(1, &again.bytes(), (UNIT.slot, Repeated), &[(1, reply.bytes())]);
    }
}
