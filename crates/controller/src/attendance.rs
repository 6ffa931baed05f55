//! The workers that are in the middle of a run. When one of them dies, the others learn it, and end, or go on
//! without it.

use std::collections::BTreeMap;
use std::fmt;

use tokio::sync::watch;
use tributary_wire::{Epoch, JobId, Run, WorkerIndex, WorkerSet};

/// The workers of all runs that have called.
#[derive(Debug, Default)]
pub(crate) struct Attendance(BTreeMap<Run, Present>);

/// The workers of a run. Their indices are those of the job file.
#[derive(Debug, Default)]
struct Present {
    /// All of them, if the job goes on without those that die.
    workers: Option<WorkerSet>,
    /// The number of each worker's last call, while that lasts or may be followed by another.
    calls: BTreeMap<WorkerIndex, u64>,
    /// Number of calls so far.
    count: u64,
    /// Workers that have died.
    lost: WorkerSet,
    /// What workers have said that have stopped summing.
    standings: BTreeMap<WorkerIndex, Standing>,
    news: watch::Sender<News>,
}

/// A worker that has stopped summing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// The number of rounds of the job whose sums it has.
    pub rounds: u64,
    /// Whether these are all.
    pub done: bool,
}

/// What the workers of a run are told.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct News {
    /// The first worker that has died.
    pub(crate) lost: Option<WorkerIndex>,
    /// How the run has ended, in a job that goes on.
    pub(crate) verdict: Option<Verdict>,
}

/// How a run ends that may go on without some of its workers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Some of its workers go on in another run.
    GoOn(Continuation),
    /// All workers that are left have all sums.
    Complete,
    /// The job ends, for this reason.
    Over(String),
}

/// How a job goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Continuation {
    /// The next run.
    pub epoch: Epoch,
    /// Its workers. Packets name them by their places in this set.
    pub workers: WorkerSet,
    /// The sums of so many rounds stay as they are. Those of later rounds are summed again.
    pub rounds: u64,
}

/// All workers of a run that are left have stopped summing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spoken {
    pub(crate) left: WorkerSet,
    pub(crate) lost: WorkerSet,
    /// Rounds whose sums all of them have.
    pub(crate) rounds: u64,
    /// Whether all of them have all sums.
    pub(crate) done: bool,
}

/// A call of a worker, by number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Call {
    pub(crate) run: Run,
    worker: WorkerIndex,
    number: u64,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, worker {}", self.run, self.worker)
    }
}

impl Attendance {
    /// A run of a job that goes on, with these workers. It may be known already.
    pub(crate) fn open(&mut self, run: Run, workers: WorkerSet) {
        let present = self.0.entry(run).or_default();
        present.workers.get_or_insert(workers);
    }

    /// Ends a run. In the next one, workers that have died meanwhile are lost from the start.
    pub(crate) fn decide(&mut self, run: Run, verdict: Verdict) {
        let present = self.0.entry(run).or_default();
        let lost = present.lost;
        if let Verdict::GoOn(next) = verdict {
            present.workers.get_or_insert(next.workers);
            let run = run.job.run(next.epoch);
            self.open(run, next.workers);
            for worker in lost.iter().filter(|worker| next.workers.contains(*worker)) {
                self.lose(run, worker);
            }
        }
        let present = self.0.entry(run).or_default();
        present.news.send_modify(|news| {
            news.verdict.get_or_insert(verdict);
        });
    }

    /// The job has another run, and workers that still attend an earlier one end.
    pub(crate) fn supersede(&mut self, job: JobId) {
        for (_, present) in self.0.extract_if(.., |run, _| run.job == job) {
            present.news.send_modify(|news| {
                let other = || Verdict::Over("the job has another run now".to_owned());
                news.verdict.get_or_insert_with(other);
            });
        }
    }

    /// Forgets runs of a job before these.
    pub(crate) fn keep(&mut self, job: JobId, runs: [Epoch; 2]) {
        self.0.retain(|run, _| run.job != job || runs.contains(&run.epoch));
    }

    /// A worker calls, perhaps again. Returns whether it is the first call in the run, and the news of the
    /// run; `None` if the run goes on without the worker.
    pub(crate) fn begin(
        &mut self,
        run: Run,
        worker: WorkerIndex,
    ) -> Option<(Call, bool, watch::Receiver<News>)> {
        let present = self.0.entry(run).or_default();
        let outside = present.workers.is_some_and(|all| !all.contains(worker));
        if outside || present.workers.is_some() && present.lost.contains(worker) {
            return None;
        }
        present.count += 1;
        let number = present.count;
        present.calls.insert(worker, number);
        Some((Call { run, worker, number }, number == 1, present.news.subscribe()))
    }

    /// A worker of a job that goes on has stopped summing.
    pub(crate) fn speak(&mut self, call: Call, standing: Standing) {
        if let Some(present) = self.current(call) {
            present.standings.insert(call.worker, standing);
        }
    }

    /// The worker's part in a run of a job that ends is over.
    pub(crate) fn done(&mut self, call: Call) {
        if let Some(present) = self.current(call) {
            present.calls.remove(&call.worker);
            self.forget_if_empty(call.run);
        }
    }

    /// The call has ended without that, some time ago. Returns the run in which the worker has died, if it
    /// has.
    pub(crate) fn gone(&mut self, call: Call) -> Option<Run> {
        let present = self.current(call)?;
        present.calls.remove(&call.worker);
        let goes_on = present.workers.is_some();
        let run = match present.news.borrow().verdict.clone() {
            None => call.run,
            // It should have called for the next run.
            Some(Verdict::GoOn(next)) => call.run.job.run(next.epoch),
            Some(Verdict::Complete | Verdict::Over(_)) => return None,
        };
        let next = self.0.get(&run)?;
        if run != call.run && (next.count_of(call.worker) || next.lost.contains(call.worker)) {
            return None;
        }
        self.lose(run, call.worker);
        if !goes_on {
            self.forget_if_empty(run);
        }
        Some(run)
    }

    /// Takes workers of a run for dead that have not called. Returns whether there are such workers.
    pub(crate) fn miss(&mut self, run: Run) -> bool {
        let Some(Present { workers: Some(workers), calls, lost, news, .. }) = self.0.get(&run)
        else {
            return false;
        };
        if news.borrow().verdict.is_some() {
            return false;
        }
        let there: WorkerSet = calls.keys().copied().collect();
        let missing = workers.without(there | *lost);
        missing.iter().for_each(|worker| self.lose(run, worker));
        !missing.is_empty()
    }

    /// What is left of a run that has not ended, if none of its workers sums any more.
    pub(crate) fn spoken(&self, run: Run) -> Option<Spoken> {
        let Present { workers, lost, standings, news, .. } = self.0.get(&run)?;
        if news.borrow().verdict.is_some() {
            return None;
        }
        let left = (*workers)?.without(*lost);
        let all = left.iter().map(|worker| standings.get(&worker).copied());
        let all = all.collect::<Option<Vec<Standing>>>()?;
        let done = !all.is_empty() && all.iter().all(|standing| standing.done);
        let rounds = all.iter().map(|standing| standing.rounds).min().unwrap_or(0);
        Some(Spoken { left, lost: *lost, rounds, done })
    }

    /// The workers of a run that are left, if the run goes on and some of them are heard.
    pub(crate) fn under_way(&self, run: Run) -> Option<WorkerSet> {
        let Present { workers, calls, lost, news, .. } = self.0.get(&run)?;
        let over = news.borrow().verdict.is_some() || calls.is_empty();
        (*workers).filter(|_| !over).map(|workers| workers.without(*lost))
    }

    /// The run of a worker's last call.
    fn current(&mut self, call: Call) -> Option<&mut Present> {
        let present = self.0.get_mut(&call.run)?;
        (present.calls.get(&call.worker) == Some(&call.number)).then_some(present)
    }

    fn lose(&mut self, run: Run, worker: WorkerIndex) {
        let Some(present) = self.0.get_mut(&run) else { return };
        present.lost |= WorkerSet::of(worker);
        present.news.send_if_modified(|news| {
            let first = news.lost.is_none();
            news.lost.get_or_insert(worker);
            first
        });
    }

    fn forget_if_empty(&mut self, run: Run) {
        if self.0.get(&run).is_some_and(|present| present.calls.is_empty()) {
            self.0.remove(&run);
        }
    }
}

impl Present {
    /// Whether the worker calls.
    fn count_of(&self, worker: WorkerIndex) -> bool {
        self.calls.contains_key(&worker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(number: u32) -> Epoch {
        Epoch::new(number).unwrap()
    }

    fn run() -> Run {
        JobId::new(1).unwrap().run(epoch(1))
    }

    fn worker(index: u16) -> WorkerIndex {
        WorkerIndex::new(index).unwrap()
    }

    const fn set(bits: u32) -> WorkerSet {
        WorkerSet::from_low_bits(bits)
    }

    fn stopped(rounds: u64) -> Standing {
        Standing { rounds, done: false }
    }

    const DONE: Standing = Standing { rounds: 9, done: true };

    fn go_on(number: u32, workers: u32, rounds: u64) -> Verdict {
        Verdict::GoOn(Continuation { epoch: epoch(number), workers: set(workers), rounds })
    }

    /// Three workers of a job that goes on, and their calls.
    fn three() -> (Attendance, [Call; 3]) {
        let mut attendance = Attendance::default();
        attendance.open(run(), set(0b111));
        let calls = [0, 1, 2].map(|index| attendance.begin(run(), worker(index)).unwrap().0);
        (attendance, calls)
    }

    #[test]
    fn the_first_worker_that_dies_is_named() {
        let mut attendance = Attendance::default();
        let (first, _, news) = attendance.begin(run(), worker(0)).unwrap();
        let (second, ..) = attendance.begin(run(), worker(1)).unwrap();
        let (third, ..) = attendance.begin(run(), worker(2)).unwrap();
        attendance.done(third);
        assert_eq!(news.borrow().lost, None);
        assert_eq!(attendance.gone(second), Some(run()));
        assert_eq!(news.borrow().lost, Some(worker(1)));
        assert_eq!(attendance.gone(first), Some(run()), "it ends because of the other");
        assert_eq!(news.borrow().lost, Some(worker(1)));
        assert_eq!(attendance.spoken(run()), None, "the job does not go on");
        assert!(attendance.0.is_empty());
    }

    #[test]
    fn a_worker_that_calls_again_is_not_dead() {
        let mut attendance = Attendance::default();
        let (_, first, news) = attendance.begin(run(), worker(0)).unwrap();
        let (broken, other, _) = attendance.begin(run(), worker(1)).unwrap();
        assert!(first && !other);
        let (again, ..) = attendance.begin(run(), worker(1)).unwrap();
        assert_eq!(attendance.gone(broken), None);
        assert_eq!(news.borrow().lost, None);
        attendance.done(again);
        assert_eq!(attendance.gone(again), None, "it had all results");
        assert_eq!(news.borrow().lost, None);
    }

    #[test]
    fn all_that_are_left_must_speak_before_the_job_goes_on_from_the_least_round() {
        let (mut attendance, [first, second, third]) = three();
        attendance.speak(third, stopped(5));
        assert_eq!(attendance.gone(second), Some(run()));
        assert_eq!(attendance.spoken(run()), None, "worker 0 still sums");
        attendance.speak(first, stopped(4));
        let spoken = Spoken { left: set(0b101), lost: set(0b010), rounds: 4, done: false };
        assert_eq!(attendance.spoken(run()), Some(spoken));
        attendance.decide(run(), go_on(2, 0b101, 4));
        assert_eq!(attendance.spoken(run()), None, "it is decided once");
        attendance.decide(run(), Verdict::Complete);
        let (_, _, news) = attendance.begin(run(), worker(0)).unwrap();
        assert_eq!(news.borrow().verdict, Some(go_on(2, 0b101, 4)));
    }

    #[test]
    fn a_run_without_a_loss_goes_on_until_all_have_all_sums() {
        let (mut attendance, calls) = three();
        calls[..2].iter().for_each(|call| attendance.speak(*call, DONE));
        assert_eq!(attendance.spoken(run()), None);
        // Nothing comes for this one, and nobody has died.
        attendance.speak(calls[2], stopped(8));
        let spoken = attendance.spoken(run()).unwrap();
        assert!(!spoken.done && spoken.lost.is_empty());
        attendance.speak(calls[2], DONE);
        assert!(attendance.spoken(run()).unwrap().done);
    }

    /// It has died after it had all sums, and others have not.
    #[test]
    fn a_worker_that_dies_with_all_sums_is_no_longer_counted() {
        let (mut attendance, calls) = three();
        attendance.speak(calls[0], DONE);
        assert_eq!(attendance.gone(calls[0]), Some(run()));
        attendance.speak(calls[1], DONE);
        attendance.speak(calls[2], stopped(8));
        let spoken = attendance.spoken(run()).unwrap();
        assert_eq!((spoken.left, spoken.rounds, spoken.done), (set(0b110), 8, false));
    }

    #[test]
    fn a_worker_that_was_lost_is_refused_and_one_that_dies_in_between_is_lost_in_the_next_run() {
        let (mut attendance, [first, second, third]) = three();
        attendance.gone(second);
        assert!(attendance.begin(run(), worker(1)).is_none());
        assert!(attendance.begin(run(), worker(3)).is_none(), "the job has no such worker");
        assert_eq!(attendance.under_way(run()), Some(set(0b101)));
        attendance.speak(first, stopped(1));
        attendance.speak(third, stopped(1));
        // Its call ends before it is told, and after that.
        attendance.decide(run(), go_on(2, 0b101, 1));
        let next = run().job.run(epoch(2));
        assert!(attendance.begin(next, worker(1)).is_none());
        let (again, ..) = attendance.begin(next, worker(2)).unwrap();
        assert_eq!(attendance.gone(third), None, "it has called for the next run");
        assert_eq!(attendance.gone(first), Some(next));
        assert_eq!(attendance.under_way(next), Some(set(0b100)));
        attendance.speak(again, stopped(1));
        assert_eq!(attendance.spoken(next).unwrap().lost, set(0b001));
    }

    #[test]
    fn workers_that_do_not_call_are_taken_for_dead() {
        let mut attendance = Attendance::default();
        attendance.open(run(), set(0b111));
        let (call, ..) = attendance.begin(run(), worker(1)).unwrap();
        attendance.speak(call, stopped(3));
        assert_eq!(attendance.spoken(run()), None);
        assert!(attendance.miss(run()));
        assert!(!attendance.miss(run()));
        assert_eq!(attendance.spoken(run()).unwrap().left, set(0b010));
        attendance.decide(run(), Verdict::Complete);
        assert!(!attendance.miss(run()));
    }

    #[test]
    fn a_new_run_ends_the_call_of_an_old_one() {
        let (mut attendance, [call, ..]) = three();
        let (_, _, news) = attendance.begin(run(), worker(2)).unwrap();
        attendance.supersede(run().job);
        assert!(matches!(news.borrow().verdict, Some(Verdict::Over(_))));
        assert_eq!(attendance.gone(call), None);
        assert!(attendance.0.is_empty());
    }
}
