//! Congestion marks: a cell combines its packets' marks with OR; the sum has them as flag E.

use super::cases;
use crate::frames::{CAPABLE, CONGESTED, Frame, MARKED, NOT_CAPABLE, RESEND};
use crate::lab::Outcome::*;
use crate::scene::{A, B, PS, embedded_rack, rack, sum, values};
use crate::target::Build;

cases!("marks":
    sum_is_marked_by_any_packet, marks_do_not_outlive_their_task, flush_takes_marks_along,
    own_mark_becomes_the_flag, long_queues_mark,
);

/// Ways in which a packet can carry a mark: the code point, the flag, both.
const MARKS: [(u8, u8); 3] = [(CONGESTED, 0), (CAPABLE, MARKED), (CONGESTED, MARKED)];

fn marked(frame: Frame, (ecn, flags): (u8, u8)) -> Frame {
    let flags = frame.flags | flags;
    frame.ecn(ecn).flags(flags)
}

/// First, middle or last: one marked packet of three is enough.
fn sum_is_marked_by_any_packet() {
    let mut lab = rack(Build::PATIENT);
    let parts = [1, 2, 3].map(|seed| values(&lab, seed));
    let total = sum(&[&parts[0], &parts[1], &parts[2]]);
    let mut sequence = 0;
    for mark in MARKS {
        for which in [None, Some(0), Some(1), Some(2)] {
            sequence += 1;
            let cell = sequence % 16;
            let frame = |worker: usize| {
                let frame = A.gradient(worker, sequence, cell, &parts[worker]);
                if which == Some(worker) { marked(frame, mark) } else { frame }
            };
            lab.check_gone(1, &frame(0).bytes(), (A.slot, Absorbed));
            lab.check_gone(2, &frame(1).bytes(), (A.slot, Added));
            // The sum has the IPv4 header of the last packet.
            let flags = if which.is_some() { MARKED } else { 0 };
            let whole = frame(2).bitmap(0b111).values(&total).flags(flags);
            lab.check(3, &frame(2).bytes(), (A.slot, Completed), &[(PS, whole.bytes())]);
        }
    }
}

fn marks_do_not_outlive_their_task() {
    let mut lab = rack(Build::PATIENT);
    let x = values(&lab, 1);
    let first = marked(B.gradient(0, 7, 3, &x), MARKS[0]);
    lab.check_gone(2, &first.bytes(), (B.slot, Absorbed));
    let result = B.parameter(7, 3, &x);
    lab.check(PS, &result.bytes(), (B.slot, Distributed), &B.for_workers(&result));
    lab.check_gone(2, &B.gradient(0, 8, 3, &x).bytes(), (B.slot, Absorbed));
    let last = B.gradient(1, 8, 3, &x);
    let whole = last.clone().bitmap(0b11).values(&sum(&[&x, &x]));
    lab.check(3, &last.bytes(), (B.slot, Completed), &[(PS, whole.bytes())]);
}

fn flush_takes_marks_along() {
    let mut lab = rack(Build::PATIENT);
    let [x, y] = [1, 2].map(|seed| values(&lab, seed));
    for (sequence, worker, values_out, bitmap) in
        [(7, 0, x.clone(), 0b001), (8, 1, sum(&[&x, &y]), 0b011)]
    {
        let first = marked(A.gradient(0, sequence, 3, &x), MARKS[1]);
        lab.check_gone(1, &first.bytes(), (A.slot, Absorbed));
        let again =
            A.gradient(worker, sequence, 3, if worker == 0 { &x } else { &y }).flags(RESEND);
        let partial = again.clone().bitmap(bitmap).values(&values_out).flags(RESEND | MARKED);
        let port = A.workers[worker];
        lab.check(port, &again.bytes(), (A.slot, Flushed), &[(PS, partial.bytes())]);
    }
}

/// A packet that accesses a cell and passes converts its own code point to the flag.
fn own_mark_becomes_the_flag() {
    let mut lab = rack(Build::PATIENT);
    let x = values(&lab, 1);
    let resend = A.gradient(0, 7, 3, &x).flags(RESEND).ecn(CONGESTED);
    let flagged = resend.clone().flags(RESEND | MARKED);
    lab.check(1, &resend.bytes(), (A.slot, Resent), &[(PS, flagged.bytes())]);
    let reply = A.reply(0, 7, 3, &x).ecn(CONGESTED);
    let flagged = reply.clone().flags(MARKED);
    lab.check(PS, &reply.bytes(), (A.slot, Replied), &[(1, flagged.bytes())]);
    lab.check_gone(2, &B.gradient(0, 7, 3, &x).bytes(), (B.slot, Absorbed));
    let late = A.gradient(0, 7, 3, &x).ecn(CONGESTED);
    let flagged = late.clone().flags(crate::frames::COLLISION | MARKED);
    lab.check(1, &late.bytes(), (A.slot, Collided), &[(PS, flagged.bytes())]);
}

/// Packets behind more than 64 others are marked, if they allow it. BMv2 sends while it receives,
/// so only the embedded switch has queues of known length.
fn long_queues_mark() {
    let mut lab = embedded_rack(Build::PATIENT);
    let x = values(&lab, 1);
    for (ecn, result) in [(NOT_CAPABLE, NOT_CAPABLE), (1, CONGESTED), (CAPABLE, CONGESTED)] {
        let frame = |n: u32| A.reply(0, n, 0, &x).ecn(ecn);
        let frames: Vec<Vec<u8>> = (0..80).map(|n| frame(n).bytes()).collect();
        let outputs = lab.send_all(PS, &frames);
        let expected =
            (0..80).map(|n| (1, frame(n).ecn(if n > 64 { result } else { ecn }).bytes()));
        assert_eq!(outputs.frames, expected.collect::<Vec<_>>());
    }
    // Not IPv4, so it cannot be marked.
    let arp = crate::frames::plain(crate::frames::mac(1), crate::frames::mac(4), 0x0806, &[0; 46]);
    let outputs = lab.send_all(PS, &vec![arp.clone(); 80]);
    assert_eq!(outputs.frames, vec![(1, arp); 80]);
}
