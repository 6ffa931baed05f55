//! `docs/reference/p4runtime-matrix.md`: its tests exist, and each requirement has an answer.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

use tributary_p4runtime::google::rpc::Code;

/// The requirements that another implementation maps to tests.
const AT_LEAST: usize = 154;

fn root() -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    crates.parent().unwrap().to_owned()
}

/// The answer to a requirement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    Tested,
    Refused,
    Untested,
}

/// The answer in a cell of the page, or what is wrong with it.
fn answer(cell: &str, tests: &BTreeSet<String>) -> Result<Answer, String> {
    let (answer, rest) = match cell.split_once(": ") {
        Some(("refused", rest)) => {
            let (code, rest) = rest.split_once(", ").ok_or("a refusal without a test")?;
            Code::from_str_name(code).ok_or(format!("`{code}` is not a canonical code"))?;
            (Answer::Refused, rest)
        }
        Some(("not tested", reason)) if !reason.trim().is_empty() => {
            return Ok(Answer::Untested);
        }
        _ => (Answer::Tested, cell),
    };
    for name in rest.split(", ") {
        let test = name.strip_prefix('`').and_then(|name| name.strip_suffix('`'));
        let test = test.ok_or(format!("`{name}` is neither a test nor another answer"))?;
        if !tests.contains(test) {
            return Err(format!("there is no test `{test}`"));
        }
    }
    Ok(answer)
}

/// The rows of the page's tables: section, requirement and answer.
fn rows(page: &str) -> impl Iterator<Item = Vec<&str>> {
    let header = |line: &&str| line.starts_with("| §") || line.starts_with("| ---");
    let rows = page.lines().filter(|line| line.starts_with('|')).filter(move |line| !header(line));
    rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
}

/// The tests in the sources under a folder, as `file::name`. A `mod.rs` has its folder's name.
fn tests_under(folder: &Path, all: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            tests_under(&entry, all);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            let stem = match entry.file_stem().unwrap().to_str().unwrap() {
                "mod" | "main" | "lib" => entry.parent().unwrap().file_name().unwrap(),
                _ => entry.file_stem().unwrap(),
            };
            let stem = stem.to_str().unwrap();
            let source = fs::read_to_string(&entry).unwrap();
            all.extend(tests_in(&source).map(|name| format!("{stem}::{name}")));
        }
    }
}

/// The names of the functions with a test attribute, which other attributes may follow.
fn tests_in(source: &str) -> impl Iterator<Item = &str> {
    let mut marked = false;
    source.lines().map(str::trim_start).filter_map(move |line| {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            marked = true;
        } else if marked && !line.starts_with('#') && !line.starts_with("//") {
            marked = false;
            let function = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
            return function.split('(').next();
        }
        None
    })
}

#[test]
fn every_requirement_has_an_answer_and_every_test_exists() {
    let page = fs::read_to_string(root().join("docs/reference/p4runtime-matrix.md")).unwrap();
    let mut tests = BTreeSet::new();
    for krate in ["p4", "dataplane", "switch", "cli", "controller", "p4-tools", "run"] {
        for part in ["src", "tests"] {
            let folder = root().join("crates").join(krate).join(part);
            assert!(folder.is_dir(), "{}", folder.display());
            tests_under(&folder, &mut tests);
        }
    }
    let mut counts = [0; 3];
    let mut seen = BTreeSet::new();
    for cells in rows(&page) {
        let [section, text, cell] = cells[..] else {
            panic!("a row has not three cells: {cells:?}")
        };
        let numbers = section.split('.').all(|part| part.parse::<u32>().is_ok());
        assert!(numbers, "`{section}` is not a section: {text}");
        assert!(seen.insert((section, text)), "twice: {section} {text}");
        match answer(cell, &tests) {
            Ok(answer) => counts[answer as usize] += 1,
            Err(error) => panic!("{section} {text}: {error}"),
        }
    }
    let all: usize = counts.iter().sum();
    assert!(all >= AT_LEAST, "{all} requirements");
    let [tested, refused, untested] = counts;
    let count = format!(
        "{all} requirements: {tested} with tests of what is served, {refused} with tests of a refusal, \
         {untested} without a test."
    );
    assert!(page.contains(&count), "the page should say: {count}");
}

#[test]
fn wrong_answers_are_found() {
    let tests: BTreeSet<String> = ["a::b", "a::c"].map(str::to_owned).into();
    for (cell, expected) in [
        ("`a::b`", Some(Answer::Tested)),
        ("`a::b`, `a::c`", Some(Answer::Tested)),
        ("refused: UNIMPLEMENTED, `a::b`", Some(Answer::Refused)),
        ("not tested: it needs two devices", Some(Answer::Untested)),
        ("", None),
        ("a::b", None),
        ("`a::d`", None),
        ("`a::b`, `a::d`", None),
        ("refused: UNIMPLEMENTED", None),
        ("refused: UNKNOWN_CODE, `a::b`", None),
        ("refused: UNIMPLEMENTED, `a::d`", None),
        ("not tested: ", None),
        ("not tested", None),
    ] {
        assert_eq!(answer(cell, &tests).ok(), expected, "{cell}");
    }
    let source = "#[test]\nfn one() {}\n#[tokio::test(flavor = \"x\")]\n#[ignore]\nasync fn two() {}\nfn no() {}\n\
        #[test]\n    fn three(";
    assert_eq!(tests_in(source).collect::<Vec<_>>(), ["one", "two", "three"]);
}
