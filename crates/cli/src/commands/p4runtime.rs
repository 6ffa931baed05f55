//! `tributary p4runtime`: one command, a shell, or the commands in standard input.

mod shell;

use std::future::pending;
use std::io::{BufRead as _, IsTerminal as _, stdin};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use tokio::runtime::Runtime;
use tributary_access::args::{KeyArgs, encrypts};
use tributary_base::say;
use tributary_client::commands::{self, help};
use tributary_client::{Error, Report, Session, words};
use tributary_controller::client::{SwitchConfig, Target};

/// Largest line of a script, in bytes.
const LINE: usize = 1 << 20;

#[derive(Debug, Args)]
pub(crate) struct P4runtimeArgs {
    /// Address of the switch: HOST:PORT or unix:PATH.
    address: String,
    /// The command, such as `tables`; `help` lists all.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// Print JSON, one document per line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    keys: KeyArgs,
    /// P4Runtime device ID.
    #[arg(long, value_name = "N", default_value_t = 1)]
    device_id: u64,
    /// Election ID for commands that write: the controller with the highest one is primary.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    election_id: u64,
    /// Role of this controller. Without one, it may do everything.
    #[arg(long, value_name = "NAME")]
    role: Option<String>,
    /// Time limit for the switch to answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
}

/// Carries out one command, or those of a shell or of standard input.
///
/// # Errors
/// One line, if a command fails.
pub(crate) fn run(args: &P4runtimeArgs) -> Result<()> {
    let mut words = words::arguments(&args.command)?;
    // It may also follow the command.
    let given = words.len();
    words.retain(|word| word != "--json");
    let json = args.json || words.len() < given;
    let mut print = |report: &Report| show(report, json);
    if let Some((first, rest)) = words.split_first()
        && first == "help"
    {
        print(&help(rest)?);
        return Ok(());
    }
    if let Some(first) = words.first() {
        commands::named(first)?;
    }
    // A thread of its own sends what is left while the shell waits for a line.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.context("cannot start threads")?;
    let mut session = runtime.block_on(Session::connect(config(args)?))?;
    if !words.is_empty() {
        return carry_out(&runtime, &mut session, &words, &mut print, pending());
    }
    if stdin().is_terminal() {
        return shell::run(&runtime, &mut session, &args.address, &mut print);
    }
    session.keep();
    script(&runtime, &mut session, &mut print)
}

fn config(args: &P4runtimeArgs) -> Result<SwitchConfig> {
    let keys = if encrypts(&args.address) { args.keys.client_keys()? } else { None };
    let target = Target::Address(args.address.clone());
    Ok(SwitchConfig {
        keys,
        device_id: args.device_id,
        election_id: args.election_id.into(),
        role: args.role.clone(),
        request_timeout: Duration::from_secs(args.timeout),
        ..SwitchConfig::new(args.address.clone(), target)
    })
}

/// Prints what a command reports.
fn show(report: &Report, json: bool) {
    if json {
        say!("{}", report.json());
    } else if !report.is_empty() {
        say!("{}", report.text(None));
    }
}

/// Carries out a command, unless it is interrupted. The errors of a P4 program are printed in full.
fn carry_out(
    runtime: &Runtime,
    session: &mut Session,
    words: &[String],
    print: &mut dyn FnMut(&Report),
    interrupted: impl Future<Output = ()>,
) -> Result<()> {
    let outcome = runtime.block_on(async {
        tokio::select! {
            outcome = tributary_client::run(session, words, print) => Ok(outcome),
            () = interrupted => Err(anyhow!("interrupted; the command may have taken effect")),
        }
    })?;
    if let Err(Error::Program { diagnostics, .. }) = &outcome {
        eprint!("{diagnostics}");
    }
    Ok(outcome?)
}

/// Carries out the commands in standard input, up to the first that fails.
fn script(runtime: &Runtime, session: &mut Session, print: &mut dyn FnMut(&Report)) -> Result<()> {
    for (at, line) in stdin().lock().lines().enumerate() {
        let line = line.context("cannot read standard input")?;
        let place = || format!("line {}", at + 1);
        if line.len() > LINE {
            return Err(anyhow!("the line is longer than {LINE} bytes")).with_context(place);
        }
        let words = words::split(&line).with_context(place)?;
        if words.first().is_some_and(|word| word == "exit") {
            break;
        }
        carry_out(runtime, session, &words, print, pending()).with_context(place)?;
    }
    Ok(())
}
