//! Commands with a bound on time.

use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tributary_base::Backoff;

/// Bytes of the messages that are kept: the first error is among them.
const KEPT: usize = 1 << 16;

/// Runs a command and waits for its end. When its time is over, it is killed, and there is no status.
/// Returns the beginning of its messages on standard error.
///
/// # Errors
/// If it cannot be started.
pub(super) fn run(
    command: &mut Command,
    time: Duration,
) -> io::Result<(Option<ExitStatus>, String)> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    // Its own processes, such as a preprocessor, end with it.
    command.process_group(0);
    finish(command.spawn()?, time)
}

/// Messages are read while the process runs, so that it does not wait for a reader.
fn finish(mut child: Child, time: Duration) -> io::Result<(Option<ExitStatus>, String)> {
    let stderr = child.stderr.take();
    let reader = std::thread::Builder::new()
        .spawn(move || stderr.map_or_else(String::new, read))
        .inspect_err(|_| drop(child.kill().and_then(|()| child.wait())))?;
    let start = Instant::now();
    let mut backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(20));
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if start.elapsed() < time => {}
            _ => {
                // It may have ended just now.
                let _ = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
                let _ = child.wait();
                return Ok((None, String::new()));
            }
        }
        std::thread::sleep(backoff.next_pause());
    };
    Ok((status, reader.join().unwrap_or_default()))
}

/// The beginning of what a process writes; the rest is read and dropped.
fn read(mut from: impl Read) -> String {
    let mut kept = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let room = KEPT.saturating_sub(kept.len());
        kept.extend_from_slice(&buffer[..length.min(room)]);
    }
    String::from_utf8_lossy(&kept).into_owned()
}
