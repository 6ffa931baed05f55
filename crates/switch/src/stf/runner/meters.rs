//! Meter rates.

use tributary_dataplane::{MeterConfig, Owner};

use super::Run;
use crate::stf::error::Failure;
use crate::stf::script::{At, Name, Rate};

impl Run<'_> {
    /// Sets the rates of one cell, of all cells, or of an entry's meter. Without rates it only
    /// checks that the meter exists.
    pub(super) fn meter(
        &mut self,
        meter: &Name,
        at: Option<&At>,
        rates: Option<[Rate; 2]>,
    ) -> Result<(), Failure> {
        let failed = |error: tributary_dataplane::StateError| meter.place.failure(error);
        let types = ["meter", "Meter", "direct_meter", "DirectMeter"];
        let id = self.extern_id("meter", &types, meter)?;
        let config = rates.map(|[committed, peak]| MeterConfig {
            cir: per_second(committed),
            cburst: committed.burst.into(),
            pir: per_second(peak),
            pburst: peak.burst.into(),
        });
        let Some(table) = self.table_with(id) else {
            let cells = match at {
                Some(At::Index(index)) => *index..index.saturating_add(1),
                Some(At::Entry(label)) => {
                    let reason = format!("the meter is an array, `{label}` is not an index of it");
                    return Err(meter.place.failure(reason));
                }
                None => 0..self.pipeline().array_size(id).unwrap_or(0),
            };
            for index in cells {
                match config {
                    Some(_) => self.pipeline_mut().set_meter_config(id, index, config),
                    None => self.pipeline().meter_config(id, index).map(drop),
                }
                .map_err(failed)?;
            }
            return Ok(());
        };
        let entries = match at {
            Some(at) => vec![self.entry_at(meter, id, at)?.1],
            None => self.entries(table),
        };
        for entry in entries {
            let owner = Owner::Entry(&entry.matches, entry.priority);
            match config {
                Some(_) => self.pipeline_mut().set_direct_meter_config(table, owner, config),
                None => self.pipeline().direct_meter_config(table, owner).map(drop),
            }
            .map_err(failed)?;
        }
        Ok(())
    }
}

/// Scripts specify rates per microsecond, as BMv2 does.
fn per_second(rate: Rate) -> u64 {
    (rate.per_microsecond * 1e6).round() as u64
}
