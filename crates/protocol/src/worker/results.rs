//! The results of one window, kept for a PS that lacks them (ESA §5.3, case 2).
//!
//! A PS of ESA does not see what switches complete. One of ATP or P4INC sees every result, but may be
//! replaced by one that has seen none.
//!
//! A worker that lacks the result of `s` keeps every other from going beyond `s + W`, because no task
//! from there on is complete without it. So whoever has a result that another lacks, has at most
//! W later ones, and a window of results is all that anybody can ask for.

use tributary_wire::Sequence;

use crate::JobConfig;

/// A ring of results, one a slot.
#[derive(Clone, Debug)]
pub(super) struct Results {
    kept: Box<[Option<Kept>]>,
    payloads: Box<[u8]>,
    /// Bytes of a payload.
    size: usize,
}

/// What a result is of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) sequence: Sequence,
    /// ATP and ESA: the values are floats. P4INC: they mean nothing, a coarser rung follows.
    pub(super) overflow: bool,
}

impl Results {
    pub(super) fn new(job: &JobConfig) -> Self {
        let size = 4 * usize::from(job.values_per_packet);
        let slots = job.slots as usize;
        Self { kept: vec![None; slots].into(), payloads: vec![0; slots * size].into(), size }
    }

    /// Keeps a result of a fragment instead of the one that its slot had. `payload` is of V values.
    pub(super) fn keep(&mut self, fragment: u32, kept: Kept, payload: &[u8]) {
        let slot = self.slot(fragment);
        self.kept[slot] = Some(kept);
        self.payloads[slot * self.size..(slot + 1) * self.size].copy_from_slice(payload);
    }

    /// The last result in the slot of a fragment.
    pub(super) fn last(&self, fragment: u32) -> Option<(Kept, &[u8])> {
        let slot = self.slot(fragment);
        let payload = &self.payloads[slot * self.size..(slot + 1) * self.size];
        Some((self.kept[slot]?, payload))
    }

    fn slot(&self, fragment: u32) -> usize {
        fragment as usize & (self.kept.len() - 1)
    }
}
