//! Runs the tests that p4c's p4testgen generates for our programs, if it is installed.

use std::path::Path;
use std::process::Command;

use libtest_mimic::{Arguments, Failed, Trial};
use tributary_dataplane::EngineKind;
use tributary_stf::Script;
use tributary_testgen::run_test;

/// Tests for each program.
const TESTS: &str = "10";

/// Programs that p4testgen does not take, or whose tests are known to differ, with the reason.
const EXCEPTIONS: [&str; 0] = [];

pub(crate) fn trials(arguments: &Arguments) -> Vec<Trial> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut tools = std::env::split_paths(&path).map(|directory| directory.join("p4testgen"));
    let Some(tool) = tools.find(|tool| tool.is_file()) else {
        if !arguments.list {
            eprintln!("skipped: tests of p4testgen: p4testgen not found on the PATH");
        }
        return Vec::new();
    };
    let programs = super::programs().into_iter();
    let programs = programs.filter(|program| !EXCEPTIONS.contains(&&*super::stem(program)));
    let trial = |program: std::path::PathBuf| {
        let tool = tool.clone();
        Trial::test(format!("p4testgen::{}", super::stem(&program)), move || check(&tool, &program))
    };
    programs.map(trial).collect()
}

fn check(tool: &Path, program: &Path) -> Result<(), Failed> {
    let directory = tempfile::tempdir()?;
    let mut command = Command::new(tool);
    command.args(["--target", "bmv2", "--arch", "v1model", "--std", "p4-16"]);
    command.args(["--test-backend", "STF", "--seed", "1", "--max-tests", TESTS, "--out-dir"]);
    let output = command.arg(directory.path()).arg(program).output()?;
    let (_, plain) = super::compile(program)?;
    let mut tests = 0;
    for entry in directory.path().read_dir()? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "stf") {
            continue;
        }
        tests += 1;
        let text = std::fs::read_to_string(&path)?;
        let script = Script::parse(&text).map_err(|error| format!("{error}\n{text}"))?;
        for engine in [EngineKind::Interpreter, EngineKind::Compiled] {
            run_test(&plain, &script, engine)
                .map_err(|error| format!("{engine}: {error}\n{text}"))?;
        }
    }
    if tests == 0 {
        // It says itself what it does not support.
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("p4testgen makes no test: {messages}").into());
    }
    Ok(())
}
