//! The reliable channel between an endpoint and the reminder agent: messages over a TCP connection,
//! which shares the links and their faults with the packets. Messages in flight are lost if it
//! breaks.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tributary_model::{HostId, LinkId, Topology};
use tributary_netio::faults::{Delay, InvalidFaults};
use tributary_wire::JobId;
use tributary_wire::channel::{BODY_MAX, LENGTH_LEN, Message, Role, WITH_VALUES, split_frame};

use tributary_endpoint::driver::tcp::{Connection, Luck, Way};

/// Timing of channels, in addition to the faults of their links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// Delay of every segment.
    pub latency: Duration,
    /// Additional random delay, uniform from zero to this.
    pub jitter: Duration,
    /// Time from the loss of a connection, or the start of a peer, until it is open again.
    pub reconnect: Duration,
}

impl Default for Pace {
    /// 10 µs, no jitter, 200 µs.
    fn default() -> Self {
        Self {
            latency: Duration::from_micros(10),
            jitter: Duration::ZERO,
            reconnect: Duration::from_micros(200),
        }
    }
}

impl Pace {
    pub(crate) fn delay(&self) -> Delay {
        Delay { fixed: self.latency, jitter: self.jitter }
    }
}

/// The channel of one worker or server.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) job: JobId,
    pub(crate) role: Role,
    /// Host of the worker or server.
    pub(crate) client: HostId,
    /// Host of the agent.
    pub(crate) agent: HostId,
    /// The connection, while it is open or being opened.
    connection: Option<Connection>,
    /// Bytes of incomplete messages.
    partial: [BytesMut; 2],
    /// Whether both ends know that it is open.
    pub(crate) open: bool,
    /// Number of openings.
    pub(crate) openings: u64,
    /// Number of attempts to connect.
    attempts: u64,
    /// The time of the connection's event on the agenda.
    pub(crate) expected: Option<u64>,
    pace: Pace,
    number: u64,
    /// Bytes that follow each message with values, as packets with values count as longer.
    stretch: usize,
}

impl Channel {
    /// `number` is unique among the channels of a run.
    pub(crate) fn new(
        job: JobId,
        role: Role,
        [client, agent]: [HostId; 2],
        pace: Pace,
        number: u64,
        stretch: usize,
    ) -> Self {
        Self {
            job,
            role,
            client,
            agent,
            connection: None,
            partial: Default::default(),
            open: false,
            openings: 0,
            attempts: 0,
            expected: None,
            pace,
            number,
            stretch,
        }
    }

    /// Whether a connection is open or being opened.
    pub(crate) fn is_begun(&self) -> bool {
        self.connection.is_some()
    }

    /// Begins to connect.
    pub(crate) fn begin(
        &mut self,
        now: u64,
        topology: &Topology,
        down: &BTreeSet<LinkId>,
        luck: Luck,
    ) -> Result<(), InvalidFaults> {
        let delay = self.pace.delay();
        let luck = Luck { seed: luck.seed.wrapping_add(self.attempts), ..luck };
        let hosts = [self.client, self.agent];
        let mut connection = Connection::open(topology, hosts, delay, luck, self.number)?;
        self.attempts += 1;
        for link in down {
            connection.set_down(*link, true);
        }
        connection.connect(now);
        self.connection = Some(connection);
        Ok(())
    }

    /// Breaks the connection.
    pub(crate) fn cut(&mut self) {
        self.open = false;
        self.connection = None;
        self.partial = Default::default();
        self.expected = None;
    }

    pub(crate) fn send(&mut self, now: u64, way: Way, message: &impl Message) {
        let mut frame = BytesMut::new();
        message.encode(&mut frame);
        frame.resize(frame.len() + self.padding(&frame), 0);
        if let Some(connection) = &mut self.connection {
            connection.write(now, way, &frame);
        }
    }

    /// Processes everything that is due. Returns the change of the connection.
    pub(crate) fn advance(&mut self, now: u64) -> ConnectionChange {
        let Some(connection) = &mut self.connection else { return ConnectionChange::Unchanged };
        connection.advance(now);
        if connection.is_broken(now) {
            return ConnectionChange::Broken;
        }
        for way in Way::BOTH {
            let arrived = connection.received(way).len();
            self.partial[way as usize].extend(connection.take(way, arrived));
        }
        if !self.open && connection.is_established() {
            self.open = true;
            self.openings += 1;
            return ConnectionChange::Opened;
        }
        ConnectionChange::Unchanged
    }

    /// The next message that has arrived.
    ///
    /// # Panics
    /// If it differs from what was sent, because the channel's code is broken.
    pub(crate) fn receive<M: Message>(&mut self, way: Way) -> Option<M> {
        let padding = self.padding(&self.partial[way as usize]);
        let partial = &mut self.partial[way as usize];
        let length = partial.first_chunk().map(|length| u32::from_be_bytes(*length) as usize)?;
        if partial.len() < LENGTH_LEN + length + padding {
            return None;
        }
        let body = split_frame(partial, BODY_MAX).expect("a frame of ours")?;
        partial.advance(padding);
        Some(M::decode(body).expect("a message of ours"))
    }

    /// Bytes that follow this frame, or beginning of one.
    fn padding(&self, frame: &[u8]) -> usize {
        let has_values = frame.get(LENGTH_LEN).is_some_and(|tag| WITH_VALUES.contains(tag));
        if has_values { self.stretch } else { 0 }
    }

    /// The connection's next timer or arrival, if nothing more is sent.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.connection.as_ref().and_then(Connection::next_due)
    }

    /// When the last segment of the connection was lost, duplicated or held back.
    pub(crate) fn disturbed_at(&self) -> Option<u64> {
        self.connection.as_ref().and_then(Connection::disturbed_at)
    }

    /// Takes a link down, or up again.
    pub(crate) fn set_down(&mut self, link: LinkId, down: bool) {
        if let Some(connection) = &mut self.connection {
            connection.set_down(link, down);
        }
    }

    pub(crate) fn reconnect(&self) -> Duration {
        self.pace.reconnect
    }
}

/// The change of a channel's connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ConnectionChange {
    /// The connection was established just now.
    Opened,
    /// The connection was given up.
    Broken,
    /// No change.
    Unchanged,
}
