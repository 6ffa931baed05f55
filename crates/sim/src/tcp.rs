//! TCP over links with faults: when what is written at one end comes out at the other.
//!
//! ESA's reliable channels are TCP, and their segments cross the same links as the packets. Where
//! no kernel sends them over these links, in virtual time and in the memory fabric, a [`Connection`]
//! says when they arrive. It is as much of TCP as decides that:
//!
//! - Segments, which also acknowledge, and acknowledgements alone pass every link of the way, in either
//!   direction, and suffer its loss, duplication, reordering, delay and jitter, each with its own
//!   luck. What is written comes out complete and in order (RFC 9293 §3.4), so one lost segment holds up all behind it.
//! - A lost segment is sent again as soon as one that was sent noticeably later has arrived, or three
//!   that come after it (selective acknowledgements, RFC 2018 and RFC 8985 §6); else by one probe of
//!   the last segment (RFC 8985 §7), and then after the retransmission timeout, which RFC 6298
//!   computes and doubles each time. Losses shrink the congestion window (RFC 5681 §3.1).
//! - Nothing passes before the handshake: the client's SYN, and its answer, can be lost, too.
//! - If nothing has been acknowledged for [`USER_TIMEOUT`], the connection is broken (RFC 9293
//!   §3.10.8), as `tributary-reminder` has the kernel break it.
//!
//! A way with a dead link therefore never delivers. The bounds of the timeout are Linux's. Left out
//! are the receive window, delayed acknowledgements, the timer of RFC 8985 §6.3 for segments that were
//! sent close together, and the time that a segment takes on the wire.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tributary_controller::plan;
use tributary_jobfile::{HostId, LinkId, Topology};
use tributary_netio::faults::{Delay, FaultInjector, Faults, InvalidFaults, Line};
use tributary_protocol::rtt::{RttConfig, RttEstimator};

/// Time without acknowledgement after which a connection is broken.
pub const USER_TIMEOUT: Duration = Duration::from_secs(25);

/// RFC 6298 §2.1 before the first sample; between, the bounds of Linux.
const TIMEOUTS: RttConfig = RttConfig {
    initial: Duration::from_secs(1),
    min: Duration::from_millis(200),
    max: Duration::from_secs(120),
};

/// Segments under way at the start (RFC 6928).
const INITIAL_WINDOW: f64 = 10.0;

/// Later segments whose arrival makes one before them a lost one (RFC 5681 §3.2).
const LATER_SEGMENTS: usize = 3;

/// What is added to twice the round-trip time before the last segment is sent as a probe: two ticks of
/// Linux's clock, and for a lone segment the longest delay of an acknowledgement (RFC 8985 §7.2).
const PROBE_SLACK: [Duration; 2] = [Duration::from_millis(8), Duration::from_millis(200)];

/// Bytes of the headers of IP and TCP.
const HEADERS: u32 = 40;

/// Streams of faults that belong to cables; those of connections come after them.
const CABLES: u64 = 1 << 32;

/// Streams of faults that a connection may use: those of one way, of at most half as many links.
const STREAMS: u64 = 1 << 9;

/// Which way bytes go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Way {
    /// To the agent, which listens.
    Up,
    /// From the agent.
    Down,
}

impl Way {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Up, Self::Down];

    /// The other one.
    #[must_use]
    pub fn back(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }
}

/// What decides which segments suffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Luck {
    /// Seed of the faults.
    pub seed: u64,
    /// Nothing is lost, doubled or held back; delays and links that are down stay.
    pub spared: bool,
}

/// A connection, from the client's SYN on. Time is in nanoseconds and never decreases.
#[derive(Debug)]
pub struct Connection {
    paths: [Path; 2],
    senders: [Sender; 2],
    receivers: [Receiver; 2],
    /// Bytes of a segment at most.
    segment: usize,
}

impl Connection {
    /// A connection of a client to an agent, over the links that packets between the two take, and
    /// with a `delay` of its own. `number` tells the connections of one run apart.
    ///
    /// # Errors
    /// If the faults make no sense.
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

    /// Sends the SYN. That and its answer are the first segments of their ways, without bytes.
    pub fn connect(&mut self, now: u64) {
        for sender in &mut self.senders {
            sender.append(Vec::new());
        }
        self.transmit(now, Way::Up);
    }

    /// Whether the agent's answer to the SYN is in.
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

    /// Bytes that were written and are not acknowledged.
    #[must_use]
    pub fn backlog(&self, way: Way) -> usize {
        self.senders[way as usize].segments.iter().map(|segment| segment.bytes.len()).sum()
    }

    /// Lets everything happen that is due.
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

    /// When something is due next.
    #[must_use]
    pub fn next_due(&self) -> Option<u64> {
        let paths = self.paths.iter().filter_map(Path::next_due);
        paths.chain(self.senders.iter().filter_map(|sender| sender.timer)).min()
    }

    /// What has come out at the other end and was not taken.
    #[must_use]
    pub fn received(&self, way: Way) -> &[u8] {
        &self.receivers[way as usize].received
    }

    /// Takes the first `count` bytes of what has come out.
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

    /// Takes a link down, or up again: while it is down, what enters it is lost.
    pub fn set_down(&mut self, link: LinkId, down: bool) {
        for hop in self.paths.iter_mut().flat_map(|path| &mut path.hops) {
            hop.down = if hop.link == Some(link) { down } else { hop.down };
        }
    }

    /// A frame has come out of a way. Each acknowledges what went back, and a segment is
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

    /// Sends what the window allows. Returns whether that was anything.
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

/// What passes a way.
#[derive(Debug)]
struct Frame {
    /// The number of the segment that is expected from the other end next.
    expected: u64,
    /// Later ones that have arrived.
    early: Vec<u64>,
    /// A segment's number and bytes; without, it is an acknowledgement alone.
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

/// The links from one end to the other, one after another.
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
        let of_link = |link: &LinkId| (Some(*link), Faults::from(&topology.link(*link).faults));
        let faults = std::iter::once(own).chain(links.iter().map(of_link));
        let hop = |(at, (link, faults))| {
            let mut injector = FaultInjector::new(faults, luck.seed, stream + at)?;
            if luck.spared {
                injector = injector.only(BTreeSet::new());
            }
            Ok(Hop { link, line: Line::new(injector), down: false })
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
        if !self.down {
            self.line.admit(now, frame);
        }
    }
}

/// A segment that is not acknowledged.
#[derive(Debug)]
struct Segment {
    bytes: Vec<u8>,
    sent: u64,
    times: u32,
    /// It has arrived, though not all before it.
    arrived: bool,
    /// It is to be sent again.
    lost: bool,
}

/// One end's sending half. Segments are numbered from 0.
#[derive(Debug)]
struct Sender {
    /// From the first that is not acknowledged on.
    segments: VecDeque<Segment>,
    first: u64,
    /// The one to be sent next for the first time.
    next: u64,
    /// Segments that may be under way, and from where on the window grows slowly.
    window: f64,
    threshold: f64,
    /// Until this one is acknowledged, a loss before it is being repaired.
    recovery: Option<u64>,
    /// When the segment was sent that was sent last of those that have arrived.
    latest: u64,
    rtt: RttEstimator,
    timer: Option<u64>,
    /// Whether the timer is that of a probe, and whether one was sent since the last progress.
    probing: bool,
    probed: bool,
    /// When something was acknowledged, or first sent with nothing under way.
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

    /// Appends bytes in segments of at most `most`; what waits for the window is filled up first.
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

    /// How many of these are under way, as far as is known.
    fn under_way(&mut self) -> usize {
        self.sent().filter(|segment| !segment.arrived && !segment.lost).count()
    }

    /// A segment to be sent now; during the handshake only the first may be under way.
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
        let after = probe.map_or(timeout, |probe| probe.min(timeout));
        self.timer = Some(now.saturating_add(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX)));
    }

    /// All segments before `expected` have arrived, and so have those of `early`.
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

    /// Finds segments that are lost, by those that have arrived.
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

    /// The timer has fired: the last segment goes once more, or all do, slowly.
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
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    /// Of the connections here, each way.
    const DELAY: u64 = MS / 10;

    fn topology(faults: &str) -> Topology {
        let text = format!("[topology]\nworkers = 1\nps_hosts = 1\n[faults]\n{faults}\n[[job]]\n");
        tributary_jobfile::parse(&text, "f").unwrap().topology
    }

    fn connect(faults: &str, seed: u64) -> Connection {
        let topology = topology(faults);
        let hosts = ["w1", "ps"].map(|name| topology.host_named(name).unwrap());
        let delay = Delay { fixed: Duration::from_nanos(DELAY), jitter: Duration::ZERO };
        let luck = Luck { seed, spared: false };
        let mut connection = Connection::open(&topology, hosts, delay, luck, 0).unwrap();
        connection.connect(0);
        connection
    }

    /// The time at which so many bytes have come out.
    fn arrival(connection: &mut Connection, way: Way, bytes: usize) -> u64 {
        while let Some(due) = connection.next_due() {
            connection.advance(due);
            if connection.received(way).len() >= bytes {
                return due;
            }
        }
        panic!("nothing happens any more");
    }

    /// Lets happen what happens until a time.
    fn settle(connection: &mut Connection, until: u64) {
        connection.advance(until);
    }

    fn set_down(connection: &mut Connection, down: bool) {
        connection.set_down(LinkId(0), down);
    }

    #[test]
    fn without_faults_bytes_come_out_after_the_handshake_and_the_delay() {
        let mut connection = connect("", 1);
        connection.write(0, Way::Up, b"question");
        assert_eq!(arrival(&mut connection, Way::Up, 8), 3 * DELAY);
        connection.write(3 * DELAY, Way::Down, b"answer");
        assert_eq!(arrival(&mut connection, Way::Down, 6), 4 * DELAY);
        assert_eq!(connection.take(Way::Up, 8).collect::<Vec<_>>(), b"question");
        settle(&mut connection, MS);
        assert_eq!((connection.next_due(), connection.backlog(Way::Up)), (None, 0));
    }

    #[test]
    fn delay_and_jitter_of_all_links_add_up() {
        let mut connection = connect("delay = \"1ms\"\njitter = \"1ms\"", 1);
        settle(&mut connection, 100 * MS);
        connection.write(100 * MS, Way::Up, b"a");
        // Two links of 1 to 2 ms each.
        let took = arrival(&mut connection, Way::Up, 1) - 100 * MS;
        assert!((2 * MS + DELAY..=4 * MS + DELAY).contains(&took), "{took}");
    }

    #[test]
    fn a_lost_segment_is_sent_again_after_timeouts_that_double() {
        let mut connection = connect("", 1);
        settle(&mut connection, MS);
        set_down(&mut connection, true);
        connection.write(MS, Way::Up, b"a");
        settle(&mut connection, 500 * MS);
        set_down(&mut connection, false);
        // Sent at 0, as a probe after 200 ms, after 200 ms more, and after 400 ms more.
        assert_eq!(arrival(&mut connection, Way::Up, 1), MS + 800 * MS + DELAY);
    }

    #[test]
    fn a_later_segment_repairs_a_loss_without_a_timeout_and_in_order() {
        let mut connection = connect("", 1);
        settle(&mut connection, MS);
        set_down(&mut connection, true);
        connection.write(MS, Way::Up, b"0");
        settle(&mut connection, MS + DELAY);
        set_down(&mut connection, false);
        connection.write(MS + DELAY, Way::Up, b"1");
        settle(&mut connection, MS + 3 * DELAY - 1);
        assert_eq!(connection.received(Way::Up), b"", "behind the one that is missing");
        // There, the acknowledgement back, and there again.
        assert_eq!(arrival(&mut connection, Way::Up, 2), MS + 4 * DELAY);
        assert_eq!(connection.received(Way::Up), b"01");
    }

    #[test]
    fn a_dead_link_delivers_nothing_and_breaks_the_connection() {
        let mut connection = connect("loss = 1.0", 1);
        connection.write(0, Way::Up, b"a");
        connection.write(0, Way::Down, b"b");
        let mut now = 0;
        while !connection.is_broken(now) {
            now = connection.next_due().expect("it is sent again");
            connection.advance(now);
        }
        // The first timeout after 25 s: 1, 3, 7, 15, 31.
        assert_eq!(now, 31_000 * MS);
        assert!(!connection.is_accepted() && !connection.is_established());
        assert_eq!(
            (connection.received(Way::Up), connection.received(Way::Down)),
            (&b""[..], &b""[..])
        );
    }

    #[test]
    fn whatever_the_links_do_all_bytes_come_out_in_order() {
        let faults = "loss = 0.1\nduplicate = 0.1\nreorder = 0.1\njitter = \"1ms\"";
        let mut repaired = 0;
        for seed in 0..100 {
            let mut connection = connect(faults, seed);
            let bytes = |way: Way| -> Vec<u8> {
                (0..40_000u32).map(|at| (at / 7) as u8 ^ way as u8).collect()
            };
            for way in Way::BOTH {
                for piece in bytes(way).chunks(1000) {
                    connection.write(0, way, piece);
                }
            }
            for way in Way::BOTH {
                let took = arrival(&mut connection, way, 40_000);
                repaired += u64::from(took > 100 * MS);
                assert_eq!(connection.received(way), bytes(way), "seed {seed}");
            }
            let mut now = 0;
            while let Some(due) = connection.next_due() {
                assert!(due >= now, "seed {seed}");
                now = due;
                connection.advance(due);
            }
            assert_eq!(connection.backlog(Way::Up) + connection.backlog(Way::Down), 0);
        }
        assert!(repaired > 0, "losses cost time");
    }
}
