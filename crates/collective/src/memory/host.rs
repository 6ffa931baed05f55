//! The part of a host in a group of several hosts.
//!
//! The ranks of a host add in memory. The first of them then adds their sums to those of the other hosts through the
//! network, as the worker of a member. A second thread of each rank waits for the results, and takes them out of the
//! memory, in the order of the calls: so a host adds up the next call while the network has the one before.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use tributary_protocol::buffer::Buffer;

use super::segment::Lane;
use super::sums::{How, capacity, narrow};
use super::{FEW, Place, SLEEP, Shared, claim};
use crate::error::caught;
use crate::outcome::{Outcome, lock};
use crate::work::{AVERAGE, SUM};
use crate::{Call, ElementType, Error, Group as _, Pending, Values, communicator};

/// Longer than a worker takes to stop using memory.
const STOP: Duration = Duration::from_secs(5);

/// A host in a group of several.
pub(super) struct Host {
    /// Number of the ranks of all hosts.
    pub(super) all: usize,
    /// The host's part in the network, at its first rank.
    pub(super) above: Option<Arc<communicator::Communicator>>,
}

/// What is left to do for a call when this host has done its part.
pub(super) struct Rest {
    outcome: Arc<Outcome>,
    what: What,
    /// The call in the network, at the first rank.
    above: Option<Pending>,
}

enum What {
    Announced,
    /// Where the sums of all hosts go. Empty if they are added in place.
    Sum {
        values: Values,
        elements: usize,
        average: bool,
    },
}

/// The parts of so many values that fit a buffer as wide ones.
fn parts(elements: usize) -> impl Iterator<Item = Range<usize>> {
    let most = capacity::<f32>();
    (0..elements).step_by(most).map(move |start| start..elements.min(start + most))
}

impl Shared {
    /// The host's part in the network, at its first rank.
    pub(super) fn above(&self) -> Option<&Arc<communicator::Communicator>> {
        self.host.as_ref()?.above.as_ref()
    }

    /// Whether another rank of the host knows more about the other hosts.
    pub(super) fn is_led(&self) -> bool {
        self.host.is_some() && self.rank > 0
    }

    /// Ends the host's part in the network, and what it has there.
    pub(super) fn abort_above(&self) {
        if let Some(above) = self.above() {
            above.abort();
        }
    }

    /// Breaks up the group when that of the hosts fails.
    pub(super) fn follow_the_others(self: &Arc<Self>) {
        let Some(above) = self.above() else { return };
        let this = Arc::downgrade(self);
        above.failure().on_done(move |result| {
            if let (Err(error), Some(this)) = (result, this.upgrade())
                && error != Error::Closed
            {
                this.break_up(&error);
            }
        });
    }

    /// Does the host's part of a call, and begins that of the network.
    pub(super) fn carry_out_on_host(
        &self,
        host: &Host,
        call: Call,
        outcome: &Arc<Outcome>,
        place: &mut Place,
    ) -> Result<Rest, Error> {
        let above = host.above.as_ref();
        let (mut values, average, layer, is_added) = match call {
            Call::Announce { operation, elements, element } => {
                self.agree(outcome, &claim(&operation, elements, &element, None), place)?;
                let announce = Call::Announce { operation, elements, element };
                let above = above.map(|above| above.call(announce));
                return Ok(Rest { outcome: Arc::clone(outcome), what: What::Announced, above });
            }
            Call::Reduce { values, average, layer } => (values, average, layer, false),
            Call::ReduceHosts { values, average, layer } => (values, average, layer, true),
        };
        let elements = values.len();
        let operation = match (average, is_added) {
            (false, false) => SUM,
            (true, false) => AVERAGE,
            // Ranks of a host that disagree about this would misread each other's memory.
            (false, true) => "all_reduce (SUM of hosts)",
            (true, true) => "all_reduce (AVG of hosts)",
        };
        // What is not finite is for all hosts to find.
        let claim = claim(operation, elements as u64, values.element().name(), None);
        let mut sums = above.map(|above| take_memory(&mut values, above.refuses()));
        if is_added {
            self.agree(outcome, &claim, place)?;
            if let Some(sums) = sums.as_mut().filter(|_| values.len() > 0) {
                sums.copy_from_slice(&values.floats());
            }
        } else {
            self.sum_of_host(outcome, &claim, &values, sums.as_deref_mut(), elements, place)?;
        }
        let begin = |above: &Arc<communicator::Communicator>| {
            let sums = sums.take().expect("the first rank has them");
            above.sum(sums, values.element(), average, layer)
        };
        let above = above.map(begin);
        Ok(Rest {
            outcome: Arc::clone(outcome),
            what: What::Sum { values, elements, average },
            above,
        })
    }

    /// Adds up the values of the host's ranks, as wide ones, for the first rank.
    fn sum_of_host(
        &self,
        outcome: &Outcome,
        claim: &super::Claim,
        values: &Values,
        mut sums: Option<&mut [f32]>,
        elements: usize,
        place: &mut Place,
    ) -> Result<(), Error> {
        let how = How { element: ElementType::F32, divisor: None };
        let few = elements * size_of::<f32>() <= FEW;
        for part in parts(elements) {
            let (buffers, is_first) = (self.buffers(place), part.start == 0);
            match (values, &sums) {
                // They are in the place of the sums.
                (Values::Single(values), Some(sums)) if values.is_empty() => {
                    buffers.write(self.rank, &sums[part.clone()]);
                }
                (Values::Single(values), _) => buffers.write(self.rank, &values[part.clone()]),
                (Values::Short(bits, element), _) => {
                    buffers.write_wide(self.rank, &bits[part.clone()], *element);
                }
            }
            match is_first {
                true => self.agree(outcome, claim, place)?,
                false => self.step(outcome, place)?,
            }
            let sums = sums.as_mut().map(|sums| &mut sums[part.clone()]);
            if few {
                if let Some(sums) = sums {
                    buffers.add_up(0..part.len(), how, sums);
                }
            } else {
                buffers.add_up_share::<f32>(self.rank, part.len(), how);
                self.step(outcome, place)?;
                if let Some(sums) = sums {
                    buffers.gather(sums);
                }
            }
        }
        if elements == 0 { self.agree(outcome, claim, place) } else { Ok(()) }
    }

    /// Takes the results of calls, in their order.
    pub(super) fn finish_all(&self, rests: Receiver<Rest>) {
        let mut place = Place::new(Lane::Results);
        for rest in rests {
            let outcome = Arc::clone(&rest.outcome);
            let elements = match rest.what {
                What::Announced => 0,
                What::Sum { elements, .. } => elements as u64,
            };
            let result = caught(|| self.finish(rest, &mut place));
            self.end_call(&outcome, elements, result);
        }
    }

    /// The memory of the call is the caller's again when this returns.
    fn finish(&self, rest: Rest, place: &mut Place) -> Result<(), Error> {
        let Rest { outcome, what, above } = rest;
        let mut sums = None;
        if let Some(above) = &above {
            let answer = self.wait_for(&outcome, above);
            if let Err(error) = &answer
                && !error.is_of_one_call()
            {
                return answer;
            }
            if let Some(warning) = above.warning() {
                // It is set once.
                drop(outcome.warning.set(warning.to_owned()));
            }
            self.segment.answer(outcome.number, answer.as_ref().err());
            sums = above.take_sums();
        }
        let What::Sum { mut values, elements, average } = what else {
            return self.learn(&outcome, place);
        };
        let all = self.host.as_ref().map_or(self.ranks, |host| host.all) as f32;
        for part in parts(elements) {
            let results = self.buffers(place);
            if let Some(sums) = &mut sums {
                let sums = &mut sums[part.clone()];
                if average {
                    sums.iter_mut().for_each(|sum| *sum /= all);
                }
                results.write(self.ranks, sums);
            }
            match part.start {
                0 => self.learn(&outcome, place)?,
                _ => self.step(&outcome, place)?,
            }
            let sums = results.read::<f32>(self.ranks, 0..part.len());
            match &mut values {
                // The sums are in place.
                Values::Single(values) if values.is_empty() => {}
                Values::Single(values) => values[part].copy_from_slice(sums),
                Values::Short(bits, element) => narrow(sums, &mut bits[part], *element),
            }
        }
        if elements == 0 { self.learn(&outcome, place) } else { Ok(()) }
    }

    /// Waits until the first rank has told what other hosts have made of a call.
    fn learn(&self, outcome: &Outcome, place: &mut Place) -> Result<(), Error> {
        self.step(outcome, place)?;
        self.segment.answered(outcome.number).map_or(Ok(()), Err)
    }

    /// Waits for the result of a call in the network.
    fn wait_for(&self, outcome: &Outcome, above: &Pending) -> Result<(), Error> {
        loop {
            match above.wait(SLEEP) {
                Some(Err(error)) if !error.is_of_one_call() => {
                    return Err(lock(&self.state).broken.clone().unwrap_or(error));
                }
                Some(result) => return result,
                None => {}
            }
            if let Err(error) = self.look(outcome, self.rank) {
                self.break_up(&error);
                // Afterwards the network does not use the memory any more.
                drop(above.wait(STOP));
                return Err(error);
            }
        }
    }
}

/// Memory for the sums of a host: that of the values, unless those must stay as they are if a call fails.
fn take_memory(values: &mut Values, keep: bool) -> Buffer<f32> {
    match values {
        Values::Single(values) if !keep => values.split_off(0),
        _ => vec![0.0; values.len()].into(),
    }
}
