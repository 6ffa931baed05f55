//! What a client is about to be told.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tonic::Status;
use tributary_api::jobs::v1::TakeResponse;
use tributary_wire::WorkerSet;

use super::messages;

/// Least pause between two messages that say who is missing: otherwise a job of a thousand workers that come at once
/// would tell each of them a thousand times.
const PAUSE: Duration = Duration::from_millis(100);

/// Notice for a client that may be slower than they come. Of those that say who is missing, or the job's iteration, it gets
/// the last one.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    notice: Mutex<VecDeque<Item>>,
    filled: Notify,
}

#[derive(Debug)]
enum Item {
    Notice(Result<TakeResponse, Status>),
    /// These workers are missing.
    Missing(WorkerSet),
}

impl Outbox {
    pub(super) fn put(&self, notice: Result<TakeResponse, Status>) {
        self.add(Item::Notice(notice));
    }

    pub(super) fn say_missing(&self, workers: WorkerSet) {
        self.add(Item::Missing(workers));
    }

    fn add(&self, item: Item) {
        let mut waiting = self.notice.lock().unwrap_or_else(PoisonError::into_inner);
        match (&item, waiting.back_mut()) {
            (Item::Missing(_), Some(last @ Item::Missing(_))) => *last = item,
            // What was decided before does not matter any more.
            (Item::Notice(Ok(new)), Some(Item::Notice(Ok(last))))
                if messages::supersede(last, new) =>
            {
                *last = new.clone();
            }
            _ => waiting.push_back(item),
        }
        self.filled.notify_one();
    }

    /// The next notice. If only the list of missing workers is left, and it is not due yet, the error is the time when it
    /// is due.
    fn take(&self, said: Option<Instant>) -> Result<Item, Option<Instant>> {
        let mut waiting = self.notice.lock().unwrap_or_else(PoisonError::into_inner);
        let due = said.map(|said| said + PAUSE).filter(|due| *due > Instant::now());
        match (waiting.front(), due) {
            (Some(Item::Missing(missing)), Some(due))
                if waiting.len() == 1 && !missing.is_empty() =>
            {
                Err(Some(due))
            }
            _ => waiting.pop_front().ok_or(None),
        }
    }
}

/// Takes notice out of an outbox.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// When the client was told last who is missing.
    said: Option<Instant>,
}

impl Reader {
    /// The next notice, when there are some. It may be dropped and called again.
    pub(super) async fn next(&mut self, outbox: &Outbox) -> Result<TakeResponse, Status> {
        loop {
            match outbox.take(self.said) {
                Ok(Item::Notice(notice)) => return notice,
                Ok(Item::Missing(workers)) => {
                    self.said = Some(Instant::now());
                    return Ok(messages::missing(workers));
                }
                Err(None) => outbox.filled.notified().await,
                Err(Some(due)) => tokio::select! {
                    () = tokio::time::sleep_until(due) => {}
                    () = outbox.filled.notified() => {}
                },
            }
        }
    }
}
