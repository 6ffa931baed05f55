//! Watching the interpreter.

use super::Io;
use crate::code::{Code, Op};
use crate::externs::profile::Profile;
use crate::store::Store;
use crate::tables::{Match, Outcome, Resolved, Table};

/// What the interpreter tells about its steps. Without a watcher the calls compile to nothing.
pub(crate) trait Watch {
    /// Whether somebody watches.
    const ON: bool;

    /// Before an operation.
    fn before(&mut self, store: &mut Store, code: &Code, op: &Op, state: &[u64], io: &Io<'_>);

    /// After an operation, unless it has ended the block.
    fn after(&mut self, store: &Store, code: &Code, op: &Op, state: &[u64], io: &Io<'_>);

    /// A note in the code.
    fn note(&mut self, number: u32, state: &[u64]);

    /// The outcome to assume for a table instead of a lookup, and whether an entry matched.
    fn assume(&mut self, table: u32, of: &Table) -> Option<(Outcome, bool)>;

    /// The hash for the choice of a member, given the packet's.
    fn pick(&mut self, table: u32, profile: &Profile, outcome: &Outcome, hash: u64) -> u64;

    /// A table was applied.
    fn applied(
        &mut self,
        table: u32,
        of: &Table,
        matched: Match,
        outcome: &Outcome,
        found: Option<&Resolved>,
    );
}

/// No watcher.
pub(crate) struct Unwatched;

impl Watch for Unwatched {
    const ON: bool = false;

    #[inline]
    fn before(&mut self, _: &mut Store, _: &Code, _: &Op, _: &[u64], _: &Io<'_>) {}

    #[inline]
    fn after(&mut self, _: &Store, _: &Code, _: &Op, _: &[u64], _: &Io<'_>) {}

    #[inline]
    fn note(&mut self, _: u32, _: &[u64]) {}

    #[inline]
    fn assume(&mut self, _: u32, _: &Table) -> Option<(Outcome, bool)> {
        None
    }

    #[inline]
    fn pick(&mut self, _: u32, _: &Profile, _: &Outcome, hash: u64) -> u64 {
        hash
    }

    #[inline]
    fn applied(&mut self, _: u32, _: &Table, _: Match, _: &Outcome, _: Option<&Resolved>) {}
}
