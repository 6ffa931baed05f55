//! Step 3: selects the server of the parameter server, and with it one of the candidates for the
//! workers (NetPack §5.2, equation 1).

use tributary_cluster::{Cluster, Network};

use super::offers::{Kbps, Offer};
use super::penalty::{Penalty, Uplinks};
use super::readings::{Epsilon, Readings};
use super::workers::Candidate;

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

/// The inputs of equation 1 besides the plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Equation<'a> {
    /// The cluster.
    pub(super) cluster: &'a Cluster,
    /// The steady state before the job starts.
    pub(super) network: &'a Network,
    /// The hot-spot penalty.
    pub(super) penalty: Penalty,
    /// Where the parameter server adds a flow.
    pub(super) epsilon: Epsilon,
    /// Whether uplinks count.
    pub(super) oversubscribed: bool,
}

impl<'a> Equation<'a> {
    /// The equation for one job.
    pub(super) fn of(
        cluster: &'a Cluster,
        network: &'a Network,
        link: Kbps,
        oversubscribed: bool,
        readings: &Readings,
    ) -> Self {
        let penalty = Penalty { link, reading: readings.hot_spot };
        Self { cluster, network, penalty, epsilon: readings.epsilon, oversubscribed }
    }

    /// The uplinks that a candidate may cross, if uplinks count.
    pub(super) fn uplinks(&self, workers: &Candidate) -> Option<Uplinks> {
        let servers = workers.servers.iter().map(|offer| offer.server);
        self.oversubscribed
            .then(|| Uplinks::of(self.cluster, self.network, servers, self.penalty.reading))
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
        let uplink = uplinks.and_then(|uplinks| uplinks.share(self.cluster, self.network, rack));
        workers.value + ps.value(epsilon) + self.penalty.term(flows, uplink)
    }

    /// `ε`.
    pub(super) fn epsilon(&self, has_worker: bool) -> u32 {
        let adds = match self.epsilon {
            Epsilon::WithWorker => has_worker,
            Epsilon::Elsewhere => !has_worker,
        };
        u32::from(adds)
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
        let first_best =
            offers.iter().map(|ps| (worth(ps), *ps)).reduce(|a, b| if b.0 > a.0 { b } else { a });
        let Some((worth, ps)) = first_best else { continue };
        if best.as_ref().is_none_or(|best| best.worth < worth) {
            best = Some(Placed { worth, workers, ps });
        }
    }
    best
}
