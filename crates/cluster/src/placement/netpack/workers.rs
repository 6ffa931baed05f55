//! Step 2: selects the servers whose GPUs a job gets (NetPack §5.2, algorithm 2, lines 12 to 26).

use super::offers::{Kbps, Offer};
use super::readings::Surplus;

/// Servers for a job, which takes all free GPUs of each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Candidate {
    /// Number of flows on the busiest server.
    pub(super) flows: u32,
    /// Their total value.
    pub(super) value: Kbps,
    /// The servers, in the order of the offers.
    pub(super) servers: Vec<Offer>,
}

impl Candidate {
    /// Whether the job has a worker on the server.
    pub(super) fn has(&self, offer: &Offer) -> bool {
        self.servers.binary_search(offer).is_ok()
    }

    /// The job's GPUs on each server: all free GPUs, minus the surplus, which is taken from the
    /// least loaded server. A server that keeps no GPU drops out, and the next least loaded server
    /// follows.
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

/// The best servers for `gpus` GPUs for each number of flows on the busiest server: the dynamic
/// program over flows and GPUs.
///
/// `offers` are sorted, and all have free GPUs.
///
/// An unreachable cell is empty. If it were zero, as printed, a plan without any server would be
/// worth as much as one with enough GPUs.
pub(super) fn candidates(offers: &[Offer], gpus: u32, surplus: Surplus) -> Vec<Candidate> {
    if offers.is_empty() {
        return Vec::new();
    }
    // The numbers of flows that occur, in order: the rows of the table.
    let mut levels: Vec<u32> = offers.iter().map(|offer| offer.kind.flows).collect();
    levels.sort_unstable();
    levels.dedup();
    let most_gpus = offers.iter().map(|offer| offer.kind.gpus).max().unwrap_or(0);
    let most = (gpus + most_gpus) as usize;
    // best[f][g]: at most levels[f] flows on a server, exactly g GPUs.
    let mut best: Vec<Vec<Option<Candidate>>> = vec![vec![None; most + 1]; levels.len()];
    best[0][0] = Some(Candidate { flows: levels[0], value: 0, servers: Vec::new() });
    for offer in offers {
        let before = best.clone();
        let free = offer.kind.gpus as usize;
        for (i, row) in before.iter().enumerate() {
            let flows = offer.kind.flows.max(levels[i]);
            let level = levels.partition_point(|&level| level < flows);
            for j in free..=most {
                let Some(without) = &row[j - free] else { continue };
                let value = without.value + offer.value(0);
                let cell = &mut best[level][j];
                if cell.as_ref().is_none_or(|cell| cell.value < value) {
                    let mut servers = without.servers.clone();
                    servers.push(*offer);
                    *cell = Some(Candidate { flows, value, servers });
                }
            }
        }
    }
    last_row(&best, &levels, gpus as usize, surplus)
}

/// The candidates of the last row, for step 3.
fn last_row(
    best: &[Vec<Option<Candidate>>],
    levels: &[u32],
    gpus: usize,
    surplus: Surplus,
) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for (row, &flows) in levels.iter().enumerate() {
        let of_enough_gpus = (gpus..best[row].len()).filter_map(|j| {
            let upto = best[..=row].iter().filter_map(|row| row[j].as_ref());
            upto.reduce(|a, b| if b.value > a.value { b } else { a })
        });
        let taken = match surplus {
            Surplus::Least => 1,
            Surplus::Any => usize::MAX,
        };
        let new = of_enough_gpus.take(taken).filter(|best| best.flows == flows);
        candidates.extend(new.cloned());
    }
    candidates
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use crate::ServerIndex;

    use super::super::offers::Kind;
    use super::*;

    /// A server with these numbers of free GPUs and flows, and this remaining bandwidth of a link
    /// of 100.
    fn offer(server: u32, gpus: u32, flows: u32, available: Kbps) -> Offer {
        let kind = Kind { flows, gpus, link: 100 };
        Offer { kind, available: Reverse(available), server: ServerIndex(server) }
    }

    fn servers(candidate: &Candidate) -> Vec<u32> {
        candidate.servers.iter().map(|offer| offer.server.0).collect()
    }

    /// Lines 12 to 26 to the letter, with `f` for `f_max`, and line 24 where `j - w` is negative.
    fn printed(offers: &[Offer], gpus: usize, most_flows: usize) -> Vec<Vec<(Kbps, Vec<u32>)>> {
        let most = gpus + offers.iter().map(|offer| offer.kind.gpus).max().unwrap() as usize;
        let nothing = vec![vec![(0, Vec::new()); most + 1]; most_flows + 1];
        offers.iter().fold(nothing.clone(), |before, offer| {
            let mut row = nothing.clone();
            let w = offer.kind.gpus as usize;
            for i in 0..=most_flows {
                for j in 0..=most {
                    let f = i.max(offer.kind.flows as usize);
                    row[f][j] = before[f][j].clone();
                    if let Some((value, servers)) = j.checked_sub(w).map(|left| &before[i][left]) {
                        let value = value + offer.value(0);
                        if before[f][j].0 < value {
                            let with = servers.iter().copied().chain([offer.server.0]).collect();
                            row[f][j] = (value, with);
                        }
                    }
                }
            }
            row
        })
    }

    #[test]
    fn all_servers_of_an_exact_fit_are_chosen() {
        let offers = [offer(0, 3, 0, 100), offer(1, 2, 0, 100), offer(2, 4, 0, 100)];
        let mut sorted = offers;
        sorted.sort_unstable();
        let found = candidates(&sorted, 6, Surplus::Least);
        assert_eq!(found.len(), 1);
        assert_eq!((servers(&found[0]), found[0].value), (vec![1, 2], 200));
    }

    #[test]
    fn each_bound_on_flows_has_its_own_best_plan() {
        let offers = [offer(0, 3, 0, 50), offer(1, 3, 0, 40), offer(2, 3, 2, 97)];
        let found = candidates(&offers, 6, Surplus::Least);
        let found: Vec<_> = found.iter().map(|found| (found.flows, servers(found))).collect();
        assert_eq!(found, [(0, vec![0, 1]), (2, vec![0, 2])]);
    }

    #[test]
    fn zeros_as_printed_make_plans_with_too_few_gpus() {
        let idle = [offer(0, 1, 0, 100), offer(1, 1, 0, 100)];
        assert_eq!(printed(&idle, 4, 0)[0][4], (200, vec![0, 1]), "two GPUs of four");
        assert!(candidates(&idle, 4, Surplus::Any).is_empty());
        // It is better to omit servers with negative values.
        let busy = [offer(0, 1, 3, 0), offer(1, 1, 3, 0)];
        assert_eq!(printed(&busy, 2, 3)[3][2], (0, vec![]));
        assert_eq!(servers(&candidates(&busy, 2, Surplus::Least)[0]), [0, 1]);
    }

    #[test]
    fn as_printed_a_busy_server_wipes_out_plans_with_fewer_flows() {
        // f is at least the server's flows, so that no cell below is copied from the preceding row.
        let offers = [offer(0, 2, 0, 100), offer(1, 2, 0, 100), offer(2, 1, 1, 90)];
        assert_eq!(printed(&offers[..2], 4, 1)[0][4], (200, vec![0, 1]));
        assert_eq!(printed(&offers, 4, 1)[0][4], (0, vec![]));
        assert_eq!(servers(&candidates(&offers, 4, Surplus::Least)[0]), [0, 1]);
    }

    #[test]
    fn surplus_gpus_are_released_on_the_least_loaded_server() {
        let servers = vec![offer(1, 4, 0, 60), offer(2, 4, 0, 50), offer(0, 4, 1, 90)];
        let candidate = Candidate { flows: 1, value: 0, servers };
        let shares = |gpus| -> Vec<_> {
            let shares = candidate.shares(gpus);
            shares.iter().map(|(offer, share)| (offer.server.0, *share)).collect()
        };
        assert_eq!(shares(10), [(0, 4), (1, 2), (2, 4)]);
        assert_eq!(shares(6), [(0, 4), (2, 2)]);
    }
}
