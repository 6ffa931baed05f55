//! Packets from ports that may not send them.

use super::cases;
use crate::entries::Entry;
use crate::frames::{COLLISION, Frame, GRADIENT, PARAMETER, QUERY, REPLY, RESEND, epoch};
use crate::lab::{NO_JOB, Outcome::*};
use crate::scene::{A, B, OUTSIDER, PS, rack, sum, values};
use crate::target::{Build, PORTS};

cases!("rejected":
    unknown_job, other_runs, another_jobs_run, what_a_run_left_is_not_the_next_ones,
    wrong_port, wrong_kind_for_the_port, job_that_has_left, transit,
);

fn unknown_job() {
    let mut lab = rack(Build::PATIENT);
    let x = values(&lab, 1);
    for job in [0, 4, 0x0102, 0x0200, u16::MAX] {
        for (port, frame) in [
            (1, A.gradient(0, 7, 3, &x)),
            (PS, A.parameter(7, 3, &x)),
            (PS, A.reply(0, 7, 3, &x)),
            (PS, A.query(0, 7, 3)),
        ] {
            lab.check_gone(port, &frame.with(|f| f.job = job).bytes(), (NO_JOB, Rejected));
        }
    }
    lab.check_gone(2, &B.gradient(0, 7, 3, &x).bytes(), (B.slot, Absorbed));
}

/// Packets of runs before and after the admitted one, and without a run.
fn other_runs() {
    let mut lab = rack(Build::PATIENT);
    let [x, y] = [1, 2].map(|seed| values(&lab, seed));
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Absorbed));
    for run in [0, 1, epoch(A.id) - 1, epoch(A.id) + 1, epoch(A.id) ^ 1 << 31, u32::MAX] {
        for (port, frame) in [
            (1, A.gradient(0, 7, 3, &y)),
            (2, A.gradient(1, 7, 3, &y)),
            (3, A.gradient(2, 7, 3, &y).flags(RESEND)),
            (PS, A.parameter(7, 3, &y)),
            (PS, A.reply(0, 7, 3, &y)),
            (PS, A.query(0, 7, 3)),
        ] {
            let frame = frame.with(|f| f.epoch = Some(run));
            lab.check_gone(port, &frame.bytes(), (NO_JOB, Rejected));
        }
    }
    // They added and freed nothing, and produced no result.
    lab.check_gone(2, &A.gradient(1, 7, 3, &y).bytes(), (A.slot, Added));
    let last = A.gradient(2, 7, 3, &x);
    let whole = last.clone().bitmap(0b111).values(&sum(&[&x, &y, &x]));
    lab.check(3, &last.bytes(), (A.slot, Completed), &[(PS, whole.bytes())]);
}

/// The run of a job that the port belongs to, with another job's ID, and the reverse.
fn another_jobs_run() {
    let mut lab = rack(Build::PATIENT);
    let x = values(&lab, 1);
    for (frame, run) in [(B.gradient(0, 7, 3, &x), A.id), (A.gradient(1, 7, 3, &x), B.id)] {
        let frame = frame.with(|f| f.epoch = Some(epoch(run)));
        lab.check_gone(2, &frame.bytes(), (NO_JOB, Rejected));
    }
    lab.check_gone(2, &B.gradient(0, 7, 3, &x).bytes(), (B.slot, Absorbed));
}

/// A job is admitted again without a sweep in between: a cell left by an earlier run belongs to
/// another task, whatever the sequence, so it is neither changed nor forwarded.
fn what_a_run_left_is_not_the_next_ones() {
    let mut lab = rack(Build::PATIENT);
    let [x, y] = [1, 2].map(|seed| values(&lab, seed));
    lab.check_gone(2, &B.gradient(0, 7, 3, &x).bytes(), (B.slot, Absorbed));
    lab.delete(&B.entries());
    let next = |frame: Frame| frame.with(|f| f.epoch = Some(epoch(B.id) + 1));
    lab.insert(&B.entries_of(epoch(B.id) + 1));
    let last = next(B.gradient(1, 7, 3, &y));
    let alone = last.clone().flags(COLLISION);
    lab.check(3, &last.bytes(), (B.slot, Collided), &[(PS, alone.bytes())]);
    let again = next(B.gradient(0, 7, 3, &y)).flags(RESEND);
    lab.check(2, &again.bytes(), (B.slot, Resent), &[(PS, again.bytes())]);
    let result = next(B.parameter(7, 3, &y));
    lab.check(PS, &result.bytes(), (B.slot, Distributed), &B.for_workers(&result));
    // Only the sweep of its own run frees it.
    for (run, freed) in [(epoch(B.id) + 1, 0), (epoch(B.id), 1)] {
        let sweep = B.sweep(1, 0).with(|f| f.epoch = Some(run));
        let back = sweep.clone().bitmap(freed).with(|f| f.index = lab.build().pool);
        assert_eq!(lab.packet_out(&sweep.bytes()).packets_in, [back.bytes()]);
    }
    lab.counted();
    lab.check_gone(3, &next(B.gradient(1, 7, 3, &y)).bytes(), (B.slot, Absorbed));
}

/// Each kind from each port: it passes only with an entry.
fn wrong_port() {
    let mut lab = rack(Build::PATIENT);
    let x = values(&lab, 1);
    for port in PORTS {
        for worker in 0..3 {
            if A.workers[worker] != port {
                let outcome = if A.workers.contains(&port) {
                    (A.slot, Malformed)
                } else {
                    (NO_JOB, Rejected)
                };
                lab.check_gone(port, &A.gradient(worker, 7, 3, &x).bytes(), outcome);
            }
        }
        if port != PS {
            for frame in [A.parameter(7, 3, &x), A.reply(0, 7, 3, &x), A.query(0, 7, 3)] {
                lab.check_gone(port, &frame.bytes(), (NO_JOB, Rejected));
            }
        }
    }
    // A worker of one job may not send for another.
    lab.check_gone(1, &B.gradient(0, 7, 3, &x).bytes(), (NO_JOB, Rejected));
    lab.check_gone(2, &B.gradient(0, 7, 3, &x).bytes(), (B.slot, Absorbed));
}

fn wrong_kind_for_the_port() {
    let mut lab = rack(Build::PATIENT);
    let x = values(&lab, 1);
    // Gradients from the parameter server's port.
    lab.check_gone(PS, &A.gradient(0, 7, 3, &x).bytes(), (NO_JOB, Rejected));
    // An entry for one kind does not apply to others.
    lab.insert(&[Entry::answer(A.id, OUTSIDER, QUERY, A.slot)]);
    let query = A.query(0, 7, 3);
    lab.check(OUTSIDER, &query.bytes(), (A.slot, Queried), &[(1, query.bytes())]);
    lab.check_gone(OUTSIDER, &A.reply(0, 7, 3, &x).bytes(), (NO_JOB, Rejected));
    lab.check_gone(OUTSIDER, &A.parameter(7, 3, &x).bytes(), (NO_JOB, Rejected));
}

/// Entries change while packets pass.
fn job_that_has_left() {
    let mut lab = rack(Build::PATIENT);
    let [x, y] = [1, 2].map(|seed| values(&lab, seed));
    lab.check_gone(2, &B.gradient(0, 7, 3, &x).bytes(), (B.slot, Absorbed));
    lab.delete(&B.entries());
    lab.check_gone(3, &B.gradient(1, 7, 3, &y).bytes(), (NO_JOB, Rejected));
    lab.check_gone(PS, &B.parameter(7, 3, &y).bytes(), (NO_JOB, Rejected));
    lab.insert(&B.entries());
    let last = B.gradient(1, 7, 3, &y);
    let whole = last.clone().bitmap(0b11).values(&sum(&[&x, &y]));
    lab.check(3, &last.bytes(), (B.slot, Completed), &[(PS, whole.bytes())]);
}

/// A job without aggregators here: its packets pass, but only on allowed ports and if they are well
/// formed.
fn transit() {
    let mut lab = rack(Build::PATIENT);
    let x = values(&lab, 1);
    let (job, slot) = (9, 9);
    lab.insert(&[
        Entry::pass(job, 1, GRADIENT, slot),
        Entry::pass(job, PS, PARAMETER, slot),
        Entry::pass(job, PS, REPLY, slot),
        Entry::pass(job, PS, QUERY, slot),
    ]);
    for flags in 0..16 {
        let of_job = |frame: crate::frames::Frame| frame.flags(flags).with(|f| f.job = job);
        let frame = of_job(A.gradient(0, 7, 3, &x));
        for _ in 0..2 {
            lab.check(1, &frame.bytes(), (slot, Bypassed), &[(PS, frame.bytes())]);
        }
        lab.check_gone(2, &frame.bytes(), (NO_JOB, Rejected));
        for frame in [of_job(A.reply(0, 7, 3, &x)), of_job(A.query(0, 7, 3))] {
            lab.check(PS, &frame.bytes(), (slot, Bypassed), &[(1, frame.bytes())]);
        }
        // To an unknown group address: flooded, as in any switch.
        let frame = of_job(A.parameter(7, 3, &x));
        let out = [1, 2, 3, 5, 6].map(|port| (port, frame.bytes()));
        lab.check(PS, &frame.bytes(), (slot, Bypassed), &out);
        let bad = of_job(A.gradient(0, 7, 3, &x)).with(|f| f.count = Some(1));
        lab.check_gone(1, &bad.bytes(), (NO_JOB, Malformed));
    }
}
