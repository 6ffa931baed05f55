//! Priorities of tasks at an aggregator (ESA §5.4).
//!
//! The paper's formula multiplies three ratios. Only the remaining time has a unit, which must be
//! the same for all jobs: seconds.
//!
//! `P_j(l) = 1/T_j · L_j/l · Comm_j/Comp_j`
//!
//! The header has 8 bits for the priority. They hold the logarithm, so that the order is preserved
//! over twelve decades: values between 10⁻⁶ and 10⁶ are distinguished if they differ by 12 %, and
//! values outside are clamped. No packet has priority zero. An aggregator whose priority was halved
//! eight times is therefore below every packet's, so that no task can hold one forever.

use std::num::NonZeroU8;
use std::time::Duration;

/// The priority of a packet: 1 to 255, greater first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Priority(NonZeroU8);

/// Number of distinguished decades, and the exponent of the first.
const DECADES: f64 = 12.0;
const FIRST_DECADE: f64 = -6.0;

impl Priority {
    /// The lowest priority.
    pub const LOWEST: Self = Self(NonZeroU8::MIN);
    /// The highest priority.
    pub const HIGHEST: Self = Self(NonZeroU8::MAX);

    /// `None` for zero, which is not a valid priority.
    pub const fn new(priority: u8) -> Option<Self> {
        match NonZeroU8::new(priority) {
            Some(priority) => Some(Self(priority)),
            None => None,
        }
    }

    /// The header's byte.
    pub const fn get(self) -> u8 {
        self.0.get()
    }

    /// Compresses a value of the formula monotonically: logarithmic from 10⁻⁶ to 10⁶. Zero,
    /// negative numbers and NaN become the lowest priority.
    pub fn compress(value: f64) -> Self {
        if value.is_nan() || value <= 0.0 {
            return Self::LOWEST;
        }
        let share = (value.log10() - FIRST_DECADE) / DECADES;
        // Clamped to 1..=255 before the cast, so that the cast does not truncate.
        let level = (1.0 + share * 254.0).round().clamp(1.0, 255.0) as u8;
        Self::new(level).unwrap_or(Self::LOWEST)
    }
}

/// A job's remaining time, or an estimate of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Horizon {
    /// The time to convergence, if known.
    Remaining(Duration),
    /// The service attained so far, if the time to convergence is unknown: jobs that ran for long
    /// tend to continue (least attained service first).
    Attained(Duration),
}

impl Horizon {
    /// The time in seconds, at least a microsecond, so that no priority is infinite.
    fn seconds(self) -> f64 {
        let (Self::Remaining(time) | Self::Attained(time)) = self;
        time.as_secs_f64().max(1e-6)
    }
}

/// The inputs of the formula for a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobProfile {
    /// L: layers of the model, at least one.
    pub layers: u32,
    /// Comm: time spent on communication in the last iteration.
    pub communication: Duration,
    /// Comp: time spent on computation in the last iteration.
    pub computation: Duration,
    /// T: the remaining time.
    pub horizon: Horizon,
}

impl JobProfile {
    /// The value of the formula for a layer. Layers are counted from one at the front of the model;
    /// a number outside the model is clamped.
    pub fn value(&self, layer: u32) -> f64 {
        let layers = self.layers.max(1);
        let layer = layer.clamp(1, layers);
        // Without computation the ratio would be infinite.
        let computation = self.computation.as_secs_f64().max(1e-9);
        let ratio = self.communication.as_secs_f64() / computation;
        f64::from(layers) / f64::from(layer) * ratio / self.horizon.seconds()
    }

    /// The priority of a layer's gradients.
    pub fn of_layer(&self, layer: u32) -> Priority {
        Priority::compress(self.value(layer))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn profile() -> JobProfile {
        JobProfile {
            layers: 2,
            communication: ms(2),
            computation: ms(1),
            horizon: Horizon::Remaining(Duration::from_secs(10)),
        }
    }

    #[test]
    fn is_the_formula_of_the_paper() {
        // 1/10 · 2/1 · 2/1, and half of that for the second layer.
        assert!((profile().value(1) - 0.4).abs() < 1e-12);
        assert!((profile().value(2) - 0.2).abs() < 1e-12);
    }

    #[test]
    fn front_layers_communication_and_short_jobs_go_first() {
        let base = profile();
        assert!(base.of_layer(1) > base.of_layer(2));
        let talkative = JobProfile { communication: ms(8), ..base };
        assert!(talkative.of_layer(2) > base.of_layer(2));
        let short = JobProfile { horizon: Horizon::Remaining(ms(1000)), ..base };
        assert!(short.of_layer(2) > base.of_layer(2));
        // Least attained service: a job that has run for less time goes first.
        let attained = |time| JobProfile { horizon: Horizon::Attained(time), ..base };
        assert!(attained(ms(5)).of_layer(1) > attained(ms(500)).of_layer(1));
    }

    #[test]
    fn order_survives_over_twelve_decades() {
        let levels: Vec<u8> = (-60..=60)
            .map(|tenth| Priority::compress(10f64.powf(f64::from(tenth) / 10.0)).get())
            .collect();
        assert!(levels.is_sorted_by(|a, b| a < b), "{levels:?}");
        assert_eq!((levels[0], levels[120]), (1, 255));
        // Within one step of 12 %.
        let step = 10f64.powf(DECADES / 254.0);
        assert!(step < 1.12);
        assert!(Priority::compress(1.0 * step) > Priority::compress(1.0));
    }

    #[test]
    fn every_value_is_in_range() {
        for value in [0.0, -1.0, f64::NAN, f64::NEG_INFINITY, 1e-300] {
            assert_eq!(Priority::compress(value), Priority::LOWEST, "{value}");
        }
        for value in [1e300, f64::INFINITY] {
            assert_eq!(Priority::compress(value), Priority::HIGHEST, "{value}");
        }
        let zero = JobProfile {
            layers: 0,
            communication: Duration::ZERO,
            computation: Duration::ZERO,
            horizon: Horizon::Attained(Duration::ZERO),
        };
        assert_eq!(zero.of_layer(0), Priority::LOWEST);
        assert_eq!(Priority::new(0), None);
    }

    proptest! {
        #[test]
        fn compression_is_monotonic(a: f64, b: f64) {
            prop_assume!(a.is_finite() && b.is_finite() && a <= b);
            prop_assert!(Priority::compress(a) <= Priority::compress(b));
        }
    }
}
