//! Events of the engine.

use serde_json::{Value as Json, json};
use tributary_dataplane::Value;
use tributary_dataplane::trace::{Event, Lookup, Request};
use tributary_p4::ir::{
    ActionId, ExprKind, FieldId, FieldRole, Inlined, MatchKind, Target, Transition,
};

use super::Builder;
use crate::explained::names::hex;
use crate::explained::node::{Facts, Kind};

impl Builder<'_> {
    pub(super) fn event(&mut self, copy: u32, event: &Event) {
        match event {
            Event::Block { role, name } => {
                self.close(copy, &[Kind::Ingress, Kind::Egress, Kind::Outcome, Kind::Copy], false);
                let parser =
                    matches!(role.as_str(), "p" | "ip" | "ep" | "ingress_parser" | "egress_parser");
                let kind = if parser { Kind::Parser } else { Kind::Control };
                self.copy(copy).at = None;
                let text = format!("{} {name}", block(role));
                self.push(copy, kind, text, vec![("role", json!(role)), ("name", json!(name))]);
            }
            Event::BlockEnd { error } => self.block_end(copy, *error),
            Event::At(position) => {
                let copy = self.copy(copy);
                copy.at = Some(*position);
                copy.absorbing = None;
            }
            Event::Enter { kind, name } => {
                let (kind, what) = match kind {
                    Inlined::Function => (Kind::Function, "function"),
                    Inlined::Action => (Kind::Action, "action"),
                    Inlined::Control => (Kind::Control, "control"),
                };
                self.push(copy, kind, format!("{what} {name}"), vec![("name", json!(name))]);
            }
            Event::Leave => {
                self.close(copy, &[Kind::Function, Kind::Action, Kind::Control], true);
                self.copy(copy).absorbing = None;
            }
            Event::State { parser, state } => {
                self.close(copy, &[Kind::Parser, Kind::Outcome], false);
                self.copy(copy).at = None;
                let name = self.program.parsers[parser.index()].states[state.index()].name.clone();
                self.push(copy, Kind::State, format!("state {name}"), vec![("name", json!(name))]);
            }
            Event::Transition { parser, state, on, case, target } => {
                self.transition(copy, parser.index(), state.index(), on, *case, *target);
            }
            Event::Extract { header, offset, bytes } => {
                let name = self.program.headers[header.index()].name.clone();
                let text = format!("extract {name}, {} bytes at {offset}", bytes.len());
                let facts = vec![
                    ("header", json!(name)),
                    ("offset", json!(offset)),
                    ("bytes", json!(hex(bytes))),
                ];
                self.absorbing(copy, Kind::Extract, text, facts);
            }
            Event::Lookahead { offset, bytes } => {
                let text = format!("look ahead, {} bytes at {offset}", bytes.len());
                let facts = vec![("offset", json!(offset)), ("bytes", json!(hex(bytes)))];
                self.absorbing(copy, Kind::Lookahead, text, facts);
            }
            Event::Advance { bytes } => {
                let facts = vec![("bytes", json!(bytes))];
                self.leaf(copy, Kind::Advance, format!("skip {bytes} bytes"), facts);
            }
            Event::Condition { text, reads, holds, .. } => {
                self.condition(copy, text, reads, *holds);
            }
            Event::Switch { text, on, label, .. } => {
                let facts = vec![
                    ("on", json!(text)),
                    ("value", json!(on.to_string())),
                    ("case", json!(label)),
                ];
                self.leaf(copy, Kind::Switch, format!("switch ({text}): {label}"), facts);
            }
            Event::Apply { .. } => self.apply(copy, event),
            Event::Action { action, params } => self.action(copy, *action, params),
            Event::ActionEnd => self.action_end(copy),
            Event::Write { field, before, after } => self.write(copy, *field, before, after),
            _ => self.call_event(copy, event),
        }
    }

    fn block_end(&mut self, copy: u32, error: Option<u64>) {
        if let Some(code) = error {
            let error = self.names.error(code);
            let facts = vec![("error", json!(error))];
            self.leaf(copy, Kind::Error, format!("stops with error {error}"), facts);
            self.copy(copy).error = Some(error);
        }
        self.close(copy, &[Kind::Ingress, Kind::Egress, Kind::Outcome, Kind::Copy], false);
        self.copy(copy).at = None;
        self.copy(copy).absorbing = None;
    }

    fn condition(&mut self, copy: u32, text: &str, reads: &[(FieldId, Value)], holds: bool) {
        let reads = self.reads(reads);
        let with = if reads.is_empty() { String::new() } else { format!("  [{}]", join(&reads)) };
        let line = format!("if ({text}): {holds}{with}");
        let facts =
            vec![("condition", json!(text)), ("reads", map(reads)), ("holds", json!(holds))];
        self.leaf(copy, Kind::Condition, line, facts);
    }

    fn action(&mut self, copy: u32, action: ActionId, params: &[(FieldId, Value)]) {
        let name = &self.program.actions[action.index()].name;
        let params = params.iter().map(|(field, value)| {
            let full = self.names.field(*field);
            let own = full.rsplit('.').next().unwrap_or(&full).to_owned();
            (own, self.names.value(*field, value))
        });
        let params: Vec<(String, String)> = params.collect();
        let text = format!("action {name}({})", join(&params));
        let facts = vec![("name", json!(name)), ("params", map(params))];
        self.push(copy, Kind::Action, text, facts);
    }

    fn action_end(&mut self, copy: u32) {
        self.close(copy, &[Kind::Action], true);
        let here = self.here(copy);
        if self.nodes[here].node.kind == Kind::Table {
            // The table that has started it is done, too, unless this was a group action.
            let left = self.copy(copy).actions.saturating_sub(1);
            self.copy(copy).actions = left;
            if left == 0 {
                self.close(copy, &[Kind::Table], true);
            }
        }
        self.copy(copy).absorbing = None;
    }

    /// Adds a node that takes the effects that follow.
    fn absorbing(&mut self, copy: u32, kind: Kind, text: String, facts: Facts) {
        let node = self.leaf(copy, kind, text, facts);
        self.copy(copy).absorbing = Some(node);
    }

    fn reads(&self, reads: &[(FieldId, Value)]) -> Vec<(String, String)> {
        let shown = reads.iter().filter(|(field, _)| !self.is_temporary(*field));
        shown
            .map(|(field, value)| (self.names.field(*field), self.names.value(*field, value)))
            .collect()
    }

    /// Whether a field is one that the compiler has made up.
    fn is_temporary(&self, field: FieldId) -> bool {
        let field = &self.program.fields[field.index()];
        field.role == FieldRole::Local && field.name.contains(".$")
    }

    fn transition(
        &mut self,
        copy: u32,
        parser: usize,
        state: usize,
        on: &[Value],
        case: Option<usize>,
        target: Target,
    ) {
        let parser = &self.program.parsers[parser];
        let to = match target {
            Target::Accept => "accept".to_owned(),
            Target::Reject => "reject".to_owned(),
            Target::State(state) => parser.states[state.index()].name.clone(),
        };
        let Transition::Select { on: exprs, cases } = &parser.states[state].transition else {
            let facts = vec![("to", json!(to))];
            self.leaf(copy, Kind::Transition, format!("to {to}"), facts);
            return;
        };
        let text = self.names.text();
        let selected = exprs.iter().zip(on).map(|(expr, value)| {
            let shown = match expr.kind {
                ExprKind::Field(field) => self.names.value(field, value),
                _ => self.names.plain(value),
            };
            (text.expr(expr), shown)
        });
        let selected: Vec<_> = selected.collect();
        let case = case.map(|case| text.keysets(&cases[case].0));
        let matched = match &case {
            Some(case) => format!("case {case}"),
            None => "no case matches".to_owned(),
        };
        let line = format!("select {}: {matched}, to {to}", join(&selected));
        let facts = vec![("on", map(selected)), ("case", json!(case)), ("to", json!(to))];
        self.leaf(copy, Kind::Transition, line, facts);
    }

    fn apply(&mut self, copy: u32, event: &Event) {
        let Event::Apply { table, keys, selector, lookup, group_action, action, hash } = event
        else {
            return;
        };
        let id = *table;
        let table = &self.program.tables[id.index()];
        let outcome = match lookup {
            Lookup::Entry(_) => "hit",
            Lookup::Miss => "miss",
            Lookup::AssumedEntry => "assumed entry",
            Lookup::AssumedMiss => "assumed miss",
        };
        let call = action.as_ref().map(|call| self.names.call(id, call));
        let runs = call.clone().unwrap_or_else(|| "nothing, because its group is empty".to_owned());
        let first = group_action.as_ref().map(|call| self.names.call(id, call));
        let runs = first.as_ref().map_or(runs.clone(), |first| format!("{first}, then {runs}"));
        let text = format!("table {}: {outcome}, runs {runs}", table.name);
        let (mut plain, mut selecting) = (keys.iter(), selector.iter());
        let of_keys = table.keys.iter().map(|key| {
            let selects = key.kind == MatchKind::Selector;
            let value = if selects { selecting.next() } else { plain.next() };
            let value = value.cloned().unwrap_or_default();
            let shown = match key.value.kind {
                ExprKind::Field(field) => self.names.value(field, &value),
                _ => self.names.plain(&value),
            };
            (key.name.clone(), format!("{:?}", key.kind).to_lowercase(), shown)
        });
        let of_keys: Vec<_> = of_keys.collect();
        let entry = match lookup {
            Lookup::Entry(entry) => Some(self.names.entry(id, entry)),
            _ => None,
        };
        let mut facts = vec![
            ("table", json!(table.name)),
            ("outcome", json!(outcome)),
            ("action", json!(call)),
        ];
        facts.extend(first.as_ref().map(|first| ("group_action", json!(first))));
        let actions = usize::from(first.is_some()) + usize::from(call.is_some());
        self.copy(copy).actions = actions;
        // Keys and entry have the table's position.
        let node = Some(self.push(copy, Kind::Table, text, facts));
        for (name, kind, value) in of_keys {
            let facts = vec![("key", json!(name)), ("match", json!(kind)), ("value", json!(value))];
            self.add(node, Kind::Key, format!("key {name} = {value} ({kind})"), facts);
        }
        if let Some((line, facts)) = entry {
            self.add(node, Kind::Match, format!("entry {line}"), facts);
        }
        if let Some(hash) = hash {
            let facts = vec![("hash", json!(format!("{hash:#x}")))];
            self.add(node, Kind::Match, format!("the selector's hash is {hash:#x}"), facts);
        }
        if actions == 0 {
            self.close(copy, &[Kind::Table], true);
        }
    }

    fn write(&mut self, copy: u32, id: FieldId, before: &Value, after: &Value) {
        let field = &self.program.fields[id.index()];
        let at = self.copy(copy).at;
        let name = self.names.field(id);
        let (was, is) = (self.names.value(id, before), self.names.value(id, after));
        self.copy(copy).decided.insert(id, (is.clone(), at));
        // Parameters are shown with their action.
        if field.role == FieldRole::ActionParam || self.is_temporary(id) {
            return;
        }
        let text = match field.role {
            FieldRole::Validity(header) => {
                let header = &self.program.headers[header.index()].name;
                let now = *after != Value::zero();
                format!("{header} {}", if now { "becomes valid" } else { "becomes invalid" })
            }
            _ if before == after => format!("{name} = {is}, as before"),
            _ => format!("{name}: {was} → {is}"),
        };
        let facts = vec![("field", json!(name)), ("before", json!(was)), ("after", json!(is))];
        // Between blocks, the architecture sets metadata.
        let here = self.here(copy);
        let kind = match self.nodes[here].node.kind {
            Kind::Ingress | Kind::Egress => Kind::Metadata,
            _ => Kind::Write,
        };
        self.effect(copy, kind, text, facts);
    }

    fn call_event(&mut self, copy: u32, event: &Event) {
        let described = self.names.extern_event(event);
        let Some((kind, text, facts)) = described else { return };
        if let Event::Request { what: Request::Drop, .. } = event {
            let at = self.copy(copy).at;
            self.copy(copy).failed = Some(at);
        }
        if let Event::Assert { holds: false } = event {
            let at = self.copy(copy).at;
            self.copy(copy).failed = Some(at);
        }
        match event {
            Event::Call { .. } => self.absorbing(copy, kind, text, facts),
            Event::Emit { .. } => drop(self.leaf(copy, kind, text, facts)),
            _ => drop(self.effect(copy, kind, text, facts)),
        }
    }
}

fn block(role: &str) -> &'static str {
    match role {
        "p" => "parser",
        "vr" => "checksum verification",
        "ig" => "ingress control",
        "eg" => "egress control",
        "ck" => "checksum computation",
        "dep" => "deparser",
        "ingress_parser" | "ip" => "ingress parser",
        "ingress" => "ingress control",
        "ingress_deparser" | "id" => "ingress deparser",
        "egress_parser" | "ep" => "egress parser",
        "egress" => "egress control",
        "egress_deparser" | "ed" => "egress deparser",
        _ => "block",
    }
}

fn join(pairs: &[(String, String)]) -> String {
    let pairs: Vec<String> =
        pairs.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    pairs.join(", ")
}

fn map(pairs: Vec<(String, String)>) -> Json {
    Json::Object(pairs.into_iter().map(|(name, value)| (name, Json::String(value))).collect())
}
