//! Tetris (SIGCOMM '14) as summarised in NetPack §2.3: orders servers by alignment, the dot product
//! of a server's remaining resources and the job's demand.
//!
//! Both are fractions of the server's capacity, with equal weights for GPUs and bandwidth. A job
//! demands all the GPUs that it could use on the server, and the whole link unless the job fits on
//! the server. Its parameter server demands the link and no GPU.

use std::cmp::Reverse;

use crate::ServerIndex;

use crate::placement::ranked::{Preference, Ranked, View};

/// Tetris.
pub type Tetris = Ranked<Aligned>;

/// Highest alignment first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Aligned;

impl Preference for Aligned {
    const NAME: &'static str = "tetris";

    /// Alignment in millionths.
    type Key = Reverse<u64>;

    fn key(view: &View<'_>, server: ServerIndex) -> Reverse<u64> {
        let gpus = f64::from(view.state.cluster().server(server).gpus.max(1));
        let wanted = f64::from(view.gpus).min(gpus) / gpus;
        let free = f64::from(view.state.free(server)) / gpus;
        let fits = view.state.free(server) >= view.gpus;
        millionths(wanted * free + if fits { 0.0 } else { bandwidth_left(view, server) })
    }

    fn ps_key(view: &View<'_>, server: ServerIndex) -> Reverse<u64> {
        millionths(bandwidth_left(view, server))
    }

    /// A parameter server takes bandwidth.
    const COUNT_FIRST: bool = false;
}

/// The remaining share of a server's link.
fn bandwidth_left(view: &View<'_>, server: ServerIndex) -> f64 {
    let link_gbps = view.state.cluster().server(server).link_gbps;
    if link_gbps > 0.0 { view.network.available_gbps(server) / link_gbps } else { 0.0 }
}

fn millionths(score: f64) -> Reverse<u64> {
    Reverse((score * 1e6).round() as u64)
}
