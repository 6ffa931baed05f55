//! NetPack (ASPLOS '24, §5.2, algorithm 2): which jobs to place, on which servers their workers and
//! parameter servers run, and which switches aggregate for them.
//!
//! The four steps are in the files `subset`, `workers`, `ps` and `enable`; `offers` and `penalty`
//! contain their criteria. [`Plain`] is algorithm 2 as in the paper, server by server. [`NetPack`]
//! computes the same plans in a fraction of the time (see `classes`). Where the paper is ambiguous,
//! [`Readings`] lists the interpretations, and `docs/evaluation/netpack.md` the reasons for ours.

mod classes;
mod enable;
#[cfg(feature = "exact")]
pub mod exact;
mod fast;
mod knapsack;
mod links;
mod offers;
mod penalty;
mod plain;
mod ps;
mod readings;
mod review;
pub mod subset;
mod workers;

pub use fast::NetPack;
pub(crate) use penalty::is_oversubscribed;
pub use plain::Plain;
pub use readings::{Duty, Epsilon, Fits, HotSpot, Oversubscribed, Readings, Servers, Surplus};

use crate::{Job, Pending, Plan, Round, ServerIndex, Weighed};

/// The searches within the steps of algorithm 2.
trait Search {
    /// Line 4: a server for a whole job.
    ///
    /// The paper does not specify which. We take the one with the fewest remaining GPUs, then the
    /// first: a job on one server does not use the network, so only GPUs matter.
    fn single(&self, round: &Round<'_, '_>, gpus: u32) -> Option<ServerIndex>;

    /// Steps 2 and 3: workers and a parameter server for a job; `None` if it cannot be distributed.
    fn spread(&mut self, round: &mut Round<'_, '_>, job: &Job) -> Option<Plan>;

    /// The plans that [`spread`](Self::spread) weighs, best first.
    fn weigh(&mut self, _: &mut Round<'_, '_>, _: &Job) -> Vec<Weighed> {
        Vec::new()
    }

    /// A job has started.
    fn started(&mut self, round: &Round<'_, '_>, plan: &[ServerIndex]);

    /// All jobs have started.
    fn review(&self, _: &mut Round<'_, '_>) {}
}

/// Algorithm 2, lines 3 to 11, with the jobs of step 1 in this order.
fn place_jobs(
    search: &mut impl Search,
    round: &mut Round<'_, '_>,
    waiting: &[Pending],
    order: &[usize],
) {
    for &at in order {
        let job = &waiting[at].job;
        // Step 1 leaves room for all; other queues may not.
        if job.gpus > round.free_total() {
            continue;
        }
        let plan = match search.single(round, job.gpus) {
            Some(server) => Some(Plan::on_one(server, job.gpus)),
            None => {
                if round.keeps_weighed() {
                    let weighed = search.weigh(round, job);
                    round.weighed(job.id, weighed);
                }
                search.spread(round, job)
            }
        };
        // If the cluster is partitioned, there may be no plan: the job waits.
        let Some(plan) = plan else { continue };
        let mut servers = plan.ranks.clone();
        servers.dedup();
        round.start(job, plan).expect("a plan takes only what is free");
        search.started(round, &servers);
    }
    search.review(round);
    enable::selectively(round);
}
