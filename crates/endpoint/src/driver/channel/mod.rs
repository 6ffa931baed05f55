//! The reliable channel of ESA over TCP.
//!
//! The protocol's endpoints produce and consume messages ([`tributary_wire::channel`]) and know
//! nothing of connections. This module carries the messages:
//!
//! - a [`Hub`] is the agent's side: it listens, admits peers that present the token of a job, and
//!   exchanges messages with them;
//! - a [`Link`] is the side of a worker, or of a PS outside the agent's process: it connects, and
//!   reconnects as long as it exists.
//!
//! Connections are encrypted, with a key that both ends derive from the job's token: see [`secrecy`].
//!
//! Both have a thread of their own. A peer never blocks the endpoint's thread: messages wait in
//! bounded queues, and a [`Waker`](tributary_netio::Waker) ends its sleep when there is something
//! to do. A peer that sends invalid messages, presents a wrong token, is slow to greet, or does not
//! read is disconnected, counted ([`Stats`]) and logged, at most once per second and kind of fault.
//!
//! Start reading at [`Hub`].

mod complaints;
mod hub;
mod keepalive;
mod link;
mod outbox;
pub mod secrecy;
mod stream;

use std::time::Duration;

pub use hub::{Hub, HubConfig, HubJob, Incoming, Peer, Stats};
pub use link::{Link, LinkConfig, LinkEvent};

/// Timeouts of peers, and bounds of queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// From the connection to the end of the greeting.
    pub greeting: Duration,
    /// From the first byte of a message to its last, and between two reads of the peer.
    pub progress: Duration,
    /// Silence, in whole seconds, before the operating system probes the peer's host (TCP
    /// keepalive). The connection breaks after three unanswered probes, five seconds apart, or if
    /// data is not acknowledged for the whole of that time.
    pub idle: Duration,
    /// Bytes that may wait for one peer. A message beyond that ends the connection.
    pub outgoing: usize,
    /// Messages that may wait for the endpoint; beyond, nothing more is read from peers.
    pub incoming: usize,
    /// Connections that have not greeted yet, at most an eighth of them from one address; more are
    /// closed.
    pub strangers: usize,
}

impl Default for Limits {
    /// Two seconds for a greeting, five for progress, ten of silence, 8 MB out, 4096 messages in,
    /// 64 connections without a greeting.
    fn default() -> Self {
        Self {
            greeting: Duration::from_secs(2),
            progress: Duration::from_secs(5),
            idle: Duration::from_secs(10),
            outgoing: 8 << 20,
            incoming: 4096,
            strangers: 64,
        }
    }
}

/// Maximum body length of a job's messages, for packets with `values` values.
fn longest_body(values: u16) -> usize {
    let whole = tributary_wire::channel::BODY_MAX;
    whole - 4 * usize::from(tributary_wire::VALUES_MAX.saturating_sub(values))
}
