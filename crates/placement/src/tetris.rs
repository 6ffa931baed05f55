//! Tetris (SIGCOMM '14) as NetPack §2.3 sums it up: servers by alignment, the dot product of what a
//! server has left and what the job wants of it.
//!
//! Both are fractions of the server's capacity, GPUs and bandwidth counting alike. A job wants of a
//! server all the GPUs that it could use there, and all of the link unless it fits on the server; its
//! parameter server wants the link and no GPU.

use std::cmp::Reverse;

use tributary_cluster::ServerIndex;

use crate::ranked::{Preference, Ranked, View};

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

    fn ps_key(view: &View<'_>, server: ServerIndex) -> Option<Reverse<u64>> {
        Some(millionths(bandwidth_left(view, server)))
    }
}

/// The part of a server's link that is left.
fn bandwidth_left(view: &View<'_>, server: ServerIndex) -> f64 {
    let link_gbps = view.state.cluster().server(server).link_gbps;
    if link_gbps > 0.0 { view.network.available_gbps(server) / link_gbps } else { 0.0 }
}

fn millionths(score: f64) -> Reverse<u64> {
    Reverse((score * 1e6).round() as u64)
}
