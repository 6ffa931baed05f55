//! `tributary p4runtime`: one command, a shell, or the commands in standard input.

mod shell;

use std::io::{BufRead, BufReader, IsTerminal as _, Read as _, stdin};
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tributary_access::args::{KeyArgs, encrypts};
use tributary_base::say;
use tributary_client::commands::{self, help};
use tributary_client::{Error, Report, Session, words};
use tributary_controller::client::{SwitchConfig, Target};

/// Largest line of a script, in bytes.
const LINE: usize = 1 << 20;

/// How long a command may go on after Ctrl-C: one that listens to digests turns them off.
const GRACE: Duration = Duration::from_secs(1);

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
        let mut interrupts = interrupts(&runtime)?;
        // A command that listens ends so.
        return carry_out(&runtime, &mut session, &words, &mut print, &mut interrupts).map(drop);
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

/// How a command has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ended {
    ByItself,
    Interrupted,
}

/// Listens for Ctrl-C from now on. After that, Ctrl-C does not end this process any more.
fn interrupts(runtime: &Runtime) -> Result<Signal> {
    let _entered = runtime.enter();
    signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")
}

fn interrupted() -> anyhow::Error {
    anyhow!("interrupted; the command may have taken effect")
}

/// Carries out a command. After Ctrl-C, a command that listens ends in order, and others after [`GRACE`] or another
/// Ctrl-C with an error. The errors of a P4 program are printed in full.
fn carry_out(
    runtime: &Runtime,
    session: &mut Session,
    words: &[String],
    print: &mut dyn FnMut(&Report),
    interrupts: &mut Signal,
) -> Result<Ended> {
    let (stop, stopped) = oneshot::channel::<()>();
    let (outcome, ended) = runtime.block_on(async {
        let stopped = async { drop(stopped.await) };
        let mut command = pin!(tributary_client::run(session, words, stopped, print));
        tokio::select! {
            outcome = &mut command => return Ok((outcome, Ended::ByItself)),
            _ = interrupts.recv() => {}
        }
        // The command may have ended at the same time.
        let _ = stop.send(());
        tokio::select! {
            outcome = command => Ok((outcome, Ended::Interrupted)),
            () = tokio::time::sleep(GRACE) => Err(interrupted()),
            _ = interrupts.recv() => Err(interrupted()),
        }
    })?;
    if let Err(Error::Program { diagnostics, .. }) = &outcome {
        eprint!("{diagnostics}");
    }
    outcome?;
    Ok(ended)
}

/// Carries out the commands in standard input, up to the first that fails or is interrupted.
fn script(runtime: &Runtime, session: &mut Session, print: &mut dyn FnMut(&Report)) -> Result<()> {
    let mut interrupts = interrupts(runtime)?;
    let mut lines = read_lines()?;
    for number in 1u64.. {
        let place = || format!("line {number}");
        let line = runtime.block_on(async {
            tokio::select! {
                line = lines.recv() => Ok(line),
                _ = interrupts.recv() => Err(anyhow!("interrupted")),
            }
        });
        let Some(line) = line.with_context(place)? else { break };
        let words = words::split(&line.with_context(place)?).with_context(place)?;
        if commands::is_exit(&words) {
            break;
        }
        let ended = carry_out(runtime, session, &words, print, &mut interrupts);
        if ended.with_context(place)? == Ended::Interrupted {
            return Err(interrupted()).with_context(place);
        }
    }
    Ok(())
}

/// Reads standard input in a thread, which must not keep Ctrl-C from ending the process.
fn read_lines() -> Result<mpsc::Receiver<Result<String>>> {
    let (sender, lines) = mpsc::channel(1);
    let read = move || {
        let mut input = BufReader::new(stdin());
        while let Some(line) = next_line(&mut input).transpose() {
            let is_last = line.is_err();
            if sender.blocking_send(line).is_err() || is_last {
                break;
            }
        }
    };
    std::thread::Builder::new().name("stdin".into()).spawn(read).context("cannot start threads")?;
    Ok(lines)
}

/// Reads a line of at most [`LINE`] bytes; `None` at the end.
fn next_line(input: &mut impl BufRead) -> Result<Option<String>> {
    let mut line = Vec::new();
    let most = LINE as u64 + 1;
    input.take(most).read_until(b'\n', &mut line).context("cannot read standard input")?;
    let is_whole = line.pop_if(|byte| *byte == b'\n').is_some();
    if line.is_empty() && !is_whole {
        return Ok(None);
    }
    if line.len() > LINE {
        return Err(anyhow!("the line is longer than {LINE} bytes"));
    }
    let line = String::from_utf8(line).map_err(|_| anyhow!("the line is not UTF-8"))?;
    Ok(Some(line))
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, repeat};

    use super::*;

    #[test]
    fn lines_are_bounded() {
        let mut input = Cursor::new(b"a\n\nb".to_vec());
        let mut next = || next_line(&mut input).unwrap();
        assert_eq!(
            [next(), next(), next(), next()],
            [Some("a".to_owned()), Some(String::new()), Some("b".to_owned()), None]
        );
        let longest = [vec![b'x'; LINE], b"\n".to_vec()].concat();
        assert_eq!(next_line(&mut Cursor::new(longest)).unwrap().unwrap().len(), LINE);
        let error = next_line(&mut BufReader::new(repeat(b'x'))).unwrap_err();
        assert_eq!(error.to_string(), "the line is longer than 1048576 bytes");
        assert!(next_line(&mut Cursor::new(vec![0xff])).is_err());
    }
}
