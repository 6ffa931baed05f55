//! The sweep: it visits one job's segment, and leaves its neighbours unchanged.

use super::{Job, LOCAL, PAIR, SERVED, UNIT, rack, values};
use crate::cases::cases;
use crate::frames::{HEADERS, RESEND};
use crate::lab::{Lab, NO_JOB, Outcome, Outcome::*, index};
use crate::scene::{PS, sum};
use crate::target::{Count, Counts};

cases!("p4inc::sweep":
    segment_only, counts_what_was_not_finished, forgets_rounds_and_copies, part_of_a_segment,
    outside_of_the_segment, of_no_service, from_hosts, large_segment,
);

/// Sends a sweep, checks its result, and that each step was counted.
#[track_caller]
pub(in crate::cases) fn check_sweep(lab: &mut Lab, job: Job, from: u32, unfinished: u32) {
    let sweep = job.sweep(from);
    let before = lab.recirculated();
    let outputs = lab.packet_out(&sweep.bytes());
    let end = job.segment.0 + job.segment.1;
    let back = sweep.bitmap(unfinished).with(|f| f.index = end);
    assert_eq!(outputs.packets_in, [back.bytes()]);
    assert_eq!(outputs.frames, []);
    let steps = i64::from(end - from);
    let count = Count { packets: steps, bytes: steps * HEADERS as i64 };
    assert_eq!(lab.counted(), Counts::from([(index(NO_JOB, Swept), count)]));
    // If the controller's port belongs to another pipe, steps begin only after the packet has
    // reached the workers' pipe.
    if let Some((before, after)) = before.zip(lab.recirculated()) {
        assert_eq!(after - before, u64::from(end - from));
    }
}

/// A sweep that is dropped.
#[track_caller]
pub(in crate::cases) fn check_refused(lab: &mut Lab, frame: &[u8], outcome: Outcome) {
    let outputs = lab.packet_out(frame);
    assert!(outputs.frames.is_empty() && outputs.packets_in.is_empty(), "{outputs:?}");
    let count = Count { packets: 1, bytes: frame.len() as i64 };
    assert_eq!(lab.counted(), Counts::from([(index(NO_JOB, outcome), count)]));
}

fn segment_only() {
    let mut lab = rack();
    let parts: [_; 3] = values(&lab);
    let [x, y, _] = &parts;
    for cell in 2..6 {
        lab.check_gone(1, &LOCAL.gradient(0, 8, cell, x).bytes(), (LOCAL.slot, Absorbed));
    }
    // In the cells after it, a round in progress and a finished one.
    lab.check_gone(2, &PAIR.gradient(0, 8, 6, x).bytes(), (PAIR.slot, Absorbed));
    PAIR.complete(&mut lab, 8, 7, &parts);
    check_sweep(&mut lab, LOCAL, 2, 4);
    let last = PAIR.gradient(1, 8, 6, y);
    let result = PAIR.published(&last, &sum(&[x, y]));
    lab.check(3, &last.bytes(), (PAIR.slot, Completed), &PAIR.for_workers(&result));
    let again = PAIR.gradient(0, 8, 7, x).flags(RESEND);
    let reply = PAIR.repeated(&again, &sum(&[x, y])).bytes();
    lab.check(2, &again.bytes(), (PAIR.slot, Repeated), &[(2, reply)]);
    // And in the cell before it.
    lab.check_gone(1, &LOCAL.gradient(0, 8, 5, x).bytes(), (LOCAL.slot, Absorbed));
    check_sweep(&mut lab, PAIR, 6, 0);
    lab.check_gone(1, &LOCAL.gradient(0, 8, 5, x).bytes(), (LOCAL.slot, Duplicate));
}

fn counts_what_was_not_finished() {
    let mut lab = rack();
    let parts: [_; 3] = values(&lab);
    let [x, y, _] = &parts;
    LOCAL.complete(&mut lab, 8, 2, &parts);
    lab.check_gone(1, &LOCAL.gradient(0, 8, 3, x).bytes(), (LOCAL.slot, Absorbed));
    LOCAL.complete(&mut lab, 8, 4, &parts);
    lab.check_gone(1, &LOCAL.gradient(0, 16, 4, x).bytes(), (LOCAL.slot, Absorbed));
    check_sweep(&mut lab, LOCAL, 2, 2);
    check_sweep(&mut lab, LOCAL, 2, 0);
    // A partial sum that waits for its answer is not finished.
    lab.check_gone(1, &UNIT.gradient(0, 8, 8, x).bytes(), (UNIT.slot, Absorbed));
    let last = UNIT.gradient(1, 8, 8, y);
    let whole = UNIT.summed(&last, &sum(&[x, y])).bytes();
    lab.check(2, &last.bytes(), (UNIT.slot, Completed), &[(PS, whole)]);
    let result = UNIT.parameter(8, 9, x);
    lab.check(PS, &result.bytes(), (UNIT.slot, Distributed), &UNIT.for_workers(&result));
    check_sweep(&mut lab, UNIT, 8, 1);
}

/// The next job with these cells starts from scratch, and gets no results of the previous job.
fn forgets_rounds_and_copies() {
    let mut lab = rack();
    let parts: [_; 3] = values(&lab);
    let marked = LOCAL.gradient(0, 100, 3, &parts[0]).flags(crate::frames::OVERFLOW);
    lab.check_gone(1, &marked.bytes(), (LOCAL.slot, Absorbed));
    LOCAL.complete(&mut lab, 100, 2, &parts);
    check_sweep(&mut lab, LOCAL, 2, 1);
    let next = Job { segment: (2, 4), ..PAIR };
    lab.delete(&[LOCAL.served()]);
    lab.modify(&[next.served()]);
    // Not even in a round with the number of the previous one.
    lab.check_gone(2, &next.gradient(0, 100, 2, &parts[0]).bytes(), (next.slot, Absorbed));
    let again = next.gradient(0, 100, 2, &parts[0]).flags(RESEND);
    lab.check_gone(2, &again.bytes(), (next.slot, Duplicate));
    check_sweep(&mut lab, next, 2, 1);
    for round in [0, 100] {
        for cell in [2, 3] {
            next.complete(&mut lab, round, cell, &parts);
        }
    }
}

/// It may begin at any cell, with any count.
fn part_of_a_segment() {
    let mut lab = rack();
    let [x] = values(&lab);
    for cell in 2..6 {
        lab.check_gone(1, &LOCAL.gradient(0, 8, cell, &x).bytes(), (LOCAL.slot, Absorbed));
    }
    let sweep = LOCAL.sweep(4).bitmap(100);
    let back = sweep.clone().bitmap(102).with(|f| f.index = 6);
    assert_eq!(lab.packet_out(&sweep.bytes()).packets_in, [back.bytes()]);
    lab.counted();
    check_sweep(&mut lab, LOCAL, 2, 2);
}

/// The controller's packets are validated like any others.
fn outside_of_the_segment() {
    let mut lab = rack();
    let [x] = values(&lab);
    for cell in [2, 5] {
        lab.check_gone(1, &LOCAL.gradient(0, 8, cell, &x).bytes(), (LOCAL.slot, Absorbed));
    }
    for from in [0, 1, 6, 7, 15] {
        check_refused(&mut lab, &LOCAL.sweep(from).bytes(), Outside);
    }
    for from in [0, 2, 5, 8] {
        check_refused(&mut lab, &PAIR.sweep(from).bytes(), Outside);
    }
    for from in [16, u32::MAX] {
        check_refused(&mut lab, &LOCAL.sweep(from).bytes(), Malformed);
    }
    check_sweep(&mut lab, LOCAL, 2, 2);
}

fn of_no_service() {
    let mut lab = rack();
    for sweep in [
        LOCAL.sweep(2).priority(6),
        LOCAL.sweep(2).priority(0),
        LOCAL.sweep(2).with(|f| f.job = 77),
        // A job without aggregators cannot be swept.
        SERVED.sweep(0),
    ] {
        check_refused(&mut lab, &sweep.bytes(), Rejected);
    }
}

fn from_hosts() {
    let mut lab = rack();
    let [x] = values(&lab);
    lab.check_gone(1, &LOCAL.gradient(0, 8, 2, &x).bytes(), (LOCAL.slot, Absorbed));
    for port in 1..=6 {
        lab.check_gone(port, &LOCAL.sweep(2).bytes(), (NO_JOB, Rejected));
    }
    lab.check_gone(1, &LOCAL.gradient(0, 8, 2, &x).bytes(), (LOCAL.slot, Duplicate));
}

fn large_segment() {
    use crate::target::Build;
    let mut lab = Lab::new(Build { pool: 4096, ..Build::P4INC });
    let [x] = values(&lab);
    let job = Job { segment: (1000, 3000), ..PAIR };
    lab.insert(&job.entries());
    for cell in [1000, 2500, 3999] {
        lab.check_gone(2, &job.gradient(0, 8, cell, &x).bytes(), (job.slot, Absorbed));
    }
    check_sweep(&mut lab, job, 1000, 3);
}
