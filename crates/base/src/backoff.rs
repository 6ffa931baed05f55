//! Pauses between attempts.

use std::time::Duration;

/// Pauses that double from attempt to attempt up to a longest one. The caller waits.
///
/// ```
/// # use std::time::Duration;
/// use tributary_base::Backoff;
///
/// let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(50));
/// assert_eq!(backoff.next_pause(), Duration::from_millis(20));
/// assert_eq!(backoff.next_pause(), Duration::from_millis(40));
/// assert_eq!(backoff.next_pause(), Duration::from_millis(50));
/// backoff.reset();
/// assert_eq!(backoff.next_pause(), Duration::from_millis(20));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// Pauses from `first` to `longest`.
    #[must_use]
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    /// The pause after an attempt that failed.
    pub fn next_pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(self.longest);
        pause
    }

    /// Starts again with the first pause, after an attempt that succeeded.
    pub const fn reset(&mut self) {
        self.next = self.first;
    }
}
