//! The workers of a job, run after run, without processes and clocks.
//!
//! All workers of a run have the same seed, and each run has another, so that what one run left behind would
//! make the sums of the next one wrong. A worker that ends before its run has summed anything is started again
//! alone. Later its job is broken: the others must end by themselves within a stated time, and then all are
//! started for the next run. Or the job goes on without it, and all are started when the others have all sums.

use std::time::{Duration, Instant};

/// Pause before a process that ended by itself is started again.
pub(crate) const PAUSE: Duration = Duration::from_millis(200);

/// The workers of a job.
#[derive(Debug)]
pub(crate) struct Crew {
    /// Number of the run, from 0.
    run: u64,
    seats: Vec<Seat>,
    /// Rounds that workers have reported in this run.
    rounds: u64,
    /// When the run broke, if it did.
    broken: Option<Instant>,
    /// Whether the job goes on without workers that die.
    goes_on: bool,
    /// Whether a worker has all results.
    done: bool,
    /// Digest of the sums of the run, as the first worker has reported it.
    digest: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seat {
    /// It is to be started.
    Due(Instant),
    /// It runs, and has reported this number of rounds.
    Running(u64),
    /// It has ended, and waits for the others.
    Ended,
}

/// How a worker has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// It has all results.
    Done,
    /// It was killed, or has failed.
    Failed,
}

/// The end of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// All workers have all results.
    Complete,
    /// A worker has died, or the run was given up.
    Broken,
}

impl Crew {
    pub(crate) fn new(workers: usize, goes_on: bool, now: Instant) -> Self {
        let seats = vec![Seat::Due(now); workers];
        Self { run: 0, seats, rounds: 0, broken: None, goes_on, done: false, digest: None }
    }

    /// A worker has all sums of the run, with this digest. Returns whether the others have the same.
    pub(crate) fn agrees(&mut self, digest: &str) -> bool {
        self.digest.get_or_insert_with(|| digest.to_owned()) == digest
    }

    /// Number of the run, from 0.
    pub(crate) fn run(&self) -> u64 {
        self.run
    }

    /// Whether a worker has ever reported a round.
    pub(crate) fn has_summed(&self) -> bool {
        self.run > 0 || self.rounds > 0
    }

    /// Workers that are to be started now. They are taken for started.
    pub(crate) fn start(&mut self, now: Instant) -> Vec<usize> {
        let is_due = |seat: &Seat| matches!(seat, Seat::Due(at) if *at <= now);
        let due = self.seats.iter().enumerate().filter(|(_, seat)| is_due(seat));
        let due: Vec<usize> = due.map(|(worker, _)| worker).collect();
        due.iter().for_each(|&worker| self.seats[worker] = Seat::Running(0));
        due
    }

    /// A worker has reported a round.
    pub(crate) fn round(&mut self, worker: usize) {
        if let Seat::Running(rounds) = &mut self.seats[worker] {
            *rounds += 1;
            self.rounds += 1;
        }
    }

    /// A worker has ended, and may be started again after a pause. Returns how the run ended, if it is over.
    pub(crate) fn ended(
        &mut self,
        worker: usize,
        end: End,
        pause: Duration,
        now: Instant,
    ) -> Option<Outcome> {
        let alone = end == End::Failed && self.rounds == 0 && self.broken.is_none();
        if alone {
            self.seats[worker] = Seat::Due(now + pause);
            return None;
        }
        self.seats[worker] = Seat::Ended;
        match end {
            End::Done => self.done = true,
            End::Failed if self.goes_on => {}
            End::Failed => {
                self.broken.get_or_insert(now);
            }
        }
        if self.broken.is_some() {
            // Those that were to be started again alone wait for the next run.
            for seat in &mut self.seats {
                if matches!(seat, Seat::Due(_)) {
                    *seat = Seat::Ended;
                }
            }
        }
        if self.seats.iter().any(|seat| *seat != Seat::Ended) {
            return None;
        }
        let complete = self.broken.is_none() && self.done;
        let outcome = if complete { Outcome::Complete } else { Outcome::Broken };
        let run = self.run + 1;
        *self = Self { run, ..Self::new(self.seats.len(), self.goes_on, now + pause) };
        Some(outcome)
    }

    /// Workers that wait for a run to begin, which it does not while the others end: no round was heard from
    /// them in a run that is broken, or that has gone on without them.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = usize> {
        let away = |seat: &Seat| matches!(seat, Seat::Ended | Seat::Running(0));
        let over = self.goes_on && self.done && self.seats.iter().all(away);
        let over = over || self.broken.is_some();
        let waits = move |seat: &Seat| over && *seat == Seat::Running(0);
        let seats = self.seats.iter().enumerate();
        seats.filter(move |(_, seat)| waits(seat)).map(|(worker, _)| worker)
    }

    /// Workers of a run that broke longer ago than their time to end.
    pub(crate) fn late(&self, patience: Duration, now: Instant) -> Vec<usize> {
        if self.broken.is_none_or(|since| now < since + patience) {
            return Vec::new();
        }
        let running = |seat: &Seat| matches!(seat, Seat::Running(_));
        let seats = self.seats.iter().enumerate();
        seats.filter(|(_, seat)| running(seat)).map(|(worker, _)| worker).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZERO: Duration = Duration::ZERO;

    #[test]
    fn a_run_that_all_finish_is_followed_by_the_next() {
        let now = Instant::now();
        let mut crew = Crew::new(2, false, now);
        assert_eq!(crew.start(now), [0, 1]);
        assert!(crew.start(now).is_empty());
        crew.round(0);
        crew.round(1);
        assert_eq!(crew.ended(1, End::Done, ZERO, now), None);
        assert_eq!(crew.ended(0, End::Done, PAUSE, now), Some(Outcome::Complete));
        assert_eq!((crew.run(), crew.start(now)), (1, vec![]));
        assert_eq!(crew.start(now + PAUSE), [0, 1]);
    }

    #[test]
    fn a_worker_that_dies_before_the_first_round_comes_back_alone() {
        let now = Instant::now();
        let mut crew = Crew::new(3, false, now);
        crew.start(now);
        assert_eq!(crew.ended(1, End::Failed, PAUSE, now), None);
        assert!(crew.start(now).is_empty());
        assert_eq!(crew.start(now + PAUSE), [1]);
        assert_eq!((crew.run(), crew.late(ZERO, now + PAUSE)), (0, vec![]));
    }

    #[test]
    fn a_worker_that_dies_later_breaks_the_run_and_the_others_must_end() {
        let now = Instant::now();
        let mut crew = Crew::new(4, false, now);
        crew.start(now);
        // Worker 3 came back alone, and now waits while the others sum what it had sent before.
        crew.ended(3, End::Failed, ZERO, now);
        crew.start(now);
        crew.round(0);
        crew.round(1);
        assert_eq!(crew.waiting().count(), 0);
        assert_eq!(crew.ended(0, End::Failed, ZERO, now), None);
        assert_eq!(crew.waiting().collect::<Vec<_>>(), [2, 3]);
        assert!(crew.late(PAUSE, now).is_empty());
        assert_eq!(crew.late(PAUSE, now + PAUSE), [1, 2, 3]);
        for worker in [1, 2] {
            assert_eq!(crew.ended(worker, End::Failed, ZERO, now), None);
        }
        assert_eq!(crew.ended(3, End::Failed, ZERO, now), Some(Outcome::Broken));
        assert_eq!((crew.run(), crew.start(now)), (1, vec![0, 1, 2, 3]));
    }

    #[test]
    fn one_that_was_to_come_back_alone_waits_for_the_next_run_if_this_one_breaks() {
        let now = Instant::now();
        let mut crew = Crew::new(2, false, now);
        crew.start(now);
        crew.ended(1, End::Failed, PAUSE, now);
        crew.round(0);
        assert_eq!(crew.ended(0, End::Failed, ZERO, now), Some(Outcome::Broken));
    }

    #[test]
    fn a_job_that_goes_on_is_complete_when_those_that_are_left_have_all_sums() {
        let now = Instant::now();
        let mut crew = Crew::new(3, true, now);
        crew.start(now);
        (0..3).for_each(|worker| crew.round(worker));
        assert_eq!(crew.ended(1, End::Failed, ZERO, now), None);
        assert!(crew.late(ZERO, now).is_empty(), "the others go on");
        assert_eq!(crew.ended(0, End::Done, ZERO, now), None);
        assert!(crew.agrees("a") && !crew.agrees("b"));
        assert_eq!(crew.waiting().count(), 0, "worker 2 has summed");
        assert_eq!(crew.ended(2, End::Done, ZERO, now), Some(Outcome::Complete));
        assert_eq!(crew.start(now), [0, 1, 2]);
        assert!(crew.agrees("b"), "it is another run");
        // One that is started again alone waits for workers that have ended.
        crew.ended(2, End::Failed, ZERO, now);
        crew.start(now);
        crew.round(0);
        crew.round(1);
        assert_eq!(crew.ended(0, End::Done, ZERO, now), None);
        assert_eq!(crew.waiting().count(), 0);
        assert_eq!(crew.ended(1, End::Done, ZERO, now), None);
        assert_eq!(crew.waiting().collect::<Vec<_>>(), [2]);
        assert_eq!(crew.ended(2, End::Failed, ZERO, now), Some(Outcome::Complete));
        // Nobody is left.
        crew.start(now);
        (0..3).for_each(|worker| crew.round(worker));
        crew.ended(0, End::Failed, ZERO, now);
        crew.ended(1, End::Failed, ZERO, now);
        assert_eq!(crew.ended(2, End::Failed, ZERO, now), Some(Outcome::Broken));
    }
}
