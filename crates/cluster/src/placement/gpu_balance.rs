//! GPU-balance: prefers servers with more free GPUs (NetPack §6.1).

use std::cmp::Reverse;

use crate::ServerIndex;

use crate::placement::ranked::{Preference, Ranked, View};

/// GPU-balance.
pub type GpuBalance = Ranked<MoreGpus>;

/// Most free GPUs first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MoreGpus;

impl Preference for MoreGpus {
    const NAME: &'static str = "gpu-balance";

    type Key = Reverse<u32>;

    fn key(view: &View<'_>, server: ServerIndex) -> Reverse<u32> {
        Reverse(view.state.free(server))
    }
}
