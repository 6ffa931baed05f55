//! Why a search has no answer.

use crate::{Error, Violation};

/// Why there is no answer.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Unsolved {
    /// A job cannot be carried out at all.
    #[error(transparent)]
    Job(#[from] Error),
    /// The schedule to start from is invalid.
    #[error("the schedule to start from is invalid: {0}")]
    Start(Violation),
}
