//! Segments, whose bounds the switch enforces, and services, which change.

use super::{LOCAL, PAIR, UNIT, rack, values};
use crate::cases::cases;
use crate::entries::Entry;
use crate::frames::{GRADIENT, QUERY, RESEND};
use crate::lab::{NO_JOB, Outcome::*};
use crate::scene::{PS, sum};

cases!("p4inc::segments":
    outside_is_dropped, every_cell_of_the_segment, neighbours_are_untouched, wrong_service,
    service_of_another_job, late_packets_of_the_old_service, moved_segment, whole_pool,
    job_that_has_left, no_segment_at_all,
);

fn outside_is_dropped() {
    let mut lab = rack();
    let [x] = values(&lab);
    for cell in 0..16 {
        for flags in [0, RESEND] {
            let frame = LOCAL.gradient(0, 8, cell, &x).flags(flags).bytes();
            match (cell, flags) {
                (2..6, 0) => lab.check_gone(1, &frame, (LOCAL.slot, Absorbed)),
                (2..6, _) => lab.check_gone(1, &frame, (LOCAL.slot, Duplicate)),
                _ => lab.check_gone(1, &frame, (LOCAL.slot, Outside)),
            }
        }
    }
    // Cells beyond the pool belong to no job.
    for cell in [16, 17, 1 << 31, u32::MAX] {
        let frame = LOCAL.gradient(0, 8, cell, &x);
        lab.check_gone(1, &frame.bytes(), (NO_JOB, Malformed));
    }
}

fn every_cell_of_the_segment() {
    let mut lab = rack();
    let parts: [_; 6] = values(&lab);
    for n in 0..4 {
        LOCAL.complete(&mut lab, n, LOCAL.cell(n), &parts[n as usize % 3..]);
    }
}

fn neighbours_are_untouched() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    lab.check_gone(2, &PAIR.gradient(0, 8, 6, &x).bytes(), (PAIR.slot, Absorbed));
    for round in [7, 8, 9] {
        let frame = LOCAL.gradient(1, round, 6, &y);
        lab.check_gone(2, &frame.bytes(), (LOCAL.slot, Outside));
    }
    let last = PAIR.gradient(1, 8, 6, &y);
    let result = PAIR.published(&last, &sum(&[&x, &y]));
    lab.check(3, &last.bytes(), (PAIR.slot, Completed), &PAIR.for_workers(&result));
}

/// Each kind, on its port, with every service but its own.
fn wrong_service() {
    let mut lab = rack();
    let [x] = values(&lab);
    let pass = Entry::pass(UNIT.id, 6, GRADIENT, UNIT.slot);
    lab.insert(&[pass]);
    let query = UNIT.frame(QUERY, PS, 2, 8, 8).bitmap(0b0010);
    for (port, frame) in [
        (1, UNIT.gradient(0, 8, 8, &x)),
        (PS, UNIT.parameter(8, 8, &x)),
        (PS, UNIT.reply(0, 8, 8, &x)),
        (PS, query),
        (6, UNIT.gradient(0, 8, 8, &x).bitmap(0b1100)),
    ] {
        for service in [0, 5, 6, 8, 200, 255] {
            let frame = frame.clone().priority(service);
            lab.check_gone(port, &frame.bytes(), (UNIT.slot, Rejected));
        }
    }
    lab.check_gone(1, &UNIT.gradient(0, 8, 8, &x).bytes(), (UNIT.slot, Absorbed));
}

fn service_of_another_job() {
    let mut lab = rack();
    let [x] = values(&lab);
    for (job, other) in [(LOCAL, PAIR), (PAIR, UNIT), (UNIT, LOCAL)] {
        for cell in [job.cell(0), other.cell(0)] {
            let frame = job.gradient(1, 8, cell, &x).priority(other.service);
            let port = job.workers[1];
            lab.check_gone(port, &frame.bytes(), (job.slot, Rejected));
        }
    }
}

/// A job changes its mode between two iterations: late packets of the old mode are recognised.
fn late_packets_of_the_old_service() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    let old = PAIR;
    lab.check_gone(2, &old.gradient(0, 8, 6, &x).bytes(), (old.slot, Absorbed));
    let outputs = lab.packet_out(&old.sweep(6).bytes());
    assert_eq!(outputs.packets_in.len(), 1);
    lab.counted();
    let new = super::Job { service: 201, ..PAIR };
    lab.delete(&[old.served()]);
    lab.insert(&[new.served()]);
    for (worker, port) in [(0, 2), (1, 3)] {
        for round in [8, 16] {
            let late = old.gradient(worker, round, 6, &x);
            lab.check_gone(port, &late.bytes(), (old.slot, Rejected));
        }
    }
    new.complete(&mut lab, 16, 6, &[x, y]);
}

fn moved_segment() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    PAIR.complete(&mut lab, 8, 7, &[x.clone(), y.clone()]);
    let moved = super::Job { segment: (15, 1), ..PAIR };
    lab.modify(&[moved.served()]);
    for cell in [6, 7, 14] {
        lab.check_gone(2, &PAIR.gradient(0, 8, cell, &x).bytes(), (PAIR.slot, Outside));
    }
    moved.complete(&mut lab, 8, 15, &[x, y]);
}

/// The first and the last cell of the pool.
fn whole_pool() {
    let mut lab = rack();
    let [x, y] = values(&lab);
    let all = super::Job { segment: (0, 16), ..PAIR };
    lab.modify(&[all.served()]);
    for cell in 0..16 {
        all.complete(&mut lab, cell, cell, &[x.clone(), y.clone()]);
    }
    for cell in [16, u32::MAX] {
        lab.check_gone(2, &all.gradient(0, 8, cell, &x).bytes(), (NO_JOB, Malformed));
    }
}

fn job_that_has_left() {
    let mut lab = rack();
    let [x] = values(&lab);
    lab.check_gone(1, &LOCAL.gradient(0, 8, 2, &x).bytes(), (LOCAL.slot, Absorbed));
    lab.delete(&[LOCAL.served()]);
    lab.check_gone(2, &LOCAL.gradient(1, 8, 2, &x).bytes(), (LOCAL.slot, Rejected));
    let rest = LOCAL.entries().into_iter().filter(|entry| *entry != LOCAL.served());
    lab.delete(&rest.rev().collect::<Vec<_>>());
    lab.check_gone(2, &LOCAL.gradient(1, 8, 2, &x).bytes(), (NO_JOB, Rejected));
    lab.check_gone(1, &UNIT.gradient(0, 8, 8, &x).bytes(), (UNIT.slot, Absorbed));
}

fn no_segment_at_all() {
    let mut lab = rack();
    let [x] = values(&lab);
    for segment in [(0, 0), (6, 0), (15, 0)] {
        lab.modify(&[super::Job { segment, ..PAIR }.served()]);
        for cell in [0, 5, 6, 7, 15] {
            lab.check_gone(2, &PAIR.gradient(0, 8, cell, &x).bytes(), (PAIR.slot, Outside));
        }
    }
}
