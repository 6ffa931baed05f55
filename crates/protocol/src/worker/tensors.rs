//! The queue of tensors, and the position of each fragment in it.
//!
//! A tensor's sums overwrite its values, fragment by fragment. Once a fragment's result has
//! arrived, its values are not needed again, so a tensor needs no second buffer.

use std::collections::VecDeque;
use std::ops::Range;

use tributary_wire::WorkerIndex;

use super::codec::{Codec, Encoding, Form, KindMismatch};
use super::tensor::{Exchange, Parts, Role};
use super::{SubmitError, Tensor, TensorId, Terms, WorkerConfig};
use crate::fixed::Rounding;
use crate::numbering::Numbering;
use crate::priority::Priority;

#[derive(Clone, Debug)]
struct Queued {
    id: TensorId,
    tensor: Tensor,
    priority: Priority,
    codec: Codec,
    parts: Option<Parts>,
    /// Its first fragment.
    first: u32,
    /// Number of fragments without a result.
    missing: u32,
    /// Of the values whose results have arrived.
    rounding: Rounding,
}

impl Queued {
    fn role(&self, fragment: u32, worker: (WorkerIndex, u16)) -> Role {
        self.parts.map_or(Role::ALL, |parts| parts.role(fragment - self.first, worker))
    }

    /// The position of one of its fragments in the tensor, and the range of its elements: V elements, or
    /// fewer in the last fragment.
    fn place(&self, fragment: u32, values: usize) -> (usize, Range<usize>) {
        let at = (fragment - self.first) as usize;
        (at, at * values..self.tensor.len().min((at + 1) * values))
    }
}

#[derive(Clone, Debug)]
pub(super) struct Tensors {
    queue: VecDeque<Queued>,
    /// At the configured scale.
    codec: Codec,
    values_per_packet: usize,
    /// This worker, and how many there are.
    worker: (WorkerIndex, u16),
    /// Number of queued tensors that have parts.
    divided: usize,
    /// The largest number of fragments of a job.
    fragments: u32,
    next_id: u64,
    /// The fragment after the last one of the last tensor.
    end: u32,
}

impl Tensors {
    pub(super) fn new(config: &WorkerConfig) -> Self {
        Self {
            queue: VecDeque::new(),
            codec: Codec::new(config),
            values_per_packet: config.job.values_per_packet.into(),
            worker: (config.index, config.job.workers()),
            divided: 0,
            fragments: Numbering::of(config.job.protocol).fragments(),
            next_id: 0,
            end: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Begins a run, in which no fragment was sent. No tensor may be left.
    pub(super) fn count_from_zero(&mut self) {
        debug_assert!(self.is_empty());
        self.end = 0;
    }

    /// The fragment after the last one that has values.
    pub(super) fn end(&self) -> u32 {
        self.end
    }

    pub(super) fn submit(&mut self, tensor: Tensor, terms: Terms) -> Result<TensorId, SubmitError> {
        let Terms { priority, scales, parts, greatest } = terms;
        let codec = match scales {
            Some(scales) => self.codec.at(scales),
            None => self.codec.clone(),
        };
        match parts.map(|parts| parts.exchange()) {
            Some(Exchange::AllGather) if matches!(tensor, Tensor::F32(_)) => {
                return Err(SubmitError::GatheredFloats);
            }
            // Bits are not added.
            Some(Exchange::AllGather) => {}
            Some(Exchange::ReduceScatter) | None => {
                codec.check(&tensor, greatest, self.values_per_packet)?;
            }
        }
        let needed = tensor.len().div_ceil(self.values_per_packet) as u64;
        let left = self.fragments - self.end;
        let missing = match u32::try_from(needed) {
            Ok(needed) if needed <= left => needed,
            _ => return Err(SubmitError::SequencesExhausted { needed, left }),
        };
        self.divided += usize::from(parts.is_some());
        let id = TensorId(self.next_id);
        self.next_id += 1;
        let (first, rounding) = (self.end, Rounding::default());
        self.queue.push_back(Queued {
            id,
            tensor,
            priority,
            codec,
            parts,
            first,
            missing,
            rounding,
        });
        self.end += missing;
        Ok(id)
    }

    /// The priority of a fragment without a result.
    pub(super) fn priority(&self, fragment: u32) -> Priority {
        self.find(fragment).map_or(Priority::LOWEST, |at| self.queue[at].priority)
    }

    /// This worker's role in a fragment without a result.
    pub(super) fn role(&self, fragment: u32) -> Role {
        // Nearly always there are no parts.
        if self.divided == 0 {
            return Role::ALL;
        }
        self.find(fragment).map_or(Role::ALL, |at| self.queue[at].role(fragment, self.worker))
    }

    /// Writes a fragment's values into a payload, and zeros after the last value of a tensor.
    pub(super) fn encode(
        &self,
        fragment: u32,
        form: Form,
        payload: &mut [u8],
    ) -> Result<Encoding, KindMismatch> {
        let Some(queued) = self.find(fragment).map(|at| &self.queue[at]) else {
            debug_assert!(false, "fragment {fragment} of no tensor");
            return Ok(Encoding::Fixed);
        };
        let (at, range) = queued.place(fragment, self.values_per_packet);
        let (values, rest) = payload.split_at_mut(4 * range.len());
        rest.fill(0);
        queued.codec.encode(&queued.tensor, at, range, form, values)
    }

    /// Overwrites a fragment's values with its sums, if this worker needs them. Returns the values' rounding. Call
    /// it once per fragment.
    pub(super) fn store(
        &mut self,
        fragment: u32,
        form: Form,
        payload: &[u8],
    ) -> Result<Rounding, KindMismatch> {
        let Some(at) = self.find(fragment) else {
            debug_assert!(false, "fragment {fragment} of no tensor");
            return Ok(Rounding::default());
        };
        let queued = &mut self.queue[at];
        let takes = queued.role(fragment, self.worker).takes;
        let (at, range) = queued.place(fragment, self.values_per_packet);
        let rounding = match takes {
            true => queued.codec.decode(payload, form, &mut queued.tensor, at, range)?,
            false => queued.codec.lost(form, &queued.tensor, at, range),
        };
        queued.rounding += rounding;
        queued.missing -= 1;
        Ok(rounding)
    }

    /// Whether a fragment consists of integers, which have no scale.
    pub(super) fn is_integer(&self, fragment: u32) -> bool {
        let tensor = self.find(fragment).map(|at| &self.queue[at].tensor);
        matches!(tensor, Some(Tensor::I32(_)))
    }

    /// Removes the first tensor if its sums are complete.
    pub(super) fn pop_done(&mut self) -> Option<(TensorId, Tensor, Rounding)> {
        let done = self.queue.pop_front_if(|queued| queued.missing == 0)?;
        self.divided -= usize::from(done.parts.is_some());
        Some((done.id, done.tensor, done.rounding))
    }

    /// The index in the queue of the tensor that contains a fragment.
    fn find(&self, fragment: u32) -> Option<usize> {
        // Empty tensors share their first fragment with the tensor that follows them.
        let after = self.queue.partition_point(|queued| queued.first <= fragment);
        after.checked_sub(1).filter(|_| fragment < self.end)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use tributary_wire::{Epoch, Host, JobId, Protocol};

    use super::*;
    use crate::fixed::Scale;
    use crate::{JobConfig, Timing};

    /// For a job with so many workers that 100 is the largest integer.
    fn tensors(protocol: Protocol, values: u16, scale: f64) -> Tensors {
        let id = JobId::new(1).unwrap();
        let job = JobConfig::new(id.run(Epoch::FIRST), 32, NonZeroU32::MIN);
        Tensors::new(&WorkerConfig {
            job: JobConfig { protocol, values_per_packet: values, ..job },
            index: WorkerIndex::new(0).unwrap(),
            scale: Scale::new(scale).unwrap(),
            host: Host::service(id),
            server: Host::service(id),
            initial_window: None,
            rate: None,
            timing: Timing::default(),
        })
    }

    #[test]
    fn rejects_values_that_cannot_be_summed() {
        let limit = i32::MAX / 32;
        let mut tensors = tensors(Protocol::Atp, 4, 1.0);
        let mut submit = |tensor| tensors.submit(tensor, Priority::LOWEST.into());
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let error = submit(vec![0.0, 1.0, value].into()).unwrap_err();
            assert!(matches!(error, SubmitError::NotFinite { position: 2, .. }), "{error}");
        }
        for value in [limit + 1, -limit - 1, i32::MIN, i32::MAX] {
            let error = submit(vec![limit, -limit, 0, value].into()).unwrap_err();
            assert_eq!(error, SubmitError::TooGreat { position: 3, value, limit });
        }
        assert_eq!(submit(vec![limit, -limit].into()), Ok(TensorId(0)));
    }

    #[test]
    fn fragments_are_counted_over_all_tensors() {
        let mut tensors = tensors(Protocol::Atp, 4, 1.0);
        let mut submit = |n| tensors.submit(vec![1; n].into(), Priority::LOWEST.into()).unwrap();
        assert_eq!(
            [submit(0), submit(5), submit(0), submit(4), submit(1)].map(|id| id.0),
            [0, 1, 2, 3, 4]
        );
        assert_eq!(tensors.end(), 4);
        let place = [0, 1, 2, 3, 4].map(|s| tensors.find(s));
        assert_eq!(place, [Some(1), Some(1), Some(3), Some(4), None]);
        assert_eq!(tensors.queue[1].place(1, 4), (1, 4..5));
        let none = Rounding::default();
        assert_eq!(tensors.pop_done(), Some((TensorId(0), Vec::<i32>::new().into(), none)));
        assert_eq!(tensors.pop_done(), None);
    }

    #[test]
    fn sequences_run_out_before_they_wrap() {
        for protocol in [Protocol::Atp, Protocol::P4inc] {
            let mut tensors = tensors(protocol, 1, 1.0);
            tensors.end = tensors.fragments - 3;
            let error = tensors.submit(vec![0; 4].into(), Priority::LOWEST.into()).unwrap_err();
            assert_eq!(error, SubmitError::SequencesExhausted { needed: 4, left: 3 });
            assert!(tensors.submit(vec![0; 3].into(), Priority::LOWEST.into()).is_ok());
        }
    }

    #[test]
    fn values_beyond_the_last_rung_are_rejected_on_a_ladder() {
        // 2^128 / 2^128 · scale, which must be at most 2^26 with 32 workers.
        let great = || vec![0.0, f32::MAX].into();
        let refused = SubmitError::OffLadder { position: 1, value: f32::MAX };
        for protocol in [Protocol::P4inc, Protocol::SwitchMl] {
            let mut fine = tensors(protocol, 1, 6e7);
            assert!(fine.submit(great(), Priority::LOWEST.into()).is_ok());
            let mut coarse = tensors(protocol, 1, 7e7);
            assert_eq!(coarse.submit(great(), Priority::LOWEST.into()), Err(refused));
        }
        assert!(tensors(Protocol::Esa, 1, 7e7).submit(great(), Priority::LOWEST.into()).is_ok());
    }
}
