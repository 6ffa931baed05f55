//! Least-fragmentation: prefers to use up the GPUs of servers in use (NetPack §6.1).

use crate::ServerIndex;

use crate::placement::ranked::{Preference, Ranked, View};

/// Least-fragmentation.
pub type LeastFragmentation = Ranked<UsedUpFirst>;

/// Servers in use before idle servers; within each group the fewest free GPUs first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UsedUpFirst;

impl Preference for UsedUpFirst {
    const NAME: &'static str = "least-fragmentation";

    type Key = (bool, u32);

    fn key(view: &View<'_>, server: ServerIndex) -> (bool, u32) {
        let free = view.state.free(server);
        (free == view.state.cluster().server(server).gpus, free)
    }
}
