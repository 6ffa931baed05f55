//! The iterations of a worker's job.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tributary_model::job::Turn;
use tributary_netio::Waker;
use tributary_wire::Epoch;

/// The iterations of a worker's job, for the thread that sums. Clones share them.
#[derive(Clone, Debug)]
pub struct Turns(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// In which run.
    now: Mutex<Option<(Epoch, Turn)>>,
    /// The last iteration that the worker has finished, and in which run.
    finished: watch::Sender<Option<(Epoch, u64)>>,
    waker: Waker,
}

impl Turns {
    pub(super) fn new() -> Self {
        let finished = watch::Sender::new(None);
        Self(Arc::new(Shared { now: Mutex::default(), finished, waker: Waker::new() }))
    }

    /// The iteration as last told; `None` before that.
    #[must_use]
    pub fn now(&self) -> Option<Turn> {
        self.lock().map(|(_, turn)| turn)
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Epoch, Turn)>> {
        self.0.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports that the worker has all sums of an iteration of a run, and sends nothing more of it, until the controller
    /// has recorded that.
    pub fn finish(&self, run: Epoch, number: u64) {
        self.0.finished.send_replace(Some((run, number)));
    }

    /// What the worker reports.
    pub(super) fn reports(&self) -> watch::Receiver<Option<(Epoch, u64)>> {
        self.0.finished.subscribe()
    }

    /// Ends the sleep of the thread that sums after each change.
    #[must_use]
    pub fn waker(&self) -> &Waker {
        &self.0.waker
    }

    pub(super) fn clear(&self) {
        *self.lock() = None;
    }

    pub(super) fn tell(&self, run: Epoch, turn: Turn) {
        *self.lock() = Some((run, turn));
        self.0.waker.wake();
    }

    /// The iteration whose end the controller does not know yet.
    pub(super) fn due(&self) -> Option<(Epoch, u64)> {
        let (of, finished) = (*self.0.finished.borrow())?;
        let (run, now) = (*self.lock())?;
        // A controller that has forgotten the job's iterations may count them again.
        let open = run == of && now.number <= finished && now.running && !now.reported;
        open.then_some((run, now.number))
    }
}
