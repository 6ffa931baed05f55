//! NetPack (ASPLOS '24, §5.2, algorithm 2): which jobs to place, where their workers and parameter
//! servers go, and which switches aggregate for them.
//!
//! The four steps are a file each: `subset`, `workers`, `ps`, `enable`; `offers` and
//! `penalty` have what they weigh. [`Plain`] is algorithm 2 as the paper has it, servers one by one;
//! [`NetPack`] makes the same plans in a fraction of the time (`classes` says how). Where the paper
//! can be read in more than one way, [`Readings`] names the ways and `docs/placement/netpack.md` the
//! reasons for the one taken.

mod classes;
mod enable;
pub mod exact;
mod fast;
mod knapsack;
mod offers;
mod penalty;
mod plain;
mod ps;
mod readings;
pub mod subset;
mod workers;

pub use fast::NetPack;
pub use plain::Plain;
pub use readings::{Epsilon, Fits, HotSpot, Oversubscribed, Readings, Surplus};

use tributary_cluster::{Job, Pending, Plan, Round, ServerIndex};

/// How the steps of algorithm 2 find what they look for.
trait Search {
    /// Step 1: which of the waiting jobs to place, in which order.
    fn subset(&self, waiting: &[Pending], free_gpus: u32) -> Vec<usize>;

    /// Line 4: a server for a whole job.
    ///
    /// The paper does not say which. It is the one with the fewest GPUs left over, then the first: a
    /// job on one server asks nothing of the network, so that only GPUs matter.
    fn single(&self, round: &Round<'_, '_>, gpus: u32) -> Option<ServerIndex>;

    /// Steps 2 and 3: workers and a parameter server for a job; none if it cannot be spread.
    fn spread(&mut self, round: &mut Round<'_, '_>, job: &Job) -> Option<Plan>;

    /// A job has started.
    fn started(&mut self, round: &Round<'_, '_>, plan: &[ServerIndex]);
}

/// Algorithm 2, lines 1 to 11.
fn place_jobs(search: &mut impl Search, round: &mut Round<'_, '_>, waiting: &[Pending]) {
    for at in search.subset(waiting, round.free_total()) {
        let job = &waiting[at].job;
        let plan = match search.single(round, job.gpus) {
            Some(server) => Some(Plan::on_one(server, job.gpus)),
            None => search.spread(round, job),
        };
        // None is left only where the cluster is cut apart: the job waits.
        let Some(plan) = plan else { continue };
        let mut servers = plan.ranks.clone();
        servers.dedup();
        round.start(job, plan).expect("a plan takes only what is free");
        search.started(round, &servers);
    }
    enable::selectively(round);
}

/// A plan of the workers and parameter server that were found.
///
/// It may have one worker only: of all that fits on a server, line 4 as printed leaves what just fits
/// to the search. That worker needs no parameter server (table 3, constraint 6).
fn plan(round: &Round<'_, '_>, placed: &ps::Placed, gpus: u32) -> Plan {
    let shares: Vec<_> = placed
        .workers
        .shares(gpus)
        .into_iter()
        .map(|(offer, share)| (offer.server, share))
        .collect();
    match shares[..] {
        [(server, _)] => Plan::on_one(server, gpus),
        _ => Plan::spread(round.cluster(), &shares, placed.ps.server),
    }
}
