//! `tributary-p4 corpus` beside a compiler that a shell script plays, and `tributary-p4 fmt`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::command::{fail, succeed, text, tributary};

const PROGRAM: &str = include_str!("../../../p4/tests/programs/l2.p4");

/// A folder with programs, and a compiler that refuses those with `strict` in their names, and
/// fails at those with `bug`.
fn folder(at: &Path) -> String {
    let programs = at.join("programs");
    fs::create_dir_all(programs.join("deeper")).unwrap();
    let broken = PROGRAM.replace("V1Switch(", "V1Swich(");
    for (name, text) in [
        ("good.p4", PROGRAM),
        ("strict.p4", PROGRAM),
        ("bug.p4", PROGRAM),
        ("deeper/broken.p4", &broken),
        ("deeper/strict-broken.p4", &broken),
        ("other.p4", "const bit<8> x = 1;\n"),
        ("readme.txt", "no program\n"),
    ] {
        fs::write(programs.join(name), text).unwrap();
    }
    let compiler = at.join("compiler");
    let script = "#!/bin/sh
for file; do :; done
case $file in
*strict*) echo \"$file(1): [--Werror=x] error: too strict\" >&2; exit 1 ;;
*bug*) echo 'Compiler Bug: it happens' >&2; exit 1 ;;
*) yes warning | head -c 300000 >&2 ;;
esac
";
    fs::write(&compiler, script).unwrap();
    fs::set_permissions(&compiler, fs::Permissions::from_mode(0o755)).unwrap();
    programs.display().to_string()
}

#[test]
fn a_folder_is_compared_program_by_program() {
    let directory = tempfile::tempdir().unwrap();
    let programs = folder(directory.path());
    let compiler = directory.path().join("compiler").display().to_string();
    let args = ["corpus", &programs, "--compiler", &compiler];
    let output = tributary(&args).output().unwrap();
    let (table, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{table}{errors}");
    assert!(errors.ends_with("2 disagreements\n"), "{errors}");
    assert!(table.contains("5 programs for v1model"), "{table}");
    let row = |name: &str| -> Vec<u32> {
        let numbers = |line: &str| -> Option<Vec<u32>> {
            line.trim_start()
                .strip_prefix(name)?
                .split_whitespace()
                .map(|n| n.parse().ok())
                .collect()
        };
        table.lines().find_map(numbers).unwrap_or_else(|| panic!("no {name}: {table}"))
    };
    assert_eq!((row("accepted "), row("refused ")), (vec![1, 1, 1], vec![1, 1, 0]), "{table}");
    let after = |heading: &str| table.split(heading).nth(1).unwrap().to_owned();
    assert!(after("refused here, accepted by compiler: 1").contains("deeper/broken.p4"), "{table}");
    assert!(after("accepted here, refused by compiler: 1").contains("too strict"), "{table}");
    assert!(after("no answer from compiler: 1").contains("bug.p4"), "{table}");
}

#[test]
fn mistakes_are_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let programs = folder(directory.path());
    assert!(fail(&["corpus", "/nowhere"]).ends_with("/nowhere is not a folder"));
    assert!(fail(&["corpus", &programs, "--arch", "tna"]).ends_with("no program for tna"));
    let line = fail(&["corpus", &programs, "--compiler", "no-such-compiler"]);
    assert!(line.contains("there is no such program on the PATH"), "{line}");
    let broken = format!("{programs}/deeper/broken.p4");
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
    for (pass, line) in [
        ("tokens", "core.p4:5: Error error"),
        ("syntax", "control Values(inout headers_t hdr, in metadata_t meta) {"),
        ("typed", "control ValueBlock("),
        ("ir", "package V1Switch("),
        ("code", "block 0:"),
    ] {
        let printed = dumped(pass);
        assert!(printed.lines().any(|printed| printed.starts_with(line)), "{pass}: {printed}");
        assert!(dumped("list").contains(pass));
    }
    let line = fail(&["check", program, "--dump", "nothing"]);
    assert!(line.contains("the passes are tokens, syntax, typed, ir, code"), "{line}");
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
