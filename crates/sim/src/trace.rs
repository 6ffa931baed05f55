//! A record of links and channels, to find out why a seed failed and to draw it.

use std::fmt;

use tributary_wire::agg::{Flags, Kind, Packet, Protocol, Repair, Repaired, Repr};
use tributary_wire::channel::{FromServer, FromWorker, ToServer, ToWorker};
use tributary_wire::{Bitmap, JobId, Rack, Round, Sequence, WorkerIndex, WorkerSet};

/// What was recorded.
#[derive(Clone, PartialEq, Debug)]
pub enum What {
    /// A frame with an aggregation header.
    Packet(Repr),
    /// Another frame.
    Frame,
    /// A message on a reliable channel, and the job that the channel belongs to.
    Message(JobId, String),
    /// An event at one place, without a frame.
    Event(String),
}

/// What became of a frame or message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It arrived.
    Arrived,
    /// It was lost on the way.
    Lost,
}

/// One frame, message or event.
#[derive(Clone, PartialEq, Debug)]
pub struct Sighting {
    /// Time in nanoseconds: of the arrival, or of the departure if it was lost.
    pub time: u64,
    /// The sender.
    pub from: String,
    /// The place of arrival, or the destination of a lost frame.
    pub to: String,
    /// The frame, message or event.
    pub what: What,
    /// What became of it.
    pub fate: Fate,
    /// The outcome under which the receiving switch counted it.
    pub outcome: Option<&'static str>,
}

impl Sighting {
    /// The job that it names, if any.
    #[must_use]
    pub fn job(&self) -> Option<JobId> {
        match &self.what {
            What::Packet(header) => Some(header.job),
            What::Message(job, _) => Some(*job),
            What::Frame | What::Event(_) => None,
        }
    }

    /// A label: `gradient j1 s0 {0,1} p=12`.
    #[must_use]
    pub fn label(&self) -> String {
        match &self.what {
            What::Packet(header) => describe(header),
            What::Frame => "another frame".into(),
            What::Message(_, text) | What::Event(text) => text.clone(),
        }
    }
}

impl fmt::Display for Sighting {
    /// `w1 → s1: gradient j1 s0 {0} p=12 (absorbed)`, without the time.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let What::Event(text) = &self.what {
            return write!(f, "{}: {text}", self.from);
        }
        write!(f, "{} → {}: {}", self.from, self.to, self.label())?;
        if self.fate == Fate::Lost {
            f.write_str(" LOST")?;
        }
        self.outcome.map_or(Ok(()), |outcome| write!(f, " ({outcome})"))
    }
}

/// Frames, messages and events by time.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    sightings: Vec<Sighting>,
}

impl Trace {
    /// Records a frame that arrived or was lost.
    pub(crate) fn frame(&mut self, time: u64, from: &str, to: &str, frame: &[u8], fate: Fate) {
        let header = Packet::new_checked(frame).ok().map(|packet| *packet.repr());
        let what = header.map_or(What::Frame, What::Packet);
        self.push(time, from, to, what, fate);
    }

    /// Adds the switch's outcome to the last frame.
    pub(crate) fn counted(&mut self, outcome: &'static str) {
        if let Some(last) = self.sightings.last_mut() {
            last.outcome = Some(outcome);
        }
    }

    /// Records a message, or an event if both places are the same.
    pub(crate) fn push(&mut self, time: u64, from: &str, to: &str, what: What, fate: Fate) {
        let (from, to) = (from.into(), to.into());
        self.sightings.push(Sighting { time, from, to, what, fate, outcome: None });
    }

    /// The trace without unwanted sightings.
    #[must_use]
    pub fn without(&self, unwanted: impl Fn(&Sighting) -> bool) -> Self {
        let wanted = self.sightings.iter().filter(|sighting| !unwanted(sighting));
        Self { sightings: wanted.cloned().collect() }
    }

    /// All sightings.
    #[must_use]
    pub fn sightings(&self) -> &[Sighting] {
        &self.sightings
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for sighting in &self.sightings {
            writeln!(f, "{:>12.3} µs  {sighting}", sighting.time as f64 / 1e3)?;
        }
        Ok(())
    }
}

/// Describes a packet.
fn describe(header: &Repr) -> String {
    repair(header).unwrap_or_else(|| describe_fields(header))
}

/// Describes a packet that bypasses the aggregators in the words of the reliable channel, which carries
/// the same as a last resort: `repair float values j1 s0 {0}`.
fn repair(header: &Repr) -> Option<String> {
    if header.protocol != Protocol::Esa || !header.flags.contains(Flags::REPAIR) {
        return None;
    }
    let Repair { what, float } = header.repair()?;
    let marked = if header.flags.contains(Flags::ECN) { "marked " } else { "" };
    let float = if float { "float " } else { "" };
    let what = match what {
        Repaired::Farewell => {
            let who = names(header.rack, header.bitmap);
            return Some(format!("farewell j{} {who}", header.job.get()));
        }
        Repaired::Contribution => "values",
        Repaired::Result => "result",
        Repaired::Question => "query",
    };
    let place = place(header.job, header.sequence);
    Some(format!("{marked}repair {float}{what} {place} {}", names(header.rack, header.bitmap)))
}

fn describe_fields(header: &Repr) -> String {
    let flag = |flag| header.flags.contains(flag);
    let esa = header.protocol == Protocol::Esa;
    let rounds = header.protocol.has_services();
    let mut words = String::new();
    for (set, word) in [
        (flag(Flags::COLLISION), "collided "),
        (flag(Flags::RESEND), if esa { "fetched " } else { "resent " }),
        (flag(Flags::OVERFLOW), if rounds { "too great " } else { "float " }),
        (flag(Flags::ECN), "marked "),
    ] {
        if set {
            words += word;
        }
    }
    let kind = format!("{:?}", header.kind).to_lowercase();
    let place = match rounds && header.kind != Kind::Sweep {
        true => format!("j{} f{}", header.job.get(), Round::of(header.sequence)),
        false => place(header.job, header.sequence),
    };
    let mut text = format!("{words}{kind} {place}");
    if header.kind != Kind::Sweep {
        text += &format!(" {}", names(header.rack, header.bitmap));
    }
    if rounds {
        // The service and the aggregator, which also distinguish packets.
        text += &format!(" v{} c{}", header.priority, header.index.0);
    } else if header.priority > 0 {
        text += &format!(" p={}", header.priority);
    }
    text
}

fn place(job: JobId, sequence: Sequence) -> String {
    format!("j{} s{}", job.get(), sequence.0)
}

/// The workers of a packet: `{0,2}`, or `rack 3 {0,2}`.
fn names(rack: Rack, bitmap: Bitmap) -> String {
    let rack = rack.position().map_or(String::new(), |_| format!("rack {rack} "));
    rack + &listed(bitmap.iter())
}

/// Workers: `{0,2}`.
fn set(workers: WorkerSet) -> String {
    listed(workers.iter().map(WorkerIndex::get))
}

fn listed(numbers: impl Iterator<Item = impl ToString>) -> String {
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    format!("{{{}}}", numbers.join(","))
}

/// Descriptions of the reliable channel's messages.
pub(crate) trait Words {
    /// `remind j1 s0`.
    fn words(&self, job: JobId) -> String;
}

impl Words for FromWorker {
    fn words(&self, job: JobId) -> String {
        match self {
            Self::Remind { sequence } => format!("remind {}", place(job, *sequence)),
            Self::Values { sequence, values } => {
                let float = if values.float { "float " } else { "" };
                format!("{float}values {}", place(job, *sequence))
            }
            Self::Result { sequence, .. } => format!("result {}", place(job, *sequence)),
            Self::NotSent { sequence } => format!("not sent {}", place(job, *sequence)),
            Self::Over { sequence } => format!("over {}", place(job, *sequence)),
            Self::Finished { end } => format!("finished j{} at s{}", job.get(), end.0),
        }
    }
}

impl Words for ToWorker {
    fn words(&self, job: JobId) -> String {
        match self {
            Self::Query { sequence, float } => {
                let float = if *float { "float " } else { "" };
                format!("{float}query {}", place(job, *sequence))
            }
            Self::Result { sequence, .. } => format!("result {}", place(job, *sequence)),
            Self::Dismissed => format!("dismissed j{}", job.get()),
        }
    }
}

impl Words for FromServer {
    fn words(&self, job: JobId) -> String {
        match self {
            Self::Entry { sequence, merged, urgent, .. } => {
                let urgent = if *urgent { "urgent " } else { "" };
                format!("{urgent}entry {} {}", place(job, *sequence), set(*merged))
            }
            Self::Closed { sequence } => format!("closed {}", place(job, *sequence)),
            Self::Deliver { sequence, workers, .. } => {
                format!("deliver {} to {}", place(job, *sequence), set(*workers))
            }
        }
    }
}

impl Words for ToServer {
    fn words(&self, job: JobId) -> String {
        match self {
            Self::Missing { sequence, workers } => {
                format!("missing {} {}", place(job, *sequence), set(*workers))
            }
            Self::Partial { sequence, workers, .. } => {
                format!("partial {} {}", place(job, *sequence), set(*workers))
            }
            Self::Known { sequence, .. } => format!("known {}", place(job, *sequence)),
            Self::Over { sequence } => format!("over {}", place(job, *sequence)),
            Self::Finished { workers } => format!("finished j{} {}", job.get(), set(*workers)),
        }
    }
}

#[cfg(test)]
mod tests {
    use tributary_wire::{AggregatorIndex, Audience, Epoch};

    use super::*;

    fn label(kind: Kind, flags: Flags, priority: u8) -> String {
        describe(&Repr {
            protocol: Protocol::Esa,
            kind,
            flags,
            priority,
            job: JobId::new(1).unwrap(),
            epoch: Epoch::FIRST,
            values: 64,
            sequence: Sequence(7),
            bitmap: Bitmap(0b10),
            rack: Rack::NONE,
            audience: Audience::ALL,
            index: AggregatorIndex(0),
        })
    }

    #[test]
    fn repairs_are_named_by_what_they_carry() {
        let repairs = [
            (Kind::Gradient, 2, "repair values j1 s7 {1}"),
            (Kind::Gradient, 3, "repair float values j1 s7 {1}"),
            (Kind::Gradient, 4, "repair result j1 s7 {1}"),
            (Kind::Gradient, 5, "repair float result j1 s7 {1}"),
            (Kind::Parameter, 6, "repair query j1 s7 {1}"),
            (Kind::Parameter, 7, "repair float query j1 s7 {1}"),
        ];
        for (kind, code, expected) in repairs {
            assert_eq!(label(kind, Flags::REPAIR, code), expected);
            assert_eq!(label(kind, Flags::REPAIR | Flags::ECN, code), format!("marked {expected}"));
        }
        // A fragment that is too large for integers has the overflow flag alone.
        assert_eq!(label(Kind::Gradient, Flags::OVERFLOW, 2), "float gradient j1 s7 {1} p=2");
        assert_eq!(label(Kind::Gradient, Flags::COLLISION, 2), "collided gradient j1 s7 {1} p=2");
    }
}
