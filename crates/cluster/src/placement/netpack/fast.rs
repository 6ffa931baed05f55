//! Algorithm 2 over classes of servers.

use std::collections::BTreeSet;

use crate::{Cluster, Job, Pending, Plan, Policy, Round, ServerIndex, State};

use super::classes::{Class, Filed, Index};
use super::links::{FLOW, Links};
use super::offers::{Kbps, Offer, fastest};
use super::penalty::{Uplinks, is_oversubscribed};
use super::ps::{Equation, Placed};
use super::readings::{Duty, Oversubscribed, Readings};
use super::workers::Candidate;
use super::{Search, knapsack, place_jobs};
use crate::placement::regions::{self, Region};
use crate::placement::rules::Queue;
use crate::placement::sharing::Sharing;
use crate::weighed::{Weighed, best};

/// NetPack's policy: computes the plans of [`Plain`](super::Plain), faster, with its default
/// readings except those that are fields here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NetPack {
    /// Step 1.
    pub queue: Queue,
    /// Whether step 3 may put the parameter server beside a worker.
    pub sharing: Sharing,
    /// Whether plans within a rack come first where uplinks are slow.
    pub oversubscribed: Oversubscribed,
    /// How running jobs count.
    pub duty: Duty,
}

impl Default for NetPack {
    fn default() -> Self {
        let Readings { sharing, oversubscribed, duty, .. } = Readings::default();
        Self { queue: Queue::Knapsack, sharing, oversubscribed, duty }
    }
}

impl NetPack {
    /// `netpack+`: NetPack with a model of jobs that take turns on links, and with parameter
    /// servers apart from workers. It is ours, not the paper's.
    #[must_use]
    pub fn plus() -> Self {
        Self { sharing: Sharing::Forbidden, duty: Duty::Cycles, ..Self::default() }
    }
}

impl Policy for NetPack {
    fn name(&self) -> &'static str {
        match self.duty {
            Duty::Always => "netpack",
            Duty::Cycles => "netpack+",
        }
    }

    fn place(&mut self, round: &mut Round<'_, '_>, waiting: &[Pending]) {
        let Self { queue, sharing, oversubscribed, duty } = *self;
        let readings = Readings { sharing, oversubscribed, duty, ..Readings::default() };
        let mut search = Fast::new(round, readings);
        let order = queue.of(waiting, round.free_total());
        place_jobs(&mut search, round, waiting, &order);
    }
}

/// The search of one round.
struct Fast {
    readings: Readings,
    link: Kbps,
    oversubscribed: bool,
    /// Servers by free GPUs.
    by_free: Vec<BTreeSet<ServerIndex>>,
    /// By server: its key in `by_free`.
    free: Vec<u32>,
    /// Single racks, if those come first. `None` before the first distributed job.
    racks: Option<Index>,
    /// All regions. `None` before the first distributed job that looks there.
    regions: Option<Index>,
}

impl Fast {
    fn new(round: &Round<'_, '_>, readings: Readings) -> Self {
        let cluster = round.cluster();
        let free: Vec<_> = cluster.server_indices().map(|server| round.free(server)).collect();
        let most_free = free.iter().copied().max().unwrap_or(0);
        let mut by_free = vec![BTreeSet::new(); most_free as usize + 1];
        for (server, &free) in cluster.server_indices().zip(&free) {
            by_free[free as usize].insert(server);
        }
        Self {
            readings,
            link: fastest(cluster),
            oversubscribed: is_oversubscribed(cluster),
            by_free,
            free,
            racks: None,
            regions: None,
        }
    }

    /// Whether plans within a rack are better than all others.
    fn racks_first(&self) -> bool {
        self.oversubscribed && self.readings.oversubscribed == Oversubscribed::RacksFirst
    }

    /// The best plan within a rack.
    fn in_a_rack(&mut self, state: &State<'_>, links: &Links<'_>, gpus: u32) -> Option<Placed> {
        let racks = refreshed(&mut self.racks, regions::racks, state, links);
        let equation = Equation::of(state.cluster(), links, self.link, false, &self.readings);
        let most_free = self.by_free.len() as u32 - 1;
        let search = |rack: &Filed| within(&equation, rack, gpus, most_free);
        let plans = racks.regions.iter_mut().filter_map(|rack| rack.best(gpus, search));
        plans.reduce(better).cloned()
    }

    /// The best plan within a region.
    fn in_a_region(&mut self, state: &State<'_>, links: &Links<'_>, gpus: u32) -> Option<Placed> {
        let regions = refreshed(&mut self.regions, regions::of, state, links);
        let (cluster, oversubscribed) = (state.cluster(), self.oversubscribed);
        let equation = Equation::of(cluster, links, self.link, oversubscribed, &self.readings);
        let most_free = self.by_free.len() as u32 - 1;
        let search = |region| within(&equation, region, gpus, most_free);
        regions.regions.iter().filter_map(search).reduce(better)
    }
}

/// An index in which all servers are filed that have changed; a new one if there is none.
fn refreshed<'i>(
    index: &'i mut Option<Index>,
    regions: impl FnOnce(&Cluster) -> Vec<Region>,
    state: &State<'_>,
    links: &Links<'_>,
) -> &'i mut Index {
    let cluster = state.cluster();
    let index = index.get_or_insert_with(|| Index::new(cluster, &regions(cluster)));
    index.refresh(state, links);
    index
}

/// The plan of more worth; the first among equals.
fn better<P: std::borrow::Borrow<Placed>>(a: P, b: P) -> P {
    if b.borrow().worth > a.borrow().worth { b } else { a }
}

impl Search for Fast {
    fn single(&self, _: &Round<'_, '_>, gpus: u32) -> Option<ServerIndex> {
        self.by_free.iter().skip(gpus as usize).find_map(BTreeSet::first).copied()
    }

    fn spread(&mut self, round: &mut Round<'_, '_>, job: &Job) -> Option<Plan> {
        let (state, network) = round.with_network();
        let links = Links::of(state, network, self.readings.duty);
        let in_a_rack =
            if self.racks_first() { self.in_a_rack(state, &links, job.gpus) } else { None };
        let placed = in_a_rack.or_else(|| self.in_a_region(state, &links, job.gpus))?;
        Some(placed.plan(state.cluster(), job.gpus))
    }

    fn weigh(&mut self, round: &mut Round<'_, '_>, job: &Job) -> Vec<Weighed> {
        let (state, network) = round.with_network();
        let links = Links::of(state, network, self.readings.duty);
        let (cluster, readings, link) = (state.cluster(), &self.readings, self.link);
        let most_free = self.by_free.len() as u32 - 1;
        let all = |index: &Index, oversubscribed| {
            let equation = Equation::of(cluster, &links, link, oversubscribed, readings);
            let within = |region| all_within(&equation, region, job.gpus, most_free);
            index.regions.iter().flat_map(within).collect::<Vec<_>>()
        };
        let in_racks = match self.racks_first() {
            true => all(refreshed(&mut self.racks, regions::racks, state, &links), false),
            false => Vec::new(),
        };
        if !in_racks.is_empty() {
            return best(in_racks);
        }
        let regions = refreshed(&mut self.regions, regions::of, state, &links);
        best(all(regions, self.oversubscribed))
    }

    fn started(&mut self, round: &Round<'_, '_>, servers: &[ServerIndex]) {
        for &server in servers {
            let now = round.free(server);
            let before = std::mem::replace(&mut self.free[server.at()], now);
            self.by_free[before as usize].remove(&server);
            self.by_free[now as usize].insert(server);
            for index in self.racks.iter_mut().chain(&mut self.regions) {
                index.take(server);
            }
        }
    }
}

/// The best plan among the servers of a region.
///
/// No server has more than `most_free` free GPUs.
fn within(equation: &Equation<'_>, filed: &Filed, gpus: u32, most_free: u32) -> Option<Placed> {
    if filed.free() < gpus {
        return None;
    }
    let classes = filed.classes(gpus + most_free);
    let mut best: Option<Placed> = None;
    for workers in knapsack::candidates(&classes, gpus) {
        let at_least = best.as_ref().map_or(Kbps::MIN, |best| best.worth);
        best = with_ps(equation, filed, &classes, workers, at_least).or(best);
    }
    best
}

/// For each candidate of [`within`] the best plan.
fn all_within(equation: &Equation<'_>, filed: &Filed, gpus: u32, most_free: u32) -> Vec<Weighed> {
    if filed.free() < gpus {
        return Vec::new();
    }
    let classes = filed.classes(gpus + most_free);
    let candidates = knapsack::candidates(&classes, gpus).into_iter();
    let placed =
        candidates.filter_map(|workers| with_ps(equation, filed, &classes, workers, Kbps::MIN));
    placed.map(|placed| equation.terms(&placed, gpus)).collect()
}

/// A candidate with its best parameter server, if that makes the plan worth more than `at_least`.
fn with_ps(
    equation: &Equation<'_>,
    filed: &Filed,
    classes: &[Class],
    workers: Candidate,
    at_least: Kbps,
) -> Option<Placed> {
    let uplinks = equation.uplinks(&workers);
    let [beside, apart] =
        [true, false].map(|has_worker| equation.allows(has_worker, &workers, filed.len()));
    let search = PsSearch { equation, filed, workers: &workers, uplinks, beside, apart };
    let (worth, ps) = search.better_than(at_least, classes)?;
    Some(Placed { worth, workers, ps })
}

/// The search for a candidate's parameter server.
struct PsSearch<'a> {
    equation: &'a Equation<'a>,
    filed: &'a Filed,
    workers: &'a Candidate,
    uplinks: Option<Uplinks>,
    /// Whether it may be on a worker's server, and on another one.
    beside: bool,
    apart: bool,
}

impl PsSearch<'_> {
    /// The first best server, if it makes the plan worth more than `best`.
    fn better_than(&self, mut best: Kbps, classes: &[Class]) -> Option<(Kbps, Offer)> {
        let mut found = None;
        let mut servers = self.workers.servers.as_slice();
        for class in classes {
            let of_class = servers.partition_point(|offer| offer.kind <= class.kind);
            servers = &servers[of_class..];
            if self.uplinks.is_some() {
                self.walk(class, of_class, &mut best, &mut found);
                continue;
            }
            let with_worker = (of_class > 0 && self.beside).then(|| class.first[0]);
            let without = class.first.get(of_class).filter(|_| self.apart).copied();
            for (ps, has_worker) in
                with_worker.map(|ps| (ps, true)).into_iter().chain(without.map(|ps| (ps, false)))
            {
                let worth = self.equation.worth(self.workers, None, &ps, has_worker);
                if worth > best {
                    (best, found) = (worth, Some((worth, ps)));
                }
            }
        }
        found
    }

    /// Visits the servers of a class one by one, because the worth of each also depends on its
    /// rack. Stops when the remaining servers cannot be worth more in any rack.
    fn walk(
        &self,
        class: &Class,
        workers: usize,
        best: &mut Kbps,
        found: &mut Option<(Kbps, Offer)>,
    ) {
        let flows = self.workers.flows.max(class.kind.flows);
        let hot_spot = self.equation.penalty.term(flows, None);
        for (at, ps) in self.filed.of(class.kind).enumerate() {
            if self.workers.value + ps.value(FLOW) + hot_spot <= *best {
                break;
            }
            if if at < workers { !self.beside } else { !self.apart } {
                continue;
            }
            let uplinks = self.uplinks.as_ref();
            let worth = self.equation.worth(self.workers, uplinks, &ps, at < workers);
            if worth > *best {
                (*best, *found) = (worth, Some((worth, ps)));
            }
        }
    }
}
