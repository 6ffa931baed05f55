//! Faults derived from a seed: loss, duplication, reordering and delay of frames.
//!
//! [`FaultInjector`] decides about one frame at a time, without a clock or a queue. The decision
//! depends only on the seed, the stream and the frame's number. [`Line`] holds the frames in
//! flight, in the caller's time: that of a simulator or of the machine. [`Faulty`] adds lines to a
//! real port.
//!
//! Frames are never corrupted, because Ethernet's frame check sequence turns corruption into loss.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

mod faulty;
mod line;

pub use faulty::Faulty;
pub use line::{Admission, Line};

/// Faults of a line. The default is no faults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// Probability that a frame is lost.
    pub loss: f64,
    /// Mean number of frames lost in a row: a channel that is good or bad, and loses all frames
    /// while it is bad (Gilbert 1960). Up to 1, losses are independent.
    pub burst: u32,
    /// Probability that a frame that is not lost arrives twice.
    pub duplicate: f64,
    /// Reordering of frames.
    pub reorder: Reorder,
    /// Delay of frames.
    pub delay: Delay,
    /// Outages: times in nanoseconds of the caller's clock in which every frame is lost, as if the
    /// cable were unplugged.
    pub outages: Vec<Range<u64>>,
}

/// Reordering of frames. A copy made by [`Faults::duplicate`] is reordered independently.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reorder {
    /// Probability that a frame is held back.
    pub probability: f64,
    /// Maximum number of later frames that overtake it; the number is uniformly distributed in
    /// `1..=displacement`.
    pub displacement: u32,
    /// Maximum time for which a frame is held back if too few others follow.
    pub patience: Duration,
}

impl Default for Reorder {
    fn default() -> Self {
        Self { probability: 0.0, displacement: 3, patience: Duration::from_millis(1) }
    }
}

/// Delay of frames. Delay alone preserves their order: a frame does not overtake one with a longer
/// delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    /// Delay of every frame.
    pub fixed: Duration,
    /// Maximum additional delay, uniformly distributed from zero.
    pub jitter: Duration,
}

/// Why [`Faults`] are invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidFaults {
    /// Not a probability.
    #[error("the probability of {what} is {value}, which is not between 0 and 1")]
    Probability {
        /// The parameter.
        what: &'static str,
        /// Its value.
        value: f64,
    },
    /// Frames would be held back until zero frames have passed.
    #[error("frames are to be reordered by a displacement of 0, which is not a reordering")]
    NoDisplacement,
    /// Bursts of this length cannot lose so many frames.
    #[error("a loss of {loss} needs bursts of at least {least} frames, not of {burst}")]
    ShortBursts {
        /// The probability that a frame is lost.
        loss: f64,
        /// Mean number of frames lost in a row.
        burst: u32,
        /// The smallest valid mean.
        least: f64,
    },
    /// More nanoseconds than fit in a u64.
    #[error("the {what} of {value:?} is longer than five centuries")]
    TooLong {
        /// The parameter.
        what: &'static str,
        /// Its value.
        value: Duration,
    },
}

impl Faults {
    /// Every frame is delayed by `delay`, like those of a straggler.
    #[must_use]
    pub fn straggler(delay: Duration) -> Self {
        Self { delay: Delay { fixed: delay, jitter: Duration::ZERO }, ..Self::default() }
    }

    /// Whether there are no faults.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.loss == 0.0
            && self.duplicate == 0.0
            && self.reorder.probability == 0.0
            && self.delay == Delay::default()
            && self.outages.is_empty()
    }

    /// Validates the parameters.
    ///
    /// # Errors
    ///
    /// The first invalid value.
    pub fn check(&self) -> Result<(), InvalidFaults> {
        let probabilities = [
            ("loss", self.loss),
            ("duplication", self.duplicate),
            ("reordering", self.reorder.probability),
        ];
        for (what, value) in probabilities {
            if !(0.0..=1.0).contains(&value) {
                return Err(InvalidFaults::Probability { what, value });
            }
        }
        let least = (self.loss / (1.0 - self.loss)).ceil();
        if self.burst > 1 && self.loss < 1.0 && f64::from(self.burst) < least {
            return Err(InvalidFaults::ShortBursts { loss: self.loss, burst: self.burst, least });
        }
        if self.reorder.probability > 0.0 && self.reorder.displacement == 0 {
            return Err(InvalidFaults::NoDisplacement);
        }
        let durations = [
            ("delay", self.delay.fixed),
            ("jitter", self.delay.jitter),
            ("patience", self.reorder.patience),
        ];
        for (what, value) in durations {
            if u64::try_from(value.as_nanos()).is_err() {
                return Err(InvalidFaults::TooLong { what, value });
            }
        }
        Ok(())
    }
}

/// The path of one copy of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// Delay in nanoseconds, without any time held back.
    pub delay: u64,
    /// Number of later frames that overtake it.
    pub overtaken_by: u32,
}

/// The decision about one frame: zero, one or two copies arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    copies: [Passage; 2],
    count: usize,
}

impl Decision {
    /// The copies that arrive; empty if the frame is lost.
    #[must_use]
    pub fn copies(&self) -> &[Passage] {
        &self.copies[..self.count]
    }
}

/// Counters of injected faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames decided about.
    pub frames: u64,
    /// Frames lost at random.
    pub lost: u64,
    /// Frames lost in an outage.
    pub cut_off: u64,
    /// Frames duplicated.
    pub duplicated: u64,
    /// Copies held back for reordering.
    pub reordered: u64,
    /// Copies delayed.
    pub delayed: u64,
}

/// Decides about the frames of one line.
///
/// The decision about a frame is a function of the seed, the stream, the frame's number and the
/// outages. It does not depend on earlier decisions. (With bursts it depends on the random numbers
/// of all earlier frames, whether they were decided about or not.) Enabling or disabling one kind
/// of fault does not change the decisions about the others.
#[derive(Clone, Debug)]
pub struct FaultInjector {
    faults: Faults,
    /// Whether nothing but outages and a fixed delay can happen to a frame.
    certain: bool,
    /// The frames that may be lost, duplicated or held back; `None` for all.
    only: Option<BTreeSet<u64>>,
    /// When loss, duplication and reordering end; `None` for never.
    until: Option<u64>,
    random: ChaCha8Rng,
    bursts: Bursts,
    statistics: Statistics,
}

/// State of a line that loses frames in bursts.
#[derive(Clone, Copy, Debug, Default)]
struct Bursts {
    /// The next frame.
    next: u64,
    /// Whether the last frame was lost.
    bad: bool,
}

/// Number of 32-bit words of the key stream per frame: one ChaCha block. Six 64-bit draws need
/// twelve words, and the draw for bursts follows them.
const WORDS_PER_FRAME: u128 = 16;
const BURST_WORD: u128 = 12;

impl FaultInjector {
    /// Faults from `seed`. `stream` distinguishes the lines of one run.
    ///
    /// # Errors
    ///
    /// If the faults are invalid.
    pub fn new(faults: Faults, seed: u64, stream: u64) -> Result<Self, InvalidFaults> {
        faults.check()?;
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(stream);
        let (bursts, statistics) = (Bursts::default(), Statistics::default());
        let delay = Delay { fixed: Duration::ZERO, ..faults.delay };
        let certain = Faults { delay, outages: Vec::new(), ..faults.clone() }.is_none();
        Ok(Self { faults, certain, only: None, until: None, random, bursts, statistics })
    }

    /// Restricts loss, duplication and reordering to these frames. This serves to find the faults
    /// that make a run fail. Delays and outages are unchanged.
    #[must_use]
    pub fn only(mut self, frames: BTreeSet<u64>) -> Self {
        self.only = Some(frames);
        self
    }

    /// Ends loss, duplication and reordering at this time, so that what follows shows the recovery
    /// alone. Delays and outages are unchanged.
    #[must_use]
    pub fn until(mut self, end: u64) -> Self {
        self.until = Some(end);
        self
    }

    /// The configured faults.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The counters.
    #[must_use]
    #[inline]
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Decides about frame `frame_number` of the line, sent at `now` nanoseconds.
    #[inline]
    pub fn decide(&mut self, now: u64, frame_number: u64) -> Decision {
        self.statistics.frames += 1;
        if self.faults.outages.iter().any(|outage| outage.contains(&now)) {
            self.statistics.cut_off += 1;
            return Decision::default();
        }
        let mut decision = Decision { count: 1, ..Decision::default() };
        if self.certain {
            // Every frame has the same delay, so no random numbers are needed.
            decision.copies[0].delay = nanos(self.faults.delay.fixed);
            self.statistics.delayed += u64::from(decision.copies[0].delay > 0);
            return decision;
        }
        let in_burst = self.faults.burst > 1 && self.is_in_burst(frame_number);
        self.random.set_word_pos(u128::from(frame_number) * WORDS_PER_FRAME);
        let spared = self.only.as_ref().is_some_and(|only| !only.contains(&frame_number))
            || self.until.is_some_and(|end| now >= end);
        let alone = self.happens(self.faults.loss);
        let lost = if self.faults.burst > 1 { in_burst } else { alone } && !spared;
        let doubled = self.happens(self.faults.duplicate) && !spared;
        if lost {
            self.statistics.lost += 1;
            return Decision::default();
        }
        decision.copies[0] = self.passage(spared);
        if doubled {
            self.statistics.duplicated += 1;
            decision.copies[1] = self.passage(spared);
            decision.count = 2;
        }
        decision
    }

    /// Whether a frame is in a burst. One of the chain's two probabilities determines the length of
    /// bursts, and both together the loss.
    fn is_in_burst(&mut self, frame_number: u64) -> bool {
        let Faults { loss, burst, .. } = self.faults;
        let end = 1.0 / f64::from(burst);
        let begin = end * loss / (1.0 - loss);
        if frame_number < self.bursts.next {
            self.bursts = Bursts::default();
        }
        while self.bursts.next <= frame_number {
            let at = u128::from(self.bursts.next) * WORDS_PER_FRAME + BURST_WORD;
            self.random.set_word_pos(at);
            let changes = self.happens(if self.bursts.bad { end } else { begin });
            self.bursts.bad = loss == 1.0 || self.bursts.bad != changes;
            self.bursts.next += 1;
        }
        self.bursts.bad
    }

    fn passage(&mut self, spared: bool) -> Passage {
        let Reorder { probability, displacement, .. } = self.faults.reorder;
        let (chance, amount) = (self.random.next_u32(), self.random.next_u32());
        let jitter = scale(self.random.next_u64(), nanos(self.faults.delay.jitter));
        let held_back = !spared && f64::from(chance) < probability * 2_f64.powi(32);
        let drawn = (u64::from(amount) * u64::from(displacement)) >> 32;
        let overtaken_by =
            if held_back { 1 + u32::try_from(drawn).unwrap_or(u32::MAX - 1) } else { 0 };
        let delay = nanos(self.faults.delay.fixed).saturating_add(jitter);
        self.statistics.reordered += u64::from(held_back);
        self.statistics.delayed += u64::from(delay > 0);
        Passage { delay, overtaken_by }
    }

    /// Draws 53 bits, which fit exactly in an f64: never true at 0, always true at 1.
    fn happens(&mut self, probability: f64) -> bool {
        let drawn = (self.random.next_u64() >> 11) as f64 / 2_f64.powi(53);
        drawn < probability
    }
}

/// A uniform draw from `0..limit` (0 if it is empty), from 64 random bits.
fn scale(random: u64, limit: u64) -> u64 {
    let product = u128::from(random) * u128::from(limit);
    u64::try_from(product >> 64).expect("the upper half of a 128-bit product")
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("checked when the injector was made")
}

#[cfg(test)]
mod tests;
