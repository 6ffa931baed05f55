use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tributary_base::one_line;

/// Why a call failed.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Error {
    /// A rank is not there any more.
    #[error("rank {rank} {why}")]
    PeerLost {
        /// The rank.
        rank: u16,
        /// How it was lost.
        why: String,
    },
    /// The ranks did not call the same.
    #[error("call {call} differs between ranks: {what}")]
    Mismatch {
        /// The number of the call, from 0.
        call: u64,
        /// Who called what.
        what: String,
    },
    /// Some values cannot be summed.
    #[error(
        "values are not finite {what} (the settings have `nonfinite = \"raise\"`; without it, they are added as \
         floats)"
    )]
    NotFinite {
        /// Which.
        what: String,
    },
    /// Too many values would become zero, and the settings do not allow it.
    #[error("{what}")]
    Underflow {
        /// Which, and how to keep them.
        what: String,
    },
    /// A result did not come in time.
    #[error("no result within {waited:.1?}: {what}")]
    TimedOut {
        /// How long it was waited for.
        waited: Duration,
        /// The ranks that have not called, as far as it is known.
        what: String,
    },
    /// The network or a process of the group failed.
    #[error("{0}")]
    Failed(String),
    /// The group was left or stopped here.
    #[error("this rank has left the group")]
    Closed,
}

impl Error {
    /// Whether the group goes on after it.
    pub(crate) fn is_of_one_call(&self) -> bool {
        matches!(self, Self::NotFinite { .. } | Self::Underflow { .. })
    }
}

/// Makes a panic, which the panic hook has reported, an error: the thread goes on, and its callers get the error.
pub(crate) fn caught<T>(run: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let panicked = |_| Err(Error::Failed("a thread of this rank has panicked".into()));
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(panicked)
}

impl From<anyhow::Error> for Error {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(one_line(error.as_ref()))
    }
}
