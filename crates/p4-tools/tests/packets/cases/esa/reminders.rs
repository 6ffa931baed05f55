//! Reminders and their answers.

use super::{A, AGENT, B, RACK, absent, fetched, rack, values};
use crate::cases::cases;
use crate::entries::Entry;
use crate::frames::{ABSENT, COLLISION, CONGESTED, GRADIENT, MARKED, OVERFLOW, REMINDER, RESEND};
use crate::lab::{NO_JOB, Outcome::*};
use crate::scene::sum;

cases!("esa::reminders":
    fetches_and_frees, finds_nothing, leaves_other_tasks_alone, for_another_switch_passes,
    marks_come_along, unknown_job_or_port, flags_and_nobody, answers_pass,
);

fn fetches_and_frees() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Absorbed));
    lab.check_gone(3, &A.gradient(2, 7, 3, &y).bytes(), (A.slot, Added));
    let reminder = A.reminder(&lab, 7, 3);
    let partial = fetched(&reminder, 0b101, &sum(&[&x, &y]));
    lab.check(AGENT, &reminder.bytes(), (A.slot, Reminded), &[(AGENT, partial.bytes())]);
    let nothing = absent(&reminder);
    lab.check(AGENT, &reminder.bytes(), (A.slot, Absent), &[(AGENT, nothing.bytes())]);
    lab.check_gone(2, &B.gradient(0, 1, 3, &x).priority(1).bytes(), (B.slot, Absorbed));
}

/// An unknown sequence: the answer is "absent".
fn finds_nothing() {
    let mut lab = rack();
    for (sequence, cell) in [(0, 0), (7, 3), (u32::MAX, 15)] {
        let reminder = A.reminder(&lab, sequence, cell);
        let nothing = absent(&reminder);
        lab.check(AGENT, &reminder.bytes(), (A.slot, Absent), &[(AGENT, nothing.bytes())]);
    }
}

fn leaves_other_tasks_alone() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    lab.check_gone(2, &B.gradient(0, 7, 3, &x).bytes(), (B.slot, Absorbed));
    for reminder in [A.reminder(&lab, 7, 3), B.reminder(&lab, 8, 3), B.reminder(&lab, 7, 4)] {
        let slot = if reminder.job == A.id { A.slot } else { B.slot };
        let nothing = absent(&reminder);
        lab.check(AGENT, &reminder.bytes(), (slot, Absent), &[(AGENT, nothing.bytes())]);
    }
    let last = B.gradient(1, 7, 3, &y);
    let result = B.result(&last, &sum(&[&x, &y]));
    lab.check(3, &last.bytes(), (B.slot, Completed), &B.for_workers(&result));
}

/// A reminder that names other workers is for another switch.
fn for_another_switch_passes() {
    let mut lab = rack();
    let [x] = values(&lab);
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Absorbed));
    for bitmap in [0b001, 0b011, 0b1111, 0b1000, u32::MAX] {
        let reminder = A.reminder(&lab, 7, 3).bitmap(bitmap);
        lab.check(AGENT, &reminder.bytes(), (A.slot, Bypassed), &[(1, reminder.bytes())]);
    }
    // A switch that adds nothing for the job only forwards.
    lab.insert(&[Entry::answer(A.id, 6, REMINDER, A.slot)]);
    let reminder = A.reminder(&lab, 7, 3);
    lab.check(6, &reminder.bytes(), (A.slot, Bypassed), &[(1, reminder.bytes())]);
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Duplicate));
}

fn marks_come_along() {
    let mut lab = rack();
    let [x] = values(&lab);
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).ecn(CONGESTED).bytes(), (A.slot, Absorbed));
    let reminder = A.reminder(&lab, 7, 3);
    let partial = fetched(&reminder, 0b001, &x).flags(RESEND | MARKED);
    lab.check(AGENT, &reminder.bytes(), (A.slot, Reminded), &[(AGENT, partial.bytes())]);
    // The next task's sum is not marked.
    lab.check_gone(1, &A.gradient(0, 8, 3, &x).bytes(), (A.slot, Absorbed));
    let reminder = A.reminder(&lab, 8, 3);
    let partial = fetched(&reminder, 0b001, &x);
    lab.check(AGENT, &reminder.bytes(), (A.slot, Reminded), &[(AGENT, partial.bytes())]);
}

fn unknown_job_or_port() {
    let mut lab = rack();
    let [x] = values(&lab);
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Absorbed));
    for job in [0, 99, u16::MAX] {
        let reminder = A.reminder(&lab, 7, 3).with(|f| f.job = job);
        lab.check_gone(AGENT, &reminder.bytes(), (NO_JOB, Rejected));
    }
    for port in [1, 2, 3, 4, 6] {
        lab.check_gone(port, &A.reminder(&lab, 7, 3).bytes(), (NO_JOB, Rejected));
        let answer = absent(&A.reminder(&lab, 7, 3));
        lab.check_gone(port, &answer.bytes(), (NO_JOB, Rejected));
    }
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Duplicate));
}

fn flags_and_nobody() {
    let mut lab = rack();
    lab.insert(&[Entry::answer(A.id, 6, REMINDER, A.slot), Entry::answer(A.id, 6, ABSENT, A.slot)]);
    for flags in [RESEND, COLLISION, OVERFLOW] {
        let reminder = A.reminder(&lab, 7, 3).flags(flags);
        lab.check_gone(AGENT, &reminder.bytes(), (A.slot, Malformed));
        lab.check_gone(6, &absent(&reminder).bytes(), (A.slot, Malformed));
    }
    let nobody = A.reminder(&lab, 7, 3).bitmap(0);
    lab.check_gone(AGENT, &nobody.bytes(), (A.slot, Malformed));
    lab.check_gone(6, &nobody.bytes(), (A.slot, Malformed));
    lab.check_gone(6, &absent(&nobody).bytes(), (A.slot, Malformed));
}

/// From another switch's port: of a job that also adds here, and of one that only passes.
fn answers_pass() {
    let mut lab = rack();
    let [x] = values(&lab);
    let job = 77;
    lab.insert(&[
        Entry::contribute(job, 1, 0b0011, 0b1111, 9),
        Entry::contribute(job, 2, 0b1100, 0b1111, 9),
        Entry::answer(job, 1, ABSENT, 9),
        Entry::answer(job, 6, ABSENT, 9),
        Entry::pass(job, 6, GRADIENT, 9),
    ]);
    let reminder = RACK.reminder(&lab, 7, 3).with(|f| f.job = job);
    for (port, passed) in [(1, Answered), (6, Bypassed)] {
        let nothing = absent(&reminder).ecn(CONGESTED);
        lab.check(port, &nothing.bytes(), (9, Answered), &[(AGENT, nothing.bytes())]);
        for (bitmap, flags) in [(0b01, RESEND), (0b11, RESEND | MARKED)] {
            let partial = fetched(&reminder, bitmap, &x).flags(flags).ecn(CONGESTED);
            lab.check(port, &partial.bytes(), (9, passed), &[(AGENT, partial.bytes())]);
        }
    }
    let foreign = fetched(&reminder, 0b100, &x);
    lab.check_gone(1, &foreign.bytes(), (9, Malformed));
}
