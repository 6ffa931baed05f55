//! Graphs of parsers and controls for visualisation.
//!
//! A graph shows the IR, in which sub-blocks, functions and constants have already been resolved.
//! Adjacent statements form one node. `build` walks the IR, `text` prints expressions and
//! statements.

mod build;
mod text;

use std::fmt::Write;

use crate::ir::{Block, Program};

pub use self::text::Text;
pub(crate) use self::text::number;

/// The graph of one block of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Graph {
    /// Name of the parser or control.
    pub name: String,
    /// Nodes; the first one is the entry.
    pub nodes: Vec<Node>,
    /// Edges.
    pub edges: Vec<Edge>,
}

/// A processing step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Its kind.
    pub kind: NodeKind,
    /// Lines of text.
    pub lines: Vec<String>,
}

/// Kinds of [`Node`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeKind {
    /// The entry, or an end of the processing.
    Terminal,
    /// A parser state.
    State,
    /// A sequence of statements.
    Statements,
    /// A condition or a selected value.
    Decision,
    /// A match-action table.
    Table,
}

/// An edge between two nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edge {
    /// Index into [`Graph::nodes`].
    pub from: usize,
    /// Index into [`Graph::nodes`].
    pub to: usize,
    /// The condition; empty if it is unconditional.
    pub label: String,
}

impl Graph {
    /// The graphs of all non-empty blocks of the package, in order.
    #[must_use]
    pub fn of(program: &Program) -> Vec<Self> {
        let graph = |block: Block| match block {
            Block::Parser(id) => build::parser(program, &program.parsers[id.index()]),
            Block::Control(id) => build::control(program, &program.controls[id.index()]),
        };
        let blocks = program.blocks.iter().map(|&(_, block)| graph(block));
        blocks.filter(|graph| graph.nodes.iter().any(|n| n.kind != NodeKind::Terminal)).collect()
    }

    /// The graph in Graphviz DOT.
    #[must_use]
    pub fn to_dot(&self) -> String {
        let mut dot = format!("digraph \"{}\" {{\n", escape(&self.name));
        for (number, node) in self.nodes.iter().enumerate() {
            let shape = match node.kind {
                NodeKind::Terminal => "circle",
                NodeKind::State => "ellipse",
                NodeKind::Statements => "box",
                NodeKind::Decision => "diamond",
                NodeKind::Table => "record",
            };
            let separator = if node.kind == NodeKind::Table { "|" } else { "\\n" };
            let lines: Vec<String> = match node.kind {
                NodeKind::Table => node.lines.iter().map(|line| escape_record(line)).collect(),
                _ => node.lines.iter().map(|line| escape(line)).collect(),
            };
            let text = match node.kind {
                NodeKind::Table => format!("{{{}}}", lines.join(separator)),
                _ => lines.join(separator),
            };
            // Writing to a string cannot fail.
            let _ = writeln!(dot, "  n{number} [shape={shape}, label=\"{text}\"];");
        }
        for Edge { from, to, label } in &self.edges {
            let _ = match label.as_str() {
                "" => writeln!(dot, "  n{from} -> n{to};"),
                label => writeln!(dot, "  n{from} -> n{to} [label=\"{}\"];", escape(label)),
            };
        }
        dot.push_str("}\n");
        dot
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// Escapes characters that have a meaning in record labels.
fn escape_record(text: &str) -> String {
    let special = |c: char| matches!(c, '{' | '}' | '|' | '<' | '>');
    escape(text).chars().fold(String::new(), |mut out, c| {
        if special(c) {
            out.push('\\');
        }
        out.push(c);
        out
    })
}
