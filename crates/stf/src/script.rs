//! A script as it is after reading: commands with their operands.

use std::collections::BTreeMap;

use crate::error::{Failure, ParseError, Place};
use crate::number::Number;
use crate::outputs::Outputs;
use crate::parser;
use crate::pattern::Pattern;

/// A packet test: commands in the order in which they are carried out.
#[derive(Clone, Debug)]
pub struct Script {
    pub(crate) statements: Vec<(Place, Statement)>,
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// The first thing that is wrong with it, with line and column.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parser::parse(text).map(|statements| Self { statements })
    }

    /// How many statements say something about the outcome. A test without any passes whatever its
    /// program does.
    #[must_use]
    pub fn expectations(&self) -> usize {
        let expects = |statement: &Statement| match statement {
            Statement::Expect { .. } | Statement::NoPacket | Statement::CheckRegister { .. } => {
                true
            }
            Statement::CheckCounter { check, .. } => check.is_some(),
            _ => false,
        };
        self.statements.iter().filter(|(_, statement)| expects(statement)).count()
    }

    /// Whether the script does nothing but send and expect packets. Any switch that runs the program can
    /// be held to it: see [`compare`](Self::compare).
    #[must_use]
    pub fn only_packets(&self) -> bool {
        self.statements.iter().all(|(_, statement)| {
            matches!(
                statement,
                Statement::Packet { .. } | Statement::Expect { .. } | Statement::NoPacket
            )
        })
    }

    /// The packets that it sends, with the ports that they go in through.
    pub fn packets(&self) -> impl Iterator<Item = (u16, &[u8])> {
        self.statements.iter().filter_map(|(_, statement)| match statement {
            Statement::Packet { port, data } => Some((*port, data.as_slice())),
            _ => None,
        })
    }

    /// Compares what a switch sent, packets in order for each port, with what the script expects.
    ///
    /// # Errors
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

    /// Ports that it sends packets into or expects them from, some perhaps more than once. What leaves
    /// through others is nobody's concern.
    pub fn ports(&self) -> impl Iterator<Item = u16> + '_ {
        self.statements.iter().filter_map(|(_, statement)| match *statement {
            Statement::Packet { port, .. } | Statement::Expect { port, .. } => Some(port),
            _ => None,
        })
    }
}

/// A name with the place where it is written.
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
    /// An entry that leads to a member or a group of the table's action profile.
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
    RegisterWrite {
        register: Name,
        index: u64,
        value: Number,
    },
    RegisterReset {
        register: Name,
    },
    CheckRegister {
        register: Name,
        index: u64,
        condition: Condition,
        value: Number,
    },
    /// Without a place: all cells. Without rates: only read.
    Meter {
        meter: Name,
        at: Option<At>,
        rates: Option<[Rate; 2]>,
    },
}

/// Which entry of which table.
#[derive(Clone, Debug)]
pub(crate) struct EntryKey {
    pub(crate) table: Name,
    pub(crate) priority: Option<u32>,
    pub(crate) keys: Vec<(Name, Match)>,
}

/// What a key of an entry is compared with. Which of these fit depends on the table.
#[derive(Clone, Debug)]
pub(crate) enum Match {
    Number(Number),
    Prefix(Number, u32),
    Mask(Number, Number),
    Range(Number, Number),
    /// `*` alone.
    Any,
}

/// What an entry leads to.
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

/// Commands to an action profile, whose members and groups count from 0 each.
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

/// Commands to a value set of a parser; a value for each scalar of a member.
#[derive(Clone, Debug)]
pub(crate) enum ValueSetCommand {
    Add(Vec<Match>),
    Remove(Vec<Match>),
    Clear,
    Get,
}

/// Commands to the packet replication engine.
#[derive(Clone, Debug)]
pub(crate) enum Replication {
    MirrorToPort { session: u32, port: u16 },
    MirrorToGroup { session: u32, group: u16 },
    MirrorDelete { session: u32 },
    MirrorGet { session: u32 },
    GroupCreate { group: u16 },
    GroupDestroy { group: u16 },
    NodeCreate { rid: u16, ports: Vec<u16> },
    NodeUpdate { node: usize, ports: Vec<u16> },
    NodeAssociate { group: u16, node: usize },
    NodeDissociate { group: u16, node: usize },
    NodeDestroy { node: usize },
}

/// Which cell of an array, or which entry's.
#[derive(Clone, Debug)]
pub(crate) enum At {
    Index(u64),
    /// That of the entry with the label, of a direct counter or meter.
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

/// A rate of a meter: packets or bytes a microsecond, and the burst that it allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub(crate) per_microsecond: f64,
    pub(crate) burst: u32,
}
