//! Priorities of tasks at an aggregator (ESA §5.4).
//!
//! The paper's formula multiplies three ratios. Only the remaining time has a unit, which must be
//! the same for all jobs: seconds.
//!
//! `P_j(l) = 1/T_j · L_j/l · Comm_j/Comp_j`
//!
//! The header has 8 bits for the priority, and a [`Code`] maps values to them. The paper's is a linear
//! fixed point (§6), which distinguishes values within a factor of 255 of each other. The default
//! is logarithmic, and preserves the order over twelve decades: remaining times reach from
//! milliseconds to months. The switch lowers the priority of a task that others had to give way to
//! (§5.4). It halves the *value*, so a linear code is shifted, and a logarithmic code is lowered by
//! [`LEVELS_PER_DOUBLING`].
//!
//! No packet has priority zero. An aggregator whose priority was lowered often enough (43 times with
//! the logarithmic code, 8 times with a linear one) is therefore below every packet's, so that no
//! task can hold one forever.

use std::num::NonZeroU8;
use std::time::Duration;

/// The priority of a packet: 1 to 255, greater first.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize,
)]
pub struct Priority(NonZeroU8);

/// Levels of the logarithmic code by which a factor of two changes the priority. The P4 programs
/// subtract as many: `p4src/include/types.p4`.
pub const LEVELS_PER_DOUBLING: u8 = 6;

/// The level of the value 1 in the logarithmic code.
const LEVEL_OF_ONE: f64 = 128.0;

/// How the formula's values become 8 bits. All jobs that share switches use the same.
#[derive(Clone, Copy, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub enum Code {
    /// Levels that are 12 % apart, from 2⁻²¹ to 2²¹: about 4 · 10⁻⁷ to 2 · 10⁶.
    #[default]
    Logarithmic,
    /// The paper's fixed point: levels that are this far apart. The value must be positive.
    Linear {
        /// The value of level 1.
        unit: f64,
    },
}

impl Code {
    /// The priority of a value, the closest in range; monotonic. Zero, negative numbers and NaN
    /// become the lowest priority.
    pub fn encode(self, value: f64) -> Priority {
        if value.is_nan() || value <= 0.0 {
            return Priority::LOWEST;
        }
        let level = match self {
            Self::Logarithmic => LEVEL_OF_ONE + f64::from(LEVELS_PER_DOUBLING) * value.log2(),
            Self::Linear { unit } => value / unit,
        };
        // Clamped before the cast, so that the cast does not truncate.
        let level = level.round().clamp(1.0, 255.0) as u8;
        Priority::new(level).unwrap_or(Priority::LOWEST)
    }
}

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
    pub fn of_layer(&self, layer: u32, code: Code) -> Priority {
        code.encode(self.value(layer))
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
        let level = |profile: JobProfile, layer| profile.of_layer(layer, Code::Logarithmic);
        let base = profile();
        assert!(level(base, 1) > level(base, 2));
        let talkative = JobProfile { communication: ms(8), ..base };
        assert!(level(talkative, 2) > level(base, 2));
        let short = JobProfile { horizon: Horizon::Remaining(ms(1000)), ..base };
        assert!(level(short, 2) > level(base, 2));
        // Least attained service: a job that has run for less time goes first.
        let attained = |time| JobProfile { horizon: Horizon::Attained(time), ..base };
        assert!(level(attained(ms(5)), 1) > level(attained(ms(500)), 1));
    }

    #[test]
    fn order_survives_over_twelve_decades() {
        let levels: Vec<u8> = (-60..=60)
            .map(|tenth| Code::Logarithmic.encode(10f64.powf(f64::from(tenth) / 10.0)).get())
            .collect();
        assert!(levels.is_sorted_by(|a, b| a < b), "{levels:?}");
        assert_eq!((levels[0], levels[60], levels[120]), (8, 128, 248));
    }

    #[test]
    fn lowering_halves_the_value() {
        for value in [1e-5, 0.3, 1.0, 77.7, 1e5] {
            let level = Code::Logarithmic.encode(value).get();
            let half = Code::Logarithmic.encode(value / 2.0).get();
            assert_eq!(level - LEVELS_PER_DOUBLING, half, "{value}");
        }
        let linear = Code::Linear { unit: 0.01 };
        assert_eq!(linear.encode(1.5).get() >> 1, linear.encode(0.75).get());
    }

    #[test]
    fn a_linear_code_is_proportional_within_its_range() {
        let levels =
            [0.001, 0.02, 0.5, 2.0, 2.55, 300.0].map(|v| Code::Linear { unit: 0.01 }.encode(v));
        assert_eq!(levels.map(Priority::get), [1, 2, 50, 200, 255, 255]);
    }

    #[test]
    fn every_value_is_in_range() {
        for code in [Code::Logarithmic, Code::Linear { unit: 0.01 }] {
            for value in [0.0, -1.0, f64::NAN, f64::NEG_INFINITY, 1e-300] {
                assert_eq!(code.encode(value), Priority::LOWEST, "{value}");
            }
            for value in [1e300, f64::INFINITY] {
                assert_eq!(code.encode(value), Priority::HIGHEST, "{value}");
            }
            let zero = JobProfile {
                layers: 0,
                communication: Duration::ZERO,
                computation: Duration::ZERO,
                horizon: Horizon::Attained(Duration::ZERO),
            };
            assert_eq!(zero.of_layer(0, code), Priority::LOWEST);
        }
        assert_eq!(Priority::new(0), None);
    }

    proptest! {
        #[test]
        fn codes_are_monotonic(a: f64, b: f64, unit in 1e-6..1e6) {
            prop_assume!(a.is_finite() && b.is_finite() && a <= b);
            for code in [Code::Logarithmic, Code::Linear { unit }] {
                prop_assert!(code.encode(a) <= code.encode(b));
            }
        }
    }
}
