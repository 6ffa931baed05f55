//! The change to another run, or to the end of one: switches first, then the journal, then endpoints.

use tributary_wire::{Epoch, WorkerSet};

use super::run::{Run, Spoken};
use super::{AGAIN, Failure, Handover, Iteration, Job, Notice, Order, Refusal, Served};

/// A change that is under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Change {
    /// Another run begins.
    Next(Box<Next>),
    /// The run ends with this notice, which the journal must have first: otherwise workers that are not told would
    /// go on without the others.
    End(Notice),
    /// A client moves or releases the job.
    Request,
}

/// A run that is about to begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Next {
    pub(super) workers: WorkerSet,
    /// What the workers of the run have said, if these go on. Else all workers wait.
    pub(super) spoken: Option<Spoken>,
    /// The run that switches serve by now, while the journal is written.
    pub(super) epoch: Option<Epoch>,
}

impl Job {
    pub(super) fn begin(&mut self, next: Next) {
        let Served { epoch, workers, begun, .. } = self.run.served;
        self.change = Some(Change::Next(Box::new(next)));
        if next.spoken.is_none() && !begun && workers == next.workers {
            // Switches serve it already.
            return self.changed(Ok(epoch));
        }
        self.orders.push_back(Order::Change(next.workers));
    }

    /// Whether a run that is about to begin is still what is needed.
    fn still_holds(&self, next: &Next) -> bool {
        let there: WorkerSet = self.waiting.keys().copied().collect();
        match next.spoken {
            None => there == next.workers,
            Some(spoken) => {
                self.run.spoken() == Some(spoken)
                    && next.workers.without(spoken.left).without(there).is_empty()
            }
        }
    }

    fn served_by(&self, next: &Next, epoch: Epoch) -> Served {
        let Served { epoch: before, progress, .. } = self.run.served;
        let handover = next.spoken.map(|spoken| Handover { before, rounds: spoken.rounds });
        let iteration = match next.spoken {
            Some(spoken) => progress.iteration.after(spoken.rounds, next.workers),
            // The run of the admission, of which a client may have begun the first iteration.
            None if epoch == before => progress.iteration,
            None => Iteration::NONE,
        };
        let progress = progress.with(iteration);
        Served { epoch, workers: next.workers, handover, begun: true, ended: false, progress }
    }

    pub(super) fn changed(&mut self, outcome: Result<Epoch, Failure>) {
        let Some(Change::Next(next)) =
            self.change.take_if(|change| matches!(change, Change::Next(_)))
        else {
            return;
        };
        match outcome {
            Ok(epoch) if self.still_holds(&next) => {
                self.change = Some(Change::Next(Box::new(Next { epoch: Some(epoch), ..*next })));
                self.orders.push_back(Order::Record(self.served_by(&next, epoch)));
            }
            Ok(epoch) => {
                // Nobody is told of this run. If all workers wait again, it is theirs.
                if next.spoken.is_none() {
                    self.supersede();
                    let served = self.served_by(&next, epoch);
                    self.run = Run::new(Served { begun: false, ..served });
                }
                self.gather();
                self.tell_followers();
                self.look();
            }
            Err(failure) => self.failed(*next, failure),
        }
    }

    pub(super) fn recorded(&mut self, outcome: Result<(), Failure>) {
        match (self.change.take(), outcome) {
            (Some(Change::End(end)), Ok(())) => {
                self.run.served.ended = true;
                self.tell_end(end);
                self.look();
            }
            (Some(change @ Change::End(_)), Err(_)) => self.retry(change),
            (Some(Change::Next(next)), Err(failure)) => self.failed(*next, failure),
            (Some(Change::Next(next)), Ok(())) => {
                if let Some(epoch) = next.epoch {
                    self.go_on(&next, epoch);
                }
            }
            // The journal was not asked.
            (request, _) => self.change = request,
        }
    }

    /// Switches and the journal have the next run.
    fn go_on(&mut self, next: &Next, epoch: Epoch) {
        let mut run = Run::new(self.served_by(next, epoch));
        match next.spoken {
            None => self.supersede(),
            // Workers whose streams are broken for the moment may come back.
            Some(spoken) => {
                run.inherit(&self.run);
                run.unstuck = self.run.first_lost().is_none() && !spoken.renews;
            }
        }
        self.run = run;
        self.given_up.clear();
        for worker in next.workers.iter() {
            match self.waiting.remove(&worker) {
                // One that has been in the run before goes on.
                Some(stream) if self.run.is_here(worker) => {
                    let refusal = Refusal::Displaced(self.rules.name.clone());
                    self.refuse(stream, refusal);
                }
                Some(stream) => drop(self.run.sit(stream, worker, None)),
                // It has gone while the journal was written.
                None => self.run.miss(worker, self.now + self.rules.patience),
            }
        }
        for (worker, stream) in self.run.present() {
            self.tell_begin(stream, Some(worker));
        }
        self.tell_followers();
        self.turn_away();
        self.look();
    }

    /// Refuses workers that wait and without which the run goes on.
    pub(super) fn turn_away(&mut self) {
        let away: Vec<_> =
            self.waiting.keys().copied().filter(|worker| self.goes_on_without(*worker)).collect();
        for worker in away {
            if let Some(stream) = self.waiting.remove(&worker) {
                let name = self.rules.name.clone();
                self.refuse(stream, Refusal::Without { name, worker });
            }
        }
    }

    pub(super) fn tell_followers(&mut self) {
        for stream in self.followers.clone() {
            self.tell_begin(stream, None);
        }
    }

    /// Workers that still take part in the run before another one learn that it is over.
    fn supersede(&mut self) {
        if self.run.end().is_none() {
            self.tell_end(Notice::Over("the job has another run now".to_owned()));
        }
    }

    fn failed(&mut self, next: Next, failure: Failure) {
        if next.spoken.is_none() {
            // Whatever switches serve now, it is not what they did.
            self.run.served.begun = true;
            for stream in std::mem::take(&mut self.waiting).into_values() {
                self.refuse(stream, Refusal::Failed(failure.clone()));
            }
            return self.tell_followers();
        }
        if failure.passes {
            return self.retry(Change::Next(Box::new(next)));
        }
        self.end_run(Notice::Over(failure.reason));
        self.tell_followers();
    }

    /// Decides again after a pause.
    fn retry(&mut self, change: Change) {
        if !self.closed {
            self.change = Some(change);
            self.again = Some(self.now + AGAIN);
        }
    }
}
