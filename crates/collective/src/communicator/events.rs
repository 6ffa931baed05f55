//! What a group does when something happens.

use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use tributary_base::one_line;
use tributary_endpoint::membership::{Begun, Occurrence};
use tributary_netio::FrameIo;
use tributary_protocol::fixed::Rounding;
use tributary_protocol::worker::Stats;
use tributary_protocol::{Tensor, Terms};
use tributary_wire::{WorkerIndex, WorkerSet};
use tributary_worker::{Error as WorkerError, Node, Sums};

use super::{FIRST, Finish, Happening, Mistake, Shared, State, greets};
use crate::Error;
use crate::agreement::{self, Claim};
use crate::error::caught;
use crate::exchange::Exchange;
use crate::magnitudes::Magnitudes;
use crate::outcome::{Outcome, lock};
use crate::scales::Plan;
use crate::settings::NonFinite;
use crate::underflow;
use crate::values::Values;
use crate::work::Work;

/// The sums of a call's only tensor, which are integers.
fn integers(sums: Sums) -> Vec<i32> {
    match sums.tensors.into_iter().next() {
        Some(Tensor::I32(sums)) => sums.into(),
        _ => unreachable!("one tensor of integers was submitted"),
    }
}

impl Shared {
    /// Handles a happening, and others that came meanwhile, unless another thread is at it (or this one,
    /// further down its stack), which then handles this one, too.
    pub(super) fn happen(&self, happening: Happening) {
        {
            let mut inbox = lock(&self.inbox);
            inbox.queue.push_back(happening);
            if std::mem::replace(&mut inbox.busy, true) {
                return;
            }
        }
        loop {
            let next = {
                let mut inbox = lock(&self.inbox);
                let next = inbox.queue.pop_front();
                inbox.busy = next.is_some();
                next
            };
            let Some(next) = next else { return };
            let is_end = matches!(next, Happening::Broken(_));
            let handled = caught(|| {
                self.handle(&mut lock(&self.state), next);
                Ok(())
            });
            // Without this thread, nothing would be handled any more.
            match handled {
                Ok(()) => {}
                Err(error) if is_end => {
                    self.failure.set(Err(error.clone()));
                    lock(&self.state).works().for_each(|work| work.outcome.set(Err(error.clone())));
                }
                Err(error) => lock(&self.inbox).queue.push_front(Happening::Broken(error)),
            }
        }
    }

    /// The calls that have no result, of all that began before. Some of those may still be in the inbox,
    /// so the question goes through it, too.
    pub(super) fn pending(&self) -> Vec<Arc<Outcome>> {
        let (sender, answer) = mpsc::sync_channel(1);
        self.happen(Happening::Asked(sender));
        answer.recv().unwrap_or_default()
    }

    fn handle(&self, state: &mut State, happening: Happening) {
        match happening {
            Happening::Asked(sender) => {
                let outcomes = state.works().map(|work| Arc::clone(&work.outcome));
                // Who asks waits for the answer.
                drop(sender.send(outcomes.collect()));
            }
            Happening::Called(work) => {
                state.waiting.push_back(work);
                self.look_for_leavers(state);
            }
            Happening::Agreed(sums, stats) => self.answered(state, sums, stats, Self::agreed),
            Happening::Measured(sums, stats) => self.answered(state, sums, stats, Self::measured),
            Happening::Explained(mistake, sums, stats) => {
                self.answered(state, sums, stats, |this, state, work, sums| {
                    this.explained(state, work, mistake, &agreement::decode_texts(sums));
                });
            }
            Happening::Summed(number, sums, stats) => {
                state.stats = stats;
                let Some(work) = state.summing.remove(&number) else { return };
                match sums {
                    Ok(Sums { tensors, rounding }) => {
                        let mut tensors = tensors.into_iter();
                        let sums = tensors.next().expect("values were submitted");
                        let extras = match tensors.next() {
                            Some(Tensor::I32(extras)) => extras.into(),
                            _ => Vec::new(),
                        };
                        state.done += 1;
                        state.values += match work.exchange {
                            Some(_) => work.claim.elements,
                            None => sums.len() as u64,
                        };
                        self.look_at_zeros(state, &work, &rounding);
                        self.sum_done(work, sums, extras);
                    }
                    Err(error) => {
                        self.break_up(state, Error::Failed(error.to_string()));
                        self.fail(state, work);
                    }
                }
            }
            Happening::Renewed(outcome) => {
                if let Err(error) = outcome {
                    self.break_up(state, Error::Failed(error.to_string()));
                }
            }
            Happening::Told(Some(occurrence)) => self.told(state, occurrence),
            Happening::Told(None) => self.look_at_time(state),
            Happening::Broken(error) => self.break_up(state, error),
        }
        self.advance(state);
    }

    /// The worker has summed integers for the call whose agreement is under way.
    fn answered(
        &self,
        state: &mut State,
        sums: Result<Vec<i32>, WorkerError>,
        stats: Stats,
        then: impl FnOnce(&Self, &mut State, Box<Work>, &[i32]),
    ) {
        state.stats = stats;
        let Some(work) = state.agreeing.take() else { return };
        match sums {
            Ok(sums) => then(self, state, work, &sums),
            Err(error) => {
                self.break_up(state, Error::Failed(error.to_string()));
                self.fail(state, work);
            }
        }
    }

    /// Each rank has said what it knows of a mistake in a call.
    fn explained(&self, state: &mut State, work: Box<Work>, mistake: Mistake, texts: &[String]) {
        match mistake {
            Mistake::Mismatch => {
                let what = self.members.who_calls_what(texts);
                self.break_up(state, Error::Mismatch { call: work.number(), what });
                self.fail(state, work);
            }
            Mistake::NotFinite => {
                let found = self.members.who_says_what(texts);
                let what = format!("in call {}, at {found}", work.number());
                self.end(work, Err(Error::NotFinite { what }));
            }
            Mistake::Underflow if texts.iter().all(String::is_empty) => self.sum(state, work),
            Mistake::Underflow => {
                let name = format!("call {}, {}", work.number(), work.name());
                let found = self.members.who_says_what(texts);
                let half = work.plan.as_ref().map_or(0.0, Plan::coarsest_half);
                let what = underflow::refusal(&name, half, &found);
                self.end(work, Err(Error::Underflow { what }));
            }
        }
    }

    /// Begins the next agreement if none is under way.
    fn advance(&self, state: &mut State) {
        if let Some(error) = &state.broken {
            for work in state.waiting.drain(..) {
                work.outcome.set(Err(error.clone()));
            }
            return;
        }
        if state.agreeing.is_some() || self.run_is_over(state) {
            return;
        }
        let Some(node) = &state.node else { return };
        let Some(work) = state.waiting.pop_front() else { return };
        let mut words = work.claim.encode(self.member, self.workers);
        if work.is_small
            && let Some(values) = &work.values
        {
            agreement::append(&mut words, self.member, self.workers, &values.floats());
        }
        // They are part of the agreement if there is room, and otherwise follow it: only then do all ranks know that
        // they have as many.
        if let Some(blocks) = &work.blocks
            && self.has_room(blocks.words())
        {
            blocks.append(&mut words, self.member, &work.magnitudes);
        }
        state.fragments += self.begin(node, words, &work, Happening::Agreed);
        state.agreeing = Some(work);
    }

    /// Whether this run of the job is over: no call begins before the next one. All ranks find that after
    /// the same call. The controller is told when this rank has all results of the run.
    fn run_is_over(&self, state: &mut State) -> bool {
        let is_over = self.fragments_per_run.is_some_and(|most| state.fragments >= most);
        if let Some(run) = state.run
            && is_over
            && state.summing.is_empty()
            && !std::mem::replace(&mut state.renews, true)
        {
            self.voice.renew(run, state.runs + 1);
        }
        is_over
    }

    /// The controller tells this rank something.
    fn told(&self, state: &mut State, occurrence: Occurrence) {
        match occurrence {
            Occurrence::Begun(begun) => self.begin_run(state, &begun),
            Occurrence::Waiting(missing) => state.missing = missing,
            Occurrence::Behind(members, calls) => state.behind = Some((members, calls)),
            Occurrence::Left(member, calls) => {
                state.left = Some((member.get(), calls));
                self.look_for_leavers(state);
            }
            Occurrence::Lost(member, why) => {
                let rank = self.members.worker(member.get().into());
                self.break_up(state, Error::PeerLost { rank, why });
            }
            Occurrence::Unled(why) => {
                let why = format!("has the switch and is gone: {why}");
                self.break_up(state, Error::PeerLost { rank: FIRST, why });
            }
            Occurrence::Over(why) => self.break_up(state, Error::Failed(why)),
            // This rank has left.
            Occurrence::Complete => {}
        }
        self.look_at_time(state);
    }

    /// The first run of the job begins, or the next one.
    fn begin_run(&self, state: &mut State, begun: &Begun) {
        if state.broken.is_some() {
            return;
        }
        if begun.epochs.len() != self.lanes {
            let what = format!("a run has {} epochs for {} lanes", begun.epochs.len(), self.lanes);
            return self.break_up(state, Error::Failed(what));
        }
        if let Some(entry) = state.entry.take() {
            match entry.begin(self.member, begun, &self.stop) {
                Ok(node) => state.node = Some(node),
                Err(error) => return self.break_up(state, Error::Failed(one_line(error.as_ref()))),
            }
        } else if let Some(node) = &state.node {
            let this = self.this();
            // What the worker is told to sum from now on belongs to the next run.
            node.renew(begun.epochs.clone(), move |outcome| {
                this.happen(Happening::Renewed(outcome))
            });
            (state.runs, state.fragments, state.renews) = (state.runs + 1, 0, false);
        }
        state.run = Some(begun.epoch());
    }

    /// Has all ranks, which see the same mistake, tell each other about it.
    fn explain(&self, state: &mut State, work: Box<Work>, mistake: Mistake, text: &str) {
        let Some(node) = &state.node else { return self.fail(state, work) };
        let words = agreement::encode_text(text, self.member, self.workers);
        state.fragments += self.begin(node, words, &work, move |sums, stats| {
            Happening::Explained(mistake, sums, stats)
        });
        state.agreeing = Some(work);
    }

    /// Has the worker sum integers for a call. Returns the number of fragments.
    fn begin(
        &self,
        node: &Node<Box<dyn FrameIo>>,
        words: Vec<i32>,
        work: &Work,
        done: impl FnOnce(Result<Vec<i32>, WorkerError>, Stats) -> Happening + Send + 'static,
    ) -> u64 {
        let this = self.this();
        let fragments = node.fragments(words.len()) as u64;
        node.begin(vec![(words.into(), work.priority.into())], move |sums, stats| {
            this.happen(done(sums.map(integers), stats));
        });
        fragments
    }

    /// Has the worker sum a call's values, as planned.
    fn sum(&self, state: &mut State, mut work: Box<Work>) {
        let Some(node) = &state.node else { return self.fail(state, work) };
        state.fragments += self.send(node, &mut work);
        state.summing.insert(work.number(), work);
    }

    /// Gives the worker a call's values, and the integers beside them. Returns the number of fragments.
    fn send(&self, node: &Node<Box<dyn FrameIo>>, work: &mut Work) -> u64 {
        let mut terms = Terms::from(work.priority);
        terms.parts = work.exchange.as_ref().map(Exchange::parts);
        let (tensor, extras) = match work.words.take() {
            Some(words) => (words.into(), Vec::new()),
            None => {
                let mut tensor = work.take_tensor();
                let (plan, Tensor::F32(values)) =
                    (work.plan.as_ref().expect("it was made"), &mut tensor)
                else {
                    unreachable!("floats are summed")
                };
                let extras = plan.extract(values);
                terms.scales = Some(plan.scales());
                // No value is greater than that of its block, which fits.
                terms.greatest = Some(0.0);
                (tensor, extras)
            }
        };
        let mut tensors = vec![(tensor, terms)];
        if !extras.is_empty() {
            tensors.push((extras.into(), work.priority.into()));
        }
        let (this, number) = (self.this(), work.number());
        let fragments = tensors.iter().map(|(tensor, _)| node.fragments(tensor.len()) as u64).sum();
        node.begin(tensors, move |sums, stats| {
            this.happen(Happening::Summed(number, sums, stats));
        });
        fragments
    }

    /// Whether the claims of all ranks leave room for so many integers.
    fn has_room(&self, words: usize) -> bool {
        agreement::has_room(words, self.workers, self.values_per_packet)
    }

    /// All ranks have told what they call.
    fn agreed(&self, state: &mut State, work: Box<Work>, sums: &[i32]) {
        let claims = Claim::decode_all(sums, self.workers);
        if claims.iter().any(|claim| *claim != work.claim) {
            let text = work.text.clone();
            self.explain(state, work, Mistake::Mismatch, &text);
            return;
        }
        if work.words.is_some() {
            return self.sum(state, work);
        }
        if work.values.is_none() {
            state.done += 1;
            work.outcome.set(Ok(()));
            return;
        }
        let Some(blocks) = work.blocks else {
            if self.nonfinite == NonFinite::Raise && !agreement::are_finite(sums, self.workers) {
                let text = work.not_finite();
                return self.explain(state, work, Mistake::NotFinite, &text);
            }
            state.done += 1;
            state.values += work.claim.elements;
            let sums = agreement::add_up(sums, self.workers);
            return self.sum_done(work, sums.into(), Vec::new());
        };
        if self.has_room(blocks.words()) {
            return self.measured(state, work, agreement::after_claims(sums, self.workers));
        }
        let Some(node) = &state.node else { return self.fail(state, work) };
        let mut words = Vec::new();
        blocks.append(&mut words, self.member, &work.magnitudes);
        state.fragments += self.begin(node, words, &work, Happening::Measured);
        state.agreeing = Some(work);
    }

    /// All ranks have told the magnitudes of their values.
    fn measured(&self, state: &mut State, mut work: Box<Work>, sums: &[i32]) {
        let Some(blocks) = work.blocks else { unreachable!("they are told of blocks") };
        let all: Vec<Magnitudes> = blocks.of_all(sums);
        if self.nonfinite == NonFinite::Raise && all.iter().any(|block| !block.finite) {
            let text = work.not_finite();
            return self.explain(state, work, Mistake::NotFinite, &text);
        }
        let elements = work.values.as_ref().map_or(0, Values::len);
        work.plan = Some(Plan::new(&all, &blocks, elements, self.workers, self.precision));
        if !self.underflow.fails {
            return self.sum(state, work);
        }
        let rounding = work.rounding(self.values_per_packet);
        state.underflows += u64::from(self.underflow.is_broken(&rounding));
        let text = self.underflow.objection(&rounding);
        self.explain(state, work, Mistake::Underflow, &text);
    }

    /// Warns if too many of this rank's values became zero.
    fn look_at_zeros(&self, state: &mut State, work: &Work, rounding: &Rounding) {
        let Some(plan) = work.plan.as_ref().filter(|_| self.underflow.is_broken(rounding)) else {
            return;
        };
        state.underflows += 1;
        let name = work.name();
        if state.warnings.is_due(&name, Instant::now()) {
            let warning = underflow::warning(
                &self.members.names(&[self.member.into()]),
                &name,
                plan.coarsest_half(),
                rounding,
            );
            tracing::warn!("{warning}");
            // It is set once.
            drop(work.outcome.warning.set(warning));
        }
    }

    /// A call that a rank has left out by leaving never ends.
    fn look_for_leavers(&self, state: &mut State) {
        let begun = self.begun.load(Ordering::Relaxed);
        if let Some((member, calls)) = state.left
            && calls < begun
            && member != self.member
        {
            let why = format!("has left the group after {calls} calls, and this rank made {begun}");
            let rank = self.members.worker(member.into());
            self.break_up(state, Error::PeerLost { rank, why });
        }
    }

    /// Breaks the group if a call takes too long, also if no thread waits for it.
    fn look_at_time(&self, state: &mut State) {
        let timeout = Duration::from_millis(self.timeout.load(Ordering::Relaxed));
        let oldest = state.works().map(|work| &work.outcome).min_by_key(|outcome| outcome.number);
        if let Some(outcome) = oldest.filter(|outcome| outcome.begun.elapsed() > timeout) {
            let error = self.too_late(outcome, state);
            self.break_up(state, error);
        }
    }

    /// The error for a call that takes too long, with the ranks that have not made it.
    pub(super) fn too_late(&self, outcome: &Outcome, state: &State) -> Error {
        if let Some(error) = &state.broken {
            return error.clone();
        }
        let number = outcome.number;
        let others = |workers: WorkerSet| -> Vec<usize> {
            let others = workers.iter().map(WorkerIndex::get).filter(|it| *it != self.member);
            others.map(usize::from).collect()
        };
        let missing = others(state.missing);
        let late = state.behind.filter(|(_, calls)| *calls <= number);
        let late = late.map(|(workers, _)| others(workers)).unwrap_or_default();
        let have = |workers: &[usize]| self.members.have(workers);
        let what = match () {
            // It would have told who is late.
            () if self.first.is_some_and(|first| !greets(first)) => {
                format!("rank {FIRST}, which has the switch, does not answer")
            }
            () if state.run.is_none() && !missing.is_empty() => {
                format!("{} not joined the group", have(&missing))
            }
            () if state.run.is_none() => "the group's first run has not begun".into(),
            () if state.renews => {
                "the switches have not begun another run of the group's job".into()
            }
            () if late.is_empty() => {
                format!(
                    "all ranks have made call {number}; is the network up? Is a process stopped?"
                )
            }
            () => format!("{} not made call {number}", have(&late)),
        };
        Error::TimedOut { waited: outcome.begun.elapsed(), what }
    }

    /// Marks the group as failed. Calls in flight fail once the worker has stopped using their memory.
    fn break_up(&self, state: &mut State, error: Error) {
        if state.broken.is_none() {
            // The others see anything else by themselves.
            if let Error::TimedOut { .. } | Error::Failed(_) = &error {
                self.give_up(&error.to_string());
            }
            self.failure.set(Err(error.clone()));
            state.broken = Some(error);
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Tells all ranks that this one's calls have failed.
    pub(super) fn give_up(&self, why: &str) {
        self.voice.fail(format!("gave up: {why}"));
    }

    /// Fails a call that the worker does not have.
    fn fail(&self, state: &State, work: Box<Work>) {
        self.end(work, Err(state.broken.clone().unwrap_or(Error::Closed)));
    }

    /// Ends a call. Its memory is the caller's again before the caller learns of it.
    fn end(&self, work: Box<Work>, result: Result<(), Error>) {
        let outcome = Arc::clone(&work.outcome);
        drop(work);
        outcome.set(result);
    }

    /// Ends a call whose sums are in place; others need a pass over all values, in another thread.
    fn sum_done(&self, work: Box<Work>, sums: Tensor, extras: Vec<i32>) {
        let in_place = matches!(&work.values, Some(Values::Single(values)) if values.is_empty());
        if in_place && !work.average && extras.is_empty() && work.exchange.is_none() {
            let Tensor::F32(sums) = sums else { unreachable!("floats were summed") };
            work.end(sums);
        } else {
            drop(self.finisher.send(Finish::Sum(work, sums, extras)));
        }
    }

    fn this(&self) -> Arc<Self> {
        self.this.upgrade().expect("it is in an `Arc`")
    }
}
