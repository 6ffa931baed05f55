//! The tree as a picture: one line for each node, indented, with a bar in the colour of its kind.

use std::fmt::Write;

use crate::explained::fold::{Line, children};
use crate::explained::tree::{Kind, Node};

/// Height of a line, and indentation of a level.
const LINE: usize = 19;
const INDENT: usize = 18;
const MARGIN: usize = 14;
/// Width of a character of the font, which has the same for all.
const CHARACTER: f64 = 7.25;
/// Characters of a line's text, at most.
const LONGEST: usize = 120;

struct Row {
    depth: usize,
    kind: Option<Kind>,
    text: String,
    at: Option<String>,
    /// The row of its parent.
    parent: usize,
}

/// The tree as SVG; with `fold`, without repetitions for each of many values.
#[must_use]
pub fn svg(root: &Node, fold: bool) -> String {
    let mut rows = Vec::new();
    collect(root, 0, 0, fold, &mut rows);
    let width_of = |row: &Row| {
        let characters = row.text.chars().count() + row.at.as_ref().map_or(0, |at| at.len() + 2);
        (MARGIN + row.depth * INDENT) as f64 + 16.0 + characters as f64 * CHARACTER
    };
    let width = rows.iter().map(width_of).fold(300.0, f64::max) as usize + MARGIN;
    let height = rows.len() * LINE + 2 * MARGIN;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\">\n\
         <title>{}</title>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n\
         <g font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" \
         font-size=\"12\">\n",
        escaped(&root.text)
    );
    let x = |row: &Row| MARGIN + row.depth * INDENT;
    let y = |number: usize| MARGIN + number * LINE;
    // Writing to a string cannot fail.
    for (number, row) in rows.iter().enumerate().skip(1) {
        let (from, to) = (x(&rows[row.parent]) + 3, x(row));
        let (top, middle) = (y(row.parent) + LINE - 3, y(number) + LINE / 2);
        let _ = writeln!(
            out,
            "<path d=\"M{from} {top}V{middle}H{to}\" fill=\"none\" stroke=\"#ccd2da\"/>"
        );
    }
    for (number, row) in rows.iter().enumerate() {
        let (x, y) = (x(row), y(number));
        let (bar, ink, weight) = row.kind.map_or(("#ccd2da", "#69727d", "normal"), style);
        let at = row.at.as_ref().map_or(String::new(), |at| {
            format!("<tspan fill=\"#69727d\" font-weight=\"normal\">  {}</tspan>", escaped(at))
        });
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"{}\" width=\"6\" height=\"{}\" rx=\"2\" fill=\"{bar}\"/>\
             <text x=\"{}\" y=\"{}\" fill=\"{ink}\" font-weight=\"{weight}\" xml:space=\"preserve\">{}{at}</text>",
            y + 3,
            LINE - 6,
            x + 12,
            y + LINE - 5,
            escaped(&row.text),
        );
    }
    out.push_str("</g>\n</svg>\n");
    out
}

fn collect(node: &Node, depth: usize, parent: usize, fold: bool, rows: &mut Vec<Row>) {
    let own = rows.len();
    let (kind, text) = (Some(node.kind), shortened(&node.text));
    rows.push(Row { depth, kind, text, at: node.at.clone(), parent });
    for line in children(node, fold) {
        match line {
            Line::Node(child) => collect(child, depth + 1, own, fold, rows),
            Line::More(more) => rows.push(Row {
                depth: depth + 1,
                kind: None,
                text: format!("… {more} more like this"),
                at: None,
                parent: own,
            }),
        }
    }
}

/// Colour of the bar, colour and weight of the text.
fn style(kind: Kind) -> (&'static str, &'static str, &'static str) {
    match kind {
        Kind::Packet | Kind::Copy => ("#24292f", "#24292f", "bold"),
        Kind::Ingress | Kind::Egress => ("#57606a", "#24292f", "bold"),
        Kind::Parser | Kind::State | Kind::Transition => ("#0969da", "#0a3069", "normal"),
        Kind::Control | Kind::Function => ("#0969da", "#0a3069", "bold"),
        Kind::Table | Kind::Key | Kind::Match => ("#8250df", "#512a97", "normal"),
        Kind::Action => ("#1b7c83", "#0f4c50", "bold"),
        Kind::Sent | Kind::Verdict => ("#1a7f37", "#116329", "bold"),
        Kind::Drop | Kind::Error => ("#cf222e", "#a40e26", "bold"),
        Kind::Fork | Kind::Outcome | Kind::Again => ("#bf8700", "#7d4e00", "bold"),
        Kind::Register | Kind::Counter | Kind::Meter | Kind::Hash | Kind::Checksum => {
            ("#bc4c00", "#762d0a", "normal")
        }
        _ => ("#afb8c1", "#24292f", "normal"),
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
