//! Classes of similar servers, which make the search fast.
//!
//! Servers with the same number of free GPUs, the same number of flows and equally fast links
//! differ only in their remaining bandwidth. A job can only need the best few of each class: as
//! many as its GPUs and the surplus fill, and one more for the parameter server. There are few
//! classes, because free GPUs and flows are small numbers. The index stays sorted from one job to
//! the next: only servers that have changed are filed again, and a region without any remembers its
//! best plans.
//!
//! The plans are those of the plain search, including ties. The plain search visits servers by
//! class, then best first, and replaces a plan only by a better one. Among tied plans it therefore
//! keeps the one whose last server in this order comes first, then whose second-last server does,
//! and so on. Suppose such a plan contained a server but not an earlier one of the same class.
//! Exchanging the two would yield a plan that is at least as good and comes first, a contradiction.
//! So plans take the first servers of each class, and the others need no visit.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::{Cluster, ServerIndex, State};

use super::links::Links;
use super::offers::{Kbps, Kind, Offer};
use super::ps::Placed;
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
    /// The servers of each class, best first: those with the most remaining bandwidth.
    classes: BTreeMap<Kind, BTreeSet<(Reverse<Kbps>, ServerIndex)>>,
    len: usize,
    free: u32,
    /// The best plans that [`Filed::best`] has found, by number of GPUs.
    best: Vec<(u32, Option<Placed>)>,
}

impl Filed {
    /// Number of servers.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Total number of free GPUs.
    pub(super) const fn free(&self) -> u32 {
        self.free
    }

    fn insert(&mut self, offer: Offer) {
        self.best.clear();
        self.len += 1;
        self.free += offer.kind.gpus;
        self.classes.entry(offer.kind).or_default().insert((offer.available, offer.server));
    }

    fn remove(&mut self, offer: &Offer) {
        self.best.clear();
        self.len -= 1;
        self.free -= offer.kind.gpus;
        let class = self.classes.get_mut(&offer.kind).expect("the class of a filed server");
        class.remove(&(offer.available, offer.server));
        if class.is_empty() {
            self.classes.remove(&offer.kind);
        }
    }

    /// The servers of each class that a plan of at most `most_gpus` GPUs can need.
    pub(super) fn classes(&self, most_gpus: u32) -> Vec<Class> {
        let first = |kind| self.of(kind).take(most_workers(kind, most_gpus) + 1).collect();
        self.classes.keys().map(|&kind| Class { kind, first: first(kind) }).collect()
    }

    /// All servers of a class, in order.
    pub(super) fn of(&self, kind: Kind) -> impl Iterator<Item = Offer> {
        let servers = self.classes.get(&kind).into_iter().flatten();
        servers.map(move |&(available, server)| Offer { kind, available, server })
    }

    /// The best plan for a number of GPUs. `search` finds it, and may look at these servers only:
    /// it is called if one of them has changed since.
    pub(super) fn best(
        &mut self,
        gpus: u32,
        search: impl FnOnce(&Self) -> Option<Placed>,
    ) -> Option<&Placed> {
        let known = self.best.iter().position(|(of, _)| *of == gpus);
        let at = known.unwrap_or_else(|| {
            let found = search(self);
            self.best.push((gpus, found));
            self.best.len() - 1
        });
        self.best[at].1.as_ref()
    }
}

/// The servers of a cluster, filed by class in each of their regions.
#[derive(Clone, Debug)]
pub(super) struct Index {
    pub(super) regions: Vec<Filed>,
    /// By server; `None` if no distributed job may use it.
    region_of: Vec<Option<u32>>,
    /// By server; `None` before it is filed.
    offers: Vec<Option<Offer>>,
    /// The state of the network when servers were last filed.
    settlements: Option<u64>,
    /// Servers whose free GPUs have changed since.
    taken: Vec<ServerIndex>,
}

impl Index {
    /// An empty index of regions, which do not overlap.
    pub(super) fn new(cluster: &Cluster, regions: &[Region]) -> Self {
        let mut region_of = vec![None; cluster.servers().len()];
        for (region, index) in regions.iter().zip(0..) {
            for server in region.servers(cluster) {
                region_of[server.at()] = Some(index);
            }
        }
        Self {
            regions: vec![Filed::default(); regions.len()],
            offers: vec![None; region_of.len()],
            region_of,
            settlements: None,
            taken: Vec::new(),
        }
    }

    /// Records that a server's free GPUs have changed.
    pub(super) fn take(&mut self, server: ServerIndex) {
        self.taken.push(server);
    }

    /// Files the servers that have changed since the last call.
    pub(super) fn refresh(&mut self, state: &State<'_>, links: &Links<'_>) {
        let before = self.settlements.replace(links.settlements());
        let taken = std::mem::take(&mut self.taken);
        match before.and_then(|before| links.changed_since(before)) {
            Some(changed) => {
                changed.iter().chain(&taken).for_each(|server| self.file(state, links, *server));
            }
            None => {
                state.cluster().server_indices().for_each(|server| self.file(state, links, server));
            }
        }
    }

    fn file(&mut self, state: &State<'_>, links: &Links<'_>, server: ServerIndex) {
        let Some(region) = self.region_of[server.at()] else { return };
        let offer = Offer::of(state, links, server);
        let old = self.offers[server.at()].replace(offer);
        if old == Some(offer) {
            return;
        }
        let region = &mut self.regions[region as usize];
        if let Some(old) = old {
            region.remove(&old);
        }
        region.insert(offer);
    }
}
