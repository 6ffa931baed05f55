//! A job's life: who takes part, which run it is in, and how it goes on after a loss.
//!
//! [`Job`] is a state machine. It takes [events](Event) from streams of endpoints, from switches, from the
//! journal and from the clock, and gives [orders](Order). It knows neither sockets nor clocks, so that each
//! order of events can be tried (`tests/life`).
//!
//! ```text
//! forming ── all workers wait ─▶ changing ── switches, journal ─▶ running(epoch, workers)
//!    ▲                              ▲                                 │
//!    │                              └─ goes on without the lost, ─────┤ a worker is lost, and
//!    │                                 or with them again             │ all others have stopped
//!    └───────────── complete, or over for a reason ───────────────────┘
//! ```
//!
//! The workers of a job begin a run together. Each one opens a stream and waits until all have; then
//! switches change to a new run with exactly these workers. The stream stays open while the worker takes
//! part: its end is the worker's death, unless it comes back within [`RETURN`].
//!
//! Workers whose sequence numbers run short stop as well. When all have, they go on in another run with the same workers.
//! If no sums come to any worker, and none has died, a switch may have lost its memory. A job that need not end with a
//! death then goes on in another run, too, unless that one was begun for the same reason and completed no round.
//!
//! When a worker has died, the others learn it. What they do follows from [`OnDeath`]: they end; or they
//! stop, say of how many rounds they have the sums, and go on in another run, from the round that the one
//! furthest behind is in: without the dead worker, or when it has been started again.
//!
//! 1. Switches change to the new run and its workers.
//! 2. The journal has it, and where it begins ([`Handover`]).
//! 3. Workers and servers are told.
//!
//! A controller that is killed before 2 is [resumed](Job::resume) with the run before, of which nobody was
//! told the end: it decides again. After 2 it tells the same to those that were not told. A worker that dies
//! after 2 has died in the new run.
//!
//! Requests of clients come in between: a move, a release. One change of a job is under way at a time, whether its life or
//! a client wants it.
//!
//! A job with a [grace period](Rules::grace) is released when no worker has taken part for that long, or at once when all
//! have left with all sums.
//!
//! | module | content |
//! | --- | --- |
//! | `terms` | events, orders, and what endpoints are told |
//! | `run` | the workers of a run |
//! | `change` | the change to another run, or to the end of one |
//! | `progress`, `requests` | iterations, and what clients want |

mod change;
mod progress;
mod requests;
mod run;
mod terms;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tributary_protocol::Time;
use tributary_wire::{Epoch, WorkerIndex, WorkerSet};

use crate::OnDeath;
use change::{Change, Next};
pub use progress::{Iteration, OutOfTurn, Progress, Turn};
use run::Run;
use terms::released;
pub use terms::{
    Begin, Blocked, Event, Failure, Handover, Notice, Order, Refusal, Rules, Served, Stop, Stopped,
    Stream,
};

/// How long a worker whose stream has ended may take to come back, before it is taken for dead.
pub const RETURN: Duration = Duration::from_secs(1);

/// How long after the first worker of a run the others may take to come back to a controller that has been
/// started again.
pub const ABSENCE: Duration = Duration::from_secs(10);

/// Pause before switches are asked again to change to the next run.
pub const AGAIN: Duration = Duration::from_secs(1);

/// Least pause between two notices of who is behind.
pub const BEHIND: Duration = Duration::from_millis(250);

/// How a worker's death was noticed.
const GONE: &str = "is gone: its process has ended, or its connection is cut";
const ABSENT: &str = "is gone: it has not come back to the controller, which was started again";

/// A job's life.
#[derive(Clone, Debug)]
pub struct Job {
    rules: Rules,
    now: Time,
    /// Workers that wait for the next run.
    waiting: BTreeMap<WorkerIndex, Stream>,
    /// Workers that have given up before the next run, and why, in a job whose workers do not come back.
    given_up: BTreeMap<WorkerIndex, String>,
    followers: BTreeSet<Stream>,
    run: Run,
    change: Option<Change>,
    /// When switches are asked again.
    again: Option<Time>,
    /// Whether a change has failed half-way, so that the job can only be released.
    broken: bool,
    /// Since when no worker takes part, or wants to, in a job that ends then.
    idle: Option<Time>,
    /// Whether its release is ordered.
    ending: bool,
    /// Whether a release has failed.
    unreleased: bool,
    closed: bool,
    orders: VecDeque<Order>,
}

impl Job {
    /// A job of which switches serve a run: one that nobody has begun, one that was found in the switches, or the
    /// last one in the journal of an earlier controller. Its grace period begins with the next event or
    /// [tick](Self::tick).
    #[must_use]
    pub fn resume(rules: Rules, served: Served) -> Self {
        Self {
            rules,
            now: Time::ZERO,
            waiting: BTreeMap::new(),
            given_up: BTreeMap::new(),
            followers: BTreeSet::new(),
            run: Run::new(served),
            change: None,
            again: None,
            broken: false,
            idle: None,
            ending: false,
            unreleased: false,
            closed: false,
            orders: VecDeque::new(),
        }
    }

    /// The job's rules.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The run that was recorded last.
    #[must_use]
    pub fn served(&self) -> Served {
        self.run.served
    }

    /// The worker that takes part in a run with this stream, if that is the one that switches serve: what a worker
    /// says late of an earlier one may not hold any more.
    #[must_use]
    pub fn worker(&self, stream: Stream, run: Epoch) -> Option<WorkerIndex> {
        let there = self.run.present().into_iter().filter(|_| run == self.run.served.epoch);
        there.filter(|(_, own)| *own == stream).map(|(worker, _)| worker).next()
    }

    /// Whether switches or the journal change.
    #[must_use]
    pub fn is_changing(&self) -> bool {
        self.change.as_ref().is_some_and(|_| self.again.is_none())
    }

    /// Whether some endpoint takes part, or waits to.
    #[must_use]
    pub fn is_taken_part_in(&self) -> bool {
        !self.waiting.is_empty() || !self.run.present().is_empty()
    }

    /// The next order.
    pub fn poll(&mut self) -> Option<Order> {
        self.orders.pop_front()
    }

    /// When [`tick`](Self::tick) is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let notice = self.run.behind_at().filter(|_| !self.closed);
        let all = self.run.deadline().into_iter().chain(self.again).chain(self.ends_at());
        all.chain(notice).min()
    }

    /// When the job is to be released unless a worker takes part by then.
    fn ends_at(&self) -> Option<Time> {
        // One change at a time.
        let idle = self.idle.filter(|_| !self.ending && !self.is_changing())?;
        // Nobody comes back to a job that is complete, or that ends with a death.
        let lost = self.rules.on_death == OnDeath::End && self.run.first_lost().is_some();
        let over = lost || self.run.end() == Some(&Notice::Complete);
        let grace = self.rules.grace.filter(|_| !over).unwrap_or_default();
        Some(idle + if self.unreleased { grace.max(AGAIN) } else { grace })
    }

    /// After each event: whether the job is left alone, and whether that has lasted long enough.
    fn look_for_the_end(&mut self) {
        if self.closed || self.rules.grace.is_none() || self.is_taken_part_in() {
            self.idle = None;
            return;
        }
        self.idle.get_or_insert(self.now);
        if self.ends_at().is_some_and(|end| end <= self.now) {
            self.ending = true;
            self.orders.push_back(Order::Release);
        }
    }

    /// Time passes.
    pub fn tick(&mut self, now: Time) {
        self.now = self.now.max(now);
        if self.again.is_some_and(|again| again <= self.now) {
            self.again = None;
            self.change = None;
            self.look();
        }
        for (worker, absent) in self.run.overdue(self.now) {
            self.lose(worker, if absent { ABSENT } else { GONE });
        }
        self.tell_behind();
        self.look_for_the_end();
    }

    /// Something happens.
    pub fn handle(&mut self, now: Time, event: Event) {
        self.now = self.now.max(now);
        match event {
            Event::Take(stream, worker, run) => self.take(stream, worker, run),
            Event::Follow(stream) => self.follow(stream),
            Event::Stopped(stream, epoch, stopped) => {
                if self.may_stop(epoch, stopped) && self.run.stopped(stream, stopped) {
                    if stopped.is_done() && self.rules.on_death == OnDeath::End {
                        // Its end is not its death, and it waits for nobody.
                        self.leave(stream, stopped.rounds);
                    }
                    self.look();
                }
            }
            Event::Reached(stream, rounds) => {
                self.run.reach(stream, rounds, self.now);
                self.tell_behind();
            }
            Event::Failed(stream, why) => {
                if let Some(worker) = self.run.worker(stream) {
                    self.lose(worker, &why);
                } else if let Some(worker) = self.waiting_worker(stream) {
                    self.give_up(worker, &why);
                }
            }
            Event::Gone(stream) => self.gone(stream),
            Event::Changed(outcome) => self.changed(outcome),
            Event::Recorded(outcome) => self.recorded(outcome),
            Event::Progressed(progress) => self.progressed(progress),
            Event::Moved { now, whole } => {
                (self.change, self.broken) = (None, !whole);
                if let Some(now) = now.filter(|now| *now != self.run.served.progress) {
                    self.progressed(now);
                }
                self.look();
            }
            Event::Released => self.released(),
            Event::Unreleased => {
                (self.change, self.broken) = (None, true);
                self.postpone();
            }
            Event::Postponed => self.postpone(),
            Event::Close => self.close(),
        }
        self.look_for_the_end();
    }

    /// Whether a worker that has stopped in a run has stopped in the one that is served.
    fn may_stop(&self, epoch: Epoch, stopped: Stopped) -> bool {
        let Served { epoch: current, handover, .. } = self.run.served;
        let before = handover.map(|handover| handover.before);
        // A worker with all sums needs no other run, whether it has heard of one or not.
        let ends = stopped.is_done() && self.rules.on_death == OnDeath::End;
        epoch == current || ends && Some(epoch) == before
    }

    /// After a pause, or the grace period, the release is ordered again.
    fn postpone(&mut self) {
        (self.ending, self.unreleased, self.idle) = (false, true, None);
    }

    /// A worker leaves with all sums.
    fn leave(&mut self, stream: Stream, rounds: u64) {
        let Some(worker) = self.run.worker(stream) else { return };
        let first = self.run.leave(stream, rounds);
        self.tell(stream, Notice::Complete);
        if first {
            self.tell_run(&Notice::Left(worker, rounds));
        }
    }

    /// Tells all workers who is behind, if that has changed, and not more often than necessary.
    fn tell_behind(&mut self) {
        if !self.closed
            && let Some((workers, rounds)) = self.run.behind(self.now)
        {
            self.tell_run(&Notice::Behind(workers, rounds));
        }
    }

    fn tell(&mut self, stream: Stream, notice: Notice) {
        self.orders.push_back(Order::Tell(stream, notice));
    }

    /// Tells all workers that take part.
    fn tell_run(&mut self, notice: &Notice) {
        for (_, stream) in self.run.present() {
            self.tell(stream, notice.clone());
        }
    }

    /// Tells a worker, or who follows, that the run begins, and how.
    fn tell_begin(&mut self, stream: Stream, worker: Option<WorkerIndex>) {
        let begin = self.run.begin();
        self.tell(stream, Notice::Begin(begin));
        self.tell_turn(stream, worker);
    }

    fn tell_turn(&mut self, stream: Stream, worker: Option<WorkerIndex>) {
        let progress = self.run.served.progress;
        if self.rules.stepped || progress.rate.is_some() {
            self.tell(stream, Notice::Turn(progress.turn(worker)));
        }
    }

    fn progressed(&mut self, next: Progress) {
        let before = std::mem::replace(&mut self.run.served.progress, next);
        let reported = before.iteration.unfinished.without(next.iteration.unfinished);
        // The end of an iteration is told to all, and that one more worker has finished only for that one.
        let is_report = next.iteration.is_running()
            && before.with(next.iteration) == next
            && before.iteration.number == next.iteration.number
            && before.iteration.is_running();
        for (worker, stream) in self.run.present() {
            if !is_report || reported.contains(worker) {
                self.tell(stream, Notice::Turn(next.turn(Some(worker))));
            }
        }
        if !is_report {
            for stream in self.followers.clone() {
                self.tell(stream, Notice::Turn(next.turn(None)));
            }
        }
    }

    fn released(&mut self) {
        self.closed = true;
        self.change = None;
        self.again = None;
        let name = self.rules.name.clone();
        for stream in std::mem::take(&mut self.waiting).into_values() {
            self.refuse(stream, Refusal::Released(name.clone()));
        }
        if self.run.end().is_none() {
            self.tell_end(Notice::Over(released(&name)));
        }
    }

    fn refuse(&mut self, stream: Stream, refusal: Refusal) {
        self.tell(stream, Notice::Refused(refusal));
    }

    fn take(&mut self, stream: Stream, worker: WorkerIndex, run: Option<Epoch>) {
        let name = || self.rules.name.clone();
        if self.closed {
            return self.refuse(stream, Refusal::Closing);
        }
        if !self.rules.everyone().contains(worker) {
            let refusal = Refusal::NoWorker { name: name(), workers: self.rules.workers };
            return self.refuse(stream, refusal);
        }
        match run {
            Some(epoch) => self.come_back(stream, worker, epoch),
            None => {
                if self.goes_on_without(worker) {
                    return self.refuse(stream, Refusal::Without { name: name(), worker });
                }
                if let Some(other) = self.waiting.insert(worker, stream) {
                    let refusal = Refusal::Displaced(name());
                    self.refuse(other, refusal);
                }
                self.given_up.remove(&worker);
                self.gather();
                if let Some((gone, why)) = self.given_up.first_key_value() {
                    let notice = Notice::Lost(*gone, why.clone());
                    self.tell(stream, notice);
                }
                self.look();
            }
        }
    }

    /// Whether the run goes on without a worker that wants to take part in the next one.
    fn goes_on_without(&self, worker: WorkerIndex) -> bool {
        match self.rules.on_death {
            OnDeath::Continue { .. } => {
                self.run.is_under_way() && !self.run.left().contains(worker)
            }
            OnDeath::End | OnDeath::Wait => false,
        }
    }

    /// A worker takes part in a run again: its stream has broken, or the controller was started again.
    fn come_back(&mut self, stream: Stream, worker: WorkerIndex, epoch: Epoch) {
        let name = || self.rules.name.clone();
        let Served { epoch: current, handover, .. } = self.run.served;
        let before = handover.map(|handover| handover.before);
        if epoch != current && Some(epoch) != before {
            return self.refuse(stream, Refusal::OtherRun(name()));
        }
        let was_lost = !self.run.left().contains(worker);
        match self.rules.on_death {
            OnDeath::Wait => self.run.find(worker),
            OnDeath::Continue { .. } if was_lost => {
                return self.refuse(stream, Refusal::Without { name: name(), worker });
            }
            // It ends like the others, which have been told.
            OnDeath::Continue { .. } | OnDeath::End => {}
        }
        if self.run.has_left(worker) {
            return self.tell(stream, Notice::Complete);
        }
        // Nobody else can be the worker: its index is claimed on its host.
        self.waiting.remove(&worker);
        // Others may have left before the controller was started again, if the job ends with a death.
        let waits = self.rules.on_death != OnDeath::End || self.rules.grace.is_some();
        if let Some(other) = self.run.sit(stream, worker, waits.then_some(self.now + ABSENCE)) {
            let refusal = Refusal::Displaced(name());
            self.refuse(other, refusal);
        }
        if epoch == current {
            // Also if there is no limit any more.
            let turn = self.run.served.progress.turn(Some(worker));
            self.tell(stream, Notice::Turn(turn));
        } else {
            self.tell_begin(stream, Some(worker));
        }
        if let Some((lost, why)) = self.run.first_lost().cloned() {
            self.tell(stream, Notice::Lost(lost, why));
        }
        if let Some((left, rounds)) = self.run.least_left() {
            self.tell(stream, Notice::Left(left, rounds));
        }
        if let Some(end) = self.run.end().cloned() {
            let its = self.end_for(worker, end);
            self.tell(stream, its);
        }
    }

    fn follow(&mut self, stream: Stream) {
        if self.closed {
            return self.refuse(stream, Refusal::Closing);
        }
        self.followers.insert(stream);
        // Another one may be about to begin. A host serves others meanwhile, for which it waits until it knows all.
        self.tell_begin(stream, None);
    }

    fn gone(&mut self, stream: Stream) {
        self.followers.remove(&stream);
        if let Some(worker) = self.waiting_worker(stream) {
            self.waiting.remove(&worker);
            if self.rules.patience.is_zero() && !self.given_up.contains_key(&worker) {
                self.give_up(worker, GONE);
            }
            return self.gather();
        }
        self.run.rise(stream, self.now + self.rules.patience);
        if self.rules.patience.is_zero() {
            self.tick(self.now);
        }
    }

    /// The worker that waits for the next run with this stream.
    fn waiting_worker(&self, stream: Stream) -> Option<WorkerIndex> {
        let own = self.waiting.iter().find(|(_, waiting)| **waiting == stream);
        own.map(|(worker, _)| *worker)
    }

    /// A worker that waits, or has waited until now, has failed. The others that wait need not wait for it, if nobody
    /// takes its place, and nor do those that come later, if nobody can.
    fn give_up(&mut self, failed: WorkerIndex, why: &str) {
        if self.rules.patience.is_zero() {
            self.given_up.entry(failed).or_insert_with(|| why.to_owned());
        }
        for (_, other) in self.waiting.iter().filter(|(worker, _)| **worker != failed) {
            let notice = Notice::Lost(failed, why.to_owned());
            self.orders.push_back(Order::Tell(*other, notice));
        }
    }

    /// Tells all that wait who is missing.
    fn gather(&mut self) {
        let there: WorkerSet = self.waiting.keys().copied().collect();
        let missing = self.rules.everyone().without(there);
        for stream in self.waiting.values() {
            self.orders.push_back(Order::Tell(*stream, Notice::Waiting(missing)));
        }
    }

    /// A worker of the run has died.
    fn lose(&mut self, worker: WorkerIndex, why: &str) {
        let first = self.run.first_lost().is_none();
        self.run.lose(worker, why);
        self.turn_away();
        if first {
            self.tell_run(&Notice::Lost(worker, why.to_owned()));
        }
        self.look();
    }

    /// After a change among the workers: begins a run, or ends the one that nobody sums in any more.
    fn look(&mut self) {
        if self.closed || self.broken || self.change.is_some() {
            return;
        }
        let everyone = self.rules.everyone();
        let there: WorkerSet = self.waiting.keys().copied().collect();
        if there == everyone {
            return self.begin(Next { workers: everyone, spoken: None, epoch: None });
        }
        let Some(spoken) = self.run.spoken() else { return };
        let name = &self.rules.name;
        if spoken.done {
            return self.end_run(Notice::Complete);
        }
        let whole = self.run.first_lost().is_none();
        if whole && spoken.renews {
            return self.begin(Next { workers: spoken.left, spoken: Some(spoken), epoch: None });
        }
        if self.rules.on_death == OnDeath::End {
            return;
        }
        if whole {
            // A switch may have lost what one worker has the sum of, and another has not.
            let handover = self.run.served.handover.map(|handover| handover.rounds);
            if self.run.unstuck && handover == Some(spoken.rounds) {
                let reason = format!(
                    "job {name}: no round was complete in two runs, and no worker has died"
                );
                return self.end_run(Notice::Over(reason));
            }
            return self.begin(Next { workers: spoken.left, spoken: Some(spoken), epoch: None });
        }
        let workers = match self.rules.on_death {
            OnDeath::Continue { least } if spoken.left.len() >= least => spoken.left,
            OnDeath::Continue { least } => {
                let left = spoken.left.len();
                let workers = if left == 1 { "worker" } else { "workers" };
                let reason = format!(
                    "job {name} has {left} {workers} left, without {}, and min_workers is {least}; start all \
                     workers of the job again",
                    spoken.lost
                );
                return self.end_run(Notice::Over(reason));
            }
            // With all of them, when they have come back.
            _ if spoken.lost.without(there).is_empty() => everyone,
            _ => {
                return self.tell_run(&Notice::Waiting(spoken.lost.without(there)));
            }
        };
        self.begin(Next { workers, spoken: Some(spoken), epoch: None });
    }

    fn end_run(&mut self, end: Notice) {
        if self.rules.on_death == OnDeath::End {
            return self.tell_end(end);
        }
        self.change = Some(Change::End(end));
        self.orders.push_back(Order::Record(Served { ended: true, ..self.run.served }));
    }

    fn tell_end(&mut self, end: Notice) {
        self.run.finish(end.clone());
        for (worker, stream) in self.run.present() {
            let its = self.end_for(worker, end.clone());
            self.tell(stream, its);
        }
    }

    /// The end of a run for a worker, which may lack sums: it was taken for dead, and has come back.
    fn end_for(&self, worker: WorkerIndex, end: Notice) -> Notice {
        let name = &self.rules.name;
        match end {
            Notice::Complete if !self.run.has_all(worker) => Notice::Over(format!(
                "job {name} is complete without worker {worker}, which was not heard from for a while"
            )),
            end => end,
        }
    }

    fn close(&mut self) {
        self.closed = true;
        for stream in std::mem::take(&mut self.waiting).into_values() {
            self.refuse(stream, Refusal::Closing);
        }
        for stream in std::mem::take(&mut self.followers) {
            self.refuse(stream, Refusal::Closing);
        }
    }
}
