//! The sources: how long a module may be.

use std::fs;

use crate::{listed, root};

/// Most lines of a module, without its tests.
const MODULE: usize = 800;

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
    let (short, long): (Vec<_>, Vec<_>) = lengths.partition(|(_, lines)| *lines <= MODULE);
    assert!(short.len() > 500 && long.is_empty(), "split these modules: {long:#?}");
}
