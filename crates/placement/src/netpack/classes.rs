//! Servers of a kind: what makes the search fast.
//!
//! Two servers with as many free GPUs and as many flows on links as fast differ only in the bandwidth
//! they have left, so that of each kind the best few are all that a job can want: as many as its GPUs
//! and those that it gives back fill, and one more for the parameter server. Kinds are few, as free
//! GPUs and flows are small numbers. What was looked up stays sorted from one job to the next, and only
//! servers on which something changed are filed anew.
//!
//! The plans are those of the plain search, ties included. It visits servers by kind, then best first,
//! and replaces a plan only by a better one; so of plans that tie it keeps the one whose last server in
//! that order comes first, then whose last but one does, and so on. Were a server in such a plan and
//! one before it of the same kind not, exchanging the two would make a plan that is at least as good
//! and comes first: there is none, plans take the first servers of each kind, and the rest need never
//! be looked at.

use std::collections::BTreeSet;
use std::ops::Bound;

use tributary_cluster::{Cluster, Network, ServerIndex, State};

use super::offers::{Kind, Offer};
use crate::regions::Region;

/// The servers of one kind that matter to a job, best first.
#[derive(Clone, Debug)]
pub(super) struct Class {
    /// What they have in common.
    pub(super) kind: Kind,
    /// The first of them.
    pub(super) first: Vec<Offer>,
}

/// How many servers of a kind can be in a plan of at most so many GPUs.
pub(super) const fn most_workers(kind: Kind, most_gpus: u32) -> usize {
    match most_gpus.checked_div(kind.gpus) {
        Some(servers) => servers as usize,
        None => 0,
    }
}

/// The servers of a region, filed by kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Filed {
    offers: BTreeSet<Offer>,
    free: u32,
}

impl Filed {
    /// Free GPUs of all.
    pub(super) const fn free(&self) -> u32 {
        self.free
    }

    fn insert(&mut self, offer: Offer) {
        self.free += offer.kind.gpus;
        self.offers.insert(offer);
    }

    fn remove(&mut self, offer: &Offer) {
        self.free -= offer.kind.gpus;
        self.offers.remove(offer);
    }

    /// Of each kind what a plan of at most so many GPUs can want.
    pub(super) fn classes(&self, most_gpus: u32) -> Vec<Class> {
        let mut classes = Vec::new();
        let mut next = self.offers.first();
        while let Some(offer) = next {
            let kind = offer.kind;
            let first = self.from(*offer).take(most_workers(kind, most_gpus) + 1);
            classes.push(Class { kind, first: first.copied().collect() });
            let last = last_of(kind);
            next = self.offers.range((Bound::Excluded(last), Bound::Unbounded)).next();
        }
        classes
    }

    /// All of a kind from the given one on, in order.
    pub(super) fn from(&self, offer: Offer) -> impl Iterator<Item = &Offer> {
        self.offers.range(offer..).take_while(move |other| other.kind == offer.kind)
    }
}

/// Comes after every server of a kind.
const fn last_of(kind: Kind) -> Offer {
    Offer { kind, available: std::cmp::Reverse(i64::MIN), server: ServerIndex(u32::MAX) }
}

/// The servers of a cluster, filed by kind in each of the regions that they belong to.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    regions: Vec<Filed>,
    /// By server.
    regions_of: Vec<Vec<u32>>,
    /// By server; none before it is filed or if no distributed job may use it.
    offers: Vec<Option<(Seen, Offer)>>,
}

/// What an offer is made of, as it was when it was made.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Seen {
    free: u32,
    flows: u32,
    available_gbps: f64,
}

impl Index {
    /// An index of regions, which may overlap; nothing is filed yet.
    pub(super) fn new(cluster: &Cluster, regions: &[Region]) -> Self {
        let mut regions_of = vec![Vec::new(); cluster.servers().len()];
        for (region, index) in regions.iter().zip(0..) {
            for server in region.servers(cluster) {
                regions_of[server.at()].push(index);
            }
        }
        Self {
            regions: vec![Filed::default(); regions.len()],
            offers: vec![None; regions_of.len()],
            regions_of,
        }
    }

    /// Files what has changed since the last time.
    pub(super) fn refresh(&mut self, state: &State<'_>, network: &Network) {
        for (server, filed) in state.cluster().server_indices().zip(&mut self.offers) {
            let seen = Seen {
                free: state.free(server),
                flows: network.flows(server),
                available_gbps: network.available_gbps(server),
            };
            if filed.is_some_and(|(before, _)| before == seen) {
                continue;
            }
            let offer = Offer::of(state, network, server);
            let old = filed.replace((seen, offer));
            for &region in &self.regions_of[server.at()] {
                let region = &mut self.regions[region as usize];
                if let Some((_, old)) = &old {
                    region.remove(old);
                }
                region.insert(offer);
            }
        }
    }

    /// How many regions there are.
    pub(super) const fn len(&self) -> usize {
        self.regions.len()
    }

    /// What is filed for a region.
    pub(super) fn region(&self, region: usize) -> &Filed {
        &self.regions[region]
    }
}
