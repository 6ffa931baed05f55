//! How late this process is: what its timers say about it.

use std::time::Duration;

/// An estimate of how late the process will be told of a packet that has arrived.
///
/// A process that shares a core is not there when its timer is due, and not when a packet comes in. A
/// timer cannot tell a packet that is late from one that waits to be read; it can tell by how much it was
/// late itself, and gives packets that much longer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lateness(Duration);

impl Lateness {
    /// A timer fired so long after it was due. The greatest lateness counts, and fades by an eighth with
    /// every timer.
    pub(crate) fn add(&mut self, late: Duration) {
        self.0 = late.max(self.0 * 7 / 8);
    }

    /// The estimate.
    pub(crate) fn get(self) -> Duration {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rises_at_once_and_fades() {
        let mut lateness = Lateness::default();
        lateness.add(Duration::from_millis(8));
        assert_eq!(lateness.get(), Duration::from_millis(8));
        for _ in 0..20 {
            lateness.add(Duration::ZERO);
        }
        assert!(lateness.get() < Duration::from_millis(1));
    }
}
