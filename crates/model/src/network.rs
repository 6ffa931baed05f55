//! A network, and how its switches are set.

use std::time::Duration;

use tributary_protocol::priority::Code;
use tributary_protocol::rtt::RttConfig;
use tributary_protocol::{Addressing, Readings, Recovery};
use tributary_wire::Protocol;

use crate::Topology;

/// Hosts and switches, and all on which they agree: nothing about single jobs.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Network {
    /// Hosts, switches, links, and the faults of each link.
    pub topology: Topology,
    /// The aggregation protocol: all switches run its program, so all jobs use it.
    pub protocol: Protocol,
    /// Settings of all switches.
    pub switch: SwitchSettings,
    /// A job fails if one of its workers is silent for longer than this while others wait for it.
    pub worker_timeout: Duration,
    /// Bounds of the endpoints' retransmission timeouts: those of the file, or longer ones where the
    /// switches are slow.
    pub timeouts: RttConfig,
    /// Loss detection rules of workers.
    pub recovery: Recovery,
    /// How tasks are spread over the pool (ATP, ESA).
    pub addressing: Addressing,
    /// The code of priorities (ESA).
    pub priorities: Code,
    /// How rules are read that the papers leave open. Files set `later_results`; experiments set the rest.
    pub readings: Readings,
}

impl Network {
    /// The rules that a file's `[protocol]` or its profile sets for the whole network, in one line for people.
    #[must_use]
    pub fn rules(&self) -> String {
        let Self { protocol, recovery, addressing, timeouts, readings, .. } = self;
        let mut parts = vec![format!("protocol \"{}\"", protocol.name())];
        parts.push(match recovery {
            Recovery::Rack => format!("recovery \"{}\"", recovery.name()),
            Recovery::Papers => {
                let halve = readings.later_results.halve(*protocol);
                let rule = if halve { "halve" } else { "leave" };
                format!("recovery \"{}\", later results {rule} windows", recovery.name())
            }
        });
        if !protocol.has_segments() {
            parts.push(format!("addressing \"{}\"", addressing.name()));
        }
        if let Code::Linear { unit } = self.priorities {
            parts.push(format!("priorities in units of {unit}"));
        }
        let RttConfig { initial, min, max } = timeouts;
        parts.push(format!("timeouts of {min:?} to {max:?}, first {initial:?}"));
        parts.join("; ")
    }
}

/// Settings of all switches: compile-time constants of the P4 program, and queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct SwitchSettings {
    /// Number of 32-bit values per packet: 32, 64, 256 or 2048 in files; 1 or 62 in experiments of the
    /// simulator.
    pub values_per_packet: u16,
    /// Number of aggregators per switch, for all jobs together.
    pub pool: u32,
    /// ATP: time after which another task may take over an idle aggregator.
    pub idle_timeout: Duration,
    /// Number of packets in an egress queue above which the switch marks congestion.
    pub ecn_threshold: u32,
    /// Capacity of an egress queue in packets; further packets are dropped.
    pub queue_capacity: u32,
    /// ESA: when a collision causes a preemption.
    pub preemption: Preemption,
    /// ESA: whether priorities have a linear code, which is halved by a shift.
    pub linear_priorities: bool,
    /// SwitchML: number of static partitions of the pool. A job gets one partition.
    pub partitions: u32,
}

/// When a packet preempts the aggregator of another task (ESA §7.3, figure 11).
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, Default, serde::Serialize, serde::Deserialize,
)]
pub enum Preemption {
    /// If its priority is higher. Otherwise the aggregator's priority is lowered to half its value.
    #[default]
    Priority,
    /// Always.
    Always,
    /// With probability one half.
    Coin,
}

impl Preemption {
    /// The name in job files and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Priority => "priority",
            Self::Always => "always",
            Self::Coin => "coin",
        }
    }
}

/// Length in bytes of an aggregation packet without its values, from the IPv4 header on.
const PACKET_OVERHEAD: u32 = 20 + 8 + 28;

impl SwitchSettings {
    /// Length in bytes of the largest packet, from the IPv4 header on: the minimum MTU of a link.
    #[must_use]
    pub fn packet_bytes(&self) -> u32 {
        PACKET_OVERHEAD + 4 * u32::from(self.values_per_packet)
    }

    /// Number of aggregators in each of the [`partitions`](Self::partitions). It is even, because
    /// each slot has two aggregators.
    #[must_use]
    pub fn partition(&self) -> u32 {
        (self.pool / self.partitions) & !1
    }
}
