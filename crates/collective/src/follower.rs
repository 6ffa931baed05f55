//! Follows a rank's part in the job of its group, in a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tributary_endpoint::membership::{Membership, Occurrence, Voice};

/// Interval at which a rank looks for calls that take too long.
const BEAT: Duration = Duration::from_millis(250);

/// Time for the controller to hear the last words of a rank.
const FAREWELL: Duration = Duration::from_secs(1);

/// A rank's part in its job, until it is dropped.
#[derive(Debug)]
pub(crate) struct Follower {
    voice: Voice,
    left: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Follower {
    /// `tell` gets what happens, and nothing now and then.
    pub(crate) fn start(
        mut membership: Membership,
        tell: impl Fn(Option<Occurrence>) + Send + 'static,
    ) -> Result<Self> {
        let (voice, left) = (membership.voice(), Arc::<AtomicBool>::default());
        let stop = Arc::clone(&left);
        let follow = move || {
            while !stop.load(Ordering::Relaxed) {
                let occurrence = membership.next(BEAT);
                let last = matches!(
                    occurrence,
                    Some(Occurrence::Over(_) | Occurrence::Complete | Occurrence::Unled(_))
                );
                tell(occurrence);
                if last {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("membership".into()).spawn(follow);
        Ok(Self { voice, left, thread: Some(thread.context("cannot start a thread")?) })
    }

    /// Speaks for the rank.
    pub(crate) fn voice(&self) -> &Voice {
        &self.voice
    }

    /// After the rank's last words: waits until the controller has heard them, but not for long.
    pub(crate) fn end(self) {
        let deadline = Instant::now() + FAREWELL;
        let runs = || self.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        while runs() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.left.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // The panic hook has reported a panic of the thread.
            drop(thread.join());
        }
    }
}
