//! The results of one window, kept for a PS that lacks them (ESA §5.3, case 2).
//!
//! A PS of ESA does not see the tasks that switches complete. A PS of ATP or P4INC sees every
//! result, but may be replaced by one that has not.
//!
//! While a worker lacks the result of `s`, no other worker advances beyond `s + W`, because no task
//! from there on completes without it. So a worker that has a result which another lacks has at
//! most W later results, and keeping one window of results is sufficient.

use tributary_wire::Sequence;

use crate::JobConfig;

/// A ring of results, one per slot.
#[derive(Clone, Debug)]
pub(super) struct Results {
    kept: Box<[Option<Kept>]>,
    payloads: Box<[u8]>,
    /// Length of a payload in bytes.
    size: usize,
}

/// Identity of a kept result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) sequence: Sequence,
    /// ATP and ESA: whether the values are floats. P4INC: whether they are meaningless and a
    /// coarser rung follows.
    pub(super) overflow: bool,
}

impl Results {
    pub(super) fn new(job: &JobConfig) -> Self {
        let size = 4 * usize::from(job.values_per_packet);
        let slots = job.slots as usize;
        Self { kept: vec![None; slots].into(), payloads: vec![0; slots * size].into(), size }
    }

    /// Stores a fragment's result in its slot and discards the slot's last result. `payload` holds
    /// V values.
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
