//! Profiles of the papers: all rules by which a paper's protocol runs, under one name.
//!
//! `profile = "esa-paper"` in a job file selects [`Paper::Esa`], and the simulator's experiments take the same
//! values. Sections are those of ESA's paper, which also describes the baselines. Where our defaults have other
//! rules, these are ours; where the paper is silent, the field says so.
//!
//! # Three later results
//!
//! ESA has ATP's initial window and congestion control (§5.1), in which a lost packet halves the window. A worker takes
//! a packet for lost after three later results (§5.3, case 1). Read literally, three later results therefore halve the
//! windows of both protocols. But in both, the result of a task that the switch completed may overtake that of a task
//! that the server has to complete, without any loss. So the profiles leave the window as it is in both
//! ([`LaterResults::ByProtocol`](tributary_protocol::LaterResults::ByProtocol)). `later_results = "halve"` beside the
//! profile gives the literal reading, and `docs/evaluation/esa-evaluation.md` shows both.

use std::time::Duration;

use tributary_protocol::priority::Code;
use tributary_protocol::rtt::RttConfig;
use tributary_protocol::{Addressing, Readings, Recovery};
use tributary_wire::Protocol;

/// Bytes of payload that a worker sends before the first result (§5.1, at 100 Gb/s).
const INITIAL_WINDOW_BYTES: u32 = 60_000;

/// Bytes of a packet of ATP and ESA (§7.1.1, §7.2.1).
const PACKET_BYTES: u32 = 306;

/// A paper's protocol, as the paper has it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Paper {
    /// ESA.
    Esa,
    /// ATP, as ESA's paper describes it (§2.2).
    Atp,
    /// SwitchML, as ESA's paper describes it (§2.2).
    SwitchMl,
}

/// Rules of a paper. In job files, keys of `[protocol]` replace single ones.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rules {
    /// The protocol.
    pub protocol: Protocol,
    /// How workers detect losses: after three later results, or a timeout (§5.3, §6). For SwitchML the paper names no
    /// rule; it has the same one, so that results do not differ for another reason.
    pub recovery: Recovery,
    /// ATP, ESA: a hash of job and sequence (§2.2, §5.1: ESA's hash function is ATP's). SwitchML has no choice: a job's
    /// slots have aggregators of their own (§2.2).
    pub addressing: Addressing,
    /// ESA: the code of priorities. The paper compresses them to an 8-bit fixed point and leaves out how (§5.1). The
    /// logarithmic code keeps the order of values that are more than a factor of 255 apart.
    pub priorities: Code,
    /// How rules are read that the paper leaves open: see [the module](self) for later results. Reminders do not wait:
    /// the server sends them at once (§5.3, case 1).
    pub readings: Readings,
    /// Bounds of the retransmission timeout. The least one is the paper's `RTO_min` of 1 ms (§6). It names no others:
    /// before the first round trip is measured, the timeout is the least one, and it doubles up to 100 ms.
    pub timeouts: RttConfig,
    /// A worker's window at the start, in packets: 60 KB (§5.1) of packets of 306 bytes (§7.1.1, §7.2.1).
    pub window: u32,
    /// Upper bound of the window in packets: a power of two. The paper names none. This is more than twice the packets
    /// that a link of 100 Gb/s carries in the base round-trip time of 10 µs (§7.2.1).
    pub slots: u32,
}

impl Paper {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Esa, Self::Atp, Self::SwitchMl];

    /// The name of its profile in job files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Esa => "esa-paper",
            Self::Atp => "atp-paper",
            Self::SwitchMl => "switchml-paper",
        }
    }

    /// Its rules.
    #[must_use]
    pub fn rules(self) -> Rules {
        let (protocol, addressing) = match self {
            Self::Esa => (Protocol::Esa, Addressing::Hashed),
            Self::Atp => (Protocol::Atp, Addressing::Hashed),
            Self::SwitchMl => (Protocol::SwitchMl, Addressing::Default),
        };
        Rules {
            protocol,
            recovery: Recovery::Papers,
            addressing,
            priorities: Code::Logarithmic,
            readings: Readings::default(),
            timeouts: RttConfig {
                initial: Duration::from_millis(1),
                min: Duration::from_millis(1),
                max: Duration::from_millis(100),
            },
            window: INITIAL_WINDOW_BYTES / PACKET_BYTES,
            slots: 1024,
        }
    }
}
