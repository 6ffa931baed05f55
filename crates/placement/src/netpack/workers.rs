//! Step 2: which servers' GPUs a job gets (NetPack §5.2, algorithm 2, lines 12 to 26).

use super::offers::{Kbps, Offer};
use super::readings::Surplus;

/// Servers whose free GPUs a job may take, all of them on each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Candidate {
    /// Flows on the busiest of them.
    pub(super) flows: u32,
    /// What they are worth together.
    pub(super) value: Kbps,
    /// The servers, in the order of the offers.
    pub(super) servers: Vec<Offer>,
}

impl Candidate {
    /// Whether the job has a worker there.
    pub(super) fn has(&self, offer: &Offer) -> bool {
        self.servers.binary_search(offer).is_ok()
    }

    /// The job's GPUs on each server: all that are free, less what it does not need, which comes off
    /// the least loaded server. A server that keeps none drops out, and the next least loaded follows.
    pub(super) fn shares(&self, gpus: u32) -> Vec<(Offer, u32)> {
        let mut shares: Vec<_> =
            self.servers.iter().map(|offer| (*offer, offer.kind.gpus)).collect();
        let mut surplus = shares.iter().map(|(_, share)| share).sum::<u32>() - gpus;
        shares.sort_unstable_by_key(|(offer, _)| (offer.kind.flows, offer.available, offer.server));
        for (_, share) in &mut shares {
            let released = surplus.min(*share);
            *share -= released;
            surplus -= released;
        }
        shares.retain(|(_, share)| *share > 0);
        shares.sort_unstable_by_key(|(offer, _)| offer.server);
        shares
    }
}

/// The best servers for `gpus` GPUs by each number of flows on the busiest: the dynamic program over
/// flows and GPUs.
///
/// `offers` are in order, all with free GPUs.
///
/// A cell that nothing reaches is empty. With zero in it, as printed, a plan that has no server at all
/// is worth as much as one that has enough GPUs.
pub(super) fn candidates(offers: &[Offer], gpus: u32, surplus: Surplus) -> Vec<Candidate> {
    let Some(most_flows) = offers.iter().map(|offer| offer.kind.flows).max() else {
        return Vec::new();
    };
    let most_gpus = offers.iter().map(|offer| offer.kind.gpus).max().unwrap_or(0);
    let most = (gpus + most_gpus) as usize;
    // best[f][g]: at most f flows on a server, exactly g GPUs.
    let mut best: Vec<Vec<Option<Candidate>>> = vec![vec![None; most + 1]; most_flows as usize + 1];
    best[0][0] = Some(Candidate { flows: 0, value: 0, servers: Vec::new() });
    for offer in offers {
        let before = best.clone();
        let free = offer.kind.gpus as usize;
        for (i, row) in before.iter().enumerate() {
            let flows = offer.kind.flows.max(i as u32);
            for j in free..=most {
                let Some(without) = &row[j - free] else { continue };
                let value = without.value + offer.value(0);
                let cell = &mut best[flows as usize][j];
                if cell.as_ref().is_none_or(|cell| cell.value < value) {
                    let mut servers = without.servers.clone();
                    servers.push(*offer);
                    *cell = Some(Candidate { flows, value, servers });
                }
            }
        }
    }
    last_row(&best, gpus as usize, surplus)
}

/// What of the last row goes on to step 3.
fn last_row(best: &[Vec<Option<Candidate>>], gpus: usize, surplus: Surplus) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for flows in 0..best.len() {
        let of_enough_gpus = (gpus..best[flows].len()).filter_map(|j| {
            let upto = best[..=flows].iter().filter_map(|row| row[j].as_ref());
            upto.reduce(|a, b| if b.value > a.value { b } else { a })
        });
        let taken = match surplus {
            Surplus::Least => 1,
            Surplus::Any => usize::MAX,
        };
        let new = of_enough_gpus.take(taken).filter(|best| best.flows as usize == flows);
        candidates.extend(new.cloned());
    }
    candidates
}
