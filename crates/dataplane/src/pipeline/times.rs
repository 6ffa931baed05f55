//! Time in the control plane: entries that no packet matches any more.

use tributary_p4::ir::TableId;

use super::Pipeline;
use crate::error::TableError;
use crate::tables::{KeyMatch, Table, TableEntry};

impl Pipeline {
    /// Sets the time in microseconds since the switch started, which is the age of entries created
    /// from now on. Packets set it too.
    pub fn set_time(&mut self, now_us: u64) {
        self.engine.store.now_us = self.engine.store.now_us.max(now_us);
    }

    /// The latest known time in microseconds.
    #[must_use]
    pub fn time_us(&self) -> u64 {
        self.engine.store.now_us
    }

    /// Calls `report` for each entry that no packet matched within its timeout. An entry that stays
    /// idle is reported again after another timeout.
    pub fn poll_idle(&mut self, now_us: u64, mut report: impl FnMut(TableId, &TableEntry)) {
        self.set_time(now_us);
        for (number, table) in (0..).zip(&mut self.engine.store.tables) {
            table.sweep(now_us, &mut |entry| report(TableId(number), entry));
        }
    }

    /// The last time that a packet matched an entry of a table with timeouts, or that the entry was
    /// created.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn last_hit_us(
        &self,
        table: TableId,
        matches: &[KeyMatch],
        priority: i32,
    ) -> Result<u64, TableError> {
        self.table(table).and_then(|table: &Table| table.last_hit_us(matches, priority))
    }
}
