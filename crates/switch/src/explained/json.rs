//! The tree as JSON. `docs/reference/trace.md` describes it.

use serde_json::{Map, Value, json};

use crate::explained::node::Node;

/// Version of the format. It changes if a reader of the previous one could misunderstand the new one;
/// kinds and details may be added without.
pub const VERSION: u32 = 1;

/// A trace as a document: the program's main file, the number of ways through it, and whether it was
/// cut.
#[must_use]
pub fn json(root: &Node, source: &str, ways: usize, cut: bool) -> Value {
    json!({
        "version": VERSION,
        "program": source,
        "ways": ways,
        "cut": cut,
        "tree": node(root),
    })
}

fn node(of: &Node) -> Value {
    let mut map = Map::new();
    map.insert("kind".to_owned(), of.kind.name().into());
    map.insert("text".to_owned(), of.text.clone().into());
    if let Some(at) = &of.at {
        map.insert("at".to_owned(), at.clone().into());
    }
    map.extend(of.facts.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    if !of.children.is_empty() {
        map.insert("children".to_owned(), of.children.iter().map(node).collect());
    }
    Value::Object(map)
}
