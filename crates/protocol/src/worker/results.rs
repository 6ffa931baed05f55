//! The results of one window, kept to answer the PS (ESA §5.3, case 2).
//!
//! A worker that lacks the result of `s` keeps every other from going beyond `s + W`, because no task
//! from there on is complete without it. So whoever has a result that another lacks, has at most
//! W later ones, and a window of results is all that anybody can ask for.

use bytes::Bytes;
use tributary_wire::channel::Values;

use crate::JobConfig;

/// A ring of results, one a slot.
#[derive(Clone, Debug)]
pub(super) struct Results {
    kept: Box<[Option<Kept>]>,
    payloads: Box<[u8]>,
    /// Bytes of a payload.
    size: usize,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    sequence: u32,
    float: bool,
}

impl Results {
    pub(super) fn new(job: &JobConfig) -> Self {
        let size = 4 * usize::from(job.values_per_packet);
        let slots = job.slots as usize;
        Self { kept: vec![None; slots].into(), payloads: vec![0; slots * size].into(), size }
    }

    /// Keeps a result instead of the one that the slot had. `payload` is of V values.
    pub(super) fn keep(&mut self, sequence: u32, float: bool, payload: &[u8]) {
        let slot = self.slot(sequence);
        self.kept[slot] = Some(Kept { sequence, float });
        self.payloads[slot * self.size..(slot + 1) * self.size].copy_from_slice(payload);
    }

    /// The result of a sequence, if it is kept.
    pub(super) fn get(&self, sequence: u32) -> Option<Values> {
        let slot = self.slot(sequence);
        let kept = self.kept[slot].filter(|kept| kept.sequence == sequence)?;
        let payload = &self.payloads[slot * self.size..(slot + 1) * self.size];
        Some(Values { float: kept.float, payload: Bytes::copy_from_slice(payload) })
    }

    fn slot(&self, sequence: u32) -> usize {
        sequence as usize & (self.kept.len() - 1)
    }
}
