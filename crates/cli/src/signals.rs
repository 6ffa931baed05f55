//! Signals.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/// A flag raised by the signals that ask a process to end: SIGINT (Ctrl-C), SIGTERM, SIGHUP (the
/// terminal is closed) and SIGQUIT. A second signal ends the process at once. SIGHUP and SIGQUIT
/// stay ignored if they were at the start, as under `nohup`.
///
/// # Errors
/// If the signals cannot be caught.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let ignored =
        ignored_signals(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
    let ignored = |signal: i32| ignored >> (signal - 1) & 1 == 1;
    let wanted = [SIGHUP, SIGQUIT].into_iter().filter(|&signal| !ignored(signal));
    for signal in [SIGINT, SIGTERM].into_iter().chain(wanted) {
        // The order matters: the flag is down at the first signal and raised at the second.
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&flag))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
            .context("cannot catch signals")?;
    }
    Ok(flag)
}

/// The signals that a process ignores, one bit each from signal 1 up; `status` is the content of
/// its file in `/proc`.
fn ignored_signals(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
