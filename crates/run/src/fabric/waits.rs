//! How long threads have waited for a core.

use std::fs;
use std::time::Duration;

/// The time for which each thread of a process could run but had no core, if its name is one of those `wanted`; empty
/// if the kernel does not tell, or the process has ended. `process` is its ID, or `self`.
pub(super) fn of_threads(process: &str, wanted: impl Fn(&str) -> bool) -> Vec<Duration> {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    let wait = |thread: fs::DirEntry| {
        let name = fs::read_to_string(thread.path().join("comm")).ok()?;
        let wanted = wanted(name.trim_end());
        wanted.then(|| parse(&fs::read_to_string(thread.path().join("schedstat")).ok()?))?
    };
    threads.flatten().filter_map(wait).collect()
}

/// The kernel's line has the time on a core, the time of waiting for one, both in nanoseconds, and how often it ran.
fn parse(line: &str) -> Option<Duration> {
    line.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_line_is_read() {
        assert_eq!(parse("97866 72398 2\n"), Some(Duration::from_nanos(72_398)));
        assert_eq!(parse(""), None);
        assert_eq!(parse("1 x 2"), None);
    }

    #[test]
    fn threads_are_chosen_by_their_names() {
        let wait = |wanted: fn(&str) -> bool| of_threads("self", wanted).len();
        let begun = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("waits for a core".into());
            let started = thread.spawn_scoped(scope, || {
                begun.wait();
                begun.wait();
            });
            begun.wait();
            // The kernel keeps 15 bytes of a name.
            assert_eq!(wait(|name| name == "waits for a cor"), 1);
            assert_eq!(wait(|_| false), 0);
            begun.wait();
            started.unwrap().join().unwrap();
        });
        assert!(of_threads("none", |_| true).is_empty());
    }
}
