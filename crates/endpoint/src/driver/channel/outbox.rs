//! Messages that wait to be sent to a peer.

use std::io;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::time::timeout;
use tributary_netio::Waker;
use tributary_wire::channel::Message;

/// Encoded messages for one connection, up to a limit. One task writes them; any thread adds.
#[derive(Debug)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    limit: usize,
    /// A message was added, or the outbox was closed.
    changed: Notify,
    /// The connection must end at once.
    ended: Notify,
    /// Woken when there is room again.
    waker: Waker,
}

#[derive(Debug, Default)]
struct State {
    waiting: BytesMut,
    /// Bytes that the writing task has taken and not written yet.
    taken: usize,
    /// No more is accepted.
    closed: bool,
    /// A caller found no room.
    blocked: bool,
}

/// Why a message was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoRoom {
    /// Too many bytes wait: the peer does not read.
    Full,
    /// The connection is over.
    Closed,
}

impl Outbox {
    pub(crate) fn new(limit: usize, waker: Waker) -> Self {
        Self { state: Mutex::default(), limit, changed: Notify::new(), ended: Notify::new(), waker }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }

    /// Adds a message.
    pub(crate) fn push(&self, message: &impl Message) -> Result<(), NoRoom> {
        let mut state = self.lock();
        if state.closed {
            return Err(NoRoom::Closed);
        }
        if state.waiting.len() + state.taken >= self.limit {
            return Err(NoRoom::Full);
        }
        message.encode(&mut state.waiting);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Whether a message would be accepted. If not, the waker is woken once there is room.
    pub(crate) fn has_room(&self) -> bool {
        let mut state = self.lock();
        let full = state.waiting.len() + state.taken >= self.limit;
        state.blocked |= full;
        !full && !state.closed
    }

    /// Ends the connection at once; pending messages are lost.
    pub(crate) fn end(&self) {
        self.lock().closed = true;
        self.ended.notify_one();
    }

    /// Ends the connection when all pending messages have been written.
    pub(crate) fn finish(&self) {
        self.lock().closed = true;
        self.changed.notify_one();
    }

    /// Waits until [`end`](Self::end) is called.
    pub(crate) async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Writes messages until [`finish`](Self::finish) is called and all are written.
    ///
    /// # Errors
    /// Those of the stream; [`io::ErrorKind::TimedOut`] if the peer accepts nothing for `patience`.
    pub(crate) async fn write_to(
        &self,
        stream: &mut (impl AsyncWrite + Unpin),
        patience: Duration,
    ) -> io::Result<()> {
        loop {
            let (mut piece, closed) = self.take();
            if piece.is_empty() {
                if closed {
                    return Ok(());
                }
                self.changed.notified().await;
                continue;
            }
            while piece.has_remaining() {
                let written = timeout(patience, stream.write_buf(&mut piece)).await??;
                if written == 0 {
                    return Err(io::ErrorKind::WriteZero.into());
                }
                self.lock().taken = piece.len();
            }
            // Encrypted bytes may wait behind the stream.
            timeout(patience, stream.flush()).await??;
            let blocked = std::mem::take(&mut self.lock().blocked);
            if blocked {
                self.waker.wake();
            }
        }
    }

    fn take(&self) -> (BytesMut, bool) {
        let mut state = self.lock();
        let piece = state.waiting.split();
        state.taken = piece.len();
        (piece, state.closed)
    }
}
