//! A job over two units: two switches, with the test acting as the parameter server.
//!
//! Workers 0 and 1 are at ports 1 and 2 of the first switch, whose port 6 leads to port 6 of the
//! second. There workers 2 and 3 are at ports 1 and 2, and the parameter server at port 4.

use crate::cases::cases;
use crate::entries::Entry;
use crate::frames::{
    ASYNCHRONOUS, CONGESTED, Frame, GRADIENT, MARKED, PARAMETER, REPLY, RESEND, mac,
};
use crate::lab::{Lab, Outcome, Outcome::*, index};
use crate::scene::{self, PS, sum};
use crate::target::Build;

cases!("p4inc::two_units":
    sums_meet_at_the_server, lost_sum, lost_result_in_one_unit, one_unit_runs_ahead,
    overflow_and_the_rung_after,
);

const LINK: u16 = 6;
const JOB: u16 = 21;
const SERVICE: u8 = 9;
const SLOT: u8 = 4;
const EVERYONE: u32 = 0b1111;

type Frames = Vec<(u16, Vec<u8>)>;

struct Units {
    units: [Lab; 2],
}

impl Units {
    fn new() -> Self {
        let units = [0, 1].map(|unit| {
            let mut lab = Lab::new(Build::P4INC);
            let towards_ps = [LINK, PS][unit];
            for host in 0..4 {
                let (home, port) = (host / 2, host % 2 + 1);
                lab.insert(&[Entry::host(
                    address(host),
                    if home == unit as u16 { port } else { LINK },
                )]);
            }
            lab.insert(&[
                Entry::host(mac(PS), towards_ps),
                Entry::aggregate(JOB, SERVICE, (4, 2), EVERYONE),
                Entry::distribute(JOB, towards_ps, 9, SLOT),
                Entry::answer(JOB, towards_ps, REPLY, SLOT),
                Entry::group(9, if unit == 0 { &[1, 2] } else { &[1, 2, LINK] }),
            ]);
            let members = 0b11 << (2 * unit);
            for port in [1, 2] {
                let bit = 1 << (2 * unit + port - 1);
                lab.insert(&[Entry::contribute(JOB, port as u16, bit, members, SLOT)]);
            }
            if unit == 1 {
                lab.insert(&[Entry::pass(JOB, LINK, GRADIENT, SLOT)]);
            }
            lab
        });
        Self { units }
    }

    /// Sends a packet of a worker to its unit's switch, and checks its outcome there.
    #[track_caller]
    fn send(&mut self, frame: &Frame, outcome: Outcome) -> Frames {
        let worker = (frame.source - address(0)) as usize;
        let port = worker as u16 % 2 + 1;
        pass(&mut self.units[worker / 2], port, &frame.bytes(), outcome)
    }

    /// The frame that reaches the server: from the first unit through the second one's switch.
    #[track_caller]
    fn up(&mut self, frames: &Frames) -> Vec<u8> {
        let [(port, frame)] = &frames[..] else { panic!("one frame goes up: {frames:?}") };
        if *port == PS {
            return frame.clone();
        }
        assert_eq!(*port, LINK);
        let out = pass(&mut self.units[1], LINK, frame, Bypassed);
        assert_eq!(out, [(PS, frame.clone())]);
        frame.clone()
    }

    /// Distributes a result: the frame of each worker, by index. `cut`: the link between the units
    /// is down.
    #[track_caller]
    fn down(&mut self, result: &Frame, cut: bool) -> Frames {
        let outcome = if result.kind == PARAMETER { Distributed } else { Replied };
        let mut workers = Frames::new();
        for (port, frame) in pass(&mut self.units[1], PS, &result.bytes(), outcome) {
            if port != LINK {
                workers.push((port + 1, frame));
            } else if !cut {
                let below = pass(&mut self.units[0], LINK, &frame, outcome);
                workers.extend(below.into_iter().map(|(port, frame)| (port - 1, frame)));
            }
        }
        workers.sort();
        workers
    }

    /// Sends all contributions of a unit. Returns the sum that arrives at the server.
    fn unit(&mut self, unit: usize, round: u32, parts: &[Vec<i32>]) -> Vec<u8> {
        let [a, b] = [2 * unit, 2 * unit + 1];
        assert_eq!(self.send(&gradient(a, round, &parts[a]), Absorbed), []);
        let up = self.send(&gradient(b, round, &parts[b]), Completed);
        self.up(&up)
    }
}

#[track_caller]
fn pass(lab: &mut Lab, port: u16, frame: &[u8], outcome: Outcome) -> Frames {
    let out = lab.send(port, frame);
    let counted: Vec<i64> = lab.counted().into_keys().collect();
    assert_eq!(counted, [index(SLOT, outcome)], "{outcome:?} is expected");
    out
}

/// Address of a worker.
fn address(worker: u16) -> u64 {
    mac(0x10 + worker)
}

fn frame(kind: u8, from: u64, to: u64, round: u32, values: &[i32]) -> Frame {
    Frame::new(kind, 0, 0).values(values).priority(SERVICE).with(|f| {
        (f.source, f.destination) = (from, to);
        (f.ip_source, f.ip_destination) = (0x0a00_0000 | from as u32, 0x0a00_0000 | to as u32);
        (f.protocol, f.job, f.sequence, f.index) = (3, JOB, round, 5);
    })
}

fn gradient(worker: usize, round: u32, values: &[i32]) -> Frame {
    let frame = frame(GRADIENT, address(worker as u16), mac(PS), round, values);
    frame.bitmap(1 << worker)
}

/// The frame at the server for the last packet of a unit.
fn unit_sum(worker: usize, round: u32, values: &[i32]) -> Frame {
    gradient(worker, round, values).bitmap(0b11 << (worker & 2))
}

fn result(round: u32, values: &[i32]) -> Frame {
    frame(PARAMETER, mac(PS), 0x0100_5e54_0000 + u64::from(JOB), round, values).bitmap(EVERYONE)
}

fn reply(worker: usize, round: u32, values: &[i32]) -> Frame {
    frame(REPLY, mac(PS), address(worker as u16), round, values).bitmap(EVERYONE)
}

/// Values of each worker.
fn parts(net: &Units) -> [Vec<i32>; 4] {
    [1, 2, 3, 4].map(|seed| scene::values(&net.units[0], seed))
}

fn total(parts: &[Vec<i32>]) -> Vec<i32> {
    sum(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

fn sums_meet_at_the_server() {
    let mut net = Units::new();
    let parts = parts(&net);
    for round in [0, 8, 9, 800] {
        for unit in [0, 1] {
            let last = 2 * unit + 1;
            let values = total(&parts[2 * unit..=last]);
            assert_eq!(net.unit(unit, round, &parts), unit_sum(last, round, &values).bytes());
        }
        let result = result(round, &total(&parts));
        let down = net.down(&result, false);
        assert_eq!(down, [0, 1, 2, 3].map(|worker| (worker, result.bytes())));
    }
}

/// The first unit's sum was lost; a worker's resend takes it along.
fn lost_sum() {
    let mut net = Units::new();
    let parts = parts(&net);
    net.unit(0, 8, &parts);
    net.unit(1, 8, &parts);
    let again = gradient(0, 8, &parts[0]).flags(RESEND);
    let up = net.send(&again, Resent);
    let values = total(&parts[..2]);
    assert_eq!(net.up(&up), unit_sum(0, 8, &values).flags(RESEND).bytes());
    let result = result(8, &total(&parts));
    assert_eq!(net.down(&result, false).len(), 4);
}

/// The link between the units was down: the server's own unit continues, the other resends.
fn lost_result_in_one_unit() {
    let mut net = Units::new();
    let parts = parts(&net);
    let whole = total(&parts);
    for unit in [0, 1] {
        net.unit(unit, 8, &parts);
    }
    let lost = result(8, &whole);
    assert_eq!(net.down(&lost, true), [2, 3].map(|worker| (worker, lost.bytes())));
    assert_eq!(net.send(&gradient(2, 24, &parts[2]), Absorbed), []);
    // Its own unit's switch still waits, and sends the sum to the server for an answer.
    let again = gradient(1, 8, &parts[1]).flags(RESEND);
    let up = net.send(&again, Resent);
    let sum = unit_sum(1, 8, &total(&parts[..2])).flags(RESEND).bytes();
    assert_eq!(net.up(&up), sum);
    let answer = reply(1, 8, &whole);
    let down = pass(&mut net.units[1], PS, &answer.bytes(), Replied);
    assert_eq!(down, [(LINK, answer.bytes())]);
    let down = pass(&mut net.units[0], LINK, &answer.bytes(), Replied);
    assert_eq!(down, [(2, answer.bytes())]);
    // From then on, the switch answers by itself.
    let again = gradient(0, 8, &parts[0]).flags(RESEND);
    let out = net.send(&again, Repeated);
    let [(1, frame)] = &out[..] else { panic!("an answer: {out:?}") };
    assert_eq!(frame[43], REPLY);
    // In the other unit the cell has advanced, but its copy has not.
    let again = gradient(3, 8, &parts[3]).flags(RESEND);
    let out = net.send(&again, Repeated);
    assert_eq!(out[0].0, 2);
}

/// With windows larger than the segment, a unit reuses a cell whose round waits for the other.
fn one_unit_runs_ahead() {
    let mut net = Units::new();
    let parts = parts(&net);
    net.unit(0, 8, &parts);
    let early = gradient(0, 24, &parts[0]).ecn(CONGESTED);
    let out = net.send(&early, Asynchronous);
    let [(1, error)] = &out[..] else { panic!("it comes back: {out:?}") };
    assert_eq!((error[43], error[44]), (ASYNCHRONOUS, MARKED));
    net.unit(1, 8, &parts);
    let result = result(8, &total(&parts));
    assert_eq!(net.down(&result, false).len(), 4);
    assert_eq!(net.send(&early, Absorbed), []);
}

/// One worker's values do not fit: the fragment is repeated in the same cell, as a separate round.
fn overflow_and_the_rung_after() {
    use crate::frames::OVERFLOW;
    let mut net = Units::new();
    let parts = parts(&net);
    let zeros = vec![0; parts[0].len()];
    let too_large = gradient(0, 8, &zeros).flags(OVERFLOW);
    assert_eq!(net.send(&too_large, Absorbed), []);
    let up = net.send(&gradient(1, 8, &parts[1]), Completed);
    assert_eq!(net.up(&up), unit_sum(1, 8, &parts[1]).flags(OVERFLOW).bytes());
    net.unit(1, 8, &parts);
    let flagged = result(8, &zeros).flags(OVERFLOW);
    assert_eq!(net.down(&flagged, false), [0, 1, 2, 3].map(|w| (w, flagged.bytes())));
    for unit in [0, 1] {
        let sum = net.unit(unit, 9, &parts);
        assert_eq!(sum[44] & OVERFLOW, 0);
    }
}
