//! Resent gradients: they free their task's cell and take its sum along.

use super::cases;
use crate::entries::Entry;
use crate::frames::{COLLISION, Frame, GRADIENT, RESEND};
use crate::lab::Outcome::*;
use crate::scene::{A, B, PS, rack, sum, values};
use crate::target::Build;

cases!("resends":
    resent_without_cell, resent_past_another_task, flushed_disjoint, flushed_overlapping,
    flushed_after_completion, partial_of_a_rack,
);

fn resent_without_cell() {
    let mut lab = rack(Build::PATIENT);
    let x = values(&lab, 1);
    let frame = A.gradient(0, 7, 3, &x).flags(RESEND);
    lab.check(1, &frame.bytes(), (A.slot, Resent), &[(PS, frame.bytes())]);
    // It has not occupied the cell.
    lab.check_gone(2, &B.gradient(0, 7, 3, &x).bytes(), (B.slot, Absorbed));
}

fn resent_past_another_task() {
    let mut lab = rack(Build::PATIENT);
    let [x, y] = [1, 2].map(|seed| values(&lab, seed));
    lab.check_gone(2, &B.gradient(0, 7, 3, &x).bytes(), (B.slot, Absorbed));
    // Another job's cell; then one of the same job but another fragment.
    for frame in [A.gradient(0, 7, 3, &y), B.gradient(0, 8, 3, &y)] {
        let frame = frame.flags(RESEND);
        let slot = if frame.job == A.id { A.slot } else { B.slot };
        let port = if frame.job == A.id { 1 } else { 2 };
        lab.check(port, &frame.bytes(), (slot, Resent), &[(PS, frame.bytes())]);
    }
    let last = B.gradient(1, 7, 3, &y);
    let whole = last.clone().bitmap(0b11).values(&sum(&[&x, &y]));
    lab.check(3, &last.bytes(), (B.slot, Completed), &[(PS, whole.bytes())]);
}

/// A packet that is not in the sum yet adds itself.
fn flushed_disjoint() {
    let mut lab = rack(Build::PATIENT);
    let [x, y, z] = [1, 2, 3].map(|seed| values(&lab, seed));
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Absorbed));
    let frame = A.gradient(2, 7, 3, &z).flags(RESEND);
    let partial = frame.clone().bitmap(0b101).values(&sum(&[&x, &z]));
    lab.check(3, &frame.bytes(), (A.slot, Flushed), &[(PS, partial.bytes())]);
    // Nothing of the task is left.
    lab.check(3, &frame.bytes(), (A.slot, Resent), &[(PS, frame.bytes())]);
    lab.check_gone(2, &B.gradient(0, 7, 3, &y).bytes(), (B.slot, Absorbed));
}

/// A packet that is already in the sum does not add itself again.
fn flushed_overlapping() {
    let mut lab = rack(Build::PATIENT);
    let [x, y, other] = [1, 2, 3].map(|seed| values(&lab, seed));
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Absorbed));
    lab.check_gone(2, &A.gradient(1, 7, 3, &y).bytes(), (A.slot, Added));
    // Its own values, even if different, are ignored.
    let frame = A.gradient(0, 7, 3, &other).flags(RESEND);
    let partial = frame.clone().bitmap(0b011).values(&sum(&[&x, &y]));
    lab.check(1, &frame.bytes(), (A.slot, Flushed), &[(PS, partial.bytes())]);
    lab.check_gone(2, &B.gradient(0, 7, 3, &y).bytes(), (B.slot, Absorbed));
}

/// The sum of a complete task can be fetched again while the cell is kept.
fn flushed_after_completion() {
    let mut lab = rack(Build::PATIENT);
    let [x, y] = [1, 2].map(|seed| values(&lab, seed));
    lab.check_gone(2, &B.gradient(0, 7, 3, &x).bytes(), (B.slot, Absorbed));
    let last = B.gradient(1, 7, 3, &y);
    let whole = last.clone().bitmap(0b11).values(&sum(&[&x, &y]));
    lab.check(3, &last.bytes(), (B.slot, Completed), &[(PS, whole.bytes())]);
    let again = B.gradient(0, 7, 3, &x).flags(RESEND);
    let flushed = again.clone().bitmap(0b11).values(&sum(&[&x, &y]));
    lab.check(2, &again.bytes(), (B.slot, Flushed), &[(PS, flushed.bytes())]);
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Absorbed));
}

/// A rack's port may send any subset of the rack.
fn partial_of_a_rack() {
    let mut lab = rack(Build::PATIENT);
    let [x, y] = [1, 2].map(|seed| values(&lab, seed));
    let (job, slot) = (77, 7);
    lab.insert(&[
        Entry::contribute(job, 5, 0b0111, 0b1111, slot),
        Entry::contribute(job, 1, 0b1000, 0b1111, slot),
    ]);
    let from = |port, bitmap, values: &[i32]| {
        let frame = Frame::new(GRADIENT, port, PS).bitmap(bitmap).values(values);
        frame.with(|frame| (frame.job, frame.sequence, frame.index) = (job, 9, 2))
    };
    lab.check_gone(1, &from(1, 0b1000, &x).bytes(), (slot, Absorbed));
    let part = from(5, 0b0101, &y).flags(RESEND);
    let union = part.clone().bitmap(0b1101).values(&sum(&[&x, &y]));
    lab.check(5, &part.bytes(), (slot, Flushed), &[(PS, union.bytes())]);
    // A part that collided below passes.
    let part = from(5, 0b0010, &y).flags(COLLISION);
    lab.check(5, &part.bytes(), (slot, Bypassed), &[(PS, part.bytes())]);
    // A part without a flag is malformed: it would be added permanently.
    lab.check_gone(5, &from(5, 0b0101, &y).bytes(), (slot, Malformed));
}
