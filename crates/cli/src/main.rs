//! The `tributary` command.
//!
//! `args` has the command line, `commands` one file per command, and the other modules are shared.
//! The life of a job is in `tributary-job`.
//!
//! Each error becomes one line on standard error and exit status 1; an invalid command line is
//! status 2.

/// Prints a line to standard output. A closed pipe must not terminate the process, which may have
/// jobs in switches to remove, or workers that wait for it.
macro_rules! say {
    ($($line:tt)*) => {{
        use std::io::Write as _;
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, $($line)*).and_then(|()| out.flush());
    }};
}

mod args;
mod commands;
mod figures;
#[cfg(feature = "otlp")]
mod otlp;
mod progress;
mod signals;
mod sources;

use std::io::{IsTerminal, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use signal_hook::consts::SIGXFSZ;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::FmtSpan;
#[cfg(not(feature = "otlp"))]
use tracing_subscriber::layer::Identity;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry};
use tributary_access::Listen;
use tributary_job::fabric::Kind as Fabric;
use tributary_metrics::{Metrics, Server};

use args::{Cli, Command, P4Command, SimCommand};

/// Minimum number of file descriptors for any command. Commands that need more check that when they know
/// how many.
const DESCRIPTORS: u64 = 32;

/// Address space for threads and memory: beside the program for any command, and with a P4 compiler, most
/// of it for that.
const SPACE: u64 = 64 << 20;
const SPACE_WITH_COMPILER: u64 = tributary_p4::STACK_BYTES as u64 + (512 << 20);

fn main() -> ExitCode {
    let cli = Cli::parse();
    let cores = || cli.cores.map_or(Ok(()), |cores| cores.keep().context("--cores"));
    #[cfg(feature = "otlp")]
    let exporter = otlp::Exporter::start(|| enter(&cli.command));
    #[cfg(feature = "otlp")]
    let (traces, _exporter) = match exporter {
        Ok(exporter) => (exporter.as_ref().map(otlp::Exporter::layer), exporter),
        Err(error) => return fail(&error),
    };
    #[cfg(not(feature = "otlp"))]
    let traces = None::<Identity>;
    match start_log(traces)
        .and_then(|()| prepare(&cli.command))
        .and_then(|()| cores())
        .and_then(|()| measured(cli.metrics.as_ref(), cli.command))
    {
        Ok(code) => code,
        Err(error) => fail(&error),
    }
}

fn fail(error: &anyhow::Error) -> ExitCode {
    let of_limit = |cause: &(dyn std::error::Error + 'static)| {
        let cause = cause.downcast_ref::<std::io::Error>();
        cause.and_then(std::io::Error::raw_os_error) == Some(Errno::EMFILE as i32)
    };
    let advice = match error.chain().any(of_limit) {
        true => "; raise the limit of open files (`ulimit -n`)",
        false => "",
    };
    // The terminal may be closed.
    let _ = writeln!(
        std::io::stderr(),
        "error: {}{advice}",
        tributary_limits::one_line(error.as_ref())
    );
    ExitCode::FAILURE
}

/// Logs to standard error what `TRIBUTARY_LOG` selects. A level alone is that of our own crates. Spans also go
/// to `traces`.
fn start_log(traces: Option<impl Layer<Registry> + Send + Sync>) -> Result<()> {
    let wanted = std::env::var("TRIBUTARY_LOG").unwrap_or_else(|_| "warn".to_owned());
    let filter = match wanted.parse::<LevelFilter>() {
        Ok(level) => format!("{},tributary={level}", level.min(LevelFilter::WARN)),
        Err(_) => wanted.clone(),
    };
    let filter = EnvFilter::try_new(filter).with_context(|| {
        format!("TRIBUTARY_LOG={wanted}: write a level, such as info, or CRATE=LEVEL,CRATE=LEVEL")
    })?;
    let log = tracing_subscriber::fmt::layer()
        .with_span_events(FmtSpan::CLOSE)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_filter(filter);
    tracing_subscriber::registry().with(traces).with(log).init();
    Ok(())
}

/// Makes the shell's limits cause an error message instead of a silent exit. Raises the limit of open files
/// as far as this process may.
fn prepare(command: &Command) -> Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < hard {
        // The kernel may refuse more than `fs.nr_open`.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
    tributary_limits::descriptors(DESCRIPTORS, "this program")?;
    let space = if compiles(command) { SPACE_WITH_COMPILER } else { SPACE };
    tributary_limits::address_space(space)?;
    // A write beyond `ulimit -f` raises SIGXFSZ, which kills the process without a handler. With
    // one, the write fails instead.
    signal_hook::flag::register(SIGXFSZ, Arc::default()).context("cannot catch signals")?;
    Ok(())
}

/// Prints to standard output. A closed pipe is not an error.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

/// Gets the rights that a command needs before this process has a second thread.
fn enter(command: &Command) -> Result<()> {
    match command {
        Command::Run(args) => args.fabric.enter(),
        Command::Chaos(_) | Command::Soak(_) | Command::Bench(_) => Fabric::Netns.enter(),
        _ => Ok(()),
    }
}

/// Whether a command may compile P4 programs.
fn compiles(command: &Command) -> bool {
    matches!(
        command,
        Command::Run(_)
            | Command::Chaos(_)
            | Command::Switch(_)
            | Command::Controller(_)
            | Command::P4(_)
            | Command::Sim(_)
            | Command::Bench(_)
            | Command::Soak(_)
    )
}

/// Whether a command has numbers of its own to serve. A cable is a part of runs that have them.
fn has_numbers(command: &Command) -> bool {
    match command {
        Command::Run(_)
        | Command::Switch(_)
        | Command::Worker(_)
        | Command::Ps(_)
        | Command::Reminder(_)
        | Command::Cable(_) => true,
        Command::Controller(args) => args.command.is_none(),
        Command::Crossconnect(args) => args.serves(),
        Command::Place(args) => args.serves(),
        Command::Optical(command) => command.serves(),
        _ => false,
    }
}

/// Runs with a server for metrics, if there is an address for it.
fn measured(address: Option<&Listen>, command: Command) -> Result<ExitCode> {
    ensure!(
        address.is_none() || has_numbers(&command),
        "--metrics: this command has no numbers to serve; leave the option out"
    );
    // Pages have threads of their own.
    let watched = matches!(&command, Command::Run(args) if args.watch.is_some() || args.terminal);
    if address.is_some() || watched {
        enter(&command)?;
    }
    let Some(address) = address else { return run(command, &Metrics::off()) };
    let metrics = Metrics::on();
    let server = Server::start(metrics.clone(), address)?;
    tracing::info!(address = %server.address(), "serving metrics");
    run(command, &metrics)
}

fn run(command: Command, metrics: &Metrics) -> Result<ExitCode> {
    match command {
        Command::Run(args) => commands::run::run(&args, metrics),
        Command::Certs(args) => commands::certs::run(&args),
        Command::Chaos(args) => commands::chaos::run(&args),
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
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::P4(P4Command::Check(args)) => commands::p4::check(&args),
        Command::P4(P4Command::Corpus(args)) => commands::p4::corpus::run(&args),
        Command::P4(P4Command::Fmt(args)) => commands::p4::fmt::run(&args),
        Command::P4(P4Command::Info(args)) => commands::p4::info(&args),
        Command::P4(P4Command::Graph(args)) => commands::p4::graph::run(&args),
        Command::P4(P4Command::Trace(args)) => commands::p4::trace::run(&args),
        Command::P4(P4Command::Dissector(args)) => commands::p4::dissector::run(&args),
        Command::P4(P4Command::Stf(args)) => return commands::p4::stf::run(&args),
        Command::P4(P4Command::Test(args)) => return commands::p4::test::run(&args),
        Command::Place(args) => commands::place::run(&args, metrics),
        Command::Sim(SimCommand::Esa(args)) => commands::sim::esa(&args),
        Command::Optical(command) => commands::optical::run(&command, metrics),
        Command::Bench(args) => tributary_bench::run(&args, signals::stop_flag),
        Command::Soak(args) => {
            tributary_soak::run(&args, &*signals::stop_flag()?, |line| say!("{line}"))
        }
        Command::Completions(args) => commands::completions::run(&args),
        Command::Man(args) => commands::man::run(&args),
    }?;
    Ok(ExitCode::SUCCESS)
}
