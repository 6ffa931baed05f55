//! What a scheduler decides.

use crate::UnitId;

/// The circuits between units: a symmetric matrix of numbers without a diagonal.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Circuits {
    units: usize,
    /// Upper triangle, row by row.
    counts: Vec<u32>,
}

impl Circuits {
    /// No circuits between this number of units.
    #[must_use]
    pub fn none(units: usize) -> Self {
        Self { units, counts: vec![0; units * units.saturating_sub(1) / 2] }
    }

    fn place(&self, a: UnitId, b: UnitId) -> usize {
        let (low, high) = (a.0.min(b.0), a.0.max(b.0));
        assert!(low < high && high < self.units, "two units of the network");
        low * (2 * self.units - low - 1) / 2 + high - low - 1
    }

    /// Number of circuits between two units.
    ///
    /// # Panics
    /// If they are the same, or not in the network.
    #[must_use]
    pub fn between(&self, a: UnitId, b: UnitId) -> u32 {
        self.counts[self.place(a, b)]
    }

    /// Sets the number of circuits between two units.
    ///
    /// # Panics
    /// As [`between`](Self::between).
    pub fn set(&mut self, a: UnitId, b: UnitId, count: u32) {
        let at = self.place(a, b);
        self.counts[at] = count;
    }

    /// Ports of a unit that have a circuit.
    #[must_use]
    pub fn ports(&self, unit: UnitId) -> u32 {
        let others = (0..self.units).filter(|&other| other != unit.0);
        others.map(|other| self.between(unit, UnitId(other))).sum()
    }

    /// Circuits that `self` has and `before` has not: those that a reconfiguration sets up.
    #[must_use]
    pub fn new_since(&self, before: &Self) -> u32 {
        self.counts.iter().zip(&before.counts).map(|(now, was)| now.saturating_sub(*was)).sum()
    }
}

/// The decisions for one slot.
#[derive(Clone, PartialEq, Debug)]
pub struct Slot {
    /// Circuits during the slot.
    pub circuits: Circuits,
    /// By job: the rate of a flow of weight 1 in bits per second; 0 if the job does not send.
    pub rates: Vec<f64>,
}

/// A schedule for all jobs, from slot 0 on.
#[derive(Clone, PartialEq, Debug)]
pub struct Schedule {
    /// By job: the index of its [`Way`](crate::Way), the same in all slots.
    pub ways: Vec<usize>,
    /// Circuits before slot 0.
    pub initial: Circuits,
    /// The slots.
    pub slots: Vec<Slot>,
}
