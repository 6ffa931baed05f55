//! What the control plane learns of time: entries that no packet matches any more.

use tributary_p4::ir::TableId;

use super::Pipeline;
use crate::error::TableError;
use crate::tables::{KeyMatch, Table, TableEntry};

impl Pipeline {
    /// Tells the time, in microseconds since the switch started: entries that are made from now on
    /// are as old as that. Packets tell it too.
    pub fn set_time(&mut self, now_us: u64) {
        self.engine.store.now_us = self.engine.store.now_us.max(now_us);
    }

    /// The latest time that the pipeline was told, in microseconds.
    #[must_use]
    pub fn time_us(&self) -> u64 {
        self.engine.store.now_us
    }

    /// Calls `report` for each entry that no packet has matched for its time-out. An entry that
    /// stays idle is reported again after another time-out.
    pub fn poll_idle(&mut self, now_us: u64, mut report: impl FnMut(TableId, &TableEntry)) {
        self.set_time(now_us);
        for (number, table) in (0..).zip(&mut self.engine.store.tables) {
            table.sweep(now_us, &mut |entry| report(TableId(number), entry));
        }
    }

    /// When a packet matched an entry of a table with time-outs last, or when the entry was made.
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
