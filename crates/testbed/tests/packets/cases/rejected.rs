//! Packets that nobody may send from where they come.

use super::cases;
use crate::entries::Entry;
use crate::frames::{GRADIENT, PARAMETER, QUERY, REPLY};
use crate::lab::{NO_JOB, Outcome::*};
use crate::scene::{A, B, OUTSIDER, PS, rack, sum, values};
use crate::target::{Build, PORTS};

cases!("rejected":
    unknown_job, wrong_port, wrong_kind_for_the_port, job_that_has_left, transit,
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

/// Each kind from each port: only where an entry says so does it get through.
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
    // A worker of one job is nothing to another.
    lab.check_gone(1, &B.gradient(0, 7, 3, &x).bytes(), (NO_JOB, Rejected));
    lab.check_gone(2, &B.gradient(0, 7, 3, &x).bytes(), (B.slot, Absorbed));
}

fn wrong_kind_for_the_port() {
    let mut lab = rack(Build::PATIENT);
    let x = values(&lab, 1);
    // Gradients from the parameter server's port.
    lab.check_gone(PS, &A.gradient(0, 7, 3, &x).bytes(), (NO_JOB, Rejected));
    // An entry for one kind is none for the others.
    lab.insert(&[Entry::answer(A.id, OUTSIDER, QUERY, A.slot)]);
    let query = A.query(0, 7, 3);
    lab.check(OUTSIDER, &query.bytes(), (A.slot, Queried), &[(1, query.bytes())]);
    lab.check_gone(OUTSIDER, &A.reply(0, 7, 3, &x).bytes(), (NO_JOB, Rejected));
    lab.check_gone(OUTSIDER, &A.parameter(7, 3, &x).bytes(), (NO_JOB, Rejected));
}

/// Entries come and go while packets pass.
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

/// A job without aggregators here: its packets pass, but still only where they may, and only if they
/// are well formed.
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
        // To a group address that no table knows: flooded, as any switch does.
        let frame = of_job(A.parameter(7, 3, &x));
        let out = [1, 2, 3, 5, 6].map(|port| (port, frame.bytes()));
        lab.check(PS, &frame.bytes(), (slot, Bypassed), &out);
        let bad = of_job(A.gradient(0, 7, 3, &x)).with(|f| f.count = Some(1));
        lab.check_gone(1, &bad.bytes(), (NO_JOB, Malformed));
    }
}
