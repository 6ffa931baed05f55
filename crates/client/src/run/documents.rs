//! Entries, actions and rates for programs. Keys and names are stable: docs/reference/p4runtime-client.md has them.

use serde_json::{Map, Value, json};
use tributary_p4runtime::p4::config::v1::{Action, Table};
use tributary_p4runtime::p4::v1::{self as p4, MeterConfig, TableEntry, table_action};

use crate::entry;
use crate::names::{Names, Object};

/// An entry for programs.
pub(super) fn entry(names: &Names, table: &Table, one: &TableEntry) -> Value {
    let fields = names.keys(table);
    let keys = fields.iter().filter_map(|field| {
        let found = one.r#match.iter().find(|key| key.field_id == field.id)?;
        Some((field.name.clone(), Value::from(crate::matches::show(field, found))))
    });
    let mut object = Map::new();
    object.insert("table".into(), table.name().into());
    object.insert("keys".into(), Value::Object(keys.collect()));
    if let Some(called) = &one.action {
        object.insert("action".into(), action(names, called));
    }
    let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
    if one.is_default_action {
        put("default", true.into());
    }
    if one.is_const {
        put("const", true.into());
    }
    if one.priority != 0 {
        put("priority", one.priority.into());
    }
    if one.idle_timeout_ns != 0 {
        put("timeout_ns", one.idle_timeout_ns.into());
    }
    if !one.metadata.is_empty() {
        put("metadata", entry::hex(&one.metadata).into());
    }
    if let Some(data) = &one.counter_data {
        put("counter", json!({ "packets": data.packet_count, "bytes": data.byte_count }));
    }
    if let Some(config) = &one.meter_config {
        put("meter", rates(config));
    }
    Value::Object(object)
}

fn action(names: &Names, action: &p4::TableAction) -> Value {
    match &action.r#type {
        Some(table_action::Type::Action(one)) => call(names, one),
        Some(table_action::Type::ActionProfileMemberId(id)) => json!({ "member": id }),
        Some(table_action::Type::ActionProfileGroupId(id)) => json!({ "group": id }),
        Some(table_action::Type::ActionProfileActionSet(set)) => {
            let all = set.action_profile_actions.iter().map(|one| {
                let call = one.action.as_ref().map_or(Value::Null, |one| call(names, one));
                json!({ "action": call, "weight": one.weight })
            });
            json!({ "set": all.collect::<Vec<Value>>() })
        }
        None => Value::Null,
    }
}

/// A call of an action for programs.
pub(super) fn call(names: &Names, call: &p4::Action) -> Value {
    let Some(action) = names.by_id::<Action>(call.action_id) else { return Value::Null };
    let fields = names.params(action);
    let params = call.params.iter().filter_map(|param| {
        let field = fields.iter().find(|field| field.id == param.param_id)?;
        Some((field.name.clone(), Value::from(field.show(&param.value))))
    });
    json!({ "name": action.name(), "params": Value::Object(params.collect()) })
}

/// The rates of a meter for programs.
pub(super) fn rates(config: &MeterConfig) -> Value {
    json!({
        "cir": config.cir, "cburst": config.cburst, "pir": config.pir, "pburst": config.pburst,
    })
}
