//! A parsed script: commands with their operands.

use std::collections::BTreeMap;

use crate::{Application, PORT_METADATA_BYTES, TofinoConfig};

use crate::stf::error::{Failure, Place};
use crate::stf::number::Number;
use crate::stf::outputs::Outputs;
use crate::stf::pattern::Pattern;

/// A packet test: commands in the order of execution.
#[derive(Clone, Debug)]
pub struct Script {
    pub(crate) statements: Vec<(Place, Statement)>,
}

impl Script {
    /// Number of statements that check the outcome. A test without any passes with every program.
    #[must_use]
    pub fn expectations(&self) -> usize {
        self.statements.iter().filter(|(_, statement)| statement.expects()).count()
    }

    /// Whether the script only sends and expects packets. Such a script can be compared with any
    /// switch that runs the program: see [`compare`](Self::compare).
    #[must_use]
    pub fn only_packets(&self) -> bool {
        self.statements.iter().all(|(_, statement)| {
            matches!(
                statement,
                Statement::Packet { .. } | Statement::Expect { .. } | Statement::NoPacket
            )
        })
    }

    /// For each statement: the packet that it sends with its input port, if it sends one.
    pub fn sends(&self) -> impl Iterator<Item = Option<(u16, &[u8])>> {
        self.statements.iter().map(|(_, statement)| match statement {
            Statement::Packet { port, data } => Some((*port, data.as_slice())),
            _ => None,
        })
    }

    /// The packets that it sends, with their input ports.
    pub fn packets(&self) -> impl Iterator<Item = (u16, &[u8])> {
        self.sends().flatten()
    }

    /// Compares the packets that a switch sent, in order for each port, with the script's
    /// expectations.
    ///
    /// # Errors
    ///
    /// The first difference.
    pub fn compare(&self, sent: &BTreeMap<u16, Vec<Vec<u8>>>) -> Result<(), Failure> {
        let mut outputs = Outputs::new(self.ports().collect());
        for (place, statement) in &self.statements {
            if let Statement::Expect { port, pattern } = statement {
                outputs.expect(*place, *port, pattern.clone());
            }
        }
        for (port, frames) in sent {
            frames.iter().for_each(|frame| outputs.sent(*port, frame));
        }
        outputs.compare()
    }

    /// The settings of a switch for TNA programs, from a script of the commands `port_metadata`,
    /// `exclusion`, `loopback`, `deflect_on_drop` and `pktgen_…`.
    ///
    /// # Errors
    ///
    /// The first other command, or a line that names what is wrong with the settings.
    pub fn tofino(&self) -> Result<TofinoConfig, Failure> {
        let mut config = TofinoConfig::default();
        for (place, statement) in &self.statements {
            match statement {
                Statement::Driver(DriverCommand::PortMetadata { port, metadata }) => {
                    config.port_metadata.insert(*port, *metadata);
                }
                Statement::Driver(DriverCommand::Exclusion { id, ports }) => {
                    config.exclusions.insert(*id, ports.clone());
                }
                Statement::Driver(DriverCommand::Loopback { ports }) => {
                    config.loopback.extend(ports);
                    config.check().map_err(|reason| place.failure(reason))?;
                }
                Statement::Driver(DriverCommand::Deflection { port }) => {
                    config.deflection = Some(*port);
                }
                Statement::Driver(DriverCommand::Generate(application)) => {
                    config.generator.push(application.clone());
                    config.check().map_err(|reason| place.failure(reason))?;
                }
                _ => {
                    return Err(place.failure(
                        "only port_metadata, exclusion, loopback, deflect_on_drop and pktgen_… \
                         configure a switch for TNA",
                    ));
                }
            }
        }
        Ok(config)
    }

    /// Ports to which it sends packets or from which it expects them, possibly with duplicates.
    /// Output on other ports is ignored.
    pub fn ports(&self) -> impl Iterator<Item = u16> + '_ {
        self.statements.iter().filter_map(|(_, statement)| match *statement {
            Statement::Packet { port, .. } | Statement::Expect { port, .. } => Some(port),
            _ => None,
        })
    }
}

/// A name with its position.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub(crate) text: String,
    pub(crate) place: Place,
}

#[derive(Clone, Debug)]
pub(crate) enum Statement {
    Packet {
        port: u16,
        data: Vec<u8>,
    },
    /// Without a pattern: any packet.
    Expect {
        port: u16,
        pattern: Option<Pattern>,
    },
    NoPacket,
    Add {
        entry: EntryKey,
        target: Target,
        label: Option<String>,
    },
    SetDefault {
        table: Name,
        target: Target,
    },
    /// An entry that refers to a member or a group of the table's action profile.
    AddIndirect {
        entry: EntryKey,
        to: Indirect,
    },
    SetDefaultIndirect {
        table: Name,
        to: Indirect,
    },
    Profile {
        profile: Name,
        command: ProfileCommand,
    },
    ValueSet {
        set: Name,
        command: ValueSetCommand,
    },
    /// The next digest for the controller.
    ExpectDigest {
        digest: Name,
        values: Vec<Number>,
    },
    /// What the driver of a Tofino does.
    Driver(DriverCommand),
    /// Configures a low-pass filter or a random early drop.
    Filter {
        filter: Name,
        at: At,
        config: Filter,
    },
    RemoveAll,
    Remove(EntryKey),
    Wait,
    Replication(Replication),
    CheckCounter {
        counter: Name,
        at: At,
        check: Option<CounterCheck>,
    },
    CounterRead {
        counter: Name,
        index: u64,
    },
    CounterWrite {
        counter: Name,
        index: u64,
        packets: u64,
        bytes: u64,
    },
    RegisterRead {
        register: Name,
        index: Option<u64>,
    },
    /// A value for each scalar of the element.
    RegisterWrite {
        register: Name,
        index: u64,
        values: Vec<Number>,
    },
    RegisterReset {
        register: Name,
    },
    CheckRegister {
        register: Name,
        index: u64,
        condition: Condition,
        values: Vec<Number>,
    },
    /// Without a place: all cells. Without rates: only read.
    Meter {
        meter: Name,
        at: Option<At>,
        rates: Option<[Rate; 2]>,
    },
}

impl Statement {
    /// Whether it checks the outcome.
    pub(crate) fn expects(&self) -> bool {
        match self {
            Self::Expect { .. }
            | Self::NoPacket
            | Self::ExpectDigest { .. }
            | Self::CheckRegister { .. } => true,
            Self::CheckCounter { check, .. } => check.is_some(),
            _ => false,
        }
    }
}

/// Identifies an entry of a table.
#[derive(Clone, Debug)]
pub(crate) struct EntryKey {
    pub(crate) table: Name,
    pub(crate) priority: Option<u32>,
    pub(crate) keys: Vec<(Name, Match)>,
}

/// The match of a key. The table determines which variants are valid.
#[derive(Clone, Debug)]
pub(crate) enum Match {
    Number(Number),
    Prefix(Number, u32),
    Mask(Number, Number),
    Range(Number, Number),
    /// A single `*`.
    Any,
}

/// The action of an entry.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) action: Name,
    pub(crate) args: Vec<(Name, Number)>,
}

/// A member or a group of an action profile.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Indirect {
    Member(u32),
    Group(u32),
}

/// Commands for an action profile. Members and groups are counted separately from 0.
#[derive(Clone, Debug)]
pub(crate) enum ProfileCommand {
    CreateMember(Target),
    ModifyMember { member: u32, target: Target },
    DeleteMember { member: u32 },
    CreateGroup,
    DeleteGroup { group: u32 },
    AddToGroup { member: u32, group: u32 },
    RemoveFromGroup { member: u32, group: u32 },
}

/// Commands for a value set of a parser. Each member has one value per scalar.
#[derive(Clone, Debug)]
pub(crate) enum ValueSetCommand {
    Add(Vec<Match>),
    Remove(Vec<Match>),
    Clear,
    Get,
}

/// Commands for the packet replication engine.
#[derive(Clone, Debug)]
pub(crate) enum Replication {
    /// `length`: the most bytes of the packet that are copied.
    MirrorToPort {
        session: u32,
        port: u16,
        length: Option<u32>,
    },
    MirrorToGroup {
        session: u32,
        group: u16,
    },
    MirrorDelete {
        session: u32,
    },
    MirrorGet {
        session: u32,
    },
    GroupCreate {
        group: u16,
    },
    GroupDestroy {
        group: u16,
    },
    NodeCreate {
        rid: u16,
        ports: Vec<u16>,
    },
    NodeUpdate {
        node: usize,
        ports: Vec<u16>,
    },
    NodeAssociate {
        group: u16,
        node: usize,
    },
    NodeDissociate {
        group: u16,
        node: usize,
    },
    NodeDestroy {
        node: usize,
    },
}

/// What the driver of a Tofino does.
#[derive(Clone, Debug)]
pub(crate) enum DriverCommand {
    PortMetadata { port: u16, metadata: [u8; PORT_METADATA_BYTES] },
    Exclusion { id: u16, ports: Vec<u16> },
    Loopback { ports: Vec<u16> },
    Deflection { port: u16 },
    Link { port: u16, up: bool },
    Generate(Application),
}

/// The configuration of a filter; times are time constants in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Filter {
    Average { gain_ns: u64, decay_ns: u64, scale_down: u8 },
    Rate { decay_ns: u64, scale_down: u8 },
    Drop { time_constant_ns: u64, min: u64, max: u64, percent: u8 },
}

/// A cell of an array, or the cell of an entry.
#[derive(Clone, Debug)]
pub(crate) enum At {
    Index(u64),
    /// The cell of the entry with this label, in a direct counter or meter.
    Entry(String),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct CounterCheck {
    pub(crate) bytes: bool,
    pub(crate) condition: Condition,
    pub(crate) count: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Condition {
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl Condition {
    pub(crate) const SIGNS: [(&'static str, Self); 6] = [
        ("==", Self::Equal),
        ("!=", Self::NotEqual),
        ("<", Self::Less),
        ("<=", Self::AtMost),
        (">", Self::Greater),
        (">=", Self::AtLeast),
    ];

    pub(crate) fn holds<T: Ord>(self, left: &T, right: &T) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Less => left < right,
            Self::AtMost => left <= right,
            Self::Greater => left > right,
            Self::AtLeast => left >= right,
        }
    }

    pub(crate) fn sign(self) -> &'static str {
        Self::SIGNS.into_iter().find(|(_, it)| *it == self).map_or("", |(sign, _)| sign)
    }
}

/// A meter rate, in packets or bytes per microsecond, and its burst size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub(crate) per_microsecond: f64,
    pub(crate) burst: u32,
}
