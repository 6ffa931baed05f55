//! Optimus (EuroSys '18) as summarised in NetPack §2.3: orders servers by free GPUs and distributes
//! workers and parameter servers evenly over the smallest sufficient prefix.
//!
//! The prefix suffices if its free GPUs do. GPUs are distributed round-robin, skipping full
//! servers. The parameter server is distributed like one more GPU, and therefore shares a server
//! with a worker, one of those with the fewest GPUs of the job. This distinguishes the policy from
//! GPU-balance.

use std::cmp::Reverse;

use crate::ServerIndex;

use crate::placement::ranked::{Preference, Ranked, View};

/// Optimus.
pub type Optimus = Ranked<Evenly>;

/// Most free GPUs first, workers distributed evenly.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Evenly;

impl Preference for Evenly {
    const NAME: &'static str = "optimus";

    type Key = Reverse<u32>;

    fn key(view: &View<'_>, server: ServerIndex) -> Reverse<u32> {
        Reverse(view.state.free(server))
    }

    fn shares(
        view: &View<'_>,
        ordered: impl Iterator<Item = ServerIndex>,
    ) -> Vec<(ServerIndex, u32)> {
        let mut free = 0;
        let mut first = Vec::new();
        for server in ordered {
            free += view.state.free(server);
            first.push(server);
            if free >= view.gpus {
                break;
            }
        }
        deal(&first, view.gpus, |server| view.state.free(server))
    }

    fn ps(_: &View<'_>, _: &[ServerIndex], workers: &[(ServerIndex, u32)]) -> ServerIndex {
        let fewest = workers.iter().min_by_key(|(_, gpus)| gpus).expect("a job has workers");
        fewest.0
    }
}

/// Number of GPUs on each server, distributed one by one.
fn deal(
    servers: &[ServerIndex],
    gpus: u32,
    free: impl Fn(ServerIndex) -> u32,
) -> Vec<(ServerIndex, u32)> {
    let mut hands: Vec<_> = servers.iter().map(|&server| (server, 0)).collect();
    let mut left = gpus;
    while left > 0 {
        for (server, hand) in &mut hands {
            if left > 0 && *hand < free(*server) {
                *hand += 1;
                left -= 1;
            }
        }
    }
    hands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_dealt_evenly_past_full_servers() {
        let servers = [ServerIndex(2), ServerIndex(0), ServerIndex(1)];
        let hands = |gpus| deal(&servers, gpus, |server| [4, 1, 4][server.at()]);
        let counts = |gpus| hands(gpus).iter().map(|hand| hand.1).collect::<Vec<_>>();
        assert_eq!(counts(6), [3, 2, 1]);
        assert_eq!(counts(7), [3, 3, 1]);
        assert_eq!(counts(9), [4, 4, 1]);
    }
}
