//! Jobs whose workers are all below the switch: rules A to E without a parameter server.

use super::{LOCAL, PAIR, SOLO, asynchronous, rack, values};
use crate::cases::cases;
use crate::entries::Entry;
use crate::frames::{CONGESTED, MARKED, RESEND, mac};
use crate::lab::Outcome::*;
use crate::scene::{PS, sum};

cases!("p4inc::local":
    round_by_round, any_order, duplicate, jobs_do_not_meet, first_and_last_round, rounds_may_be_skipped,
    early_is_turned_back, early_leaves_the_round_alone, routed_early, stale, late_from_the_copy,
    one_worker_alone, resends_count_as_contributions, wrapping_sums,
);

fn round_by_round() {
    let mut lab = rack();
    let parts: [_; 6] = values(&lab);
    let cell = LOCAL.cell(1);
    for round in 0..3 {
        LOCAL.complete(&mut lab, 8 * round, cell, &parts[round as usize..]);
    }
}

fn any_order() {
    let mut lab = rack();
    let [x, y, z] = values(&lab);
    let total = sum(&[&x, &y, &z]);
    let parts = [&x, &y, &z];
    for (round, order) in
        [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]].iter().enumerate()
    {
        let gradient = |w: usize| LOCAL.gradient(w, round as u32, 2, parts[w]);
        for (&worker, outcome) in order.iter().zip([Absorbed, Added]) {
            let port = LOCAL.workers[worker];
            lab.check_gone(port, &gradient(worker).bytes(), (LOCAL.slot, outcome));
        }
        let last = gradient(order[2]);
        let result = LOCAL.published(&last, &total);
        let port = LOCAL.workers[order[2]];
        let out = LOCAL.for_workers(&result);
        lab.check(port, &last.bytes(), (LOCAL.slot, Completed), &out);
    }
}

fn duplicate() {
    let mut lab = rack();
    let [x, y, z] = values(&lab);
    lab.check_gone(1, &LOCAL.gradient(0, 8, 3, &x).bytes(), (LOCAL.slot, Absorbed));
    for flags in [0, RESEND] {
        let again = LOCAL.gradient(0, 8, 3, &z).flags(flags).ecn(CONGESTED);
        lab.check_gone(1, &again.bytes(), (LOCAL.slot, Duplicate));
    }
    lab.check_gone(2, &LOCAL.gradient(1, 8, 3, &y).bytes(), (LOCAL.slot, Added));
    for (worker, port) in [(0, 1), (1, 2)] {
        let again = LOCAL.gradient(worker, 8, 3, &z).flags(RESEND);
        lab.check_gone(port, &again.bytes(), (LOCAL.slot, Duplicate));
    }
    let last = LOCAL.gradient(2, 8, 3, &z);
    let result = LOCAL.published(&last, &sum(&[&x, &y, &z]));
    lab.check(3, &last.bytes(), (LOCAL.slot, Completed), &LOCAL.for_workers(&result));
}

/// The same rounds of two jobs, in neighbouring cells.
fn jobs_do_not_meet() {
    let mut lab = rack();
    let [a, b, c, x, y] = values(&lab);
    let (ours, theirs) = (LOCAL.cell(3), PAIR.cell(0));
    assert_eq!(ours + 1, theirs);
    lab.check_gone(1, &LOCAL.gradient(0, 8, ours, &a).bytes(), (LOCAL.slot, Absorbed));
    lab.check_gone(2, &PAIR.gradient(0, 8, theirs, &x).bytes(), (PAIR.slot, Absorbed));
    lab.check_gone(2, &LOCAL.gradient(1, 8, ours, &b).bytes(), (LOCAL.slot, Added));
    let last = PAIR.gradient(1, 8, theirs, &y);
    let result = PAIR.published(&last, &sum(&[&x, &y]));
    lab.check(3, &last.bytes(), (PAIR.slot, Completed), &PAIR.for_workers(&result));
    let last = LOCAL.gradient(2, 8, ours, &c);
    let result = LOCAL.published(&last, &sum(&[&a, &b, &c]));
    lab.check(3, &last.bytes(), (LOCAL.slot, Completed), &LOCAL.for_workers(&result));
}

/// Zero is a normal round, and so is the second highest number; the highest is reserved.
fn first_and_last_round() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    for round in [0, 1, i32::MAX as u32, 1 << 31, u32::MAX - 1] {
        PAIR.complete(&mut lab, round, 6, &[x.clone(), y.clone()]);
        let again = PAIR.gradient(0, round, 6, &x);
        let result = PAIR.repeated(&again, &sum(&[&x, &y]));
        lab.check(2, &again.bytes(), (PAIR.slot, Repeated), &[(2, result.bytes())]);
    }
    for cell in [6, 7] {
        let none = PAIR.gradient(0, u32::MAX, cell, &x);
        lab.check_gone(2, &none.bytes(), (PAIR.slot, Malformed));
    }
}

/// A coarser rung of the same fragment, or the next fragment of the cell: only their order matters.
fn rounds_may_be_skipped() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    for round in [8, 9, 15, 8 * 4, 8 * 400 + 1] {
        PAIR.complete(&mut lab, round, 7, &[x.clone(), y.clone()]);
    }
    for round in [7, 8, 9, 15, 32, 3200] {
        let late = PAIR.gradient(0, round, 7, &x);
        lab.check_gone(2, &late.bytes(), (PAIR.slot, Stale));
    }
}

/// It is returned to its sender unchanged, except for its kind and the mark.
fn early_is_turned_back() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    lab.check_gone(1, &LOCAL.gradient(0, 8, 3, &x).bytes(), (LOCAL.slot, Absorbed));
    for round in [9, 16, u32::MAX - 1] {
        for flags in [0, RESEND, MARKED, crate::frames::OVERFLOW] {
            for worker in 0..3 {
                let port = LOCAL.workers[worker];
                let early = LOCAL.gradient(worker, round, 3, &y).flags(flags);
                let error = asynchronous(&early).bytes();
                lab.check(port, &early.bytes(), (LOCAL.slot, Asynchronous), &[(port, error)]);
            }
        }
    }
}

fn early_leaves_the_round_alone() {
    let mut lab = rack();
    let [x, y, z] = values(&lab);
    lab.check_gone(1, &LOCAL.gradient(0, 8, 3, &x).bytes(), (LOCAL.slot, Absorbed));
    let early = LOCAL.gradient(1, 16, 3, &z).flags(crate::frames::OVERFLOW).ecn(CONGESTED);
    let error = asynchronous(&early).bytes();
    lab.check(2, &early.bytes(), (LOCAL.slot, Asynchronous), &[(2, error)]);
    lab.check_gone(2, &LOCAL.gradient(1, 8, 3, &y).bytes(), (LOCAL.slot, Added));
    let last = LOCAL.gradient(2, 8, 3, &z);
    let result = LOCAL.published(&last, &sum(&[&x, &y, &z]));
    lab.check(3, &last.bytes(), (LOCAL.slot, Completed), &LOCAL.for_workers(&result));
    // Packets that were too early before are now in time.
    let [a, b] = [0, 1].map(|worker| LOCAL.gradient(worker, 16, 3, &x));
    lab.check_gone(1, &a.bytes(), (LOCAL.slot, Absorbed));
    lab.check_gone(2, &b.bytes(), (LOCAL.slot, Added));
}

/// If hosts reach each other through the switch's own address, answers are also routed.
fn routed_early() {
    const ROUTER: u64 = 0x0200_0000_00fe;
    let mut lab = rack();
    let [x] = values(&lab);
    lab.insert(&[Entry::own_address(ROUTER)]);
    lab.check_gone(2, &PAIR.gradient(0, 8, 6, &x).bytes(), (PAIR.slot, Absorbed));
    let early = PAIR.gradient(1, 16, 6, &x).with(|f| f.destination = ROUTER);
    let error = asynchronous(&early).bytes();
    lab.check(3, &early.bytes(), (PAIR.slot, Asynchronous), &[(3, error)]);
    assert_eq!(asynchronous(&early).destination, mac(3));
}

/// Of a round before the last finished one: no worker can be waiting for it.
fn stale() {
    let mut lab = rack();
    let parts: [_; 3] = values(&lab);
    let x = &parts[0];
    for round in [8, 16] {
        LOCAL.complete(&mut lab, round, 3, &parts);
    }
    for round in [0, 7, 8, 9, 15] {
        for flags in [0, RESEND] {
            let late = LOCAL.gradient(0, round, 3, x).flags(flags);
            lab.check_gone(1, &late.bytes(), (LOCAL.slot, Stale));
        }
    }
    // Also during the next round.
    lab.check_gone(1, &LOCAL.gradient(0, 24, 3, x).bytes(), (LOCAL.slot, Absorbed));
    let late = LOCAL.gradient(0, 8, 3, x).flags(RESEND);
    lab.check_gone(1, &late.bytes(), (LOCAL.slot, Stale));
}

fn late_from_the_copy() {
    let mut lab = rack();
    let parts: [_; 3] = values(&lab);
    let [x, y, z] = &parts;
    let total = sum(&[x, y, z]);
    LOCAL.complete(&mut lab, 8, 3, &parts);
    lab.check_gone(1, &LOCAL.gradient(0, 16, 3, z).bytes(), (LOCAL.slot, Absorbed));
    lab.check_gone(2, &LOCAL.gradient(1, 16, 3, z).bytes(), (LOCAL.slot, Added));
    for worker in 0..3 {
        let port = LOCAL.workers[worker];
        let again = LOCAL.gradient(worker, 8, 3, z).flags(RESEND);
        let reply = LOCAL.repeated(&again, &total).bytes();
        lab.check(port, &again.bytes(), (LOCAL.slot, Repeated), &[(port, reply)]);
    }
    // The current round is unaffected.
    let last = LOCAL.gradient(2, 16, 3, x);
    let result = LOCAL.published(&last, &sum(&[z, z, x]));
    lab.check(3, &last.bytes(), (LOCAL.slot, Completed), &LOCAL.for_workers(&result));
}

/// Its values are the result.
fn one_worker_alone() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    for (round, values) in [(8, &x), (16, &y)] {
        let only = SOLO.gradient(0, round, 14, values);
        let result = SOLO.published(&only, values);
        lab.check(3, &only.bytes(), (SOLO.slot, Completed), &SOLO.for_workers(&result));
        let again = SOLO.gradient(0, round, 14, &[7; 32]).flags(RESEND);
        let reply = SOLO.repeated(&again, values).bytes();
        lab.check(3, &again.bytes(), (SOLO.slot, Repeated), &[(3, reply)]);
    }
    lab.check_gone(3, &SOLO.gradient(0, 8, 14, &x).bytes(), (SOLO.slot, Stale));
}

/// A worker's first packet to arrive may be a resend.
fn resends_count_as_contributions() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    let again = |worker, values| PAIR.gradient(worker, 8, 6, values).flags(RESEND);
    lab.check_gone(2, &again(0, &x).bytes(), (PAIR.slot, Absorbed));
    let last = again(1, &y);
    let result = PAIR.published(&last, &sum(&[&x, &y]));
    assert_eq!(result.flags, 0);
    lab.check(3, &last.bytes(), (PAIR.slot, Completed), &PAIR.for_workers(&result));
    assert!(lab.send(PS, &result.bytes()).is_empty(), "no server has a say in a local job");
}

fn wrapping_sums() {
    let mut lab = rack();
    let of = |value: i32| vec![value; 32];
    for (round, parts) in
        [[i32::MAX, 1, 1], [i32::MIN, -1, 0], [-1, 1, i32::MIN]].iter().enumerate()
    {
        LOCAL.complete(&mut lab, round as u32, 5, &parts.map(of));
    }
}
