//! `tributary-p4 test`: files, reports, and what it refuses.

use std::path::Path;
use std::process::Output;

use crate::command::{root, text, tributary};

fn run(directory: &Path, args: &[&str]) -> Output {
    let args = [&["test"][..], args].concat();
    tributary(&args).current_dir(directory).output().unwrap()
}

/// The program of the packet tests' page.
fn example(directory: &Path) {
    let page = std::fs::read_to_string(root().join("docs/reference/stf.md")).unwrap();
    let (_, rest) = page.split_once("\n```p4\n").expect("the page has a program");
    std::fs::write(directory.join("port.p4"), rest.split_once("\n```\n").unwrap().0).unwrap();
}

#[test]
fn tests_and_reports_are_written_and_pass() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    example(at);
    let output = run(at, &["port.p4", "--out", "tests"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.contains(" tests\nstatements "), "{said}");
    let listing = std::fs::read_to_string(at.join("tests/coverage.txt")).unwrap();
    assert!(listing.contains(" + ") && listing.contains("port.p4"), "{listing}");
    let json = std::fs::read_to_string(at.join("tests/coverage.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["coverage"]["uncovered"].as_array().map(Vec::len), Some(0), "{json}");
    // Every test passes by itself.
    let tests = json["tests"].as_u64().unwrap();
    for number in 1..=tests {
        let script = format!("tests/port-{number:04}.stf");
        let output = tributary(&["stf", "port.p4", &script]).current_dir(at).output();
        assert_eq!(text(&output.unwrap().stdout), "PASS\n", "{script}");
    }
}

#[test]
fn a_second_run_leaves_no_test_of_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    example(at);
    std::fs::create_dir(at.join("tests")).unwrap();
    for name in ["port-0099.stf", "port-mine.stf", "other-0001.stf"] {
        std::fs::write(at.join("tests").join(name), "").unwrap();
    }
    let output = run(at, &["port.p4", "--out", "tests", "--max-tests", "1"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let is_there = |name: &str| at.join("tests").join(name).exists();
    assert!(!is_there("port-0099.stf") && !is_there("port-0002.stf"));
    assert!(is_there("port-mine.stf") && is_there("other-0001.stf") && is_there("port-0001.stf"));
}

#[test]
fn given_tests_are_measured_and_mutants_counted() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    example(at);
    std::fs::write(at.join("one.stf"), "packet 1 77 00\n").unwrap();
    let output = run(at, &["port.p4", "--measure", "one.stf"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let (reached, missed) = ("action Forward.drop", "table Forward.ports: action Forward.to");
    assert!(said.contains(missed) && !said.contains(reached), "{said}");
    let output = run(at, &["port.p4", "--mutants", "50"]);
    let said = text(&output.stdout);
    let line = said.lines().find(|line| line.starts_with("mutants ")).expect("a line of mutants");
    let numbers: Vec<u32> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(numbers[0] >= 5 && numbers[0] <= numbers[1], "{line}");
}

#[test]
fn what_it_cannot_do_is_one_clear_line() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    example(at);
    let fails = |args: &[&str], reason: &str| {
        let output = run(at, args);
        let said = text(&output.stderr);
        assert!(said.contains(reason) && output.status.code() != Some(0), "{args:?}: {said}");
    };
    fails(&["no.p4"], "cannot read no.p4");
    let psa = root().join("crates/switch/tests/stf/cases/psa_clones.p4").display().to_string();
    fails(
        &[&psa],
        "tests are generated for programs for v1model and TNA only; this one is for PSA_Switch",
    );
    fails(&["port.p4", "--minutes", "x"], "write a number of minutes");
    fails(&["port.p4", "--max-tests", "0"], "max-tests");
    fails(&["port.p4", "--with-p4testgen", "5"], "--out");
    fails(&["port.p4", "--measure", "no.stf"], "cannot read no.stf");
    std::fs::write(at.join("wrong.stf"), "packet 1 00\nadd tables x:1 to()\n").unwrap();
    fails(&["port.p4", "--measure", "wrong.stf"], "wrong.stf:2:5: there is no table `tables`");
    let mut command = tributary(&["test", "port.p4", "--out", "o", "--with-p4testgen", "5"]);
    let output = command.env("PATH", at).current_dir(at).output().unwrap();
    let said = text(&output.stderr);
    assert!(said.contains("p4testgen") && output.status.code() == Some(1), "{said}");
}

/// A program in the place of p4testgen.
fn imitate(directory: &Path, script: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = directory.join("p4testgen");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_p4testgen_that_hangs_or_makes_nothing_is_one_clear_line() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    example(at);
    let path = format!("{}:/usr/bin:/bin", at.display());
    let run = || {
        let args = ["port.p4", "--out", "o", "--minutes", "0.02", "--with-p4testgen", "5"];
        let mut command = tributary(&[&["test"][..], &args].concat());
        command.env("PATH", &path).current_dir(at).output().unwrap()
    };
    imitate(at, "sleep 600");
    let output = run();
    let said = text(&output.stderr);
    let line = "p4testgen generated no test within 1.2s: allow more time with --minutes";
    assert!(said.contains(line) && output.status.code() == Some(1), "{said}");
    imitate(at, "echo 'port.p4: not supported' >&2; exit 3");
    let output = run();
    let said = text(&output.stderr);
    let line = "p4testgen generated no test (exit status: 3): port.p4: not supported";
    assert!(said.contains(line) && output.status.code() == Some(1), "{said}");
    // It stands for one that has made a test before it hangs.
    let packet = "packet 1 77 00\\nno_packet\\n";
    imitate(at, &format!("printf '{packet}' > o/p4testgen/port_1.stf; sleep 600"));
    let output = run();
    let said = text(&output.stdout);
    let stopped = "p4testgen was stopped after 1.2s, with 1 of at most 5 tests";
    assert!(said.contains(stopped) && said.contains("p4testgen: 1 of 1 tests pass"), "{said}");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}
