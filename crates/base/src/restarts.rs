//! How often, and how soon, a process that dies is started again.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

/// Most deaths in a row after which the process is started again.
const MOST: u32 = 5;

/// Pause after the first death; it doubles with each further one in a row.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// A process that has run for so long starts a new row.
const STEADY: Duration = Duration::from_secs(10);

/// The exit status of a Rust program that panics.
const PANIC: i32 = 101;

/// The deaths of a process so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Restarts {
    in_a_row: u32,
}

impl Restarts {
    /// Takes note that the process has died after it `lived` for some time. Returns the pause before it is
    /// started again; `None` if it has died too often.
    pub fn died(&mut self, lived: Duration) -> Option<Duration> {
        if lived >= STEADY {
            self.in_a_row = 0;
        }
        self.in_a_row += 1;
        (self.in_a_row <= MOST).then(|| FIRST_PAUSE * (1 << (self.in_a_row - 1)))
    }
}

/// Whether a process has died: by a signal, or because it panicked. A process that ended with another status
/// has reported an error, which would come again.
#[must_use]
pub fn is_death(status: ExitStatus) -> bool {
    status.signal().is_some() || status.code() == Some(PANIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_keeps_dying_is_given_up() {
        let mut restarts = Restarts::default();
        let pauses = [100, 200, 400, 800, 1600].map(|ms| Some(Duration::from_millis(ms)));
        for pause in pauses {
            assert_eq!(restarts.died(Duration::from_secs(1)), pause);
        }
        assert_eq!(restarts.died(Duration::from_secs(1)), None);
        // One that ran for a while has another five.
        assert_eq!(restarts.died(STEADY), pauses[0]);
        assert_eq!(restarts.died(Duration::ZERO), pauses[1]);
    }

    #[test]
    fn a_reported_error_is_no_death() {
        for (raw, died) in [(0, false), (1 << 8, false), (101 << 8, true), (9, true)] {
            assert_eq!(is_death(ExitStatus::from_raw(raw)), died, "{raw}");
        }
    }
}
