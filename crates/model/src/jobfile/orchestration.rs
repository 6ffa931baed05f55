//! Reads `[orchestrator]`.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::{Orchestration, Policy};
use tributary_base::document::{Error, Table};

use crate::jobfile::draft::RATES;

const POLICIES: [(&str, Policy); 4] = [
    ("INC-TW", Policy::IncTw),
    ("noINC-TW", Policy::NoIncTw),
    ("INC-FCFS", Policy::IncFcfs),
    ("noINC-FCFS", Policy::NoIncFcfs),
];

const SLOTS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(3600);
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(86_400);

/// Reads the table. `outage` is how long a reconfiguration takes.
pub(crate) fn read(document: &Table<'_>, outage: Duration) -> Result<Orchestration, Error> {
    let keys = [
        "slot",
        "port_rate",
        "switch_rate",
        "step",
        "inc",
        "partial_inc",
        "scheduler",
        "iteration_timeout",
    ];
    let table = document.table("orchestrator", &keys)?;
    let default = Orchestration::default();
    let settings = Orchestration {
        slot: table.or("slot", default.slot, |slot| slot.duration(SLOTS))?,
        port_rate: table.or("port_rate", default.port_rate, |rate| rate.rate(RATES))?,
        switch_rate: table.or("switch_rate", default.switch_rate, |rate| rate.rate(RATES))?,
        step: table.or("step", default.step, |rate| rate.rate(RATES))?,
        inc: table.or("inc", default.inc, |inc| inc.integer32(0..=255))?,
        partial_inc: table.or("partial_inc", default.partial_inc, |item| item.boolean())?,
        policy: table.or("scheduler", default.policy, |policy| policy.choice(&POLICIES))?,
        iteration_timeout: table
            .or("iteration_timeout", default.iteration_timeout, |time| time.duration(TIMEOUTS))?,
    };
    if outage >= settings.slot {
        return Err(table.place_of("slot").fault(
            format!("a slot of {:?} ends before circuits have changed ({outage:?})", settings.slot),
            "make slots longer, or `reconfiguration` in [topology] shorter",
        ));
    }
    Ok(settings)
}
