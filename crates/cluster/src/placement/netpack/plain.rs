//! Algorithm 2, server by server.

use crate::{Cluster, Job, Pending, Plan, Policy, Round, ServerIndex, State, SteadyNetwork};

use super::links::Links;
use super::offers::{Kbps, Offer, fastest};
use super::penalty::is_oversubscribed;
use super::ps::{Equation, Placed};
use super::readings::{Fits, Oversubscribed, Readings, Servers};
use super::{Search, place_jobs, ps, review, subset, workers};
use crate::placement::regions::{self, Region};
use crate::placement::rules::Queue;

/// NetPack's policy in its plain form: the reference, in any of its [`Readings`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plain {
    /// Step 1.
    pub queue: Queue,
    /// The interpretation of the paper.
    pub readings: Readings,
}

impl Default for Plain {
    fn default() -> Self {
        Self { queue: Queue::Knapsack, readings: Readings::default() }
    }
}

impl Policy for Plain {
    fn name(&self) -> &'static str {
        if self.readings == Readings::default() { "netpack-plain" } else { "netpack-printed" }
    }

    fn place(&mut self, round: &mut Round<'_, '_>, waiting: &[Pending]) {
        let order = match self.queue {
            Queue::Knapsack => subset::subset_plain(waiting, round.free_total()),
            other => other.of(waiting, round.free_total()),
        };
        place_jobs(self, round, waiting, &order);
    }
}

impl Search for Plain {
    fn single(&self, round: &Round<'_, '_>, gpus: u32) -> Option<ServerIndex> {
        let wanted = match self.readings.fits {
            Fits::Exactly => gpus,
            Fits::WithRoom => gpus + 1,
        };
        let servers = round.cluster().server_indices();
        servers
            .filter(|&server| round.free(server) >= wanted)
            .min_by_key(|&server| (round.free(server), server))
    }

    fn spread(&mut self, round: &mut Round<'_, '_>, job: &Job) -> Option<Plan> {
        let (state, network) = round.with_network();
        let search = Spread::new(state, network, &self.readings);
        let placed = search.anywhere(job.gpus)?;
        Some(placed.plan(state.cluster(), job.gpus))
    }

    fn started(&mut self, _: &Round<'_, '_>, _: &[ServerIndex]) {}

    fn review(&self, round: &mut Round<'_, '_>) {
        if self.readings.servers == Servers::Reviewed {
            review::parameter_servers(round, self.readings.sharing);
        }
    }
}

/// The search for one job.
struct Spread<'a> {
    state: &'a State<'a>,
    cluster: &'a Cluster,
    links: Links<'a>,
    readings: &'a Readings,
    link: Kbps,
    oversubscribed: bool,
}

impl<'a> Spread<'a> {
    fn new(state: &'a State<'a>, network: &'a SteadyNetwork, readings: &'a Readings) -> Self {
        let cluster = state.cluster();
        let (link, oversubscribed) = (fastest(cluster), is_oversubscribed(cluster));
        let links = Links::of(state, network, readings.duty);
        Self { state, cluster, links, readings, link, oversubscribed }
    }

    /// First within one rack, if that is the reading of oversubscription; then within a region.
    fn anywhere(&self, gpus: u32) -> Option<Placed> {
        let racks_first = self.readings.oversubscribed == Oversubscribed::RacksFirst;
        let racks = (self.oversubscribed && racks_first).then(|| regions::racks(self.cluster));
        let in_a_rack = racks.and_then(|racks| self.best_of(&racks, gpus));
        in_a_rack.or_else(|| self.best_of(&regions::of(self.cluster), gpus))
    }

    /// The best plan within one of the regions; among equals that in the first region.
    fn best_of(&self, regions: &[Region], gpus: u32) -> Option<Placed> {
        let plans = regions.iter().filter_map(|region| self.within(region, gpus));
        plans.reduce(|a, b| if b.worth > a.worth { b } else { a })
    }

    fn within(&self, region: &Region, gpus: u32) -> Option<Placed> {
        if region.free(self.state) < gpus {
            return None;
        }
        let mut offers: Vec<_> = region
            .servers(self.cluster)
            .map(|server| Offer::of(self.state, &self.links, server))
            .collect();
        offers.sort_unstable();
        let with_gpus: Vec<_> =
            offers.iter().copied().filter(|offer| offer.kind.gpus > 0).collect();
        let candidates = workers::candidates(&with_gpus, gpus, self.readings.surplus);
        let uplinks_count = self.oversubscribed && region.racks.len() > 1;
        let equation =
            Equation::of(self.cluster, &self.links, self.link, uplinks_count, self.readings);
        ps::best(&equation, candidates, &offers)
    }
}
