//! Meter arrays, and validation of meter configurations.

use tributary_dataplane as dataplane;
use tributary_p4runtime::p4::config::v1::meter_spec::Type;
use tributary_p4runtime::p4::v1::{Entity, MeterConfig, MeterEntry, entity};

use super::arrays::{Cells, index_of, only_modify, range};
use super::objects::Array;
use super::{Change, Refusal};
use crate::forwarding::Forwarding;

/// The cells of meters.
pub(super) struct MeterCells;

impl Cells for MeterCells {
    fn arrays(from: &Forwarding) -> impl Iterator<Item = &Array> {
        from.objects().meters().map(|meter| &meter.array)
    }

    fn array(from: &Forwarding, id: u32) -> Result<&Array, Refusal> {
        from.objects().meter(id).map(|meter| &meter.array)
    }

    fn cell(from: &Forwarding, array: &Array, index: u64) -> Result<Entity, Refusal> {
        let config = from.pipeline().meter_config(array.at, index)?;
        let entry = MeterEntry {
            meter_id: array.id,
            index: index_of(index),
            config: config.map(meter_to),
            counter_data: None,
        };
        Ok(Entity { entity: Some(entity::Entity::MeterEntry(entry)) })
    }
}

pub(super) fn write(
    to: &mut Forwarding,
    change: Change,
    entry: &MeterEntry,
) -> Result<(), Refusal> {
    only_modify(change, "meters")?;
    let (objects, pipeline) = to.parts_mut();
    let meter = objects.meter(entry.meter_id)?;
    let range = range(&meter.array, entry.index.as_ref())?;
    if entry.counter_data.is_some() {
        return Err(no_counters());
    }
    let config = entry.config.as_ref().map(|config| meter_from(config, meter.kind)).transpose();
    let config = config.map_err(|r| r.of(&format!("meter `{}`", meter.array.name)))?;
    for index in range {
        pipeline.set_meter_config(meter.array.at, index, config)?;
    }
    Ok(())
}

/// Refuses per-color counters, which some switches' meters have.
pub(super) fn no_counters() -> Refusal {
    Refusal::unimplemented("counters of a meter's colors: not supported by this switch")
}

/// Converts a configuration from the wire form, for a type of meter.
pub(super) fn meter_from(
    config: &MeterConfig,
    kind: Type,
) -> Result<dataplane::MeterConfig, Refusal> {
    let MeterConfig { cir, cburst, pir, pburst, eburst } = *config;
    let positive = |n: i64| {
        u64::try_from(n).map_err(|_| Refusal::invalid("rates and bursts cannot be negative"))
    };
    if kind != Type::TwoRateThreeColor && (pir != cir || pburst != cburst) {
        return Err(Refusal::invalid(
            "the meter has a single rate: peak and committed rate and burst must be the same",
        ));
    }
    if cir > pir {
        return Err(Refusal::invalid("the committed rate is above the peak rate"));
    }
    match (kind, eburst) {
        (_, 0) => {}
        (Type::SingleRateThreeColor, _) => {
            return Err(Refusal::unimplemented("excess bursts: not supported by this switch"));
        }
        _ => return Err(Refusal::invalid("the meter has no excess burst")),
    }
    Ok(dataplane::MeterConfig {
        cir: positive(cir)?,
        cburst: positive(cburst)?,
        pir: positive(pir)?,
        pburst: positive(pburst)?,
    })
}

/// Converts a configuration to the wire form.
pub(super) fn meter_to(config: dataplane::MeterConfig) -> MeterConfig {
    let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    MeterConfig {
        cir: signed(config.cir),
        cburst: signed(config.cburst),
        pir: signed(config.pir),
        pburst: signed(config.pburst),
        eburst: 0,
    }
}
