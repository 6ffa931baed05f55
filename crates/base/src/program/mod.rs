//! What the programs of this workspace share: log, limits, errors, output, signals, manual pages and
//! completions.
//!
//! Each error becomes one line on standard error and exit status 1; an invalid command line is status 2.

mod describe;
mod signals;

use std::io::{self, IsTerminal, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use signal_hook::consts::SIGXFSZ;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::FmtSpan;
pub use tracing_subscriber::layer::Identity;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry};

pub use describe::{Completions, ManualPages, flaws};
pub use signals::stop_flag;

/// Prints a line to standard output. A closed pipe must not terminate the process, which may have
/// jobs in switches to remove, or workers that wait for it.
#[macro_export]
macro_rules! say {
    ($($line:tt)*) => {{
        use std::io::Write as _;
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, $($line)*).and_then(|()| out.flush());
    }};
}

/// Tells the service manager that has started this process, if it wants to know (systemd's `Type=notify`), that the
/// process serves now.
pub fn ready() {
    if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Ready]) {
        tracing::warn!("the service manager does not learn that this process serves: {error}");
    }
}

/// The service manager's watchdog, if it has one for this process (systemd's `WatchdogSec`): it starts a process again that
/// does not say in time that it works.
#[derive(Clone, Copy, Debug)]
pub struct Watchdog {
    pause: Duration,
}

impl Watchdog {
    /// The one of this process.
    #[must_use]
    pub fn find() -> Option<Self> {
        // The time of two pauses may pass unused.
        sd_notify::watchdog_enabled().map(|longest| Self { pause: longest / 3 })
    }

    /// The time after which to say it again.
    #[must_use]
    pub fn pause(self) -> Duration {
        self.pause
    }

    /// Says that the process works.
    pub fn feed(self) {
        if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Watchdog]) {
            tracing::warn!("the service manager does not learn that this process works: {error}");
        }
    }
}

/// The exit statuses of a program, and its environment, for the end of its help.
#[macro_export]
macro_rules! exit_status {
    () => {
        "Exit status: 0 success, 1 an error, in one line on standard error, 2 an invalid command line\n\
         TRIBUTARY_LOG in the environment sets what is logged: warn, info, debug, or TARGET=LEVEL,…"
    };
}

/// Minimum number of file descriptors for any command. Commands that need more check that when they know
/// how many.
const DESCRIPTORS: u64 = 32;

/// Address space for threads and memory, beside the program.
pub const SPACE: u64 = 64 << 20;

/// Starts the log, whose spans also go to `traces`, and checks this process's limits; it needs `space` bytes
/// of addresses.
///
/// # Errors
/// One line, if a limit is too low or `TRIBUTARY_LOG` is invalid.
pub fn start(traces: Option<impl Layer<Registry> + Send + Sync>, space: u64) -> Result<()> {
    start_log(traces)?;
    prepare(space)
}

/// The exit status of a command, after the error's line.
#[must_use]
pub fn end(result: Result<ExitCode>) -> ExitCode {
    let Err(error) = result else { return result.unwrap_or(ExitCode::SUCCESS) };
    let of_limit = |cause: &(dyn std::error::Error + 'static)| {
        let cause = cause.downcast_ref::<io::Error>();
        cause.and_then(io::Error::raw_os_error) == Some(Errno::EMFILE as i32)
    };
    let advice = match error.chain().any(of_limit) {
        true => "; raise the limit of open files (`ulimit -n`)",
        false => "",
    };
    // The terminal may be closed.
    let _ = writeln!(io::stderr(), "error: {}{advice}", crate::one_line(error.as_ref()));
    ExitCode::FAILURE
}

/// Logs to standard error what `TRIBUTARY_LOG` selects: by default warnings, and decisions. A level
/// alone is that of our own crates.
fn start_log(traces: Option<impl Layer<Registry> + Send + Sync>) -> Result<()> {
    let wanted = std::env::var("TRIBUTARY_LOG")
        .unwrap_or_else(|_| format!("warn,{}=info", crate::DECISIONS));
    let filter = match wanted.parse::<LevelFilter>() {
        Ok(level) => format!("{},tributary={level}", level.min(LevelFilter::WARN)),
        Err(_) => wanted.clone(),
    };
    let filter = EnvFilter::try_new(filter).with_context(|| {
        format!("TRIBUTARY_LOG={wanted}: write a level, such as info, or CRATE=LEVEL,CRATE=LEVEL")
    })?;
    let log = tracing_subscriber::fmt::layer()
        .with_span_events(FmtSpan::CLOSE)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_filter(filter);
    tracing_subscriber::registry().with(traces).with(log).init();
    Ok(())
}

/// Makes the shell's limits cause an error message instead of a silent exit. Raises the limit of open files
/// as far as this process may.
fn prepare(space: u64) -> Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < hard {
        // The kernel may refuse more than `fs.nr_open`.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
    crate::descriptors(DESCRIPTORS, "this program")?;
    crate::address_space(space)?;
    // A write beyond `ulimit -f` raises SIGXFSZ, which kills the process without a handler. With
    // one, the write fails instead.
    signal_hook::flag::register(SIGXFSZ, Arc::default()).context("cannot catch signals")?;
    Ok(())
}

/// Prints to standard output. A closed pipe is not an error.
///
/// # Errors
/// If standard output cannot be written for another reason.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

/// Writes a file, whole or not at all.
///
/// # Errors
/// One line with the file's name.
pub fn put(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    crate::write_whole(path, content).with_context(|| format!("cannot write {}", path.display()))
}

/// Time between two lines about progress, where there is no terminal.
const LINES: Duration = Duration::from_secs(10);

/// Runs `work`, which calls its argument with what is done and the total, with a progress bar on
/// terminals, and otherwise a line now and then.
pub fn with_bar<T>(what: &str, work: impl FnOnce(&(dyn Fn(u64, u64) + Sync)) -> T) -> T {
    let template = format!("{{bar:40}} {{pos}}/{{len}} {what}  {{elapsed_precise}}, {{eta}} left");
    let style = ProgressStyle::with_template(&template).expect("a valid template");
    let bar = ProgressBar::new(0).with_style(style);
    let (begin, told) = (Instant::now(), Mutex::new(Instant::now()));
    let silent = bar.is_hidden();
    let result = work(&|done, total| {
        bar.set_length(total);
        bar.set_position(done);
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        if silent && told.elapsed() >= LINES {
            *told = Instant::now();
            // A closed pipe must not end the process.
            drop(writeln!(
                io::stderr(),
                "{done} of {total} {what}, {} s",
                begin.elapsed().as_secs()
            ));
        }
    });
    bar.finish_and_clear();
    result
}
