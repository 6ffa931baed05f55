//! The switch with hosts and jobs that most tests use.
//!
//! Ports 1 to 3 lead to workers, 4 to the parameter servers, 5 and 6 to others.

use crate::entries::{Entry, FLOOD};
use crate::frames::{Frame, GRADIENT, PARAMETER, QUERY, REPLY, SWEEP, epoch, mac};
use crate::lab::Lab;
use crate::target::{Build, PORTS};

/// The port of the parameter servers.
pub(crate) const PS: u16 = 4;

/// The port of a host that belongs to no job.
pub(crate) const OUTSIDER: u16 = 6;

/// A job as the controller admitted it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Job {
    pub(crate) id: u16,
    /// Counter slot.
    pub(crate) slot: u8,
    /// The multicast group of its workers.
    pub(crate) group: u16,
    /// The port of each worker.
    pub(crate) workers: &'static [u16],
}

/// Three workers.
pub(crate) const A: Job = Job { id: 1, slot: 1, group: 11, workers: &[1, 2, 3] };

/// Two workers behind the same ports as those of `A`, with a job ID of two bytes.
pub(crate) const B: Job = Job { id: 0x0201, slot: 2, group: 12, workers: &[2, 3] };

/// A single worker, so there is nothing to add.
pub(crate) const ALONE: Job = Job { id: 3, slot: 3, group: 13, workers: &[1] };

impl Job {
    /// All workers.
    pub(crate) fn members(&self) -> u32 {
        (1 << self.workers.len()) - 1
    }

    /// The controller's entries at admission.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.entries_of(epoch(self.id))
    }

    /// The same for another run.
    pub(crate) fn entries_of(&self, epoch: u32) -> Vec<Entry> {
        let workers = self.workers.iter().enumerate();
        let gradients = workers
            .map(|(w, port)| Entry::contribute(self.id, *port, 1 << w, self.members(), self.slot));
        let mut entries: Vec<Entry> = gradients.collect();
        entries.push(Entry::distribute(self.id, PS, self.group, self.slot));
        entries.push(Entry::answer(self.id, PS, REPLY, self.slot));
        entries.push(Entry::answer(self.id, PS, QUERY, self.slot));
        entries.push(Entry::group(self.group, self.workers));
        entries.into_iter().map(|entry| entry.of_run(epoch)).collect()
    }

    /// A worker's own gradient.
    pub(crate) fn gradient(
        &self,
        worker: usize,
        sequence: u32,
        cell: u32,
        values: &[i32],
    ) -> Frame {
        Frame::new(GRADIENT, self.workers[worker], PS).values(values).with(|frame| {
            frame.job = self.id;
            frame.sequence = sequence;
            frame.bitmap = 1 << worker;
            frame.index = cell;
        })
    }

    /// A result for all workers.
    pub(crate) fn parameter(&self, sequence: u32, cell: u32, values: &[i32]) -> Frame {
        Frame::new(PARAMETER, PS, 0).values(values).bitmap(self.members()).with(|frame| {
            frame.job = self.id;
            frame.sequence = sequence;
            frame.index = cell;
            frame.destination = 0x0100_5e54_0000 + u64::from(self.id);
            frame.ip_destination = 0xef54_0000 + u32::from(self.id);
        })
    }

    /// A result for one worker.
    pub(crate) fn reply(&self, worker: usize, sequence: u32, cell: u32, values: &[i32]) -> Frame {
        let frame = Frame::new(REPLY, PS, self.workers[worker]).values(values);
        frame.bitmap(self.members()).with(|frame| {
            frame.job = self.id;
            frame.sequence = sequence;
            frame.index = cell;
        })
    }

    /// A query for one worker.
    pub(crate) fn query(&self, worker: usize, sequence: u32, cell: u32) -> Frame {
        Frame::new(QUERY, PS, self.workers[worker]).bitmap(1 << worker).with(|frame| {
            frame.job = self.id;
            frame.sequence = sequence;
            frame.index = cell;
        })
    }

    /// The controller's sweep.
    pub(crate) fn sweep(&self, nonce: u32, from: u32) -> Frame {
        Frame::new(SWEEP, 0, 0).with(|frame| {
            frame.job = self.id;
            frame.sequence = nonce;
            frame.index = from;
        })
    }

    /// The copies of a parameter packet, one per worker.
    pub(crate) fn for_workers(self, frame: &Frame) -> Vec<(u16, Vec<u8>)> {
        self.workers.iter().map(|port| (*port, frame.bytes())).collect()
    }
}

/// Entries for all hosts, and the flood group.
pub(crate) fn hosts() -> Vec<Entry> {
    let ports: Vec<u16> = PORTS.collect();
    let mut entries: Vec<Entry> = ports.iter().map(|&port| Entry::host(mac(port), port)).collect();
    entries.push(Entry::group(FLOOD, &ports));
    entries.extend(ports.into_iter().map(Entry::mirror));
    entries
}

/// The switch with its hosts and the three jobs.
pub(crate) fn rack(build: Build) -> Lab {
    let mut lab = Lab::new(build);
    furnish(&mut lab);
    lab
}

/// The same with the program for v1model only.
pub(crate) fn v1model_rack(build: Build) -> Lab {
    let mut lab = Lab::v1model(build);
    furnish(&mut lab);
    lab
}

/// The same on the embedded switch only.
pub(crate) fn embedded_rack(build: Build) -> Lab {
    let mut lab = Lab::embedded(build);
    furnish(&mut lab);
    lab
}

fn furnish(lab: &mut Lab) {
    lab.insert(&hosts());
    for job in [A, B, ALONE] {
        lab.insert(&job.entries());
    }
}

/// A packet's values, all different from each other and from those of another seed, some negative.
pub(crate) fn values(lab: &Lab, seed: i32) -> Vec<i32> {
    let sign = |i: i32| if i % 3 == 0 { -1 } else { 1 };
    (0..lab.build().values as i32).map(|i| sign(i) * (seed * 100_003 + i)).collect()
}

/// Their sum, element by element, modulo 2^32.
pub(crate) fn sum(parts: &[&[i32]]) -> Vec<i32> {
    let at = |i: usize| {
        let exact: i64 = parts.iter().map(|part| i64::from(part[i])).sum();
        exact as i32
    };
    (0..parts[0].len()).map(at).collect()
}
