//! Where a policy may put a parameter server.

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
}

impl Sharing {
    /// The suffix of a policy's name that selects this, as in `tetris:shared`.
    pub(crate) fn of_suffix(suffix: &str) -> Option<Self> {
        match suffix {
            "shared" => Some(Self::Allowed),
            "apart" => Some(Self::Forbidden),
            _ => None,
        }
    }
}
