//! What endpoints need to know of a job, so that they can take part in it.

use std::ops::Range;

use tributary_model::plan::Placement;
use tributary_model::{Deployment, JobSpec, Limits, Scenario};
use tributary_protocol::Assignment;
use tributary_wire::JobId;
use tributary_wire::channel::Token;

use super::Known;

/// What endpoints need to know of a job.
#[derive(Clone, PartialEq, Debug)]
pub struct Described {
    /// Each of its lanes, at least one.
    pub(super) lanes: Vec<Part>,
    /// What a worker must show, if it is not empty.
    key: Vec<u8>,
    /// Whether it is one of the controller's job file.
    pub(super) of_file: bool,
}

/// A lane of a job.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Part {
    pub(super) spec: JobSpec,
    pub(super) assignment: Assignment,
    /// For its endpoints and its reminder agent (ESA).
    pub(super) token: Option<Token>,
}

impl Described {
    /// A job with one lane, which a client has admitted.
    #[must_use]
    pub fn new(spec: JobSpec, token: Option<Token>, key: Vec<u8>) -> Self {
        let lanes = vec![Part { spec, assignment: Assignment::NONE, token }];
        Self { lanes, key, of_file: false }
    }

    /// The job, or its first lane.
    #[must_use]
    pub fn spec(&self) -> &JobSpec {
        &self.lanes[0].spec
    }

    /// The token of the job, or of its first lane.
    #[must_use]
    pub fn token(&self) -> Option<Token> {
        self.lanes[0].token
    }

    /// What a worker must show; empty for nothing.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The IDs of its lanes.
    pub(super) fn ids(&self) -> Vec<JobId> {
        self.lanes.iter().map(|lane| lane.spec.id).collect()
    }

    /// Its endpoints are on these hosts, and switches serve its lanes like this.
    pub(super) fn place(&mut self, whole: &Placement, lanes: &[Placement]) {
        for (lane, placement) in self.lanes.iter_mut().zip(lanes) {
            lane.assignment = placement.assignment;
            lane.spec.workers.clone_from(&whole.workers);
            (lane.spec.ps, lane.spec.agent) = (whole.ps, whole.agent);
        }
    }

    /// Its workers keep to what switches let them send.
    pub(super) fn limit(&mut self, limits: Limits) {
        for Part { spec, .. } in &mut self.lanes {
            spec.rate = spec.rate.into_iter().chain(limits.rate).min();
        }
    }

    /// Whether a worker has shown the key.
    pub(super) fn opens_with(&self, key: &[u8]) -> bool {
        // In the same time, wherever they differ.
        let differences = self.key.iter().zip(key).map(|(own, other)| own ^ other);
        self.key.len() == key.len() && differences.fold(0, |all, one| all | one) == 0
    }
}

impl Known {
    /// A known job, by the places of its lanes.
    pub(super) fn described(&self, lanes: Range<usize>) -> Described {
        let lane = |at: usize| {
            let spec = self.deployment.job(at).clone();
            let token = self.tokens.get(&spec.name).copied();
            Part { spec, assignment: self.deployment.assignment(at), token }
        };
        Described { lanes: lanes.map(lane).collect(), key: self.key.clone(), of_file: true }
    }

    /// These jobs in the network, for an endpoint that takes part in them.
    pub(super) fn deployment_of(
        &self,
        lanes: impl Iterator<Item = (JobSpec, Assignment)>,
    ) -> Deployment {
        let (jobs, assignments) = lanes.unzip();
        let scenario = self.deployment.scenario();
        Deployment::assigned(Scenario { jobs, ..scenario.clone() }, assignments)
    }
}
