//! `tributary-p4`: checks and describes programs.

mod bounded;
pub(crate) mod dissector;
mod dump;
pub(crate) mod fmt;
pub(crate) mod graph;
pub(crate) mod stf;
pub(crate) mod test;
pub(crate) mod trace;

use std::io::IsTerminal;
use std::path::Path;

use anyhow::{Context, Result, bail};
use prost::Message;
use tributary_p4::{Architecture, Compilation, Diagnostic, Diagnostics, Options, Sources};
use tributary_p4runtime::p4::v1::ForwardingPipelineConfig;
use tributary_switch::{Forwarding, Refusal};

use crate::args::{CheckArgs, InfoArgs, P4Args};

/// Reports all errors of a program, including what a switch cannot run, or prints it after a pass.
///
/// # Errors
/// If it has any.
pub(crate) fn check(args: &CheckArgs) -> Result<()> {
    let style = if args.short { Style::Lines } else { Style::of_stderr() };
    let mut given = args.program.clone();
    if let Some(pass) = &args.dump {
        return dump::run(&given, pass, style);
    }
    // One that the user gives stays.
    let known =
        |name: &str| given.defines.iter().any(|define| define.split('=').next() == Some(name));
    let define = args.target.and_then(target_macro);
    let define = define.filter(|(name, _)| !known(name));
    given.defines.extend(define.map(|(name, value)| format!("{name}={value}")));
    let Compilation { program, p4info, warnings } = compile_silently(&given, true, style)?;
    let file = &args.program.file;
    if let (Some(target), Some(found)) = (args.target, program.architecture())
        && target != found
    {
        style.show(&warnings);
        bail!(
            "{}: the program is for {found} (its `main` is a `{}`), not for {target}",
            file.display(),
            found.package()
        );
    }
    let summary = format!(
        "{}: no errors; {} tables, {} actions, {} externs",
        file.display(),
        program.tables.len(),
        program.actions.len(),
        program.externs.len()
    );
    // What a switch would refuse is an error, too.
    let config = ForwardingPipelineConfig { p4info: Some(p4info), ..Default::default() };
    match Forwarding::load(program, config) {
        Ok(_) => {
            style.show(&warnings);
            tributary_base::program::print(&summary)
        }
        Err(Refusal { diagnostic: Some(error), .. }) => {
            // A warning at its place was about the same.
            let place = |one: &Diagnostic| (one.file.clone(), one.line, one.column);
            let mut all = Diagnostics::default();
            for warning in warnings.iter().filter(|warning| place(warning) != place(&error)) {
                all.push(warning.clone());
            }
            all.push(*error);
            fail(file, &all, style)
        }
        Err(refusal) => {
            style.show(&warnings);
            bail!("{}: {refusal}", file.display())
        }
    }
}

/// The macro that compilers define for an architecture.
fn target_macro(target: Architecture) -> Option<(&'static str, u32)> {
    match target {
        Architecture::V1model => Some(("__TARGET_BMV2__", 1)),
        Architecture::Tna => Some(("__TARGET_TOFINO__", 1)),
        Architecture::Psa => None,
    }
}

/// Writes a program's P4Info: protobuf text, or encoded.
///
/// # Errors
/// If the program has errors, or the file cannot be written.
pub(crate) fn info(args: &InfoArgs) -> Result<()> {
    let info = compile(&args.program)?.p4info;
    let text = || tributary_p4runtime::text::to_text(&info).trim_end().to_owned();
    match &args.out {
        None => tributary_base::program::print(&text()),
        Some(out) if args.binary => write(out, &info.encode_to_vec()),
        Some(out) => write(out, (text() + "\n").as_bytes()),
    }
}

fn write(path: &Path, contents: &[u8]) -> Result<()> {
    tributary_base::write_whole(path, contents)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Checks that the program's file can be read, before errors name a position in it.
fn must_be_there(path: &Path) -> Result<()> {
    let opened = tributary_p4::SOURCE.open(path);
    opened.map(drop).with_context(|| format!("cannot read {}", path.display()))
}

fn parse_defines(defines: &[String]) -> Result<Vec<(String, String)>> {
    tributary_p4::defines(defines).map_err(anyhow::Error::msg)
}

fn compile(args: &P4Args) -> Result<Compilation> {
    compile_in(args, false, Style::of_stderr())
}

/// Compiles a program with marks, for traces.
fn compile_marked(args: &P4Args) -> Result<Compilation> {
    compile_in(args, true, Style::of_stderr())
}

fn compile_in(args: &P4Args, marks: bool, style: Style) -> Result<Compilation> {
    let compilation = compile_silently(args, marks, style)?;
    style.show(&compilation.warnings);
    Ok(compilation)
}

/// The same, but for the warnings of a program without errors.
fn compile_silently(args: &P4Args, marks: bool, style: Style) -> Result<Compilation> {
    must_be_there(&args.file)?;
    let defines = parse_defines(&args.defines)?;
    let sources = sources(args);
    let options = Options { defines: &defines, marks };
    tributary_p4::compile(&sources, &args.file.display().to_string(), options)
        .or_else(|diagnostics| fail(&args.file, &diagnostics, style))
}

/// How diagnostics are shown on standard error.
#[derive(Clone, Copy)]
enum Style {
    /// With the source line, in colours or not.
    Excerpts(bool),
    /// One line each.
    Lines,
}

impl Style {
    fn of_stderr() -> Self {
        Self::Excerpts(std::io::stderr().is_terminal())
    }

    fn show(self, diagnostics: &Diagnostics) {
        match self {
            Self::Excerpts(colours) => eprint!("{}", diagnostics.render(colours)),
            Self::Lines if diagnostics.is_empty() => {}
            Self::Lines => eprintln!("{diagnostics}"),
        }
    }
}

fn sources(args: &P4Args) -> Sources {
    args.include.iter().fold(Sources::disk(), |all, dir| all.search(dir))
}

/// Prints the diagnostics; the error is the final line.
fn fail<T>(path: &Path, diagnostics: &Diagnostics, style: Style) -> Result<T> {
    if diagnostics.failure().is_none() {
        style.show(diagnostics);
    }
    bail!("{}: {}", path.display(), diagnostics.summary());
}
