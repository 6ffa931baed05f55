//! `[orchestrator]`: how jobs around a cross-connect are scheduled.

use std::ops::RangeInclusive;
use std::time::Duration;

use tributary_document::{Error, Table};

use crate::network::RATES;

/// The settings of the network controller (P4INC-AOI §III to §V).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Orchestration {
    /// Length of a slot: *Δt*. Longer than a reconfiguration.
    pub slot: Duration,
    /// What an optical port carries, in bits of values per second: *B*(port).
    pub port_rate: u64,
    /// What a switch carries, up and down together, in bits of values per second: *B*(PDP).
    pub switch_rate: u64,
    /// The step in which rates grow, in bits of values per second and worker: *δB*.
    pub step: u64,
    /// Jobs that a switch aggregates at once: *N*(INC).
    pub inc: u32,
    /// Who decides.
    pub policy: Policy,
    /// A job is released when one of its iterations takes longer.
    pub iteration_timeout: Duration,
}

/// The paper's schedulers (§VII.A).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// First come, first served, without aggregation in switches.
    NoIncFcfs,
    /// First come, first served.
    IncFcfs,
    /// Time windows, without aggregation in switches.
    NoIncTw,
    /// Time windows.
    IncTw,
}

const POLICIES: [(&str, Policy); 4] = [
    ("INC-TW", Policy::IncTw),
    ("noINC-TW", Policy::NoIncTw),
    ("INC-FCFS", Policy::IncFcfs),
    ("noINC-FCFS", Policy::NoIncFcfs),
];

const SLOTS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(3600);
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(86_400);

impl Default for Orchestration {
    /// The set-up of P4INC-AOI §VII.C; *B*(PDP) is that of 64 servers with 40 Gb/s up and down.
    fn default() -> Self {
        Self {
            slot: Duration::from_secs(1),
            port_rate: 40_000_000_000,
            switch_rate: 5_120_000_000_000,
            step: 10_000_000_000,
            inc: 4,
            policy: Policy::IncTw,
            iteration_timeout: Duration::from_secs(60),
        }
    }
}

/// Reads the table. `outage` is how long a reconfiguration takes.
pub(crate) fn read(document: &Table<'_>, outage: Duration) -> Result<Orchestration, Error> {
    let keys =
        ["slot", "port_rate", "switch_rate", "step", "inc", "scheduler", "iteration_timeout"];
    let table = document.table("orchestrator", &keys)?;
    let default = Orchestration::default();
    let settings = Orchestration {
        slot: table.or("slot", default.slot, |slot| slot.duration(SLOTS))?,
        port_rate: table.or("port_rate", default.port_rate, |rate| rate.rate(RATES))?,
        switch_rate: table.or("switch_rate", default.switch_rate, |rate| rate.rate(RATES))?,
        step: table.or("step", default.step, |rate| rate.rate(RATES))?,
        inc: table.or("inc", default.inc, |inc| inc.integer32(0..=255))?,
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
