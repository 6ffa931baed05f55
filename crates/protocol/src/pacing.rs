//! Pacing: a worker sends values at a rate that a control plane assigns.
//!
//! P4INC-AOI schedules how much bandwidth each job gets in each time slot (§IV, the variables *B*),
//! and counts the data of a job in gradients (*D*). So a [`Rate`] counts values, and not the headers of
//! the packets that carry them: a worker with a rate of *r* sends *r*·*t* bits of values in time *t*.
//! Packets that are sent again count like all others.
//!
//! The rate is kept by a token bucket. It starts empty and holds what [`DEPTH`] brings in, so a worker
//! whose process gets its processor late catches up. A worker that was idle may send as much at once;
//! its window still applies.

use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

use crate::Time;

/// The time in which an empty bucket fills: more than a process usually waits for a processor.
pub const DEPTH: Duration = Duration::from_millis(10);

/// Bits of values per second, from 1.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize,
)]
pub struct Rate(NonZeroU64);

impl Rate {
    /// A rate; `None` for zero, which would stop a worker without its peers knowing.
    #[must_use]
    pub const fn new(bits_per_second: u64) -> Option<Self> {
        match NonZeroU64::new(bits_per_second) {
            Some(rate) => Some(Self(rate)),
            None => None,
        }
    }

    /// Bits of values per second.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// Picoseconds that so many values take: at most 2^14 values, in 71 bits.
    const fn picoseconds(self, values: u16) -> u128 {
        32 * values as u128 * PICOS_PER_SECOND / self.0.get() as u128
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} b/s", self.0)
    }
}

const PICOS_PER_SECOND: u128 = 1_000_000_000_000;
const PICOS_PER_NANO: u128 = 1_000;

/// A token bucket, as the time until which the values sent so far are paid for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pacer {
    rate: Option<Rate>,
    /// In picoseconds: with whole nanoseconds, fast rates would be wrong by a percent. `None`: the
    /// bucket begins to fill with the next packet.
    paid_until: Option<u128>,
}

impl Pacer {
    pub(crate) const fn new(rate: Option<Rate>) -> Self {
        Self { rate, paid_until: None }
    }

    pub(crate) const fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// Changes the rate. What is owed at the old rate is owed in values, and so is what was saved.
    pub(crate) fn set(&mut self, now: Time, rate: Option<Rate>) {
        let (Some(old), Some(new), Some(until)) = (self.rate, rate, self.paid_until) else {
            *self = Self::new(rate);
            return;
        };
        let (now, scale) = (picoseconds(now), |time: u128| {
            // Beyond 2^64 both are so long that precision does not matter.
            let (old, new) = (u128::from(old.get()), u128::from(new.get()));
            time.checked_mul(old).map_or(time / new * old, |values| values / new)
        });
        let until = if until > now {
            now + scale(until - now)
        } else {
            now.saturating_sub(scale(now - until).min(depth()))
        };
        (self.rate, self.paid_until) = (rate, Some(until));
    }

    /// When the next packet may be sent, if not now.
    pub(crate) fn wait(&mut self, now: Time) -> Option<Time> {
        self.rate?;
        let now = picoseconds(now);
        let until = *self.paid_until.get_or_insert(now);
        (until > now).then(|| {
            let nanos = until.div_ceil(PICOS_PER_NANO);
            Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        })
    }

    /// Takes the tokens of a packet with so many values.
    pub(crate) fn charge(&mut self, now: Time, values: u16) {
        let Some(rate) = self.rate else { return };
        let full = picoseconds(now).saturating_sub(depth());
        let until = self.paid_until.unwrap_or_else(|| picoseconds(now)).max(full);
        self.paid_until = Some(until + rate.picoseconds(values));
    }
}

fn picoseconds(time: Time) -> u128 {
    PICOS_PER_NANO * u128::from(time.as_nanos())
}

const fn depth() -> u128 {
    PICOS_PER_NANO * DEPTH.as_nanos()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const VALUES: u16 = 64;

    fn rate(bits: u64) -> Rate {
        Rate::new(bits).unwrap()
    }

    /// Sends whenever the pacer allows, but is at its desk only every `nap`. Returns bits sent.
    fn send(pacer: &mut Pacer, from: u64, to: u64, nap: u64) -> u64 {
        let (mut now, mut sent) = (from, 0);
        while now < to {
            while pacer.wait(Time::from_nanos(now)).is_none() {
                pacer.charge(Time::from_nanos(now), VALUES);
                sent += 32 * u64::from(VALUES);
                assert!(pacer.rate().is_some(), "else it never ends");
            }
            let due = pacer.wait(Time::from_nanos(now)).unwrap().as_nanos();
            now = due.max(now + nap);
        }
        sent
    }

    /// Numbers with every number of digits, also times before the bucket can be full.
    fn magnitudes() -> impl Strategy<Value = u64> {
        (any::<u64>(), 0u32..64).prop_map(|(number, less)| number >> less)
    }

    #[test]
    fn no_rate_is_no_limit() {
        let mut pacer = Pacer::new(None);
        for _ in 0..1000 {
            assert_eq!(pacer.wait(Time::ZERO), None);
            pacer.charge(Time::ZERO, VALUES);
        }
        assert_eq!(Rate::new(0), None);
    }

    #[test]
    fn an_idle_worker_saves_the_depth_and_no_more() {
        let mut pacer = Pacer::new(Some(rate(1_000_000_000)));
        let second = 1_000_000_000;
        // It starts empty.
        assert_eq!(pacer.wait(Time::ZERO), None);
        pacer.charge(Time::ZERO, VALUES);
        assert_eq!(pacer.wait(Time::ZERO), Some(Time::from_nanos(2048)));
        let burst = send(&mut pacer, second, second + 1, 1);
        let saved = 10_000_000;
        assert!((saved..=saved + 2048).contains(&burst), "{burst}");
    }

    #[test]
    fn a_change_applies_at_once() {
        let mut pacer = Pacer::new(Some(rate(1)));
        pacer.charge(Time::ZERO, VALUES);
        assert_eq!(pacer.wait(Time::ZERO), Some(Time::from_nanos(2048 * 1_000_000_000)));
        // What is owed takes as long as at the new rate.
        pacer.set(Time::ZERO, Some(rate(1_000_000_000)));
        assert_eq!(pacer.wait(Time::ZERO), Some(Time::from_nanos(2048)));
        pacer.set(Time::from_nanos(1024), Some(rate(500_000_000)));
        assert_eq!(pacer.wait(Time::from_nanos(1024)), Some(Time::from_nanos(3072)));
        pacer.set(Time::from_nanos(1024), None);
        assert_eq!(pacer.wait(Time::from_nanos(1024)), None);
    }

    proptest! {
        // Each case sends for up to ten thousand naps.
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// What is sent follows the rate as long as the sender looks more often than the depth, and
        /// never exceeds it by more than the depth and a packet.
        #[test]
        fn the_rate_is_kept(
            bits in 100_000u64..400_000_000_000,
            then in 100_000u64..400_000_000_000,
            nap in 1u64..9_000_000,
        ) {
            let second = 1_000_000_000;
            let mut pacer = Pacer::new(Some(rate(bits)));
            let mut from = 0;
            for bits in [bits, then] {
                pacer.set(Time::from_nanos(from), Some(rate(bits)));
                // Long enough for 50 packets, short enough for a test.
                let packet = 2048 * second / bits + 1;
                let time = (50 * packet).max(if nap < 1_000_000 { 10_000 * nap.min(packet.max(nap)) } else { second });
                let time = time.min(10_000 * packet.max(nap / 10));
                let sent = send(&mut pacer, from, from + time, nap);
                let due = u128::from(bits) * u128::from(time) / u128::from(second);
                let (most, least) = (
                    due + u128::from(bits / 100) + 4096,
                    due.saturating_sub(u128::from(bits) * u128::from(nap + packet) / u128::from(second) + 4096),
                );
                prop_assert!((least..=most).contains(&u128::from(sent)), "{sent}: {least} to {most}");
                from += time;
            }
        }
    }

    proptest! {
        #[test]
        fn no_time_and_no_rate_panics(
            now in magnitudes(),
            later in magnitudes(),
            a in magnitudes(),
            b in magnitudes(),
            values: u16,
        ) {
            let (a, b) = (Rate::new(a), Rate::new(b));
            let mut pacer = Pacer::new(a);
            let now = Time::from_nanos(now);
            pacer.charge(now, values);
            pacer.set(now, b);
            pacer.charge(now + Duration::from_nanos(later), values);
            pacer.wait(now + Duration::from_nanos(later));
            pacer.set(now + Duration::from_nanos(later), a);
            pacer.wait(Time::ZERO);
        }
    }
}
