//! The workers of one run.

use std::collections::BTreeMap;

use tributary_protocol::Time;
use tributary_wire::{WorkerIndex, WorkerSet};

use super::{BEHIND, Begin, Notice, Served, Stop, Stopped, Stream};

/// A run, and the workers that take part in it.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) served: Served,
    seats: BTreeMap<WorkerIndex, Seat>,
    lost: WorkerSet,
    first_lost: Option<(WorkerIndex, String)>,
    /// The worker that has left after the fewest rounds.
    least_left: Option<(WorkerIndex, u64)>,
    behind: Behind,
    /// Whether it has begun because no sums came in the run before.
    pub(super) unstuck: bool,
    /// When workers that have not come back to a controller are taken for dead.
    absence: Option<Time>,
    /// The last notice of its workers.
    end: Option<Notice>,
    /// Workers that had all sums then.
    done: WorkerSet,
}

/// Who was told to be behind.
#[derive(Clone, Copy, Debug, Default)]
struct Behind {
    told: Option<(WorkerSet, u64)>,
    /// When the notice about it is due.
    due: Option<Time>,
    /// Before which none are told.
    pause: Time,
}

/// A worker's place in a run.
#[derive(Clone, Copy, Debug)]
struct Seat {
    at: Place,
    stopped: Option<Stopped>,
    /// Rounds that the worker has begun, if it says that.
    reached: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// The worker takes part on this stream.
    Here(Stream),
    /// Its stream has ended. It may come back until then.
    Away(Time),
    /// It has left with all sums.
    Finished,
}

impl Place {
    fn stream(self) -> Option<Stream> {
        if let Self::Here(stream) = self { Some(stream) } else { None }
    }

    fn until(self) -> Option<Time> {
        if let Self::Away(until) = self { Some(until) } else { None }
    }
}

/// All workers of a run that are left have stopped summing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Spoken {
    pub(super) left: WorkerSet,
    pub(super) lost: WorkerSet,
    /// Rounds whose sums all of them have.
    pub(super) rounds: u64,
    /// Whether all of them have all sums.
    pub(super) done: bool,
    /// Whether all of them go on in another run.
    pub(super) renews: bool,
}

impl Run {
    pub(super) fn new(served: Served) -> Self {
        Self {
            served,
            seats: BTreeMap::new(),
            lost: WorkerSet::EMPTY,
            first_lost: None,
            least_left: None,
            behind: Behind::default(),
            unstuck: false,
            absence: None,
            done: WorkerSet::EMPTY,
            end: served.ended.then(|| Notice::Over("the run of the job has ended".to_owned())),
        }
    }

    pub(super) fn begin(&self) -> Begin {
        let Served { epoch, workers, handover, .. } = self.served;
        Begin { epoch, workers, rounds: handover.map_or(0, |handover| handover.rounds) }
    }

    /// Workers that have not died.
    pub(super) fn left(&self) -> WorkerSet {
        self.served.workers.without(self.lost)
    }

    pub(super) fn first_lost(&self) -> Option<&(WorkerIndex, String)> {
        self.first_lost.as_ref()
    }

    pub(super) fn least_left(&self) -> Option<(WorkerIndex, u64)> {
        self.least_left
    }

    pub(super) fn end(&self) -> Option<&Notice> {
        self.end.as_ref()
    }

    pub(super) fn finish(&mut self, end: Notice) {
        self.end = Some(end);
        let done = |seat: &Seat| seat.stopped.is_some_and(Stopped::is_done);
        self.done = self.seats.iter().filter(|(_, seat)| done(seat)).map(|(at, _)| *at).collect();
    }

    /// Whether a worker had all sums at the end.
    pub(super) fn has_all(&self, worker: WorkerIndex) -> bool {
        self.done.contains(worker)
    }

    /// Whether it has not ended, and some of its workers are heard.
    pub(super) fn is_under_way(&self) -> bool {
        self.end.is_none() && !self.seats.is_empty()
    }

    /// Its workers that are there, with their streams.
    pub(super) fn present(&self) -> Vec<(WorkerIndex, Stream)> {
        let there = self.seats.iter();
        there.filter_map(|(worker, seat)| Some((*worker, seat.at.stream()?))).collect()
    }

    /// A worker takes its place. Returns the stream that had it. If it is the first one, the others may
    /// stay away until `absence`.
    pub(super) fn sit(
        &mut self,
        stream: Stream,
        worker: WorkerIndex,
        absence: Option<Time>,
    ) -> Option<Stream> {
        if self.seats.is_empty() {
            self.absence = absence;
        }
        let seat = Seat { at: Place::Here(stream), stopped: None, reached: None };
        self.seats.insert(worker, seat).and_then(|before| before.at.stream())
    }

    /// A worker without a place has gone, and may come back until then.
    pub(super) fn miss(&mut self, worker: WorkerIndex, until: Time) {
        let seat = Seat { at: Place::Away(until), stopped: None, reached: None };
        self.seats.entry(worker).or_insert(seat);
    }

    /// A worker has stopped. Returns whether it takes part with this stream.
    pub(super) fn stopped(&mut self, stream: Stream, stopped: Stopped) -> bool {
        let seat = self.seats.values_mut().find(|seat| seat.at == Place::Here(stream));
        seat.map(|seat| seat.stopped = Some(stopped)).is_some()
    }

    /// A stream has ended. Its worker may come back until then.
    pub(super) fn rise(&mut self, stream: Stream, until: Time) {
        if let Some(seat) = self.seats.values_mut().find(|seat| seat.at == Place::Here(stream)) {
            seat.at = Place::Away(until);
        }
    }

    /// Whether a worker takes part with some stream.
    pub(super) fn is_here(&self, worker: WorkerIndex) -> bool {
        self.seats.get(&worker).is_some_and(|seat| seat.at.stream().is_some())
    }

    /// The worker that takes part with a stream.
    pub(super) fn worker(&self, stream: Stream) -> Option<WorkerIndex> {
        let own = self.seats.iter().find(|(_, seat)| seat.at == Place::Here(stream));
        own.map(|(worker, _)| *worker)
    }

    /// A worker leaves with all sums of so many rounds. Returns whether these are fewer than those of any before it.
    pub(super) fn leave(&mut self, stream: Stream, rounds: u64) -> bool {
        let own = self.seats.iter_mut().find(|(_, seat)| seat.at == Place::Here(stream));
        let Some((worker, seat)) = own else { return false };
        seat.at = Place::Finished;
        let fewer = self.least_left.is_none_or(|(_, least)| rounds < least);
        if fewer {
            self.least_left = Some((*worker, rounds));
        }
        fewer
    }

    /// A worker has begun so many rounds.
    pub(super) fn reach(&mut self, stream: Stream, rounds: u64, now: Time) {
        if let Some(seat) = self.seats.values_mut().find(|seat| seat.at == Place::Here(stream)) {
            seat.reached = Some(rounds);
            self.behind.due.get_or_insert(now.max(self.behind.pause));
        }
    }

    /// When the notice of who is behind is due.
    pub(super) fn behind_at(&self) -> Option<Time> {
        self.behind.due
    }

    /// Those that have begun the fewest rounds, and how many, if that is to be told now. A worker that has said nothing
    /// has begun none.
    pub(super) fn behind(&mut self, now: Time) -> Option<(WorkerSet, u64)> {
        self.behind.due.filter(|due| *due <= now)?;
        (self.behind.due, self.behind.pause) = (None, now + BEHIND);
        let there = self.seats.iter().filter(|(_, seat)| seat.at != Place::Finished);
        let reached = there.map(|(worker, seat)| (*worker, seat.reached.unwrap_or(0)));
        let least = reached.clone().map(|(_, rounds)| rounds).min()?;
        let those = reached.filter(|(_, rounds)| *rounds == least).map(|(worker, _)| worker);
        let now = Some((those.collect(), least));
        (std::mem::replace(&mut self.behind.told, now) != now).then_some(now).flatten()
    }

    /// Whether a worker has left with all sums.
    pub(super) fn has_left(&self, worker: WorkerIndex) -> bool {
        self.seats.get(&worker).is_some_and(|seat| seat.at == Place::Finished)
    }

    /// A worker that was lost is there again.
    pub(super) fn find(&mut self, worker: WorkerIndex) {
        self.lost = self.lost.without(WorkerSet::of(worker));
    }

    pub(super) fn lose(&mut self, worker: WorkerIndex, why: &str) {
        self.seats.remove(&worker);
        self.lost |= WorkerSet::of(worker);
        self.first_lost.get_or_insert_with(|| (worker, why.to_owned()));
    }

    /// When a worker is taken for dead.
    pub(super) fn deadline(&self) -> Option<Time> {
        let away = self.seats.values().filter_map(|seat| seat.at.until());
        away.chain(self.absence).min()
    }

    /// The workers that are dead by now, and whether they have not come back to another controller. Each is returned once.
    pub(super) fn overdue(&mut self, now: Time) -> Vec<(WorkerIndex, bool)> {
        let gone =
            |_: &WorkerIndex, seat: &mut Seat| seat.at.until().is_some_and(|until| until <= now);
        let dead: WorkerSet = self.seats.extract_if(.., gone).map(|(worker, _)| worker).collect();
        let mut absent = WorkerSet::EMPTY;
        if self.absence.is_some_and(|until| until <= now) {
            self.absence = None;
            let there: WorkerSet = self.seats.keys().copied().collect();
            absent = self.left().without(there).without(dead);
        }
        if self.end.is_some() {
            return Vec::new();
        }
        let (dead, absent) =
            (dead.iter().map(|at| (at, false)), absent.iter().map(|at| (at, true)));
        dead.chain(absent).collect()
    }

    /// What is left of the run, if it has not ended and none of its workers sums any more.
    pub(super) fn spoken(&self) -> Option<Spoken> {
        if self.end.is_some() {
            return None;
        }
        let left = self.left();
        let stopped = |worker| self.seats.get(&worker).and_then(|seat| seat.stopped);
        let all: Option<Vec<Stopped>> = left.iter().map(stopped).collect();
        let all = all?;
        let every = |why| !all.is_empty() && all.iter().all(|stopped| stopped.why == why);
        let (done, renews) = (every(Stop::Done), every(Stop::Renewal));
        let rounds = all.iter().map(|stopped| stopped.rounds).min().unwrap_or(0);
        Some(Spoken { left, lost: self.lost, rounds, done, renews })
    }

    /// The run goes on with workers of the one before, on the same streams.
    pub(super) fn inherit(&mut self, before: &Self) {
        for (worker, seat) in &before.seats {
            if self.served.workers.contains(*worker) {
                self.seats.insert(*worker, Seat { stopped: None, ..*seat });
            }
        }
    }
}
