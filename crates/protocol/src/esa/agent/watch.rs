//! What the agent knows of one entry of a server's dictionary.

use tributary_wire::Bitmap;

use crate::Time;

/// An entry that is not complete.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    /// Workers whose values the server lacks, as far as the agent knows.
    pub(super) missing: Bitmap,
    /// The task is collected in floats, so partial sums are of no use.
    pub(super) float: bool,
    /// When it was set up.
    pub(super) since: Time,
    /// When its timer fires.
    pub(super) due: Time,
    /// Before this no round is begun but by the timer.
    pub(super) rest_until: Time,
    /// Rounds that the timer began.
    pub(super) timeouts: u32,
    /// Contributions to later tasks.
    pub(super) later: u8,
    /// They began a round since the timer last fired.
    pub(super) fast: bool,
    /// Something was done about it, so its time to completion says nothing of the network.
    pub(super) pursued: bool,
    /// Reminders of this round that are not answered.
    pub(super) awaited: u32,
    /// The workers that are missing after these answers are to be asked.
    pub(super) ask: bool,
}

impl Watch {
    pub(super) fn new(missing: Bitmap, float: bool, now: Time, due: Time) -> Self {
        Self {
            missing,
            float,
            since: now,
            due,
            rest_until: now,
            timeouts: 0,
            later: 0,
            fast: false,
            pursued: false,
            awaited: 0,
            ask: false,
        }
    }
}
