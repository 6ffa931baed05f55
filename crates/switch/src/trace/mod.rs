//! Traces of packets: everything that the program and the switch do to a packet and its copies.
//!
//! A [`Tracing`] decides which packets are traced, and keeps their [`Recording`]s. Traced packets are
//! interpreted, with the same state as all others (see [`tributary_dataplane::trace`]). They wait in
//! the same queues. A recording ends when the packet and all its copies have left or are dropped.

mod budget;
mod filter;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use tributary_dataplane::trace::{Choice, ChoiceOf, Event, Observer};
use tributary_dataplane::{
    Egress, EgressInput, Ingress, IngressInput, Instance, Packet, Pipeline, Value, Verdict,
};
use tributary_p4::ir::TableId;

pub use self::budget::Budget;
pub use self::filter::{Filter, FilterError};
use crate::forwarding::Forwarding;
use crate::multicast::Replica;

/// Steps of a recording, after which it is cut: a program may recirculate or copy a packet without
/// end.
const MOST_STEPS: usize = 1 << 16;

/// Packets that are recorded at the same time, and steps of the recordings that wait to be read.
/// Beyond them, no other packet is recorded.
const MOST_RUNNING: usize = 1024;
const MOST_WAITING_STEPS: usize = 1 << 21;

/// One copy of a traced packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Traced {
    packet: u64,
    copy: u32,
}

/// What happened to one copy of a packet.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    /// The copy: 0 for the packet that arrived.
    pub copy: u32,
    /// What happened.
    pub what: What,
}

/// What happened.
#[derive(Clone, PartialEq, Debug)]
pub enum What {
    /// Parser and ingress start.
    Ingress {
        /// The port of arrival.
        port: u16,
        /// First pass, resubmitted or recirculated.
        instance: Instance,
        /// Microseconds since the switch started.
        time_us: u64,
        /// The frame.
        frame: Vec<u8>,
    },
    /// A step of the program.
    Event(Event),
    /// A step of the program with several possible outcomes.
    Choice {
        /// The outcomes.
        choice: Choice,
        /// The one taken.
        taken: usize,
    },
    /// The end of ingress.
    Verdict(Verdict),
    /// The packet passes ingress again.
    Resubmitted,
    /// It would, but has too often.
    ResubmitLimit,
    /// The packet goes to another core, which goes on without a trace.
    Elsewhere(u16),
    /// A copy was made and put into a queue.
    Copied {
        /// Its number.
        copy: u32,
        /// The reason.
        why: CopyOf,
        /// The port of the queue.
        port: u16,
        /// Its replication id.
        rid: u16,
    },
    /// No copy was made, or the packet itself was lost.
    Lost {
        /// What should have been.
        why: CopyOf,
        /// The port, if one was meant.
        port: Option<u16>,
        /// Why it was not.
        reason: Loss,
    },
    /// The packet's queue had no room, so it goes to another one (TNA).
    Deflected {
        /// The port of its queue.
        from: u16,
        /// The port of the other.
        to: u16,
    },
    /// The packet itself was put into a queue.
    Queued {
        /// The port of the queue.
        port: u16,
    },
    /// Egress starts.
    Egress {
        /// The port.
        port: u16,
        /// Replication id.
        rid: u16,
        /// The kind of the packet.
        instance: Instance,
        /// Microseconds since the switch started.
        time_us: u64,
    },
    /// A frame leaves.
    Sent {
        /// The port.
        port: u16,
        /// The frame.
        frame: Vec<u8>,
    },
    /// Egress dropped the packet.
    EgressDrop,
    /// The frame enters the parser again.
    Recirculated,
    /// It would, but too many packets wait for that.
    RecirculationLimit,
    /// A digest for the controller.
    Digest {
        /// Its index in [`tributary_dataplane::Pipeline::digests`].
        digest: usize,
        /// The values.
        values: Vec<Value>,
    },
}

/// The origin of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopyOf {
    /// The packet itself.
    Packet,
    /// A replica for a member of this multicast group.
    Group(u16),
    /// A clone for this session, made at the end of ingress.
    IngressClone(u16),
    /// A clone for this session, made at the end of egress.
    EgressClone(u16),
    /// A mirrored copy for this session (TNA).
    Mirror(u16),
    /// A copy for the controller (TNA).
    ToController,
}

/// Why there is no copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// The egress queue is full.
    QueueFull,
    /// The switch has no such port.
    NoSuchPort,
    /// The port has no queue of the packet's priority.
    NoSuchQueue,
    /// The group does not exist.
    NoSuchGroup,
    /// The session does not exist.
    NoSuchSession,
    /// The packet's exclusion set has the port.
    Excluded,
}

/// The trace of one packet and its copies.
#[derive(Clone, PartialEq, Debug)]
pub struct Recording {
    /// The port of arrival.
    pub port: u16,
    /// The frame as it arrived.
    pub frame: Vec<u8>,
    /// Microseconds since the switch started.
    pub time_us: u64,
    /// All steps, in order.
    pub steps: Vec<Step>,
    /// Whether steps are missing, because there were too many.
    pub cut: bool,
    /// Number of copies so far.
    copies: u32,
    /// Those that are still in the switch.
    left: u32,
    /// Number of choices so far.
    choices: usize,
}

impl Recording {
    fn push(&mut self, copy: u32, what: What) {
        if self.steps.len() < MOST_STEPS {
            self.steps.push(Step { copy, what });
        } else {
            self.cut = true;
        }
    }

    /// The choices on the packet's way, in order, each with the outcome taken.
    pub fn choices(&self) -> impl Iterator<Item = (&Choice, usize)> {
        self.steps.iter().filter_map(|step| match &step.what {
            What::Choice { choice, taken } => Some((choice, *taken)),
            _ => None,
        })
    }
}

/// What the traced packets meet where their way is not determined.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Assumptions {
    /// Tables whose entries are unknown.
    pub unknown: BTreeSet<TableId>,
    /// The outcomes to take, in the order of the choices.
    pub path: Vec<usize>,
    /// Whether choices among members of a group take the first one beyond the path, and not the one
    /// that the packet's hash picks. Choices among unknown entries take the first one in any case.
    pub first: bool,
}

/// Selects packets to trace, and keeps their recordings.
#[derive(Debug)]
pub struct Tracing {
    filter: Filter,
    budget: Arc<Budget>,
    assumptions: Assumptions,
    running: BTreeMap<u64, Recording>,
    finished: VecDeque<Recording>,
    /// Steps of the finished recordings.
    waiting: usize,
    next: u64,
    /// Storage for the parser of the filter.
    scratch: Option<Packet>,
}

impl Tracing {
    /// Traces the packets that a filter selects, as long as the budget lasts.
    #[must_use]
    pub fn new(filter: Filter, budget: Arc<Budget>) -> Self {
        Self {
            filter,
            budget,
            assumptions: Assumptions::default(),
            running: BTreeMap::new(),
            finished: VecDeque::new(),
            waiting: 0,
            next: 0,
            scratch: None,
        }
    }

    /// Makes assumptions about the traced packets. They then no longer take the way of others.
    #[must_use]
    pub fn assuming(mut self, assumptions: Assumptions) -> Self {
        self.assumptions = assumptions;
        self
    }

    /// The same for another core, with the same budget.
    pub(crate) fn for_core(&self) -> Self {
        Self::new(self.filter.clone(), Arc::clone(&self.budget)).assuming(self.assumptions.clone())
    }

    /// Starts a recording if the packet is to be traced.
    pub(crate) fn admit(
        &mut self,
        forwarding: &mut Forwarding,
        now_us: u64,
        port: u16,
        frame: &[u8],
    ) -> Option<Traced> {
        let full = self.running.len() >= MOST_RUNNING || self.waiting >= MOST_WAITING_STEPS;
        if full || self.budget.is_spent() || !self.filter.may_match(port, frame) {
            return None;
        }
        let wanted = self.filter.matches(forwarding, &mut self.scratch, now_us, port, frame);
        if !wanted || !self.budget.take(now_us) {
            return None;
        }
        let packet = self.next;
        self.next += 1;
        self.running.insert(
            packet,
            Recording {
                port,
                frame: frame.to_vec(),
                time_us: now_us,
                steps: Vec::new(),
                cut: false,
                copies: 1,
                left: 1,
                choices: 0,
            },
        );
        Some(Traced { packet, copy: 0 })
    }

    /// Withdraws a recording: the packet's registers are at another core, which records it.
    pub(crate) fn withdraw(&mut self, of: Traced) {
        self.running.remove(&of.packet);
        self.budget.give_back();
    }

    pub(crate) fn push(&mut self, of: Traced, what: What) {
        if let Some(recording) = self.running.get_mut(&of.packet) {
            recording.push(of.copy, what);
            // Copies of the packet may go around without end.
            if recording.cut {
                self.finish(of.packet);
            }
        }
    }

    /// Records a new copy for a queue.
    pub(crate) fn copy(&mut self, of: Traced, why: CopyOf, to: Replica) -> Option<Traced> {
        let recording = self.running.get_mut(&of.packet)?;
        let copy = recording.copies;
        recording.copies += 1;
        recording.left += 1;
        let Replica { port, instance: rid } = to;
        recording.push(of.copy, What::Copied { copy, why, port, rid });
        Some(Traced { copy, ..of })
    }

    /// A copy has left the switch, or was dropped.
    pub(crate) fn end(&mut self, of: Traced) {
        let Some(recording) = self.running.get_mut(&of.packet) else { return };
        recording.left -= 1;
        if recording.left == 0 {
            self.finish(of.packet);
        }
    }

    fn finish(&mut self, packet: u64) {
        if let Some(recording) = self.running.remove(&packet) {
            self.waiting += recording.steps.len();
            self.finished.push_back(recording);
        }
    }

    /// Forgets everything about the program and its packets, because another one replaces it.
    pub(crate) fn forget(&mut self) {
        self.scratch = None;
        self.filter.forget();
        self.running.clear();
        self.finished.clear();
        self.waiting = 0;
    }

    pub(crate) fn is_busy(&self) -> bool {
        !self.running.is_empty()
    }

    /// The next recording that is complete.
    pub(crate) fn poll(&mut self) -> Option<Recording> {
        let recording = self.finished.pop_front()?;
        self.waiting -= recording.steps.len();
        Some(recording)
    }

    /// The observer of a copy's next steps; `None` if no more steps are kept.
    pub(crate) fn observer(&mut self, of: Traced) -> Option<Recorder<'_>> {
        let recording = self.running.get_mut(&of.packet).filter(|recording| !recording.cut)?;
        Some(Recorder { recording, copy: of.copy, assumptions: &self.assumptions })
    }
}

/// Records the steps of one copy.
pub(crate) struct Recorder<'t> {
    recording: &'t mut Recording,
    copy: u32,
    assumptions: &'t Assumptions,
}

impl Recorder<'_> {
    fn step(&mut self, what: What) {
        self.recording.push(self.copy, what);
    }
}

impl Observer for Recorder<'_> {
    fn event(&mut self, event: Event) {
        self.recording.push(self.copy, What::Event(event));
    }

    fn is_unknown(&mut self, table: TableId) -> bool {
        self.assumptions.unknown.contains(&table)
    }

    fn choose(&mut self, choice: &Choice) -> usize {
        let first = self.assumptions.first || choice.of == ChoiceOf::Entries;
        let otherwise = if first { 0 } else { choice.actual };
        let decided = self.assumptions.path.get(self.recording.choices).copied();
        let taken = decided.unwrap_or(otherwise).min(choice.outcomes.len().saturating_sub(1));
        self.recording.choices += 1;
        self.recording.push(self.copy, What::Choice { choice: choice.clone(), taken });
        taken
    }
}

/// Records a copy of a packet; returns the trace of the copy, if the packet is traced.
pub(crate) fn copied(
    tracing: &mut Option<Box<Tracing>>,
    of: Option<Traced>,
    why: CopyOf,
    to: Replica,
) -> Option<Traced> {
    tracing.as_mut()?.copy(of?, why, to)
}

/// Records a step of a traced packet.
#[inline]
pub(crate) fn record(
    tracing: &mut Option<Box<Tracing>>,
    of: Option<Traced>,
    what: impl FnOnce() -> What,
) {
    if let (Some(of), Some(tracing)) = (of, tracing) {
        tracing.push(of, what());
    }
}

/// Records that a copy was not made.
pub(crate) fn lost(
    tracing: &mut Option<Box<Tracing>>,
    of: Option<Traced>,
    why: CopyOf,
    port: Option<u16>,
    reason: Loss,
) {
    record(tracing, of, || What::Lost { why, port, reason });
}

/// Runs ingress of a traced packet.
pub(crate) fn ingress(
    tracing: &mut Option<Box<Tracing>>,
    of: Traced,
    pipeline: &mut Pipeline,
    packet: &mut Packet,
    frame: &[u8],
    input: &IngressInput,
) -> Ingress {
    let recorder = tracing.as_mut().and_then(|tracing| tracing.observer(of));
    let Some(mut recorder) = recorder else { return pipeline.ingress(packet, frame, input) };
    let IngressInput { port, instance, time_us } = *input;
    let frame_now = frame.to_vec();
    recorder.step(What::Ingress { port, instance, time_us, frame: frame_now });
    pipeline.ingress_observed(packet, frame, input, &mut recorder)
}

/// Runs egress of a traced packet.
pub(crate) fn egress(
    tracing: &mut Option<Box<Tracing>>,
    of: Traced,
    pipeline: &mut Pipeline,
    packet: &mut Packet,
    input: &EgressInput,
    frame: &mut Vec<u8>,
) -> Egress {
    let recorder = tracing.as_mut().and_then(|tracing| tracing.observer(of));
    let Some(mut recorder) = recorder else { return pipeline.egress(packet, input, frame) };
    let EgressInput { port, rid, instance, time_us, .. } = *input;
    recorder.step(What::Egress { port, rid, instance, time_us });
    pipeline.egress_observed(packet, input, frame, &mut recorder)
}
