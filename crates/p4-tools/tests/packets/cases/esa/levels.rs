//! Two switches in a row: that of a rack, and the top of the job.
//!
//! Workers 0 and 1 are at ports 1 and 2 of the rack's switch, whose port 6 leads to port 1 of the
//! top. There worker 2 is at port 2, the parameter server at port 4 and the agent at port 5.

use super::{AGENT, absent, fetched};
use crate::cases::cases;
use crate::entries::Entry;
use crate::frames::{
    ABSENT, COLLISION, CONGESTED, Frame, GRADIENT, MARKED, OVERFLOW, PARAMETER, REMINDER, ip, mac,
};
use crate::lab::{Lab, Outcome::*, index};
use crate::scene::{self, PS, sum};
use crate::target::Build;

cases!("esa::levels":
    sum_of_a_rack_completes_at_the_top, partial_evicted_in_the_rack_passes_the_top,
    sum_of_a_rack_evicts_and_is_evicted, reminders_reach_the_switch_that_they_name,
    result_of_the_server_frees_both, collided_in_the_rack_passes_the_top, repairs_pass_both,
);

const UPLINK: u16 = 6;
const DOWNLINK: u16 = 1;

/// Counter slot of the job.
const SLOT: u8 = 4;
const JOB: u16 = 21;
const OTHER: u16 = 22;

type Frames = Vec<(u16, Vec<u8>)>;

struct Racks {
    rack: Lab,
    top: Lab,
}

impl Racks {
    fn new() -> Self {
        let mut rack = Lab::new(Build::ESA);
        let mut top = Lab::new(Build::ESA);
        for (port, to) in [(1, 1), (2, 2), (3, UPLINK), (PS, UPLINK), (AGENT, UPLINK)] {
            rack.insert(&[Entry::host(mac(port), to)]);
        }
        for (port, to) in [(1, DOWNLINK), (2, DOWNLINK), (3, 2), (PS, PS), (AGENT, AGENT)] {
            top.insert(&[Entry::host(mac(port), to)]);
        }
        rack.insert(&[Entry::group(9, &[1, 2])]);
        top.insert(&[Entry::group(9, &[DOWNLINK, 2])]);
        for job in [JOB, OTHER] {
            rack.insert(&[
                Entry::contribute(job, 1, 0b001, 0b011, SLOT),
                Entry::contribute(job, 2, 0b010, 0b011, SLOT),
                Entry::distribute(job, UPLINK, 9, SLOT),
                Entry::remind(job, UPLINK, 0b011, SLOT),
                Entry::server(job, mac(PS), ip(PS)),
            ]);
            top.insert(&[
                Entry::contribute_to(job, DOWNLINK, (0b011, 0b111), 9, SLOT),
                Entry::contribute_to(job, 2, (0b100, 0b111), 9, SLOT),
                Entry::distribute(job, PS, 9, SLOT),
                Entry::remind(job, AGENT, 0b111, SLOT),
                Entry::answer(job, DOWNLINK, ABSENT, SLOT),
                Entry::server(job, mac(PS), ip(PS)),
            ]);
        }
        Self { rack, top }
    }

    /// Sends a packet of worker 0 or 1 to the rack's switch, and checks its outcome there.
    #[track_caller]
    fn in_rack(&mut self, frame: &Frame, outcome: crate::lab::Outcome) -> Frames {
        pass(&mut self.rack, (frame.source - mac(0)) as u16, &frame.bytes(), outcome)
    }

    /// Sends a packet of worker 2.
    #[track_caller]
    fn at_top(&mut self, frame: &Frame, outcome: crate::lab::Outcome) -> Frames {
        pass(&mut self.top, 2, &frame.bytes(), outcome)
    }

    /// Sends the single frame on the link between the switches to the top.
    #[track_caller]
    fn up(&mut self, frames: &Frames, outcome: crate::lab::Outcome) -> Frames {
        let [(UPLINK, frame)] = &frames[..] else { panic!("one frame goes up: {frames:?}") };
        pass(&mut self.top, DOWNLINK, frame, outcome)
    }

    /// Distributes a result from the top: the frame of each worker, by index.
    #[track_caller]
    fn down(&mut self, frames: &Frames) -> Frames {
        let mut workers = Frames::new();
        for (port, frame) in frames {
            if *port == DOWNLINK {
                let below = pass(&mut self.rack, UPLINK, frame, Distributed);
                workers.extend(below.into_iter().map(|(port, frame)| (port - 1, frame)));
            } else {
                workers.push((2, frame.clone()));
            }
        }
        workers
    }
}

#[track_caller]
fn pass(lab: &mut Lab, port: u16, frame: &[u8], outcome: crate::lab::Outcome) -> Frames {
    let out = lab.send(port, frame);
    let counted: Vec<i64> = lab.counted().into_keys().collect();
    assert_eq!(counted, [index(SLOT, outcome)], "{outcome:?} is expected");
    out
}

fn gradient(job: u16, worker: u16, sequence: u32, values: &[i32]) -> Frame {
    let frame = Frame::new(GRADIENT, worker + 1, PS).bitmap(1 << worker).values(values);
    frame.priority(10).with(|f| (f.protocol, f.job, f.sequence, f.index) = (2, job, sequence, 5))
}

fn result(last: &Frame, values: &[i32]) -> Frame {
    last.clone().bitmap(0b111).values(values).priority(0).with(|f| {
        f.kind = PARAMETER;
        f.destination = 0x0100_5e54_0000 + u64::from(f.job);
        f.ip_destination = 0xef54_0000 + u32::from(f.job);
    })
}

fn sum_of_a_rack_completes_at_the_top() {
    let mut net = Racks::new();
    let [x, y, z] = [1, 2, 3].map(|seed| scene::values(&net.top, seed));
    let total = sum(&[&x, &y, &z]);
    for (sequence, rack_first) in [(7, true), (8, false)] {
        assert_eq!(net.in_rack(&gradient(JOB, 0, sequence, &x).ecn(CONGESTED), Absorbed), []);
        if !rack_first {
            assert_eq!(net.at_top(&gradient(JOB, 2, sequence, &z), Absorbed), []);
        }
        let rack_sum = net.in_rack(&gradient(JOB, 1, sequence, &y), Completed);
        let (last, out) = if rack_first {
            assert_eq!(net.up(&rack_sum, Absorbed), []);
            let last = gradient(JOB, 2, sequence, &z);
            (last.clone(), net.at_top(&last, Completed))
        } else {
            (gradient(JOB, 1, sequence, &y), net.up(&rack_sum, Completed))
        };
        // The mark of worker 0 has reached the top.
        let result = result(&last, &total).flags(MARKED).bytes();
        assert_eq!(out, [(1, result.clone()), (2, result.clone())]);
        assert_eq!(net.down(&out), [0, 1, 2].map(|worker| (worker, result.clone())));
    }
}

fn partial_evicted_in_the_rack_passes_the_top() {
    let mut net = Racks::new();
    let [x, y] = [1, 2].map(|seed| scene::values(&net.top, seed));
    assert_eq!(net.in_rack(&gradient(JOB, 0, 7, &x), Absorbed), []);
    let strong = gradient(OTHER, 1, 9, &y).priority(11);
    let up = net.in_rack(&strong, Preempted);
    let evicted = strong.bitmap(0b001).values(&x).priority(0).flags(COLLISION);
    let evicted = evicted.with(|f| (f.job, f.sequence) = (JOB, 7)).bytes();
    assert_eq!(up, [(UPLINK, evicted.clone())]);
    assert_eq!(net.up(&up, Bypassed), [(PS, evicted)]);
}

/// At the top, a rack's sum is treated like any other packet.
fn sum_of_a_rack_evicts_and_is_evicted() {
    let mut net = Racks::new();
    let [x, y, z] = [1, 2, 3].map(|seed| scene::values(&net.top, seed));
    assert_eq!(net.at_top(&gradient(OTHER, 2, 9, &z), Absorbed), []);
    assert_eq!(net.in_rack(&gradient(JOB, 0, 7, &x), Absorbed), []);
    let last = gradient(JOB, 1, 7, &y).priority(20);
    let up = net.in_rack(&last, Completed);
    let evicted = last.bitmap(0b100).values(&z).priority(0).flags(COLLISION);
    let evicted = evicted.with(|f| (f.job, f.sequence) = (OTHER, 9)).bytes();
    assert_eq!(net.up(&up, Preempted), [(PS, evicted)]);
    let stronger = gradient(OTHER, 2, 10, &z).priority(21);
    let evicted = stronger.clone().bitmap(0b011).values(&sum(&[&x, &y])).priority(0);
    let evicted = evicted.flags(COLLISION).with(|f| (f.job, f.sequence) = (JOB, 7)).bytes();
    assert_eq!(net.at_top(&stronger, Preempted), [(PS, evicted)]);
}

fn reminders_reach_the_switch_that_they_name() {
    let mut net = Racks::new();
    let [x, z] = [1, 2].map(|seed| scene::values(&net.top, seed));
    assert_eq!(net.in_rack(&gradient(JOB, 0, 7, &x), Absorbed), []);
    assert_eq!(net.at_top(&gradient(JOB, 2, 7, &z), Absorbed), []);
    let reminder = Frame::new(REMINDER, AGENT, 1).values(&vec![0; x.len()]).with(|f| {
        (f.protocol, f.job, f.sequence, f.index) = (2, JOB, 7, 5);
    });
    // The rack's first: it passes the top and leaves the cell there unchanged.
    let to_rack = reminder.clone().bitmap(0b011);
    for (outcome, answer) in [(Reminded, fetched(&to_rack, 0b001, &x)), (Absent, absent(&to_rack))]
    {
        let down = pass(&mut net.top, AGENT, &to_rack.bytes(), Bypassed);
        assert_eq!(down, [(DOWNLINK, to_rack.bytes())]);
        let up = pass(&mut net.rack, UPLINK, &down[0].1, outcome);
        assert_eq!(up, [(UPLINK, answer.bytes())]);
        assert_eq!(net.up(&up, Answered), [(AGENT, answer.bytes())]);
    }
    let to_top = reminder.bitmap(0b111);
    for (outcome, answer) in [(Reminded, fetched(&to_top, 0b100, &z)), (Absent, absent(&to_top))] {
        let back = pass(&mut net.top, AGENT, &to_top.bytes(), outcome);
        assert_eq!(back, [(AGENT, answer.bytes())]);
    }
}

fn result_of_the_server_frees_both() {
    let mut net = Racks::new();
    let [x, y] = [1, 2].map(|seed| scene::values(&net.top, seed));
    assert_eq!(net.in_rack(&gradient(JOB, 0, 7, &x), Absorbed), []);
    assert_eq!(net.at_top(&gradient(JOB, 2, 7, &x), Absorbed), []);
    let total = result(&gradient(JOB, 3, 7, &y), &y).with(|f| f.source = mac(PS)).bytes();
    let down = pass(&mut net.top, PS, &total, Distributed);
    assert_eq!(net.down(&down), [0, 1, 2].map(|worker| (worker, total.clone())));
    assert_eq!(net.in_rack(&gradient(OTHER, 0, 1, &x).priority(1), Absorbed), []);
    assert_eq!(net.at_top(&gradient(OTHER, 2, 1, &x).priority(1), Absorbed), []);
}

fn collided_in_the_rack_passes_the_top() {
    let mut net = Racks::new();
    let x = scene::values(&net.top, 1);
    assert_eq!(net.in_rack(&gradient(JOB, 0, 7, &x), Absorbed), []);
    let weak = gradient(OTHER, 1, 9, &x);
    let up = net.in_rack(&weak, Collided);
    assert_eq!(net.up(&up, Bypassed), [(PS, weak.flags(COLLISION).bytes())]);
}

fn repairs_pass_both() {
    let mut net = Racks::new();
    let x = scene::values(&net.top, 1);
    assert_eq!(net.in_rack(&gradient(JOB, 0, 7, &x), Absorbed), []);
    assert_eq!(net.at_top(&gradient(JOB, 2, 7, &x), Absorbed), []);
    let repair = gradient(JOB, 1, 7, &x).flags(COLLISION | OVERFLOW).priority(2);
    let up = net.in_rack(&repair, Bypassed);
    assert_eq!(net.up(&up, Bypassed), [(PS, repair.bytes())]);
    let question = result(&gradient(JOB, 3, 7, &x), &x).flags(COLLISION | OVERFLOW).priority(6);
    let question = question.bitmap(0b100).with(|f| f.source = mac(PS)).bytes();
    let down = pass(&mut net.top, PS, &question, Distributed);
    assert_eq!(net.down(&down), [0, 1, 2].map(|worker| (worker, question.clone())));
    assert_eq!(net.in_rack(&gradient(OTHER, 0, 1, &x).priority(1), Absorbed), []);
    assert_eq!(net.at_top(&gradient(OTHER, 2, 1, &x).priority(1), Absorbed), []);
}
