//! Step 2 over classes of servers: the same dynamic program on far fewer servers, with one table
//! instead of one per number of flows.
//!
//! Servers come in the order of their flows. Once all servers with at most `f` flows are in the
//! table, it holds the best plans with at most `f` flows on a server, and the next number of flows
//! continues from there.

use super::classes::{Class, most_workers};
use super::offers::{Kbps, Offer};
use super::workers::Candidate;

/// Marks unreachable cells. No sum of values is below it, and half of it is still unreachable.
const UNREACHED: Kbps = Kbps::MIN / 2;

/// The best values by number of GPUs, and the servers that achieve them.
struct Table {
    /// By exact number of GPUs.
    best: Vec<Kbps>,
    next: Vec<Kbps>,
    offers: Vec<Offer>,
    /// By server and number of GPUs: whether the best plan of the servers so far contains the
    /// server.
    taken: Vec<bool>,
}

impl Table {
    fn new(most_gpus: usize) -> Self {
        let mut best = vec![UNREACHED; most_gpus + 1];
        best[0] = 0;
        Self { next: best.clone(), best, offers: Vec::new(), taken: Vec::new() }
    }

    fn add(&mut self, offer: &Offer) {
        let (free, value) = (offer.kind.gpus as usize, offer.value(0));
        let start = self.taken.len();
        self.taken.resize(start + self.best.len(), false);
        if let Some(takes) = self.taken.get_mut(start + free..) {
            let cells = self.next[free..].iter_mut().zip(takes);
            for ((next, takes), (without, before)) in
                cells.zip(self.best[free..].iter().zip(&self.best))
            {
                let with = before + value;
                *takes = with > *without;
                *next = with.max(*without);
            }
        }
        self.best.copy_from_slice(&self.next);
        self.offers.push(*offer);
    }

    /// The best plan of exactly `gpus` GPUs. `None` if there is no plan, or none of its servers is
    /// at or after `new`.
    fn candidate(&self, gpus: usize, new: usize) -> Option<Candidate> {
        let value = self.best[gpus];
        if value < UNREACHED / 2 {
            return None;
        }
        let mut left = gpus;
        let mut servers = Vec::new();
        for (at, offer) in self.offers.iter().enumerate().rev() {
            if at < new && servers.is_empty() {
                return None;
            }
            if self.taken[at * self.best.len() + left] {
                left -= offer.kind.gpus as usize;
                servers.push(*offer);
            }
        }
        servers.reverse();
        let flows = servers.last()?.kind.flows;
        Some(Candidate { flows, value, servers })
    }
}

/// The candidates that [`workers::candidates`](super::workers::candidates) finds among all servers
/// of these classes, with any surplus.
pub(super) fn candidates(classes: &[Class], gpus: u32) -> Vec<Candidate> {
    let most_free = classes.iter().map(|class| class.kind.gpus).max().unwrap_or(0);
    let most = gpus + most_free;
    let mut table = Table::new(most as usize);
    let mut candidates = Vec::new();
    for of_flows in classes.chunk_by(|a, b| a.kind.flows == b.kind.flows) {
        let new = table.offers.len();
        for class in of_flows {
            let workers = most_workers(class.kind, most).min(class.first.len());
            for offer in &class.first[..workers] {
                table.add(offer);
            }
        }
        if table.offers.len() > new {
            let enough = gpus as usize..=most as usize;
            candidates.extend(enough.filter_map(|gpus| table.candidate(gpus, new)));
        }
    }
    candidates
}
