//! `p4inc.p4`, rule by rule, and the switch with jobs that most cases use.
//!
//! Ports 1 to 3 lead to workers, 4 to the parameter servers, 5 to an outsider, 6 to another unit.

pub(super) mod copies;
pub(super) mod flags;
pub(super) mod forwarded;
pub(super) mod local;
pub(super) mod partial;
pub(super) mod parts;
pub(super) mod refused;
pub(super) mod results;
pub(super) mod segments;
pub(super) mod sweep;
pub(super) mod two_units;

use crate::entries::Entry;
use crate::frames::{
    ALL_BUT, ASYNCHRONOUS, Frame, GRADIENT, MARKED, PARAMETER, QUERY, REPLY, RESEND, SWEEP,
};
use crate::lab::{Lab, Outcome};
use crate::scene::{self, PS, hosts};
use crate::target::Build;

/// The port of a host that belongs to no job.
const OUTSIDER: u16 = 5;

/// A job as the controller admitted it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Job {
    pub(super) program: u8,
    pub(super) id: u16,
    /// Counter slot.
    pub(super) slot: u8,
    pub(super) service: u8,
    /// The multicast group of its workers at this switch.
    pub(super) group: u16,
    /// The port of each worker at this switch.
    pub(super) workers: &'static [u16],
    /// Number of workers elsewhere. With any, results come from the parameter server.
    pub(super) elsewhere: u32,
    /// First cell and size of its segment.
    pub(super) segment: (u32, u32),
}

/// Three workers, all at this switch.
const LOCAL: Job = Job {
    program: 3,
    id: 1,
    slot: 1,
    service: 5,
    group: 11,
    workers: &[1, 2, 3],
    elsewhere: 0,
    segment: (2, 4),
};

/// Two workers, all at this switch, in the cells after those of `LOCAL` and with a job ID of two
/// bytes.
const PAIR: Job = Job {
    id: 0x0201,
    slot: 2,
    service: 200,
    group: 12,
    workers: &[2, 3],
    segment: (6, 2),
    ..LOCAL
};

/// Two workers at this switch, two elsewhere.
const UNIT: Job = Job {
    id: 3,
    slot: 3,
    service: 7,
    group: 13,
    workers: &[1, 2],
    elsewhere: 2,
    segment: (8, 4),
    ..LOCAL
};

/// One worker at this switch, one elsewhere.
const LONE: Job = Job {
    id: 4,
    slot: 4,
    service: 8,
    group: 14,
    workers: &[1],
    elsewhere: 1,
    segment: (12, 2),
    ..LOCAL
};

/// A single worker.
const SOLO: Job = Job {
    id: 5,
    slot: 5,
    service: 255,
    group: 15,
    workers: &[3],
    elsewhere: 0,
    segment: (14, 1),
    ..LOCAL
};

/// Two workers, whose sums the parameter server computes.
const SERVED: Job = Job {
    id: 6,
    slot: 6,
    service: 0,
    group: 16,
    workers: &[1, 2],
    elsewhere: 0,
    segment: (0, 0),
    ..LOCAL
};

impl Job {
    /// The workers below this switch.
    pub(super) fn members(&self) -> u32 {
        (1 << self.workers.len()) - 1
    }

    /// All workers.
    pub(super) fn everyone(&self) -> u32 {
        (1 << (self.workers.len() as u32 + self.elsewhere)) - 1
    }

    fn is_local(&self) -> bool {
        self.elsewhere == 0 && self.service != 0
    }

    pub(super) fn entries(&self) -> Vec<Entry> {
        let mut entries = vec![Entry::group(self.group, self.workers), self.served()];
        let group = if self.is_local() { self.group } else { 0 };
        for (w, &port) in self.workers.iter().enumerate() {
            let who = (1 << w, self.members());
            entries.push(Entry::contribute_to(self.id, port, who, group, self.slot));
        }
        if !self.is_local() {
            entries.push(Entry::distribute(self.id, PS, self.group, self.slot));
            entries.push(Entry::answer(self.id, PS, REPLY, self.slot));
            entries.push(Entry::answer(self.id, PS, QUERY, self.slot));
        }
        entries
    }

    /// The entry of the job's service.
    pub(super) fn served(&self) -> Entry {
        match self.service {
            0 => Entry::forward(self.id, 0),
            service => Entry::aggregate(self.id, service, self.segment, self.everyone()),
        }
    }

    /// The `n`th cell of the segment, counted from 0.
    pub(super) fn cell(&self, n: u32) -> u32 {
        self.segment.0 + n
    }

    pub(super) fn frame(&self, kind: u8, from: u16, to: u16, round: u32, cell: u32) -> Frame {
        Frame::new(kind, from, to).priority(self.service).with(|f| {
            (f.protocol, f.job, f.sequence, f.index) = (self.program, self.id, round, cell);
        })
    }

    /// A worker's contribution. That of a local job is addressed to the switch itself.
    pub(super) fn gradient(&self, worker: usize, round: u32, cell: u32, values: &[i32]) -> Frame {
        let frame = self.frame(GRADIENT, self.workers[worker], PS, round, cell);
        frame.values(values).bitmap(1 << worker).with(|f| {
            if self.is_local() {
                f.destination = 0x0200_5e54_0000 + u64::from(self.id);
                f.ip_destination = 0xc000_0008;
            }
        })
    }

    /// The result that the switch makes from the last gradient of a local job.
    pub(super) fn published(&self, last: &Frame, values: &[i32]) -> Frame {
        self.for_group(last.clone().values(values).bitmap(self.everyone())).with(|f| {
            f.kind = PARAMETER;
            f.flags &= !RESEND;
            (f.source, f.ip_source) = (last.destination, last.ip_destination);
        })
    }

    /// The sum that the switch makes from the last gradient of the workers below it.
    pub(super) fn summed(&self, last: &Frame, values: &[i32]) -> Frame {
        let whole = last.clone().values(values).bitmap(self.members());
        whole.with(|f| f.flags &= !RESEND)
    }

    /// The sum that the switch sends again for a gradient, because the parameter server may have
    /// missed it.
    pub(super) fn sent_again(&self, again: &Frame, values: &[i32]) -> Frame {
        self.summed(again, values).with(|f| f.flags |= RESEND)
    }

    /// The switch's answer to a gradient whose result it has.
    pub(super) fn repeated(&self, again: &Frame, values: &[i32]) -> Frame {
        back(again).values(values).bitmap(self.everyone()).with(|f| {
            f.kind = REPLY;
            f.flags &= !RESEND;
        })
    }

    /// A result of the parameter server.
    fn parameter(&self, round: u32, cell: u32, values: &[i32]) -> Frame {
        let frame = self.frame(PARAMETER, PS, 0, round, cell);
        self.for_group(frame.values(values).bitmap(self.everyone()))
    }

    /// The same for one worker.
    fn reply(&self, worker: usize, round: u32, cell: u32, values: &[i32]) -> Frame {
        let frame = self.frame(REPLY, PS, self.workers[worker], round, cell);
        frame.values(values).bitmap(self.everyone())
    }

    pub(super) fn sweep(&self, from: u32) -> Frame {
        self.frame(SWEEP, 0, 0, 77, from)
    }

    fn for_group(&self, frame: Frame) -> Frame {
        frame.with(|f| {
            f.destination = 0x0100_5e54_0000 + u64::from(self.id);
            f.ip_destination = 0xef54_0000 + u32::from(self.id);
        })
    }

    pub(super) fn for_workers(&self, frame: &Frame) -> Vec<(u16, Vec<u8>)> {
        self.workers.iter().map(|port| (*port, frame.bytes())).collect()
    }

    /// What each worker gets of a result that is not for all.
    pub(super) fn for_audience(&self, frame: &Frame) -> Vec<(u16, Vec<u8>)> {
        let (named, is_left_out) = (frame.audience & !ALL_BUT, frame.audience & ALL_BUT != 0);
        let short = frame.clone().values(&[]).bytes();
        let of = |(port, number): (&u16, u8)| match (number == named) == is_left_out {
            true => (*port, short.clone()),
            false => (*port, frame.bytes()),
        };
        self.workers.iter().zip(1..).map(of).collect()
    }

    /// One round of a local job, from its first contribution to its result.
    #[track_caller]
    pub(super) fn complete(&self, lab: &mut Lab, round: u32, cell: u32, parts: &[Vec<i32>]) {
        let last = self.workers.len() - 1;
        for (worker, values) in parts.iter().enumerate().take(last) {
            let outcome = if worker == 0 { Outcome::Absorbed } else { Outcome::Added };
            let frame = self.gradient(worker, round, cell, values).bytes();
            lab.check_gone(self.workers[worker], &frame, (self.slot, outcome));
        }
        let last = self.gradient(last, round, cell, &parts[last]);
        let parts: Vec<&[i32]> = parts[..self.workers.len()].iter().map(Vec::as_slice).collect();
        let result = self.published(&last, &scene::sum(&parts));
        let from = self.workers[self.workers.len() - 1];
        let out = self.for_workers(&result);
        lab.check(from, &last.bytes(), (self.slot, Outcome::Completed), &out);
    }
}

/// With source and destination exchanged.
pub(super) fn back(frame: &Frame) -> Frame {
    frame.clone().with(|f| {
        std::mem::swap(&mut f.source, &mut f.destination);
        std::mem::swap(&mut f.ip_source, &mut f.ip_destination);
    })
}

/// The switch's answer to an early gradient.
fn asynchronous(early: &Frame) -> Frame {
    back(early).with(|f| {
        f.kind = ASYNCHRONOUS;
        f.flags |= MARKED;
    })
}

/// The switch with its hosts and jobs.
fn rack() -> Lab {
    furnished(Lab::new(Build::P4INC))
}

fn furnished(mut lab: Lab) -> Lab {
    lab.insert(&hosts());
    for job in [LOCAL, PAIR, UNIT, LONE, SOLO, SERVED] {
        lab.insert(&job.entries());
    }
    lab
}

pub(super) fn values<const N: usize>(lab: &Lab) -> [Vec<i32>; N] {
    std::array::from_fn(|seed| scene::values(lab, seed as i32 + 1))
}
