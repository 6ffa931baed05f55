//! Packet tests of language features, one feature per file. Each `cases/*.p4` must pass with its
//! `.stf` file. Cases without control-plane commands must also pass on BMv2 if BMv2 and p4c are on
//! the PATH. Each `failures/*.stf` must fail for the reason stated in its first lines.
//! `published/switchml.stf` is for a program of others, in a folder that `TRIBUTARY_SWITCHML_P4` names:
//! `dev_root/p4` of the repository p4app-switchML.
//!
//! ```text
//! # program: actions.p4
//! # reason: 12:1: port 1, packet 1 of 1: byte 0 is 01, not 02
//! ```

mod bmv2;
mod hostile;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use tributary_dataplane::EngineKind;
use tributary_p4::{Options, Sources};
use tributary_p4runtime::p4::v1::ForwardingPipelineConfig;
use tributary_switch::Forwarding;
use tributary_switch::stf::{Passed, Script};
use tributary_switch::trace::{Budget, Filter, Tracing};

const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stf");

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let cases = scripts("cases")
        .into_iter()
        .map(|script| Trial::test(format!("case::{}", stem(&script)), move || passes(&script)));
    let failures = scripts("failures")
        .into_iter()
        .map(|script| Trial::test(format!("failure::{}", stem(&script)), move || fails(&script)));
    let peers = match bmv2::obstacle() {
        None => scripts("cases"),
        Some(obstacle) => {
            if !arguments.list {
                eprintln!("skipped: {obstacle}");
            }
            Vec::new()
        }
    };
    let peers = peers.into_iter().filter(|script| bmv2::takes(script)).map(|script| {
        Trial::test(format!("bmv2::{}", stem(&script)), move || {
            bmv2::passes(&script).map_err(Failed::from)
        })
    });
    let published = match std::env::var_os("TRIBUTARY_SWITCHML_P4") {
        Some(folder) => vec![Trial::test("published::switchml", || {
            let program = PathBuf::from(folder).join("switchml.p4");
            run(&program, &Path::new(DIRECTORY).join("published/switchml.stf"))?;
            Ok(())
        })],
        None => {
            if !arguments.list {
                eprintln!("skipped: TRIBUTARY_SWITCHML_P4 does not name SwitchML's dev_root/p4");
            }
            Vec::new()
        }
    };
    let all = cases.chain(failures).chain(peers).chain(published).chain(hostile::trials());
    libtest_mimic::run(&arguments, all.collect()).exit_code()
}

/// The scripts of a directory, sorted by name.
fn scripts(directory: &str) -> Vec<PathBuf> {
    let directory = Path::new(DIRECTORY).join(directory);
    let entries = directory.read_dir().expect("the directory is part of the sources");
    let paths = entries.map(|entry| entry.expect("it can be listed").path());
    let mut scripts: Vec<_> = paths.filter(|p| p.extension().is_some_and(|e| e == "stf")).collect();
    assert!(!scripts.is_empty(), "{} has no scripts", directory.display());
    scripts.sort();
    scripts
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn passes(script: &Path) -> Result<(), Failed> {
    let passed = run(&script.with_extension("p4"), script)?;
    if passed.expectations == 0 { Err("nothing was expected of it".into()) } else { Ok(()) }
}

fn fails(script: &Path) -> Result<(), Failed> {
    let text = std::fs::read_to_string(script)?;
    let said = |what: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(": "));
        line.ok_or_else(|| format!("a line `{what}: …` is missing"))
    };
    let program = Path::new(DIRECTORY).join("cases").join(said("# program")?);
    let reason = said("# reason")?;
    match run(&program, script) {
        Err(got) if got == reason => Ok(()),
        Err(got) => {
            Err(format!("it failed for another reason\n  got: {got}\n  not: {reason}").into())
        }
        Ok(_) => Err("it passed".into()),
    }
}

fn run(program: &Path, script: &Path) -> Result<Passed, String> {
    let text = std::fs::read_to_string(script).map_err(|error| error.to_string())?;
    let script = Script::parse(&text).map_err(|error| error.to_string())?;
    let name = program.display().to_string();
    let compiled = tributary_p4::compile(&Sources::disk(), &name, &[]);
    let compiled = compiled.map_err(|errors| errors.render(false))?;
    let config = ForwardingPipelineConfig { p4info: Some(compiled.p4info), ..Default::default() };
    let on = |engine| {
        let forwarding = Forwarding::load(compiled.program.clone(), config.clone());
        let mut forwarding = forwarding.map_err(|error| error.to_string())?;
        forwarding.pipeline_mut().use_engine(engine);
        tributary_switch::stf::run(&script, forwarding).map_err(|failure| failure.to_string())
    };
    let passed = on(EngineKind::Interpreter);
    let compiled = on(EngineKind::Compiled);
    if compiled != passed {
        return Err(format!("in machine code, it differs: {compiled:?}"));
    }
    let traced = traced(&script, &name);
    if traced == passed { passed } else { Err(format!("traced, it differs: {traced:?}")) }
}

/// Runs a test with all its packets traced.
fn traced(script: &Script, name: &str) -> Result<Passed, String> {
    let compiled = tributary_p4::compile(&Sources::disk(), name, Options::marked(&[]));
    let compiled = compiled.map_err(|errors| errors.render(false))?;
    let config = ForwardingPipelineConfig { p4info: Some(compiled.p4info), ..Default::default() };
    let forwarding =
        Forwarding::load(compiled.program, config).map_err(|error| error.to_string())?;
    let (mut packets, mut started) = (0, false);
    let outcome = tributary_switch::stf::run_with(script, forwarding, &mut |switch| {
        if !std::mem::replace(&mut started, true) {
            let budget = Arc::new(Budget::new(u64::MAX, u64::MAX));
            switch.set_tracing(Some(Tracing::new(Filter::all(), budget)));
        }
        packets += std::iter::from_fn(|| switch.poll_trace()).count();
    });
    let passed = outcome.map_err(|failure| failure.to_string())?;
    // Each packet has a trace, and each trace has an end.
    if packets == passed.packets { Ok(passed) } else { Err(format!("{packets} traces")) }
}
