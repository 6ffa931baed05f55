//! The iterations of a job whose client lets each one begin, and what the client decides about them.
//!
//! An iteration is a round of the job's run. It ends when each worker has reported that it has all sums.

use tributary_protocol::{Assignment, Rate};
use tributary_wire::{WorkerIndex, WorkerSet};

/// How far a job is, and how it is summed: what its client decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Its last iteration.
    pub iteration: Iteration,
    /// How switches serve it, in the current iteration if one runs.
    pub assignment: Assignment,
    /// The rate of each worker; `None` for no limit.
    pub rate: Option<Rate>,
}

impl Progress {
    /// A job before its first iteration.
    #[must_use]
    pub const fn new(assignment: Assignment, rate: Option<Rate>) -> Self {
        Self { iteration: Iteration::NONE, assignment, rate }
    }

    /// The same with another iteration.
    #[must_use]
    pub const fn with(self, iteration: Iteration) -> Self {
        Self { iteration, ..self }
    }

    /// What a worker is told of it, or a parameter server.
    #[must_use]
    pub fn turn(&self, worker: Option<WorkerIndex>) -> Turn {
        let Self { iteration, assignment, rate } = *self;
        let running = iteration.is_running();
        let reported = worker.is_some_and(|worker| !iteration.unfinished.contains(worker));
        Turn { number: iteration.number, running, reported, assignment, rate }
    }
}

/// The iteration of a job, for one of its endpoints.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// Its number; 0 before the first.
    pub number: u64,
    /// Whether some worker has not finished it.
    pub running: bool,
    /// Whether this worker has reported its end, and that is recorded.
    pub reported: bool,
    /// How switches serve the job: in that iteration if it runs, else in the next one.
    pub assignment: Assignment,
    /// The rate of each worker; `None` for no limit.
    pub rate: Option<Rate>,
}

/// The state of a job's training: in an iteration, or between two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Iteration {
    /// Number of iterations begun so far; the first one is number 1.
    pub number: u64,
    /// Workers that have not finished it; empty between two iterations.
    pub unfinished: WorkerSet,
}

/// Why a step is invalid.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OutOfTurn {
    /// The last iteration is still running.
    #[error("iteration {0} runs; it is not finished by {1}")]
    Running(u64, Box<WorkerSet>),
    /// Another number is due.
    #[error("iteration {next} is the next one, not {asked}")]
    Number {
        /// The number of the next iteration.
        next: u64,
        /// The requested number.
        asked: u64,
    },
    /// The iteration has not begun.
    #[error("iteration {0} has not begun")]
    NotBegun(u64),
    /// Workers begin rounds by themselves.
    #[error(
        "its workers sum when they like, so that no client begins an iteration or moves the job; admit it as \
         one with iterations"
    )]
    Free,
}

impl Iteration {
    /// Before the first iteration.
    pub const NONE: Self = Self { number: 0, unfinished: WorkerSet::EMPTY };

    /// Whether some worker may have packets in flight.
    #[must_use]
    pub fn is_running(self) -> bool {
        !self.unfinished.is_empty()
    }

    /// The next iteration, with all workers unfinished. `asked` is its number, or 0 for any.
    /// Starting the running iteration again by its number changes nothing.
    ///
    /// # Errors
    /// [`OutOfTurn`].
    pub fn start(self, asked: u64, everyone: WorkerSet) -> Result<Self, OutOfTurn> {
        let next = self.number + 1;
        match (self.is_running(), asked) {
            (true, asked) if asked == self.number => Ok(self),
            (true, _) => Err(OutOfTurn::Running(self.number, Box::new(self.unfinished))),
            (false, asked) if asked == 0 || asked == next => {
                Ok(Self { number: next, unfinished: everyone })
            }
            (false, asked) => Err(OutOfTurn::Number { next, asked }),
        }
    }

    /// The same iteration after the job has gone on with these workers, who have the sums of so many rounds.
    #[must_use]
    pub fn after(self, rounds: u64, workers: WorkerSet) -> Self {
        let unfinished = if rounds < self.number { workers } else { WorkerSet::EMPTY };
        Self { unfinished, ..self }
    }

    /// The same iteration after a worker has finished iteration `number`. Repeated reports, even
    /// late ones, change nothing.
    ///
    /// # Errors
    /// [`OutOfTurn::NotBegun`].
    pub fn finish(self, number: u64, worker: WorkerIndex) -> Result<Self, OutOfTurn> {
        match number.cmp(&self.number) {
            _ if number == 0 => Err(OutOfTurn::NotBegun(number)),
            std::cmp::Ordering::Less => Ok(self),
            std::cmp::Ordering::Equal => {
                let unfinished = self.unfinished.without(WorkerSet::of(worker));
                Ok(Self { unfinished, ..self })
            }
            std::cmp::Ordering::Greater => Err(OutOfTurn::NotBegun(number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(index: u16) -> WorkerIndex {
        WorkerIndex::new(index).unwrap()
    }

    #[test]
    fn an_iteration_ends_with_its_last_worker() {
        let two = WorkerSet::first(2);
        let first = Iteration::NONE.start(0, two).unwrap();
        assert_eq!(first, Iteration { number: 1, unfinished: two });
        let half = first.finish(1, worker(1)).unwrap();
        assert_eq!((half.is_running(), half.unfinished), (true, WorkerSet::from_low_bits(1)));
        assert_eq!(half.finish(1, worker(1)), Ok(half), "said again");
        let over = half.finish(1, worker(0)).unwrap();
        assert!(!over.is_running());
        let second = over.start(2, two).unwrap();
        assert_eq!(second.finish(1, worker(0)), Ok(second), "said again, of the last one");
    }

    #[test]
    fn steps_out_of_turn_are_refused() {
        let two = WorkerSet::first(2);
        let none = Iteration::NONE;
        assert_eq!(none.start(2, two), Err(OutOfTurn::Number { next: 1, asked: 2 }));
        assert_eq!(none.finish(0, worker(0)), Err(OutOfTurn::NotBegun(0)));
        assert_eq!(none.finish(1, worker(0)), Err(OutOfTurn::NotBegun(1)));
        let first = none.start(1, two).unwrap();
        assert_eq!(first.start(1, two), Ok(first), "asked again");
        for asked in [0, 2] {
            assert_eq!(first.start(asked, two), Err(OutOfTurn::Running(1, Box::new(two))));
        }
        assert_eq!(first.finish(2, worker(0)), Err(OutOfTurn::NotBegun(2)));
        let over = first.finish(1, worker(0)).and_then(|it| it.finish(1, worker(1))).unwrap();
        assert_eq!(over.start(1, two), Err(OutOfTurn::Number { next: 2, asked: 1 }));
    }
}
