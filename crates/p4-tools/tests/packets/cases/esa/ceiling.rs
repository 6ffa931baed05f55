//! Priorities above the job's bound, and above the rate of those that may have one.

use super::{A, B, rack, values};
use crate::cases::cases;
use crate::entries::Entry;
use crate::frames::COLLISION;
use crate::lab::Lab;
use crate::lab::Outcome::*;
use crate::scene::{PS, sum};

cases!("esa::ceiling":
    no_priority_above_it_evicts, it_is_the_priority_of_the_aggregator, what_is_below_it_stays,
    one_that_takes_over_keeps_to_it, above_a_rate_priorities_are_the_lowest,
    one_above_the_rate_that_takes_over_keeps_to_it,
);

/// Port 2 may send for job B up to this priority.
fn bounded(priority: u8) -> Lab {
    let mut lab = rack();
    let who = (0b01, B.members());
    lab.modify(&[Entry::contribute_to(B.id, 2, who, B.group, B.slot).ceiling(priority)]);
    lab
}

fn no_priority_above_it_evicts() {
    for claimed in [10, 11, 200, 255] {
        let mut lab = bounded(10);
        let [x, y] = values(&lab);
        lab.check_gone(1, &A.gradient(0, 7, 3, &x).priority(10).bytes(), (A.slot, Absorbed));
        let inflated = B.gradient(0, 1, 3, &y).priority(claimed);
        let failed = B.gradient(0, 1, 3, &y).priority(10).flags(COLLISION);
        lab.check(2, &inflated.bytes(), (B.slot, Collided), &[(6, failed.bytes())]);
    }
}

/// What it took has the bound as its priority: others get it back.
fn it_is_the_priority_of_the_aggregator() {
    let mut lab = bounded(10);
    let [x, y] = values(&lab);
    lab.check_gone(2, &B.gradient(0, 1, 3, &y).priority(255).bytes(), (B.slot, Absorbed));
    let strong = A.gradient(0, 7, 3, &x).priority(11);
    let evicted = B.evicted(&strong, 1, 0b01, &y);
    lab.check(1, &strong.bytes(), (A.slot, Preempted), &[(6, evicted.bytes())]);
}

fn what_is_below_it_stays() {
    let mut lab = bounded(10);
    let [x, y, z] = values(&lab);
    lab.check_gone(2, &B.gradient(0, 1, 3, &y).priority(9).bytes(), (B.slot, Absorbed));
    // The other port has no bound.
    lab.check(
        3,
        &B.gradient(1, 1, 3, &z).priority(255).bytes(),
        (B.slot, Completed),
        &B.for_workers(&B.result(&B.gradient(1, 1, 3, &z), &sum(&[&y, &z]))),
    );
    let weak = A.gradient(0, 7, 3, &x).priority(8);
    lab.check_gone(1, &weak.bytes(), (A.slot, Absorbed));
}

/// The second pass of a packet that evicts begins with the packet as it came.
fn one_that_takes_over_keeps_to_it() {
    let mut lab = bounded(10);
    let [x, y, z] = values(&lab);
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).priority(5).bytes(), (A.slot, Absorbed));
    let inflated = B.gradient(0, 1, 3, &y).priority(255);
    let evicted = A.evicted(&inflated, 7, 0b001, &x);
    lab.check(2, &inflated.bytes(), (B.slot, Preempted), &[(PS, evicted.bytes())]);
    let strong = A.gradient(1, 7, 3, &z).priority(11);
    let back = B.evicted(&strong, 1, 0b01, &y);
    lab.check(2, &strong.bytes(), (A.slot, Preempted), &[(6, back.bytes())]);
}

/// Port 2 may send so many frames of job B with a priority, and more without.
fn limited(lab: &mut Lab, frames: i64) {
    let [x] = values(lab);
    let bytes = B.gradient(0, 1, 3, &x).bytes().len() as i64;
    lab.insert(&[Entry::Limit {
        job: B.id,
        port: 2,
        bursts: [frames * bytes, 100 * bytes],
        rate: 1,
    }]);
}

fn above_a_rate_priorities_are_the_lowest() {
    let mut lab = rack();
    limited(&mut lab, 2);
    let [x, y] = values(&lab);
    for (sequence, index) in [(1, 3), (2, 4), (3, 5)] {
        lab.check_gone(1, &A.gradient(0, 6 + sequence, index, &x).bytes(), (A.slot, Absorbed));
        let claims = B.gradient(0, sequence, index, &y).priority(200);
        if sequence < 3 {
            let evicted = A.evicted(&claims, 6 + sequence, 0b001, &x);
            lab.check(2, &claims.bytes(), (B.slot, Preempted), &[(PS, evicted.bytes())]);
        } else {
            let failed = claims.clone().flags(COLLISION);
            lab.check(2, &claims.bytes(), (B.slot, Collided), &[(6, failed.bytes())]);
        }
    }
    // What it takes has that priority as well: others get it back.
    let claims = B.gradient(0, 4, 6, &y).priority(200);
    lab.check_gone(2, &claims.bytes(), (B.slot, Absorbed));
    let weak = A.gradient(0, 10, 6, &x).priority(2);
    let evicted = B.evicted(&weak, 4, 0b01, &y);
    lab.check(1, &weak.bytes(), (A.slot, Preempted), &[(6, evicted.bytes())]);
}

/// The second pass of a packet that evicts begins with the packet as it came.
fn one_above_the_rate_that_takes_over_keeps_to_it() {
    let mut lab = rack();
    limited(&mut lab, 0);
    let [x, y, z] = values(&lab);
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).priority(5).bytes(), (A.slot, Absorbed));
    // Each that fails halves the priority of the holder, which has none left then.
    let claims = B.gradient(0, 1, 3, &y).priority(255);
    let failed = claims.clone().flags(COLLISION);
    lab.check(2, &claims.bytes(), (B.slot, Collided), &[(6, failed.bytes())]);
    let evicted = A.evicted(&claims, 7, 0b001, &x);
    lab.check(2, &claims.bytes(), (B.slot, Preempted), &[(PS, evicted.bytes())]);
    let strong = A.gradient(1, 7, 3, &z).priority(2);
    let back = B.evicted(&strong, 1, 0b01, &y);
    lab.check(2, &strong.bytes(), (A.slot, Preempted), &[(6, back.bytes())]);
}
