//! Meters, of arrays and of table entries.

use tributary_p4::ir::{ExternId, TableId};

use super::Pipeline;
use crate::error::StateError;
use crate::externs::meter::{Meter, MeterConfig, Meters};
use crate::store::Instance;
use crate::tables::Owner;

impl Pipeline {
    /// The configuration of an element of a meter array; `None` if every packet is green.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn meter_config(
        &self,
        meter: ExternId,
        index: u64,
    ) -> Result<Option<MeterConfig>, StateError> {
        let meters = &self.engine.store.meters[self.meter(meter)?];
        let cell = usize::try_from(index).ok().and_then(|i| meters.cells.get(i));
        cell.map(Meter::config).ok_or_else(|| out_of_range(meters, index))
    }

    /// Configures an element of a meter array and fills its buckets. Without a configuration every
    /// packet is green.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn set_meter_config(
        &mut self,
        meter: ExternId,
        index: u64,
        config: Option<MeterConfig>,
    ) -> Result<(), StateError> {
        let number = self.meter(meter)?;
        check(config)?;
        let meters = &mut self.engine.store.meters[number];
        match usize::try_from(index).ok().and_then(|i| meters.cells.get_mut(i)) {
            Some(cell) => {
                cell.configure(config);
                Ok(())
            }
            None => Err(out_of_range(meters, index)),
        }
    }

    /// The configuration of the direct meter of a table's entry.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn direct_meter_config(
        &self,
        table: TableId,
        of: Owner<'_>,
    ) -> Result<Option<MeterConfig>, StateError> {
        let table = self.table(table)?;
        if table.extras().meter.is_none() {
            return Err(StateError::Unknown("direct meter"));
        }
        Ok(table.meter_config(of)?)
    }

    /// Configures the direct meter of a table's entry, as [`Self::set_meter_config`] does.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn set_direct_meter_config(
        &mut self,
        table: TableId,
        of: Owner<'_>,
        config: Option<MeterConfig>,
    ) -> Result<(), StateError> {
        let table = self.table_mut(table)?;
        if table.extras().meter.is_none() {
            return Err(StateError::Unknown("direct meter"));
        }
        check(config)?;
        Ok(table.set_meter_config(of, config)?)
    }

    fn meter(&self, meter: ExternId) -> Result<usize, StateError> {
        match self.instances.get(meter.index()) {
            Some(Instance::Meter(number)) => Ok(*number as usize),
            _ => Err(StateError::Unknown("meter")),
        }
    }
}

fn out_of_range(meters: &Meters, index: u64) -> StateError {
    StateError::Index { index, size: meters.cells.len() as u64 }
}

fn check(config: Option<MeterConfig>) -> Result<(), StateError> {
    match config {
        Some(config) if config.cir > config.pir => Err(StateError::Rates),
        _ => Ok(()),
    }
}
