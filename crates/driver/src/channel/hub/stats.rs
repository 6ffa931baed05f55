//! What a hub counts.

use std::sync::Mutex;

/// What a [`Hub`](super::Hub) has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Connections.
    pub connections: u64,
    /// Peers let in.
    pub welcomed: u64,
    /// Of them, in place of an older connection of the same peer, which was closed.
    pub replaced: u64,
    /// Connections closed at once because too many had not greeted yet.
    pub crowded: u64,
    /// Connections that did not greet in time, or closed before they had.
    pub silent: u64,
    /// Peers that sent what is no message, before or after they were let in.
    pub garbage: u64,
    /// Peers refused: the job is not served here.
    pub unknown_job: u64,
    /// Peers refused: not the job's token.
    pub forged: u64,
    /// Peers refused: of another run of the job.
    pub other_run: u64,
    /// Peers refused: the job has no such peer.
    pub wrong_role: u64,
    /// Peers disconnected because they stopped in the middle of a message, or did not read.
    pub stalled: u64,
    /// Messages taken.
    pub received: u64,
    /// Messages sent, or waiting to be.
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
