//! All switches at once: the same packets go through each, and frames and counters must be equal.

use std::fmt::Write as _;
use std::time::Duration;

use tributary_p4::Architecture;
use tributary_p4runtime::p4::v1::update;

use crate::bmv2::Bmv2;
use crate::embedded::Embedded;
use crate::entries::Entry;
use crate::frames::describe;
use crate::target::{Build, Count, Counts, Evictions, Outputs, Target};
use crate::tools;

/// The outcome of a packet; the numbers are the indices of the outcome counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Forwarded = 0,
    Absorbed = 1,
    Added = 2,
    Completed = 3,
    Collided = 4,
    Bypassed = 5,
    Resent = 6,
    Flushed = 7,
    Duplicate = 8,
    Seized = 9,
    Distributed = 10,
    Replied = 11,
    Queried = 12,
    Swept = 13,
    Rejected = 14,
    Malformed = 15,
    Preempted = 16,
    Reminded = 17,
    Absent = 18,
    Answered = 19,
    Outside = 20,
    Repeated = 21,
    Asynchronous = 22,
    Stale = 23,
    Barred = 24,
    Exceeded = 25,
}

/// The slot of the outcome counters of no job.
pub(crate) const NO_JOB: u8 = 0;

pub(crate) struct Lab {
    targets: Vec<Box<dyn Target>>,
    build: Build,
    counts: Counts,
}

impl Lab {
    /// All switches available on this machine.
    pub(crate) fn new(build: Build) -> Self {
        let mut targets = embedded(&build);
        if let Ok(tools) = tools::bmv2(|| None) {
            targets.push(Box::new(Bmv2::start(tools, &build)));
        }
        Self { targets, build, counts: Counts::new() }
    }

    /// All switches available on this machine, with the program for v1model, for cases in which
    /// that for TNA differs.
    pub(crate) fn v1model(build: Build) -> Self {
        let mut lab = Self::alone(Architecture::V1model, build);
        if let Ok(tools) = tools::bmv2(|| None) {
            lab.targets.push(Box::new(Bmv2::start(tools, &build)));
        }
        lab
    }

    /// The embedded switch with one variant of the program, for cases in which switches differ.
    pub(crate) fn alone(architecture: Architecture, build: Build) -> Self {
        let target = Embedded::with(architecture, &build);
        Self { targets: vec![Box::new(target)], build, counts: Counts::new() }
    }

    /// Only the embedded switch, for cases that BMv2 cannot control, such as exact times and queue
    /// lengths.
    pub(crate) fn embedded(build: Build) -> Self {
        Self { targets: embedded(&build), build, counts: Counts::new() }
    }

    pub(crate) fn build(&self) -> Build {
        self.build
    }

    pub(crate) fn insert(&mut self, entries: &[Entry]) {
        self.update(entries, update::Type::Insert);
    }

    pub(crate) fn modify(&mut self, entries: &[Entry]) {
        self.update(entries, update::Type::Modify);
    }

    pub(crate) fn delete(&mut self, entries: &[Entry]) {
        self.update(entries, update::Type::Delete);
    }

    fn update(&mut self, entries: &[Entry], what: update::Type) {
        for target in &mut self.targets {
            let updates = entries.iter().map(|entry| entry.update(target.p4info(), what));
            target.write(&updates.collect::<Vec<_>>());
        }
    }

    pub(crate) fn advance(&mut self, time: Duration) {
        for target in &mut self.targets {
            target.advance(time);
        }
    }

    /// Sends frames into a port of every switch and compares the outputs.
    pub(crate) fn send_all(&mut self, port: u16, frames: &[Vec<u8>]) -> Outputs {
        let what = || {
            frames
                .iter()
                .fold(format!("port {port}"), |text, frame| text + "\n    " + &describe(frame))
        };
        self.each(what, |target| {
            for frame in frames {
                target.inject(port, frame);
            }
        })
    }

    /// Sends a frame into a port of every switch and compares the outputs.
    pub(crate) fn send(&mut self, port: u16, frame: &[u8]) -> Vec<(u16, Vec<u8>)> {
        let outputs = self.each(
            || format!("port {port}: {}", describe(frame)),
            |target| target.inject(port, frame),
        );
        assert!(outputs.packets_in.is_empty(), "a packet for the controller: {outputs:?}");
        outputs.frames
    }

    /// Sends a frame from the controller and compares the outputs.
    pub(crate) fn packet_out(&mut self, frame: &[u8]) -> Outputs {
        self.each(|| format!("controller: {}", describe(frame)), |target| target.packet_out(frame))
    }

    fn each(&mut self, what: impl Fn() -> String, mut act: impl FnMut(&mut dyn Target)) -> Outputs {
        let mut first: Option<(&'static str, Outputs)> = None;
        for target in &mut self.targets {
            act(target.as_mut());
            let outputs = target.settle();
            match &first {
                None => first = Some((target.name(), outputs)),
                Some((name, expected)) => assert!(
                    *expected == outputs,
                    "after {}\n{name} gives{}\n{} gives{}",
                    what(),
                    show(expected),
                    target.name(),
                    show(&outputs),
                ),
            }
        }
        first.expect("there is a switch").1
    }

    /// Counters since the last call, equal in all switches.
    pub(crate) fn counted(&mut self) -> Counts {
        let mut first: Option<(&'static str, Counts)> = None;
        for target in &mut self.targets {
            let counts = target.counters();
            match &first {
                None => first = Some((target.name(), counts)),
                Some((name, expected)) => assert_eq!(
                    *expected,
                    counts,
                    "{name} (left) and {} (right) count differently",
                    target.name(),
                ),
            }
        }
        let counts = first.expect("there is a switch").1;
        let before = std::mem::replace(&mut self.counts, counts.clone());
        let mut change = Counts::new();
        for (&index, count) in &counts {
            let old = before.get(&index).copied().unwrap_or_default();
            let new =
                Count { packets: count.packets - old.packets, bytes: count.bytes - old.bytes };
            if new != Count::default() {
                change.insert(index, new);
            }
        }
        change
    }

    /// Number of packets recirculated into the workers' pipe, if one of the switches has pipes.
    pub(crate) fn recirculated(&self) -> Option<u64> {
        self.targets.iter().find_map(|target| target.recirculated())
    }

    /// Number of evicted partial sums of each job so far, equal in all switches.
    pub(crate) fn evictions(&mut self) -> Evictions {
        let mut first: Option<(&'static str, Evictions)> = None;
        for target in &mut self.targets {
            let evictions = target.evictions();
            match &first {
                None => first = Some((target.name(), evictions)),
                Some((name, expected)) => assert_eq!(
                    *expected,
                    evictions,
                    "{name} (left) and {} (right) count evictions differently",
                    target.name(),
                ),
            }
        }
        first.expect("there is a switch").1
    }

    /// Sends a frame, and checks its outcome, its job, and its output.
    #[track_caller]
    pub(crate) fn check(
        &mut self,
        port: u16,
        frame: &[u8],
        (slot, outcome): (u8, Outcome),
        expected: &[(u16, Vec<u8>)],
    ) {
        let got = Outputs { frames: self.send(port, frame), packets_in: Vec::new() };
        let expected = Outputs { frames: expected.to_vec(), packets_in: Vec::new() };
        assert!(
            got == expected,
            "after port {port}: {}\nexpected{}\ngot{}",
            describe(frame),
            show(&expected),
            show(&got),
        );
        let change = self.counted();
        let count = Count { packets: 1, bytes: frame.len() as i64 };
        let expected = Counts::from([(index(slot, outcome), count)]);
        assert_eq!(
            change,
            expected,
            "counts (left) after port {port}: {}\nare not {outcome:?} of slot {slot} (right)",
            describe(frame),
        );
    }

    /// Sends a frame without output.
    #[track_caller]
    pub(crate) fn check_gone(&mut self, port: u16, frame: &[u8], counted_as: (u8, Outcome)) {
        self.check(port, frame, counted_as, &[]);
    }
}

/// The embedded switch with each variant of the program, without and with traces of all packets.
fn embedded(build: &Build) -> Vec<Box<dyn Target>> {
    let plain = || std::iter::once(Embedded::new(build)).chain(Embedded::tna(build));
    let all = plain().chain(plain().map(Embedded::traced));
    all.map(|target| Box::new(target) as Box<dyn Target>).collect()
}

/// The counter index of an outcome of a job.
pub(crate) fn index(slot: u8, outcome: Outcome) -> i64 {
    i64::from(slot) * 32 + outcome as i64
}

fn show(outputs: &Outputs) -> String {
    let mut text = String::new();
    for (port, frame) in &outputs.frames {
        let _ = write!(text, "\n    port {port}: {}", describe(frame));
    }
    for frame in &outputs.packets_in {
        let _ = write!(text, "\n    controller: {}", describe(frame));
    }
    if text.is_empty() { " nothing".to_owned() } else { text }
}
