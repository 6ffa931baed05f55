//! Which cores the processes of a peer run on.

use std::fmt;

use anyhow::{Context, Result};
use tributary_run::cores::Cores;

/// Which cores the ranks run on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Binding {
    /// The kernel moves them as it likes.
    #[default]
    Free,
    /// Each on one core, in turns if there are more ranks than cores.
    Spread,
}

impl Binding {
    pub(super) const ALL: [Self; 2] = [Self::Free, Self::Spread];

    /// The core of each rank, if each has one.
    pub(super) fn cores(self, ranks: u32) -> Result<Option<Vec<usize>>> {
        if self == Self::Free {
            return Ok(None);
        }
        let cores = Cores::available()?;
        let of = |rank| cores.in_turn(rank).context("this process may use no core");
        (0..ranks as usize).map(of).collect::<Result<_>>().map(Some)
    }
}

/// What follows the name of a peer.
impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Free => "",
            Self::Spread => ", bound to cores",
        })
    }
}
