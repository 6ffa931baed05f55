//! Malformed packets, and packets from wrong ports.

use super::{LOCAL, OUTSIDER, PAIR, SERVED, UNIT, rack, values};
use crate::cases::cases;
use crate::entries::Entry;
use crate::frames::{
    ABSENT, ASYNCHRONOUS, COLLISION, GRADIENT, MARKED, OVERFLOW, REMINDER, RESEND,
};
use crate::lab::{NO_JOB, Outcome::*};
use crate::scene::PS;

cases!("p4inc::refused":
    foreign_bits, collisions, unknown_job, wrong_port, units_are_one_worker, other_kinds,
    asynchronous_from_hosts, other_protocols, lengths,
);

fn foreign_bits() {
    let mut lab = rack();
    let [x] = values(&lab);
    for flags in [0, RESEND, OVERFLOW, MARKED] {
        for bitmap in [0, 0b010, 0b011, 0b111, 0b1000, u32::MAX] {
            for job in [LOCAL, UNIT, SERVED] {
                let frame = job.gradient(0, 8, job.cell(0), &x).bitmap(bitmap).flags(flags);
                lab.check_gone(1, &frame.bytes(), (job.slot, Malformed));
            }
        }
    }
    lab.check_gone(1, &LOCAL.gradient(0, 8, 2, &x).bytes(), (LOCAL.slot, Absorbed));
}

/// Collisions do not exist: each job has its own cells. With flag R it is a worker's result.
fn collisions() {
    let mut lab = rack();
    let [x] = values(&lab);
    for flags in [COLLISION, COLLISION | OVERFLOW, COLLISION | MARKED] {
        for job in [LOCAL, UNIT, SERVED] {
            let frame = job.gradient(0, 8, job.cell(0), &x).flags(flags);
            lab.check_gone(1, &frame.bytes(), (job.slot, Malformed));
        }
    }
}

fn unknown_job() {
    let mut lab = rack();
    let [x] = values(&lab);
    for id in [0, 7, 0x0102, 0x0200, u16::MAX] {
        for service in [0, LOCAL.service] {
            let frame = LOCAL.gradient(0, 8, 2, &x).priority(service).with(|f| f.job = id);
            lab.check_gone(1, &frame.bytes(), (NO_JOB, Rejected));
        }
    }
}

fn wrong_port() {
    let mut lab = rack();
    let [x] = values(&lab);
    for worker in 0..3 {
        for port in 1..=6 {
            if port != LOCAL.workers[worker] {
                let counted_as = match port {
                    1..=3 => (LOCAL.slot, Malformed),
                    _ => (NO_JOB, Rejected),
                };
                let frame = LOCAL.gradient(worker, 8, 2, &x).bytes();
                lab.check_gone(port, &frame, counted_as);
            }
        }
    }
    lab.check_gone(1, &PAIR.gradient(0, 8, 6, &x).bytes(), (NO_JOB, Rejected));
    lab.check_gone(OUTSIDER, &SERVED.gradient(0, 8, 0, &x).bytes(), (NO_JOB, Rejected));
}

/// Sums are not added to sums: there is one level.
fn units_are_one_worker() {
    let mut lab = rack();
    let [x] = values(&lab);
    for (unit, members) in [(0, 0b11), (0b11, 0b1111), (0b1111, 0b1111), (u32::MAX, u32::MAX)] {
        lab.insert(&[Entry::contribute(UNIT.id, 6, unit, members, 9)]);
        let frame = UNIT.frame(GRADIENT, 6, PS, 8, 8).values(&x).bitmap(unit);
        lab.check_gone(6, &frame.bytes(), (9, Malformed));
        lab.delete(&[Entry::contribute(UNIT.id, 6, unit, members, 9)]);
    }
}

fn other_kinds() {
    let mut lab = rack();
    let [x] = values(&lab);
    for kind in [0, 9, 128, 255] {
        let frame = UNIT.gradient(0, 8, 8, &x).with(|f| f.kind = kind);
        lab.check_gone(1, &frame.bytes(), (NO_JOB, Malformed));
    }
    // ESA's kinds are unknown to this program, even with an entry.
    for kind in [REMINDER, ABSENT] {
        let frame = UNIT.gradient(0, 8, 8, &x).with(|f| f.kind = kind);
        lab.check_gone(1, &frame.bytes(), (NO_JOB, Rejected));
        lab.insert(&[Entry::answer(UNIT.id, 1, kind, UNIT.slot)]);
        lab.check_gone(1, &frame.bytes(), (UNIT.slot, Malformed));
    }
    lab.insert(&[Entry::remind(UNIT.id, 2, 0b0001, UNIT.slot)]);
    let frame = UNIT.gradient(0, 8, 8, &x).with(|f| f.kind = REMINDER);
    lab.check_gone(2, &frame.bytes(), (UNIT.slot, Malformed));
}

/// Only switches report asynchronous errors. Such a packet may pass another switch, in which the
/// job has no cells.
fn asynchronous_from_hosts() {
    let mut lab = rack();
    let [x] = values(&lab);
    let error = UNIT.gradient(0, 8, 8, &x).with(|f| f.kind = ASYNCHRONOUS);
    for port in 1..=6 {
        lab.check_gone(port, &error.bytes(), (NO_JOB, Rejected));
    }
    lab.insert(&[
        Entry::answer(UNIT.id, 5, ASYNCHRONOUS, UNIT.slot),
        Entry::pass(UNIT.id, 6, ASYNCHRONOUS, UNIT.slot),
    ]);
    lab.check_gone(5, &error.bytes(), (UNIT.slot, Malformed));
    lab.check(6, &error.bytes(), (UNIT.slot, Bypassed), &[(PS, error.bytes())]);
}

fn other_protocols() {
    let mut lab = rack();
    let [x] = values(&lab);
    for protocol in [0, 1, 2, 4, 255] {
        for kind in [GRADIENT, ASYNCHRONOUS] {
            let frame =
                LOCAL.gradient(0, 8, 2, &x).with(|f| (f.protocol, f.kind) = (protocol, kind));
            lab.check_gone(1, &frame.bytes(), (NO_JOB, Malformed));
        }
        let sweep = LOCAL.sweep(2).with(|f| f.protocol = protocol);
        lab.check_gone(1, &sweep.bytes(), (NO_JOB, Malformed));
    }
    lab.check_gone(1, &LOCAL.sweep(2).bytes(), (NO_JOB, Rejected));
}

fn lengths() {
    let mut lab = rack();
    let [x] = values(&lab);
    for kind in [GRADIENT, ASYNCHRONOUS] {
        let whole = LOCAL.gradient(0, 8, 2, &x).with(|f| f.kind = kind);
        for frame in [
            whole.clone().values(&x[1..]),
            whole.clone().values(&[]),
            whole.clone().with(|f| f.count = Some(31)),
            whole.clone().with(|f| f.udp_length = Some(28)),
            whole.clone().with(|f| f.total_length = Some(177)),
            whole.clone().with(|f| f.udp_checksum = 1),
            whole.clone().flags(0x10),
        ] {
            lab.check_gone(1, &frame.bytes(), (NO_JOB, Malformed));
        }
    }
    lab.check_gone(1, &LOCAL.gradient(0, 8, 2, &x).bytes(), (LOCAL.slot, Absorbed));
}
