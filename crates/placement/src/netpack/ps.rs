//! Step 3: where the parameter server goes, and which of the workers' candidates that decides for
//! (NetPack §5.2, equation 1).

use tributary_cluster::{Cluster, Network};

use super::offers::{Kbps, Offer};
use super::penalty::{Penalty, Uplinks};
use super::readings::{Epsilon, Readings};
use super::workers::Candidate;

/// Workers and a parameter server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Placed {
    /// What equation 1 makes of it.
    pub(super) worth: Kbps,
    /// Where the workers are.
    pub(super) workers: Candidate,
    /// Where the parameter server is.
    pub(super) ps: Offer,
}

/// What equation 1 depends on besides the plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Equation<'a> {
    /// What there is.
    pub(super) cluster: &'a Cluster,
    /// The steady state before the job comes.
    pub(super) network: &'a Network,
    /// Hot spots.
    pub(super) penalty: Penalty,
    /// Where the parameter server adds a flow.
    pub(super) epsilon: Epsilon,
    /// Whether uplinks count.
    pub(super) oversubscribed: bool,
}

impl<'a> Equation<'a> {
    /// The equation as a job meets it.
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

    /// The uplinks that a candidate may cross, where they count.
    pub(super) fn uplinks(&self, workers: &Candidate) -> Option<Uplinks> {
        let servers = workers.servers.iter().map(|offer| offer.server);
        self.oversubscribed
            .then(|| Uplinks::of(self.cluster, self.network, servers, self.penalty.reading))
    }

    /// What a candidate is worth with its parameter server at `ps`, which has a worker or not.
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

/// The best plan of all candidates and servers; of equals the first.
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
