//! The reliable channel of ESA over TCP.
//!
//! The protocol's endpoints know nothing of connections: they hand out messages and take messages
//! ([`tributary_wire::channel`]). Here these get carried:
//!
//! - a [`Hub`] is the agent's side: it listens, lets in who shows the token of a job, and carries
//!   messages to and from all of them;
//! - a [`Link`] is a worker's side, or that of a PS that is not in the agent's process: it connects,
//!   and connects again for as long as it lives.
//!
//! Both have a thread of their own. The endpoint's thread is never blocked by a peer: messages wait
//! in queues of bounded size, and a [`Waker`](tributary_netio::Waker) ends its sleep when there is
//! something for it. A peer that sends garbage, shows a wrong token, is slow to greet, or does not
//! read what it is sent is disconnected, counted ([`Stats`]) and mentioned in the log, a line a
//! second at most for each kind of fault.
//!
//! Start reading at [`Hub`].

mod complaints;
mod hub;
mod keepalive;
mod link;
mod outbox;
mod stream;

use std::time::Duration;

pub use hub::{Hub, HubConfig, Incoming, Job, Peer, Stats};
pub use link::{Link, LinkConfig, LinkEvent};

/// How long peers may take, and how much may wait for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// From the connection to the end of the greeting.
    pub greeting: Duration,
    /// From the first byte of a message to its last, and between two pieces of what a peer reads.
    pub progress: Duration,
    /// Silence, in whole seconds, after which the operating system asks whether the peer's host is
    /// still there (TCP keepalive). After three questions without an answer, five seconds apart,
    /// the connection is broken; and so it is when data is not acknowledged for as long as all that.
    pub idle: Duration,
    /// Bytes that wait to be sent to one peer. A message that finds them waiting ends the
    /// connection.
    pub outgoing: usize,
    /// Messages that wait for the endpoint; beyond, nothing more is read of the peers.
    pub incoming: usize,
    /// Connections that have not greeted yet, an eighth of them from one address; more are closed at
    /// once.
    pub strangers: usize,
}

impl Default for Limits {
    /// Two seconds for a greeting, five for progress, ten of silence, 8 MB out, 4096 messages in,
    /// 64 strangers.
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

/// The longest body of a job's messages, for packets of that many values.
fn longest_body(values: u16) -> usize {
    let whole = tributary_wire::channel::BODY_MAX;
    whole - 4 * usize::from(tributary_wire::VALUES_MAX.saturating_sub(values))
}
