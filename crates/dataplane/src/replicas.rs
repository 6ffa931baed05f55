//! Replicas of a packet that share it at egress (v1model).

use crate::effects::Sharing;

/// What the replicas of a packet have in common, apart from the packet: the frame that the last one
/// left. For [`crate::Pipeline::egress_shared`].
#[derive(Debug, Default)]
pub struct Memo {
    frame: Vec<u8>,
    /// What the last replica had left in the slots that can differ; of no use without a frame.
    key: Vec<u64>,
    valid: bool,
    saved: Vec<u64>,
    /// The packet's length after the egress control.
    pub(crate) length: u32,
}

impl Memo {
    /// Forgets the previous packet.
    pub fn clear(&mut self) {
        self.valid = false;
    }

    pub(crate) fn save(&mut self, sharing: &Sharing, state: &[u64]) {
        self.saved.clear();
        self.saved.extend(sharing.save.iter().map(|&slot| state[slot as usize]));
    }

    pub(crate) fn restore(&self, sharing: &Sharing, state: &mut [u64]) {
        for (&slot, &value) in sharing.save.iter().zip(&self.saved) {
            state[slot as usize] = value;
        }
    }

    /// Whether the frame is that of a replica with this state. Otherwise it will be that of the
    /// next [`keep`](Self::keep).
    pub(crate) fn holds(&mut self, sharing: &Sharing, state: &[u64]) -> bool {
        let values = sharing.compare.iter().map(|&slot| state[slot as usize]);
        if self.valid && values.clone().eq(self.key.iter().copied()) {
            return true;
        }
        self.key.clear();
        self.key.extend(values);
        self.valid = false;
        false
    }

    pub(crate) fn keep(&mut self, frame: &[u8]) {
        self.frame.clear();
        self.frame.extend_from_slice(frame);
        self.valid = true;
    }

    pub(crate) fn frame(&self) -> &[u8] {
        &self.frame
    }
}
