//! The shadow copy: lost results are requested again after the cell has advanced.

use super::{Job, LOCAL, PAIR, furnished, rack, values};
use crate::cases::cases;
use crate::frames::{CONGESTED, RESEND};
use crate::lab::{Lab, Outcome::*};
use crate::scene::sum;
use crate::target::Build;

cases!("p4inc::copies":
    lost_to_one_to_some_and_to_all, copy_lasts_until_the_next_result, cells_have_copies_of_their_own,
    answers_leave_the_copy_alone, values_of_who_asks_do_not_matter, window_of_a_segment,
    values_1_62_64, values_256, values_2048,
);

#[track_caller]
fn ask(lab: &mut Lab, job: Job, worker: usize, (round, cell): (u32, u32), total: &[i32]) {
    let port = job.workers[worker];
    let again = job.gradient(worker, round, cell, &vec![-7; total.len()]).flags(RESEND);
    let reply = job.repeated(&again, total).bytes();
    lab.check(port, &again.bytes(), (job.slot, Repeated), &[(port, reply)]);
}

/// In the cell's current round, before any worker advances.
fn lost_to_one_to_some_and_to_all() {
    let mut lab = rack();
    let parts: [_; 3] = values(&lab);
    let total = sum(&[&parts[0], &parts[1], &parts[2]]);
    for (round, losers) in [(8, &[1][..]), (16, &[0, 2]), (24, &[0, 1, 2]), (32, &[2, 2, 2])] {
        LOCAL.complete(&mut lab, round, 4, &parts);
        for &worker in losers {
            ask(&mut lab, LOCAL, worker, (round, 4), &total);
        }
    }
}

fn copy_lasts_until_the_next_result() {
    let mut lab = rack();
    let [a, b, x, y] = values(&lab);
    PAIR.complete(&mut lab, 8, 6, &[a.clone(), b.clone()]);
    ask(&mut lab, PAIR, 0, (8, 6), &sum(&[&a, &b]));
    lab.check_gone(2, &PAIR.gradient(0, 16, 6, &x).bytes(), (PAIR.slot, Absorbed));
    ask(&mut lab, PAIR, 1, (8, 6), &sum(&[&a, &b]));
    let last = PAIR.gradient(1, 16, 6, &y);
    let result = PAIR.published(&last, &sum(&[&x, &y]));
    lab.check(3, &last.bytes(), (PAIR.slot, Completed), &PAIR.for_workers(&result));
    ask(&mut lab, PAIR, 1, (16, 6), &sum(&[&x, &y]));
    let late = PAIR.gradient(1, 8, 6, &b).flags(RESEND);
    lab.check_gone(3, &late.bytes(), (PAIR.slot, Stale));
}

fn cells_have_copies_of_their_own() {
    let mut lab = rack();
    let parts: [_; 5] = values(&lab);
    let cells = [(2, 8), (3, 16), (4, 8), (5, 80)];
    for (n, &(cell, round)) in cells.iter().enumerate() {
        LOCAL.complete(&mut lab, round, cell, &parts[n % 3..]);
    }
    PAIR.complete(&mut lab, 8, 6, &parts);
    for (n, &(cell, round)) in cells.iter().enumerate() {
        let [x, y, z] = &parts[n % 3..][..3] else { unreachable!() };
        ask(&mut lab, LOCAL, n % 3, (round, cell), &sum(&[x, y, z]));
    }
    ask(&mut lab, PAIR, 0, (8, 6), &sum(&[&parts[0], &parts[1]]));
}

fn answers_leave_the_copy_alone() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    PAIR.complete(&mut lab, 8, 6, &[x.clone(), y.clone()]);
    let total = sum(&[&x, &y]);
    for n in 0..10 {
        ask(&mut lab, PAIR, n % 2, (8, 6), &total);
    }
    // The mark of one answer does not carry over to the next.
    let again = PAIR.gradient(0, 8, 6, &x).ecn(CONGESTED);
    let marked = PAIR.repeated(&again, &total).flags(crate::frames::MARKED);
    lab.check(2, &again.bytes(), (PAIR.slot, Repeated), &[(2, marked.bytes())]);
    ask(&mut lab, PAIR, 0, (8, 6), &total);
}

fn values_of_who_asks_do_not_matter() {
    let mut lab = rack();
    let parts: [_; 3] = values(&lab);
    LOCAL.complete(&mut lab, 8, 2, &parts);
    let total = sum(&[&parts[0], &parts[1], &parts[2]]);
    for value in [0, 1, i32::MIN] {
        let again = LOCAL.gradient(0, 8, 2, &[value; 32]).flags(crate::frames::OVERFLOW);
        // The switch, not the packet, knows whether the result overflowed.
        let reply = LOCAL.repeated(&again, &total).flags(0);
        lab.check(1, &again.bytes(), (LOCAL.slot, Repeated), &[(1, reply.bytes())]);
    }
}

/// The worst case of a window as large as the segment: one worker has sent the next round of every
/// cell while another lacks all results of the previous rounds.
fn window_of_a_segment() {
    let mut lab = rack();
    let parts: [_; 3] = values(&lab);
    let total = sum(&[&parts[0], &parts[1], &parts[2]]);
    for fragment in 0..4 {
        LOCAL.complete(&mut lab, 8 * fragment, LOCAL.cell(fragment), &parts);
    }
    for lap in 1..4 {
        for fragment in 4 * lap..4 * lap + 4 {
            let cell = LOCAL.cell(fragment % 4);
            for (worker, outcome) in [(0, Absorbed), (1, Added)] {
                let port = LOCAL.workers[worker];
                let frame = LOCAL.gradient(worker, 8 * fragment, cell, &parts[worker]);
                lab.check_gone(port, &frame.bytes(), (LOCAL.slot, outcome));
            }
        }
        for fragment in 4 * lap..4 * lap + 4 {
            let cell = LOCAL.cell(fragment % 4);
            ask(&mut lab, LOCAL, 2, (8 * (fragment - 4), cell), &total);
            let last = LOCAL.gradient(2, 8 * fragment, cell, &parts[2]);
            let out = LOCAL.for_workers(&LOCAL.published(&last, &total));
            lab.check(3, &last.bytes(), (LOCAL.slot, Completed), &out);
        }
    }
}

fn values_1_62_64() {
    for values in [1, 62, 64] {
        every_value(furnished(Lab::new(Build { values, ..Build::P4INC })));
    }
}

fn values_256() {
    every_value(furnished(Lab::new(Build { values: 256, ..Build::P4INC })));
}

/// Only on the embedded switch: compiling 2048 values for BMv2 takes about a minute.
fn values_2048() {
    every_value(furnished(Lab::embedded(Build { values: 2048, ..Build::P4INC })));
}

/// All values of a packet differ, so none can be mistaken for another.
fn every_value(mut lab: Lab) {
    let [a, b, x, y] = values(&lab);
    for round in [8, 24] {
        PAIR.complete(&mut lab, round, 7, &[a.clone(), b.clone()]);
        lab.check_gone(2, &PAIR.gradient(0, round + 8, 7, &x).bytes(), (PAIR.slot, Absorbed));
        ask(&mut lab, PAIR, 1, (round, 7), &sum(&[&a, &b]));
        let last = PAIR.gradient(1, round + 8, 7, &y);
        let result = PAIR.published(&last, &sum(&[&x, &y]));
        lab.check(3, &last.bytes(), (PAIR.slot, Completed), &PAIR.for_workers(&result));
        ask(&mut lab, PAIR, 0, (round + 8, 7), &sum(&[&x, &y]));
    }
}
