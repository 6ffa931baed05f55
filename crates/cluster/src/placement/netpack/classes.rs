//! Classes of similar servers, which make the search fast.
//!
//! Servers with the same number of free GPUs, the same number of flows and equally fast links
//! differ only in their remaining bandwidth. A job can only need the best few of each class: as
//! many as its GPUs and the surplus fill, and one more for the parameter server. There are few
//! classes, because free GPUs and flows are small numbers. The index stays sorted from one job to
//! the next, and only servers that have changed are filed again.
//!
//! The plans are those of the plain search, including ties. The plain search visits servers by
//! class, then best first, and replaces a plan only by a better one. Among tied plans it therefore
//! keeps the one whose last server in this order comes first, then whose second-last server does,
//! and so on. Suppose such a plan contained a server but not an earlier one of the same class.
//! Exchanging the two would yield a plan that is at least as good and comes first, a contradiction.
//! So plans take the first servers of each class, and the others need no visit.

use std::collections::BTreeSet;
use std::ops::Bound;

use crate::{Cluster, ServerIndex, State};

use super::links::Links;
use super::offers::{Kind, Offer};
use crate::placement::regions::Region;

/// The servers of one class that matter to a job, best first.
#[derive(Clone, Debug)]
pub(super) struct Class {
    /// Common properties.
    pub(super) kind: Kind,
    /// The first servers of the class.
    pub(super) first: Vec<Offer>,
}

/// Maximum number of servers of a class in a plan of at most `most_gpus` GPUs.
pub(super) const fn most_workers(kind: Kind, most_gpus: u32) -> usize {
    match most_gpus.checked_div(kind.gpus) {
        Some(servers) => servers as usize,
        None => 0,
    }
}

/// The servers of a region, filed by class.
#[derive(Clone, Debug, Default)]
pub(super) struct Filed {
    offers: BTreeSet<Offer>,
    free: u32,
}

impl Filed {
    /// Number of servers.
    pub(super) fn len(&self) -> usize {
        self.offers.len()
    }

    /// Total number of free GPUs.
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

    /// The servers of each class that a plan of at most `most_gpus` GPUs can need.
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

    /// All servers of a class from the given one on, in order.
    pub(super) fn from(&self, offer: Offer) -> impl Iterator<Item = &Offer> {
        self.offers.range(offer..).take_while(move |other| other.kind == offer.kind)
    }
}

/// An offer after all servers of a class.
const fn last_of(kind: Kind) -> Offer {
    Offer { kind, available: std::cmp::Reverse(i64::MIN), server: ServerIndex(u32::MAX) }
}

/// The servers of a cluster, filed by class in each of their regions.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    regions: Vec<Filed>,
    /// By server.
    regions_of: Vec<Vec<u32>>,
    /// By server; `None` before it is filed, or if no distributed job may use it.
    offers: Vec<Option<(Seen, Offer)>>,
}

/// The inputs of an offer at the time when it was computed.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Seen {
    free: u32,
    flows: u32,
    available_gbps: f64,
}

impl Index {
    /// An empty index of regions, which may overlap.
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

    /// Files the servers that have changed since the last call.
    pub(super) fn refresh(&mut self, state: &State<'_>, links: &Links<'_>) {
        let servers = state.cluster().servers();
        for (server, filed) in state.cluster().server_indices().zip(&mut self.offers) {
            let seen = Seen {
                free: state.free(server),
                flows: links.flows(server),
                available_gbps: links.available_gbps(server, servers[server.at()].link_gbps),
            };
            if filed.is_some_and(|(before, _)| before == seen) {
                continue;
            }
            let offer = Offer::of(state, links, server);
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

    /// Number of regions.
    pub(super) const fn len(&self) -> usize {
        self.regions.len()
    }

    /// The servers of a region.
    pub(super) fn region(&self, region: usize) -> &Filed {
        &self.regions[region]
    }
}
