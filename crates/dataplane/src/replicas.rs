//! Replicas of a packet that share it at egress (v1model).

use crate::effects::Sharing;

/// What the replicas of a packet have in common, apart from the packet: the frame that the last one
/// left. For [`crate::Pipeline::egress_shared`].
#[derive(Debug, Default)]
pub struct Memo {
    pub(crate) frame: Vec<u8>,
    /// What the last replica had left in the slots that can differ; of no use without a frame.
    key: Vec<u64>,
    pub(crate) valid: bool,
    /// The packet's slots that replicas change, as they were before the first one.
    saved: Vec<u64>,
    is_saved: bool,
    /// The packet's length after the egress control.
    pub(crate) length: u32,
}

impl Memo {
    /// Forgets the previous packet.
    pub fn clear(&mut self) {
        self.valid = false;
        self.is_saved = false;
        self.frame.clear();
    }

    /// Saves what each replica finds.
    pub(crate) fn save(&mut self, sharing: &Sharing, state: &[u64]) {
        if !self.is_saved {
            self.is_saved = true;
            self.saved.clear();
            self.saved.extend(sharing.save.iter().map(|&slot| state[slot as usize]));
        }
    }

    pub(crate) fn restore(&self, sharing: &Sharing, state: &mut [u64]) {
        for (&slot, &value) in sharing.save.iter().zip(&self.saved) {
            state[slot as usize] = value;
        }
    }

    /// The frame of the last replica, if it was not dropped.
    #[must_use]
    pub fn frame(&self) -> &[u8] {
        &self.frame
    }

    /// Whether the frame is that of a replica with this state. Otherwise it is emptied, and that replica's
    /// to be written.
    pub(crate) fn holds(&mut self, sharing: &Sharing, state: &[u64]) -> bool {
        let values = sharing.compare.iter().map(|&slot| state[slot as usize]);
        if self.valid && values.clone().eq(self.key.iter().copied()) {
            return true;
        }
        self.key.clear();
        self.key.extend(values);
        self.valid = false;
        self.frame.clear();
        false
    }
}
