//! What a worker measures of its job while it runs.

use serde::{Deserialize, Serialize};
use tributary_netio::FrameCount;

/// What a worker has measured so far.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    /// Rounds after the warm-up.
    pub rounds: u64,
    /// Seconds in the sums of these rounds.
    pub reduce_seconds: f64,
    /// Seconds between these sums for which its thread waited for a core.
    #[serde(default)]
    pub core_wait_seconds: f64,
    /// Fragments with a result.
    pub fragments: u64,
    /// Of these, fragments that met another task in a switch.
    pub collisions: u64,
    /// Packets, and values over TCP, that were sent again.
    pub resent: u64,
    /// Frames at the host's end of its link; `None` if the host does not count them.
    #[serde(default)]
    pub frames: Option<FrameCount>,
}
