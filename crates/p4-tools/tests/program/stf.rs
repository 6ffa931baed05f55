//! `tributary-p4 stf`: the example of docs/reference/stf.md, and errors of tests that cannot run.

use std::path::Path;
use std::process::Output;

use crate::command::{root, text, tributary};

/// The text between the first line that is `begin` and the next that is `end`.
fn between<'a>(page: &'a str, begin: &str, end: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("\n{begin}\n")).expect("the page has it");
    rest.split_once(&format!("\n{end}\n")).expect("it ends").0
}

/// Writes the page's example into a directory. Returns the page's output for the failing test.
fn example(directory: &Path) -> String {
    let page = std::fs::read_to_string(root().join("docs/reference/stf.md")).unwrap();
    std::fs::write(directory.join("port.p4"), between(&page, "```p4", "```")).unwrap();
    std::fs::write(directory.join("port.stf"), between(&page, "```text", "```")).unwrap();
    let shown = page.lines().find(|line| line.starts_with("FAIL: "));
    shown.expect("the page shows a failure").to_owned()
}

fn run(directory: &Path, args: &[&str]) -> Output {
    let args = [&["stf"][..], args].concat();
    tributary(&args).current_dir(directory).output().unwrap()
}

fn fails(directory: &Path, args: &[&str], line: &str) {
    let output = run(directory, args);
    assert_eq!(text(&output.stdout).trim_end(), line);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn the_example_of_the_page_gives_the_output_of_the_page() {
    let directory = tempfile::tempdir().unwrap();
    let failure = example(directory.path());
    let output = run(directory.path(), &["port.p4", "port.stf"]);
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("PASS\n", Some(0)));
    let script = directory.path().join("port.stf");
    let changed = std::fs::read_to_string(&script).unwrap().replace("3 15 **", "3 15 02");
    std::fs::write(&script, changed).unwrap();
    fails(directory.path(), &["port.p4", "port.stf"], &failure);
}

#[test]
fn tests_that_cannot_run_fail_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    example(at);
    std::fs::write(at.join("wrong.stf"), "packet 1 00\n  packet x 00\n").unwrap();
    let reason = "FAIL: wrong.stf:2:10: `x` is not a number: write 10, 0x0a or 0b1010";
    fails(at, &["port.p4", "wrong.stf"], reason);
    std::fs::write(
        at.join("wrong.p4"),
        "#include <v1model.p4>\n#if SIZE == 8\nheader h { x y; }\n#endif\n",
    )
    .unwrap();
    let output = run(at, &["wrong.p4", "port.stf", "-D", "SIZE=8"]);
    let line = text(&output.stdout);
    assert!(line.starts_with("FAIL: wrong.p4:3:12: ") && line.lines().count() == 1, "{line}");
    let absent = "FAIL: cannot read no.stf: No such file or directory (os error 2)";
    fails(at, &["port.p4", "no.stf"], absent);
}
