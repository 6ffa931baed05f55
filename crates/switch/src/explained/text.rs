//! The tree as text.

use std::fmt::Write;

use crate::explained::fold::{Line, children};
use crate::explained::node::{Kind, Node};

/// The tree as text; with colours for a terminal, if asked for. With `fold`, without repetitions for
/// each of many values.
#[must_use]
pub fn text(root: &Node, colours: bool, fold: bool) -> String {
    let mut writer = Writer { out: String::new(), colours, fold };
    writer.line("", root);
    writer.below("", root);
    writer.out
}

struct Writer {
    out: String,
    colours: bool,
    fold: bool,
}

impl Writer {
    fn line(&mut self, before: &str, node: &Node) {
        let at = node.at.as_deref().map_or(String::new(), |at| format!("  {}", self.dim(at)));
        let shown = match colour(node.kind).filter(|_| self.colours) {
            Some(colour) => format!("\x1b[{colour}m{}\x1b[0m", node.text),
            None => node.text.clone(),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(self.out, "{before}{shown}{at}");
    }

    fn dim(&self, text: &str) -> String {
        if self.colours { format!("\x1b[2m{text}\x1b[0m") } else { format!("({text})") }
    }

    fn below(&mut self, before: &str, node: &Node) {
        let lines = children(node, self.fold);
        let count = lines.len();
        for (number, line) in lines.into_iter().enumerate() {
            let last = number + 1 == count;
            let (branch, further) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            match line {
                Line::Node(child) => {
                    self.line(&format!("{before}{branch}"), child);
                    self.below(&format!("{before}{further}"), child);
                }
                Line::More(more) => {
                    let text = self.dim(&format!("… {more} more like this"));
                    let _ = writeln!(self.out, "{before}{branch}{text}");
                }
            }
        }
    }
}

/// The code of a colour.
fn colour(kind: Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::Packet | Kind::Copy | Kind::Ingress | Kind::Egress => "1",
        Kind::Parser | Kind::Control | Kind::State | Kind::Function => "34",
        Kind::Table | Kind::Key | Kind::Match => "35",
        Kind::Action => "36",
        Kind::Sent | Kind::Verdict => "1;32",
        Kind::Drop | Kind::Error => "1;31",
        Kind::Fork | Kind::Outcome => "1;33",
        Kind::Register | Kind::Counter | Kind::Meter | Kind::Hash | Kind::Checksum => "33",
        _ => return None,
    })
}
