//! Signals.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/// Signals that come sooner after the first one count as the same one: a terminal and a script that ends its
/// children may send two at once.
const AGAIN: Duration = Duration::from_secs(1);

/// A flag raised by the signals that ask a process to end: SIGINT (Ctrl-C), SIGTERM, SIGHUP (the
/// terminal is closed) and SIGQUIT. A second signal, a second or more later, ends the process at once. SIGHUP and
/// SIGQUIT stay ignored if they were at the start, as under `nohup`.
///
/// # Errors
/// If the signals cannot be caught.
pub fn stop_flag() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let ignored =
        ignored_signals(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
    let ignored = |signal: i32| ignored >> (signal - 1) & 1 == 1;
    let wanted = [SIGHUP, SIGQUIT].into_iter().filter(|&signal| !ignored(signal));
    let (begin, first) = (Instant::now(), Arc::new(AtomicU64::new(u64::MAX)));
    for signal in [SIGINT, SIGTERM].into_iter().chain(wanted) {
        let (flag, first) = (Arc::clone(&flag), Arc::clone(&first));
        let handler = move || {
            let now = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX - 1);
            let before = first.fetch_min(now, Ordering::Relaxed);
            flag.store(true, Ordering::Relaxed);
            if now.saturating_sub(before) >= AGAIN.as_millis() as u64 {
                signal_hook::low_level::exit(1);
            }
        };
        // SAFETY: it only reads a clock, changes atomics and exits, which a signal handler may do.
        unsafe { signal_hook::low_level::register(signal, handler) }
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
