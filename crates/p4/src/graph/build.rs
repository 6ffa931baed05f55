//! Builds the graphs of parsers and controls.

use super::text::Text;
use super::{Edge, Graph, Node, NodeKind};
use crate::ir::{Control, LabelId, Parser, Program, Stmt, Target, Transition};

/// Maximum number of lines of a node; further lines are only counted.
const MOST_LINES: usize = 6;

/// Maximum length in bytes of an edge's label, if it has several cases.
const MOST_LABEL: usize = 40;

/// An edge whose target is not known yet.
type Open = (usize, String);

pub(super) fn parser(program: &Program, parser: &Parser) -> Graph {
    let mut builder = Builder::new(program, &parser.name);
    // The states follow `start`, and the two final nodes follow the states.
    let (accept, reject) = (parser.states.len() + 1, parser.states.len() + 2);
    let node_of = |target: Target| match target {
        Target::Accept => accept,
        Target::Reject => reject,
        Target::State(id) => id.index() + 1,
    };
    for state in &parser.states {
        let mut lines = vec![state.name.clone()];
        let mut statements = Vec::new();
        builder.flatten(&state.body, &mut statements);
        lines.extend(shortened(statements));
        if let Transition::Select { on, .. } = &state.transition {
            let on: Vec<String> = on.iter().map(|value| builder.text.expr(value)).collect();
            lines.push(format!("select ({})", on.join(", ")));
        }
        builder.node(NodeKind::State, lines);
    }
    builder.node(NodeKind::Terminal, vec!["accept".to_owned()]);
    builder.node(NodeKind::Terminal, vec!["reject".to_owned()]);
    let mut edges = Vec::new();
    if !parser.states.is_empty() {
        edges.push((0, 1, String::new()));
    }
    for (number, state) in parser.states.iter().enumerate() {
        match &state.transition {
            Transition::To(target) => edges.push((number + 1, node_of(*target), String::new())),
            Transition::Select { cases, .. } => {
                for (keysets, target) in cases {
                    let label = builder.text.keysets(keysets);
                    edges.push((number + 1, node_of(*target), label));
                }
            }
        }
    }
    for (from, to, label) in edges {
        builder.edge(from, to, label);
    }
    builder.finish()
}

pub(super) fn control(program: &Program, control: &Control) -> Graph {
    let mut builder = Builder::new(program, &control.name);
    let open = builder.walk(&control.body, vec![(0, String::new())]);
    let end = builder.node(NodeKind::Terminal, vec!["end".to_owned()]);
    let exits = std::mem::take(&mut builder.exits);
    builder.close(open.into_iter().chain(exits), end);
    builder.finish()
}

struct Builder<'p> {
    text: Text<'p>,
    graph: Graph,
    /// Edges to the end of the control.
    exits: Vec<Open>,
    /// Edges to the end of each enclosing block.
    returns: Vec<Vec<Open>>,
    /// Edges that leave each enclosing labelled statement.
    leaves: Vec<(LabelId, Vec<Open>)>,
}

impl<'p> Builder<'p> {
    fn new(program: &'p Program, name: &str) -> Self {
        let graph = Graph { name: name.to_owned(), nodes: Vec::new(), edges: Vec::new() };
        let text = Text(program);
        let (exits, returns, leaves) = Default::default();
        let mut builder = Self { text, graph, exits, returns, leaves };
        builder.node(NodeKind::Terminal, vec!["start".to_owned()]);
        builder
    }

    fn node(&mut self, kind: NodeKind, lines: Vec<String>) -> usize {
        self.graph.nodes.push(Node { kind, lines });
        self.graph.nodes.len() - 1
    }

    /// Merges parallel edges.
    fn edge(&mut self, from: usize, to: usize, label: String) {
        let same = |edge: &&mut Edge| (edge.from, edge.to) == (from, to);
        match self.graph.edges.iter_mut().find(same) {
            Some(edge) if edge.label.is_empty() || label.is_empty() => edge.label.clear(),
            Some(edge) if edge.label.ends_with('…') => {}
            Some(edge) if edge.label.len() + label.len() > MOST_LABEL => edge.label.push_str("; …"),
            Some(edge) => edge.label = format!("{}; {label}", edge.label),
            None => self.graph.edges.push(Edge { from, to, label }),
        }
    }

    fn close(&mut self, open: impl IntoIterator<Item = Open>, to: usize) {
        for (from, label) in open {
            self.edge(from, to, label);
        }
    }

    /// Omits unreachable nodes, such as an unused `reject`.
    fn finish(self) -> Graph {
        let Graph { name, nodes, edges } = self.graph;
        let mut reached = vec![false; nodes.len()];
        let mut waiting = vec![0];
        while let Some(node) = waiting.pop() {
            if !std::mem::replace(&mut reached[node], true) {
                waiting.extend(edges.iter().filter(|edge| edge.from == node).map(|edge| edge.to));
            }
        }
        let number: Vec<usize> = reached
            .iter()
            .scan(0, |next, &reached| {
                let this = *next;
                *next += usize::from(reached);
                Some(this)
            })
            .collect();
        let edges = edges
            .into_iter()
            .filter(|edge| reached[edge.from])
            .map(|edge| Edge { from: number[edge.from], to: number[edge.to], label: edge.label })
            .collect();
        let nodes = nodes.into_iter().zip(&reached).filter(|(_, reached)| **reached);
        Graph { name, nodes: nodes.map(|(node, _)| node).collect(), edges }
    }

    /// Converts statements without branches to lines, including those in blocks.
    fn flatten(&self, statements: &[Stmt], lines: &mut Vec<String>) {
        for statement in statements {
            match statement {
                Stmt::Block(body) => self.flatten(body, lines),
                Stmt::Mark(_) => {}
                other => lines.push(self.text.stmt(other)),
            }
        }
    }

    /// Adds the nodes of statements. The open edges lead to the first node; the returned ones come
    /// from the last.
    fn walk(&mut self, statements: &[Stmt], mut open: Vec<Open>) -> Vec<Open> {
        let mut lines = Vec::new();
        for statement in statements {
            if open.is_empty() {
                break;
            }
            if matches!(statement, Stmt::Mark(_)) {
                continue;
            }
            if !branches(statement) {
                lines.push(self.text.stmt(statement));
                continue;
            }
            open = self.statements(&mut lines, open);
            open = self.branch(statement, open);
        }
        self.statements(&mut lines, open)
    }

    /// Creates a node from the lines so far, if there are any.
    fn statements(&mut self, lines: &mut Vec<String>, open: Vec<Open>) -> Vec<Open> {
        if lines.is_empty() || open.is_empty() {
            return open;
        }
        let node = self.node(NodeKind::Statements, shortened(std::mem::take(lines)));
        self.close(open, node);
        vec![(node, String::new())]
    }

    fn branch(&mut self, statement: &Stmt, open: Vec<Open>) -> Vec<Open> {
        match statement {
            Stmt::If { condition, then, otherwise } => {
                let node = self.node(NodeKind::Decision, vec![self.text.expr(condition)]);
                self.close(open, node);
                let mut after = self.walk(then, vec![(node, "yes".to_owned())]);
                after.extend(self.walk(otherwise, vec![(node, "no".to_owned())]));
                after
            }
            Stmt::Switch { on, cases, default } => {
                let node = self.node(NodeKind::Decision, vec![self.text.expr(on)]);
                self.close(open, node);
                let mut after = Vec::new();
                for (value, body) in cases {
                    let label = self.text.case(on, value);
                    after.extend(self.walk(body, vec![(node, label)]));
                }
                after.extend(self.walk(default, vec![(node, "default".to_owned())]));
                after
            }
            Stmt::Apply { table, .. } => {
                let node = self.node(NodeKind::Table, self.text.table(*table));
                self.close(open, node);
                vec![(node, String::new())]
            }
            Stmt::Block(body) => {
                self.returns.push(Vec::new());
                let mut after = self.walk(body, open);
                after.extend(self.returns.pop().into_iter().flatten());
                after
            }
            Stmt::Return => {
                match self.returns.last_mut() {
                    Some(block) => block.extend(open),
                    None => self.exits.extend(open),
                }
                Vec::new()
            }
            Stmt::Exit => {
                self.exits.extend(open);
                Vec::new()
            }
            Stmt::Labelled(label, body) => {
                self.leaves.push((*label, Vec::new()));
                let mut after = self.walk(body, open);
                after.extend(self.leaves.pop().into_iter().flat_map(|(_, open)| open));
                after
            }
            Stmt::Loop(label, body) => {
                let node = self.node(NodeKind::Statements, vec!["loop".to_owned()]);
                self.close(open, node);
                self.leaves.push((*label, Vec::new()));
                let again = self.walk(body, vec![(node, String::new())]);
                self.close(again, node);
                self.leaves.pop().into_iter().flat_map(|(_, open)| open).collect()
            }
            Stmt::Leave(label) => {
                let left = self.leaves.iter_mut().rev().find(|(of, _)| of == label);
                if let Some((_, edges)) = left {
                    edges.extend(open);
                }
                Vec::new()
            }
            // `branches` returns true only for the statements above.
            _ => open,
        }
    }
}

fn branches(statement: &Stmt) -> bool {
    matches!(
        statement,
        Stmt::If { .. }
            | Stmt::Switch { .. }
            | Stmt::Apply { .. }
            | Stmt::Block(_)
            | Stmt::Return
            | Stmt::Exit
            | Stmt::Labelled(..)
            | Stmt::Loop(..)
            | Stmt::Leave(_)
    )
}

fn shortened(mut lines: Vec<String>) -> Vec<String> {
    if lines.len() > MOST_LINES {
        let beyond = lines.len() - (MOST_LINES - 1);
        lines.truncate(MOST_LINES - 1);
        lines.push(format!("… and {beyond} more"));
    }
    lines
}
