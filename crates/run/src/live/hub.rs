//! The history, shared by a source and its viewers.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::live::history::{Entry, History};
use crate::live::model::{End, Line};
use crate::live::recording::{self, Recorder};

/// The history, shared. Clones share it.
#[derive(Clone, Debug)]
pub struct Hub {
    history: Arc<Mutex<History>>,
    recorder: Arc<Mutex<Option<Recorder>>>,
    changed: watch::Sender<u64>,
}

impl Default for Hub {
    fn default() -> Self {
        let changed = watch::Sender::new(0);
        Self { history: Arc::default(), recorder: Arc::default(), changed }
    }
}

impl Hub {
    /// A hub whose lines are also recorded as they come.
    #[must_use]
    pub fn recorded(recorder: Recorder) -> Self {
        let hub = Self::default();
        *lock(&hub.recorder) = Some(recorder);
        hub
    }

    /// The lines of a recording.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn replay(path: &Path) -> Result<Self, recording::Error> {
        let hub = Self::default();
        recording::read(path, |line| hub.push(line))?;
        Ok(hub)
    }

    /// Adds a line.
    pub fn push(&self, line: Line) {
        if let Some(recorder) = &mut *lock(&self.recorder) {
            recorder.write(&line);
        }
        lock(&self.history).push(line);
        self.changed.send_modify(|changes| *changes += 1);
    }

    /// Ends the history, unless it has ended.
    pub fn end(&self, failure: Option<String>) {
        let (ended, at_us) = self.look(|history| {
            let last = history.samples().next_back().map_or(0, |sample| sample.at_us);
            (history.end().is_some(), last)
        });
        if !ended {
            self.push(Line::End(End { at_us, failure }));
        }
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// The first error in writing it.
    pub fn close(&self) -> Result<(), recording::Error> {
        lock(&self.recorder).take().map_or(Ok(()), Recorder::finish)
    }

    /// Looks at the history.
    pub fn look<R>(&self, at: impl FnOnce(&History) -> R) -> R {
        at(&lock(&self.history))
    }

    /// A reader of all lines from the first on.
    #[must_use]
    pub fn reader(&self) -> Reader {
        Reader { hub: self.clone(), changed: self.changed.subscribe(), scene: 0, last: 0 }
    }
}

/// Reads the lines of a hub. One that is slow misses samples, but never the newest one.
#[derive(Debug)]
pub struct Reader {
    hub: Hub,
    changed: watch::Receiver<u64>,
    /// Numbers of the scene and of the last other line that were taken.
    scene: u64,
    last: u64,
}

impl Reader {
    /// At most `most` of the lines since the last call, without waiting.
    pub fn take(&mut self, most: usize) -> Vec<Entry> {
        self.changed.mark_unchanged();
        let (scene, last) = (self.scene, self.last);
        let entries: Vec<_> =
            self.hub.look(|history| history.after(scene, last).take(most).cloned().collect());
        for entry in &entries {
            match *entry.line {
                Line::Scene(_) => self.scene = entry.number,
                _ => self.last = entry.number,
            }
        }
        entries
    }

    /// Waits for lines.
    pub async fn next(&mut self, most: usize) -> Vec<Entry> {
        loop {
            let entries = self.take(most);
            if !entries.is_empty() {
                return entries;
            }
            if self.changed.changed().await.is_err() {
                // The hub itself holds a sender, so it is never dropped first.
                return Vec::new();
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
