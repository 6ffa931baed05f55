//! How jobs around a cross-connect are scheduled.

use std::time::Duration;

/// The settings of the network controller (P4INC-AOI §III to §V).
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
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
    /// Whether the switch of one unit may add for a job that has workers in other units, too (eq. 2), and not only for
    /// jobs that are all in its unit (§VI.A).
    #[serde(default)]
    pub partial_inc: bool,
    /// Who decides.
    pub policy: Policy,
    /// A job is released when one of its iterations takes longer.
    pub iteration_timeout: Duration,
}

/// The paper's schedulers (§VII.A).
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
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

impl Default for Orchestration {
    /// The set-up of P4INC-AOI §VII.C; *B*(PDP) is that of 64 servers with 40 Gb/s up and down.
    fn default() -> Self {
        Self {
            slot: Duration::from_secs(1),
            port_rate: 40_000_000_000,
            switch_rate: 5_120_000_000_000,
            step: 10_000_000_000,
            inc: 4,
            partial_inc: false,
            policy: Policy::IncTw,
            iteration_timeout: Duration::from_secs(60),
        }
    }
}
