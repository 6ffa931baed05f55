//! `esa.p4`, rule by rule, and the switch with jobs that most cases use.
//!
//! Ports 1 to 3 lead to workers, 4 to the parameter servers, 5 to the reminder agent.

pub(super) mod ceiling;
pub(super) mod fresh;
pub(super) mod levels;
pub(super) mod passes;
pub(super) mod preemption;
pub(super) mod refused;
pub(super) mod reminders;
pub(super) mod repairs;
pub(super) mod variants;

use crate::entries::Entry;
use crate::frames::{ABSENT, COLLISION, Frame, GRADIENT, PARAMETER, REMINDER, RESEND, ip, mac};
use crate::lab::Lab;
use crate::scene::{self, PS, hosts};
use crate::target::Build;

/// The port of the reminder agent.
const AGENT: u16 = 5;

/// A job as the controller admitted it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Job {
    id: u16,
    slot: u8,
    /// The multicast group of its workers if this is the job's top; 0 if more workers are
    /// elsewhere.
    group: u16,
    /// The port of each worker.
    workers: &'static [u16],
    /// The port of its parameter server.
    ps: u16,
}

/// Three workers, all at this switch.
const A: Job = Job { id: 1, slot: 1, group: 11, workers: &[1, 2, 3], ps: PS };

/// Two workers, all at this switch, with a job ID of two bytes and another parameter server.
const B: Job = Job { id: 0x0201, slot: 2, group: 12, workers: &[2, 3], ps: 6 };

/// Two of more workers: their sum is forwarded.
const RACK: Job = Job { id: 3, slot: 3, group: 0, workers: &[1, 2], ps: PS };

/// A single worker.
const ONE: Job = Job { id: 4, slot: 4, group: 14, workers: &[1], ps: PS };

impl Job {
    /// All workers below the switch.
    fn members(&self) -> u32 {
        (1 << self.workers.len()) - 1
    }

    fn entries(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        if self.group != 0 {
            entries.push(Entry::group(self.group, self.workers));
        }
        for (w, &port) in self.workers.iter().enumerate() {
            let who = (1 << w, self.members());
            entries.push(Entry::contribute_to(self.id, port, who, self.group, self.slot));
        }
        entries.push(Entry::distribute(self.id, self.ps, self.group, self.slot));
        entries.push(Entry::remind(self.id, AGENT, self.members(), self.slot));
        entries.push(self.server());
        entries
    }

    fn server(&self) -> Entry {
        Entry::server(self.id, mac(self.ps), ip(self.ps))
    }

    fn frame(&self, kind: u8, from: u16, to: u16, sequence: u32, cell: u32) -> Frame {
        Frame::new(kind, from, to).with(|f| {
            (f.protocol, f.job, f.sequence, f.index) = (2, self.id, sequence, cell);
        })
    }

    /// A worker's own gradient, with priority 10.
    fn gradient(&self, worker: usize, sequence: u32, cell: u32, values: &[i32]) -> Frame {
        let frame = self.frame(GRADIENT, self.workers[worker], self.ps, sequence, cell);
        frame.values(values).bitmap(1 << worker).priority(10)
    }

    /// The result that the switch makes from the last gradient.
    fn result(&self, last: &Frame, values: &[i32]) -> Frame {
        last.clone().values(values).bitmap(self.members()).priority(0).with(|f| {
            f.kind = PARAMETER;
            f.destination = 0x0100_5e54_0000 + u64::from(self.id);
            f.ip_destination = 0xef54_0000 + u32::from(self.id);
        })
    }

    /// A result of the parameter server.
    fn parameter(&self, sequence: u32, cell: u32, values: &[i32]) -> Frame {
        self.result(&self.frame(PARAMETER, self.ps, 0, sequence, cell), values)
    }

    fn reminder(&self, lab: &Lab, sequence: u32, cell: u32) -> Frame {
        let frame = self.frame(REMINDER, AGENT, self.workers[0], sequence, cell);
        frame.values(&vec![0; lab.build().values]).bitmap(self.members())
    }

    /// The packet that evicts this job, as the partial sum that is sent to the job's server.
    fn evicted(&self, by: &Frame, sequence: u32, bitmap: u32, values: &[i32]) -> Frame {
        by.clone().values(values).bitmap(bitmap).priority(0).flags(COLLISION).with(|f| {
            (f.job, f.sequence) = (self.id, sequence);
            (f.destination, f.ip_destination) = (mac(self.ps), ip(self.ps));
        })
    }

    fn for_workers(&self, frame: &Frame) -> Vec<(u16, Vec<u8>)> {
        self.workers.iter().map(|port| (*port, frame.bytes())).collect()
    }
}

fn back(frame: &Frame) -> Frame {
    let there = frame.clone();
    there.with(|f| {
        std::mem::swap(&mut f.source, &mut f.destination);
        std::mem::swap(&mut f.ip_source, &mut f.ip_destination);
    })
}

/// The answer to a reminder that found nothing.
fn absent(reminder: &Frame) -> Frame {
    back(reminder).with(|f| f.kind = ABSENT)
}

/// The answer to a reminder that found something.
fn fetched(reminder: &Frame, bitmap: u32, values: &[i32]) -> Frame {
    back(reminder).bitmap(bitmap).values(values).flags(RESEND).with(|f| f.kind = GRADIENT)
}

fn furnished(mut lab: Lab) -> Lab {
    lab.insert(&hosts());
    for job in [A, B, RACK, ONE] {
        lab.insert(&job.entries());
    }
    lab
}

/// The switch with its hosts and jobs.
fn rack() -> Lab {
    furnished(Lab::new(Build::ESA))
}

fn values<const N: usize>(lab: &Lab) -> [Vec<i32>; N] {
    std::array::from_fn(|seed| scene::values(lab, seed as i32 + 1))
}
