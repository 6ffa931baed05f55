//! Comb: orders servers by free GPUs, then by memory of the rack's switch, then by bandwidth; each
//! criterion breaks the ties of the criteria before it (NetPack §6.4).
//!
//! In the paper it sorts "in descending order" by the three criteria and takes the first matches.
//! Memory is the remaining peak aggregation throughput of the switch, bandwidth the remaining
//! capacity of the server's link.

use std::cmp::Reverse;

use crate::ServerIndex;

use crate::placement::ranked::{Preference, Ranked, View};

/// Comb.
pub type Comb = Ranked<OneAfterTheOther>;

/// GPUs, then memory, then bandwidth.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OneAfterTheOther;

impl Preference for OneAfterTheOther {
    const NAME: &'static str = "comb";

    /// Free GPUs, then kb/s.
    type Key = Reverse<(u32, u64, u64)>;

    fn key(view: &View<'_>, server: ServerIndex) -> Self::Key {
        let rack = view.state.cluster().server(server).rack;
        let kbps = |gbps: f64| (gbps * 1e6).round() as u64;
        Reverse((
            view.state.free(server),
            kbps(view.network.pat_left_gbps(rack)),
            kbps(view.network.available_gbps(server)),
        ))
    }
}
