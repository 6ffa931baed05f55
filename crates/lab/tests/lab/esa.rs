//! `tributary-lab sim esa`: the figures of ESA's paper.

use std::fs;

use crate::command::{fail, succeed};

#[test]
fn the_figures_of_esa_are_made_by_packets_and_an_interrupted_command_goes_on() {
    let line = fail(&["sim", "esa", "--seeds", "0"]);
    assert!(line.contains("choose 1 to"), "{line}");
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().display().to_string();
    let args = ["sim", "esa", "--figure", "10", "--quick", "--out", &out];
    let shown = succeed(&args);
    assert!(shown.contains("ESA / ATP") && shown.contains("SwitchML"), "{shown}");
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    assert!(read("index.html").contains("<svg"), "a chart on the page");
    let rows = read("figure-10.csv");
    assert_eq!(rows.lines().count(), 3, "{rows}");
    assert!(read("figure-10-1.svg").contains("utilisation"));
    let picture = fs::read(dir.path().join("figure-10-1.png")).unwrap();
    assert!(picture.starts_with(b"\x89PNG\r\n\x1a\n"), "{} bytes", picture.len());
    // Six experiments; without the last two lines, four are still known.
    let results = read("measured.jsonl");
    let lines: Vec<&str> = results.lines().collect();
    assert_eq!(lines.len(), 1 + 6);
    fs::write(dir.path().join("measured.jsonl"), lines[..5].join("\n") + "\n").unwrap();
    assert_eq!(succeed(&args), shown);
    assert_eq!(read("figure-10.csv"), rows);
    assert_eq!(read("measured.jsonl").lines().count(), 1 + 6);
}
