//! How a rank carries out its calls.
//!
//! A thread of the rank carries them out, in their order. Where no processor is left for this thread, the caller begins:
//! it writes what the others need. If they come soon, it also does the rest, which spares the rank two changes of threads.
//! Otherwise the thread completes the call. So a caller does not wait for ranks that have not made the call, which may wait
//! for what it does next; it does wait for those that have.

use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use super::host::Rest;
use super::segment::Claim;
use super::sums::{Buffers, Element, How, shared_capacity};
use super::{FEW, Place, SLEEP, Shared, claim};
use crate::error::caught;
use crate::outcome::{Outcome, lock};
use crate::settings::NonFinite;
use crate::work::{AVERAGE, SUM};
use crate::{Call, Collective, Error, Pending, Values};

/// The longest time, and a yield more, for which a caller waits for ranks that have not made its call: the buckets of ranks
/// that share a processor come as far apart. A yield may last for as long as other processes want the processor.
const PATIENCE: Duration = Duration::from_millis(10);

/// What a rank is to do.
pub(super) enum Task {
    Call(Call),
    /// A call of which the caller has written the beginning.
    Begun(Call, Begun),
    Collective(Collective),
}

impl Task {
    /// Number of values that are summed.
    fn elements(&self) -> u64 {
        let (Self::Call(call) | Self::Begun(call, _)) = self else { return 0 };
        match call {
            Call::Reduce { values, .. } | Call::ReduceHosts { values, .. } => values.len() as u64,
            Call::Announce { .. } => 0,
        }
    }
}

/// What this rank has written of a call. It has taken a step since.
pub(super) struct Begun {
    claim: Claim,
    /// The number of the buffer with the first part of the values.
    which: usize,
}

impl Shared {
    pub(super) fn begin(self: &Arc<Self>, task: Task) -> Pending {
        let mut state = lock(&self.state);
        let outcome = Arc::new(Outcome::new(state.begun, Arc::clone(&self.callers)));
        state.begun += 1;
        self.segment.begin(self.rank, state.begun);
        if let Some(error) = &state.broken {
            outcome.set(Err(error.clone()));
            return Pending::new(&outcome, self);
        }
        let is_next = state.waiting.is_empty() && state.under_way.is_empty();
        match (task, self.take_turn(is_next)) {
            (Task::Call(call), Some(place)) => {
                state.under_way.push(Arc::clone(&outcome));
                drop(state);
                self.help(call, &outcome, place);
            }
            (task, place) => {
                drop(place);
                state.waiting.push_back((task, Arc::clone(&outcome)));
                drop(state);
                self.called.notify_all();
            }
        }
        Pending::new(&outcome, self)
    }

    /// This rank's place, if its caller is to carry out a call.
    fn take_turn(&self, is_next: bool) -> Option<MutexGuard<'_, Place>> {
        match self.turn.try_lock() {
            _ if !(self.helps && is_next) => None,
            Ok(place) => Some(place),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Carries out a call in the caller's thread, or leaves it to the rank's own.
    fn help(&self, call: Call, outcome: &Arc<Outcome>, mut place: MutexGuard<'_, Place>) {
        let begun = match caught(|| self.post(&call, outcome, &mut place)) {
            Ok(begun) => begun,
            Err(error) => {
                // The memory is the caller's again before it learns of the error.
                drop(call);
                return self.end_call(outcome, 0, Err(error));
            }
        };
        let task = Task::Begun(call, begun);
        if self.come_soon(&place) {
            return self.finish_task(task, outcome, &mut place);
        }
        let mut state = lock(&self.state);
        state.under_way.retain(|other| !Arc::ptr_eq(other, outcome));
        match state.broken.clone() {
            None => state.waiting.push_front((task, Arc::clone(outcome))),
            Some(error) => {
                drop(state);
                // The memory is the caller's again before it learns of the error.
                drop(task);
                return outcome.set(Err(error));
            }
        }
        drop((state, place));
        self.called.notify_all();
    }

    /// Carries out calls until this rank leaves the group. What is left to do for a call when this host has done its part
    /// goes to `results`.
    pub(super) fn run(&self, results: &Sender<Rest>) {
        loop {
            let mut state = lock(&self.state);
            while state.waiting.is_empty() {
                if state.ended {
                    return;
                }
                state = self.called.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            drop(state);
            // A caller that has the turn may put back what comes first.
            let mut place = lock(&self.turn);
            let mut state = lock(&self.state);
            let Some((task, outcome)) = state.waiting.pop_front() else { continue };
            state.under_way.push(Arc::clone(&outcome));
            drop(state);
            let Some(host) = &self.host else {
                self.finish_task(task, &outcome, &mut place);
                continue;
            };
            let rest = caught(|| match task {
                Task::Call(call) => self.carry_out_on_host(host, call, &outcome, &mut place),
                Task::Begun(..) | Task::Collective(_) => unreachable!("the group has one host"),
            });
            match rest {
                // Its thread waits for calls until this one ends.
                Ok(rest) => drop(results.send(rest)),
                Err(error) => self.end_call(&outcome, 0, Err(error)),
            }
        }
    }

    /// Carries out what is left of a task, in a group of one host.
    fn finish_task(&self, task: Task, outcome: &Arc<Outcome>, place: &mut Place) {
        let elements = task.elements();
        let result = caught(|| match task {
            Task::Call(call) => {
                let begun = self.post(&call, outcome, place)?;
                self.finish_call(call, &begun, outcome, place)
            }
            Task::Begun(call, begun) => self.finish_call(call, &begun, outcome, place),
            Task::Collective(collective) => self.carry_out_collective(collective, outcome, place),
        });
        self.end_call(outcome, elements, result);
    }

    /// Writes what the others need of a call before they compare, and takes a step.
    fn post(&self, call: &Call, outcome: &Outcome, place: &mut Place) -> Result<Begun, Error> {
        let buffers = self.buffers(place);
        let claim = match call {
            Call::Announce { operation, elements, element } => {
                claim(operation, *elements, element, None)
            }
            Call::ReduceHosts { .. } => {
                let text = "the group has one host, whose ranks have added already";
                return Err(Error::Failed(text.into()));
            }
            Call::Reduce { values, average, .. } => {
                let refused = match self.nonfinite {
                    NonFinite::Raise => values.floats().iter().position(|value| !value.is_finite()),
                    NonFinite::Propagate => None,
                };
                match values {
                    Values::Single(values) => self.write_first(&buffers, values),
                    Values::Short(values, _) => self.write_first(&buffers, values),
                }
                let operation = if *average { AVERAGE } else { SUM };
                claim(operation, values.len() as u64, values.element().name(), refused)
            }
        };
        self.segment.claim(self.rank, outcome.number, &claim);
        self.take_step(place);
        Ok(Begun { claim, which: buffers.which })
    }

    /// Writes the first part of values.
    fn write_first<T: Element>(&self, buffers: &Buffers<'_>, values: &[T]) {
        if size_of_val(values) <= FEW {
            buffers.write(self.rank, values);
        } else {
            let length = values.len().min(shared_capacity::<T>(self.ranks));
            buffers.write_for_others(self.rank, &values[..length]);
        }
    }

    /// The memory of the call is the caller's again when this returns.
    fn finish_call(
        &self,
        call: Call,
        begun: &Begun,
        outcome: &Outcome,
        place: &mut Place,
    ) -> Result<(), Error> {
        self.await_step(outcome, place)?;
        self.compare(outcome, &begun.claim)?;
        let Call::Reduce { values, average, .. } = call else { return Ok(()) };
        let how = How { element: values.element(), divisor: average.then_some(self.ranks) };
        match values {
            Values::Single(mut values) => {
                self.sum(outcome, begun.which, &mut values[..], how, place)
            }
            Values::Short(mut values, _) => {
                self.sum(outcome, begun.which, &mut values[..], how, place)
            }
        }
    }

    /// Waits until all ranks have made the call, and compares what they call.
    pub(super) fn agree(
        &self,
        outcome: &Outcome,
        claim: &Claim,
        place: &mut Place,
    ) -> Result<(), Error> {
        self.segment.claim(self.rank, outcome.number, claim);
        self.step(outcome, place)?;
        self.compare(outcome, claim)
    }

    /// Compares what the ranks call.
    fn compare(&self, outcome: &Outcome, claim: &Claim) -> Result<(), Error> {
        let is_same = |rank| self.segment.is_same(rank, outcome.number, claim);
        if (0..self.ranks).all(is_same) {
            return Ok(());
        }
        let claims = self.segment.claims(outcome.number);
        let same = |other: &Claim| {
            (other.kind, other.elements, &*other.text) == (claim.kind, claim.elements, claim.text())
        };
        if claims.iter().all(same) {
            let found = claims.iter().map(|claim| match claim.refused {
                Some(at) => format!("value {at} is not finite"),
                None => String::new(),
            });
            let found = self.names.who_says_what(&found.collect::<Vec<_>>());
            return Err(Error::NotFinite {
                what: format!("in call {}, at {found}", outcome.number),
            });
        }
        let texts: Vec<_> = claims.into_iter().map(|claim| claim.text).collect();
        Err(Error::Mismatch { call: outcome.number, what: self.names.who_calls_what(&texts) })
    }

    /// Sums values in place, of which the first part is in a buffer.
    fn sum<T: Element>(
        &self,
        outcome: &Outcome,
        which: usize,
        values: &mut [T],
        how: How,
        place: &mut Place,
    ) -> Result<(), Error> {
        let buffers = Buffers { segment: &self.segment, which, ranks: self.ranks };
        if size_of_val(values) <= FEW {
            buffers.add_up(0..values.len(), how, values);
            return Ok(());
        }
        // After each step, a rank adds up its share of a part, writes the next part, and reads the others' sums of the
        // part before. These are in the places of their own shares, whose values nobody else needs: the other
        // places of the same buffer hold the next part already.
        let mut parts = values.chunks_mut(shared_capacity::<T>(self.ranks));
        let (mut next, mut before) = (parts.next().map(|part| (buffers, part)), None);
        while let Some((buffers, part)) = next {
            buffers.add_up_own(self.rank, how, part);
            next = parts.next().map(|part| {
                let buffers = self.buffers(place);
                buffers.write_for_others(self.rank, part);
                (buffers, part)
            });
            if let Some((buffers, part)) = before.replace((buffers, part)) {
                buffers.gather_others(self.rank, part);
            }
            self.step(outcome, place)?;
        }
        if let Some((buffers, part)) = before {
            buffers.gather_others(self.rank, part);
        }
        Ok(())
    }

    /// Takes a step, and waits until all ranks have taken as many.
    pub(super) fn step(&self, outcome: &Outcome, place: &mut Place) -> Result<(), Error> {
        self.take_step(place);
        self.await_step(outcome, place)
    }

    fn take_step(&self, place: &mut Place) {
        place.steps = place.steps.wrapping_add(1);
        self.segment.step(self.rank, place.lane, place.steps);
    }

    /// Waits until all ranks have taken as many steps.
    fn await_step(&self, outcome: &Outcome, place: &Place) -> Result<(), Error> {
        if self.missing_after_looks(place).is_none() {
            return Ok(());
        }
        let mut yields = self.yields;
        loop {
            let turn = self.segment.turn();
            let Some(missing) = self.segment.missing(place.lane, place.steps) else {
                return Ok(());
            };
            let sleeps = yields == 0;
            // A yield may take long if other threads want the processor.
            if sleeps || yields.is_multiple_of(32) {
                self.look(outcome, missing)?;
            }
            if !sleeps {
                yields -= 1;
                thread::yield_now();
                continue;
            }
            self.segment.sleep(turn, SLEEP);
        }
    }

    /// Whether all ranks take as many steps before this one would have to sleep, and within [`PATIENCE`].
    fn come_soon(&self, place: &Place) -> bool {
        let began = Instant::now();
        let (mut yields, mut is_missing) = (self.yields, self.missing_after_looks(place).is_some());
        while is_missing && yields > 0 && began.elapsed() < PATIENCE {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            yields -= 1;
            thread::yield_now();
            is_missing = self.segment.missing(place.lane, place.steps).is_some();
        }
        !is_missing
    }

    /// A rank that has not taken as many steps, at the last of some looks.
    fn missing_after_looks(&self, place: &Place) -> Option<usize> {
        let mut missing = self.segment.missing(place.lane, place.steps);
        for _ in 0..self.looks {
            if missing.is_none() {
                break;
            }
            std::hint::spin_loop();
            missing = self.segment.missing(place.lane, place.steps);
        }
        missing
    }
}
