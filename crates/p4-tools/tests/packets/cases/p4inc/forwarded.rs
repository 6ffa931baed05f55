//! Jobs without aggregation in switches: plain forwarding, but still by entries.

use super::{Job, LOCAL, PAIR, SERVED, UNIT, asynchronous, rack, values};
use crate::cases::cases;
use crate::entries::Entry;
use crate::frames::{CONGESTED, GRADIENT, MARKED, OVERFLOW, PARAMETER, QUERY, RESEND};
use crate::lab::{NO_JOB, Outcome::*};
use crate::scene::{PS, sum};

cases!("p4inc::forwarded":
    everything_passes, cells_are_nothing_to_it, where_it_may_come_from, transit, plain_traffic, circuits,
);

fn everything_passes() {
    let mut lab = rack();
    let [x] = values(&lab);
    for flags in [0, RESEND, OVERFLOW, MARKED, RESEND | OVERFLOW] {
        for _ in 0..2 {
            let frame = SERVED.gradient(1, 8, 0, &x).flags(flags).ecn(CONGESTED);
            lab.check(2, &frame.bytes(), (SERVED.slot, Bypassed), &[(PS, frame.bytes())]);
        }
    }
    for flags in [0, OVERFLOW, MARKED] {
        let result = SERVED.parameter(8, 0, &x).flags(flags).ecn(CONGESTED);
        let out = SERVED.for_workers(&result);
        lab.check(PS, &result.bytes(), (SERVED.slot, Distributed), &out);
        let reply = SERVED.reply(1, 8, 0, &x).flags(flags).ecn(CONGESTED);
        lab.check(PS, &reply.bytes(), (SERVED.slot, Replied), &[(2, reply.bytes())]);
        let query = SERVED.frame(QUERY, PS, 1, 8, 0).bitmap(1).flags(flags);
        lab.check(PS, &query.bytes(), (SERVED.slot, Queried), &[(1, query.bytes())]);
    }
    for flags in [RESEND, crate::frames::COLLISION] {
        for frame in [SERVED.parameter(8, 0, &x), SERVED.reply(0, 8, 0, &x)] {
            lab.check_gone(PS, &frame.flags(flags).bytes(), (SERVED.slot, Malformed));
        }
    }
}

/// Whatever index its packets name, they do not affect other jobs' cells.
fn cells_are_nothing_to_it() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    for cell in 0..16 {
        let frame = SERVED.gradient(0, 80, cell, &x);
        lab.check(1, &frame.bytes(), (SERVED.slot, Bypassed), &[(PS, frame.bytes())]);
        let result = SERVED.parameter(80, cell, &x);
        let out = SERVED.for_workers(&result);
        lab.check(PS, &result.bytes(), (SERVED.slot, Distributed), &out);
    }
    for cell in 2..6 {
        lab.check_gone(1, &LOCAL.gradient(0, 0, cell, &x).bytes(), (LOCAL.slot, Absorbed));
    }
    PAIR.complete(&mut lab, 0, 6, &[x, y]);
}

fn where_it_may_come_from() {
    let mut lab = rack();
    let [x] = values(&lab);
    for port in [3, 4, 5, 6] {
        lab.check_gone(port, &SERVED.gradient(0, 8, 0, &x).bytes(), (NO_JOB, Rejected));
    }
    let frame = SERVED.gradient(0, 8, 0, &x);
    lab.check_gone(2, &frame.bytes(), (SERVED.slot, Malformed));
    lab.check_gone(1, &frame.clone().priority(1).bytes(), (SERVED.slot, Rejected));
    lab.check_gone(1, &SERVED.parameter(8, 0, &x).bytes(), (NO_JOB, Rejected));
    let none = SERVED.gradient(0, u32::MAX, 0, &x);
    lab.check_gone(1, &none.bytes(), (SERVED.slot, Malformed));
    let outside = frame.with(|f| f.index = 16);
    lab.check_gone(1, &outside.bytes(), (NO_JOB, Malformed));
}

/// A switch on the path knows only the ports and the service.
fn transit() {
    let mut lab = rack();
    let [x] = values(&lab);
    let job = Job { id: 9, slot: 9, service: 77, ..LOCAL };
    lab.insert(&[
        Entry::pass(job.id, 1, GRADIENT, job.slot),
        Entry::pass(job.id, PS, PARAMETER, job.slot),
    ]);
    let frame = job.gradient(0, 8, 15, &x).with(|f| f.destination = crate::frames::mac(PS));
    lab.check_gone(1, &frame.bytes(), (job.slot, Rejected));
    lab.insert(&[Entry::forward(job.id, job.service)]);
    for flags in 0..16 {
        let frame = frame.clone().flags(flags).bitmap(0b11).ecn(CONGESTED);
        lab.check(1, &frame.bytes(), (job.slot, Bypassed), &[(PS, frame.bytes())]);
        lab.check_gone(2, &frame.bytes(), (NO_JOB, Rejected));
        // To an unknown group address: flooded, as in any switch.
        let result = job.parameter(8, 15, &x).flags(flags);
        let out = [1, 2, 3, 5, 6].map(|port| (port, result.bytes()));
        lab.check(PS, &result.bytes(), (job.slot, Bypassed), &out);
    }
    lab.check_gone(1, &frame.priority(76).bytes(), (job.slot, Rejected));
}

fn plain_traffic() {
    let mut lab = rack();
    let [x] = values(&lab);
    let other = LOCAL.gradient(0, 8, 2, &x).with(|f| {
        f.udp_destination = 29811;
        f.destination = crate::frames::mac(2);
    });
    lab.check(1, &other.bytes(), (NO_JOB, Forwarded), &[(2, other.bytes())]);
    let frame =
        crate::frames::plain(crate::frames::mac(3), crate::frames::mac(1), 0x0806, &[7; 28]);
    lab.check(1, &frame, (NO_JOB, Forwarded), &[(3, frame.clone())]);
}

/// Each flow has a circuit, whatever its packets are.
fn circuits() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    let entries = [Entry::circuit(SERVED.id, 2, 6), Entry::circuit(UNIT.id, 2, 5)];
    lab.insert(&entries);
    for sequence in [8, 9, 16, 0x1_0000] {
        for flags in [0, RESEND, MARKED] {
            for (worker, from, to) in [(1, 2, 6), (0, 1, PS)] {
                let frame = SERVED.gradient(worker, sequence, 0, &x).flags(flags);
                lab.check(from, &frame.bytes(), (SERVED.slot, Bypassed), &[(to, frame.bytes())]);
            }
        }
    }
    // The sum takes that of the last contribution.
    let cell = UNIT.cell(0);
    lab.check_gone(1, &UNIT.gradient(0, 8, cell, &x).bytes(), (UNIT.slot, Absorbed));
    let last = UNIT.gradient(1, 8, cell, &y);
    let sum = last.clone().bitmap(0b11).values(&sum(&[&x, &y]));
    lab.check(2, &last.bytes(), (UNIT.slot, Completed), &[(5, sum.bytes())]);
    // What comes too early returns to its sender.
    let early = UNIT.gradient(1, 16, cell, &y);
    let error = asynchronous(&early).bytes();
    lab.check(2, &early.bytes(), (UNIT.slot, Asynchronous), &[(2, error)]);
    // Results, other jobs and other programs do not take it.
    let result = SERVED.parameter(8, 0, &x);
    let out = SERVED.for_workers(&result);
    lab.check(PS, &result.bytes(), (SERVED.slot, Distributed), &out);
    let plain = SERVED.gradient(1, 8, 0, &x).with(|f| f.udp_destination = 29811);
    lab.check(2, &plain.bytes(), (NO_JOB, Forwarded), &[(PS, plain.bytes())]);
    lab.delete(&entries[..1]);
    let frame = SERVED.gradient(1, 8, 0, &x);
    lab.check(2, &frame.bytes(), (SERVED.slot, Bypassed), &[(PS, frame.bytes())]);
}
