//! The open stream channels: arbitration and what goes out on each.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, oneshot};
use tonic::Status;
use tributary_p4runtime_proto::p4::v1::{StreamMessageResponse, stream_message_response::Update};

use super::arbitration::{Arbitration, Client, Notification};

/// Streams that may be open, whether they take part in arbitration or not.
const MAX_STREAMS: usize = 1024;

/// Messages that wait for a controller. A controller that does not read loses packets; one that
/// would lose a notification loses its stream.
const OUTBOX: usize = 256;

type Message = Result<StreamMessageResponse, Status>;

/// The open streams.
#[derive(Debug)]
pub(super) struct Streams(Mutex<State>);

#[derive(Debug)]
pub(super) struct State {
    pub(super) arbitration: Arbitration,
    next: Client,
    outboxes: BTreeMap<Client, Outbox>,
    closed: bool,
}

/// This end of a stream.
#[derive(Debug)]
struct Outbox {
    messages: mpsc::Sender<Message>,
    /// Dropped with the rest, which ends reading as well.
    _open: oneshot::Sender<()>,
}

/// What whoever runs a stream is given.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) client: Client,
    /// What goes out.
    pub(super) messages: mpsc::Receiver<Message>,
    /// Resolves when the stream was closed at this end.
    pub(super) closed: oneshot::Receiver<()>,
}

impl Streams {
    pub(super) fn new(device_id: u64) -> Self {
        Self(Mutex::new(State {
            arbitration: Arbitration::new(device_id),
            next: 1,
            outboxes: BTreeMap::new(),
            closed: false,
        }))
    }

    /// Short critical sections only; none awaits.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves maps that are still whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new stream, unless there are too many or the server shuts down.
    pub(super) fn open(&self) -> Result<Opened, Status> {
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
        state.outboxes.insert(client, Outbox { messages: sender, _open: open });
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
    /// Ends a stream, with an error where there is one, and tells the others what that changes.
    pub(super) fn end(&mut self, client: Client, error: Option<Status>) {
        if let (Some(outbox), Some(error)) = (self.outboxes.remove(&client), error) {
            drop(outbox.messages.try_send(Err(error)));
        }
        let notifications = self.arbitration.leave(client);
        self.notify(notifications);
    }

    pub(super) fn notify(&mut self, notifications: Vec<Notification>) {
        for (client, update) in notifications {
            let sent = self.outboxes.get(&client).map(|outbox| {
                outbox.messages.try_send(Ok(response(Update::Arbitration(update)))).is_ok()
            });
            if sent == Some(false) {
                tracing::info!(client, "controller does not read its stream; closing it");
                self.end(client, None);
            }
        }
    }

    /// Sends something that may be lost.
    pub(super) fn send(&self, client: Client, update: Update) {
        if let Some(outbox) = self.outboxes.get(&client) {
            drop(outbox.messages.try_send(Ok(response(update))));
        }
    }

    /// Something for the primary controllers that may be lost.
    pub(super) fn tell_primaries(&self, update: &Update) {
        for primary in self.arbitration.primaries() {
            self.send(primary, update.clone());
        }
    }
}

fn response(update: Update) -> StreamMessageResponse {
    StreamMessageResponse { update: Some(update) }
}
