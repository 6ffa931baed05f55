//! Two switches in a row: a rack's switch, and the one of the parameter server.
//!
//! Workers 0 and 1 are at ports 1 and 2 of the rack's switch, whose port 6 leads to port 1 of the
//! top one. There worker 2 is at port 2 and the parameter server at port 4.

use super::cases;
use crate::entries::Entry;
use crate::frames::{
    COLLISION, CONGESTED, Frame, GRADIENT, MARKED, PARAMETER, QUERY, REPLY, RESEND, mac,
};
use crate::lab::Outcome::{self, *};
use crate::lab::{Lab, NO_JOB};
use crate::scene::{PS, sum, values};
use crate::target::Build;

cases!("two_levels":
    sum_of_a_rack_is_added_at_the_top, partial_of_a_rack_flushes_both, resend_after_the_rack_is_complete,
    collision_in_the_rack_passes_the_top, marks_climb_up, result_frees_both, foreign_rack,
    a_rack_has_a_position_of_its_own,
);

const JOB: u16 = 21;
const SLOT: u8 = 4;
const UPLINK: u16 = 6;
const DOWNLINK: u16 = 1;

struct Racks {
    rack: Lab,
    top: Lab,
}

type Frames = Vec<(u16, Vec<u8>)>;

impl Racks {
    fn new() -> Self {
        let mut rack = Lab::new(Build::PATIENT);
        rack.insert(&[
            Entry::host(mac(1), 1),
            Entry::host(mac(2), 2),
            Entry::host(mac(3), UPLINK),
            Entry::host(mac(PS), UPLINK),
            Entry::contribute(JOB, 1, 0b001, 0b011, SLOT),
            Entry::contribute(JOB, 2, 0b010, 0b011, SLOT),
            Entry::distribute(JOB, UPLINK, 9, SLOT),
            Entry::answer(JOB, UPLINK, REPLY, SLOT),
            Entry::answer(JOB, UPLINK, QUERY, SLOT),
            Entry::group(9, &[1, 2]),
        ]);
        let mut top = Lab::new(Build::PATIENT);
        top.insert(&[
            Entry::host(mac(1), DOWNLINK),
            Entry::host(mac(2), DOWNLINK),
            Entry::host(mac(3), 2),
            Entry::host(mac(PS), PS),
            Entry::contribute(JOB, DOWNLINK, 0b011, 0b111, SLOT),
            Entry::contribute(JOB, 2, 0b100, 0b111, SLOT),
            Entry::distribute(JOB, PS, 9, SLOT),
            Entry::answer(JOB, PS, REPLY, SLOT),
            Entry::answer(JOB, PS, QUERY, SLOT),
            Entry::group(9, &[DOWNLINK, 2]),
        ]);
        Self { rack, top }
    }

    /// Sends a packet of worker 0 or 1, and checks its outcome in the rack, and at the top if it
    /// gets there. Returns what leaves the top.
    #[track_caller]
    fn of_rack(&mut self, frame: &Frame, in_rack: Outcome, at_top: Option<Outcome>) -> Frames {
        let port = 1 + worker_of(frame);
        let up = pass(&mut self.rack, port, &frame.bytes(), in_rack);
        assert_eq!(up.iter().map(|(port, _)| *port).collect::<Vec<_>>(), vec![UPLINK; up.len()]);
        assert_eq!(up.len(), usize::from(at_top.is_some()), "frames on the uplink");
        let Some(outcome) = at_top else { return up };
        pass(&mut self.top, DOWNLINK, &up[0].1, outcome)
    }

    /// Sends a packet of worker 2.
    #[track_caller]
    fn of_top(&mut self, frame: &Frame, outcome: Outcome) -> Frames {
        pass(&mut self.top, 2, &frame.bytes(), outcome)
    }

    /// Sends a packet of the parameter server. Returns what reaches the workers, by index.
    #[track_caller]
    fn of_ps(&mut self, frame: &Frame, outcome: Outcome) -> Frames {
        let mut workers = Frames::new();
        for (port, down) in pass(&mut self.top, PS, &frame.bytes(), outcome) {
            if port == DOWNLINK {
                let below = pass(&mut self.rack, UPLINK, &down, outcome);
                workers.extend(below.into_iter().map(|(port, frame)| (port - 1, frame)));
            } else {
                assert_eq!(port, 2);
                workers.push((2, down));
            }
        }
        workers.sort();
        workers
    }
}

/// Sends a frame and checks its outcome.
#[track_caller]
fn pass(lab: &mut Lab, port: u16, frame: &[u8], outcome: Outcome) -> Frames {
    let out = lab.send(port, frame);
    let counted: Vec<i64> = lab.counted().into_keys().collect();
    assert_eq!(counted, [crate::lab::index(SLOT, outcome)], "{outcome:?} is expected");
    out
}

fn worker_of(frame: &Frame) -> u16 {
    (frame.source - mac(0)) as u16 - 1
}

fn gradient(worker: u16, sequence: u32, values: &[i32]) -> Frame {
    let from = worker + 1;
    Frame::new(GRADIENT, from, PS).bitmap(1 << worker).values(values).with(|f| {
        (f.job, f.sequence, f.index) = (JOB, sequence, 5);
    })
}

fn result(kind: u8, to: u16, sequence: u32, values: &[i32]) -> Frame {
    Frame::new(kind, PS, to).bitmap(0b111).values(values).with(|f| {
        (f.job, f.sequence, f.index) = (JOB, sequence, 5);
    })
}

fn sum_of_a_rack_is_added_at_the_top() {
    let mut net = Racks::new();
    let [x, y, z] = [1, 2, 3].map(|seed| values(&net.top, seed));
    for (sequence, rack_first) in [(7, true), (8, false)] {
        let last = if rack_first {
            assert_eq!(net.of_rack(&gradient(0, sequence, &x), Absorbed, None), []);
            assert_eq!(net.of_rack(&gradient(1, sequence, &y), Completed, Some(Absorbed)), []);
            net.of_top(&gradient(2, sequence, &z), Completed)
        } else {
            assert_eq!(net.of_top(&gradient(2, sequence, &z), Absorbed), []);
            assert_eq!(net.of_rack(&gradient(1, sequence, &y), Absorbed, None), []);
            net.of_rack(&gradient(0, sequence, &x), Completed, Some(Completed))
        };
        let sender = if rack_first { 2 } else { 0 };
        let whole = gradient(sender, sequence, &sum(&[&x, &y, &z])).bitmap(0b111);
        assert_eq!(last, [(PS, whole.bytes())]);
        let total = result(PARAMETER, 0, sequence, &sum(&[&x, &y, &z]));
        let copies = [0, 1, 2].map(|worker| (worker, total.bytes()));
        assert_eq!(net.of_ps(&total, Distributed), copies);
    }
}

/// A resend takes along the partial sums in the rack and at the top.
fn partial_of_a_rack_flushes_both() {
    let mut net = Racks::new();
    let [x, y, z] = [1, 2, 3].map(|seed| values(&net.top, seed));
    assert_eq!(net.of_rack(&gradient(0, 7, &x), Absorbed, None), []);
    assert_eq!(net.of_top(&gradient(2, 7, &z), Absorbed), []);
    let again = gradient(0, 7, &x).flags(RESEND);
    let out = net.of_rack(&again, Flushed, Some(Flushed));
    let partial = again.clone().bitmap(0b101).values(&sum(&[&x, &z]));
    assert_eq!(out, [(PS, partial.bytes())]);
    // Both cells are free; a resend finds nothing in either.
    let other = gradient(1, 7, &y).flags(RESEND);
    assert_eq!(net.of_rack(&other, Resent, Some(Resent)), [(PS, other.bytes())]);
    assert_eq!(net.of_rack(&gradient(0, 8, &x), Absorbed, None), []);
    assert_eq!(net.of_top(&gradient(2, 8, &x), Absorbed), []);
}

/// The rack's sum is in the top's cell: a resend of one of its workers takes it from there once.
fn resend_after_the_rack_is_complete() {
    let mut net = Racks::new();
    let [x, y, z] = [1, 2, 3].map(|seed| values(&net.top, seed));
    assert_eq!(net.of_rack(&gradient(0, 7, &x), Absorbed, None), []);
    assert_eq!(net.of_rack(&gradient(1, 7, &y), Completed, Some(Absorbed)), []);
    let again = gradient(1, 7, &y).flags(RESEND);
    let out = net.of_rack(&again, Flushed, Some(Flushed));
    let partial = again.clone().bitmap(0b011).values(&sum(&[&x, &y]));
    assert_eq!(out, [(PS, partial.bytes())]);
    // Worker 2 is late, so its packet waits alone at the top.
    assert_eq!(net.of_top(&gradient(2, 7, &z), Absorbed), []);
}

fn collision_in_the_rack_passes_the_top() {
    let mut net = Racks::new();
    let x = values(&net.top, 1);
    assert_eq!(net.of_rack(&gradient(0, 7, &x), Absorbed, None), []);
    let late = gradient(1, 8, &x);
    let out = net.of_rack(&late, Collided, Some(Bypassed));
    assert_eq!(out, [(PS, late.flags(COLLISION).bytes())]);
    // A rack's sum that collides at the top.
    assert_eq!(net.of_top(&gradient(2, 9, &x), Absorbed), []);
    let out = net.of_rack(&gradient(1, 7, &x), Completed, Some(Collided));
    let whole = gradient(1, 7, &sum(&[&x, &x])).bitmap(0b011).flags(COLLISION);
    assert_eq!(out, [(PS, whole.bytes())]);
}

fn marks_climb_up() {
    let mut net = Racks::new();
    let x = values(&net.top, 1);
    assert_eq!(net.of_rack(&gradient(0, 7, &x).ecn(CONGESTED), Absorbed, None), []);
    assert_eq!(net.of_rack(&gradient(1, 7, &x), Completed, Some(Absorbed)), []);
    let out = net.of_top(&gradient(2, 7, &x), Completed);
    let whole = gradient(2, 7, &sum(&[&x, &x, &x])).bitmap(0b111).flags(MARKED);
    assert_eq!(out, [(PS, whole.bytes())]);
}

/// A reply frees the cells on its path; that of worker 2 does not pass the rack.
fn result_frees_both() {
    let mut net = Racks::new();
    let x = values(&net.top, 1);
    for (worker, still_taken) in [(0, false), (2, true)] {
        let sequence = 10 + u32::from(worker);
        assert_eq!(net.of_rack(&gradient(0, sequence, &x), Absorbed, None), []);
        assert_eq!(net.of_top(&gradient(2, sequence, &x), Absorbed), []);
        let reply = result(REPLY, worker + 1, sequence, &x);
        assert_eq!(net.of_ps(&reply, Replied), [(worker, reply.bytes())]);
        let again = gradient(0, sequence, &x).flags(RESEND);
        let in_rack = if still_taken { Flushed } else { Resent };
        assert_eq!(net.of_rack(&again, in_rack, Some(Resent)), [(PS, again.bytes())]);
    }
}

/// A rack's port may not send for workers elsewhere.
fn foreign_rack() {
    let mut net = Racks::new();
    let x = values(&net.top, 1);
    for (bitmap, flags) in [(0b001, 0), (0b111, 0), (0b100, RESEND), (0b110, COLLISION)] {
        let frame = gradient(0, 7, &x).bitmap(bitmap).flags(flags);
        assert_eq!(pass(&mut net.top, DOWNLINK, &frame.bytes(), Malformed), []);
    }
}

/// Packets name workers 0 and 1 by their rack, 3, whose sum is that of position 2; worker 2 has position
/// 0. What else comes from the rack passes the top.
fn a_rack_has_a_position_of_its_own() {
    const RACK: u8 = 3;
    let mut net = Racks::new();
    let x = values(&net.top, 1);
    net.rack.delete(&[
        Entry::contribute(JOB, 1, 0b001, 0b011, SLOT),
        Entry::contribute(JOB, 2, 0b010, 0b011, SLOT),
    ]);
    net.rack.insert(&[
        Entry::contribute(JOB, 1, 0b01, 0b11, SLOT).of_rack(RACK).upward(0b100),
        Entry::contribute(JOB, 2, 0b10, 0b11, SLOT).of_rack(RACK).upward(0b100),
        Entry::answer(JOB, UPLINK, QUERY, SLOT).of_rack(RACK),
    ]);
    net.top.delete(&[
        Entry::contribute(JOB, DOWNLINK, 0b011, 0b111, SLOT),
        Entry::contribute(JOB, 2, 0b100, 0b111, SLOT),
    ]);
    net.top.insert(&[
        Entry::contribute(JOB, DOWNLINK, 0b100, 0b101, SLOT),
        Entry::contribute(JOB, 2, 0b001, 0b101, SLOT),
        Entry::pass(JOB, DOWNLINK, GRADIENT, SLOT).of_rack(RACK),
        Entry::answer(JOB, PS, QUERY, SLOT).of_rack(RACK),
    ]);
    let of_rack = |worker, sequence| gradient(worker, sequence, &x).rack(RACK);
    let of_top = |sequence| gradient(2, sequence, &x).bitmap(0b001);

    // Whole sums meet at the top under the names of positions.
    assert_eq!(net.of_top(&of_top(7), Absorbed), []);
    assert_eq!(net.of_rack(&of_rack(0, 7), Absorbed, None), []);
    let whole = gradient(1, 7, &sum(&[&x, &x, &x])).bitmap(0b101);
    assert_eq!(net.of_rack(&of_rack(1, 7), Completed, Some(Completed)), [(PS, whole.bytes())]);
    net.of_ps(&result(PARAMETER, 0, 7, &x).bitmap(0b101), Distributed);

    // A partial sum keeps the names of the rack, and leaves the top's as it is.
    assert_eq!(net.of_top(&of_top(8), Absorbed), []);
    assert_eq!(net.of_rack(&of_rack(0, 8), Absorbed, None), []);
    let again = of_rack(0, 8).flags(RESEND);
    assert_eq!(net.of_rack(&again, Flushed, Some(Bypassed)), [(PS, again.bytes())]);
    let flushed = of_top(8).flags(RESEND);
    assert_eq!(net.of_top(&flushed, Flushed), [(PS, flushed.bytes())]);

    // The server names a worker as its packets do.
    let query = result(QUERY, 2, 8, &[]).bitmap(0b10).rack(RACK);
    assert_eq!(net.of_ps(&query, Queried), [(1, query.bytes())]);

    // Neither switch knows the other's names, nor any other rack.
    for frame in [gradient(0, 9, &x), of_rack(0, 9).rack(RACK + 1)] {
        net.rack.check_gone(1, &frame.bytes(), (NO_JOB, Rejected));
    }
    net.top.check_gone(2, &of_top(9).rack(RACK).bytes(), (NO_JOB, Rejected));
}
