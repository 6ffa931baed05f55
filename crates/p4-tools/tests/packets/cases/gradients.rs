//! Fresh gradients: the table of "Rules" in docs/concepts/atp.md, row by row.

use super::cases;
use crate::frames::{COLLISION, Frame, GRADIENT, MARKED, OVERFLOW, RESEND};
use crate::lab::Outcome::*;
use crate::scene::{A, ALONE, B, PS, rack, sum, values};
use crate::target::Build;

cases!("gradients":
    absorbed, added_and_completed, duplicate, collided, bypassed_alone, bypassed_with_flags,
    completed_task_keeps_its_cell, every_flag_with_every_bitmap,
);

fn absorbed() {
    let mut lab = rack(Build::PATIENT);
    let x = values(&lab, 1);
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Absorbed));
    // Another cell, and the last one of the pool.
    lab.check_gone(1, &A.gradient(0, 8, 4, &x).bytes(), (A.slot, Absorbed));
    lab.check_gone(2, &A.gradient(1, 9, 15, &x).bytes(), (A.slot, Absorbed));
}

fn added_and_completed() {
    let mut lab = rack(Build::PATIENT);
    let [x, y, z] = [1, 2, 3].map(|seed| values(&lab, seed));
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Absorbed));
    lab.check_gone(3, &A.gradient(2, 7, 3, &z).bytes(), (A.slot, Added));
    let last = A.gradient(1, 7, 3, &y);
    let whole = last.clone().bitmap(0b111).values(&sum(&[&x, &y, &z]));
    lab.check(2, &last.bytes(), (A.slot, Completed), &[(PS, whole.bytes())]);
}

fn duplicate() {
    let mut lab = rack(Build::PATIENT);
    let [x, y, z] = [1, 2, 3].map(|seed| values(&lab, seed));
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Absorbed));
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Duplicate));
    lab.check_gone(2, &A.gradient(1, 7, 3, &y).bytes(), (A.slot, Added));
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Duplicate));
    lab.check_gone(2, &A.gradient(1, 7, 3, &y).bytes(), (A.slot, Duplicate));
    let last = A.gradient(2, 7, 3, &z);
    let whole = last.clone().bitmap(0b111).values(&sum(&[&x, &y, &z]));
    lab.check(3, &last.bytes(), (A.slot, Completed), &[(PS, whole.bytes())]);
    lab.check_gone(3, &last.bytes(), (A.slot, Duplicate));
}

fn collided() {
    let mut lab = rack(Build::PATIENT);
    let [x, y] = [1, 2].map(|seed| values(&lab, seed));
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Absorbed));
    // Another job, and another fragment of the same job.
    let other = B.gradient(0, 7, 3, &y);
    let marked = other.clone().flags(COLLISION);
    lab.check(2, &other.bytes(), (B.slot, Collided), &[(PS, marked.bytes())]);
    let next = A.gradient(0, 8, 3, &y);
    let marked = next.clone().flags(COLLISION);
    lab.check(1, &next.bytes(), (A.slot, Collided), &[(PS, marked.bytes())]);
    // The holder is unaffected.
    lab.check_gone(2, &A.gradient(1, 7, 3, &y).bytes(), (A.slot, Added));
    let last = A.gradient(2, 7, 3, &y);
    let whole = last.clone().bitmap(0b111).values(&sum(&[&x, &y, &y]));
    lab.check(3, &last.bytes(), (A.slot, Completed), &[(PS, whole.bytes())]);
}

/// The cell stays with a complete task until its result passes.
fn completed_task_keeps_its_cell() {
    let mut lab = rack(Build::PATIENT);
    let x = values(&lab, 1);
    lab.check_gone(2, &B.gradient(0, 7, 3, &x).bytes(), (B.slot, Absorbed));
    let last = B.gradient(1, 7, 3, &x);
    let whole = last.clone().bitmap(0b11).values(&sum(&[&x, &x]));
    lab.check(3, &last.bytes(), (B.slot, Completed), &[(PS, whole.bytes())]);
    let late = A.gradient(0, 7, 3, &x);
    let marked = late.clone().flags(COLLISION);
    lab.check(1, &late.bytes(), (A.slot, Collided), &[(PS, marked.bytes())]);
}

/// Without anything to add, no cell is occupied.
fn bypassed_alone() {
    let mut lab = rack(Build::PATIENT);
    let x = values(&lab, 1);
    let whole = ALONE.gradient(0, 7, 3, &x);
    lab.check(1, &whole.bytes(), (ALONE.slot, Bypassed), &[(PS, whole.bytes())]);
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Absorbed));
    lab.check(1, &whole.bytes(), (ALONE.slot, Bypassed), &[(PS, whole.bytes())]);
}

/// A marked packet passes a cell of its own task and leaves it unchanged.
fn bypassed_with_flags() {
    let mut lab = rack(Build::PATIENT);
    let [x, y, z] = [1, 2, 3].map(|seed| values(&lab, seed));
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Absorbed));
    for flags in [COLLISION, OVERFLOW, COLLISION | OVERFLOW, RESEND | OVERFLOW, COLLISION | MARKED]
    {
        let frame = A.gradient(1, 7, 3, &z).flags(flags);
        lab.check(2, &frame.bytes(), (A.slot, Bypassed), &[(PS, frame.bytes())]);
    }
    lab.check_gone(2, &A.gradient(1, 7, 3, &y).bytes(), (A.slot, Added));
    let last = A.gradient(2, 7, 3, &z);
    let whole = last.clone().bitmap(0b111).values(&sum(&[&x, &y, &z]));
    lab.check(3, &last.bytes(), (A.slot, Completed), &[(PS, whole.bytes())]);
}

/// All flags with all kinds of bitmaps, from a host's port and from a rack's, with and without
/// missing workers; each into a free cell of its own.
fn every_flag_with_every_bitmap() {
    use crate::entries::Entry;
    let mut lab = rack(Build { pool: 4096, ..Build::PATIENT });
    let x = values(&lab, 1);
    let (job, slot) = (77, 7);
    // Port 1: a worker. Port 2: a rack of two. Port 3: a rack with all workers.
    lab.insert(&[
        Entry::contribute(job, 1, 0b0001, 0b0111, slot),
        Entry::contribute(job, 2, 0b0110, 0b0111, slot),
        Entry::contribute(job, 3, 0b0111, 0b0111, slot),
    ]);
    let mut cell = 0;
    for (port, unit) in [(1, 0b001u32), (2, 0b110), (3, 0b111)] {
        for flags in 0..16 {
            for bitmap in [0, unit, unit & !0b010 & !0b100, unit & 0b010, 0b1000, unit | 0b1000, !0]
            {
                cell += 1;
                let frame = Frame::new(GRADIENT, port, PS).flags(flags).bitmap(bitmap).values(&x);
                let frame = frame.with(|frame| {
                    (frame.job, frame.sequence, frame.index) = (job, 1, cell);
                });
                let own = bitmap != 0 && bitmap & unit == bitmap;
                let outcome = match flags & !MARKED {
                    0 if bitmap != unit => Malformed,
                    0 if port == 3 => Bypassed,
                    0 => Absorbed,
                    _ if !own => Malformed,
                    RESEND => Resent,
                    _ => Bypassed,
                };
                let passes = [(PS, frame.bytes())];
                let out = if matches!(outcome, Resent | Bypassed) { &passes[..] } else { &[] };
                lab.check(port, &frame.bytes(), (slot, outcome), out);
            }
        }
    }
}
