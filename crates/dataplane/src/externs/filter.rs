//! TNA's low-pass filters and random early drops: averages of the values that packets bring.
//!
//! Tofino computes them with tables of approximations. These are exact, so that results may differ
//! from a chip's in their lowest bits.

use crate::externs::random::Random;

/// The configuration of a filter, as in the control plane of a Tofino.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum FilterConfig {
    /// `Lpf`: the average of values. A new value counts by the time since the last one, relative to
    /// the time constant.
    Average {
        /// Time constant in nanoseconds while values rise.
        gain_ns: u64,
        /// Time constant in nanoseconds while values fall.
        decay_ns: u64,
        /// Bits by which the result is shifted to the right.
        scale_down: u8,
    },
    /// `Lpf`: the sum of the values of the last time constant, each weighted by its age.
    Rate {
        /// Time constant in nanoseconds.
        decay_ns: u64,
        /// Bits by which the result is shifted to the right.
        scale_down: u8,
    },
    /// `Wred`: a packet is to be dropped with a probability that grows with the average of values.
    Drop {
        /// Time constant in nanoseconds.
        time_constant_ns: u64,
        /// Average up to which none is.
        min: u64,
        /// Average from which all are.
        max: u64,
        /// Probability just below that, from 0 to 1.
        max_probability: f64,
    },
}

/// A filter, or a random early drop.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Filter {
    config: Option<FilterConfig>,
    value: f64,
    last_us: u64,
}

impl Filter {
    /// The configuration, if there is one.
    pub(crate) fn config(&self) -> Option<FilterConfig> {
        self.config
    }

    /// Sets the configuration and forgets all values.
    pub(crate) fn configure(&mut self, config: Option<FilterConfig>, now_us: u64) {
        *self = Self { config, value: 0.0, last_us: now_us };
    }

    /// The filtered value; the value itself without a configuration.
    pub(crate) fn pass(&mut self, value: u64, now_us: u64) -> u64 {
        let scale_down = match self.config {
            Some(FilterConfig::Average { gain_ns, decay_ns, scale_down }) => {
                let rises = value as f64 > self.value;
                self.average(value, if rises { gain_ns } else { decay_ns }, now_us);
                scale_down
            }
            Some(FilterConfig::Rate { decay_ns, scale_down }) => {
                self.value *= self.kept(decay_ns, now_us);
                self.value += value as f64;
                scale_down
            }
            Some(FilterConfig::Drop { .. }) | None => return value,
        };
        self.value.round() as u64 >> scale_down.min(63)
    }

    /// Whether a packet with this value is to be dropped; never without a configuration.
    pub(crate) fn drops(&mut self, value: u64, now_us: u64, random: &mut Random) -> bool {
        let Some(FilterConfig::Drop { time_constant_ns, min, max, max_probability }) = self.config
        else {
            return false;
        };
        self.average(value, time_constant_ns, now_us);
        let (min, max) = (min as f64, max as f64);
        if self.value <= min {
            return false;
        }
        if self.value >= max {
            return true;
        }
        let probability = max_probability * (self.value - min) / (max - min);
        let drawn = random.within(0, u64::from(u32::MAX)).unwrap_or(0);
        (drawn as f64) < probability * f64::from(u32::MAX)
    }

    fn average(&mut self, value: u64, time_constant_ns: u64, now_us: u64) {
        let kept = self.kept(time_constant_ns, now_us);
        self.value = self.value * kept + value as f64 * (1.0 - kept);
    }

    /// The part of the old value that is left now.
    fn kept(&mut self, time_constant_ns: u64, now_us: u64) -> f64 {
        let passed_ns = now_us.saturating_sub(self.last_us) as f64 * 1000.0;
        self.last_us = self.last_us.max(now_us);
        if time_constant_ns == 0 {
            return 0.0;
        }
        (-passed_ns / time_constant_ns as f64).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(config: FilterConfig) -> Filter {
        let mut filter = Filter::default();
        filter.configure(Some(config), 0);
        filter
    }

    #[test]
    fn an_unset_filter_passes_everything() {
        let mut filter = Filter::default();
        assert_eq!((filter.pass(7, 5), filter.pass(3, 5)), (7, 3));
        assert!(!filter.drops(u64::MAX, 5, &mut Random::new(1)));
        assert_eq!(filter.config(), None);
    }

    #[test]
    fn an_average_approaches_a_steady_value_by_the_time_constant_of_its_direction() {
        let config = FilterConfig::Average { gain_ns: 1_000_000, decay_ns: 0, scale_down: 0 };
        let mut filter = filter(config);
        // Of the distance to the value, 1 - 1/e is passed within a time constant.
        assert_eq!(filter.pass(1000, 1000), 632);
        assert_eq!(filter.pass(1000, 2000), 865);
        assert_eq!(filter.pass(1000, 1_000_000), 1000);
        // It falls at once.
        assert_eq!(filter.pass(10, 1_000_000), 10);
        assert_eq!(filter.config(), Some(config));
    }

    #[test]
    fn a_rate_sums_what_came_within_the_time_constant() {
        let mut filter = filter(FilterConfig::Rate { decay_ns: 1_000_000, scale_down: 1 });
        assert_eq!([filter.pass(100, 0), filter.pass(100, 0), filter.pass(0, 1000)], [50, 100, 37]);
    }

    #[test]
    fn packets_are_dropped_between_the_bounds_with_the_probability_in_between() {
        let config =
            FilterConfig::Drop { time_constant_ns: 0, min: 100, max: 200, max_probability: 0.5 };
        let mut filter = filter(config);
        let mut random = Random::new(3);
        let mut dropped = |value| (0..1000).filter(|_| filter.drops(value, 0, &mut random)).count();
        assert_eq!([dropped(100), dropped(200)], [0, 1000]);
        let half = dropped(150);
        assert!((200..300).contains(&half), "{half} of 1000 at a probability of a quarter");
    }
}
