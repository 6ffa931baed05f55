//! The users of each resource.

use super::resources::{Resource, Resources};
use crate::job::JobId;

/// A job that uses a resource.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    job: JobId,
    /// Its place among the jobs that use the network.
    pub(super) at: u32,
    /// Number of its flows there.
    flows: u32,
    /// The capacity that it takes.
    load_gbps: f64,
}

/// The total use of a resource.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Use {
    pub(super) flows: u32,
    pub(super) load_gbps: f64,
}

/// The users of every resource in the order of their job numbers, so that sums over them do not
/// depend on the order of arrival.
#[derive(Clone, Debug)]
pub(super) struct Members(Vec<Vec<Member>>);

impl Members {
    pub(super) fn new(resources: &Resources) -> Self {
        Self(vec![Vec::new(); resources.count()])
    }

    pub(super) fn of(&self, resource: Resource) -> &[Member] {
        &self.0[resource.at()]
    }

    fn find(&self, resource: Resource, job: JobId) -> Result<usize, usize> {
        self.of(resource).binary_search_by_key(&job, |member| member.job)
    }

    pub(super) fn insert(&mut self, resource: Resource, job: JobId, at: u32) {
        let place = self.find(resource, job).expect_err("it comes once");
        let member = Member { job, at, flows: 0, load_gbps: 0.0 };
        self.0[resource.at()].insert(place, member);
    }

    pub(super) fn remove(&mut self, resource: Resource, job: JobId) {
        let place = self.find(resource, job).expect("it is there");
        self.0[resource.at()].remove(place);
    }

    /// Sets the use of a member.
    pub(super) fn set(&mut self, resource: Resource, job: JobId, used: Use) {
        let place = self.find(resource, job).expect("it is there");
        let member = &mut self.0[resource.at()][place];
        (member.flows, member.load_gbps) = (used.flows, used.load_gbps);
    }

    /// The total use of the members for whose place `counts` returns true.
    pub(super) fn sum(&self, resource: Resource, counts: impl Fn(u32) -> bool) -> Use {
        let mut sum = Use::default();
        for member in self.of(resource).iter().filter(|member| counts(member.at)) {
            sum.flows += member.flows;
            sum.load_gbps += member.load_gbps;
        }
        sum
    }
}
