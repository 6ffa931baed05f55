//! The open stream channels: arbitration and outgoing messages.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use prost::Message as _;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::Stream;
use tonic::Status;
use tributary_base::connections::ConnectionId;
use tributary_p4runtime::p4::v1::{StreamMessageResponse, stream_message_response::Update};

use super::arbitration::{Arbitration, Client, Notification};

/// Number of open streams, including those without arbitration.
const MAX_STREAMS: usize = 1024;

/// Messages that wait for a controller, and their bytes. A controller that does not read loses
/// packets; if it would lose a notification, its stream is closed.
const OUTBOX: usize = 256;
const OUTBOX_BYTES: usize = 1 << 20;

/// Bytes that wait for all controllers together.
const OUTBOXES_BYTES: usize = 32 << 20;

type Message = Result<StreamMessageResponse, Status>;

/// A message and its encoded size.
type Sized = (Message, usize);

/// The open streams.
#[derive(Debug)]
pub(super) struct Streams(Mutex<State>);

#[derive(Debug)]
pub(super) struct State {
    pub(super) arbitration: Arbitration,
    next: Client,
    outboxes: BTreeMap<Client, Outbox>,
    /// Bytes in all outboxes.
    waiting: Arc<AtomicUsize>,
    closed: bool,
}

/// The server's end of a stream.
#[derive(Debug)]
struct Outbox {
    messages: mpsc::Sender<Sized>,
    connection: ConnectionId,
    /// Number of bytes in it.
    waiting: Arc<AtomicUsize>,
    /// Dropping it also ends reading.
    _open: oneshot::Sender<()>,
}

/// The parts of a new stream for its handler.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) client: Client,
    /// Outgoing messages.
    pub(super) messages: Outgoing,
    /// Resolves when the server has closed the stream.
    pub(super) closed: oneshot::Receiver<()>,
}

impl Streams {
    pub(super) fn new(device_id: u64) -> Self {
        Self(Mutex::new(State {
            arbitration: Arbitration::new(device_id),
            next: 1,
            outboxes: BTreeMap::new(),
            waiting: Arc::default(),
            closed: false,
        }))
    }

    /// For short critical sections without await.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves consistent maps.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a stream, unless there are too many or the server shuts down.
    pub(super) fn open(&self, connection: ConnectionId) -> Result<Opened, Status> {
        let mut state = self.lock();
        if state.closed {
            return Err(Status::unavailable("the switch is shutting down"));
        }
        if state.outboxes.len() >= MAX_STREAMS {
            return Err(Status::resource_exhausted(format!(
                "{MAX_STREAMS} streams are open already"
            )));
        }
        let client = state.next;
        state.next += 1;
        let (sender, messages) = mpsc::channel(OUTBOX);
        let (open, closed) = oneshot::channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let messages = Outgoing { messages, waiting: [waiting.clone(), state.waiting.clone()] };
        let outbox = Outbox { messages: sender, connection, waiting, _open: open };
        state.outboxes.insert(client, outbox);
        Ok(Opened { client, messages, closed })
    }

    /// Ends all streams, and refuses new ones.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.outboxes.clear();
    }
}

impl State {
    /// Number of open streams.
    pub(super) fn count(&self) -> usize {
        self.outboxes.len()
    }

    /// Ends a stream, with an optional error, and notifies the others of the consequences.
    pub(super) fn end(&mut self, client: Client, error: Option<Status>) {
        if let (Some(outbox), Some(error)) = (self.outboxes.remove(&client), error) {
            drop(outbox.messages.try_send((Err(error), 0)));
        }
        let notifications = self.arbitration.leave(client);
        self.notify(notifications);
    }

    pub(super) fn notify(&mut self, notifications: Vec<Notification>) {
        for (client, update) in notifications {
            let sent = self.outboxes.get(&client).map(|outbox| {
                let message = Ok(response(Update::Arbitration(update)));
                outbox.messages.try_send((message, 0)).is_ok()
            });
            if sent == Some(false) {
                tracing::info!(client, "controller does not read its stream; closing it");
                self.end(client, None);
            }
        }
    }

    /// Sends a message that may be lost.
    pub(super) fn send(&self, client: Client, update: Update) {
        let Some(outbox) = self.outboxes.get(&client) else { return };
        let message = response(update);
        let size = message.encoded_len();
        // All senders hold the lock, so no bytes are added in between.
        let room = outbox.waiting.load(Ordering::Relaxed) + size <= OUTBOX_BYTES
            && self.waiting.load(Ordering::Relaxed) + size <= OUTBOXES_BYTES;
        if !room {
            return;
        }
        outbox.waiting.fetch_add(size, Ordering::Relaxed);
        self.waiting.fetch_add(size, Ordering::Relaxed);
        if outbox.messages.try_send((Ok(message), size)).is_err() {
            outbox.waiting.fetch_sub(size, Ordering::Relaxed);
            self.waiting.fetch_sub(size, Ordering::Relaxed);
        }
    }

    /// Whether a connection has the stream of a primary controller.
    pub(super) fn has_primary(&self, connection: ConnectionId) -> bool {
        self.arbitration.primaries().any(|(client, _)| self.is_on(client, connection))
    }

    /// Whether a connection has the stream of the default role's primary.
    pub(super) fn has_default_primary(&self, connection: ConnectionId) -> bool {
        self.arbitration.primary("").is_some_and(|client| self.is_on(client, connection))
    }

    fn is_on(&self, client: Client, connection: ConnectionId) -> bool {
        self.outboxes.get(&client).is_some_and(|outbox| outbox.connection == connection)
    }

    /// Sends a message that may be lost to the primary controllers whose roles receive it.
    pub(super) fn tell_primaries(&self, update: &Update) {
        for (primary, config) in self.arbitration.primaries() {
            if let Some(update) = config.map_or_else(|| Some(update.clone()), |c| c.hears(update)) {
                self.send(primary, update);
            }
        }
    }
}

/// Outgoing messages of a stream.
#[derive(Debug)]
pub(super) struct Outgoing {
    messages: mpsc::Receiver<Sized>,
    /// Bytes that wait for this controller, and for all.
    waiting: [Arc<AtomicUsize>; 2],
}

impl Outgoing {
    fn sent(&self, size: usize) {
        for bytes in &self.waiting {
            bytes.fetch_sub(size, Ordering::Relaxed);
        }
    }
}

impl Stream for Outgoing {
    type Item = Message;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Message>> {
        let next = std::task::ready!(self.messages.poll_recv(context));
        Poll::Ready(next.map(|(message, size)| {
            self.sent(size);
            message
        }))
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.messages.close();
        while let Ok((_, size)) = self.messages.try_recv() {
            self.sent(size);
        }
    }
}

fn response(update: Update) -> StreamMessageResponse {
    StreamMessageResponse { update: Some(update) }
}

#[cfg(test)]
mod tests {
    use tokio_stream::StreamExt as _;
    use tributary_p4runtime::p4::v1::PacketIn;

    use super::*;

    fn packet(bytes: usize) -> Update {
        Update::Packet(PacketIn { payload: vec![0; bytes], metadata: Vec::new() })
    }

    #[tokio::test]
    async fn messages_for_controllers_are_bounded() {
        let streams = Streams::new(1);
        let mut opened: Vec<Opened> =
            (0..100).map(|_| streams.open(ConnectionId::default()).unwrap()).collect();
        let waiting = || streams.lock().waiting.load(Ordering::Relaxed);
        let send = |client| (0..1000).for_each(|_| streams.lock().send(client, packet(60_000)));
        send(opened[0].client);
        assert!((OUTBOX_BYTES - 70_000..=OUTBOX_BYTES).contains(&waiting()), "{}", waiting());
        opened.iter().for_each(|stream| send(stream.client));
        assert!((OUTBOXES_BYTES - 70_000..=OUTBOXES_BYTES).contains(&waiting()), "{}", waiting());
        // Taking messages makes room.
        let first = &mut opened[0];
        while streams.lock().outboxes[&first.client].waiting.load(Ordering::Relaxed) > 0 {
            first.messages.next().await.unwrap().unwrap();
        }
        let client = first.client;
        streams.lock().send(client, packet(10));
        first.messages.next().await.unwrap().unwrap();
        drop(opened);
        assert_eq!(waiting(), 0);
    }
}
