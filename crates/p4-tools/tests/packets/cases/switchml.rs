//! `switchml.p4`, rule by rule. Jobs and packets are those of [`p4inc`](super::p4inc), with another
//! protocol number: slot s of a job has the cells 2s and 2s + 1 of its segment.

use super::p4inc::sweep::{check_refused, check_sweep};
use super::p4inc::{Job, values};
use crate::cases::cases;
use crate::entries::Entry;
use crate::frames::{
    ASYNCHRONOUS, COLLISION, CONGESTED, GRADIENT, MARKED, OVERFLOW, PARAMETER, QUERY, REPLY, RESEND,
};
use crate::lab::{Lab, NO_JOB, Outcome::*};
use crate::scene::{PS, hosts, sum};
use crate::target::Build;

cases!("switchml":
    round_by_round, versions_take_turns, duplicate, result_from_the_other_version,
    result_is_kept_until_the_version_starts_anew, stale, early_is_dropped, flags, one_worker_alone,
    outside_is_dropped, wrong_service, refused, no_partial_sums, results_of_nobody, transit,
    first_and_last_round, swept, values_64, values_2048,
);

/// Three workers, two slots.
pub(super) const A: Job = Job {
    program: 4,
    id: 1,
    slot: 1,
    service: 5,
    group: 11,
    workers: &[1, 2, 3],
    elsewhere: 0,
    segment: (2, 4),
};

/// Two workers, one slot.
const B: Job =
    Job { id: 0x0201, slot: 2, service: 200, group: 12, workers: &[2, 3], segment: (6, 2), ..A };

const SOLO: Job =
    Job { id: 5, slot: 5, service: 255, group: 15, workers: &[3], segment: (14, 2), ..A };

pub(super) fn rack() -> Lab {
    furnished(Lab::new(Build::SWITCHML))
}

fn furnished(mut lab: Lab) -> Lab {
    lab.insert(&hosts());
    for job in [A, B, SOLO] {
        lab.insert(&job.entries());
    }
    lab
}

#[track_caller]
fn ask(lab: &mut Lab, job: Job, worker: usize, (round, cell): (u32, u32), total: &[i32]) {
    let port = job.workers[worker];
    for flags in [RESEND, 0] {
        let again = job.gradient(worker, round, cell, &vec![-7; total.len()]).flags(flags);
        let reply = job.repeated(&again, total).bytes();
        lab.check(port, &again.bytes(), (job.slot, Repeated), &[(port, reply)]);
    }
}

fn round_by_round() {
    let mut lab = rack();
    let parts: [_; 6] = values(&lab);
    for round in 0..4 {
        for cell in 2..6 {
            A.complete(&mut lab, 8 * round, cell, &parts[round as usize % 4..]);
        }
    }
}

/// The rounds of one slot, alternating between the versions.
fn versions_take_turns() {
    let mut lab = rack();
    let parts: [_; 6] = values(&lab);
    for round in 0..6 {
        let cell = B.cell(round % 2);
        B.complete(&mut lab, 8 * round, cell, &parts[round as usize % 4..]);
    }
}

fn duplicate() {
    let mut lab = rack();
    let [x, y, z] = values(&lab);
    lab.check_gone(1, &A.gradient(0, 8, 3, &x).bytes(), (A.slot, Absorbed));
    lab.check_gone(2, &A.gradient(1, 8, 3, &y).bytes(), (A.slot, Added));
    for (worker, port) in [(0, 1), (1, 2)] {
        for flags in [0, RESEND, RESEND | OVERFLOW | MARKED] {
            let again = A.gradient(worker, 8, 3, &z).flags(flags).ecn(CONGESTED);
            lab.check_gone(port, &again.bytes(), (A.slot, Duplicate));
        }
    }
    let last = A.gradient(2, 8, 3, &z);
    let result = A.published(&last, &sum(&[&x, &y, &z]));
    assert_eq!(result.flags, 0);
    lab.check(3, &last.bytes(), (A.slot, Completed), &A.for_workers(&result));
}

/// During a round in one version, the other has the result of the previous round.
fn result_from_the_other_version() {
    let mut lab = rack();
    let parts: [_; 3] = values(&lab);
    let [x, y, z] = &parts;
    let total = sum(&[x, y, z]);
    A.complete(&mut lab, 8, 2, &parts);
    for worker in 0..3 {
        ask(&mut lab, A, worker, (8, 2), &total);
    }
    lab.check_gone(1, &A.gradient(0, 24, 3, z).bytes(), (A.slot, Absorbed));
    lab.check_gone(2, &A.gradient(1, 24, 3, z).bytes(), (A.slot, Added));
    for worker in 0..3 {
        ask(&mut lab, A, worker, (8, 2), &total);
    }
    let last = A.gradient(2, 24, 3, x);
    let result = A.published(&last, &sum(&[z, z, x]));
    lab.check(3, &last.bytes(), (A.slot, Completed), &A.for_workers(&result));
    ask(&mut lab, A, 1, (24, 3), &sum(&[z, z, x]));
    ask(&mut lab, A, 1, (8, 2), &total);
}

fn result_is_kept_until_the_version_starts_anew() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    B.complete(&mut lab, 8, 6, &[x.clone(), y.clone()]);
    B.complete(&mut lab, 16, 7, &[y.clone(), y.clone()]);
    ask(&mut lab, B, 0, (8, 6), &sum(&[&x, &y]));
    // The sender has the result of 16, so all workers had that of 8.
    lab.check_gone(2, &B.gradient(0, 24, 6, &y).bytes(), (B.slot, Absorbed));
    let late = B.gradient(1, 8, 6, &y).flags(RESEND);
    lab.check_gone(3, &late.bytes(), (B.slot, Stale));
    ask(&mut lab, B, 1, (16, 7), &sum(&[&y, &y]));
}

fn stale() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    B.complete(&mut lab, 32, 6, &[x.clone(), y.clone()]);
    for round in [0, 8, 31] {
        for flags in [0, RESEND] {
            let late = B.gradient(0, round, 6, &x).flags(flags);
            lab.check_gone(2, &late.bytes(), (B.slot, Stale));
        }
    }
    ask(&mut lab, B, 1, (32, 6), &sum(&[&x, &y]));
}

/// No correct worker sends it; it is counted and dropped.
fn early_is_dropped() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    lab.check_gone(2, &B.gradient(0, 8, 6, &x).bytes(), (B.slot, Absorbed));
    for (worker, port) in [(0, 2), (1, 3)] {
        for round in [9, 24, u32::MAX - 1] {
            let early = B.gradient(worker, round, 6, &y).flags(OVERFLOW).ecn(CONGESTED);
            lab.check_gone(port, &early.bytes(), (B.slot, Asynchronous));
        }
    }
    let last = B.gradient(1, 8, 6, &y);
    let result = B.published(&last, &sum(&[&x, &y]));
    lab.check(3, &last.bytes(), (B.slot, Completed), &B.for_workers(&result));
}

fn flags() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    let total = sum(&[&x, &y]);
    for (round, which, ecn, flags, out) in [
        (0, 0, CONGESTED, 0, MARKED),
        (1, 1, CONGESTED, RESEND, MARKED),
        (2, 0, CONGESTED, OVERFLOW, MARKED | OVERFLOW),
        (3, 1, 0, OVERFLOW, OVERFLOW),
        (4, 0, 1, MARKED, MARKED),
        (5, 1, 2, 0, 0),
    ] {
        let frame = |worker: usize| {
            let frame = B.gradient(worker, round, 6, if worker == 0 { &x } else { &y });
            if worker == which { frame.ecn(ecn).flags(flags) } else { frame }
        };
        lab.check_gone(2, &frame(0).bytes(), (B.slot, Absorbed));
        let result = B.published(&frame(1), &total).flags(out);
        lab.check(3, &frame(1).bytes(), (B.slot, Completed), &B.for_workers(&result));
        let again = B.gradient(0, round, 6, &y).flags(RESEND | OVERFLOW);
        let reply = B.repeated(&again, &total).flags(out);
        lab.check(2, &again.bytes(), (B.slot, Repeated), &[(2, reply.bytes())]);
        let again = B.gradient(0, round, 6, &y).ecn(CONGESTED);
        let reply = B.repeated(&again, &total).flags(out | MARKED);
        lab.check(2, &again.bytes(), (B.slot, Repeated), &[(2, reply.bytes())]);
        ask_flags_unchanged(&mut lab, (round, out), &total);
    }
}

/// The mark of one answer does not carry over to the next.
#[track_caller]
fn ask_flags_unchanged(lab: &mut Lab, (round, flags): (u32, u8), total: &[i32]) {
    let again = B.gradient(1, round, 6, total);
    let reply = B.repeated(&again, total).flags(flags);
    lab.check(3, &again.bytes(), (B.slot, Repeated), &[(3, reply.bytes())]);
}

fn one_worker_alone() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    for (round, cell, values) in [(8, 14, &x), (16, 15, &y), (24, 14, &y)] {
        let only = SOLO.gradient(0, round, cell, values).flags(RESEND);
        let result = SOLO.published(&only, values);
        lab.check(3, &only.bytes(), (SOLO.slot, Completed), &SOLO.for_workers(&result));
        ask(&mut lab, SOLO, 0, (round, cell), values);
    }
    ask(&mut lab, SOLO, 0, (16, 15), &y);
}

fn outside_is_dropped() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    lab.check_gone(2, &B.gradient(0, 8, 6, &x).bytes(), (B.slot, Absorbed));
    for cell in (0..16).filter(|cell| !(2..6).contains(cell)) {
        lab.check_gone(2, &A.gradient(1, 8, cell, &y).bytes(), (A.slot, Outside));
    }
    for cell in [16, u32::MAX] {
        lab.check_gone(2, &A.gradient(1, 8, cell, &y).bytes(), (NO_JOB, Malformed));
    }
    let last = B.gradient(1, 8, 6, &y);
    let result = B.published(&last, &sum(&[&x, &y]));
    lab.check(3, &last.bytes(), (B.slot, Completed), &B.for_workers(&result));
}

fn wrong_service() {
    let mut lab = rack();
    let [x] = values(&lab);
    for service in [0, 4, 6, 200, 255] {
        let frame = A.gradient(0, 8, 2, &x).priority(service);
        lab.check_gone(1, &frame.bytes(), (A.slot, Rejected));
    }
    lab.check_gone(1, &A.gradient(0, 8, 2, &x).bytes(), (A.slot, Absorbed));
}

fn refused() {
    let mut lab = rack();
    let [x] = values(&lab);
    for bitmap in [0, 0b010, 0b011, 0b111, 0b1000, u32::MAX] {
        let frame = A.gradient(0, 8, 2, &x).bitmap(bitmap);
        lab.check_gone(1, &frame.bytes(), (A.slot, Malformed));
    }
    lab.insert(&[Entry::contribute_to(A.id, 6, (0b011, 0b111), A.group, A.slot)]);
    let sum_of_a_rack = A.frame(GRADIENT, 6, PS, 8, 2).values(&x).bitmap(0b011);
    lab.check_gone(6, &sum_of_a_rack.bytes(), (A.slot, Malformed));
    let collided = A.gradient(0, 8, 2, &x).flags(COLLISION);
    lab.check_gone(1, &collided.bytes(), (A.slot, Malformed));
    for port in 4..=5 {
        lab.check_gone(port, &A.gradient(0, 8, 2, &x).bytes(), (NO_JOB, Rejected));
    }
    lab.check_gone(1, &B.gradient(0, 8, 6, &x).bytes(), (NO_JOB, Rejected));
    // Asynchronous errors exist only in P4INC.
    for protocol in [1, 2, 3, 4] {
        for kind in [GRADIENT, ASYNCHRONOUS] {
            if (protocol, kind) != (4, GRADIENT) {
                let frame =
                    A.gradient(0, 8, 2, &x).with(|f| (f.protocol, f.kind) = (protocol, kind));
                lab.check_gone(1, &frame.bytes(), (NO_JOB, Malformed));
            }
        }
    }
}

/// There is no server that could complete them.
fn no_partial_sums() {
    let mut lab = rack();
    let [x] = values(&lab);
    lab.modify(&[
        Entry::contribute_to(B.id, 2, (0b01, 0b11), 0, B.slot),
        Entry::contribute_to(B.id, 3, (0b10, 0b10), B.group, B.slot),
    ]);
    for (worker, port) in [(0, 2), (1, 3)] {
        let frame = B.gradient(worker, 8, 6, &x);
        lab.check_gone(port, &frame.bytes(), (B.slot, Rejected));
    }
}

/// There is no server that could send results.
fn results_of_nobody() {
    let mut lab = rack();
    let [x] = values(&lab);
    let result = |kind| A.frame(kind, PS, 1, 8, 2).values(&x).bitmap(0b111);
    let query = A.frame(QUERY, PS, 1, 8, 2).bitmap(1);
    let frames = [result(PARAMETER), result(REPLY), query];
    for frame in &frames {
        lab.check_gone(PS, &frame.bytes(), (NO_JOB, Rejected));
    }
    lab.insert(&[
        Entry::distribute(A.id, PS, A.group, A.slot),
        Entry::answer(A.id, PS, REPLY, A.slot),
        Entry::answer(A.id, PS, QUERY, A.slot),
    ]);
    for frame in &frames {
        lab.check_gone(PS, &frame.bytes(), (A.slot, Malformed));
    }
    lab.check_gone(1, &A.gradient(0, 8, 2, &x).bytes(), (A.slot, Absorbed));
}

fn transit() {
    let mut lab = rack();
    let [x] = values(&lab);
    let far = Job { id: 9, slot: 9, service: 77, ..A };
    lab.insert(&[
        Entry::forward(far.id, far.service),
        Entry::pass(far.id, 1, GRADIENT, far.slot),
        Entry::contribute(far.id, 2, 0b010, 0b111, far.slot),
    ]);
    for (port, bitmap, flags) in [(1, 0b110, COLLISION), (1, 0b001, 0), (2, 0b010, RESEND)] {
        let frame = far.frame(GRADIENT, port, PS, 8, 2).values(&x).bitmap(bitmap).flags(flags);
        lab.check(port, &frame.bytes(), (far.slot, Bypassed), &[(PS, frame.bytes())]);
    }
    let other = far.frame(GRADIENT, 2, PS, 8, 2).values(&x).bitmap(0b001);
    lab.check_gone(2, &other.bytes(), (far.slot, Malformed));
}

fn first_and_last_round() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    for round in [0, 1, 1 << 31, u32::MAX - 1] {
        B.complete(&mut lab, round, 6, &[x.clone(), y.clone()]);
        ask(&mut lab, B, 0, (round, 6), &sum(&[&x, &y]));
    }
    for cell in [6, 7] {
        let none = B.gradient(0, u32::MAX, cell, &x);
        lab.check_gone(2, &none.bytes(), (B.slot, Malformed));
    }
}

fn swept() {
    let mut lab = rack();
    let parts: [_; 3] = values(&lab);
    let [x, y, _] = &parts;
    A.complete(&mut lab, 8, 2, &parts);
    for cell in [3, 5] {
        lab.check_gone(1, &A.gradient(0, 8, cell, x).bytes(), (A.slot, Absorbed));
    }
    lab.check_gone(2, &B.gradient(0, 8, 6, x).bytes(), (B.slot, Absorbed));
    check_refused(&mut lab, &A.sweep(6).bytes(), Outside);
    check_refused(&mut lab, &A.sweep(2).priority(6).bytes(), Rejected);
    check_sweep(&mut lab, A, 2, 2);
    check_sweep(&mut lab, A, 2, 0);
    for cell in 2..6 {
        A.complete(&mut lab, 0, cell, &parts);
    }
    let last = B.gradient(1, 8, 6, y);
    let result = B.published(&last, &sum(&[x, y]));
    lab.check(3, &last.bytes(), (B.slot, Completed), &B.for_workers(&result));
}

fn values_64() {
    every_value(furnished(Lab::new(Build { values: 64, ..Build::SWITCHML })));
}

/// Only on the embedded switch: compiling 2048 values for BMv2 takes about a minute.
fn values_2048() {
    every_value(furnished(Lab::embedded(Build { values: 2048, ..Build::SWITCHML })));
}

/// All values of a packet differ, so none can be mistaken for another.
fn every_value(mut lab: Lab) {
    let parts: [_; 3] = values(&lab);
    let totals = [sum(&[&parts[0], &parts[1]]), sum(&[&parts[1], &parts[2]])];
    for (round, cell) in [(0, 6), (8, 7), (16, 6)] {
        let which = cell as usize - 6;
        B.complete(&mut lab, round, cell, &parts[which..]);
        ask(&mut lab, B, which, (round, cell), &totals[which]);
    }
    ask(&mut lab, B, 0, (8, 7), &totals[1]);
}
