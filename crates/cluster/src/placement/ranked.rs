//! The common part of NetPack's baselines: servers in an order of preference, filled one after the
//! other (NetPack §6.1).
//!
//! The paper describes each baseline in one sentence, which states the preferred servers.
//! Everything else is decided in the same way for all baselines, and in their favour where NetPack
//! has the same:
//!
//! - Jobs are placed in the order of submission. A job that does not fit waits, and later jobs are
//!   tried. [`Ranked::queue`] is a different rule.
//! - A job that fits on one server is placed on the most preferred such server.
//! - Otherwise the most preferred servers are filled, each as far as possible. With
//!   [`Racks::First`], those of one rack come first, that of the most preferred server.
//! - The parameter server goes to a server without a worker of the job, that with the fewest
//!   parameter servers, then the most preferred one: as it takes no GPU, a server would otherwise
//!   stay the most preferred one for job after job. It shares a server with a worker only if all
//!   servers have one. [`Ranked::sharing`] is a different rule.
//! - All switches on the path aggregate, as in ATP by default.
//! - Ties are broken by server number.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::{Pending, Plan, Policy, Round, ServerIndex, State, SteadyNetwork};

use crate::placement::netpack::is_oversubscribed;
use crate::placement::regions::{self, Region};
use crate::placement::rules::{Queue, Racks};
use crate::placement::sharing::Sharing;

/// The view of a cluster for preferences.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    /// Servers and jobs.
    pub(crate) state: &'a State<'a>,
    /// The remaining capacity of the network.
    pub(crate) network: &'a SteadyNetwork,
    /// Number of GPUs of the job to place.
    pub(crate) gpus: u32,
}

/// An order of servers.
pub(crate) trait Preference {
    /// The name of the policy in the literature.
    const NAME: &'static str;

    /// The sort key of servers: smallest first.
    type Key: Ord;

    /// The key of a server.
    fn key(view: &View<'_>, server: ServerIndex) -> Self::Key;

    /// The key of a server for parameter servers, after their number there if that comes first.
    fn ps_key(view: &View<'_>, server: ServerIndex) -> Self::Key {
        Self::key(view, server)
    }

    /// Whether the number of parameter servers on a server comes before its key. It does if the key
    /// does not change with one more parameter server.
    const COUNT_FIRST: bool = true;

    /// The job's GPUs on each server, given the servers in order.
    fn shares(
        view: &View<'_>,
        ordered: impl Iterator<Item = ServerIndex>,
    ) -> Vec<(ServerIndex, u32)> {
        fill(view, ordered)
    }

    /// The server for the parameter server, given the workers, unless a rule of sharing is given.
    fn ps(view: &View<'_>, servers: &[ServerIndex], workers: &[(ServerIndex, u32)]) -> ServerIndex {
        most_preferred::<Self>(view, servers, workers, Sharing::Forbidden)
    }
}

/// A policy that prefers servers in some order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ranked<P> {
    /// Selects the jobs to place.
    pub queue: Queue,
    /// Whether the parameter server may be beside a worker; `None` for the policy's own rule.
    pub sharing: Option<Sharing>,
    /// Whether plans within one rack come first.
    pub racks: Racks,
    preference: P,
}

impl<P: Default> Default for Ranked<P> {
    fn default() -> Self {
        Self { queue: Queue::Fifo, sharing: None, racks: Racks::Any, preference: P::default() }
    }
}

impl<P: Preference> Policy for Ranked<P> {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn place(&mut self, round: &mut Round<'_, '_>, waiting: &[Pending]) {
        let cluster = round.cluster();
        let servers = |region: &Region| -> Vec<ServerIndex> { region.servers(cluster).collect() };
        let regions: Vec<_> = regions::of(cluster).iter().map(servers).collect();
        let racks_first = self.racks == Racks::First && is_oversubscribed(cluster);
        let racks = if racks_first { regions::racks(cluster) } else { Vec::new() };
        let racks: Vec<_> = racks.iter().map(servers).collect();
        for at in self.queue.of(waiting, round.free_total()) {
            if round.free_total() == 0 {
                return;
            }
            let job = &waiting[at].job;
            if job.gpus > round.free_total() {
                continue;
            }
            let (state, network) = round.with_network();
            let view = View { state, network, gpus: job.gpus };
            let plan = on_one::<P>(&view)
                .or_else(|| {
                    spread::<P>(&view, most_preferred_of::<P>(&view, &racks)?, self.sharing)
                })
                .or_else(|| regions.iter().find_map(|all| spread::<P>(&view, all, self.sharing)));
            if let Some(plan) = plan {
                round.start(job, plan).expect("a plan takes only what is free");
            }
        }
    }
}

/// The rack with the most preferred server, of those with room for the whole job.
fn most_preferred_of<'r, P: Preference>(
    view: &View<'_>,
    racks: &'r [Vec<ServerIndex>],
) -> Option<&'r Vec<ServerIndex>> {
    let free = |rack: &[ServerIndex]| -> u32 { rack.iter().map(|&at| view.state.free(at)).sum() };
    let best = |rack: &[ServerIndex]| {
        let with_gpus = rack.iter().filter(|&&server| view.state.free(server) > 0);
        with_gpus.map(|&server| (P::key(view, server), server)).min()
    };
    racks.iter().filter(|rack| free(rack) >= view.gpus).min_by_key(|rack| best(rack))
}

/// The most preferred server that takes the whole job.
fn on_one<P: Preference>(view: &View<'_>) -> Option<Plan> {
    let servers = view.state.cluster().server_indices();
    servers
        .filter(|&server| view.state.free(server) >= view.gpus)
        .min_by_key(|&server| (P::key(view, server), server))
        .map(|server| Plan::on_one(server, view.gpus))
}

/// Workers on the most preferred servers, and a parameter server. `None` if the servers have too
/// few free GPUs.
fn spread<P: Preference>(
    view: &View<'_>,
    servers: &[ServerIndex],
    sharing: Option<Sharing>,
) -> Option<Plan> {
    let with_gpus = servers.iter().filter(|&&server| view.state.free(server) > 0);
    if with_gpus.clone().map(|&server| view.state.free(server)).sum::<u32>() < view.gpus {
        return None;
    }
    let mut ordered: BinaryHeap<_> =
        with_gpus.map(|&server| Reverse((P::key(view, server), server))).collect();
    let ordered = std::iter::from_fn(|| ordered.pop().map(|Reverse((_, server))| server));
    let mut workers = P::shares(view, ordered);
    workers.sort_unstable();
    let ps = match sharing {
        None => P::ps(view, servers, &workers),
        Some(sharing) => most_preferred::<P>(view, servers, &workers, sharing),
    };
    Some(Plan::spread(view.state.cluster(), &workers, ps))
}

/// Fills the servers in order until the whole job is placed.
pub(crate) fn fill(
    view: &View<'_>,
    ordered: impl Iterator<Item = ServerIndex>,
) -> Vec<(ServerIndex, u32)> {
    let mut left = view.gpus;
    let mut workers = Vec::new();
    for server in ordered {
        let share = view.state.free(server).min(left);
        workers.push((server, share));
        left -= share;
        if left == 0 {
            break;
        }
    }
    workers
}

/// The most preferred server that may have the parameter server; the first worker's if none may.
fn most_preferred<P: Preference + ?Sized>(
    view: &View<'_>,
    servers: &[ServerIndex],
    workers: &[(ServerIndex, u32)],
    sharing: Sharing,
) -> ServerIndex {
    sharing.least(servers.iter().copied(), workers, |server| {
        let count = view.state.parameter_servers(server);
        let first = if P::COUNT_FIRST { count } else { 0 };
        (first, P::ps_key(view, server), count)
    })
}
