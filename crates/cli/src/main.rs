//! The `tributary` program.
//!
//! `args` has the command line, `commands` one file per command, and the other modules are shared.
//! The life of a job is in `tributary-run`; what all programs of this workspace do alike is in
//! `tributary_base::program`.

mod args;
mod commands;
mod options;
#[cfg(feature = "otlp")]
mod otlp;
mod progress;
mod sources;

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{CommandFactory as _, Parser as _};
use tributary_base::{program, programs};
use tributary_metrics::{Metrics, Server};
use tributary_run::testbed::enter_user_namespace_if_needed;

use args::{Cli, Command};
use options::ProcessArgs;
use sources::Certificates;

/// Address space of commands that compile P4 programs: the compiler's stack, and memory.
const SPACE_WITH_COMPILER: u64 = tributary_p4::STACK_BYTES as u64 + (512 << 20);

fn main() -> ExitCode {
    let cli = Cli::parse();
    programs::this_is("tributary");
    #[cfg(feature = "otlp")]
    let exporter = otlp::Exporter::start(|| enter(&cli.command));
    #[cfg(feature = "otlp")]
    let (traces, _exporter) = match exporter {
        Ok(exporter) => (exporter.as_ref().map(otlp::Exporter::layer), exporter),
        Err(error) => return program::end(Err(error)),
    };
    #[cfg(not(feature = "otlp"))]
    let traces = None::<program::Identity>;
    let space = if compiles(&cli.command) { SPACE_WITH_COMPILER } else { program::SPACE };
    program::end(
        program::start(traces, space)
            .and_then(|()| match process(&cli.command).and_then(|process| process.cores.clone()) {
                Some(cores) => cores.keep().context("--cores"),
                None => Ok(()),
            })
            .and_then(|()| measured(cli.command)),
    )
}

/// Becomes another program of this workspace; returns only if that fails.
fn become_program(name: &str, arguments: &[OsString]) -> Result<()> {
    let path = programs::path(name)?;
    let error = std::process::Command::new(&path).args(arguments).exec();
    Err(error).with_context(|| format!("cannot run {}", path.display()))
}

/// Gets the rights that a command needs before this process has a second thread.
fn enter(command: &Command) -> Result<()> {
    match command {
        Command::Run(args) => args.fabric.enter(),
        Command::Testbed(args) if args.in_namespaces() => {
            Ok(enter_user_namespace_if_needed().map(drop)?)
        }
        _ => Ok(()),
    }
}

/// Whether a command may compile P4 programs.
fn compiles(command: &Command) -> bool {
    matches!(
        command,
        Command::Run(_)
            | Command::Switch(_)
            | Command::Controller(_)
            | Command::P4runtime(_)
            | Command::Testbed(_)
    )
}

/// The options of a command that runs parts of a network, of which each can serve metrics.
fn process(command: &Command) -> Option<&ProcessArgs> {
    match command {
        Command::Run(args) => Some(&args.process),
        Command::Switch(args) => Some(&args.process),
        Command::Worker(args) => Some(&args.process),
        Command::Ps(args) | Command::Reminder(args) => Some(&args.process),
        Command::Cable(args) => Some(&args.process),
        Command::Controller(args) => Some(&args.process),
        Command::Crossconnect(args) => Some(&args.process),
        Command::Place(command) => command.process(),
        Command::Optical(command) => Some(command.process()),
        _ => None,
    }
}

/// Runs with a server for metrics, if there is an address for it.
fn measured(command: Command) -> Result<ExitCode> {
    let address = process(&command).and_then(|process| process.metrics.clone());
    // Pages have threads of their own.
    let watched = matches!(&command, Command::Run(args) if args.watch.is_some() || args.terminal);
    if address.is_some() || watched {
        enter(&command)?;
    }
    let Some(address) = &address else { return run(command, &Metrics::off()) };
    let metrics = Metrics::on();
    metrics.add(Certificates);
    let server = Server::start(metrics.clone(), address)?;
    tracing::info!(address = %server.address(), "serving metrics");
    run(command, &metrics)
}

fn run(command: Command, metrics: &Metrics) -> Result<ExitCode> {
    let done = match command {
        Command::Testbed(args) => return commands::testbed::run(&args),
        Command::Run(args) => commands::run::run(&args, metrics),
        Command::Certs(args) => commands::certs::run(&args),
        Command::Switch(args) => commands::switch::run(&args, metrics),
        Command::Worker(args) => commands::worker::run(&args, metrics),
        Command::Ps(args) => commands::ps::run(&args, metrics),
        Command::Reminder(args) => commands::reminder::run(&args, metrics),
        Command::Cable(args) => commands::cable::run(&args),
        Command::Capture(args) => commands::capture::run(&args),
        Command::Watch(args) => commands::watch::run(&args),
        Command::Crossconnect(args) => commands::crossconnect::run(&args, metrics),
        Command::Network(args) => commands::network::run(&args),
        Command::Controller(args) => commands::controller::run(&args, metrics),
        Command::P4runtime(args) => commands::p4runtime::run(&args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Job(command) => commands::job::run(&command),
        Command::Place(args) => commands::place::run(&args, metrics),
        Command::Optical(command) => commands::optical::run(&command, metrics),
        Command::Completions(args) => args.print(Cli::command()),
        Command::Man(args) => args.write(Cli::command()),
        Command::P4(args) => become_program("tributary-p4", &args.arguments),
        Command::Lab(args) => become_program("tributary-lab", &args.arguments),
    };
    done.map(|()| ExitCode::SUCCESS)
}
