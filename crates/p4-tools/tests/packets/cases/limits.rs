//! Ports that send more than they may.

use std::time::Duration;

use super::cases;
use crate::entries::Entry;
use crate::frames::{COLLISION, Frame};
use crate::lab::{Lab, NO_JOB, Outcome::*};
use crate::scene::{A, B, OUTSIDER, PS, embedded_rack, rack, values};
use crate::target::Build;

cases!("limits":
    gradients_above_it_change_nothing, each_job_of_a_port_has_its_own, results_above_it,
    plain_frames_above_it, refused_packets_are_refused_first, time_brings_it_back,
    without_one_nothing_is_dropped,
);

/// So slow that a test brings nothing back.
fn limit(job: u16, port: u16, frames: i64, frame: &[u8]) -> Entry {
    Entry::Limit { job, port, bursts: [frames * frame.len() as i64; 2], rate: 1 }
}

fn gradient(lab: &Lab, sequence: u32) -> Frame {
    A.gradient(0, sequence, sequence % 16, &values(lab, 1))
}

fn gradients_above_it_change_nothing() {
    for build in [Build::PATIENT] {
        let mut lab = rack(build);
        lab.insert(&[limit(A.id, 1, 3, &gradient(&lab, 0).bytes())]);
        for sequence in 0..3 {
            lab.check_gone(1, &gradient(&lab, sequence).bytes(), (A.slot, Absorbed));
        }
        for sequence in 3..6 {
            lab.check_gone(1, &gradient(&lab, sequence).bytes(), (A.slot, Exceeded));
        }
        // Their aggregators are free: another job's packet gets one.
        let other = B.gradient(0, 3, 3, &values(&lab, 2));
        lab.check_gone(2, &other.bytes(), (B.slot, Absorbed));
        // Other workers of the job may go on.
        let next = A.gradient(1, 0, 0, &values(&lab, 2));
        lab.check_gone(2, &next.bytes(), (A.slot, Added));
    }
}

fn each_job_of_a_port_has_its_own() {
    let mut lab = rack(Build::PATIENT);
    let x = values(&lab, 1);
    let of_a = |sequence| A.gradient(1, sequence, 3, &x).bytes();
    lab.insert(&[limit(A.id, 2, 1, &of_a(7))]);
    lab.check_gone(2, &of_a(7), (A.slot, Absorbed));
    lab.check_gone(2, &of_a(8), (A.slot, Exceeded));
    let of_b = B.gradient(0, 1, 4, &x);
    lab.check_gone(2, &of_b.bytes(), (B.slot, Absorbed));
    let collided = B.gradient(0, 2, 3, &x);
    let alone = collided.clone().flags(COLLISION);
    lab.check(2, &collided.bytes(), (B.slot, Collided), &[(PS, alone.bytes())]);
}

fn results_above_it() {
    let mut lab = rack(Build::PATIENT);
    let x = values(&lab, 1);
    let result = A.parameter(7, 3, &x);
    lab.insert(&[limit(A.id, PS, 1, &result.bytes())]);
    lab.check(PS, &result.bytes(), (A.slot, Distributed), &A.for_workers(&result));
    lab.check_gone(PS, &result.bytes(), (A.slot, Exceeded));
    lab.check_gone(PS, &A.reply(0, 7, 3, &x).bytes(), (A.slot, Exceeded));
    let of_b = B.parameter(7, 3, &x);
    lab.check(PS, &of_b.bytes(), (B.slot, Distributed), &B.for_workers(&of_b));
}

/// Frames of no job, from a host that takes part in none or in one.
fn plain_frames_above_it() {
    let mut lab = rack(Build::PATIENT);
    for port in [OUTSIDER, 1] {
        let frame = gradient(&lab, 0).with(|f| f.udp_destination = 53).bytes();
        lab.insert(&[limit(0, port, 2, &frame)]);
        for _ in 0..2 {
            lab.check(port, &frame, (NO_JOB, Forwarded), &[(PS, frame.clone())]);
        }
        lab.check_gone(port, &frame, (NO_JOB, Exceeded));
    }
    // What the job may send is apart from that.
    lab.check_gone(1, &gradient(&lab, 7).bytes(), (A.slot, Absorbed));
}

fn refused_packets_are_refused_first() {
    let mut lab = rack(Build::PATIENT);
    let frame = gradient(&lab, 0);
    lab.insert(&[limit(A.id, 1, 1, &frame.bytes())]);
    lab.check_gone(1, &frame.bytes(), (A.slot, Absorbed));
    lab.check_gone(1, &frame.clone().with(|f| f.epoch = Some(77)).bytes(), (NO_JOB, Rejected));
    lab.check_gone(1, &frame.clone().with(|f| f.protocol = 9).bytes(), (NO_JOB, Malformed));
}

fn time_brings_it_back() {
    let mut lab = embedded_rack(Build::PATIENT);
    let frame = gradient(&lab, 0).bytes();
    let bytes = frame.len() as i64;
    // A frame each ten milliseconds, and never more than two at once.
    lab.insert(&[Entry::Limit { job: A.id, port: 1, bursts: [2 * bytes; 2], rate: 100 * bytes }]);
    let mut sequence = 0;
    let mut send = |lab: &mut Lab, outcome| {
        lab.check_gone(1, &gradient(lab, sequence).bytes(), (A.slot, outcome));
        sequence += 1;
    };
    for outcome in [Absorbed, Absorbed, Exceeded] {
        send(&mut lab, outcome);
    }
    lab.advance(Duration::from_millis(9));
    send(&mut lab, Exceeded);
    lab.advance(Duration::from_millis(2));
    send(&mut lab, Absorbed);
    send(&mut lab, Exceeded);
    lab.advance(Duration::from_secs(100));
    for outcome in [Absorbed, Absorbed, Exceeded] {
        send(&mut lab, outcome);
    }
}

fn without_one_nothing_is_dropped() {
    let mut lab = rack(Build::PATIENT);
    lab.insert(&[limit(A.id, 1, 0, &[])]);
    lab.check_gone(1, &gradient(&lab, 0).bytes(), (A.slot, Exceeded));
    lab.delete(&[limit(A.id, 1, 0, &[])]);
    lab.check_gone(1, &gradient(&lab, 0).bytes(), (A.slot, Absorbed));
}
