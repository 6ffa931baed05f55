//! `tributary-p4 test`: generates packet tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::json;
use tributary_dataplane::EngineKind;
use tributary_p4::{Architecture, Compilation};
use tributary_p4_tools::testgen::{
    Generated, GoalKind, Options, Report, Subject, generate, mutants, run_test,
};
use tributary_switch::stf::Script;

use super::bounded;
use crate::args::{P4Args, TestArgs};
use tributary_base::counted;
use tributary_base::program::{put, with_bar};

/// Generates tests, or measures given ones, and reports what they reach.
///
/// # Errors
/// If the program has errors or is for an architecture without generated tests, or files cannot be
/// read or written. Tests of p4testgen that fail are a status.
pub(crate) fn run(args: &TestArgs) -> Result<ExitCode> {
    if let Some(out) = &args.out {
        tributary_base::output_directory(out)
            .with_context(|| format!("cannot write to {}", out.display()))?;
    }
    let compiled = super::compile_marked(&args.program)?;
    let subject = Subject::new(compiled).map_err(|error| of_program(&args.program, &error))?;
    if !args.measure.is_empty() {
        measure(args, &subject)?;
        return Ok(ExitCode::SUCCESS);
    }
    let options = Options {
        seed: args.seed,
        max_tests: args.max_tests as usize,
        packets: args.packets as usize,
        presets: !args.no_presets,
        time: Duration::from_secs_f64(60.0 * args.minutes),
        ..Options::default()
    };
    let generated = with_bar("goals reached", |bar| {
        generate(&subject, &options, &mut |now| bar(now.covered as u64, now.goals as u64))
    });
    let stem = stem(&args.program.file);
    if let Some(out) = &args.out {
        clear(out, &stem)?;
        for (number, test) in generated.tests.iter().enumerate() {
            let of = generated.tests.len();
            let head = format!(
                "# Test {} of {of} of {}, seed {}\n",
                number + 1,
                args.program.file.display(),
                args.seed
            );
            put(&out.join(format!("{stem}-{:04}.stf", number + 1)), head + &test.text)?;
        }
    }
    let report = generated.report();
    tributary_base::program::print(&format!("{}\n{}", head(&generated), summary(&report)))?;
    let compiled = super::compile(&args.program)?;
    let mut score = None;
    if let Some(most) = args.mutants {
        let tests: Result<Vec<Script>, _> =
            generated.tests.iter().map(|test| Script::parse(&test.text)).collect();
        let tests = tests.map_err(|error| anyhow!("a generated test: {error}"))?;
        let found = with_bar("mutants", |bar| {
            let mut bar = |done: usize, all: usize| bar(done as u64, all as u64);
            mutants::score(&compiled, &tests, most as usize, args.seed, &mut bar)
        });
        let found = found.map_err(|error| anyhow!("a generated test: {error}"))?;
        tributary_base::program::print(&format!(
            "mutants        {:>5} of {:>5} fail a test",
            found.killed, found.of
        ))?;
        score = Some(found);
    }
    if let Some(out) = &args.out {
        let json = json!({
            "program": args.program.file.display().to_string(),
            "seed": args.seed,
            "tests": generated.tests.len(),
            "coverage": report,
            "unreachable": generated.unreachable,
            "search": generated.statistics,
            "mutants": score,
        });
        write_report(out, &report, &json)?;
    }
    match args.with_p4testgen {
        Some(most) => p4testgen(args, most, &compiled, &subject),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// The numbers of tests, and of goals that do not count.
fn head(generated: &Generated) -> String {
    let mut head = counted(generated.tests.len(), "test");
    let set = generated.statistics.preset;
    if set > 0 {
        head += &format!("\n{:<14} {set:>5} set registers or meters", "of these");
    }
    let unreachable = generated.unreachable;
    if unreachable > 0 {
        head += &format!("\n{:<14} {unreachable:>5} goals, which do not count", "unreachable");
    }
    head
}

/// Reports what given tests reach.
fn measure(args: &TestArgs, subject: &Subject) -> Result<()> {
    let mut covered = BTreeSet::new();
    for path in &args.measure {
        covered.extend(reached(subject, path)?);
    }
    let report = Report::new(&subject.goals(), &covered);
    tributary_base::program::print(&summary(&report))?;
    if let Some(out) = &args.out {
        let program = args.program.file.display().to_string();
        write_report(out, &report, &json!({ "program": program, "coverage": report }))?;
    }
    Ok(())
}

fn reached(subject: &Subject, path: &Path) -> Result<BTreeSet<usize>> {
    let script = script(path)?;
    subject.coverage(&script).map_err(|error| anyhow!("{}:{error}", path.display()))
}

fn script(path: &Path) -> Result<Script> {
    let text = super::stf::SCRIPT.read(path);
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    let script = Script::parse(&String::from_utf8_lossy(&text));
    script.map_err(|error| anyhow!("{}:{error}", path.display()))
}

fn write_report(out: &Path, report: &Report, json: &serde_json::Value) -> Result<()> {
    let source = |file: &str| fs::read_to_string(file).ok();
    put(&out.join("coverage.txt"), report.text(&source))?;
    put(&out.join("coverage.json"), serde_json::to_string_pretty(json)? + "\n")
}

/// Shares by kind, and what is not reached.
fn summary(report: &Report) -> String {
    report.text(&|_| None).trim_end().to_owned()
}

fn stem(program: &Path) -> String {
    program.file_stem().map_or("test".to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// Removes the tests of an earlier run, which may have been more.
fn clear(out: &Path, stem: &str) -> Result<()> {
    for path in files(out)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let number = name.strip_prefix(&format!("{stem}-")).and_then(|n| n.strip_suffix(".stf"));
        if number.is_some_and(|n| n.len() >= 4 && n.bytes().all(|digit| digit.is_ascii_digit())) {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let read = || -> std::io::Result<Vec<PathBuf>> {
        fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path())).collect()
    };
    let mut files = read().with_context(|| format!("cannot read {}", directory.display()))?;
    files.sort();
    Ok(files)
}

/// Runs the tests that p4testgen generates.
fn p4testgen(
    args: &TestArgs,
    most: u64,
    compiled: &Compilation,
    subject: &Subject,
) -> Result<ExitCode> {
    if compiled.program.architecture() != Some(Architecture::V1model) {
        bail!("tests of p4testgen run for programs for v1model only");
    }
    let tool = tributary_base::programs::on_path("p4testgen").context(
        "p4testgen is not on the PATH; install p4c built with ENABLE_TEST_TOOLS (docs/reference/test.md)",
    )?;
    let out = args.out.as_deref().unwrap_or(Path::new(".")).join("p4testgen");
    tributary_base::output_directory(&out)
        .with_context(|| format!("cannot write to {}", out.display()))?;
    for old in files(&out)?.iter().filter(|path| path.extension().is_some_and(|e| e == "stf")) {
        fs::remove_file(old).with_context(|| format!("cannot remove {}", old.display()))?;
    }
    let mut command = Command::new(&tool);
    command.args(["--target", "bmv2", "--arch", "v1model", "--std", "p4-16"]);
    command.args(["--test-backend", "STF", "--seed", &args.seed.to_string()]);
    command.args(["--max-tests", &most.to_string(), "--out-dir"]).arg(&out);
    for directory in &args.program.include {
        command.arg("-I").arg(directory);
    }
    command.args(args.program.defines.iter().flat_map(|define| ["-D", define]));
    let time = Duration::from_secs_f64(60.0 * args.minutes);
    let outcome = bounded::run(command.arg(&args.program.file), time);
    let (status, messages) = outcome.with_context(|| format!("cannot run {}", tool.display()))?;
    let tests: Vec<PathBuf> = files(&out)?
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "stf"))
        .collect();
    match status {
        Some(status) if tests.is_empty() => {
            let mut lines = messages.lines().filter(|line| !line.trim().is_empty());
            bail!(
                "p4testgen generated no test ({status}): {}",
                lines.next().unwrap_or("no message")
            );
        }
        None if tests.is_empty() => {
            bail!("p4testgen generated no test within {time:?}: allow more time with --minutes");
        }
        None => tributary_base::program::print(&format!(
            "p4testgen was stopped after {time:?}, with {} of at most {most} tests",
            tests.len()
        ))?,
        Some(_) => {}
    }
    let mut covered = BTreeSet::new();
    let mut failed = 0;
    for path in &tests {
        let outcome = script(path).and_then(|script| {
            [EngineKind::Interpreter, EngineKind::Compiled].into_iter().try_for_each(|engine| {
                let outcome = run_test(compiled, &script, engine);
                outcome.map_err(|error| anyhow!("{}:{error} ({engine})", path.display()))
            })?;
            covered.extend(reached(subject, path)?);
            Ok(())
        });
        if let Err(error) = outcome {
            failed += 1;
            tributary_base::program::print(&format!("FAIL: {error:#}"))?;
        }
    }
    let report = Report::new(&subject.goals(), &covered);
    let statements = report.share(GoalKind::Statement);
    tributary_base::program::print(&format!(
        "p4testgen: {} of {} tests pass; they reach {} of {} statements, {} of {} goals",
        tests.len() - failed,
        tests.len(),
        statements.covered,
        statements.of,
        report.total().covered,
        report.total().of
    ))?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn of_program(args: &P4Args, error: &tributary_p4_tools::testgen::Error) -> anyhow::Error {
    anyhow!("{}: {error}", args.file.display())
}
