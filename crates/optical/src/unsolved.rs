//! Why a search has no answer.

use crate::limits::UNKNOWNS_MAX;
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
    /// The exact model has more unknowns than [`UNKNOWNS_MAX`](crate::UNKNOWNS_MAX).
    #[error(
        "the exact model has {unknowns} unknowns over {slots} slots, above {UNKNOWNS_MAX}; give it fewer jobs or units, \
         less data, or longer slots"
    )]
    Large {
        /// Its unknowns.
        unknowns: usize,
        /// Slots of the schedule that it starts from.
        slots: usize,
    },
}
