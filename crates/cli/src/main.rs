//! The `tributary` command.
//!
//! `args` is the command line; `commands` has a file a command. `tributary run` puts a job file on
//! a fabric (`fabric`), gives each worker its workload (`workload`, `agent`) and reports (`report`).
//! `channel` and `tokens` are for ESA, whose endpoints also talk over TCP. `doctor` looks at machines.
//! Whatever goes wrong becomes one line on standard error and exit status 1; a wrong command line
//! is status 2.

/// Prints a line to standard output. That nobody reads it any more must not end a process which has
/// jobs in switches to remove, or workers that wait for it.
macro_rules! say {
    ($($line:tt)*) => {{
        use std::io::Write as _;
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, $($line)*).and_then(|()| out.flush());
    }};
}

mod agent;
mod alone;
mod args;
mod bench;
mod channel;
mod claim;
mod commands;
mod doctor;
mod fabric;
mod progress;
mod report;
mod runs;
mod settings;
mod tokens;
mod workload;

use std::io::{IsTerminal, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use nix::sys::resource::{Resource, getrlimit};
use signal_hook::consts::SIGXFSZ;
use tracing_subscriber::EnvFilter;

use args::{Cli, Command, P4Command};

/// Files that the runtime and its signals need at least, besides those of the work.
const DESCRIPTORS: u64 = 32;

fn main() -> ExitCode {
    let cli = Cli::parse();
    tracing_subscriber::fmt()
        .with_env_filter(
            EnvFilter::try_from_env("TRIBUTARY_LOG").unwrap_or_else(|_| EnvFilter::new("warn")),
        )
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    match prepare().and_then(|()| run(cli.command)) {
        Ok(code) => code,
        Err(error) => {
            // The terminal may be closed.
            let _ = writeln!(std::io::stderr(), "error: {}", one_line(&error));
            ExitCode::FAILURE
        }
    }
}

/// Sees to it that limits of the shell lead to errors, not to an end without a word.
fn prepare() -> Result<()> {
    let (descriptors, _) = getrlimit(Resource::RLIMIT_NOFILE)?;
    ensure!(
        descriptors >= DESCRIPTORS,
        "this process may open {descriptors} files only, and needs {DESCRIPTORS}; raise the limit with \
         `ulimit -n {DESCRIPTORS}`"
    );
    // With a handler, a write beyond `ulimit -f` fails; without, it ends the process.
    signal_hook::flag::register(SIGXFSZ, Arc::default()).context("cannot catch signals")?;
    Ok(())
}

/// The chain of causes, in one line. Some errors say their cause themselves: it is not said twice. Names
/// from files and from other machines are in it, so a terminal must not act on it.
pub(crate) fn one_line(error: &anyhow::Error) -> String {
    let line = error.chain().skip(1).fold(error.to_string(), |line, cause| {
        let cause = cause.to_string();
        if line.contains(&cause) { line } else { format!("{line}: {cause}") }
    });
    line.split('\n').map(tributary_p4::printable).collect::<Vec<_>>().join("\n")
}

/// Prints to standard output. That nobody reads it any more is no error.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Run(args) => commands::run::run(&args),
        Command::Switch(args) => commands::switch::run(&args),
        Command::Worker(args) => commands::worker::run(&args),
        Command::Ps(args) => commands::ps::run(&args),
        Command::Reminder(args) => commands::reminder::run(&args),
        Command::Cable(args) => commands::cable::run(&args),
        Command::Network(args) => commands::network::run(&args),
        Command::Controller(args) => commands::controller::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::P4(P4Command::Check(args)) => commands::p4::check(&args),
        Command::P4(P4Command::Info(args)) => commands::p4::info(&args),
        Command::P4(P4Command::Graph(args)) => commands::p4::graph::run(&args),
        Command::P4(P4Command::Stf(args)) => return commands::p4::stf::run(&args),
        Command::Place(args) => commands::place::run(&args),
        Command::Bench(args) => bench::run(&args),
    }?;
    Ok(ExitCode::SUCCESS)
}
