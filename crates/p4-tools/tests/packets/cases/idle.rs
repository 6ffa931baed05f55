//! Cells that have been idle for long may be taken over, in a second pass.

use std::time::Duration;

use super::cases;
use crate::frames::RESEND;
use crate::lab::Outcome::*;
use crate::scene::{A, B, PS, embedded_rack, rack, sum, values};
use crate::target::Build;

cases!("idle":
    seized, seized_and_flushed, exactly_the_limit, every_use_counts, clock_wraps_around,
    default_limit,
);

/// Long enough that a busy machine does not reach it by accident.
const LIMIT: Duration = Duration::from_millis(1_500);

fn build() -> Build {
    Build { idle_us: LIMIT.as_micros() as u32, ..Build::PATIENT }
}

/// The old partial sum is dropped, the packet is counted once, and the task continues normally.
fn seized() {
    let mut lab = rack(build());
    let [x, y, z] = [1, 2, 3].map(|seed| values(&lab, seed));
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Absorbed));
    let early = B.gradient(0, 7, 3, &y);
    let marked = early.clone().flags(crate::frames::COLLISION);
    lab.check(2, &early.bytes(), (B.slot, Collided), &[(PS, marked.bytes())]);
    lab.advance(LIMIT * 2);
    lab.check_gone(2, &early.bytes(), (B.slot, Seized));
    lab.check_gone(2, &early.bytes(), (B.slot, Duplicate));
    // The old holder is now too late.
    let late = A.gradient(1, 7, 3, &x);
    let marked = late.clone().flags(crate::frames::COLLISION);
    lab.check(2, &late.bytes(), (A.slot, Collided), &[(PS, marked.bytes())]);
    let last = B.gradient(1, 7, 3, &z);
    let whole = last.clone().bitmap(0b11).values(&sum(&[&y, &z]));
    lab.check(3, &last.bytes(), (B.slot, Completed), &[(PS, whole.bytes())]);
}

/// The marks of the old task are dropped with it; a resend takes only the new task's values.
fn seized_and_flushed() {
    let mut lab = rack(build());
    let [x, y, z] = [1, 2, 3].map(|seed| values(&lab, seed));
    let first = A.gradient(0, 7, 3, &x).ecn(crate::frames::CONGESTED);
    lab.check_gone(1, &first.bytes(), (A.slot, Absorbed));
    lab.advance(LIMIT * 2);
    // Also for another fragment of the same job.
    lab.check_gone(2, &A.gradient(1, 8, 3, &y).bytes(), (A.slot, Seized));
    let again = A.gradient(2, 8, 3, &z).flags(RESEND);
    let partial = again.clone().bitmap(0b110).values(&sum(&[&y, &z]));
    lab.check(3, &again.bytes(), (A.slot, Flushed), &[(PS, partial.bytes())]);
}

/// In virtual time: after exactly the limit the cell is not idle, a microsecond later it is.
fn exactly_the_limit() {
    for (rest, outcome) in [(0, Collided), (1, Seized)] {
        let mut lab = embedded_rack(build());
        let x = values(&lab, 1);
        lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Absorbed));
        lab.advance(LIMIT + Duration::from_micros(rest));
        let other = B.gradient(0, 7, 3, &x);
        let marked = [(PS, other.clone().flags(crate::frames::COLLISION).bytes())];
        let out = if outcome == Collided { &marked[..] } else { &[] };
        lab.check(2, &other.bytes(), (B.slot, outcome), out);
    }
}

/// Packets of the task keep its cell, even duplicates; packets of others do not.
fn every_use_counts() {
    let mut lab = embedded_rack(build());
    let x = values(&lab, 1);
    let other = B.gradient(0, 7, 3, &x);
    let marked = [(PS, other.clone().flags(crate::frames::COLLISION).bytes())];
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Absorbed));
    lab.advance(LIMIT);
    lab.check_gone(2, &A.gradient(1, 7, 3, &x).bytes(), (A.slot, Added));
    lab.advance(LIMIT);
    lab.check(2, &other.bytes(), (B.slot, Collided), &marked);
    lab.check_gone(2, &A.gradient(1, 7, 3, &x).bytes(), (A.slot, Duplicate));
    lab.advance(LIMIT);
    lab.check(2, &other.bytes(), (B.slot, Collided), &marked);
    lab.advance(Duration::from_micros(1));
    lab.check_gone(2, &other.bytes(), (B.slot, Seized));
}

/// The time of the last use has 32 bits and wraps every 71 minutes.
fn clock_wraps_around() {
    for (rest, outcome) in [(0, Collided), (1, Seized)] {
        let mut lab = embedded_rack(build());
        let x = values(&lab, 1);
        let wrap = Duration::from_micros(1 << 32);
        lab.advance(wrap - LIMIT / 2);
        lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Absorbed));
        lab.advance(LIMIT + Duration::from_micros(rest));
        let other = B.gradient(0, 7, 3, &x);
        let marked = [(PS, other.clone().flags(crate::frames::COLLISION).bytes())];
        let out = if outcome == Collided { &marked[..] } else { &[] };
        lab.check(2, &other.bytes(), (B.slot, outcome), out);
    }
}

/// 50 ms by default.
fn default_limit() {
    let mut lab = embedded_rack(Build { idle_us: 50_000, ..Build::PATIENT });
    let x = values(&lab, 1);
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Absorbed));
    lab.advance(Duration::from_micros(50_001));
    lab.check_gone(2, &B.gradient(0, 7, 3, &x).bytes(), (B.slot, Seized));
}
