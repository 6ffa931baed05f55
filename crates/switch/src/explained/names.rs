//! Names and values as people read them.

mod externs;

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::trace::Loss;
use serde_json::{Value as Json, json};
use tributary_dataplane::{Action, ActionCall, Instance, KeyMatch, TableEntry, Value};
use tributary_p4::graph::Text;
use tributary_p4::ir::{FieldId, FieldRole, MatchKind, Program, TableId};

use crate::explained::node::Facts;

/// The names of a program.
pub(crate) struct Names<'p> {
    program: &'p Program,
    /// What the program calls values, by field.
    values: Vec<BTreeMap<u64, &'p str>>,
}

impl<'p> Names<'p> {
    pub(crate) fn new(program: &'p Program) -> Self {
        let fields = (0..program.fields.len() as u32).map(FieldId);
        Self { program, values: fields.map(|field| program.names.of(field)).collect() }
    }

    pub(crate) fn text(&self) -> Text<'p> {
        Text(self.program)
    }

    pub(crate) fn field(&self, field: FieldId) -> String {
        let known = &self.program.fields[field.index()];
        match known.role {
            // By the architecture's name, which does not depend on the program's parameters.
            FieldRole::Intrinsic => {
                let intrinsic = self.program.intrinsic.iter().find(|(_, id)| *id == field);
                intrinsic.map_or(known.name.clone(), |(name, _)| name.clone())
            }
            FieldRole::Validity(header) => {
                format!("{}.isValid()", self.program.headers[header.index()].name)
            }
            _ => known.name.clone(),
        }
    }

    /// A field's value: with the program's name for it, if it has one.
    pub(crate) fn value(&self, field: FieldId, value: &Value) -> String {
        if let FieldRole::Validity(_) = self.program.fields[field.index()].role {
            return (*value != Value::zero()).to_string();
        }
        let number = self.plain(value);
        let name = value.to_u64().and_then(|value| self.values[field.index()].get(&value));
        name.map_or(number.clone(), |name| format!("{number} ({name})"))
    }

    /// Small numbers in decimal, others in hexadecimal notation.
    pub(crate) fn plain(&self, value: &Value) -> String {
        match value.to_u64() {
            Some(small) if small < 256 => small.to_string(),
            _ => value.to_string(),
        }
    }

    pub(crate) fn error(&self, code: u64) -> String {
        let name = usize::try_from(code).ok().and_then(|code| self.program.errors.get(code));
        name.cloned().unwrap_or_else(|| format!("{code:#x}"))
    }

    pub(crate) fn call(&self, table: TableId, call: &ActionCall) -> String {
        let offered = self.program.tables[table.index()].actions.get(call.action as usize);
        let Some(offered) = offered else { return format!("action {}", call.action) };
        let action = &self.program.actions[offered.action.index()];
        let args = action.params.iter().zip(&call.args).map(|(field, value)| {
            let name = &self.program.fields[field.index()].name;
            let own = name.rsplit('.').next().unwrap_or(name);
            format!("{own} = {}", self.value(*field, value))
        });
        format!("{}({})", action.name, args.collect::<Vec<_>>().join(", "))
    }

    /// An entry in one line, and its details.
    pub(crate) fn entry(&self, table: TableId, entry: &TableEntry) -> (String, Facts) {
        let keys = &self.program.tables[table.index()].keys;
        let keys = keys.iter().filter(|key| key.kind != MatchKind::Selector);
        let matches: Vec<(String, String)> = keys
            .zip(&entry.matches)
            .map(|(key, found)| (key.name.clone(), self.key_match(found)))
            .collect();
        let action = match &entry.action {
            Action::Direct(call) => self.call(table, call),
            Action::Member(member) => format!("member {member}"),
            Action::Group(group) => format!("group {group}"),
            Action::Set(set) => {
                let first = set.group_action.as_ref();
                let first = first.map(|call| format!("{}, then ", self.call(table, call)));
                format!("{}a set of {} actions", first.unwrap_or_default(), set.calls.len())
            }
        };
        let text: Vec<String> =
            matches.iter().map(|(name, found)| format!("{name}: {found}")).collect();
        let priority = match entry.priority {
            0 => String::new(),
            priority => format!(", priority {priority}"),
        };
        let object = matches.into_iter().map(|(name, found)| (name, Json::String(found)));
        let facts = vec![
            ("matches", Json::Object(object.collect())),
            ("priority", json!(entry.priority)),
            ("action", json!(action)),
        ];
        (format!("{{{}}}{priority} → {action}", text.join(", ")), facts)
    }

    fn key_match(&self, found: &KeyMatch) -> String {
        let plain = |value: &Value| self.plain(value);
        match found {
            KeyMatch::Exact(value) => plain(value),
            KeyMatch::Lpm { value, prefix_len } => format!("{value}/{prefix_len}"),
            KeyMatch::Ternary { mask, .. } | KeyMatch::Range { high: mask, .. }
                if *mask == Value::zero() && !matches!(found, KeyMatch::Range { .. }) =>
            {
                "any".to_owned()
            }
            KeyMatch::Ternary { value, mask } => format!("{value} &&& {mask}"),
            KeyMatch::Range { low, high } => format!("{}..{}", plain(low), plain(high)),
            KeyMatch::Optional(None) => "any".to_owned(),
            KeyMatch::Optional(Some(value)) => plain(value),
        }
    }
}

pub(crate) fn pass(instance: Instance) -> &'static str {
    match instance {
        Instance::Normal => "first pass",
        Instance::IngressClone => "clone of ingress",
        Instance::EgressClone => "clone of egress",
        Instance::Coalesced => "coalesced",
        Instance::Recirculated => "recirculated",
        Instance::Replication => "replica",
        Instance::Resubmitted => "resubmitted",
    }
}

pub(crate) fn loss(reason: Loss) -> &'static str {
    match reason {
        Loss::QueueFull => "the egress queue is full",
        Loss::NoSuchPort => "the switch has no such port",
        Loss::NoSuchQueue => "the port has no queue of that priority",
        Loss::NoSuchGroup => "there is no such group",
        Loss::NoSuchSession => "there is no such session",
        Loss::Excluded => "the port is excluded",
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
