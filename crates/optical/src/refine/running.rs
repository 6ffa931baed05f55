//! How far a job is.

use crate::instance::Choice;

/// A job that has data left.
pub(super) struct Running<'a> {
    pub(super) choice: &'a Choice,
    /// The slot before which it must end.
    pub(super) deadline: usize,
    /// The slot before which it should end, so that later jobs can use its aggregator.
    pub(super) planned: usize,
    /// Bits that each flow of weight 1 has left, by pair; the last entry has no pair.
    pub(super) left: Vec<f64>,
    /// Rate in the slot before.
    pub(super) rate: f64,
    pub(super) started: bool,
}

impl Running<'_> {
    /// Bits left.
    pub(super) fn bits(&self) -> f64 {
        self.left.iter().copied().fold(0.0, f64::max)
    }

    /// Whether the pair of the entry of `left` got circuits.
    fn grown(&self, grown: &[bool], entry: usize) -> bool {
        self.choice.pairs.get(entry).is_some_and(|&(pair, _)| grown[pair])
    }

    /// The rate that sends all bits in a slot (eq. 10).
    pub(super) fn finishing(&self, grown: &[bool], slot: f64, penalty: f64) -> f64 {
        let rates = self.left.iter().enumerate().map(|(entry, &left)| {
            if !self.grown(grown, entry) || left <= self.rate * slot {
                left / slot
            } else {
                (left - penalty * self.rate) / (slot - penalty)
            }
        });
        rates.fold(0.0, f64::max)
    }

    /// Sends for a slot (eq. 10).
    pub(super) fn send(&mut self, rate: f64, grown: &[bool], slot: f64, penalty: f64) {
        let lost = (rate - self.rate).max(0.0) * penalty;
        for entry in 0..self.left.len() {
            let lost = if self.grown(grown, entry) { lost } else { 0.0 };
            self.left[entry] -= rate * slot - lost;
        }
        self.rate = rate;
        self.started = true;
    }
}
