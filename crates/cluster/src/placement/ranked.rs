//! The common part of NetPack's baselines: servers in an order of preference, filled one after the
//! other (NetPack §6.1).
//!
//! The paper describes each baseline in one sentence, which states the preferred servers.
//! Everything else is decided in the same way for all baselines, and in their favour where NetPack
//! has the same:
//!
//! - Jobs are placed in the order of submission. A job that does not fit waits, and later jobs are
//!   tried ([`Queue::Fifo`]). With [`Queue::Knapsack`] they select jobs as NetPack does, so that
//!   only placement differs.
//! - A job that fits on one server is placed on the most preferred such server.
//! - Otherwise the most preferred servers are filled, each as far as possible.
//! - The parameter server goes to the most preferred server without a worker of the job. Servers
//!   with a free GPU come first, because these policies do not rank servers without one. It shares
//!   a server with a worker only if all servers have one. [`Ranked::sharing`] is a different rule.
//! - All switches on the path aggregate, as in ATP by default.
//! - Ties are broken by server number.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::{Pending, Plan, Policy, Round, ServerIndex, State, SteadyNetwork};

use crate::placement::netpack::subset::subset;
use crate::placement::regions;
use crate::placement::sharing::Sharing;

/// Which waiting jobs a policy tries, and in which order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Queue {
    /// All jobs, in the order of submission.
    #[default]
    Fifo,
    /// The jobs that NetPack would place (NetPack §5.2, step 1).
    Knapsack,
}

impl Queue {
    fn of(self, waiting: &[Pending], free_gpus: u32) -> Vec<usize> {
        match self {
            Self::Fifo => (0..waiting.len()).collect(),
            Self::Knapsack => subset(waiting, free_gpus),
        }
    }
}

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

    /// The key of a server for parameter servers; `None` if it must not have one. By default
    /// servers without a free GPU must not.
    fn ps_key(view: &View<'_>, server: ServerIndex) -> Option<Self::Key> {
        (view.state.free(server) > 0).then(|| Self::key(view, server))
    }

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
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ranked<P> {
    /// Selects the jobs to place.
    pub queue: Queue,
    /// Whether the parameter server may be beside a worker; `None` for the policy's own rule.
    pub sharing: Option<Sharing>,
    preference: P,
}

impl<P: Default> Ranked<P> {
    /// A policy with the given queue and rule for the parameter server.
    #[must_use]
    pub fn new(queue: Queue, sharing: Option<Sharing>) -> Self {
        Self { queue, sharing, preference: P::default() }
    }
}

impl<P: Preference> Policy for Ranked<P> {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn place(&mut self, round: &mut Round<'_, '_>, waiting: &[Pending]) {
        let regions: Vec<Vec<ServerIndex>> = regions::of(round.cluster())
            .iter()
            .map(|region| region.servers(round.cluster()).collect())
            .collect();
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
                .or_else(|| regions.iter().find_map(|all| spread::<P>(&view, all, self.sharing)));
            if let Some(plan) = plan {
                round.start(job, plan).expect("a plan takes only what is free");
            }
        }
    }
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
    let has_worker =
        |server: &ServerIndex| workers.binary_search_by_key(server, |worker| worker.0).is_ok();
    let allowed =
        servers.iter().copied().filter(|server| sharing == Sharing::Allowed || !has_worker(server));
    let suited = allowed
        .clone()
        .filter_map(|server| P::ps_key(view, server).map(|key| (key, server)))
        .min()
        .map(|(_, server)| server);
    suited.or_else(|| allowed.min_by_key(|&server| P::key(view, server))).unwrap_or(workers[0].0)
}
