//! TNA's filters, of arrays and of table entries, and the registers of table entries.

use tributary_p4::ir::{ExternId, TableId};

use super::Pipeline;
use crate::error::StateError;
use crate::externs::filter::{Filter, FilterConfig};
use crate::store::Instance;
use crate::tables::Owner;
use crate::value::Value;

impl Pipeline {
    /// The configuration of an element of an array of filters; `None` if it passes every value.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn filter_config(
        &self,
        filter: ExternId,
        index: u64,
    ) -> Result<Option<FilterConfig>, StateError> {
        let filters = &self.engine.store.filters[self.filter(filter)?];
        let cell = usize::try_from(index).ok().and_then(|i| filters.get(i));
        cell.map(Filter::config).ok_or(StateError::Index { index, size: filters.len() as u64 })
    }

    /// Configures an element of an array of filters, which forgets its values.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn set_filter_config(
        &mut self,
        filter: ExternId,
        index: u64,
        config: Option<FilterConfig>,
    ) -> Result<(), StateError> {
        let number = self.filter(filter)?;
        check(config, self.drops(filter))?;
        let store = &mut self.engine.store;
        let filters = &mut store.filters[number];
        let size = filters.len() as u64;
        let cell = usize::try_from(index).ok().and_then(|i| filters.get_mut(i));
        cell.ok_or(StateError::Index { index, size })?.configure(config, store.now_us);
        Ok(())
    }

    /// Configures the filter of a table's entry, as [`Self::set_filter_config`] does.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn set_direct_filter_config(
        &mut self,
        table: TableId,
        of: Owner<'_>,
        config: Option<FilterConfig>,
    ) -> Result<(), StateError> {
        let attached = self.program.tables.get(table.index()).map(|table| table.attached.clone());
        let is_filter =
            |id: &ExternId| matches!(self.instances[id.index()], Instance::DirectFilter);
        let filter = attached.into_iter().flatten().find(is_filter);
        check(config, filter.is_some_and(|filter| self.drops(filter)))?;
        let now_us = self.engine.store.now_us;
        let table = self.table_mut(table)?;
        if !table.extras().filter {
            return Err(StateError::Unknown("direct filter"));
        }
        table.filter(of)?.configure(config, now_us);
        Ok(())
    }

    /// The scalars of the register of a table's entry.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn direct_register_read(
        &self,
        table: TableId,
        of: Owner<'_>,
    ) -> Result<Vec<Value>, StateError> {
        let ir = self.program.tables.get(table.index());
        let attached = ir.map_or(&[][..], |table| table.attached.as_slice());
        let is_register =
            |id: &&ExternId| matches!(self.instances[id.index()], Instance::DirectRegister(_));
        let register = attached.iter().find(is_register);
        let register = register.ok_or(StateError::Unknown("direct register"))?;
        let mut words = self.table(table)?.cell(of)?;
        let scalars = self.program.externs[register.index()].type_args.iter();
        let take = |scalar: &tributary_p4::ir::Scalar| {
            let (value, rest) = words.split_at(scalar.limbs().min(words.len()));
            words = rest;
            Value::from_limbs(value)
        };
        Ok(scalars.map(take).collect())
    }

    /// Whether a filter tells which packets to drop.
    fn drops(&self, filter: ExternId) -> bool {
        let declared = self.program.externs.get(filter.index());
        declared.is_some_and(|declared| declared.type_name.ends_with("Wred"))
    }

    fn filter(&self, filter: ExternId) -> Result<usize, StateError> {
        match self.instances.get(filter.index()) {
            Some(Instance::Filter(number)) => Ok(*number as usize),
            _ => Err(StateError::Unknown("filter")),
        }
    }
}

fn check(config: Option<FilterConfig>, drops: bool) -> Result<(), StateError> {
    match config {
        Some(config) if matches!(config, FilterConfig::Drop { .. }) != drops => {
            Err(StateError::Filter)
        }
        Some(FilterConfig::Drop { min, max, max_probability, .. })
            if min > max || !(0.0..=1.0).contains(&max_probability) =>
        {
            Err(StateError::Filter)
        }
        _ => Ok(()),
    }
}
