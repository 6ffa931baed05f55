//! The sources: how long a module may be.

use std::collections::BTreeMap;
use std::fs;

use crate::{listed, root};

/// Most lines of a module, without its tests.
const MODULE: usize = 800;

/// Longer modules, and how long they may be: a number here may only fall.
const LONGER: [(&str, usize); 2] = [
    ("crates/run/src/run.rs", 805),
    ("crates/sim/src/network.rs", 825),
];

/// Lines of a module before its tests.
fn length(text: &str) -> usize {
    let before = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    text[..before].lines().count()
}

#[test]
fn modules_are_short_enough_to_be_read() {
    let modules = listed("*.rs").into_iter().filter(|path| path.contains("/src/"));
    let lengths = modules.map(|path| {
        let text = fs::read_to_string(root().join(&path)).unwrap();
        (path, length(&text))
    });
    let lengths: BTreeMap<String, usize> = lengths.collect();
    let longer = BTreeMap::from(LONGER);
    let wrong = lengths.iter().filter(|(path, lines)| {
        let most = longer.get(path.as_str()).copied().unwrap_or(MODULE);
        **lines > most
    });
    let wrong: Vec<_> = wrong.collect();
    assert!(lengths.len() > 500 && wrong.is_empty(), "split these modules: {wrong:#?}");
    for (path, _) in LONGER {
        let lines = lengths.get(path);
        assert!(
            lines.is_some_and(|lines| *lines > MODULE),
            "{path} has {lines:?} lines: remove it from the list"
        );
    }
}
