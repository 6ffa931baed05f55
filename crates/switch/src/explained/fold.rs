//! Folds repetitions: of what a program does to each of many values, the first is enough to read.

use crate::explained::node::{Kind, Node};

/// A line of a folded tree.
pub(crate) enum Line<'t> {
    Node(&'t Node),
    /// This number of lines that repeat the ones before for other values.
    More(usize),
}

/// Longest pattern that is recognised.
const LONGEST: usize = 8;

/// Repetitions from which on the pattern is folded.
const ENOUGH: usize = 4;

/// The children of a node; with `fold`, without repetitions.
pub(crate) fn children(node: &Node, fold: bool) -> Vec<Line<'_>> {
    let all = &node.children;
    if !fold {
        return all.iter().map(Line::Node).collect();
    }
    let stems: Vec<(Kind, String)> = all.iter().map(|node| (node.kind, stem(node))).collect();
    let mut lines = Vec::new();
    let mut at = 0;
    while at < all.len() {
        let best = (1..=LONGEST)
            .map(|length| (length, repetitions(&stems[at..], length)))
            .filter(|&(_, times)| times >= ENOUGH)
            .max_by_key(|&(length, times)| (length * times, usize::MAX - length));
        let Some((length, times)) = best else {
            lines.push(Line::Node(&all[at]));
            at += 1;
            continue;
        };
        lines.extend(all[at..at + length].iter().map(Line::Node));
        lines.push(Line::More(length * (times - 1)));
        at += length * times;
    }
    lines
}

/// How often the beginning of this length is repeated at once, itself included.
fn repetitions(stems: &[(Kind, String)], length: usize) -> usize {
    if length > stems.len() {
        return 0;
    }
    let pattern = &stems[..length];
    stems.chunks(length).take_while(|chunk| *chunk == pattern).count()
}

/// The name of what a node is about, without the digits that distinguish values of an array; empty
/// for nodes that are not about one of many.
fn stem(node: &Node) -> String {
    let name = ["field", "register", "name", "header", "call", "table", "condition"]
        .iter()
        .find_map(|name| node.fact(name)?.as_str());
    match name {
        Some(name) if name.contains(|c: char| c.is_ascii_digit()) => {
            name.chars().filter(|c| !c.is_ascii_digit()).collect()
        }
        // Never equal to another one.
        _ => format!("{:p}", std::ptr::from_ref(node)),
    }
}
