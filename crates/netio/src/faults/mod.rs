//! Faults from a seed: frames lost, doubled, reordered, delayed.
//!
//! [`FaultInjector`] decides about one frame at a time and knows neither clock nor queue; the
//! decision depends on the seed, the stream and the frame's number alone. [`Line`] keeps the frames
//! that are under way, in whatever time the caller counts: the simulator's or the machine's.
//! [`Faulty`] puts lines around a real port.
//!
//! Frames are never corrupted: Ethernet's check sequence turns corruption into loss.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

mod faulty;
mod line;

pub use faulty::Faulty;
pub use line::Line;

/// What goes wrong on a line. The default is nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// Probability that a frame is lost.
    pub loss: f64,
    /// Frames that are lost in a row, on average: a channel that is good or bad, and loses all frames
    /// while it is bad (Gilbert 1960). Up to 1, each frame has luck of its own.
    pub burst: u32,
    /// Probability that a frame which is not lost arrives twice.
    pub duplicate: f64,
    /// Frames that let later ones pass.
    pub reorder: Reorder,
    /// How long frames are under way.
    pub delay: Delay,
    /// Times, in nanoseconds of the caller's clock, in which every frame is lost, as if the cable
    /// were pulled out.
    pub outages: Vec<Range<u64>>,
}

/// Frames that let later ones pass. A copy made by [`Faults::duplicate`] has its own luck.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reorder {
    /// Probability that a frame is held back.
    pub probability: f64,
    /// The most later frames that pass it; the number is drawn evenly from `1..=displacement`.
    pub displacement: u32,
    /// A frame is held back no longer than this, even if too few others come.
    pub patience: Duration,
}

impl Default for Reorder {
    fn default() -> Self {
        Self { probability: 0.0, displacement: 3, patience: Duration::from_millis(1) }
    }
}

/// How long frames are under way. Delay alone keeps their order: a frame does not overtake one that
/// drew a longer delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    /// For every frame.
    pub fixed: Duration,
    /// On top, drawn evenly from zero up to this.
    pub jitter: Duration,
}

/// Why [`Faults`] make no sense.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidFaults {
    /// Not a probability.
    #[error("the probability of {what} is {value}, which is not between 0 and 1")]
    Probability {
        /// Which of them.
        what: &'static str,
        /// What it was set to.
        value: f64,
    },
    /// Frames are to be held back until no frame has passed.
    #[error("frames are to be reordered by a displacement of 0, which is no reordering")]
    NoDisplacement,
    /// More frames are to be lost than bursts of that length can lose.
    #[error("a loss of {loss} needs bursts of at least {least} frames, not of {burst}")]
    ShortBursts {
        /// The probability that a frame is lost.
        loss: f64,
        /// Frames lost in a row.
        burst: u32,
        /// The least number that would do.
        least: f64,
    },
    /// More than a u64 of nanoseconds.
    #[error("the {what} of {value:?} is longer than five centuries")]
    TooLong {
        /// Which of them.
        what: &'static str,
        /// What it was set to.
        value: Duration,
    },
}

impl Faults {
    /// Every frame is late by `delay`: what a straggler's sends look like.
    #[must_use]
    pub fn straggler(delay: Duration) -> Self {
        Self { delay: Delay { fixed: delay, jitter: Duration::ZERO }, ..Self::default() }
    }

    /// Whether nothing ever goes wrong.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.loss == 0.0
            && self.duplicate == 0.0
            && self.reorder.probability == 0.0
            && self.delay == Delay::default()
            && self.outages.is_empty()
    }

    /// Checks ranges.
    ///
    /// # Errors
    /// The first value that makes no sense.
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

/// What happens to one copy of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// Nanoseconds under way, before any wait for others to pass.
    pub delay: u64,
    /// How many later frames pass it.
    pub overtaken_by: u32,
}

/// What happens to one frame: none, one or two copies of it arrive.
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

/// What was injected so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames decided about.
    pub frames: u64,
    /// Of them, lost by chance.
    pub lost: u64,
    /// Of them, lost in an outage.
    pub cut_off: u64,
    /// Of them, doubled.
    pub duplicated: u64,
    /// Copies held back for others to pass.
    pub reordered: u64,
    /// Copies delayed.
    pub delayed: u64,
}

/// Decides what happens to the frames of one line.
///
/// The decision about a frame is a function of the seed, the stream, the frame's number and the
/// outages. It does not depend on what was decided before (with bursts, the luck of all frames up to it counts,
/// whether they were decided about or not), and a kind of fault that is switched on
/// or off leaves the luck of the others as it was.
#[derive(Clone, Debug)]
pub struct FaultInjector {
    faults: Faults,
    /// The frames that may be lost, doubled or held back, if not all may.
    only: Option<BTreeSet<u64>>,
    random: ChaCha8Rng,
    bursts: Bursts,
    statistics: Statistics,
}

/// Where a line is that loses frames in bursts.
#[derive(Clone, Copy, Debug, Default)]
struct Bursts {
    /// The frame that comes next.
    next: u64,
    /// Whether the last one was lost.
    bad: bool,
}

/// 32-bit words of the key stream that belong to one frame: one ChaCha block. Six 64-bit draws need
/// twelve, and one for bursts is behind them.
const WORDS_PER_FRAME: u128 = 16;
const BURST_WORD: u128 = 12;

impl FaultInjector {
    /// Faults from `seed`; `stream` tells the lines of one run apart.
    ///
    /// # Errors
    /// If the faults make no sense.
    pub fn new(faults: Faults, seed: u64, stream: u64) -> Result<Self, InvalidFaults> {
        faults.check()?;
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(stream);
        let (bursts, statistics) = (Bursts::default(), Statistics::default());
        Ok(Self { faults, only: None, random, bursts, statistics })
    }

    /// Of all the frames to which something would happen, only these are lost, doubled or held back:
    /// to find out which of the faults of a run it takes to make it fail. Delays and outages stay.
    #[must_use]
    pub fn only(mut self, frames: BTreeSet<u64>) -> Self {
        self.only = Some(frames);
        self
    }

    /// What is to go wrong.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// What went wrong.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Decides about frame `frame_number` of the line, sent at `now` nanoseconds.
    pub fn decide(&mut self, now: u64, frame_number: u64) -> Decision {
        self.statistics.frames += 1;
        if self.faults.outages.iter().any(|outage| outage.contains(&now)) {
            self.statistics.cut_off += 1;
            return Decision::default();
        }
        let mut decision = Decision { count: 1, ..Decision::default() };
        if self.faults.is_none() {
            return decision;
        }
        let in_burst = self.faults.burst > 1 && self.is_in_burst(frame_number);
        self.random.set_word_pos(u128::from(frame_number) * WORDS_PER_FRAME);
        let spared = self.only.as_ref().is_some_and(|only| !only.contains(&frame_number));
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

    /// Whether a frame is in a burst: of the chain's two probabilities, one gives bursts their length, and the
    /// other, with it, the loss.
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

    /// Draws 53 bits, which an f64 holds exactly: never at 0, always at 1.
    fn happens(&mut self, probability: f64) -> bool {
        let drawn = (self.random.next_u64() >> 11) as f64 / 2_f64.powi(53);
        drawn < probability
    }
}

/// An even draw from `0..limit` (0 if there is none), from 64 random bits.
fn scale(random: u64, limit: u64) -> u64 {
    let product = u128::from(random) * u128::from(limit);
    u64::try_from(product >> 64).expect("the upper half of a 128-bit product")
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("checked when the injector was made")
}

#[cfg(test)]
mod tests;
