//! `tributary watch`, and what `tributary run --watch` shows.

mod attached;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tributary_access::args::KeyArgs;
use tributary_run::live::Hub;
use tributary_run::live::recording::Recorder;
use tributary_run::live::server::Server;
use tributary_run::live::terminal::{self, Position};

use tributary_base::program::stop_flag;

/// Interval of checks for a signal.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Debug, clap::Args)]
pub(crate) struct WatchArgs {
    /// Address of P4Runtime of a running switch, such as 10.0.0.1:9559 or s1=unix:/run/s1.sock; repeat for
    /// each switch. Nothing in it is changed.
    #[arg(long = "switch", value_name = "[NAME=]ADDR", required_unless_present = "replay")]
    pub(crate) switches: Vec<String>,
    /// P4Runtime device ID of each switch.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) device_id: u64,
    /// Address of the controller of these switches, for the names of jobs and the progress of their
    /// workers: HOST:PORT or unix:PATH.
    #[arg(long, value_name = "ADDR", conflicts_with = "replay")]
    pub(crate) controller: Option<String>,
    #[command(flatten)]
    pub(crate) keys: KeyArgs,
    /// Show a recording instead of switches.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["switches", "record"])]
    pub(crate) replay: Option<PathBuf>,
    /// Address of the web page, on this host; port 0 takes a free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", conflicts_with = "terminal")]
    pub(crate) listen: SocketAddr,
    /// Show it in this terminal instead of a web page.
    #[arg(long)]
    pub(crate) terminal: bool,
    /// Record what is shown, for `--replay`.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
}

/// Shows running switches or a recording, until Ctrl-C.
///
/// # Errors
/// One line that describes the problem.
pub(crate) fn run(args: &WatchArgs) -> Result<()> {
    let page = (!args.terminal).then_some(args.listen);
    let stop = stop_flag()?;
    if let Some(file) = &args.replay {
        let hub = Hub::replay(file)?;
        let view = View::show(hub, page, args.terminal, Position::REPLAY)?;
        return view.beside(&stop, true, |stop| {
            wait(stop);
            Ok(())
        });
    }
    let source = attached::Source::new(args)?;
    let hub = hub(args.record.as_deref())?;
    let view = View::show(hub, page, args.terminal, Position::NEWEST)?;
    view.beside(&stop, true, |stop| source.follow(view.hub(), stop))
}

/// A hub, and what shows it.
pub(crate) struct View {
    hub: Hub,
    server: Option<Server>,
    terminal: Option<Position>,
}

impl View {
    /// Opens what the command line asks for; `None` if that is nothing.
    ///
    /// # Errors
    /// One line, if the page cannot be served or the recording cannot be written.
    pub(crate) fn open(
        page: Option<SocketAddr>,
        terminal: bool,
        record: Option<&Path>,
    ) -> Result<Option<Self>> {
        if page.is_none() && !terminal && record.is_none() {
            return Ok(None);
        }
        Self::show(hub(record)?, page, terminal, Position::NEWEST).map(Some)
    }

    fn show(
        hub: Hub,
        page: Option<SocketAddr>,
        terminal: bool,
        position: Position,
    ) -> Result<Self> {
        let serve = |address| {
            let server = Server::start(hub.clone(), address);
            server.with_context(|| format!("cannot serve the page at {address}"))
        };
        let server = page.map(serve).transpose()?;
        if let Some(server) = &server {
            eprintln!("watch at {}", server.url());
        }
        Ok(Self { hub, server, terminal: terminal.then_some(position) })
    }

    pub(crate) fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Works while the terminal shows it, if it is to, and then until that is closed. If the view is `all`,
    /// closing it stops the work.
    ///
    /// # Errors
    /// That of the work, or else that of the terminal or of the recording.
    pub(crate) fn beside<R>(
        &self,
        stop: &Arc<AtomicBool>,
        all: bool,
        work: impl FnOnce(&AtomicBool) -> Result<R>,
    ) -> Result<R> {
        let done = match self.terminal {
            None => work(stop),
            Some(position) => thread::scope(|scope| {
                let show = || {
                    let shown = terminal::run(&self.hub, position, stop);
                    if all || !matches!(shown, Ok(terminal::Ended::Closed)) {
                        stop.store(true, Ordering::Relaxed);
                    }
                    shown
                };
                let shown = thread::Builder::new().spawn_scoped(scope, show);
                let shown = shown.context("cannot start a thread")?;
                let done = work(stop);
                let shown = shown.join().map_err(|_| anyhow!("the terminal's thread panicked"));
                // A view that failed has ended the work, too.
                shown??;
                done
            }),
        };
        let recorded = self.hub.close();
        let done = done?;
        recorded?;
        Ok(done)
    }

    /// Keeps the page until a signal.
    pub(crate) fn linger(&self, stop: &AtomicBool) {
        if let Some(server) = &self.server
            && !stop.load(Ordering::Relaxed)
        {
            eprintln!("the run stays at {} until Ctrl-C", server.url());
            wait(stop);
        }
    }
}

fn hub(record: Option<&Path>) -> Result<Hub> {
    Ok(match record {
        None => Hub::default(),
        Some(path) => Hub::recorded(Recorder::create(path)?),
    })
}

fn wait(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(LOOK);
    }
}
