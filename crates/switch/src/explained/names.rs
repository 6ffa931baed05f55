//! Names and values as people read them.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::trace::Loss;
use serde_json::{Value as Json, json};
use tributary_dataplane::trace::{Event, Request};
use tributary_dataplane::{Action, ActionCall, Instance, KeyMatch, TableEntry, Value};
use tributary_p4::graph::Text;
use tributary_p4::ir::{ExternId, FieldId, FieldRole, MatchKind, Program, TableId};

use crate::explained::tree::Kind;

type Facts = Vec<(&'static str, Json)>;

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

    fn instance(&self, instance: ExternId) -> &'p str {
        &self.program.externs[instance.index()].name
    }

    /// A scalar of a register's element. TNA's pairs have names for theirs.
    fn element(&self, register: ExternId, scalar: u32, index: u64) -> String {
        let of = &self.program.externs[register.index()];
        let part = match (of.type_args.len(), scalar) {
            (..=1, _) => String::new(),
            (2, 0) if of.type_name.starts_with(char::is_uppercase) => ".lo".to_owned(),
            (2, _) if of.type_name.starts_with(char::is_uppercase) => ".hi".to_owned(),
            _ => format!(".{scalar}"),
        };
        format!("{}[{index}]{part}", of.name)
    }

    /// What an extern did: kind, text and details. `None` for events that are shown elsewhere.
    pub(crate) fn extern_event(&self, event: &Event) -> Option<(Kind, String, Facts)> {
        let or_out = |value: &Option<Value>| {
            value.as_ref().map_or("out of range".to_owned(), |value| self.plain(value))
        };
        Some(match event {
            Event::Call { text } => (Kind::Call, text.clone(), vec![("call", json!(text))]),
            Event::RegisterRead { register, scalar, index, value } => {
                let element = self.element(*register, *scalar, *index);
                let facts = vec![
                    ("access", json!("read")),
                    ("register", json!(self.instance(*register))),
                    ("scalar", json!(scalar)),
                    ("index", json!(index)),
                    ("value", json!(value.as_ref().map(|value| self.plain(value)))),
                ];
                (Kind::Register, format!("read {element} = {}", or_out(value)), facts)
            }
            Event::RegisterWrite { register, scalar, index, before, after } => {
                let element = self.element(*register, *scalar, *index);
                let facts = vec![
                    ("access", json!("write")),
                    ("register", json!(self.instance(*register))),
                    ("scalar", json!(scalar)),
                    ("index", json!(index)),
                    ("before", json!(before.as_ref().map(|value| self.plain(value)))),
                    ("after", json!(after.as_ref().map(|value| self.plain(value)))),
                ];
                let text = match (before, after) {
                    (Some(before), Some(after)) => {
                        format!("write {element}: {} → {}", self.plain(before), self.plain(after))
                    }
                    _ => format!("write {element}: out of range, nothing is stored"),
                };
                (Kind::Register, text, facts)
            }
            Event::Count { counter, index, count } => {
                let name = self.instance(*counter);
                let facts = vec![
                    ("counter", json!(name)),
                    ("index", json!(index)),
                    ("packets", json!(count.map(|count| count.packets))),
                    ("bytes", json!(count.map(|count| count.bytes))),
                ];
                let text = match count {
                    Some(count) => format!(
                        "count {name}[{index}]: now {} packets, {} bytes",
                        count.packets, count.bytes
                    ),
                    None => format!("count {name}[{index}]: out of range"),
                };
                (Kind::Counter, text, facts)
            }
            Event::CountDirect { table } => {
                let name = &self.program.tables[table.index()].name;
                let text = format!("count at the entry of {name}");
                (Kind::Counter, text, vec![("table", json!(name))])
            }
            Event::Meter { meter, index, color } => {
                let name = self.instance(*meter);
                let shown = color.map_or("out of range", color_name);
                let facts = vec![
                    ("meter", json!(name)),
                    ("index", json!(index)),
                    ("color", json!(color.map(color_name))),
                ];
                (Kind::Meter, format!("meter {name}[{index}]: {shown}"), facts)
            }
            Event::MeterDirect { table, color } => {
                let name = &self.program.tables[table.index()].name;
                let color = color_name(*color);
                let facts = vec![("table", json!(name)), ("color", json!(color))];
                (Kind::Meter, format!("meter at the entry of {name}: {color}"), facts)
            }
            Event::Filter { input, value, drops } => {
                let mut facts = vec![("input", json!(input)), ("value", json!(value))];
                facts.extend(drops.map(|drops| ("drops", json!(drops))));
                let text = match drops {
                    None => format!("filter of {input}: {value}"),
                    Some(true) => format!("early drop at {input}: drop"),
                    Some(false) => format!("early drop at {input}: no drop"),
                };
                (Kind::Meter, text, facts)
            }
            Event::CellStore { table, values } => {
                let name = &self.program.tables[table.index()].name;
                let shown: Vec<String> = values.iter().map(ToString::to_string).collect();
                let facts = vec![("table", json!(name)), ("values", json!(shown))];
                let text = format!("register at the entry of {name}: now {}", shown.join(", "));
                (Kind::Register, text, facts)
            }
            Event::Hash { data, value } => {
                let facts = vec![("data", json!(hex(data))), ("value", json!(value))];
                (Kind::Hash, format!("hash of {}: {value:#x}", hex(data)), facts)
            }
            Event::Checksum { verify, active, data, payload, value, correct } => {
                let facts = vec![
                    ("verify", json!(verify)),
                    ("active", json!(active)),
                    ("data", json!(hex(data))),
                    ("payload", json!(payload)),
                    ("value", json!(value)),
                    ("correct", json!(correct)),
                ];
                let text = match (active, correct) {
                    (false, _) => "checksum: not needed".to_owned(),
                    (true, Some(true)) => format!("checksum {value:#x}: correct"),
                    (true, Some(false)) => format!("checksum {value:#x}: the packet has another"),
                    (true, None) => format!("checksum of {}: {value:#x}", hex(data)),
                };
                (Kind::Checksum, text, facts)
            }
            Event::Random { value } => {
                (Kind::Random, format!("random number {value:#x}"), vec![("value", json!(value))])
            }
            Event::ValueSet { set, keys, found } => {
                let sets = self.program.externs.iter().filter(|e| e.type_name == "value_set");
                let name = sets.map(|e| e.name.as_str()).nth(*set as usize).unwrap_or("?");
                let keys: Vec<String> = keys.iter().map(|key| self.plain(key)).collect();
                let answer = if *found { "has" } else { "does not have" };
                let text = format!("value set {name} {answer} {}", keys.join(", "));
                let facts =
                    vec![("set", json!(name)), ("keys", json!(keys)), ("found", json!(found))];
                (Kind::ValueSet, text, facts)
            }
            Event::Emit { header, bytes } => {
                let name = &self.program.headers[header.index()].name;
                let facts =
                    vec![("header", json!(name)), ("bytes", json!(bytes.as_deref().map(hex)))];
                let text = match bytes {
                    Some(bytes) => format!("emit {name}, {} bytes: {}", bytes.len(), hex(bytes)),
                    None => format!("emit {name}: not valid"),
                };
                (Kind::Emit, text, facts)
            }
            Event::Request { what, value } => {
                let name = request_name(*what);
                let facts = vec![("what", json!(name)), ("value", json!(value))];
                let text = match (what, value) {
                    (Request::Drop, _) => "requests to drop the packet".to_owned(),
                    (_, Some(value)) => format!("requests {name} {value}"),
                    (_, None) => format!("withdraws {name}"),
                };
                (Kind::Request, text, facts)
            }
            Event::Log { message, values } => {
                let mut pieces = message.split("{}");
                let mut text = pieces.next().unwrap_or_default().to_owned();
                for (i, piece) in pieces.enumerate() {
                    text.extend(values.get(i).map(|value| self.plain(value)));
                    text.push_str(piece);
                }
                let facts = vec![("message", json!(text))];
                (Kind::Log, format!("log: {text}"), facts)
            }
            Event::Assert { holds } => {
                let text = if *holds { "assertion holds" } else { "assertion fails" };
                (Kind::Error, text.to_owned(), vec![("holds", json!(holds))])
            }
            Event::Mirror { session, header } => {
                let facts = vec![
                    ("what", json!("mirror session")),
                    ("value", json!(session)),
                    ("header", json!(hex(header))),
                ];
                let text = format!("requests mirror session {session}, header {}", hex(header));
                (Kind::Request, text, facts)
            }
            Event::Resubmit { data } => {
                let facts = vec![("what", json!("resubmission")), ("data", json!(hex(data)))];
                (Kind::Request, format!("requests resubmission with {}", hex(data)), facts)
            }
            Event::Pack { digest, values } => {
                let values: Vec<String> = values.iter().map(|value| self.plain(value)).collect();
                let text = format!("packs digest {digest}: {}", values.join(", "));
                (Kind::Digest, text, vec![("digest", json!(digest)), ("values", json!(values))])
            }
            _ => return None,
        })
    }
}

fn color_name(color: u64) -> &'static str {
    match color {
        0 => "green",
        1 => "yellow",
        _ => "red",
    }
}

fn request_name(request: Request) -> &'static str {
    match request {
        Request::Clone => "clone session",
        Request::CloneList => "field list of the clone",
        Request::Resubmit => "resubmission with field list",
        Request::Recirculate => "recirculation with field list",
        Request::Truncate => "truncation to bytes",
        Request::Digest => "digest",
        Request::Drop => "drop",
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
