//! From steps to a tree.

use std::collections::HashMap;

use crate::trace::{CopyOf, Step, What};
use serde_json::{Value as Json, json};
use tributary_dataplane::Verdict;
use tributary_dataplane::trace::{Choice, ChoiceOf, Event, Lookup, Request};
use tributary_p4::Architecture;
use tributary_p4::ir::{FieldId, FieldRole, Inlined, Position, Program, Target, Transition};

use crate::explained::forks::Fork;
use crate::explained::names::{Names, hex};

/// The kind of a node; its name in JSON is stable.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "docs/reference/trace.md describes them by their names")]
pub enum Kind {
    Packet,
    Copy,
    Ingress,
    Egress,
    Parser,
    Control,
    State,
    Transition,
    Function,
    Action,
    Table,
    Key,
    Match,
    Condition,
    Switch,
    Call,
    Extract,
    Lookahead,
    Advance,
    Emit,
    Write,
    Metadata,
    Register,
    Counter,
    Meter,
    Hash,
    Checksum,
    Random,
    ValueSet,
    Request,
    Digest,
    Log,
    Error,
    Verdict,
    Drop,
    Sent,
    Again,
    Fork,
    Outcome,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 39] = [
        Self::Packet,
        Self::Copy,
        Self::Ingress,
        Self::Egress,
        Self::Parser,
        Self::Control,
        Self::State,
        Self::Transition,
        Self::Function,
        Self::Action,
        Self::Table,
        Self::Key,
        Self::Match,
        Self::Condition,
        Self::Switch,
        Self::Call,
        Self::Extract,
        Self::Lookahead,
        Self::Advance,
        Self::Emit,
        Self::Write,
        Self::Metadata,
        Self::Register,
        Self::Counter,
        Self::Meter,
        Self::Hash,
        Self::Checksum,
        Self::Random,
        Self::ValueSet,
        Self::Request,
        Self::Digest,
        Self::Log,
        Self::Error,
        Self::Verdict,
        Self::Drop,
        Self::Sent,
        Self::Again,
        Self::Fork,
        Self::Outcome,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Packet => "packet",
            Self::Copy => "copy",
            Self::Ingress => "ingress",
            Self::Egress => "egress",
            Self::Parser => "parser",
            Self::Control => "control",
            Self::State => "state",
            Self::Transition => "transition",
            Self::Function => "function",
            Self::Action => "action",
            Self::Table => "table",
            Self::Key => "key",
            Self::Match => "match",
            Self::Condition => "condition",
            Self::Switch => "switch",
            Self::Call => "call",
            Self::Extract => "extract",
            Self::Lookahead => "lookahead",
            Self::Advance => "advance",
            Self::Emit => "emit",
            Self::Write => "write",
            Self::Metadata => "metadata",
            Self::Register => "register",
            Self::Counter => "counter",
            Self::Meter => "meter",
            Self::Hash => "hash",
            Self::Checksum => "checksum",
            Self::Random => "random",
            Self::ValueSet => "value-set",
            Self::Request => "request",
            Self::Digest => "digest",
            Self::Log => "log",
            Self::Error => "error",
            Self::Verdict => "verdict",
            Self::Drop => "drop",
            Self::Sent => "sent",
            Self::Again => "again",
            Self::Fork => "fork",
            Self::Outcome => "outcome",
        }
    }
}

/// A node of the tree.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// Its kind.
    pub kind: Kind,
    /// One line of text.
    pub text: String,
    /// `file:line` in the program's source.
    pub at: Option<String>,
    /// The details, by name. Names are stable.
    pub facts: Vec<(&'static str, Json)>,
    /// What happened within, in order.
    pub children: Vec<Self>,
}

impl Node {
    /// A detail.
    #[must_use]
    pub fn fact(&self, name: &str) -> Option<&Json> {
        self.facts.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Itself and all nodes below, parents first.
    pub fn all(&self) -> impl Iterator<Item = &Self> {
        let mut open = vec![self];
        std::iter::from_fn(move || {
            let next = open.pop()?;
            open.extend(next.children.iter().rev());
            Some(next)
        })
    }
}

type Facts = Vec<(&'static str, Json)>;

/// The tree of a packet: `port` and `frame` as it arrived, and its steps with their forks.
#[must_use]
pub fn tree(program: &Program, port: u16, frame: &[u8], steps: &Fork) -> Node {
    let mut builder = Builder::new(program);
    let text = format!("packet on port {port}, {} bytes: {}", frame.len(), hex(frame));
    let facts = vec![("port", json!(port)), ("bytes", json!(hex(frame)))];
    let root = builder.add(None, Kind::Packet, text, facts);
    builder.copies.insert(0, Copy::new(root));
    builder.fork(root, steps);
    builder.finish(root)
}

/// A node while the tree grows.
struct Growing {
    node: Node,
    children: Vec<usize>,
}

/// Where one copy of the packet is.
#[derive(Clone)]
struct Copy {
    /// Open nodes, outermost first; the first one is the copy's own.
    open: Vec<usize>,
    at: Option<Position>,
    /// A node that takes the effects that follow it.
    absorbing: Option<usize>,
    /// Actions that the open table still runs.
    actions: usize,
    /// Where fields that decide about the packet were assigned last, and to what.
    decided: HashMap<FieldId, (String, Option<Position>)>,
    /// Parser error of the pass.
    error: Option<String>,
    /// An assertion that has failed.
    failed: Option<Option<Position>>,
}

impl Copy {
    fn new(node: usize) -> Self {
        Self {
            open: vec![node],
            at: None,
            absorbing: None,
            actions: 0,
            decided: HashMap::new(),
            error: None,
            failed: None,
        }
    }
}

struct Builder<'p> {
    names: Names<'p>,
    program: &'p Program,
    nodes: Vec<Growing>,
    copies: HashMap<u32, Copy>,
    /// Where copies appear that were made before a fork.
    base: usize,
}

impl<'p> Builder<'p> {
    fn new(program: &'p Program) -> Self {
        Self {
            names: Names::new(program),
            program,
            nodes: Vec::new(),
            copies: HashMap::new(),
            base: 0,
        }
    }

    fn add(&mut self, parent: Option<usize>, kind: Kind, text: String, facts: Facts) -> usize {
        let number = self.nodes.len();
        let node = Node { kind, text, at: None, facts, children: Vec::new() };
        self.nodes.push(Growing { node, children: Vec::new() });
        if let Some(parent) = parent {
            self.nodes[parent].children.push(number);
        }
        number
    }

    fn finish(&mut self, root: usize) -> Node {
        let children = std::mem::take(&mut self.nodes[root].children);
        let children = children.into_iter().map(|child| self.finish(child)).collect();
        let empty = Node {
            kind: Kind::Packet,
            text: String::new(),
            at: None,
            facts: Vec::new(),
            children: Vec::new(),
        };
        Node { children, ..std::mem::replace(&mut self.nodes[root].node, empty) }
    }

    /// Adds steps, and then each outcome of the choice that follows, if any.
    fn fork(&mut self, base: usize, fork: &Fork) {
        self.base = base;
        for step in &fork.steps {
            self.step(step);
        }
        let Some((copy, choice, outcomes)) = &fork.then else { return };
        let parent = self.here(*copy);
        let (text, facts) = self.choice_text(choice);
        let node = self.add(Some(parent), Kind::Fork, text, facts);
        self.place(node, *copy);
        let copies = self.copies.clone();
        for (taken, rest) in outcomes {
            let (text, facts) = self.outcome_text(choice, *taken);
            let outcome = self.add(Some(node), Kind::Outcome, text, facts);
            // Everything that follows is within the outcome: so are the ends of what is open here.
            self.copies = copies
                .iter()
                .map(|(&number, old)| {
                    (number, Copy { open: vec![outcome], absorbing: None, ..old.clone() })
                })
                .collect();
            self.fork(outcome, rest);
        }
        self.copies = copies;
    }

    fn choice_text(&self, choice: &Choice) -> (String, Facts) {
        let table = &self.program.tables[choice.table.index()].name;
        let count = choice.outcomes.len();
        let (text, of) = match choice.of {
            ChoiceOf::Members => {
                (format!("{table}: any of {count} members of the group"), "members")
            }
            ChoiceOf::Entries => {
                (format!("{table}: unknown entries, {count} possible outcomes"), "entries")
            }
        };
        (text, vec![("table", json!(table)), ("of", json!(of)), ("outcomes", json!(count))])
    }

    fn outcome_text(&self, choice: &Choice, taken: usize) -> (String, Facts) {
        let Some((call, hit)) = choice.outcomes.get(taken) else {
            return (String::new(), Vec::new());
        };
        let call = call.as_ref().map(|call| self.names.call(choice.table, call));
        let call = call.unwrap_or_else(|| "a member of a group".to_owned());
        let text = match (choice.of, hit) {
            (ChoiceOf::Members, _) if taken == choice.actual => {
                format!("member {taken}: {call}, which this packet's hash picks")
            }
            (ChoiceOf::Members, _) => format!("member {taken}: {call}"),
            (ChoiceOf::Entries, true) => format!("an entry with {call}"),
            (ChoiceOf::Entries, false) => format!("no entry: {call}"),
        };
        (text, vec![("index", json!(taken)), ("action", json!(call)), ("hit", json!(hit))])
    }

    fn copy(&mut self, number: u32) -> &mut Copy {
        if !self.copies.contains_key(&number) {
            // Made before its first step was recorded here.
            let base = self.base;
            let node = self.add(
                Some(base),
                Kind::Copy,
                format!("copy {number}"),
                vec![("copy", json!(number))],
            );
            self.copies.insert(number, Copy::new(node));
        }
        self.copies.get_mut(&number).expect("was just inserted")
    }

    /// The innermost open node of a copy.
    fn here(&mut self, copy: u32) -> usize {
        *self.copy(copy).open.last().expect("the first one stays open")
    }

    fn place(&mut self, node: usize, copy: u32) {
        let at = self.copy(copy).at;
        self.nodes[node].node.at = at.map(|at| self.program.place(at));
    }

    /// Adds a node to the innermost open one.
    fn leaf(&mut self, copy: u32, kind: Kind, text: impl Into<String>, facts: Facts) -> usize {
        let parent = self.here(copy);
        let node = self.add(Some(parent), kind, text.into(), facts);
        self.place(node, copy);
        self.copy(copy).absorbing = None;
        node
    }

    /// Adds an effect to what it is an effect of, if that was just added.
    fn effect(&mut self, copy: u32, kind: Kind, text: impl Into<String>, facts: Facts) -> usize {
        let (parent, absorbing) = (self.here(copy), self.copy(copy).absorbing);
        let node = self.add(Some(absorbing.unwrap_or(parent)), kind, text.into(), facts);
        if absorbing.is_none() {
            self.place(node, copy);
        }
        node
    }

    fn push(&mut self, copy: u32, kind: Kind, text: impl Into<String>, facts: Facts) -> usize {
        let node = self.leaf(copy, kind, text, facts);
        self.copy(copy).open.push(node);
        node
    }

    /// Closes open nodes up to the innermost one of these kinds; all of it if `whole`.
    fn close(&mut self, copy: u32, kinds: &[Kind], whole: bool) {
        let open = self.copy(copy).open.clone();
        let found = open.iter().rposition(|&node| kinds.contains(&self.nodes[node].node.kind));
        // The outermost one stays open.
        if let Some(found) = found {
            self.copy(copy).open.truncate(if whole { found.max(1) } else { found + 1 });
        }
    }

    /// Closes everything but the copy's own node.
    fn close_all(&mut self, copy: u32) {
        let copy = self.copy(copy);
        copy.open.truncate(1);
        copy.absorbing = None;
        copy.at = None;
    }

    fn step(&mut self, step: &Step) {
        let copy = step.copy;
        match &step.what {
            What::Ingress { port, instance, time_us, frame } => {
                self.close_all(copy);
                let state = self.copy(copy);
                (state.error, state.failed) = (None, None);
                state.decided.clear();
                let which = crate::explained::names::pass(*instance);
                let text = format!("ingress, {which}, port {port}, {} bytes", frame.len());
                let facts = vec![
                    ("pass", json!(which)),
                    ("port", json!(port)),
                    ("time_us", json!(time_us)),
                    ("bytes", json!(hex(frame))),
                ];
                self.push(copy, Kind::Ingress, text, facts);
            }
            What::Egress { port, rid, instance, time_us } => {
                self.close_all(copy);
                let state = self.copy(copy);
                state.failed = None;
                state.decided.clear();
                let which = crate::explained::names::pass(*instance);
                let text = format!("egress, {which}, port {port}, replication id {rid}");
                let facts = vec![
                    ("pass", json!(which)),
                    ("port", json!(port)),
                    ("rid", json!(rid)),
                    ("time_us", json!(time_us)),
                ];
                self.push(copy, Kind::Egress, text, facts);
            }
            What::Event(event) => self.event(copy, event),
            What::Choice { choice, taken } => {
                let (text, mut facts) = self.choice_text(choice);
                let (outcome, details) = self.outcome_text(choice, *taken);
                facts.extend(details);
                self.leaf(copy, Kind::Match, format!("{text}: {outcome}"), facts);
            }
            What::Verdict(verdict) => self.verdict(copy, verdict),
            What::Resubmitted => {
                self.close_all(copy);
                self.leaf(copy, Kind::Again, "resubmitted: ingress starts again", vec![]);
            }
            What::Recirculated => {
                self.close_all(copy);
                self.leaf(copy, Kind::Again, "recirculated: the frame enters the parser", vec![]);
            }
            What::ResubmitLimit => {
                self.drop(copy, "it was resubmitted too often".to_owned(), None);
            }
            What::RecirculationLimit => {
                self.drop(copy, "too many packets wait for recirculation".to_owned(), None);
            }
            What::Elsewhere(core) => {
                self.close_all(copy);
                let text = format!("goes on at core {core}, without a trace");
                self.leaf(copy, Kind::Again, text, vec![("core", json!(core))]);
            }
            What::Copied { copy: new, why, port, rid } => {
                let top = self.copy(copy).open[0];
                let what = copy_of(*why);
                let text = format!("copy {new}: {what}, for port {port}, replication id {rid}");
                let facts = vec![
                    ("copy", json!(new)),
                    ("of", json!(copy)),
                    ("why", json!(what)),
                    ("port", json!(port)),
                    ("rid", json!(rid)),
                ];
                let node = self.add(Some(top), Kind::Copy, text, facts);
                self.copies.insert(*new, Copy::new(node));
            }
            What::Lost { why, port, reason } => {
                let what = copy_of(*why);
                let to = port.map_or(String::new(), |port| format!(" for port {port}"));
                let because = crate::explained::names::loss(*reason);
                let reason = format!("{what}{to}: {because}");
                self.drop(copy, reason, None);
            }
            What::Queued { .. } => {}
            What::Sent { port, frame } => {
                self.close_all(copy);
                let text = format!("out: port {port}, {} bytes: {}", frame.len(), hex(frame));
                let facts = vec![("port", json!(port)), ("bytes", json!(hex(frame)))];
                self.leaf(copy, Kind::Sent, text, facts);
            }
            What::EgressDrop => {
                let (reason, at) = self.why_dropped(copy, false);
                self.drop(copy, reason, at);
            }
            What::Digest { digest, values } => {
                let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                let text = format!("digest {digest} for the controller: {}", values.join(", "));
                let facts = vec![("digest", json!(digest)), ("values", json!(values))];
                self.leaf(copy, Kind::Digest, text, facts);
            }
        }
    }

    fn drop(&mut self, copy: u32, reason: String, at: Option<Position>) {
        let facts = vec![("reason", json!(reason))];
        self.copy(copy).at = at;
        self.leaf(copy, Kind::Drop, format!("dropped: {reason}"), facts);
    }

    fn verdict(&mut self, copy: u32, verdict: &Verdict) {
        self.close(copy, &[Kind::Ingress], false);
        let (port_of, group_of) = match self.program.architecture() {
            Some(Architecture::Tna) => ("ig_tm_md.ucast_egress_port", "ig_tm_md.mcast_grp_a"),
            Some(Architecture::Psa) => {
                ("ingress_output.egress_port", "ingress_output.multicast_group")
            }
            _ => ("egress_spec", "mcast_grp"),
        };
        let (field, to) = match verdict {
            Verdict::Drop => {
                let (reason, at) = self.why_dropped(copy, true);
                return self.drop(copy, reason, at);
            }
            Verdict::Elsewhere(core) => (None, json!({ "core": core })),
            Verdict::Unicast(port) => (Some(port_of), json!({ "port": port })),
            Verdict::Multicast(group) => (Some(group_of), json!({ "groups": [group] })),
            Verdict::Replicate(copies) => (
                None,
                json!({
                    "port": copies.unicast,
                    "groups": copies.groups.iter().filter(|group| **group != 0).collect::<Vec<_>>(),
                    "to_cpu": copies.to_cpu,
                }),
            ),
        };
        let what = match verdict {
            Verdict::Unicast(port) => format!("to port {port}"),
            Verdict::Multicast(group) => format!("to multicast group {group}"),
            Verdict::Replicate(copies) => {
                let mut parts: Vec<String> = Vec::new();
                parts.extend(copies.unicast.map(|port| format!("port {port}")));
                let groups = copies.groups.iter().filter(|group| **group != 0);
                parts.extend(groups.map(|group| format!("multicast group {group}")));
                parts.extend(copies.to_cpu.then(|| "the controller".to_owned()));
                format!("to {}", parts.join(" and "))
            }
            _ => "goes on at another core".to_owned(),
        };
        let field = field.and_then(|name| self.program.intrinsic_field(name));
        let state = self.copy(copy);
        let decided = field.and_then(|field| state.decided.get(&field).cloned());
        state.at = decided.as_ref().and_then(|(_, at)| *at);
        let by = decided.map_or(String::new(), |_| {
            format!(", by {}", self.names.field(field.expect("one was decided")))
        });
        self.leaf(copy, Kind::Verdict, format!("{what}{by}"), vec![("to", to)]);
    }

    /// Why a packet is dropped at the end of ingress or egress, and where that was decided.
    fn why_dropped(&mut self, copy: u32, ingress: bool) -> (String, Option<Position>) {
        let architecture = self.program.architecture().unwrap_or(Architecture::V1model);
        let fields: &[&str] = match (architecture, ingress) {
            (Architecture::V1model, _) => &["egress_spec"],
            (Architecture::Tna, true) => &["ig_dprsr_md.drop_ctl", "ig_tm_md.ucast_egress_port"],
            (Architecture::Tna, false) => &["eg_dprsr_md.drop_ctl"],
            (Architecture::Psa, true) => &["ingress_output.drop"],
            (Architecture::Psa, false) => &["egress_output.drop"],
        };
        let state = self.copy(copy).clone();
        if let Some(at) = state.failed {
            return ("an assertion failed, or loops took too long".to_owned(), at);
        }
        for name in fields {
            let Some(field) = self.program.intrinsic_field(name) else { continue };
            if let Some((value, at)) = state.decided.get(&field) {
                return (format!("{} is {value}", self.names.field(field)), *at);
            }
        }
        if architecture == Architecture::Tna
            && ingress
            && let Some(error) = state.error
        {
            return (format!("the parser stopped with {error}"), None);
        }
        ("no destination was set".to_owned(), None)
    }

    fn event(&mut self, copy: u32, event: &Event) {
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
            Event::BlockEnd { error } => {
                if let Some(code) = error {
                    let error = self.names.error(*code);
                    let facts = vec![("error", json!(error))];
                    self.leaf(copy, Kind::Error, format!("stops with error {error}"), facts);
                    self.copy(copy).error = Some(error);
                }
                self.close(copy, &[Kind::Ingress, Kind::Egress, Kind::Outcome, Kind::Copy], false);
                self.copy(copy).at = None;
                self.copy(copy).absorbing = None;
            }
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
                let reads = self.reads(reads);
                let with =
                    if reads.is_empty() { String::new() } else { format!("  [{}]", join(&reads)) };
                let line = format!("if ({text}): {holds}{with}");
                let facts = vec![
                    ("condition", json!(text)),
                    ("reads", map(reads)),
                    ("holds", json!(holds)),
                ];
                self.leaf(copy, Kind::Condition, line, facts);
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
            Event::Action { action, params } => {
                let name = &self.program.actions[action.index()].name;
                let params: Vec<(String, String)> = params
                    .iter()
                    .map(|(field, value)| {
                        let full = self.names.field(*field);
                        let own = full.rsplit('.').next().unwrap_or(&full).to_owned();
                        (own, self.names.value(*field, value))
                    })
                    .collect();
                let text = format!("action {name}({})", join(&params));
                let facts = vec![("name", json!(name)), ("params", map(params))];
                self.push(copy, Kind::Action, text, facts);
            }
            Event::ActionEnd => {
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
            Event::Write { field, before, after } => self.write(copy, *field, before, after),
            _ => self.call_event(copy, event),
        }
    }

    /// Adds a node that takes the effects that follow.
    fn absorbing(&mut self, copy: u32, kind: Kind, text: String, facts: Facts) {
        let node = self.leaf(copy, kind, text, facts);
        self.copy(copy).absorbing = Some(node);
    }

    fn reads(&self, reads: &[(FieldId, tributary_dataplane::Value)]) -> Vec<(String, String)> {
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
        on: &[tributary_dataplane::Value],
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
                tributary_p4::ir::ExprKind::Field(field) => self.names.value(field, value),
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
            let selects = key.kind == tributary_p4::ir::MatchKind::Selector;
            let value = if selects { selecting.next() } else { plain.next() };
            let value = value.cloned().unwrap_or_default();
            let shown = match key.value.kind {
                tributary_p4::ir::ExprKind::Field(field) => self.names.value(field, &value),
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

    fn write(
        &mut self,
        copy: u32,
        id: FieldId,
        before: &tributary_dataplane::Value,
        after: &tributary_dataplane::Value,
    ) {
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
                let now = *after != tributary_dataplane::Value::zero();
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

fn copy_of(why: CopyOf) -> String {
    match why {
        CopyOf::Packet => "the packet".to_owned(),
        CopyOf::Group(group) => format!("replica of multicast group {group}"),
        CopyOf::IngressClone(session) => format!("clone for session {session}, after ingress"),
        CopyOf::EgressClone(session) => format!("clone for session {session}, after egress"),
        CopyOf::Mirror(session) => format!("mirrored for session {session}"),
        CopyOf::ToController => "for the controller".to_owned(),
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
