//! The scheduling delay of this process, measured by its timers.

use std::time::Duration;

/// An estimate of the delay with which the process reads a packet that has arrived.
///
/// A process that shares a core is sometimes not scheduled when a timer expires or a packet
/// arrives. At a timeout it cannot distinguish a late packet from one that waits to be read. It can
/// measure how late its own timer fired, and waits that much longer for packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lateness(Duration);

impl Lateness {
    /// Records that a timer fired `late` after it was due. The largest delay counts, and decays by
    /// an eighth with every timer.
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
