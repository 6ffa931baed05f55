//! The reliable channel between an endpoint and the reminder agent: in order and without loss as
//! long as it is open. When it breaks, what is under way is lost.

use std::time::Duration;

use bytes::BytesMut;
use tributary_jobfile::HostId;
use tributary_netio::faults::{Delay, FaultInjector, Faults, InvalidFaults, Line};
use tributary_wire::JobId;
use tributary_wire::channel::{BODY_MAX, Message, Role, split_frame};

/// What channels are like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// Time that every message takes.
    pub latency: Duration,
    /// On top, drawn evenly from zero up to this.
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

/// Which way a message goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Way {
    /// To the agent.
    Up,
    /// From the agent.
    Down,
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
    pub(crate) open: bool,
    /// How often it was opened.
    pub(crate) openings: u64,
    lines: [Line; 2],
    /// The times that arrivals are on the agenda for.
    pub(crate) expected: [Option<u64>; 2],
    pace: Pace,
    seed: u64,
    stream: u64,
}

impl Channel {
    /// `stream` tells the channels of one run apart.
    pub(crate) fn new(
        job: JobId,
        role: Role,
        [client, agent]: [HostId; 2],
        pace: Pace,
        seed: u64,
        stream: u64,
    ) -> Result<Self, InvalidFaults> {
        let lines = lines(pace, seed, stream)?;
        let expected = [None; 2];
        Ok(Self {
            job,
            role,
            client,
            agent,
            open: false,
            openings: 0,
            lines,
            expected,
            pace,
            seed,
            stream,
        })
    }

    /// Breaks the connection.
    pub(crate) fn cut(&mut self) {
        self.open = false;
        self.expected = [None; 2];
        if let Ok(lines) = lines(self.pace, self.seed.wrapping_add(self.openings), self.stream) {
            self.lines = lines;
        }
    }

    pub(crate) fn send(&mut self, now: u64, way: Way, message: &impl Message) {
        let mut frame = BytesMut::new();
        message.encode(&mut frame);
        self.lines[way as usize].admit(now, &frame);
    }

    /// The next message that has arrived.
    ///
    /// # Panics
    /// If it is not what was sent: the channel's code is broken.
    pub(crate) fn receive<M: Message>(&mut self, now: u64, way: Way) -> Option<M> {
        let line = &mut self.lines[way as usize];
        let mut frame = BytesMut::from(line.front(now)?);
        line.advance();
        let body = split_frame(&mut frame, BODY_MAX).expect("a frame of ours");
        let message = M::decode(body.expect("a whole frame")).expect("a message of ours");
        Some(message)
    }

    /// When the next message arrives, if no more is sent.
    pub(crate) fn next_arrival(&self, way: Way) -> Option<u64> {
        self.lines[way as usize].next_due()
    }

    pub(crate) fn reconnect(&self) -> Duration {
        self.pace.reconnect
    }
}

fn lines(pace: Pace, seed: u64, stream: u64) -> Result<[Line; 2], InvalidFaults> {
    let delay = Delay { fixed: pace.latency, jitter: pace.jitter };
    let line = |way: u64| {
        let faults = Faults { delay, ..Faults::default() };
        Ok(Line::new(FaultInjector::new(faults, seed, 2 * stream + way)?))
    };
    Ok([line(0)?, line(1)?])
}
