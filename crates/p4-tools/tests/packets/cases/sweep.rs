//! The sweep: a packet of the controller visits the pool and frees the cells of one job.

use super::cases;
use crate::frames::{Frame, HEADERS, mac, plain};
use crate::lab::Lab;
use crate::lab::{NO_JOB, Outcome, Outcome::*, index};
use crate::scene::{A, B, OUTSIDER, PS, rack, sum, values};
use crate::target::{Build, Count, Counts, PORTS};

cases!("sweep":
    frees_its_own_job_only, empty_pool, part_of_the_pool, rejected_from_hosts,
    malformed_from_the_controller, controller_may_send_plain_frames, large_pool,
);

/// Sends a sweep, checks its result, and that each step was counted.
#[track_caller]
fn check_sweep(lab: &mut Lab, sweep: &Frame, freed: u32) {
    let before = lab.recirculated();
    let outputs = lab.packet_out(&sweep.bytes());
    let pool = lab.build().pool;
    let back = sweep.clone().with(|f| {
        f.index = pool;
        f.bitmap += freed;
    });
    assert_eq!(outputs.packets_in, [back.bytes()]);
    assert_eq!(outputs.frames, []);
    let steps = i64::from(pool - sweep.index);
    let count = Count { packets: steps, bytes: steps * HEADERS as i64 };
    assert_eq!(lab.counted(), Counts::from([(index(NO_JOB, Swept), count)]));
    // If the controller's port belongs to another pipe, steps begin only after the packet has
    // reached the workers' pipe.
    if let Some((before, after)) = before.zip(lab.recirculated()) {
        assert_eq!(after - before, u64::from(pool - sweep.index));
    }
}

fn frees_its_own_job_only() {
    let mut lab = rack(Build::PATIENT);
    let [x, y] = [1, 2].map(|seed| values(&lab, seed));
    for cell in [0, 3, 4, 15] {
        lab.check_gone(1, &A.gradient(0, 70 + cell, cell, &x).bytes(), (A.slot, Absorbed));
    }
    for cell in [1, 5] {
        lab.check_gone(2, &B.gradient(0, 70 + cell, cell, &x).bytes(), (B.slot, Absorbed));
    }
    check_sweep(&mut lab, &A.sweep(0xdead_beef, 0), 4);
    // The other job is unaffected.
    for cell in [1, 5] {
        let last = B.gradient(1, 70 + cell, cell, &y);
        let whole = last.clone().bitmap(0b11).values(&sum(&[&x, &y]));
        lab.check(3, &last.bytes(), (B.slot, Completed), &[(PS, whole.bytes())]);
    }
    // The cells are free, and nothing is left to sweep.
    for cell in [0, 3] {
        lab.check_gone(2, &B.gradient(0, 90 + cell, cell, &x).bytes(), (B.slot, Absorbed));
    }
    check_sweep(&mut lab, &A.sweep(1, 0), 0);
    check_sweep(&mut lab, &B.sweep(2, 0), 4);
    check_sweep(&mut lab, &B.sweep(3, 0), 0);
}

fn empty_pool() {
    let mut lab = rack(Build::PATIENT);
    check_sweep(&mut lab, &A.sweep(5, 0), 0);
    check_sweep(&mut lab, &A.sweep(5, 15), 0);
}

/// It may begin at any cell, with any count.
fn part_of_the_pool() {
    let mut lab = rack(Build::PATIENT);
    let x = values(&lab, 1);
    for cell in 0..16 {
        lab.check_gone(1, &A.gradient(0, 70 + cell, cell, &x).bytes(), (A.slot, Absorbed));
    }
    check_sweep(&mut lab, &A.sweep(1, 10).bitmap(100), 6);
    check_sweep(&mut lab, &A.sweep(1, 0), 10);
}

fn rejected_from_hosts() {
    let mut lab = rack(Build::PATIENT);
    let [x, y] = [1, 2].map(|seed| values(&lab, seed));
    lab.check_gone(2, &B.gradient(0, 7, 3, &x).bytes(), (B.slot, Absorbed));
    for port in PORTS {
        lab.check_gone(port, &B.sweep(0, 0).bytes(), (NO_JOB, Rejected));
    }
    let last = B.gradient(1, 7, 3, &y);
    let whole = last.clone().bitmap(0b11).values(&sum(&[&x, &y]));
    lab.check(3, &last.bytes(), (B.slot, Completed), &[(PS, whole.bytes())]);
}

/// The controller's packets are validated like any others.
fn malformed_from_the_controller() {
    let mut lab = rack(Build::PATIENT);
    let x = values(&lab, 1);
    lab.check_gone(1, &A.gradient(0, 7, 3, &x).bytes(), (A.slot, Absorbed));
    let wrong: [(Frame, Outcome); 6] = [
        (A.sweep(0, 16), Malformed),
        (A.sweep(0, u32::MAX), Malformed),
        (A.sweep(0, 0).with(|f| f.protocol = 2), Malformed),
        (A.sweep(0, 0).with(|f| f.checksum = Some(1)), Malformed),
        (A.sweep(0, 0).values(&x), Malformed),
        (A.gradient(1, 7, 3, &x), Rejected),
    ];
    for (frame, outcome) in wrong {
        let outputs = lab.packet_out(&frame.bytes());
        assert!(outputs.frames.is_empty() && outputs.packets_in.is_empty(), "{outputs:?}");
        let count = Count { packets: 1, bytes: frame.bytes().len() as i64 };
        assert_eq!(lab.counted(), Counts::from([(index(NO_JOB, outcome), count)]));
    }
    check_sweep(&mut lab, &A.sweep(0, 0), 1);
}

fn controller_may_send_plain_frames() {
    let mut lab = rack(Build::PATIENT);
    let frame = plain(mac(OUTSIDER), mac(0), 0x0806, &[1; 46]);
    let outputs = lab.packet_out(&frame);
    assert_eq!(outputs.frames, [(OUTSIDER, frame)]);
    let flood = plain(0xffff_ffff_ffff, mac(0), 0x0806, &[1; 46]);
    let outputs = lab.packet_out(&flood);
    assert_eq!(outputs.frames, PORTS.map(|port| (port, flood.clone())).collect::<Vec<_>>());
}

/// The pool's default size.
fn large_pool() {
    let mut lab = rack(Build { pool: 4096, ..Build::PATIENT });
    let x = values(&lab, 1);
    for cell in [0, 1000, 4095] {
        lab.check_gone(1, &A.gradient(0, 70 + cell, cell, &x).bytes(), (A.slot, Absorbed));
    }
    check_sweep(&mut lab, &A.sweep(7, 0), 3);
}
