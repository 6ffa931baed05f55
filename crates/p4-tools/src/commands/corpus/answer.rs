//! Asking a compiler about one program: a process with a bound on time.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::args::{CorpusArgs, Dialect};
use crate::commands::bounded;

/// What a compiler says about a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    Accepted,
    /// With the first error.
    Refused(String),
    /// It ended by a signal or a bug, or not in time.
    None(String),
}

/// A compiler and its arguments before the program's file.
pub(super) struct Compiler {
    pub(super) name: String,
    path: PathBuf,
    arguments: Vec<String>,
    /// Whether its messages are those of `p4 check --short`.
    ours: bool,
}

impl Compiler {
    /// This program.
    pub(super) fn ours(args: &CorpusArgs) -> Result<Self> {
        let mut arguments: Vec<String> = ["check", "--short"].map(str::to_owned).into();
        arguments.extend(options(args));
        let path = std::env::current_exe().context("cannot find this program")?;
        Ok(Self { name: "tributary".to_owned(), path, arguments, ours: true })
    }

    /// The compiler to compare with: the named one, or that of the architecture on the `PATH`, if
    /// there is one.
    pub(super) fn other(args: &CorpusArgs) -> Result<Option<Self>> {
        let names: &[&str] = match (&args.compiler, args.arch) {
            (Some(name), _) => &[name.as_str()],
            (None, Dialect::V1model) => &["p4c-bm2-ss", "p4test"],
            (None, Dialect::Tna) => &[],
            (None, Dialect::Psa) => &["p4c-bm2-psa", "p4test"],
            (None, Dialect::Any) => &["p4test"],
        };
        let found = names.iter().find_map(|name| Some((*name, found(name)?)));
        let Some((name, path)) = found else {
            if let Some(name) = &args.compiler {
                ensure!(false, "--compiler {name}: there is no such program on the PATH");
            }
            return Ok(None);
        };
        let name = Path::new(name).file_name().map_or(name.into(), |n| n.to_string_lossy());
        let mut arguments = options(args);
        if matches!(&*name, "p4c-bm2-ss" | "p4c-bm2-psa") {
            arguments.extend(["-o".to_owned(), "/dev/null".to_owned()]);
        }
        Ok(Some(Self { name: name.into_owned(), path, arguments, ours: false }))
    }

    /// Compiles a program.
    pub(super) fn ask(&self, program: &Path, time: Duration) -> Answer {
        let mut command = Command::new(&self.path);
        command.args(&self.arguments).arg(program);
        match bounded::run(&mut command, time) {
            Err(error) => Answer::None(format!("cannot run it: {error}")),
            Ok((None, _)) => Answer::None(format!("not within {} seconds", time.as_secs())),
            Ok((Some(status), _)) if status.success() => Answer::Accepted,
            Ok((Some(status), messages)) => self.refusal(status, &messages),
        }
    }

    fn refusal(&self, status: ExitStatus, messages: &str) -> Answer {
        if let Some(signal) = status.signal() {
            return Answer::None(format!("ended by signal {signal}"));
        }
        let bug = |line: &&str| line.contains("Compiler Bug") || line.contains("panicked at");
        if let Some(line) = messages.lines().find(bug) {
            return Answer::None(line.trim().to_owned());
        }
        let first = |wanted: &str| messages.lines().find(|line| line.contains(wanted));
        let found = match self.ours {
            true => first(": error: "),
            false => first("error: ").or_else(|| first("syntax error")),
        };
        let line = found.or_else(|| messages.lines().find(|line| !line.trim().is_empty()));
        Answer::Refused(line.unwrap_or("without a message").trim().to_owned())
    }
}

/// Options that all compilers have.
fn options(args: &CorpusArgs) -> Vec<String> {
    let include = args.include.iter().map(|dir| format!("-I{}", dir.display()));
    include.chain(args.defines.iter().map(|define| format!("-D{define}"))).collect()
}

/// A program on the `PATH`, or at a path with a `/`.
fn found(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_file());
    }
    tributary_base::programs::on_path(name)
}
