//! Describes events of externs.

use serde_json::json;
use tributary_dataplane::trace::{Event, Request};
use tributary_p4::ir::ExternId;

use super::{Names, hex};
use crate::explained::node::{Facts, Kind};

/// Kind, text and details of a node.
type Described = (Kind, String, Facts);

impl Names<'_> {
    /// What an extern did. `None` for events that are shown elsewhere.
    pub(crate) fn extern_event(&self, event: &Event) -> Option<Described> {
        self.of_register(event)
            .or_else(|| self.of_measure(event))
            .or_else(|| self.of_value(event))
            .or_else(|| self.of_packet(event))
    }

    /// Reading and writing registers.
    fn of_register(&self, event: &Event) -> Option<Described> {
        Some(match event {
            Event::RegisterRead { register, scalar, index, value } => {
                let element = self.element(*register, *scalar, *index);
                let shown = value.as_ref().map(|value| self.plain(value));
                let facts = vec![
                    ("access", json!("read")),
                    ("register", json!(self.instance(*register))),
                    ("scalar", json!(scalar)),
                    ("index", json!(index)),
                    ("value", json!(shown)),
                ];
                let shown = shown.as_deref().unwrap_or("out of range");
                (Kind::Register, format!("read {element} = {shown}"), facts)
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
            Event::CellStore { table, values } => {
                let name = &self.program.tables[table.index()].name;
                let shown: Vec<String> = values.iter().map(ToString::to_string).collect();
                let facts = vec![("table", json!(name)), ("values", json!(shown))];
                let text = format!("register at the entry of {name}: now {}", shown.join(", "));
                (Kind::Register, text, facts)
            }
            _ => return None,
        })
    }

    /// Counting and metering.
    fn of_measure(&self, event: &Event) -> Option<Described> {
        Some(match event {
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
            _ => return None,
        })
    }

    /// Computed values, and what is said about them.
    fn of_value(&self, event: &Event) -> Option<Described> {
        Some(match event {
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
            _ => return None,
        })
    }

    /// Calls, and what is requested for the packet.
    fn of_packet(&self, event: &Event) -> Option<Described> {
        Some(match event {
            Event::Call { text } => (Kind::Call, text.clone(), vec![("call", json!(text))]),
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

    fn instance(&self, instance: ExternId) -> &str {
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
