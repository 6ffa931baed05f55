//! One direction of a link in virtual time.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

use tributary_endpoint::driver::faults::serialisation;
use tributary_netio::FrameCount;
use tributary_netio::faults::{Admission, FaultInjector, Faults, InvalidFaults, Line, Statistics};
use tributary_wire::agg::{Packet, Repr};

use crate::trace::Fate;

/// Properties of a link without faults.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cable {
    /// Bits per second.
    pub bandwidth: f64,
    /// Propagation delay.
    pub latency: Duration,
}

impl Default for Cable {
    /// 10 Gb/s and 1 µs.
    fn default() -> Self {
        Self { bandwidth: 10e9, latency: Duration::from_micros(1) }
    }
}

impl Cable {
    /// The cable of a link: what the link sets, and otherwise the properties of this cable.
    pub(crate) fn of(self, rate: Option<u64>, latency: Option<Duration>) -> Self {
        Self {
            bandwidth: rate.map_or(self.bandwidth, |rate| rate as f64),
            latency: latency.unwrap_or(self.latency),
        }
    }
}

/// One direction: at most one frame is being sent, any number is in flight.
#[derive(Debug)]
pub(crate) struct Direction {
    cable: Cable,
    /// Bytes that a packet with values counts beyond its own.
    stretch: usize,
    line: Line,
    /// The frame being sent, if any.
    sending: Vec<u8>,
    /// Frames to be sent after it, each with the time from which it can leave.
    queue: VecDeque<(u64, Vec<u8>)>,
    busy: bool,
    /// Length of the last frame, and how long sending it took.
    last: (usize, u64),
    /// The time of the arrival event on the agenda.
    pub(crate) expected: Option<u64>,
    sent: u64,
    arrived: u64,
    /// Whether sent frames are lost, and how many were lost so.
    down: bool,
    /// Until when sent frames are lost because an optical port is dark.
    dark_until: u64,
    /// Whether the frame that is being sent is lost because the circuit changed meanwhile.
    spoiled: bool,
    /// Copies that were in flight when their circuit was parted.
    extinguished: u64,
    cut_off: u64,
    /// Packets that are lost deterministically.
    losses: Vec<Loss>,
    /// Numbers of frames that were disturbed by chance.
    disturbed: Vec<u64>,
    /// When the last frame was lost, duplicated or held back.
    disturbed_at: Option<u64>,
}

/// A packet that is lost deterministically.
pub(crate) struct Loss {
    /// Matching packets that pass before it.
    pub(crate) skip: usize,
    pub(crate) matches: Box<dyn Fn(&Repr) -> bool>,
}

impl fmt::Debug for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loss").field("skip", &self.skip).finish_non_exhaustive()
    }
}

/// Bytes of an aggregation frame without values: all frames of a simulation are of this protocol.
const BARE: usize = 14 + 20 + 8 + 28;

impl Direction {
    pub(crate) fn new(
        cable: Cable,
        mut faults: Faults,
        seed: u64,
        stream: u64,
        only: Option<BTreeSet<u64>>,
        until: Option<u64>,
    ) -> Result<Self, InvalidFaults> {
        faults.delay.fixed += cable.latency;
        let mut injector = FaultInjector::new(faults, seed, stream)?;
        if let Some(only) = only {
            injector = injector.only(only);
        }
        if let Some(until) = until {
            injector = injector.until(until);
        }
        Ok(Self {
            cable,
            stretch: 0,
            line: Line::new(injector),
            sending: Vec::new(),
            queue: VecDeque::new(),
            busy: false,
            last: (0, 0),
            expected: None,
            sent: 0,
            arrived: 0,
            down: false,
            dark_until: 0,
            spoiled: false,
            extinguished: 0,
            cut_off: 0,
            losses: Vec::new(),
            disturbed: Vec::new(),
            disturbed_at: None,
        })
    }

    /// Counts a packet with values as this many bytes longer from now on.
    pub(crate) fn stretch(&mut self, bytes: usize) {
        self.stretch = bytes;
        self.last = (0, 0);
    }

    /// Takes the direction down or up: while down, sent frames are lost. Those in flight arrive.
    pub(crate) fn set_down(&mut self, down: bool) {
        self.down = down;
    }

    /// Makes the direction dark until a time, as when its optical port is joined with another one. What
    /// is being sent or in flight is lost.
    pub(crate) fn darken(&mut self, now: u64, until: u64) {
        self.dark_until = until;
        self.spoiled = self.busy;
        self.extinguished += self.line.clear() as u64;
        self.disturbed_at = Some(now);
    }

    /// Adds a packet to lose.
    pub(crate) fn lose(&mut self, loss: Loss) {
        self.losses.push(loss);
    }

    /// Packets that are still to be lost.
    pub(crate) fn losses_to_come(&self) -> usize {
        self.losses.len()
    }

    /// Numbers of the frames that were lost, duplicated or delayed by chance.
    pub(crate) fn disturbed(&self) -> &[u64] {
        &self.disturbed
    }

    /// When the last frame was lost, duplicated or held back.
    pub(crate) fn disturbed_at(&self) -> Option<u64> {
        self.disturbed_at
    }

    /// Whether a frame can be sent now.
    pub(crate) fn is_idle(&self) -> bool {
        !self.busy
    }

    /// The buffer for the next frame to send.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.sending
    }

    /// Appends a frame to the queue of frames to send; it can leave from this time on.
    pub(crate) fn queue(&mut self, leaves: u64, frame: Vec<u8>) {
        self.queue.push_back((leaves, frame));
    }

    /// Number of queued frames.
    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Moves the first queued frame to the buffer, if the direction is idle. Returns when it can
    /// leave.
    pub(crate) fn take_queued(&mut self) -> Option<u64> {
        if self.busy {
            return None;
        }
        let (leaves, frame) = self.queue.pop_front()?;
        self.sending = frame;
        Some(leaves)
    }

    /// Begins to send the buffer. Returns the duration in nanoseconds.
    pub(crate) fn begin(&mut self) -> u64 {
        self.busy = true;
        let (length, duration) = self.last;
        if length == self.sending.len() {
            return duration;
        }
        let stretch = if self.sending.len() > BARE { self.stretch } else { 0 };
        let duration = serialisation(self.cable.bandwidth, self.sending.len() + stretch);
        self.last = (self.sending.len(), duration);
        duration
    }

    /// Ends sending the frame. Returns whether it will arrive.
    pub(crate) fn finish(&mut self, now: u64) -> Fate {
        if self.is_cut_off(now) {
            return Fate::Lost;
        }
        let admission = self.line.admit_owned(now, &mut self.sending);
        self.sent(now, admission)
    }

    /// Like [`finish`](Self::finish). Also returns the frame.
    pub(crate) fn finish_and_show(&mut self, now: u64) -> (&[u8], Fate) {
        let fate = if self.is_cut_off(now) {
            Fate::Lost
        } else {
            let admission = self.line.admit(now, &self.sending);
            self.sent(now, admission)
        };
        (&self.sending, fate)
    }

    /// Whether the frame whose sending ends is lost, but not by chance.
    fn is_cut_off(&mut self, now: u64) -> bool {
        self.busy = false;
        let spoiled = std::mem::take(&mut self.spoiled);
        let down = self.down || spoiled || now < self.dark_until;
        self.cut_off += u64::from(down);
        let lost = down || !self.losses.is_empty() && self.is_to_be_lost();
        if lost {
            self.disturbed_at = Some(now);
        }
        lost
    }

    fn sent(&mut self, now: u64, admission: Admission) -> Fate {
        if admission.disturbed {
            self.disturbed.push(self.sent);
            self.disturbed_at = Some(now);
        }
        self.sent += 1;
        if admission.lost { Fate::Lost } else { Fate::Arrived }
    }

    fn is_to_be_lost(&mut self) -> bool {
        let Ok(packet) = Packet::new_checked(&self.sending[..]) else { return false };
        let mut due = None;
        for (at, loss) in self.losses.iter_mut().enumerate() {
            if (loss.matches)(packet.repr()) {
                if loss.skip == 0 {
                    due = Some(at);
                } else {
                    loss.skip -= 1;
                }
            }
        }
        due.map(|at| self.losses.remove(at)).is_some()
    }

    /// The next frame that has arrived, moved into `frame`.
    pub(crate) fn arrive(&mut self, now: u64, frame: &mut Vec<u8>) -> bool {
        let arrived = self.line.take(now, frame);
        self.arrived += u64::from(arrived);
        arrived
    }

    /// Time of the next arrival, if no more is sent.
    pub(crate) fn next_arrival(&self) -> Option<u64> {
        self.line.next_due()
    }

    /// Whether each frame that was sent has arrived, was lost, or is in flight.
    pub(crate) fn is_balanced(&self) -> bool {
        let Statistics { frames, lost, duplicated, .. } = self.line.statistics();
        frames + duplicated == self.arrived + lost + self.extinguished + self.line.len() as u64
    }

    /// Frames sent so far, and those that have arrived or are on their way.
    pub(crate) fn crossed(&self) -> FrameCount {
        let Statistics { frames, lost, cut_off, .. } = self.statistics();
        FrameCount {
            sent: frames,
            received: frames.saturating_sub(lost + cut_off + self.extinguished),
        }
    }

    /// Counters of faults.
    pub(crate) fn statistics(&self) -> Statistics {
        let mut statistics = self.line.statistics();
        statistics.frames += self.cut_off;
        statistics.cut_off += self.cut_off;
        statistics
    }
}
