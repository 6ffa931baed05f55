//! Two tasks, one cell.

use super::{A, AGENT, B, RACK, fetched, furnished, rack, values};
use crate::cases::cases;
use crate::frames::{CAPABLE, COLLISION, CONGESTED, MARKED, NOT_CAPABLE, REMINDER, epoch};
use crate::lab::Lab;
use crate::lab::Outcome::*;
use crate::scene::{PS, sum};
use crate::target::{Build, Count};

cases!("esa::preemption":
    figure_3_preemption_then_completion_then_the_rest, figure_4_partial_sums_by_both_ways,
    higher_priority_evicts, equal_priority_does_not, downgrading_regains_a_cell_of_255,
    new_contributions_renew_a_lowered_priority, neither_duplicates_nor_repeats_change_a_priority,
    sum_of_a_rack_has_the_priority_of_its_task, next_task_does_not_inherit_a_priority,
    swap_keeps_marks_apart, evicted_job_without_server_entry,
    another_fragment_of_the_same_job, evictions_are_counted_for_the_loser,
);

/// The example of the paper's §4: job 1 with stragglers loses its cell to job 2, which completes.
fn figure_3_preemption_then_completion_then_the_rest() {
    let mut lab = rack();
    let [g1, g2, g3, g5, g6] = values(&lab);
    // ① ② The first workers of job 1.
    lab.check_gone(1, &A.gradient(0, 7, 3, &g1).bytes(), (A.slot, Absorbed));
    lab.check_gone(2, &A.gradient(1, 7, 3, &g2).bytes(), (A.slot, Added));
    // ③ ④ Job 2 has the higher priority: g1 + g2 go to the server of job 1.
    let third = B.gradient(0, 1, 3, &g5).priority(20);
    let evicted = A.evicted(&third, 7, 0b011, &sum(&[&g1, &g2]));
    lab.check(2, &third.bytes(), (B.slot, Preempted), &[(PS, evicted.bytes())]);
    // ⑤ ⑥ Job 2 is complete: multicast, and the cell is free.
    let fifth = B.gradient(1, 1, 3, &g6).priority(20);
    let result = B.result(&fifth, &sum(&[&g5, &g6]));
    lab.check(3, &fifth.bytes(), (B.slot, Completed), &B.for_workers(&result));
    // ⑦ ⑧ The straggler takes it again. ⑨ In figure 3 the rest of the job's values continue from
    // here by themselves; that requires the reminder agent, which knows what is missing.
    lab.check_gone(3, &A.gradient(2, 7, 3, &g3).bytes(), (A.slot, Absorbed));
    let reminder = A.reminder(&lab, 7, 3);
    let rest = fetched(&reminder, 0b100, &g3);
    lab.check(super::AGENT, &reminder.bytes(), (A.slot, Reminded), &[(super::AGENT, rest.bytes())]);
    // ⑩ The server has all values, and multicasts the result.
    let total = A.parameter(7, 3, &sum(&[&g1, &g2, &g3]));
    lab.check(PS, &total.bytes(), (A.slot, Distributed), &A.for_workers(&total));
}

/// The two ways in which a server gets partial sums (§5.1): a packet that failed to preempt, and a
/// reminder that fetches a switch's sum.
fn figure_4_partial_sums_by_both_ways() {
    let mut lab = rack();
    let [x, y, z] = values(&lab);
    lab.check_gone(2, &B.gradient(0, 1, 3, &z).priority(20).bytes(), (B.slot, Absorbed));
    // Failed to preempt: continues to the server.
    let failed = A.gradient(0, 7, 3, &x);
    let alone = failed.clone().flags(COLLISION);
    lab.check(1, &failed.bytes(), (A.slot, Collided), &[(PS, alone.bytes())]);
    // The other task is gone; another worker's packet waits for that one.
    let total = B.parameter(1, 3, &z);
    lab.check(B.ps, &total.bytes(), (B.slot, Distributed), &B.for_workers(&total));
    lab.check_gone(2, &A.gradient(1, 7, 3, &y).bytes(), (A.slot, Absorbed));
    lab.check_gone(3, &A.gradient(2, 7, 3, &z).bytes(), (A.slot, Added));
    // The server has an entry, so the agent reminds.
    let reminder = A.reminder(&lab, 7, 3);
    let partial = fetched(&reminder, 0b110, &sum(&[&y, &z]));
    lab.check(
        super::AGENT,
        &reminder.bytes(),
        (A.slot, Reminded),
        &[(super::AGENT, partial.bytes())],
    );
}

fn higher_priority_evicts() {
    for (holder, packet) in [(1, 2), (1, 255), (10, 11), (127, 128), (254, 255)] {
        let mut lab = rack();
        let [x, y, z] = values(&lab);
        lab.check_gone(1, &A.gradient(0, 7, 3, &x).priority(holder).bytes(), (A.slot, Absorbed));
        let strong = B.gradient(0, 1, 3, &y).priority(packet);
        let evicted = A.evicted(&strong, 7, 0b001, &x);
        lab.check(2, &strong.bytes(), (B.slot, Preempted), &[(PS, evicted.bytes())]);
        // The cell is now B's, with B's priority and nothing of A.
        lab.check_gone(2, &strong.bytes(), (B.slot, Duplicate));
        let weak = A.gradient(1, 7, 3, &x).priority(packet);
        let marked = weak.clone().flags(COLLISION);
        lab.check(2, &weak.bytes(), (A.slot, Collided), &[(PS, marked.bytes())]);
        let last = B.gradient(1, 1, 3, &z);
        let result = B.result(&last, &sum(&[&y, &z]));
        lab.check(3, &last.bytes(), (B.slot, Completed), &B.for_workers(&result));
    }
}

fn equal_priority_does_not() {
    for priority in [1, 7, 128, 255] {
        let mut lab = rack();
        let [x, y] = values(&lab);
        lab.check_gone(1, &A.gradient(0, 7, 3, &x).priority(priority).bytes(), (A.slot, Absorbed));
        let equal = B.gradient(0, 1, 3, &y).priority(priority);
        let failed = equal.clone().flags(COLLISION);
        lab.check(2, &equal.bytes(), (B.slot, Collided), &[(6, failed.bytes())]);
        // That has lowered the priority: the next one of the same priority gets the cell.
        let evicted = A.evicted(&equal, 7, 0b001, &x);
        lab.check(2, &equal.bytes(), (B.slot, Preempted), &[(PS, evicted.bytes())]);
    }
}

/// 255, 249, 243 … 3, 0; or 255, 127, 63, 31, 15, 7, 3, 1, 0.
fn downgrading_regains_a_cell_of_255() {
    for (linear, times) in [(false, 43), (true, 8)] {
        let mut lab = furnished(Lab::new(Build { linear, ..Build::ESA }));
        let [x, y] = values(&lab);
        lab.check_gone(1, &A.gradient(0, 7, 3, &x).priority(255).bytes(), (A.slot, Absorbed));
        let weakest = B.gradient(0, 1, 3, &y).priority(1);
        let failed = [(6, weakest.clone().flags(COLLISION).bytes())];
        for _ in 0..times {
            lab.check(2, &weakest.bytes(), (B.slot, Collided), &failed);
        }
        let evicted = A.evicted(&weakest, 7, 0b001, &x);
        lab.check(2, &weakest.bytes(), (B.slot, Preempted), &[(PS, evicted.bytes())]);
    }
}

/// The priority of a cell after some packets failed to evict its task.
fn lowered(linear: bool, priority: u8, times: u32) -> u8 {
    match linear {
        true => priority >> times,
        false => priority.saturating_sub(6 * times as u8),
    }
}

fn new_contributions_renew_a_lowered_priority() {
    let mut lab = rack();
    let [x, y, z] = values(&lab);
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).priority(9).bytes(), (A.slot, Absorbed));
    let other = B.gradient(0, 1, 3, &z).priority(9);
    let failed = [(6, other.clone().flags(COLLISION).bytes())];
    lab.check(2, &other.bytes(), (B.slot, Collided), &failed);
    // Down to 3, and up to 9 again: another 9 fails once more.
    lab.check_gone(2, &A.gradient(1, 7, 3, &y).priority(9).bytes(), (A.slot, Added));
    lab.check(2, &other.bytes(), (B.slot, Collided), &failed);
    // Down to 3. A copy of an earlier packet is no new contribution.
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).priority(9).bytes(), (A.slot, Duplicate));
    let other = other.priority(4);
    let evicted = A.evicted(&other, 7, 0b011, &sum(&[&x, &y]));
    lab.check(2, &other.bytes(), (B.slot, Preempted), &[(PS, evicted.bytes())]);
}

/// A worker sends a gradient again with priority 1. Whether or not the first one arrived, the task
/// keeps its priority, also a lowered one.
fn neither_duplicates_nor_repeats_change_a_priority() {
    for linear in [false, true] {
        let mut lab = furnished(Lab::new(Build { linear, ..Build::ESA }));
        let [x, y, z] = values(&lab);
        let repeats = [(1, A.gradient(0, 7, 3, &x)), (2, A.gradient(1, 7, 3, &y))];
        lab.check_gone(1, &repeats[0].1.clone().priority(168).bytes(), (A.slot, Absorbed));
        lab.check_gone(2, &repeats[1].1.clone().priority(1).bytes(), (A.slot, Added));
        let other = B.gradient(0, 1, 3, &z);
        for times in 0..3 {
            for (port, repeat) in &repeats {
                for priority in [1, 255] {
                    let repeat = repeat.clone().priority(priority);
                    lab.check_gone(*port, &repeat.bytes(), (A.slot, Duplicate));
                }
            }
            let equal = other.clone().priority(lowered(linear, 168, times));
            let failed = equal.clone().flags(COLLISION);
            lab.check(2, &equal.bytes(), (B.slot, Collided), &[(6, failed.bytes())]);
        }
        let higher = other.priority(lowered(linear, 168, 3) + 1);
        let evicted = A.evicted(&higher, 7, 0b011, &sum(&[&x, &y]));
        lab.check(2, &higher.bytes(), (B.slot, Preempted), &[(PS, evicted.bytes())]);
    }
}

/// Whatever the priority of the packet that completes it.
fn sum_of_a_rack_has_the_priority_of_its_task() {
    for linear in [false, true] {
        let mut lab = furnished(Lab::new(Build { linear, ..Build::ESA }));
        let [x, y, z] = values(&lab);
        for (sequence, priority) in
            [1, 2, 3, 5, 11, 24, 37, 64, 100, 127, 128, 255].iter().enumerate()
        {
            for times in 0..3 {
                let sequence = 4 * sequence as u32 + times;
                let first = RACK.gradient(0, sequence, 3, &x).priority(*priority);
                lab.check_gone(1, &first.bytes(), (RACK.slot, Absorbed));
                let other = B.gradient(0, sequence, 3, &z).priority(1);
                let failed = [(6, other.clone().flags(COLLISION).bytes())];
                let lost = (0..times).take_while(|n| lowered(linear, *priority, *n) > 0).count();
                for _ in 0..lost {
                    lab.check(2, &other.bytes(), (B.slot, Collided), &failed);
                }
                let last = RACK.gradient(1, sequence, 3, &y).priority(1);
                let whole = last.clone().bitmap(0b11).values(&sum(&[&x, &y]));
                let whole = whole.priority(lowered(linear, *priority, lost as u32).max(1));
                lab.check(2, &last.bytes(), (RACK.slot, Completed), &[(PS, whole.bytes())]);
            }
        }
    }
}

/// However the cell was freed. Whether the next task may keep the cell depends on its own packets.
fn next_task_does_not_inherit_a_priority() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    let total = sum(&[&x, &y]);
    for sequence in 0..3 {
        let first = B.gradient(0, sequence, 3, &x).priority(255);
        lab.check_gone(2, &first.bytes(), (B.slot, Absorbed));
        let last = B.gradient(1, sequence, 3, &y).priority(255);
        if sequence == 0 {
            let result = B.for_workers(&B.result(&last, &total));
            lab.check(3, &last.bytes(), (B.slot, Completed), &result);
        } else if sequence == 1 {
            let result = B.parameter(sequence, 3, &total);
            lab.check(B.ps, &result.bytes(), (B.slot, Distributed), &B.for_workers(&result));
        } else {
            let reminder = B.frame(REMINDER, AGENT, 2, sequence, 3).bitmap(0b11);
            let reminder = reminder.values(&vec![0; x.len()]);
            let rest = [(AGENT, fetched(&reminder, 0b01, &x).bytes())];
            lab.check(AGENT, &reminder.bytes(), (B.slot, Reminded), &rest);
        }
        let first = A.gradient(0, sequence, 3, &x).priority(2);
        lab.check_gone(1, &first.bytes(), (A.slot, Absorbed));
        let higher = RACK.gradient(0, sequence, 3, &y).priority(3);
        let evicted = A.evicted(&higher, sequence, 0b001, &x);
        lab.check(1, &higher.bytes(), (RACK.slot, Preempted), &[(PS, evicted.bytes())]);
        let freed = RACK.parameter(sequence, 3, &y);
        lab.check(PS, &freed.bytes(), (RACK.slot, Distributed), &[]);
    }
}

/// Each task's mark stays with its values.
fn swap_keeps_marks_apart() {
    for cell_marked in [false, true] {
        for (ecn, flag, cleared) in [
            (CAPABLE, 0, CAPABLE),
            (CONGESTED, 0, CAPABLE),
            (CAPABLE, MARKED, CAPABLE),
            (1, MARKED, 1),
            (NOT_CAPABLE, 0, NOT_CAPABLE),
        ] {
            let mut lab = rack();
            let [x, y, z] = values(&lab);
            let mark = if cell_marked { MARKED } else { 0 };
            let first = RACK.gradient(0, 7, 3, &x).flags(mark);
            lab.check_gone(1, &first.bytes(), (RACK.slot, Absorbed));
            let strong = B.gradient(0, 1, 3, &y).priority(20).ecn(ecn).flags(flag);
            let evicted = RACK.evicted(&strong, 7, 0b01, &x).ecn(cleared).flags(COLLISION | mark);
            lab.check(2, &strong.bytes(), (B.slot, Preempted), &[(PS, evicted.bytes())]);
            let last = B.gradient(1, 1, 3, &z);
            let own = if ecn == CONGESTED || flag != 0 { MARKED } else { 0 };
            let result = B.result(&last, &sum(&[&y, &z])).flags(own);
            lab.check(3, &last.bytes(), (B.slot, Completed), &B.for_workers(&result));
        }
    }
}

/// A job that is being removed: no server entry for its sums.
fn evicted_job_without_server_entry() {
    let mut lab = rack();
    let [x, y, z] = values(&lab);
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Absorbed));
    lab.delete(&[A.server()]);
    let strong = B.gradient(0, 1, 3, &y).priority(20);
    lab.check_gone(2, &strong.bytes(), (B.slot, Preempted));
    assert!(lab.evictions().is_empty());
    let last = B.gradient(1, 1, 3, &z);
    let result = B.result(&last, &sum(&[&y, &z]));
    lab.check(3, &last.bytes(), (B.slot, Completed), &B.for_workers(&result));
}

fn another_fragment_of_the_same_job() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Absorbed));
    let next = A.gradient(1, 8, 3, &y).priority(11);
    let evicted = A.evicted(&next, 7, 0b001, &x);
    lab.check(2, &next.bytes(), (A.slot, Preempted), &[(PS, evicted.bytes())]);
    lab.check_gone(2, &next.bytes(), (A.slot, Duplicate));
}

fn evictions_are_counted_for_the_loser() {
    let mut lab = rack();
    let [x] = values(&lab);
    assert!(lab.evictions().is_empty());
    let frame = A.gradient(0, 7, 3, &x).priority(1);
    lab.check_gone(1, &frame.bytes(), (A.slot, Absorbed));
    for (round, priority) in [(0, 2), (1, 4), (2, 6)] {
        let by = B.gradient(0, round, 3, &x).priority(priority);
        lab.send(2, &by.bytes());
        lab.send(1, &A.gradient(0, round + 8, 3, &x).priority(priority + 1).bytes());
    }
    let bytes = frame.bytes().len() as i64;
    let of = |packets: i64| Count { packets, bytes: packets * bytes };
    assert_eq!(lab.evictions(), [(epoch(A.id), of(3)), (epoch(B.id), of(3))].into());
}
