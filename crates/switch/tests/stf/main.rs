//! Packet tests of language features, one feature per file. Each `cases/*.p4` must pass with its
//! `.stf` file. Cases without control-plane commands must also pass on BMv2 if BMv2 and p4c are on
//! the PATH. Each `failures/*.stf` must fail for the reason stated in its first lines.
//!
//! `published/*.stf` are for programs of others, which are not part of this repository. Their first lines name the
//! repository with the commit, the program, folders of its include files, and constants. They run if
//! `TRIBUTARY_P4_PROGRAMS` names a folder with clones of the repositories.
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
use tributary_p4::{Compilation, Options, Sources};
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
    let published = match std::env::var_os("TRIBUTARY_P4_PROGRAMS").map(PathBuf::from) {
        Some(folder) => {
            let trial = |script: PathBuf| {
                let (name, folder) = (format!("published::{}", stem(&script)), folder.clone());
                Trial::test(name, move || runs_published(&folder, &script))
            };
            scripts("published").into_iter().map(trial).collect()
        }
        None => {
            if !arguments.list {
                eprintln!("skipped: TRIBUTARY_P4_PROGRAMS does not name a folder of clones");
            }
            Vec::new()
        }
    };
    let readable = scripts("published").into_iter().map(|script| {
        let name = format!("readable::{}", stem(&script));
        Trial::test(name, move || is_readable(&script).map_err(Failed::from))
    });
    let all = cases.chain(failures).chain(peers).chain(readable);
    let all = all.chain(published).chain(hostile::trials());
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

/// The values of a field of a script's first lines: `# what: value`.
fn said<'a>(text: &'a str, what: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines()
        .filter_map(move |line| line.strip_prefix("# ")?.strip_prefix(what)?.strip_prefix(": "))
}

/// Whether the test of a program of others can be read, without the program.
fn is_readable(script: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(script).map_err(|error| error.to_string())?;
    for what in ["repository", "program"] {
        let count = said(&text, what).count();
        if count != 1 {
            return Err(format!("{count} lines `# {what}: …`, not one"));
        }
    }
    let parsed = Script::parse(&text).map_err(|error| error.to_string())?;
    if parsed.expectations() == 0 { Err("it expects nothing".into()) } else { Ok(()) }
}

/// Runs the test of a program of others.
fn runs_published(folder: &Path, script: &Path) -> Result<(), Failed> {
    let text = std::fs::read_to_string(script)?;
    let program = said(&text, "program").next().ok_or("a line `# program: …` is missing")?;
    let sources = said(&text, "include")
        .fold(Sources::disk(), |sources, include| sources.search(folder.join(include)));
    let defines: Vec<String> = said(&text, "define").map(str::to_owned).collect();
    run(&Program { file: folder.join(program), sources, defines }, script)?;
    Ok(())
}

/// A program and what its compilation needs.
struct Program {
    file: PathBuf,
    sources: Sources,
    defines: Vec<String>,
}

impl Program {
    fn plain(file: PathBuf) -> Self {
        Self { file, sources: Sources::disk(), defines: Vec::new() }
    }

    fn compile(&self, marks: bool) -> Result<Compilation, String> {
        let defines = tributary_p4::defines(&self.defines)?;
        let options = Options { defines: &defines, marks };
        let name = self.file.display().to_string();
        tributary_p4::compile(&self.sources, &name, options).map_err(|errors| errors.render(false))
    }
}

fn passes(script: &Path) -> Result<(), Failed> {
    let passed = run(&Program::plain(script.with_extension("p4")), script)?;
    if passed.expectations == 0 { Err("nothing was expected of it".into()) } else { Ok(()) }
}

fn fails(script: &Path) -> Result<(), Failed> {
    let text = std::fs::read_to_string(script)?;
    let one =
        |what| said(&text, what).next().ok_or_else(|| format!("a line `# {what}: …` is missing"));
    let program = Path::new(DIRECTORY).join("cases").join(one("program")?);
    let reason = one("reason")?;
    match run(&Program::plain(program), script) {
        Err(got) if got == reason => Ok(()),
        Err(got) => {
            Err(format!("it failed for another reason\n  got: {got}\n  not: {reason}").into())
        }
        Ok(_) => Err("it passed".into()),
    }
}

fn run(program: &Program, script: &Path) -> Result<Passed, String> {
    let text = std::fs::read_to_string(script).map_err(|error| error.to_string())?;
    let script = Script::parse(&text).map_err(|error| error.to_string())?;
    let compiled = program.compile(false)?;
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
    let traced = traced(&script, program);
    if traced == passed { passed } else { Err(format!("traced, it differs: {traced:?}")) }
}

/// Runs a test with all its packets traced.
fn traced(script: &Script, program: &Program) -> Result<Passed, String> {
    let compiled = program.compile(true)?;
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
