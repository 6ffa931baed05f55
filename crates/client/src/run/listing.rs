//! The objects of the program.

use serde_json::{Value, json};
use tributary_p4runtime::p4::config::v1::{
    Action, ActionProfile, Counter, CounterSpec, Digest, DirectCounter, DirectMeter, Meter,
    MeterSpec, P4DataTypeSpec, Register, Table, ValueSet, counter_spec,
    p4_bitstring_like_type_spec, p4_data_type_spec::TypeSpec,
};

use super::arrays::unit;
use super::usage;
use crate::names::{Field, Names, Object};
use crate::output::Rows;
use crate::{Error, Report, entry, text};

/// The kinds of objects, as `list` names them.
pub(crate) const KINDS: [&str; 9] = [
    "tables",
    "actions",
    "counters",
    "meters",
    "registers",
    "profiles",
    "valuesets",
    "digests",
    "packets",
];

/// `list`.
pub(super) fn list(names: &Names, words: &[String]) -> Result<Report, Error> {
    let kinds = match words {
        [] => KINDS.to_vec(),
        [kind] => match KINDS.iter().find(|known| *known == kind) {
            Some(kind) => vec![*kind],
            None => {
                return Err(crate::error::unknown(
                    "there are no objects of the kind",
                    kind,
                    KINDS.into_iter(),
                ));
            }
        },
        _ => return Err(usage("list")),
    };
    let titled = kinds.len() > 1;
    let mut report = Report::default();
    let mut json = serde_json::Map::new();
    for kind in kinds {
        let (rows, value) = of_kind(names, kind, if titled { kind } else { "" });
        report = report.rows(rows);
        json.insert(kind.to_owned(), Value::Array(value));
    }
    if report.is_empty() {
        report = report.line("the program has none");
    }
    Ok(report.with_json(Value::Object(json)))
}

fn of_kind(names: &Names, kind: &str, title: &str) -> (Rows, Vec<Value>) {
    match kind {
        "tables" => tables(names, title),
        "actions" => actions(names, title),
        "counters" => counters(names, title),
        "meters" => meters(names, title),
        "registers" => registers(names, title),
        "profiles" => profiles(names, title),
        "valuesets" => value_sets(names, title),
        "digests" => digests(names, title),
        _ => packets(names, title),
    }
}

fn key(field: &Field) -> String {
    format!("{}: {} {}", field.shown, field.kind.name(), field.type_name())
}

fn json_fields(fields: &[Field]) -> Value {
    let field = |field: &Field| json!({ "name": field.name, "type": field.type_name(), "match": field.kind.name() });
    fields.iter().map(field).collect::<Vec<Value>>().into()
}

fn tables(names: &Names, title: &str) -> (Rows, Vec<Value>) {
    let mut rows = Rows::new(title, ["table", "keys", "actions", "#size", "with"]);
    let mut json = Vec::new();
    for table in names.all::<Table>() {
        let fields = names.keys(table);
        let actions: Vec<&str> = names.actions(table, false).map(Object::alias).collect();
        let mut with = Vec::new();
        with.extend(names.counter_of(table).map(|_| "counter".to_owned()));
        with.extend(names.meter_of(table).map(|_| "meter".to_owned()));
        with.extend(names.profile_of(table).map(|one| format!("profile {}", one.alias())));
        with.extend(table.is_const_table.then(|| "const".to_owned()));
        rows.push([
            table.alias().to_owned(),
            fields.iter().map(key).collect::<Vec<String>>().join("\n"),
            actions.join(", "),
            table.size.to_string(),
            with.join(", "),
        ]);
        let actions: Vec<&str> = names.actions(table, false).map(Object::name).collect();
        json.push(json!({
            "name": table.name(), "keys": json_fields(&fields), "actions": actions,
            "size": table.size, "const": table.is_const_table,
            "counter": names.counter_of(table).map(Object::name),
            "meter": names.meter_of(table).map(Object::name),
            "profile": names.profile_of(table).map(Object::name),
        }));
    }
    (rows, json)
}

fn params(fields: &[Field]) -> String {
    let param = |field: &Field| format!("{}: {}", field.shown, field.type_name());
    fields.iter().map(param).collect::<Vec<String>>().join(", ")
}

fn actions(names: &Names, title: &str) -> (Rows, Vec<Value>) {
    let mut rows = Rows::new(title, ["action", "parameters"]);
    let mut json = Vec::new();
    for action in names.all::<Action>() {
        let fields = names.params(action);
        rows.push([action.alias().to_owned(), params(&fields)]);
        let of = |field: &Field| json!({ "name": field.name, "type": field.type_name() });
        let fields: Vec<Value> = fields.iter().map(of).collect();
        json.push(json!({ "name": action.name(), "parameters": fields }));
    }
    (rows, json)
}

fn counted(spec: Option<&CounterSpec>) -> &'static str {
    match spec.map_or(counter_spec::Unit::Unspecified, CounterSpec::unit) {
        counter_spec::Unit::Bytes => "bytes",
        counter_spec::Unit::Packets => "packets",
        counter_spec::Unit::Both => "packets and bytes",
        counter_spec::Unit::Unspecified => "",
    }
}

fn counters(names: &Names, title: &str) -> (Rows, Vec<Value>) {
    let mut rows = Rows::new(title, ["counter", "of", "counts"]);
    let mut json = Vec::new();
    for one in names.all::<Counter>() {
        array(&mut rows, &mut json, one, one.size, counted(one.spec.as_ref()));
    }
    for one in names.all::<DirectCounter>() {
        let unit = counted(one.spec.as_ref());
        direct(&mut rows, &mut json, names, one, one.direct_table_id, unit);
    }
    (rows, json)
}

/// Adds a counter or meter with indices.
fn array(rows: &mut Rows, json: &mut Vec<Value>, one: &impl Object, size: i64, unit: &str) {
    rows.push([one.alias().to_owned(), format!("{size} indices"), unit.to_owned()]);
    json.push(json!({ "name": one.name(), "size": size, "counts": unit, "table": null }));
}

/// Adds a counter or meter of the entries of a table.
fn direct(
    rows: &mut Rows,
    json: &mut Vec<Value>,
    names: &Names,
    one: &impl Object,
    table: u32,
    unit: &str,
) {
    let of = format!("entries of {}", text::name::<Table>(names, table));
    rows.push([one.alias().to_owned(), of, unit.to_owned()]);
    let table = names.by_id::<Table>(table).map(Object::name);
    json.push(json!({ "name": one.name(), "size": null, "counts": unit, "table": table }));
}

fn metered(spec: Option<&MeterSpec>) -> &'static str {
    spec.map_or("", |spec| unit(spec.unit()))
}

fn meters(names: &Names, title: &str) -> (Rows, Vec<Value>) {
    let mut rows = Rows::new(title, ["meter", "of", "counts"]);
    let mut json = Vec::new();
    for one in names.all::<Meter>() {
        array(&mut rows, &mut json, one, one.size, metered(one.spec.as_ref()));
    }
    for one in names.all::<DirectMeter>() {
        let unit = metered(one.spec.as_ref());
        direct(&mut rows, &mut json, names, one, one.direct_table_id, unit);
    }
    (rows, json)
}

/// A type as in P4.
fn type_name(spec: Option<&P4DataTypeSpec>) -> String {
    use p4_bitstring_like_type_spec::TypeSpec as Bits;
    match spec.and_then(|spec| spec.type_spec.as_ref()) {
        Some(TypeSpec::Bitstring(bits)) => match &bits.type_spec {
            Some(Bits::Bit(bit)) => format!("bit<{}>", bit.bitwidth),
            Some(Bits::Int(int)) => format!("int<{}>", int.bitwidth),
            Some(Bits::Varbit(varbit)) => format!("varbit<{}>", varbit.max_bitwidth),
            None => "?".to_owned(),
        },
        Some(TypeSpec::Bool(_)) => "bool".to_owned(),
        Some(TypeSpec::Tuple(tuple)) => {
            let members = tuple.members.iter().map(|member| type_name(Some(member)));
            format!("tuple<{}>", members.collect::<Vec<String>>().join(", "))
        }
        Some(
            TypeSpec::Struct(name)
            | TypeSpec::Header(name)
            | TypeSpec::HeaderUnion(name)
            | TypeSpec::Enum(name)
            | TypeSpec::SerializableEnum(name)
            | TypeSpec::NewType(name),
        ) => name.name.clone(),
        Some(TypeSpec::Error(_)) => "error".to_owned(),
        _ => "?".to_owned(),
    }
}

fn registers(names: &Names, title: &str) -> (Rows, Vec<Value>) {
    let mut rows = Rows::new(title, ["register", "#size", "type"]);
    let mut json = Vec::new();
    for one in names.all::<Register>() {
        let ty = type_name(one.type_spec.as_ref());
        rows.push([one.alias().to_owned(), one.size.to_string(), ty.clone()]);
        json.push(json!({ "name": one.name(), "size": one.size, "type": ty }));
    }
    (rows, json)
}

fn profiles(names: &Names, title: &str) -> (Rows, Vec<Value>) {
    let mut rows = Rows::new(title, ["profile", "#size", "tables", "selector"]);
    let mut json = Vec::new();
    for one in names.all::<ActionProfile>() {
        let of = |id: &u32| text::name::<Table>(names, *id);
        let tables: Vec<String> = one.table_ids.iter().map(of).collect();
        let selector = if one.with_selector { "yes" } else { "no" };
        rows.push([
            one.alias().to_owned(),
            one.size.to_string(),
            tables.join(", "),
            selector.to_owned(),
        ]);
        let tables = one.table_ids.iter().filter_map(|&id| names.by_id::<Table>(id));
        json.push(json!({
            "name": one.name(), "size": one.size, "selector": one.with_selector,
            "tables": tables.map(Object::name).collect::<Vec<&str>>(),
        }));
    }
    (rows, json)
}

fn value_sets(names: &Names, title: &str) -> (Rows, Vec<Value>) {
    let mut rows = Rows::new(title, ["value set", "#size", "keys"]);
    let mut json = Vec::new();
    for one in names.all::<ValueSet>() {
        let fields = names.members(one);
        let keys = fields.iter().map(key).collect::<Vec<String>>().join(", ");
        rows.push([one.alias().to_owned(), one.size.to_string(), keys]);
        json.push(json!({ "name": one.name(), "size": one.size, "keys": json_fields(&fields) }));
    }
    (rows, json)
}

fn digests(names: &Names, title: &str) -> (Rows, Vec<Value>) {
    let mut rows = Rows::new(title, ["digest", "type"]);
    let mut json = Vec::new();
    for one in names.all::<Digest>() {
        let ty = type_name(one.type_spec.as_ref());
        rows.push([one.alias().to_owned(), ty.clone()]);
        json.push(json!({ "name": one.name(), "type": ty }));
    }
    (rows, json)
}

fn packets(names: &Names, title: &str) -> (Rows, Vec<Value>) {
    let mut rows = Rows::new(title, ["header of packets", "fields"]);
    let mut json = Vec::new();
    for header in ["packet_in", "packet_out"] {
        let fields = names.metadata(header);
        if fields.is_empty() {
            continue;
        }
        rows.push([header.to_owned(), params(&fields)]);
        let of = |field: &Field| json!({ "name": field.name, "type": field.type_name() });
        json.push(
            json!({ "name": header, "fields": fields.iter().map(of).collect::<Vec<Value>>() }),
        );
    }
    (rows, json)
}

/// `describe`.
pub(super) fn describe(names: &Names, words: &[String]) -> Result<Report, Error> {
    let [name] = words else { return Err(usage("describe")) };
    let info = names.info();
    if let Some(table) = names.look::<Table>(name)? {
        return Ok(describe_table(names, table));
    }
    if let Some(action) = names.look::<Action>(name)? {
        let uses = |table: &&Table| table.action_refs.iter().any(|one| one.id == action.id());
        let tables = info.tables.iter().filter(uses).map(Object::alias);
        let text = format!(
            "action      {}\nparameters  {}\ntables      {}",
            action.name(),
            params(&names.params(action)),
            tables.collect::<Vec<&str>>().join(", ")
        );
        let (_, all) = actions(names, "");
        let json = all.into_iter().find(|one| one["name"] == action.name());
        return Ok(Report::new(json.unwrap_or_default()).line(text));
    }
    for kind in &KINDS[2..8] {
        let (_, found) = of_kind(names, kind, "");
        let same = |one: &&Value| {
            let full = one["name"].as_str().unwrap_or_default();
            full == name || full.strip_suffix(name.as_str()).is_some_and(|rest| rest.ends_with('.'))
        };
        if let Some(one) = found.iter().find(same) {
            let lines = one.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
            let line = |(what, value): (&String, &Value)| match value {
                Value::String(text) => format!("{what:<10} {text}"),
                value => format!("{what:<10} {value}"),
            };
            let text = lines.map(line).collect::<Vec<String>>().join("\n");
            return Ok(Report::new(one.clone()).line(text));
        }
    }
    let tables = info.tables.iter().map(Object::alias);
    let all: Vec<&str> = tables.chain(info.actions.iter().map(Object::alias)).collect();
    Err(names.missing("object", name, all.iter().copied()))
}

fn describe_table(names: &Names, table: &Table) -> Report {
    let fields = names.keys(table);
    let mut lines = vec![format!("table {}, {} entries", table.name(), table.size)];
    for field in &fields {
        let (kind, ty) = (field.kind.name(), field.type_name());
        lines.push(format!("  key     {:<20} {kind} {ty}  ({})", field.shown, field.name));
    }
    for action in names.actions(table, false) {
        lines.push(format!("  action  {}", entry::usage(names, action)));
    }
    let counter = names.counter_of(table).map(|one| format!("counter {}", one.alias()));
    let meter = names.meter_of(table).map(|one| format!("meter   {}", one.alias()));
    let profile = names.profile_of(table).map(|one| format!("profile {}", one.alias()));
    lines.extend(counter.into_iter().chain(meter).chain(profile).map(|line| format!("  {line}")));
    if let Some(action) = names.actions(table, false).next()
        && !table.is_const_table
    {
        let keys: String = fields.iter().map(|field| format!(" {}", example(field))).collect();
        let ranked = fields.iter().any(|field| field.kind.is_ranked());
        let priority = if ranked { " priority=N" } else { "" };
        let usage = entry::usage(names, action);
        lines.push(format!("add {}{keys}{priority} {usage}", table.alias()));
    }
    let (_, all) = tables(names, "");
    let json = all.into_iter().find(|one| one["name"] == table.name());
    Report::new(json.unwrap_or_default()).line(lines.join("\n"))
}

/// A key as it is written in a command.
fn example(field: &Field) -> String {
    use crate::names::Match;
    let value = match field.ty {
        crate::value::Type::Name => "NAME",
        crate::value::Type::Bits(_) => field.format.example(),
    };
    let name = &field.shown;
    match field.kind {
        Match::Exact | Match::Optional => format!("{name}={value}"),
        Match::Lpm => format!("{name}={value}/LENGTH"),
        Match::Ternary => format!("{name}={value}&&&MASK"),
        Match::Range => format!("{name}={value}..{value}"),
    }
}
