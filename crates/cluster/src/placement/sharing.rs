//! Where a policy may put a parameter server.

use crate::ServerIndex;

/// Whether a parameter server may be on a server that has a worker of its job.
///
/// Such a server's link carries the job's gradients and its results in both directions, twice what
/// the links of the other workers carry. NetPack's equation 1 ranks servers with and without a
/// worker together. The paper does not say what its baselines do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sharing {
    /// On the best server by the policy's criteria, with or without a worker.
    #[default]
    Allowed,
    /// On a server without a worker, unless every server has one.
    Forbidden,
    /// On a server with a worker.
    Required,
}

impl Sharing {
    /// Whether a server with a worker of the job, or without one, may have its parameter server.
    pub(crate) const fn allows(self, has_worker: bool) -> bool {
        match self {
            Self::Allowed => true,
            Self::Forbidden => !has_worker,
            Self::Required => has_worker,
        }
    }

    /// The server with the least key among those that this allows; the first worker's if it allows
    /// none. `workers` are in the order of servers.
    pub(crate) fn least<K: Ord>(
        self,
        servers: impl Iterator<Item = ServerIndex>,
        workers: &[(ServerIndex, u32)],
        key: impl Fn(ServerIndex) -> K,
    ) -> ServerIndex {
        let has_worker =
            |server: &ServerIndex| workers.binary_search_by_key(server, |worker| worker.0).is_ok();
        let allowed = servers.filter(|server| self.allows(has_worker(server)));
        allowed.min_by_key(|&server| (key(server), server)).unwrap_or(workers[0].0)
    }
}
