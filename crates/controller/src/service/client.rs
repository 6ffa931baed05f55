//! What a client is about to be told.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;
use tonic::Status;
use tributary_proto::jobs::v1::TakeResponse;

use super::messages;

/// News for a client that may be slower than they come. Of those that say who is missing, it gets the last one.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    news: Mutex<VecDeque<Result<TakeResponse, Status>>>,
    filled: Notify,
}

impl Outbox {
    pub(super) fn put(&self, news: Result<TakeResponse, Status>) {
        let mut waiting = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        if messages::says_who_is_missing(&news)
            && waiting.back().is_some_and(messages::says_who_is_missing)
        {
            waiting.pop_back();
        }
        waiting.push_back(news);
        self.filled.notify_one();
    }

    pub(super) fn take(&self) -> Option<Result<TakeResponse, Status>> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Returns when there may be news.
    pub(super) async fn filled(&self) {
        self.filled.notified().await;
    }
}
