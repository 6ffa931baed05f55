//! `tributary-p4 check` and `fmt`.

use std::fs;

use crate::command::{fail, succeed, text, tributary};

const PROGRAM: &str = include_str!("../../../p4/tests/programs/l2.p4");

#[test]
fn short_errors_are_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let broken = directory.path().join("broken.p4");
    fs::write(&broken, PROGRAM.replace("V1Switch(", "V1Swich(")).unwrap();
    let broken = broken.display().to_string();
    let output = tributary(&["check", "--short", &broken]).output().unwrap();
    let errors = text(&output.stderr);
    let first = errors.lines().next().unwrap();
    assert!(first.starts_with(&broken) && first.contains(": error: "), "{errors}");
    assert_eq!(errors.lines().count(), 2, "{errors}");
}

#[test]
fn programs_are_printed_after_each_pass() {
    let program = "p4src/v1model/atp.p4";
    let dumped = |pass: &str| succeed(&["check", program, "--dump", pass]);
    for (pass, line) in
        [("typed", "control ValueBlock("), ("ir", "package V1Switch("), ("code", "block 0:")]
    {
        let printed = dumped(pass);
        assert!(printed.lines().any(|printed| printed.starts_with(line)), "{pass}: {printed}");
        assert!(dumped("list").contains(pass));
    }
    let line = fail(&["check", program, "--dump", "nothing"]);
    assert!(line.contains("the passes are typed, ir, code"), "{line}");
    assert!(fail(&["check", "/nowhere.p4", "--dump", "ir"]).contains("cannot read"));
}

#[test]
fn files_are_formatted_in_place() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.p4");
    let name = path.display().to_string();
    fs::write(&path, "control C( ) {\napply{ }\n  }\n").unwrap();
    assert!(fail(&["fmt", "--check", &name]).contains("1 file is not formatted"));
    succeed(&["fmt", &name]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "control C() {\n    apply { }\n}\n");
    succeed(&["fmt", "--check", &name]);
    assert!(fail(&["fmt", "/nowhere.p4"]).contains("cannot read /nowhere.p4"));
}
