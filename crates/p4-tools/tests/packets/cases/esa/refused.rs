//! Malformed packets, and packets from wrong ports.

use super::{A, AGENT, B, RACK, rack, values};
use crate::cases::cases;
use crate::entries::Entry;
use crate::frames::{ABSENT, COLLISION, MARKED, OVERFLOW, QUERY, REMINDER, REPLY, RESEND, SWEEP};
use crate::lab::{NO_JOB, Outcome::*};
use crate::scene::PS;

cases!("esa::refused":
    priority_zero, replies_and_queries, resends_of_workers, foreign_bits, other_protocols,
    other_kinds, lengths, index_beyond_the_pool, job_that_has_left,
);

/// A worker's gradient must have a priority; sums evicted by another switch have none.
fn priority_zero() {
    let mut lab = rack();
    let [x] = values(&lab);
    for flags in [0, COLLISION, OVERFLOW, COLLISION | OVERFLOW, MARKED, COLLISION | MARKED] {
        let frame = A.gradient(0, 7, 3, &x).flags(flags).priority(0);
        lab.check_gone(1, &frame.bytes(), (A.slot, Malformed));
    }
    lab.insert(&[Entry::contribute(77, 1, 0b0011, 0b1111, 9)]);
    let of_rack = RACK.gradient(0, 7, 3, &x).bitmap(0b11).priority(0).with(|f| f.job = 77);
    for flags in [0, OVERFLOW, COLLISION | OVERFLOW] {
        lab.check_gone(1, &of_rack.clone().flags(flags).bytes(), (9, Malformed));
    }
    for bitmap in [0b01, 0b11] {
        let evicted = of_rack.clone().bitmap(bitmap).flags(COLLISION | MARKED);
        lab.check(1, &evicted.bytes(), (9, Bypassed), &[(PS, evicted.bytes())]);
    }
    lab.check_gone(1, &A.gradient(0, 8, 3, &x).priority(1).bytes(), (A.slot, Absorbed));
}

fn replies_and_queries() {
    let mut lab = rack();
    let [x] = values(&lab);
    for port in 1..=6 {
        let reply = A.frame(REPLY, PS, 1, 7, 3).values(&x).bitmap(0b111);
        lab.check_gone(port, &reply.bytes(), (NO_JOB, Rejected));
        let query = A.frame(QUERY, PS, 1, 7, 3).bitmap(1);
        lab.check_gone(port, &query.bytes(), (NO_JOB, Rejected));
    }
    // Not even with an entry.
    lab.insert(&[Entry::answer(A.id, PS, REPLY, A.slot), Entry::answer(A.id, PS, QUERY, A.slot)]);
    let reply = A.frame(REPLY, PS, 1, 7, 3).values(&x).bitmap(0b111);
    lab.check_gone(PS, &reply.bytes(), (A.slot, Malformed));
    lab.check_gone(PS, &A.frame(QUERY, PS, 1, 7, 3).bitmap(1).bytes(), (A.slot, Malformed));
}

/// Workers bypass the aggregators with other flags: this one is for switches.
fn resends_of_workers() {
    let mut lab = rack();
    let [x] = values(&lab);
    for flags in [RESEND, RESEND | COLLISION, RESEND | OVERFLOW, RESEND | MARKED] {
        for frame in [A.gradient(0, 7, 3, &x), A.gradient(0, 7, 3, &x).priority(0)] {
            lab.check_gone(1, &frame.flags(flags).bytes(), (A.slot, Malformed));
        }
    }
    let result = A.parameter(7, 3, &x).flags(RESEND);
    lab.check_gone(PS, &result.bytes(), (A.slot, Malformed));
}

fn foreign_bits() {
    let mut lab = rack();
    let [x] = values(&lab);
    for flags in 0..16 {
        for bitmap in [0, 0b010, 0b011, 0b111, 0b1000, u32::MAX] {
            let frame = A.gradient(0, 7, 3, &x).bitmap(bitmap).flags(flags);
            lab.check_gone(1, &frame.bytes(), (A.slot, Malformed));
        }
    }
    lab.check_gone(2, &B.gradient(0, 7, 3, &x).priority(1).bytes(), (B.slot, Absorbed));
}

fn other_protocols() {
    let mut lab = rack();
    let [x] = values(&lab);
    for protocol in [0, 1, 3, 4, 255] {
        let frame = A.gradient(0, 7, 3, &x).with(|f| f.protocol = protocol);
        lab.check_gone(1, &frame.bytes(), (NO_JOB, Malformed));
        let sweep = A.frame(SWEEP, 0, 0, 7, 3).with(|f| f.protocol = protocol);
        lab.check_gone(1, &sweep.bytes(), (NO_JOB, Malformed));
    }
    lab.check_gone(1, &A.frame(SWEEP, 0, 0, 7, 3).bytes(), (NO_JOB, Rejected));
}

fn other_kinds() {
    let mut lab = rack();
    let [x] = values(&lab);
    for kind in [0, 8, 9, 128, 255] {
        let frame = A.gradient(0, 7, 3, &x).with(|f| f.kind = kind);
        lab.check_gone(1, &frame.bytes(), (NO_JOB, Malformed));
    }
}

/// Reminders and their answers have room for the sum.
fn lengths() {
    let mut lab = rack();
    let zeros = vec![0; lab.build().values];
    for kind in [REMINDER, ABSENT] {
        let bare = A.frame(kind, AGENT, 1, 7, 3).bitmap(0b111);
        for frame in
            [bare.clone(), bare.clone().values(&zeros[1..]), bare.with(|f| f.count = Some(32))]
        {
            lab.check_gone(AGENT, &frame.bytes(), (NO_JOB, Malformed));
        }
    }
}

fn index_beyond_the_pool() {
    let mut lab = rack();
    let [x] = values(&lab);
    for index in [16, 17, u32::MAX] {
        lab.check_gone(1, &A.gradient(0, 7, index, &x).bytes(), (NO_JOB, Malformed));
        lab.check_gone(AGENT, &A.reminder(&lab, 7, index).bytes(), (NO_JOB, Malformed));
        lab.check_gone(PS, &A.parameter(7, index, &x).bytes(), (NO_JOB, Malformed));
    }
}

fn job_that_has_left() {
    let mut lab = rack();
    let [x] = values(&lab);
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Absorbed));
    lab.delete(&A.entries().into_iter().rev().collect::<Vec<_>>());
    lab.check_gone(2, &A.gradient(1, 7, 3, &x).bytes(), (NO_JOB, Rejected));
    lab.check_gone(AGENT, &A.reminder(&lab, 7, 3).bytes(), (NO_JOB, Rejected));
    // The remaining cell does not block others for long.
    let strong = B.gradient(0, 7, 3, &x).priority(11);
    lab.check_gone(2, &strong.bytes(), (B.slot, Preempted));
}
