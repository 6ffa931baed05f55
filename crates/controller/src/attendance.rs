//! The workers that are in the middle of a run: when one of them dies, the others learn it.

use std::collections::BTreeMap;
use std::fmt;

use tokio::sync::watch;
use tributary_wire::{Run, WorkerIndex};

/// The workers of all runs that have called.
#[derive(Debug, Default)]
pub(crate) struct Attendance(BTreeMap<Run, Present>);

/// The workers of a run.
#[derive(Debug)]
struct Present {
    /// The number of each worker's last call, while that lasts or may be followed by another.
    calls: BTreeMap<WorkerIndex, u64>,
    /// Number of calls so far.
    count: u64,
    /// The first worker that has died.
    lost: watch::Sender<Option<WorkerIndex>>,
}

/// A call of a worker, by number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Call {
    run: Run,
    worker: WorkerIndex,
    number: u64,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, worker {}", self.run, self.worker)
    }
}

impl Attendance {
    /// A worker calls, perhaps again. The receiver gets the first worker of the run that has died.
    pub(crate) fn begin(
        &mut self,
        run: Run,
        worker: WorkerIndex,
    ) -> (Call, watch::Receiver<Option<WorkerIndex>>) {
        let present = self.0.entry(run).or_insert_with(|| Present {
            calls: BTreeMap::new(),
            count: 0,
            lost: watch::Sender::new(None),
        });
        present.count += 1;
        let number = present.count;
        present.calls.insert(worker, number);
        (Call { run, worker, number }, present.lost.subscribe())
    }

    /// The worker has all results.
    pub(crate) fn done(&mut self, call: Call) {
        self.end(call, false);
    }

    /// The call has ended without that, some time ago. Returns whether the worker has died.
    pub(crate) fn gone(&mut self, call: Call) -> bool {
        self.end(call, true)
    }

    fn end(&mut self, call: Call, died: bool) -> bool {
        let Some(present) = self.0.get_mut(&call.run) else { return false };
        if present.calls.get(&call.worker) != Some(&call.number) {
            return false;
        }
        present.calls.remove(&call.worker);
        if died {
            present.lost.send_if_modified(|lost| {
                let first = lost.is_none();
                lost.get_or_insert(call.worker);
                first
            });
        }
        if present.calls.is_empty() {
            self.0.remove(&call.run);
        }
        died
    }
}

#[cfg(test)]
mod tests {
    use tributary_wire::{Epoch, JobId};

    use super::*;

    fn run() -> Run {
        JobId::new(1).unwrap().run(Epoch::FIRST)
    }

    fn worker(index: u16) -> WorkerIndex {
        WorkerIndex::new(index).unwrap()
    }

    #[test]
    fn the_first_worker_that_dies_is_named() {
        let mut attendance = Attendance::default();
        let (first, lost) = attendance.begin(run(), worker(0));
        let (second, _) = attendance.begin(run(), worker(1));
        let (third, _) = attendance.begin(run(), worker(2));
        attendance.done(third);
        assert_eq!(*lost.borrow(), None);
        assert!(attendance.gone(second));
        assert_eq!(*lost.borrow(), Some(worker(1)));
        assert!(attendance.gone(first), "it ends because of the other");
        assert_eq!(*lost.borrow(), Some(worker(1)));
        assert!(attendance.0.is_empty());
    }

    #[test]
    fn a_worker_that_calls_again_is_not_dead() {
        let mut attendance = Attendance::default();
        let (_, lost) = attendance.begin(run(), worker(0));
        let (broken, _) = attendance.begin(run(), worker(1));
        let (again, _) = attendance.begin(run(), worker(1));
        assert!(!attendance.gone(broken));
        assert_eq!(*lost.borrow(), None);
        attendance.done(again);
        assert!(!attendance.gone(again), "it had all results");
        assert_eq!(*lost.borrow(), None);
    }
}
