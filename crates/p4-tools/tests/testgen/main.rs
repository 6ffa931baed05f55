//! Generates tests for our programs and for the packet tests' programs, and checks what is promised
//! of them: they reach what they say, and they pass on both engines of the embedded switch.
//! `behaviour` has small programs, one for each thing that a search must master.

mod behaviour;
mod p4testgen;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use tributary_dataplane::EngineKind;
use tributary_p4::{Compilation, Sources};
use tributary_p4_tools::testgen::{Generated, GoalKind, Options, Subject, generate, run_test};
use tributary_switch::stf::Script;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Programs whose statements are not all reached, with the lowest share in percent. The eight switch
/// programs need more steps, and some statements need a clock or a long queue: see
/// docs/reference/test.md.
const FLOORS: [(&str, f64); 13] = [
    ("atp", 40.0),
    ("esa", 40.0),
    ("p4inc", 30.0),
    ("switchml", 30.0),
    ("tna_atp", 55.0),
    ("tna_esa", 40.0),
    ("tna_p4inc", 35.0),
    ("tna_switchml", 35.0),
    // Copies, for queues that a test cannot fill.
    ("metadata", 75.0),
    // All packets bypass the egress.
    ("tna_bit_result", 85.0),
    ("tna_checksum_rest", 85.0),
    // Mirrored packets of each kind.
    ("tna_flexible", 90.0),
    // Counters of parsers.
    ("tna_parser_counter", 95.0),
];

/// Steps of the search for each program: the search ends by them, not by time.
const STEPS: usize = 500;

/// Tests of a program that also run as machine code, which is compiled for each.
const COMPILED: usize = 6;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let programs = programs().into_iter().map(|program| {
        Trial::test(format!("program::{}", name(&program)), move || check(&program))
    });
    let trials = programs.chain(behaviour::trials()).chain(p4testgen::trials(&arguments));
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// Our switch programs, and the programs of the packet tests.
fn programs() -> Vec<PathBuf> {
    let mut all = Vec::new();
    for directory in ["p4src/v1model", "p4src/tna", "crates/switch/tests/stf/cases"] {
        let directory = Path::new(ROOT).join(directory);
        let entries = directory.read_dir().expect("the directory is part of the sources");
        let paths = entries.map(|entry| entry.expect("it can be listed").path());
        all.extend(paths.filter(|path| path.extension().is_some_and(|it| it == "p4")));
    }
    // There are no generated tests for PSA.
    all.retain(|path| !stem(path).starts_with("psa_"));
    all.sort();
    assert!(all.len() > 40, "the programs are part of the sources");
    all
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The name of a program, also of those that exist for both architectures.
fn name(path: &Path) -> String {
    match path.parent().is_some_and(|folder| folder.ends_with("p4src/tna")) {
        true => format!("tna_{}", stem(path)),
        false => stem(path),
    }
}

/// Compiles a program, with marks and without.
fn compile(program: &Path) -> Result<(Subject, Compilation), String> {
    let name = program.display().to_string();
    let marked = tributary_p4::compile(&Sources::disk(), &name, tributary_p4::Options::marked(&[]));
    let marked = marked.map_err(|errors| errors.render(false))?;
    let plain = tributary_p4::compile(&Sources::disk(), &name, &[]);
    let plain = plain.map_err(|errors| errors.render(false))?;
    Ok((Subject::new(marked).map_err(|error| error.to_string())?, plain))
}

fn options(steps: usize) -> Options {
    // Time only ends a search that hangs.
    Options { steps, time: Duration::from_secs(600), ..Options::default() }
}

/// The scripts of generated tests. Checks that they reach what they say, and that none is in vain.
fn scripts(subject: &Subject, generated: &Generated) -> Result<Vec<Script>, String> {
    let mut scripts = Vec::new();
    for (number, test) in generated.tests.iter().enumerate() {
        let script = Script::parse(&test.text).map_err(|error| error.to_string())?;
        let reached = subject.coverage(&script)?;
        if reached != test.goals {
            return Err(format!("test {number} reaches other goals than it says"));
        }
        scripts.push(script);
    }
    let union: BTreeSet<usize> = generated.tests.iter().flat_map(|t| &t.goals).copied().collect();
    let report = generated.report();
    if report.total().covered != union.len() || report.total().of != generated.goals.len() {
        return Err("the report counts other goals than the tests reach".to_owned());
    }
    Ok(scripts)
}

fn check(program: &Path) -> Result<(), Failed> {
    let (subject, plain) = compile(program)?;
    let generated = generate(&subject, &options(STEPS), &mut |_| {});
    let scripts = scripts(&subject, &generated)?;
    let statements = generated.report().share(GoalKind::Statement);
    let floor = FLOORS.iter().find(|(known, _)| *known == name(program)).map_or(100.0, |it| it.1);
    if statements.percent() < floor {
        let report = generated.report().text(&|_| None);
        return Err(format!("less than {floor} % of the statements are reached\n{report}").into());
    }
    for (number, script) in scripts.iter().enumerate() {
        let test = || format!("test {number}\n{}", generated.tests[number].text);
        run_test(&plain, script, EngineKind::Interpreter)
            .map_err(|error| format!("interpreter: {error}: {}", test()))?;
        if number < COMPILED {
            run_test(&plain, script, EngineKind::Compiled)
                .map_err(|error| format!("machine code: {error}: {}", test()))?;
        }
    }
    Ok(())
}
