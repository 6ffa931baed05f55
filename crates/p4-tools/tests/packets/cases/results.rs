//! Results and queries from the parameter server to the workers.

use super::cases;
use crate::entries::{Entry, FLOOD};
use crate::frames::{COLLISION, MARKED, OVERFLOW, RESEND};
use crate::lab::Outcome::*;
use crate::scene::{A, B, PS, rack, sum, v1model_rack, values};
use crate::target::Build;

cases!("results":
    distributed_frees, distributed_without_cell, distributed_leaves_another_task_alone,
    reply_frees, reply_leaves_another_task_alone, queried, flags_of_results, multicast_groups,
    flood_group,
);

fn distributed_frees() {
    let mut lab = rack(Build::PATIENT);
    let [x, y] = [1, 2].map(|seed| values(&lab, seed));
    lab.check_gone(2, &B.gradient(0, 7, 3, &x).bytes(), (B.slot, Absorbed));
    let last = B.gradient(1, 7, 3, &y);
    let whole = last.clone().bitmap(0b11).values(&sum(&[&x, &y]));
    lab.check(3, &last.bytes(), (B.slot, Completed), &[(PS, whole.bytes())]);
    let result = B.parameter(7, 3, &sum(&[&x, &y]));
    lab.check(PS, &result.bytes(), (B.slot, Distributed), &B.for_workers(&result));
    // The next packet starts a new sum.
    lab.check_gone(2, &B.gradient(0, 8, 3, &y).bytes(), (B.slot, Absorbed));
    let last = B.gradient(1, 8, 3, &y);
    let whole = last.clone().bitmap(0b11).values(&sum(&[&y, &y]));
    lab.check(3, &last.bytes(), (B.slot, Completed), &[(PS, whole.bytes())]);
}

fn distributed_without_cell() {
    let mut lab = rack(Build::PATIENT);
    let result = A.parameter(7, 3, &values(&lab, 1));
    lab.check(PS, &result.bytes(), (A.slot, Distributed), &A.for_workers(&result));
}

fn distributed_leaves_another_task_alone() {
    let mut lab = rack(Build::PATIENT);
    let [x, y] = [1, 2].map(|seed| values(&lab, seed));
    lab.check_gone(2, &B.gradient(0, 7, 3, &x).bytes(), (B.slot, Absorbed));
    // Of another job with the same sequence, and of the same job with another sequence.
    for (job, sequence) in [(A, 7), (B, 6)] {
        let result = job.parameter(sequence, 3, &y);
        lab.check(PS, &result.bytes(), (job.slot, Distributed), &job.for_workers(&result));
    }
    let last = B.gradient(1, 7, 3, &y);
    let whole = last.clone().bitmap(0b11).values(&sum(&[&x, &y]));
    lab.check(3, &last.bytes(), (B.slot, Completed), &[(PS, whole.bytes())]);
}

fn reply_frees() {
    let mut lab = rack(Build::PATIENT);
    let x = values(&lab, 1);
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Absorbed));
    let reply = A.reply(2, 7, 3, &x);
    lab.check(PS, &reply.bytes(), (A.slot, Replied), &[(3, reply.bytes())]);
    lab.check_gone(2, &B.gradient(0, 1, 3, &x).bytes(), (B.slot, Absorbed));
}

fn reply_leaves_another_task_alone() {
    let mut lab = rack(Build::PATIENT);
    let [x, y] = [1, 2].map(|seed| values(&lab, seed));
    lab.check_gone(2, &B.gradient(0, 7, 3, &x).bytes(), (B.slot, Absorbed));
    for (job, sequence) in [(A, 7), (B, 6)] {
        let reply = job.reply(0, sequence, 3, &y);
        let out = [(job.workers[0], reply.bytes())];
        lab.check(PS, &reply.bytes(), (job.slot, Replied), &out);
    }
    let last = B.gradient(1, 7, 3, &y);
    let whole = last.clone().bitmap(0b11).values(&sum(&[&x, &y]));
    lab.check(3, &last.bytes(), (B.slot, Completed), &[(PS, whole.bytes())]);
}

/// A query accesses no cell.
fn queried() {
    let mut lab = rack(Build::PATIENT);
    let [x, y] = [1, 2].map(|seed| values(&lab, seed));
    lab.check_gone(2, &B.gradient(0, 7, 3, &x).bytes(), (B.slot, Absorbed));
    for flags in [0, OVERFLOW] {
        let query = B.query(1, 7, 3).flags(flags);
        lab.check(PS, &query.bytes(), (B.slot, Queried), &[(3, query.bytes())]);
    }
    let last = B.gradient(1, 7, 3, &y);
    let whole = last.clone().bitmap(0b11).values(&sum(&[&x, &y]));
    lab.check(3, &last.bytes(), (B.slot, Completed), &[(PS, whole.bytes())]);
}

/// Results carry the collision, overflow and congestion flags to the workers unchanged; only
/// gradients are resent.
fn flags_of_results() {
    let mut lab = rack(Build::PATIENT);
    let x = values(&lab, 1);
    for flags in 0..16 {
        let result = A.parameter(7, 3, &x).flags(flags);
        let reply = A.reply(0, 7, 3, &x).flags(flags);
        let query = A.query(0, 7, 3).flags(flags);
        if flags & RESEND != 0 {
            for frame in [result, reply, query] {
                lab.check_gone(PS, &frame.bytes(), (A.slot, Malformed));
            }
        } else {
            assert_eq!(flags & !(COLLISION | OVERFLOW | MARKED), 0);
            lab.check(PS, &result.bytes(), (A.slot, Distributed), &A.for_workers(&result));
            lab.check(PS, &reply.bytes(), (A.slot, Replied), &[(1, reply.bytes())]);
            lab.check(PS, &query.bytes(), (A.slot, Queried), &[(1, query.bytes())]);
        }
    }
}

/// A group determines who gets a copy: also the arrival port of the result, if it is a member.
fn multicast_groups() {
    let mut lab = rack(Build::PATIENT);
    let x = values(&lab, 1);
    let result = A.parameter(7, 3, &x);
    let to = |ports: &[u16]| -> Vec<(u16, Vec<u8>)> {
        ports.iter().map(|port| (*port, result.bytes())).collect()
    };
    lab.modify(&[Entry::group(A.group, &[1, 4, 5])]);
    lab.check(PS, &result.bytes(), (A.slot, Distributed), &to(&[1, 4, 5]));
    lab.modify(&[Entry::group(A.group, &[])]);
    lab.check_gone(PS, &result.bytes(), (A.slot, Distributed));
    lab.delete(&[Entry::group(A.group, &[])]);
    lab.check_gone(PS, &result.bytes(), (A.slot, Distributed));
}

/// The flood group excludes the arrival port for all frames. With TNA only plain frames use it: a
/// job's group always differs.
fn flood_group() {
    let mut lab = v1model_rack(Build::PATIENT);
    let result = A.parameter(7, 3, &values(&lab, 1));
    let expected = [1, 2, 3, 5, 6].map(|port| (port, result.bytes()));
    lab.modify(&[Entry::distribute(A.id, PS, FLOOD, A.slot)]);
    lab.check(PS, &result.bytes(), (A.slot, Distributed), &expected);
}
