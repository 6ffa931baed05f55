//! Step 3: selects the server of the parameter server, and with it one of the candidates for the
//! workers (NetPack §5.2, equation 1).

use crate::{Cluster, Plan};

use super::links::{FLOW, Links};
use super::offers::{Kbps, Offer};
use super::penalty::{Penalty, Uplinks};
use super::readings::{Epsilon, Readings};
use super::workers::Candidate;
use crate::placement::sharing::Sharing;
use crate::weighed::Weighed;

/// Workers and a parameter server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Placed {
    /// The value of equation 1.
    pub(super) worth: Kbps,
    /// The workers.
    pub(super) workers: Candidate,
    /// The parameter server.
    pub(super) ps: Offer,
}

impl Placed {
    /// The plan of a job.
    ///
    /// It may have a single worker: line 4 as printed leaves a job that exactly fits on a server to
    /// the search. Such a job needs no parameter server (table 3, constraint 6).
    pub(super) fn plan(&self, cluster: &Cluster, gpus: u32) -> Plan {
        let shares = self.workers.shares(gpus).into_iter();
        let shares: Vec<_> = shares.map(|(offer, share)| (offer.server, share)).collect();
        match shares[..] {
            [(server, _)] => Plan::on_one(server, gpus),
            _ => Plan::spread(cluster, &shares, self.ps.server),
        }
    }
}

/// The inputs of equation 1 besides the plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Equation<'a> {
    /// The cluster.
    pub(super) cluster: &'a Cluster,
    /// The links before the job starts.
    pub(super) links: &'a Links<'a>,
    /// The hot-spot penalty.
    pub(super) penalty: Penalty,
    /// Where the parameter server adds a flow.
    pub(super) epsilon: Epsilon,
    /// Whether the parameter server may be beside a worker.
    sharing: Sharing,
    /// Whether uplinks count.
    pub(super) oversubscribed: bool,
}

impl<'a> Equation<'a> {
    /// The equation for one job.
    pub(super) fn of(
        cluster: &'a Cluster,
        links: &'a Links<'a>,
        link: Kbps,
        oversubscribed: bool,
        readings: &Readings,
    ) -> Self {
        let penalty = Penalty { link, reading: readings.hot_spot };
        let Readings { epsilon, sharing, .. } = *readings;
        Self { cluster, links, penalty, epsilon, sharing, oversubscribed }
    }

    /// The uplinks that a candidate may cross, if uplinks count.
    pub(super) fn uplinks(&self, workers: &Candidate) -> Option<Uplinks> {
        let servers = workers.servers.iter().map(|offer| offer.server);
        self.oversubscribed
            .then(|| Uplinks::of(self.cluster, self.links, servers, self.penalty.reading))
    }

    /// The worth of a candidate with its parameter server at `ps`, which may have a worker.
    pub(super) fn worth(
        &self,
        workers: &Candidate,
        uplinks: Option<&Uplinks>,
        ps: &Offer,
        has_worker: bool,
    ) -> Kbps {
        let epsilon = self.epsilon(has_worker);
        let flows = workers.flows.max(ps.kind.flows + epsilon);
        let rack = self.cluster.server(ps.server).rack;
        let uplink = uplinks.and_then(|uplinks| uplinks.share(self.cluster, self.links, rack));
        workers.value + ps.value(epsilon) + self.penalty.term(flows, uplink)
    }

    /// The terms of a plan's worth, for people.
    pub(super) fn terms(&self, placed: &Placed, gpus: u32) -> Weighed {
        let Placed { worth, ref workers, ps } = *placed;
        let ps_value = ps.value(self.epsilon(workers.has(&ps)));
        let gbps = |value: Kbps| value as f64 / 1e6;
        Weighed {
            plan: placed.plan(self.cluster, gpus),
            worth_gbps: gbps(worth),
            workers_gbps: gbps(workers.value),
            ps_gbps: gbps(ps_value),
            hot_spot_gbps: gbps(worth - workers.value - ps_value),
        }
    }

    /// `ε`, in units of [`FLOW`].
    pub(super) fn epsilon(&self, has_worker: bool) -> u32 {
        let adds = match self.epsilon {
            Epsilon::WithWorker => has_worker,
            Epsilon::Elsewhere => !has_worker,
        };
        u32::from(adds) * FLOW
    }

    /// Whether a parameter server may be on a server with or without a worker, if it can be on any
    /// of `servers` servers. A server counts as one with a worker, too, if the surplus is taken from it
    /// after this step.
    pub(super) fn allows(&self, has_worker: bool, workers: &Candidate, servers: usize) -> bool {
        // Where every server has a worker, none can be apart.
        let none_apart = self.sharing == Sharing::Forbidden && servers == workers.servers.len();
        none_apart || self.sharing.allows(has_worker)
    }
}

/// The best plan over all candidates and servers; the first among equals.
pub(super) fn best(
    equation: &Equation<'_>,
    candidates: Vec<Candidate>,
    offers: &[Offer],
) -> Option<Placed> {
    let mut best: Option<Placed> = None;
    for workers in candidates {
        let uplinks = equation.uplinks(&workers);
        let worth = |ps: &Offer| equation.worth(&workers, uplinks.as_ref(), ps, workers.has(ps));
        let first_best = offers
            .iter()
            .filter(|ps| equation.allows(workers.has(ps), &workers, offers.len()))
            .map(|ps| (worth(ps), *ps))
            .reduce(|a, b| if b.0 > a.0 { b } else { a });
        let Some((worth, ps)) = first_best else { continue };
        if best.as_ref().is_none_or(|best| best.worth < worth) {
            best = Some(Placed { worth, workers, ps });
        }
    }
    best
}
