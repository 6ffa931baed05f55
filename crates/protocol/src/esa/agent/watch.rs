//! The agent's state for one entry of a server's dictionary.

use tributary_wire::WorkerSet;

use crate::Time;

/// An incomplete entry.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    /// Workers whose values the server lacks, as far as the agent knows.
    pub(super) missing: WorkerSet,
    /// The task is collected in floats, so partial sums cannot be merged.
    pub(super) float: bool,
    /// When the entry was set up.
    pub(super) since: Time,
    /// When the next poll is due, or the timer.
    pub(super) due: Time,
    /// When the timer fires.
    pub(super) timer: Time,
    /// Before this time, only the timer begins a round.
    pub(super) rest_until: Time,
    /// Number of polls; [`u32::BITS`] ends polling.
    pub(super) polls: u32,
    /// When the switches were last reminded, if they had answered all reminders before.
    pub(super) reminded: Option<Time>,
    /// Number of rounds that the timer began.
    pub(super) timeouts: u32,
    /// Number of contributions to later tasks.
    pub(super) later: u8,
    /// Whether contributions to later tasks began a round since the timer last fired.
    pub(super) fast: bool,
    /// Whether the agent began a round. The time to completion is then no measure of the network.
    pub(super) pursued: bool,
    /// Number of unanswered reminders of this round.
    pub(super) awaited: u32,
    /// Whether to query the workers that are still missing after these answers.
    pub(super) ask: bool,
    /// Whether workers were queried in this round.
    pub(super) asked: bool,
    pub(super) stopwatch: Stopwatch,
}

/// The times that the agent's counters are measured from. They have no effect on what it does.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stopwatch {
    /// When the first round began.
    pub(super) pursued: Option<Time>,
    /// When workers were first queried.
    pub(super) asked: Option<Time>,
}

impl Watch {
    pub(super) fn new(missing: WorkerSet, float: bool, now: Time, due: Time, timer: Time) -> Self {
        Self {
            missing,
            float,
            since: now,
            due,
            timer,
            rest_until: now,
            polls: 0,
            reminded: None,
            timeouts: 0,
            later: 0,
            fast: false,
            pursued: false,
            awaited: 0,
            ask: false,
            asked: false,
            stopwatch: Stopwatch::default(),
        }
    }
}
