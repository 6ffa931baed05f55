//! Several pipelines that run one program on several cores.

use std::ops::Range;

use super::{Passes, Pipeline};
use crate::division::{self, By, Share, Undivided};
use crate::error::LoadError;
use crate::externs::counter::CounterData;
use crate::store::Instance;
use crate::tables::Table;

/// What packets have changed, or a part of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Changed {
    /// Rows of registers.
    pub rows: Range<u64>,
    /// Counts, of counters and of entries.
    pub counts: bool,
}

impl Changed {
    /// All of it.
    pub const ALL: Self = Self { rows: 0..u64::MAX, counts: true };
}

impl Pipeline {
    /// The same program once more, with fresh state and the same execution engine, for another core.
    /// Packets of one are also packets of the other.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn replica(&self) -> Result<Self, LoadError> {
        let mut replica = Self::load(self.program.clone())?;
        replica.shape = self.shape.clone();
        // Found once for all.
        drop(self.key());
        replica.key = self.key.clone();
        Ok(replica)
    }

    /// Makes this the pipeline of one core of several, which run the same program with the same
    /// entries. From now on its ingress answers [`crate::Verdict::Elsewhere`] for the packets of
    /// others, and leaves them unchanged.
    ///
    /// Each register row belongs to one core: the index without its lowest [`crate::ROW_BITS`],
    /// modulo the number of cores. A packet belongs to the core of its row. Packets of a program
    /// without registers belong to any core.
    ///
    /// # Errors
    /// Why that is impossible. Then core 0 has all packets.
    ///
    /// # Panics
    /// If `core` is not below `of`.
    pub fn divide(&mut self, core: u16, of: u16) -> Result<(), Undivided> {
        assert!(core < of, "core {core} of {of}");
        if of == 1 {
            self.engine.share = Share::ALL;
            return Ok(());
        }
        let key = self.key();
        let by = match &key {
            Ok(Some(field)) => By::Field(*field),
            Ok(None) => By::Arrival,
            Err(_) => By::First,
        };
        self.engine.share = Share { core, of, by };
        key.map(drop)
    }

    /// The field that names a packet's row; `None` if no register is used.
    fn key(&self) -> Result<Option<u32>, Undivided> {
        self.key.get_or_init(|| self.find_key()).clone()
    }

    fn find_key(&self) -> Result<Option<u32>, Undivided> {
        let named = |wanted: &dyn Fn(&Instance) -> bool| {
            let found = self.instances.iter().position(wanted);
            found.map(|at| self.program.externs[at].name.clone())
        };
        let meter = |instance: &Instance| matches!(instance, Instance::Meter(_));
        if let Some(name) = named(&meter) {
            return Err(Undivided::Meter(name));
        }
        let alone = |instance: &Instance| {
            let filter = matches!(instance, Instance::Filter(_) | Instance::DirectFilter);
            filter || matches!(instance, Instance::DirectRegister(_))
        };
        if let Some(name) = named(&alone) {
            return Err(Undivided::State(name));
        }
        if let Some(digest) = self.shape.digests.first() {
            return Err(Undivided::Digest(digest.name.clone()));
        }
        let tables = self.engine.store.tables.iter().zip(&self.program.tables);
        if let Some((_, table)) = tables.into_iter().find(|(table, _)| table.extras().ages) {
            return Err(Undivided::Ages(table.name.clone()));
        }
        let (parser, first, later) = match &self.passes {
            Passes::V1model(passes) => {
                let e = &passes.entries;
                (e.parser, vec![e.verify, e.ingress], vec![e.egress, e.compute, e.deparser])
            }
            Passes::Tna(passes) => {
                let e = &passes.entries;
                let later = vec![e.egress_parser, e.egress, e.egress_deparser];
                (e.ingress_parser, vec![e.ingress, e.ingress_deparser], later)
            }
            Passes::Psa(passes) => {
                let e = &passes.entries;
                let later = vec![e.egress_parser, e.egress, e.egress_deparser];
                (e.ingress_parser, vec![e.ingress, e.ingress_deparser], later)
            }
        };
        if division::changes_state(&self.engine.code, parser) {
            return Err(Undivided::Parser);
        }
        let registers = &self.engine.store.registers;
        division::key(&self.engine.code, registers, &first, &later).map_err(|number| {
            let of = |instance: &Instance| {
                matches!(instance, Instance::Register { first, scalars }
                    if (*first..first + scalars).contains(&number))
            };
            Undivided::Register(named(&of).unwrap_or_default())
        })
    }

    /// Moves to this pipeline what the packets of another core have changed: its rows of registers
    /// are copied, its counts are taken from it. The other's entries must be the same.
    pub fn absorb(&mut self, other: &mut Self, what: &Changed) {
        let share = other.engine.share;
        let (store, from) = (&mut self.engine.store, &mut other.engine.store);
        let own = |row| share.owner(row) == share.core;
        store.registers.copy_rows(&from.registers, &what.rows, own);
        if !what.counts {
            return;
        }
        let counters = store.counters.iter_mut().zip(&mut from.counters);
        for (to, from) in counters.flat_map(|(to, from)| to.cells.iter_mut().zip(&mut from.cells)) {
            to.absorb(from);
        }
        store
            .tables
            .iter_mut()
            .zip(&mut from.tables)
            .for_each(|(to, from)| Table::absorb(to, from));
    }

    /// Makes entries use the meters of the same entries of another core's pipeline.
    pub fn share_meters(&mut self, with: &Self) {
        let tables = self.engine.store.tables.iter_mut().zip(&with.engine.store.tables);
        tables.for_each(|(to, from)| to.share_meters(from));
    }

    /// Sets all counts to zero.
    pub fn clear_counts(&mut self) {
        let store = &mut self.engine.store;
        store.counters.iter_mut().for_each(|counter| counter.cells.fill(CounterData::default()));
        store.tables.iter_mut().for_each(Table::clear_counts);
    }
}
