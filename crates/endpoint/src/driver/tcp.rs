//! TCP over links with faults: when bytes written at one end arrive at the other.
//!
//! ESA's reliable channels are TCP, and their segments cross the same links as the packets. In
//! virtual time and in the memory fabric no kernel sends them over these links, so a [`Connection`]
//! computes their arrivals. It implements the parts of TCP that affect them:
//!
//! - Segments, which also acknowledge, and pure acknowledgements pass every link of the path in
//!   both directions, each with its own loss, duplication, reordering, delay and jitter. Bytes
//!   arrive complete and in order (RFC 9293 §3.4), so one lost segment delays all behind it.
//! - A lost segment is sent again as soon as a segment sent noticeably later has arrived, or three
//!   segments after it (selective acknowledgements, RFC 2018 and RFC 8985 §6); otherwise by one
//!   probe of the last segment (RFC 8985 §7), and then after the retransmission timeout, which RFC
//!   6298 computes and doubles each time. Losses shrink the congestion window (RFC 5681 §3.1).
//! - No bytes pass before the handshake: the client's SYN and its answer can be lost, too.
//! - If nothing has been acknowledged for [`USER_TIMEOUT`], the connection is broken (RFC 9293
//!   §3.10.8), as `tributary-reminder` configures the kernel to do. The retransmission timer fires
//!   then at the latest, as in Linux.
//!
//! A path with a dead link therefore never delivers. The bounds of the timeout are Linux's. Not
//! implemented: the receive window, delayed acknowledgements, and the timer of RFC 8985 §6.3 for
//! segments sent close together.
//!
//! A link that sets its rate sends the segments of a connection one after the other. It does not
//! share this rate with packets or other connections. On links that set no rate, segments take no
//! time to send; on links that set no latency, they have none beyond that of the connection.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tributary_model::{HostId, LinkId, Topology, plan};
use tributary_netio::faults::{Delay, FaultInjector, Faults, InvalidFaults, Line};
use tributary_protocol::rtt::{RttConfig, RttEstimator};

use crate::driver::faults::{of_link, serialisation};

/// Time without acknowledgement after which a connection is broken.
pub const USER_TIMEOUT: Duration = Duration::from_secs(25);

/// RFC 6298 §2.1 before the first sample; otherwise the bounds of Linux.
const TIMEOUTS: RttConfig = RttConfig {
    initial: Duration::from_secs(1),
    min: Duration::from_millis(200),
    max: Duration::from_secs(120),
};

/// Segments in flight at the start (RFC 6928).
const INITIAL_WINDOW: f64 = 10.0;

/// Arrivals of later segments that make a segment lost (RFC 5681 §3.2).
const LATER_SEGMENTS: usize = 3;

/// Added to twice the round-trip time before the last segment is sent as a probe: two ticks of
/// Linux's clock, and for a single segment the longest delay of an acknowledgement (RFC 8985 §7.2).
const PROBE_SLACK: [Duration; 2] = [Duration::from_millis(8), Duration::from_millis(200)];

/// Bytes of the headers of IP and TCP.
const HEADERS: u32 = 40;

/// Bytes of the header of Ethernet.
const ETHERNET: usize = 14;

/// Random streams of links; those of connections come after them.
const CABLES: u64 = 1 << 32;

/// Random streams per direction of a connection, which may have at most half as many links.
const STREAMS: u64 = 1 << 9;

/// Direction of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Way {
    /// To the agent, which listens.
    Up,
    /// From the agent.
    Down,
}

impl Way {
    /// Both directions.
    pub const BOTH: [Self; 2] = [Self::Up, Self::Down];

    /// The other direction.
    #[must_use]
    pub fn back(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }
}

/// Determines which segments are disturbed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Luck {
    /// Seed of the faults.
    pub seed: u64,
    /// Whether to disable loss, duplication and reordering; delays and dead links remain.
    pub spared: bool,
    /// When loss, duplication and reordering end; `None` for never.
    pub until: Option<u64>,
}

/// A connection, from the client's SYN on. Time is in nanoseconds and never decreases.
#[derive(Debug)]
pub struct Connection {
    paths: [Path; 2],
    senders: [Sender; 2],
    receivers: [Receiver; 2],
    /// Maximum bytes per segment.
    segment: usize,
}

impl Connection {
    /// A connection of a client to an agent, over the links of packets between the two, and with an
    /// additional `delay`. `number` is unique among the connections of a run.
    ///
    /// # Errors
    /// If the faults are invalid.
    pub fn open(
        topology: &Topology,
        [client, agent]: [HostId; 2],
        delay: Delay,
        luck: Luck,
        number: u64,
    ) -> Result<Self, InvalidFaults> {
        let way = plan::way(topology, client, agent);
        let path = |direction: Way| {
            let mut links = way.clone();
            if direction == Way::Down {
                links.reverse();
            }
            let stream = (2 * number + direction as u64) * STREAMS / 2;
            Path::new(topology, &links, delay, luck, CABLES + stream)
        };
        let mtu = way.iter().map(|link| topology.link(*link).mtu).min();
        Ok(Self {
            paths: [path(Way::Up)?, path(Way::Down)?],
            senders: Default::default(),
            receivers: Default::default(),
            segment: mtu.map_or(1, |mtu| mtu.saturating_sub(HEADERS).max(1)) as usize,
        })
    }

    /// Sends the SYN. The SYN and its answer are first segments without bytes.
    pub fn connect(&mut self, now: u64) {
        for sender in &mut self.senders {
            sender.append(Vec::new());
        }
        self.transmit(now, Way::Up);
    }

    /// Whether the agent's answer to the SYN has arrived.
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.senders[Way::Up as usize].first > 0
    }

    /// Whether the client's SYN has reached the agent.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        self.receivers[Way::Up as usize].expected > 0
    }

    /// Writes bytes at one end.
    pub fn write(&mut self, now: u64, way: Way, bytes: &[u8]) {
        self.senders[way as usize].write(bytes, self.segment);
        self.transmit(now, way);
    }

    /// Bytes that were written and are not acknowledged yet.
    #[must_use]
    pub fn backlog(&self, way: Way) -> usize {
        self.senders[way as usize].segments.iter().map(|segment| segment.bytes.len()).sum()
    }

    /// Processes everything that is due.
    pub fn advance(&mut self, now: u64) {
        while let Some(due) = self.next_due().filter(|due| *due <= now) {
            for way in Way::BOTH {
                while let Some(frame) = self.paths[way as usize].arrive(due) {
                    self.on_frame(due, way, &frame);
                }
                if self.senders[way as usize].timer.is_some_and(|timer| timer <= due) {
                    self.senders[way as usize].time_out(due);
                    self.transmit(due, way);
                }
            }
        }
    }

    /// The next time at which something is due.
    #[must_use]
    pub fn next_due(&self) -> Option<u64> {
        let paths = self.paths.iter().filter_map(Path::next_due);
        paths.chain(self.senders.iter().filter_map(|sender| sender.timer)).min()
    }

    /// When the last segment or acknowledgement was lost, duplicated or held back.
    #[must_use]
    pub fn disturbed_at(&self) -> Option<u64> {
        let hops = self.paths.iter().flat_map(|path| &path.hops);
        hops.filter_map(|hop| hop.disturbed_at).max()
    }

    /// Bytes that have arrived at the other end and were not taken yet.
    #[must_use]
    pub fn received(&self, way: Way) -> &[u8] {
        &self.receivers[way as usize].received
    }

    /// Takes the first `count` of the bytes that have arrived.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn take(&mut self, way: Way, count: usize) -> impl Iterator<Item = u8> {
        self.receivers[way as usize].received.drain(..count)
    }

    /// Whether one end has given up.
    #[must_use]
    pub fn is_broken(&self, now: u64) -> bool {
        let patience = u64::try_from(USER_TIMEOUT.as_nanos()).unwrap_or(u64::MAX);
        self.senders.iter().any(|sender| {
            let waiting = sender.next > sender.first;
            waiting && now.saturating_sub(sender.progress) >= patience
        })
    }

    /// Takes a link down or up. While it is down, segments that enter it are lost.
    pub fn set_down(&mut self, link: LinkId, down: bool) {
        for hop in self.paths.iter_mut().flat_map(|path| &mut path.hops) {
            hop.down = if hop.link == Some(link) { down } else { hop.down };
        }
    }

    /// Handles an arrived frame. Each acknowledges the opposite direction, and a segment is
    /// acknowledged at once.
    fn on_frame(&mut self, now: u64, way: Way, frame: &Frame) {
        self.senders[way.back() as usize].acknowledge(now, frame.expected, &frame.early);
        if let Some((number, bytes)) = &frame.segment {
            self.receivers[way as usize].take(*number, bytes);
        }
        let sent = self.transmit(now, way.back());
        if frame.segment.is_some() && !sent {
            self.send(now, way.back(), None);
        }
    }

    /// Sends what the window allows. Returns whether anything was sent.
    fn transmit(&mut self, now: u64, way: Way) -> bool {
        let may_speak = way == Way::Up || self.is_accepted();
        let mut sent = false;
        while may_speak && let Some(segment) = self.senders[way as usize].next_segment(now) {
            self.send(now, way, Some(segment));
            sent = true;
        }
        sent
    }

    fn send(&mut self, now: u64, way: Way, segment: Option<(u64, Vec<u8>)>) {
        let receiver = &self.receivers[way.back() as usize];
        let early = receiver.early.keys().copied().collect();
        let frame = Frame { expected: receiver.expected, early, segment };
        self.paths[way as usize].admit(now, &frame);
    }
}

/// A frame on a path.
#[derive(Debug)]
struct Frame {
    /// The number of the next expected segment from the other end.
    expected: u64,
    /// Later segments that have arrived.
    early: Vec<u64>,
    /// A segment's number and bytes; `None` for a pure acknowledgement.
    segment: Option<(u64, Vec<u8>)>,
}

impl Frame {
    fn encode(&self) -> Vec<u8> {
        let count = self.early.len() as u64;
        let numbers = [self.expected, count].into_iter().chain(self.early.iter().copied());
        let mut frame: Vec<u8> = numbers.flat_map(u64::to_be_bytes).collect();
        if let Some((number, bytes)) = &self.segment {
            frame.extend(number.to_be_bytes());
            frame.extend(bytes);
        }
        frame
    }

    /// Length of an encoded frame on a link. Numbers of early segments fit in the header's options.
    fn length(&self) -> usize {
        let bytes = self.segment.as_ref().map_or(0, |(_, bytes)| bytes.len());
        ETHERNET + HEADERS as usize + bytes
    }

    fn decode(frame: &[u8]) -> Self {
        let mut rest = frame;
        let mut number = || {
            let (number, after) = rest.split_first_chunk()?;
            rest = after;
            Some(u64::from_be_bytes(*number))
        };
        let expected = number().expect("a frame of ours");
        let count = number().expect("a frame of ours");
        let early = (0..count).filter_map(|_| number()).collect();
        let segment = number();
        Self { expected, early, segment: segment.map(|number| (number, rest.to_vec())) }
    }
}

/// The links from one end to the other, in order.
#[derive(Debug)]
struct Path {
    hops: Vec<Hop>,
}

#[derive(Debug)]
struct Hop {
    /// `None`: the delay of the connection itself.
    link: Option<LinkId>,
    line: Line,
    down: bool,
    /// Bits per second, if the link sets it.
    rate: Option<f64>,
    /// When the last frame has been sent.
    free: u64,
    /// When the last segment was lost, duplicated or held back.
    disturbed_at: Option<u64>,
}

impl Path {
    fn new(
        topology: &Topology,
        links: &[LinkId],
        delay: Delay,
        luck: Luck,
        stream: u64,
    ) -> Result<Self, InvalidFaults> {
        let own = (None, Faults { delay, ..Faults::default() });
        let of_link = |id: &LinkId| {
            let link = topology.link(*id);
            let mut faults = of_link(&link.faults);
            faults.delay.fixed += link.latency.unwrap_or_default();
            (Some(*id), faults)
        };
        let faults = std::iter::once(own).chain(links.iter().map(of_link));
        let hop = |(at, (link, faults)): (u64, (Option<LinkId>, Faults))| {
            let rate = link.and_then(|link| topology.link(link).rate).map(|rate| rate as f64);
            let mut injector = FaultInjector::new(faults, luck.seed, stream + at)?;
            if luck.spared {
                injector = injector.only(BTreeSet::new());
            }
            if let Some(until) = luck.until {
                injector = injector.until(until);
            }
            Ok(Hop {
                link,
                line: Line::new(injector),
                down: false,
                rate,
                free: 0,
                disturbed_at: None,
            })
        };
        Ok(Self { hops: (0..).zip(faults).map(hop).collect::<Result<_, _>>()? })
    }

    fn admit(&mut self, now: u64, frame: &Frame) {
        self.hops[0].admit(now, &frame.encode());
    }

    fn next_due(&self) -> Option<u64> {
        self.hops.iter().filter_map(|hop| hop.line.next_due()).min()
    }

    /// The next frame that has passed all links.
    fn arrive(&mut self, now: u64) -> Option<Frame> {
        for at in 0..self.hops.len() {
            let (before, after) = self.hops.split_at_mut(at + 1);
            let line = &mut before[at].line;
            while let Some(frame) = line.front(now) {
                match after.first_mut() {
                    Some(next) => next.admit(now, frame),
                    None => {
                        let frame = Frame::decode(frame);
                        line.advance();
                        return Some(frame);
                    }
                }
                line.advance();
            }
        }
        None
    }
}

impl Hop {
    fn admit(&mut self, now: u64, frame: &[u8]) {
        if self.down {
            self.disturbed_at = Some(now);
            return;
        }
        let sending =
            self.rate.map_or(0, |rate| serialisation(rate, Frame::decode(frame).length()));
        self.free = now.max(self.free).saturating_add(sending);
        if self.line.admit(self.free, frame).disturbed {
            self.disturbed_at = Some(now);
        }
    }
}

/// An unacknowledged segment.
#[derive(Debug)]
struct Segment {
    bytes: Vec<u8>,
    sent: u64,
    times: u32,
    /// It has arrived, but not all before it.
    arrived: bool,
    /// It must be sent again.
    lost: bool,
}

/// One end's sending half. Segments are numbered from 0.
#[derive(Debug)]
struct Sender {
    /// Unacknowledged segments.
    segments: VecDeque<Segment>,
    first: u64,
    /// Number of the next segment to be sent for the first time.
    next: u64,
    /// Maximum number of segments in flight, and the slow start threshold.
    window: f64,
    threshold: f64,
    /// Loss recovery lasts until this segment is acknowledged.
    recovery: Option<u64>,
    /// Latest send time of the segments that have arrived.
    latest: u64,
    rtt: RttEstimator,
    timer: Option<u64>,
    /// Whether the timer is that of a probe, and whether one was sent since the last progress.
    probing: bool,
    probed: bool,
    /// Time of the last acknowledgement, or of the first segment sent with nothing in flight.
    progress: u64,
}

impl Default for Sender {
    fn default() -> Self {
        Self {
            segments: VecDeque::new(),
            first: 0,
            next: 0,
            window: INITIAL_WINDOW,
            threshold: f64::INFINITY,
            recovery: None,
            latest: 0,
            rtt: RttEstimator::new(TIMEOUTS),
            timer: None,
            probing: false,
            probed: false,
            progress: 0,
        }
    }
}

impl Sender {
    fn append(&mut self, bytes: Vec<u8>) {
        let (sent, times) = (0, 0);
        self.segments.push_back(Segment { bytes, sent, times, arrived: false, lost: false });
    }

    /// Appends bytes in segments of at most `most` bytes, filling unsent segments first.
    fn write(&mut self, bytes: &[u8], most: usize) {
        let mut bytes = bytes;
        if let Some(last) = self.segments.back_mut()
            && last.times == 0
            && !last.bytes.is_empty()
        {
            let (fits, rest) = bytes.split_at(bytes.len().min(most - last.bytes.len()));
            last.bytes.extend(fits);
            bytes = rest;
        }
        for segment in bytes.chunks(most) {
            self.append(segment.to_vec());
        }
    }

    /// Segments that were sent and are not acknowledged.
    fn sent(&mut self) -> impl DoubleEndedIterator<Item = &mut Segment> {
        self.segments.iter_mut().take((self.next - self.first) as usize)
    }

    /// Number of segments in flight, as far as known.
    fn under_way(&mut self) -> usize {
        self.sent().filter(|segment| !segment.arrived && !segment.lost).count()
    }

    /// A segment to be sent now; during the handshake only the first may be in flight.
    fn next_segment(&mut self, now: u64) -> Option<(u64, Vec<u8>)> {
        let window = if self.first == 0 { 1 } else { (self.window as usize).max(1) };
        if self.under_way() >= window {
            return None;
        }
        let lost = self.sent().position(|segment| segment.lost);
        let at = match lost {
            Some(at) => at,
            None if self.next < self.first + self.segments.len() as u64 => {
                self.next += 1;
                (self.next - self.first - 1) as usize
            }
            None => return None,
        };
        let segment = &mut self.segments[at];
        if at == 0 && segment.times == 0 {
            self.progress = now;
        }
        segment.sent = now;
        segment.times += 1;
        segment.lost = false;
        let chosen = (self.first + at as u64, segment.bytes.clone());
        if self.timer.is_none() {
            self.set_timer(now);
        }
        Some(chosen)
    }

    fn set_timer(&mut self, now: u64) {
        let timeout = self.rtt.timeout();
        let smoothed = self.rtt.smoothed().filter(|_| !self.probed && self.recovery.is_none());
        let lone = usize::from(self.under_way() <= 1);
        let probe = smoothed.map(|smoothed| 2 * smoothed + PROBE_SLACK[lone]);
        self.probing = probe.is_some();
        let mut after = probe.map_or(timeout, |probe| probe.min(timeout));
        // Linux's timer is never later than the end of the user timeout.
        let waited = Duration::from_nanos(now.saturating_sub(self.progress));
        if let Some(left) = USER_TIMEOUT.checked_sub(waited).filter(|left| !left.is_zero()) {
            after = after.min(left);
        }
        self.timer = Some(now.saturating_add(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX)));
    }

    /// Handles an acknowledgement of all segments before `expected` and those in `early`.
    fn acknowledge(&mut self, now: u64, expected: u64, early: &[u64]) {
        if expected > self.first {
            self.on_progress(now, expected);
        }
        for number in early {
            if let Some(at) = number.checked_sub(self.first)
                && let Some(segment) = self.segments.get_mut(at as usize)
                && !segment.arrived
            {
                segment.arrived = true;
                segment.lost = false;
                self.latest = self.latest.max(segment.sent);
            }
        }
        self.find_lost();
    }

    fn on_progress(&mut self, now: u64, expected: u64) {
        let under_way = expected.min(self.next) - self.first;
        let mut once = None;
        for segment in self.segments.drain(..under_way as usize) {
            self.latest = self.latest.max(segment.sent);
            // Karn's rule: the acknowledgement of a retransmitted segment gives no round-trip time.
            once = (segment.times == 1 && !segment.arrived).then_some(segment.sent);
        }
        self.first += under_way;
        self.progress = now;
        self.probed = false;
        match once {
            Some(sent) => self.rtt.sample(Duration::from_nanos(now - sent)),
            None => self.rtt.progress(),
        }
        match self.recovery {
            Some(recovered) if self.first < recovered => {}
            Some(_) => self.recovery = None,
            None if self.window < self.threshold => self.window += 1.0,
            None => self.window += 1.0 / self.window,
        }
        self.timer = None;
        if self.next > self.first {
            self.set_timer(now);
        }
    }

    /// Marks segments as lost, based on those that have arrived.
    fn find_lost(&mut self) {
        let reordering = self.rtt.smoothed().unwrap_or_default().as_nanos() as u64 / 4;
        let latest = self.latest;
        let mut later = 0;
        let mut found = false;
        for segment in self.sent().rev() {
            if segment.arrived {
                later += 1;
            } else if !segment.lost {
                let overtaken = segment.sent + reordering < latest;
                let passed = later >= LATER_SEGMENTS && segment.sent <= latest;
                segment.lost = overtaken || passed;
                found |= segment.lost;
            }
        }
        if found && self.recovery.is_none() {
            self.shrink();
            self.window = self.threshold;
            self.recovery = Some(self.next);
        }
    }

    fn shrink(&mut self) {
        self.threshold = ((self.next - self.first) as f64 / 2.0).max(2.0);
    }

    /// Handles the timer: sends the last segment as a probe, or restarts slowly from the first.
    fn time_out(&mut self, now: u64) {
        if self.probing {
            self.probed = true;
            if let Some(last) = self.sent().rfind(|segment| !segment.arrived) {
                last.lost = true;
            }
        } else {
            self.rtt.back_off();
            self.shrink();
            self.window = 1.0;
            self.recovery = None;
            for segment in self.sent().filter(|segment| !segment.arrived) {
                segment.lost = true;
            }
        }
        self.set_timer(now);
    }
}

/// One end's receiving half.
#[derive(Debug, Default)]
struct Receiver {
    expected: u64,
    early: BTreeMap<u64, Vec<u8>>,
    received: Vec<u8>,
}

impl Receiver {
    fn take(&mut self, number: u64, bytes: &[u8]) {
        if number >= self.expected {
            self.early.insert(number, bytes.to_vec());
        }
        while let Some(bytes) = self.early.remove(&self.expected) {
            self.received.extend(bytes);
            self.expected += 1;
        }
    }
}

#[cfg(test)]
mod tests;
