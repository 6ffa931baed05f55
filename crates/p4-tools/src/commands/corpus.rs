//! `tributary-p4 corpus`: which programs of a folder compile, beside p4c's answers.

mod answer;
mod report;

use std::collections::HashSet;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tributary_base::on_all_cores;
use tributary_base::program::with_bar;
use tributary_p4::{SOURCE, Sources};

use crate::args::{CorpusArgs, Dialect};
use answer::{Answer, Compiler};
use report::Report;

/// Folders in one another beyond this are a mistake.
const DEPTH: usize = 32;

/// One program with the answers of both compilers.
struct Outcome {
    program: PathBuf,
    ours: Answer,
    /// `None` without another compiler.
    theirs: Option<Answer>,
}

/// Compiles all programs of a folder and prints the counts and the disagreements.
///
/// # Errors
/// If the folder cannot be read or has no program, or if the compilers disagree.
pub(crate) fn run(args: &CorpusArgs) -> Result<()> {
    ensure!(args.dir.is_dir(), "{} is not a folder", args.dir.display());
    let other = Compiler::other(args)?;
    let mut files = Vec::new();
    collect(&args.dir, 0, &mut files)?;
    files.sort();
    let programs = sifted(args, files)?;
    if programs.is_empty() {
        bail!("{} has no program for {}", args.dir.display(), args.arch.name());
    }
    let ours = Compiler::ours(args)?;
    let outcomes = compile(args, &ours, other.as_ref(), programs);
    let report =
        Report { args, other: other.as_ref().map(|c| c.name.as_str()), outcomes: &outcomes };
    tributary_base::program::print(report.to_string().trim_end())?;
    match report.disagreements() {
        0 => Ok(()),
        1 => bail!("{}: 1 disagreement", args.dir.display()),
        n => bail!("{}: {n} disagreements", args.dir.display()),
    }
}

/// All P4 files below a folder. Links to folders are not followed.
fn collect(dir: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<()> {
    ensure!(depth < DEPTH, "{}: more than {DEPTH} folders in one another", dir.display());
    let cannot = || format!("cannot read {}", dir.display());
    for entry in std::fs::read_dir(dir).with_context(cannot)? {
        let entry = entry.with_context(cannot)?;
        let path = entry.path();
        let kind = entry.file_type().with_context(|| format!("cannot read {}", path.display()))?;
        if kind.is_dir() {
            collect(&path, depth + 1, files)?;
        } else if path.extension().is_some_and(|e| e == "p4") {
            files.push(path);
        }
    }
    Ok(())
}

/// The files that are programs for the architecture: those that include its declarations. Files
/// without `main` that others include are parts of programs.
fn sifted(args: &CorpusArgs, files: Vec<PathBuf>) -> Result<Vec<PathBuf>> {
    let defines = super::parse_defines(&args.defines)?;
    with_bar("files", |progress| sift(args, files, &defines, progress))
}

fn sift(
    args: &CorpusArgs,
    files: Vec<PathBuf>,
    defines: &[(String, String)],
    progress: &dyn Fn(u64, u64),
) -> Result<Vec<PathBuf>> {
    let total = files.len() as u64;
    let mut included = HashSet::new();
    let mut programs = Vec::new();
    for (at, file) in files.into_iter().enumerate() {
        let sources = args.include.iter().fold(Sources::disk(), |all, dir| all.search(dir));
        let name = file.display().to_string();
        let text = match tributary_p4::preprocess(&sources, &name, defines) {
            Ok(text) => text,
            Err(_) => match SOURCE.read(&file) {
                Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                Err(_) => String::new(),
            },
        };
        let markers = text.lines().filter(|line| line.starts_with('#'));
        let named: Vec<&str> =
            markers.filter_map(|line| line.split(['"', '<', '>']).nth(1)).collect();
        if args.arch == Dialect::Any || named.iter().any(|n| args.arch.declarations().contains(n)) {
            let whole = text.split("main").skip(1).any(|rest| rest.trim_start().starts_with(';'));
            programs.push((file, whole));
        }
        included.extend(named.into_iter().filter(|n| *n != name).map(PathBuf::from));
        progress(at as u64 + 1, total);
    }
    programs.retain(|(program, whole)| *whole || !included.contains(program));
    Ok(programs.into_iter().map(|(program, _)| program).collect())
}

/// Runs both compilers for all programs, as many at a time as there are cores.
fn compile(
    args: &CorpusArgs,
    ours: &Compiler,
    other: Option<&Compiler>,
    programs: Vec<PathBuf>,
) -> Vec<Outcome> {
    let time = Duration::from_secs(args.time);
    with_bar("programs", |progress| {
        let compiled = on_all_cores(programs.len(), progress, |at| {
            let program = &programs[at];
            Ok::<_, Infallible>(Outcome {
                program: program.clone(),
                ours: ours.ask(program, time),
                theirs: other.map(|other| other.ask(program, time)),
            })
        });
        compiled.unwrap_or_else(|never| match never {})
    })
}
