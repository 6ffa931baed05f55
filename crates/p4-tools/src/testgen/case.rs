//! A test: entries and packets, and its text in the STF format.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use tributary_p4::ir::{ActionId, ExternId, MatchKind, Program, Table, TableId};

use crate::testgen::circuit::{Circuit, Lit, Word, number};
use crate::testgen::program::initial_cell;

/// Ports to which copies of packets go. They differ from port 0, where packets enter at first.
const COPY_PORTS: [u16; 2] = [5, 6];
/// The replication ID of copies.
pub(crate) const COPY_RID: u64 = 1;
/// The highest session and group that BMv2's command line accepts for sure.
const MOST_SESSION: u64 = 1 << 15;
/// The value of a port that means "drop".
pub(crate) const DROP_PORT: u64 = 511;

/// A packet to send.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Sent {
    /// Nine bits, least significant first.
    pub(crate) port: Vec<bool>,
    /// Bits in the order of the wire, whole bytes.
    pub(crate) bits: Vec<bool>,
}

/// An entry that the test adds.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Rule {
    pub(crate) table: TableId,
    /// One value for each key other than those of selectors.
    pub(crate) keys: Vec<Vec<bool>>,
    pub(crate) call: Call,
}

/// An action with data.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Call {
    /// Index into the table's actions.
    pub(crate) action: usize,
    pub(crate) args: Vec<Vec<bool>>,
}

/// A test.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Case {
    pub(crate) packets: Vec<Sent>,
    /// Earlier entries have precedence.
    pub(crate) rules: Vec<Rule>,
    pub(crate) defaults: BTreeMap<u32, Call>,
    /// Members of value sets.
    pub(crate) members: Vec<(ExternId, Vec<Vec<bool>>)>,
    /// What cells of registers hold at first, other than in a new register.
    pub(crate) cells: BTreeMap<(ExternId, u64), Vec<bool>>,
    /// The colours of meters that are not green: two bits.
    pub(crate) colours: BTreeMap<ExternId, Vec<bool>>,
    /// Sessions of clones and multicast groups that must exist.
    pub(crate) sessions: BTreeSet<u64>,
    pub(crate) groups: BTreeSet<u64>,
}

/// The inputs of a test in the circuit of an execution.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inputs {
    pub(crate) packets: Vec<(Word, Word)>,
    pub(crate) rules: Vec<(Vec<Word>, Vec<Word>)>,
    pub(crate) defaults: BTreeMap<u32, Vec<Word>>,
    pub(crate) members: Vec<Vec<Word>>,
    /// These come into being when they are read.
    pub(crate) cells: BTreeMap<(ExternId, u64), Word>,
    pub(crate) colours: BTreeMap<ExternId, Word>,
}

impl Case {
    /// A test that sends one packet of zeros.
    pub(crate) fn new(bytes: usize) -> Self {
        let port = vec![false; 9];
        Self { packets: vec![Sent { port, bits: vec![false; 8 * bytes] }], ..Self::default() }
    }

    /// Creates the inputs, with their current values.
    pub(crate) fn inputs(&self, circuit: &mut Circuit) -> Inputs {
        let mut word =
            |bits: &Vec<bool>| -> Word { bits.iter().map(|&b| circuit.input(b)).collect() };
        Inputs {
            packets: self.packets.iter().map(|sent| (word(&sent.port), word(&sent.bits))).collect(),
            rules: self
                .rules
                .iter()
                .map(|rule| {
                    let keys = rule.keys.iter().map(&mut word).collect();
                    (keys, rule.call.args.iter().map(&mut word).collect())
                })
                .collect(),
            defaults: self
                .defaults
                .iter()
                .map(|(&table, call)| (table, call.args.iter().map(&mut word).collect()))
                .collect(),
            members: self
                .members
                .iter()
                .map(|(_, member)| member.iter().map(&mut word).collect())
                .collect(),
            ..Inputs::default()
        }
    }

    /// Takes the values of a solution.
    pub(crate) fn adopt(&mut self, circuit: &Circuit, inputs: &Inputs, values: &[Option<bool>]) {
        let take = |bits: &mut Vec<bool>, word: &[Lit]| {
            for (bit, lit) in bits.iter_mut().zip(word) {
                *bit = values[lit.gate()].unwrap_or(*bit);
            }
        };
        for (sent, (port, bits)) in self.packets.iter_mut().zip(&inputs.packets) {
            take(&mut sent.port, port);
            take(&mut sent.bits, bits);
        }
        for (rule, (keys, args)) in self.rules.iter_mut().zip(&inputs.rules) {
            rule.keys.iter_mut().zip(keys).for_each(|(bits, word)| take(bits, word));
            rule.call.args.iter_mut().zip(args).for_each(|(bits, word)| take(bits, word));
        }
        for (call, args) in self.defaults.values_mut().zip(inputs.defaults.values()) {
            call.args.iter_mut().zip(args).for_each(|(bits, word)| take(bits, word));
        }
        for ((_, member), words) in self.members.iter_mut().zip(&inputs.members) {
            member.iter_mut().zip(words).for_each(|(bits, word)| take(bits, word));
        }
        for (&key, word) in &inputs.cells {
            take(self.cells.entry(key).or_insert_with(|| circuit.values(word)), word);
        }
        for (&key, word) in &inputs.colours {
            take(self.colours.entry(key).or_insert_with(|| circuit.values(word)), word);
        }
        self.colours.retain(|_, colour| colour.contains(&true));
    }

    /// This test with the last packet of another one after its own, `more` times, and the entries for it.
    pub(crate) fn joined(&self, other: &Self, more: usize) -> Self {
        let mut joined = self.clone();
        let last = &other.packets[other.packets.len() - 1];
        joined.packets.extend(std::iter::repeat_n(last.clone(), more));
        for rule in &other.rules {
            let same = |known: &Rule| (known.table, &known.keys) == (rule.table, &rule.keys);
            if !joined.rules.iter().any(same) {
                joined.rules.push(rule.clone());
            }
        }
        for member in &other.members {
            if !joined.members.contains(member) {
                joined.members.push(member.clone());
            }
        }
        for (&table, call) in &other.defaults {
            joined.defaults.entry(table).or_insert_with(|| call.clone());
        }
        for (&cell, value) in &other.cells {
            joined.cells.entry(cell).or_insert_with(|| value.clone());
        }
        for (&meter, colour) in &other.colours {
            joined.colours.entry(meter).or_insert_with(|| colour.clone());
        }
        joined
    }

    /// Whether the test sets registers or the rates of meters.
    pub(crate) fn has_presets(&self) -> bool {
        !self.cells.is_empty() || !self.colours.is_empty()
    }

    /// Forgets what cells hold anyway.
    pub(crate) fn forget_initial(&mut self, program: &Program) {
        self.cells.retain(|(register, _), cell| {
            *cell != initial_cell(&program.externs[register.index()], cell.len())
        });
    }

    /// The ports to which copies of a group, or of a session with an unknown group, go.
    pub(crate) fn group_ports() -> [u16; 2] {
        COPY_PORTS
    }

    /// The port of a clone session.
    pub(crate) fn session_port() -> u16 {
        COPY_PORTS[0]
    }

    /// The commands before the packets.
    pub(crate) fn setup(&self, program: &Program) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        for (node, group) in self.groups.iter().enumerate() {
            let [one, other] = COPY_PORTS;
            let _ = writeln!(text, "mc_mgrp_create {group}");
            let _ = writeln!(text, "mc_node_create {COPY_RID} {one} {other}");
            let _ = writeln!(text, "mc_node_associate {group} {node}");
        }
        for session in self.sessions.iter().filter(|&&session| session < MOST_SESSION) {
            let _ = writeln!(text, "mirroring_add {session} {}", Self::session_port());
        }
        for ((register, index), cell) in &self.cells {
            let register = &program.externs[register.index()];
            let _ = write!(text, "register_write {} {index}", quoted(&register.name));
            let mut rest = &cell[..];
            for scalar in &register.type_args {
                let (value, after) = rest.split_at((scalar.width as usize).min(rest.len()));
                let _ = write!(text, " {}", plain(value));
                rest = after;
            }
            text.push('\n');
        }
        for (set, member) in &self.members {
            let set_name = quoted(&program.externs[set.index()].name);
            let _ = write!(text, "pvs_add {set_name}");
            for value in member {
                let _ = write!(text, " {}", digits(value));
            }
            text.push('\n');
        }
        let mut members: BTreeMap<ExternId, (usize, usize)> = BTreeMap::new();
        for (&table, call) in &self.defaults {
            let table = &program.tables[table as usize];
            let action = call_text(program, table, call);
            let _ = writeln!(text, "setdefault {} {action}", quoted(&table.name));
        }
        for (turn, rule) in self.rules.iter().enumerate() {
            let table = &program.tables[rule.table.index()];
            let action = call_text(program, table, &rule.call);
            let entry = self.entry(table, rule, turn);
            let profile = profile(program, table);
            let Some((id, is_selector)) = profile else {
                let _ = writeln!(text, "add {entry} {action}");
                continue;
            };
            let name = quoted(&program.externs[id.index()].name);
            let (member, group) = members.entry(id).or_default();
            let _ = writeln!(text, "act_prof_create_member {name} {action}");
            if is_selector {
                let _ = writeln!(text, "act_prof_create_group {name}");
                let _ = writeln!(text, "act_prof_add_member_to_group {name} {member} {group}");
                let _ = writeln!(text, "table_indirect_add_with_group {entry} {group}");
                *group += 1;
            } else {
                let _ = writeln!(text, "table_indirect_add {entry} {member}");
            }
            *member += 1;
        }
        // Those of direct meters are set for the entries that there are.
        for (meter, colour) in &self.colours {
            let name = quoted(&program.externs[meter.index()].name);
            // Empty buckets that never fill; for yellow, the peak rate is high.
            let peak = if colour[1] { "0:0" } else { "1000:1000000" };
            let _ = writeln!(text, "meter_array_set_rates {name} 0:0 {peak}");
        }
        text
    }

    /// Table, priority and keys of an entry.
    fn entry(&self, table: &Table, rule: &Rule, turn: usize) -> String {
        let mut text = quoted(&table.name);
        let by_priority =
            |kind| matches!(kind, MatchKind::Ternary | MatchKind::Range | MatchKind::Optional);
        if table.keys.iter().any(|key| by_priority(key.kind)) {
            let _ = write!(text, " {}", 10 * (self.rules.len() - turn));
        }
        let keys = table.keys.iter().filter(|key| key.kind != MatchKind::Selector);
        for (key, value) in keys.zip(&rule.keys) {
            let digits = digits(value);
            let matched = match key.kind {
                MatchKind::Lpm => format!("{digits}/{}", value.len()),
                MatchKind::Range => format!("{digits}->{digits}"),
                _ => digits,
            };
            let _ = write!(text, " {}:{matched}", quoted(&key.name));
        }
        text
    }

    /// The `packet` command of a packet.
    pub(crate) fn packet(&self, at: usize) -> String {
        let sent = &self.packets[at];
        let port = number(&sent.port).unwrap_or_default();
        format!("packet {port} {}", hex(&sent.bits))
    }
}

/// The action profile of a table, and whether it is a selector.
pub(crate) fn profile(program: &Program, table: &Table) -> Option<(ExternId, bool)> {
    table.attached.iter().find_map(|&id| match program.externs[id.index()].type_name.as_str() {
        "action_profile" | "ActionProfile" => Some((id, false)),
        "action_selector" => Some((id, true)),
        "ActionSelector" => Some((program.profile_of(id), true)),
        _ => None,
    })
}

/// Names and widths of an action's data.
fn call_text(program: &Program, table: &Table, call: &Call) -> String {
    let id: ActionId = table.actions[call.action].action;
    let action = &program.actions[id.index()];
    let prefix = format!("{}.", action.name);
    let args = action.params.iter().zip(&call.args).map(|(param, value)| {
        let name = &program.fields[param.index()].name;
        let name = name.strip_prefix(&prefix).unwrap_or(name);
        format!("{}:{}", quoted(name), digits(value))
    });
    format!("{}({})", quoted(&action.name), args.collect::<Vec<_>>().join(", "))
}

fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

/// A number in decimal, as BMv2's command line takes it.
fn plain(bits: &[bool]) -> String {
    match number(bits) {
        Some(number) => number.to_string(),
        None => digits(bits),
    }
}

/// A number with all digits of its width, least significant bit first in `bits`.
fn digits(bits: &[bool]) -> String {
    let wire: Vec<bool> = bits.iter().rev().copied().collect();
    if bits.len().is_multiple_of(4) {
        return format!("0x{}", hex(&wire));
    }
    let bits = wire.iter().map(|&bit| if bit { '1' } else { '0' });
    format!("0b{}", bits.collect::<String>())
}

/// Hexadecimal digits of bits in the order of the wire.
pub(crate) fn hex(bits: &[bool]) -> String {
    let digit = |four: &[bool]| {
        let value = four.iter().fold(0, |value, &bit| value << 1 | u32::from(bit));
        char::from_digit(value, 16).unwrap_or('0')
    };
    bits.chunks(4).map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testgen::circuit::to_bits;

    #[test]
    fn numbers_have_all_digits() {
        assert_eq!(digits(&to_bits(0x0a, 8)), "0x0a");
        assert_eq!(digits(&to_bits(5, 9)), "0b000000101");
        assert_eq!(digits(&to_bits(1, 1)), "0b1");
        assert_eq!(hex(&[true, false, true, false, false, false, false, true]), "a1");
    }
}
