//! Counters of a hub.

use std::sync::Mutex;

/// Counters of a [`Hub`](super::Hub).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Connections accepted.
    pub connections: u64,
    /// Peers admitted.
    pub welcomed: u64,
    /// Peers admitted in place of an older connection, which was closed.
    pub replaced: u64,
    /// Connections closed at once because too many others had not greeted yet.
    pub crowded: u64,
    /// Connections that did not greet in time, or closed before.
    pub silent: u64,
    /// Peers that sent an invalid message, before or after admission.
    pub garbage: u64,
    /// Peers refused because the hub does not serve the job.
    pub unknown_job: u64,
    /// Peers refused because of a wrong token.
    pub forged: u64,
    /// Peers refused because they belong to another run of the job.
    pub other_run: u64,
    /// Peers refused because the job has no such peer.
    pub wrong_role: u64,
    /// Peers disconnected because they stopped in the middle of a message, or did not read.
    pub stalled: u64,
    /// Messages received.
    pub received: u64,
    /// Messages sent, or waiting to be sent.
    pub sent: u64,
    /// Messages dropped because their peer was not connected.
    pub undeliverable: u64,
}

/// [`Stats`] that several threads add to.
#[derive(Debug, Default)]
pub(super) struct Counters(Mutex<Stats>);

impl Counters {
    pub(super) fn count(&self, counter: impl FnOnce(&mut Stats) -> &mut u64) {
        self.with(|stats| *counter(stats) += 1);
    }

    pub(super) fn with(&self, change: impl FnOnce(&mut Stats)) {
        change(&mut self.0.lock().expect("nobody panics with it"));
    }

    pub(super) fn get(&self) -> Stats {
        *self.0.lock().expect("nobody panics with it")
    }
}
