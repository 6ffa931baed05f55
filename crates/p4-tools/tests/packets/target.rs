//! The interface of a switch for the tests.

use std::collections::BTreeMap;
use std::time::Duration;

use tributary_p4runtime::p4::config::v1::P4Info;
use tributary_p4runtime::p4::v1::Update;

/// Ports with a link.
pub(crate) const PORTS: std::ops::RangeInclusive<u16> = 1..=6;

/// A program under test.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Program {
    Atp,
    Esa,
    P4inc,
    SwitchMl,
}

impl Program {
    /// The name of its file, without the extension.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Atp => "atp",
            Self::Esa => "esa",
            Self::P4inc => "p4inc",
            Self::SwitchMl => "switchml",
        }
    }

    /// The protocol byte of its packets.
    pub(crate) fn protocol(self) -> u8 {
        match self {
            Self::Atp => 1,
            Self::Esa => 2,
            Self::P4inc => 3,
            Self::SwitchMl => 4,
        }
    }

    /// Whether its aggregators advance from round to round, in segments of jobs.
    pub(crate) fn has_rounds(self) -> bool {
        matches!(self, Self::P4inc | Self::SwitchMl)
    }
}

/// ESA's eviction rules.
pub(crate) const BY_PRIORITY: u8 = 0;
pub(crate) const ALWAYS: u8 = 1;
pub(crate) const COIN: u8 = 2;

/// The program and its compile-time settings.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Build {
    pub(crate) program: Program,
    pub(crate) preemption: u8,
    /// Whether a shift halves priorities (ESA).
    pub(crate) linear: bool,
    pub(crate) values: usize,
    pub(crate) pool: u32,
    pub(crate) idle_us: u32,
}

impl Build {
    /// No cell is ever idle: BMv2 runs in real time, and tests may take long on a busy machine.
    pub(crate) const PATIENT: Self = Self {
        program: Program::Atp,
        preemption: BY_PRIORITY,
        linear: false,
        values: 32,
        pool: 16,
        idle_us: u32::MAX,
    };

    /// ESA, which has no idle cells.
    pub(crate) const ESA: Self = Self { program: Program::Esa, ..Self::PATIENT };

    pub(crate) const P4INC: Self = Self { program: Program::P4inc, ..Self::PATIENT };

    pub(crate) const SWITCHML: Self = Self { program: Program::SwitchMl, ..Self::PATIENT };

    /// The compiler's definitions, as `NAME=VALUE`.
    pub(crate) fn defines(&self) -> [(&'static str, String); 5] {
        [
            ("VALUES", self.values.to_string()),
            ("POOL", self.pool.to_string()),
            ("IDLE_US", self.idle_us.to_string()),
            ("PREEMPTION", self.preemption.to_string()),
            ("LINEAR_PRIORITIES", u8::from(self.linear).to_string()),
        ]
    }
}

/// The output of a switch in a canonical order: by port, and within a port by time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Outputs {
    pub(crate) frames: Vec<(u16, Vec<u8>)>,
    pub(crate) packets_in: Vec<Vec<u8>>,
}

/// Packets and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Count {
    pub(crate) packets: i64,
    pub(crate) bytes: i64,
}

/// The non-zero outcome counters by index: slot * 32 + outcome.
pub(crate) type Counts = BTreeMap<i64, Count>;

/// The number of evicted partial sums of each job, without zeros.
pub(crate) type Evictions = BTreeMap<u32, Count>;

/// A switch that runs the program.
pub(crate) trait Target {
    /// Name in messages.
    fn name(&self) -> &'static str;

    /// Its compiler's P4Info.
    fn p4info(&self) -> &P4Info;

    /// Makes updates. Panics if one is refused, because tests write only valid ones.
    fn write(&mut self, updates: &[Update]);

    /// Sends a frame into a port.
    fn inject(&mut self, port: u16, frame: &[u8]);

    /// Sends a frame from the controller.
    fn packet_out(&mut self, frame: &[u8]);

    /// Waits until all packets have left, and returns the output.
    fn settle(&mut self) -> Outputs;

    /// Lets time pass.
    fn advance(&mut self, time: Duration);

    /// Reads the outcome counters of the idle switch.
    fn counters(&mut self) -> Counts;

    /// Reads the counters of evicted partial sums of the idle switch.
    fn evictions(&mut self) -> Evictions;

    /// Number of packets that arrived by the recirculation port of the workers' pipe, if the
    /// architecture has pipes.
    fn recirculated(&self) -> Option<u64> {
        None
    }
}
