//! From steps to a tree.

mod events;

use std::collections::HashMap;

use crate::trace::{CopyOf, Step, What};
use serde_json::json;
use tributary_dataplane::Verdict;
use tributary_dataplane::trace::{Choice, ChoiceOf};
use tributary_p4::Architecture;
use tributary_p4::ir::{FieldId, Position, Program};

use crate::explained::forks::Fork;
use crate::explained::names::{Names, hex, loss, pass};
use crate::explained::node::{Facts, Kind, Node};

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

    /// The tree below a node. Copies of copies make it deeper than a stack, so this does not recurse.
    fn finish(self, root: usize) -> Node {
        let mut finished: Vec<Option<Node>> = Vec::new();
        finished.resize_with(self.nodes.len(), || None);
        // Children have greater numbers than their parents.
        for (number, growing) in self.nodes.into_iter().enumerate().rev() {
            let children = growing.children.iter().filter_map(|&child| finished[child].take());
            let children = children.collect();
            finished[number] = Some(Node { children, ..growing.node });
        }
        finished[root].take().expect("added")
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
                let which = pass(*instance);
                let text = format!("ingress, {which}, port {port}, {} bytes", frame.len());
                let facts = vec![
                    ("pass", json!(which)),
                    ("port", json!(port)),
                    ("time_us", json!(time_us)),
                    ("bytes", json!(hex(frame))),
                ];
                self.copy(copy).error = None;
                self.pass(copy, Kind::Ingress, text, facts);
            }
            What::Egress { port, rid, instance, time_us } => {
                let which = pass(*instance);
                let text = format!("egress, {which}, port {port}, replication id {rid}");
                let facts = vec![
                    ("pass", json!(which)),
                    ("port", json!(port)),
                    ("rid", json!(rid)),
                    ("time_us", json!(time_us)),
                ];
                self.pass(copy, Kind::Egress, text, facts);
            }
            What::Event(event) => self.event(copy, event),
            What::Choice { choice, taken } => {
                let (text, mut facts) = self.choice_text(choice);
                let (outcome, details) = self.outcome_text(choice, *taken);
                facts.extend(details);
                self.leaf(copy, Kind::Match, format!("{text}: {outcome}"), facts);
            }
            What::Verdict(verdict) => self.verdict(copy, verdict),
            What::Resubmitted => self.again(copy, "resubmitted: ingress starts again", vec![]),
            What::Recirculated => {
                self.again(copy, "recirculated: the frame enters the parser", vec![]);
            }
            What::ResubmitLimit => {
                self.drop(copy, "it was resubmitted too often".to_owned(), None);
            }
            What::RecirculationLimit => {
                self.drop(copy, "too many packets wait for recirculation".to_owned(), None);
            }
            What::Elsewhere(core) => {
                let text = format!("goes on at core {core}, without a trace");
                self.again(copy, text, vec![("core", json!(core))]);
            }
            What::Copied { copy: new, why, port, rid } => {
                self.copied(copy, *new, *why, *port, *rid);
            }
            What::Lost { why, port, reason } => {
                let what = copy_of(*why);
                let to = port.map_or(String::new(), |port| format!(" for port {port}"));
                let because = loss(*reason);
                let reason = format!("{what}{to}: {because}");
                self.drop(copy, reason, None);
            }
            What::Deflected { from, to } => {
                let text = format!("the queue of port {from} is full: deflected to port {to}");
                self.again(copy, text, vec![("from", json!(from)), ("to", json!(to))]);
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

    /// Begins a pass of a copy through ingress or egress.
    fn pass(&mut self, copy: u32, kind: Kind, text: String, facts: Facts) {
        self.close_all(copy);
        let state = self.copy(copy);
        state.failed = None;
        state.decided.clear();
        self.push(copy, kind, text, facts);
    }

    /// Ends a pass after which another follows.
    fn again(&mut self, copy: u32, text: impl Into<String>, facts: Facts) {
        self.close_all(copy);
        self.leaf(copy, Kind::Again, text, facts);
    }

    fn copied(&mut self, copy: u32, new: u32, why: CopyOf, port: u16, rid: u16) {
        let top = self.copy(copy).open[0];
        let what = copy_of(why);
        let text = format!("copy {new}: {what}, for port {port}, replication id {rid}");
        let facts = vec![
            ("copy", json!(new)),
            ("of", json!(copy)),
            ("why", json!(what)),
            ("port", json!(port)),
            ("rid", json!(rid)),
        ];
        let node = self.add(Some(top), Kind::Copy, text, facts);
        self.copies.insert(new, Copy::new(node));
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
