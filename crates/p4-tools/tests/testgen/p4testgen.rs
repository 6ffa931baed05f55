//! Runs the tests that p4c's p4testgen generates for our programs, if it is installed.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use tributary_dataplane::EngineKind;
use tributary_p4_tools::testgen::run_test;
use tributary_switch::stf::Script;

/// Tests for each program.
const TESTS: &str = "10";

/// Time for the tests of a program. Those that p4testgen has made by then are run.
const TIME: Duration = Duration::from_secs(120);

/// Programs that p4testgen does not take, or whose tests are known to differ, with the reason.
const EXCEPTIONS: [&str; 2] = [
    "arrays", // It makes no test.
    // It sends a packet to the port that egress sets. BMv2 and the embedded switch decide before.
    "drop",
];

pub(crate) fn trials(arguments: &Arguments) -> Vec<Trial> {
    let Some(tool) = tributary_base::programs::on_path("p4testgen") else {
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
    let messages = directory.path().join("messages");
    command.arg(directory.path()).arg(program).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(File::create(&messages)?);
    let is_over = finish(command.spawn()?)?;
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
        let when = if is_over { String::new() } else { format!(" within {TIME:?}") };
        // It says itself what it does not support.
        let messages = std::fs::read_to_string(&messages)?;
        return Err(format!("p4testgen makes no test{when}: {messages}").into());
    }
    Ok(())
}

/// Waits for the end of a process, or kills it when its time is over. Whether it ended by itself.
fn finish(mut child: Child) -> std::io::Result<bool> {
    let start = Instant::now();
    while child.try_wait()?.is_none() {
        if start.elapsed() > TIME {
            child.kill()?;
            child.wait()?;
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(true)
}
