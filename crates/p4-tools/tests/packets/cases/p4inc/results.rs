//! Results and queries of the parameter server.

use super::{LOCAL, UNIT, rack, values};
use crate::cases::cases;
use crate::entries::Entry;
use crate::frames::{COLLISION, CONGESTED, MARKED, OVERFLOW, PARAMETER, QUERY, REPLY, RESEND};
use crate::lab::{NO_JOB, Outcome::*};
use crate::scene::PS;

cases!("p4inc::results":
    flags_of_results, results_are_for_everyone, results_outside_the_segment, queried,
    results_from_elsewhere, multicast_groups, round_of_no_number,
);

fn flags_of_results() {
    let mut lab = rack();
    let [x] = values(&lab);
    for flags in 0..16u8 {
        let round = 8 * u32::from(flags) + 8;
        let result = UNIT.parameter(round, 8, &x).flags(flags);
        let reply = UNIT.reply(0, round, 9, &x).flags(flags);
        if flags & (RESEND | COLLISION) != 0 {
            for frame in [result, reply] {
                lab.check_gone(PS, &frame.bytes(), (UNIT.slot, Malformed));
            }
        } else {
            assert_eq!(flags & !(OVERFLOW | MARKED), 0);
            let out = UNIT.for_workers(&result);
            lab.check(PS, &result.bytes(), (UNIT.slot, Distributed), &out);
            lab.check(PS, &reply.bytes(), (UNIT.slot, Replied), &[(1, reply.bytes())]);
            for cell in [8, 9] {
                let again = UNIT.gradient(1, round, cell, &x).flags(RESEND);
                let reply = UNIT.repeated(&again, &x).flags(flags);
                lab.check(2, &again.bytes(), (UNIT.slot, Repeated), &[(2, reply.bytes())]);
            }
        }
    }
    // A reply that was marked on its way keeps its mark.
    let reply = UNIT.reply(0, 200, 9, &x).ecn(CONGESTED);
    let out = reply.clone().flags(MARKED);
    lab.check(PS, &reply.bytes(), (UNIT.slot, Replied), &[(1, out.bytes())]);
}

fn results_are_for_everyone() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    lab.check_gone(1, &UNIT.gradient(0, 8, 8, &x).bytes(), (UNIT.slot, Absorbed));
    for bitmap in [0, 0b0001, 0b0011, 0b0111, 0b1_1111, u32::MAX] {
        for frame in [UNIT.parameter(8, 8, &y), UNIT.reply(0, 8, 8, &y)] {
            lab.check_gone(PS, &frame.bitmap(bitmap).bytes(), (UNIT.slot, Malformed));
        }
    }
    lab.check_gone(1, &UNIT.gradient(0, 8, 8, &x).bytes(), (UNIT.slot, Duplicate));
}

fn results_outside_the_segment() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    lab.check_gone(1, &LOCAL.gradient(0, 8, 5, &x).bytes(), (LOCAL.slot, Absorbed));
    for cell in [0, 2, 5, 7, 12, 15] {
        for frame in [UNIT.parameter(80, cell, &y), UNIT.reply(0, 80, cell, &y)] {
            lab.check_gone(PS, &frame.bytes(), (UNIT.slot, Outside));
        }
    }
    lab.check_gone(2, &LOCAL.gradient(1, 8, 5, &x).bytes(), (LOCAL.slot, Added));
}

/// A query accesses no cell.
fn queried() {
    let mut lab = rack();
    let [x] = values(&lab);
    lab.check_gone(1, &UNIT.gradient(0, 8, 8, &x).bytes(), (UNIT.slot, Absorbed));
    for flags in 0..16 {
        let query = UNIT.frame(QUERY, PS, 2, 8, 8).bitmap(0b0010).flags(flags);
        if flags & (RESEND | COLLISION) != 0 {
            lab.check_gone(PS, &query.bytes(), (UNIT.slot, Malformed));
        } else {
            lab.check(PS, &query.bytes(), (UNIT.slot, Queried), &[(2, query.bytes())]);
        }
    }
    lab.check_gone(1, &UNIT.gradient(0, 8, 8, &x).bytes(), (UNIT.slot, Duplicate));
}

/// Only the server's port may answer; a local job has no server.
fn results_from_elsewhere() {
    let mut lab = rack();
    let [x] = values(&lab);
    for port in 1..=6 {
        for job in [UNIT, LOCAL] {
            if (job, port) != (UNIT, PS) {
                let query = job.frame(QUERY, port, 1, 8, job.cell(0)).bitmap(1);
                let result = job.parameter(8, job.cell(0), &x);
                let reply = job.reply(0, 8, job.cell(0), &x);
                for frame in [query, result, reply] {
                    lab.check_gone(port, &frame.bytes(), (NO_JOB, Rejected));
                }
            }
        }
    }
    // An entry for one kind does not apply to others.
    lab.insert(&[Entry::answer(LOCAL.id, PS, QUERY, LOCAL.slot)]);
    lab.check_gone(PS, &LOCAL.parameter(8, 2, &x).bytes(), (NO_JOB, Rejected));
    lab.check_gone(1, &LOCAL.gradient(0, 8, 2, &x).bytes(), (LOCAL.slot, Absorbed));
}

fn multicast_groups() {
    let mut lab = rack();
    let [x] = values(&lab);
    let result = UNIT.parameter(8, 8, &x);
    lab.modify(&[Entry::group(UNIT.group, &[2, 5, 6])]);
    let out = [2, 5, 6].map(|port| (port, result.bytes()));
    lab.check(PS, &result.bytes(), (UNIT.slot, Distributed), &out);
    lab.modify(&[Entry::group(UNIT.group, &[])]);
    lab.check_gone(PS, &result.bytes(), (UNIT.slot, Distributed));
    // In either case the copy exists.
    let again = UNIT.gradient(1, 8, 8, &x).flags(RESEND);
    let reply = UNIT.repeated(&again, &x).bytes();
    lab.check(2, &again.bytes(), (UNIT.slot, Repeated), &[(2, reply)]);
}

fn round_of_no_number() {
    let mut lab = rack();
    let [x] = values(&lab);
    for (kind, bitmap) in [(PARAMETER, 0b1111), (REPLY, 0b1111), (QUERY, 0b0001)] {
        let frame = UNIT.frame(kind, PS, 1, u32::MAX, 8).bitmap(bitmap);
        let frame = if kind == QUERY { frame } else { frame.values(&x) };
        lab.check_gone(PS, &frame.bytes(), (UNIT.slot, Malformed));
    }
    lab.check_gone(1, &UNIT.gradient(0, 0, 8, &x).bytes(), (UNIT.slot, Absorbed));
}
