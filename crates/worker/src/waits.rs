//! How long a thread waits for a core.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

/// Bytes of the kernel's line: three numbers of at most 20 digits.
const LINE: usize = 64;

/// The waits of the thread that made it.
#[derive(Debug)]
pub(crate) struct CoreWaits {
    /// `None` if the kernel does not tell.
    file: Option<File>,
    last: Duration,
}

impl CoreWaits {
    /// Those of this thread, from now on.
    pub(crate) fn of_this_thread() -> Self {
        let file = File::open("/proc/thread-self/schedstat").ok();
        let mut waits = Self { file, last: Duration::ZERO };
        waits.more();
        waits
    }

    /// How long the thread could run but had no core since the last call.
    pub(crate) fn more(&mut self) -> Duration {
        let now = self.total().unwrap_or(self.last);
        let more = now.saturating_sub(self.last);
        self.last = now;
        more
    }

    fn total(&self) -> Option<Duration> {
        let mut line = [0; LINE];
        let length = self.file.as_ref()?.read_at(&mut line, 0).ok()?;
        // The second number, in nanoseconds.
        let number = std::str::from_utf8(&line[..length]).ok()?.split_whitespace().nth(1)?;
        number.parse().ok().map(Duration::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_those_since_the_last_call() {
        let mut waits = CoreWaits::of_this_thread();
        if waits.total().is_none() {
            println!("skipped: this kernel has no /proc/thread-self/schedstat");
            return;
        }
        let before = waits.last;
        std::thread::yield_now();
        let more = waits.more();
        assert_eq!(waits.last, before + more);
        waits.file = None;
        assert_eq!((waits.more(), waits.last), (Duration::ZERO, before + more));
    }
}
