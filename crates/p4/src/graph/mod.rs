//! Parsers and controls as graphs, for people to look at.
//!
//! A graph is what runs: of the IR, where sub-blocks, functions and constants have been resolved
//! already. Neighbouring statements are one node. `build` walks the IR, `text` prints expressions and
//! statements.

mod build;
mod text;

use std::fmt::Write;

use crate::ir::{Block, Program};

/// The graph of one block of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Graph {
    /// Name of the parser or control.
    pub name: String,
    /// Nodes; the first is where packets come in.
    pub nodes: Vec<Node>,
    /// Edges.
    pub edges: Vec<Edge>,
}

/// What happens to a packet at one place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// What kind of place it is.
    pub kind: NodeKind,
    /// Lines of text.
    pub lines: Vec<String>,
}

/// Kinds of [`Node`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeKind {
    /// Where packets come in, or where they have been dealt with.
    Terminal,
    /// A parser state.
    State,
    /// Statements, one after the other.
    Statements,
    /// A condition, or a value that decides.
    Decision,
    /// A match-action table.
    Table,
}

/// From one node to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edge {
    /// Index into [`Graph::nodes`].
    pub from: usize,
    /// Index into [`Graph::nodes`].
    pub to: usize,
    /// When it is taken; empty if always.
    pub label: String,
}

impl Graph {
    /// The graphs of all blocks that the package names and that do something, in the order of the
    /// package.
    #[must_use]
    pub fn of(program: &Program) -> Vec<Self> {
        let graph = |block: Block| match block {
            Block::Parser(id) => build::parser(program, &program.parsers[id.index()]),
            Block::Control(id) => build::control(program, &program.controls[id.index()]),
        };
        let blocks = program.blocks.iter().map(|&(_, block)| graph(block));
        blocks.filter(|graph| graph.nodes.iter().any(|n| n.kind != NodeKind::Terminal)).collect()
    }

    /// The graph in the language of Graphviz.
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

/// Fields of a record have characters of their own that mean something.
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
