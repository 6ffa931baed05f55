//! What a scheduler decides.

use crate::{Network, UnitId};

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

    /// Circuits between all pairs of units, spread as evenly as the ports allow.
    ///
    /// Round after round, each unit gets a circuit to the unit at distance 1, 2, and so on.
    #[must_use]
    pub fn uniform(network: &Network) -> Self {
        let units = network.units.len();
        let mut circuits = Self::none(units);
        let mut free: Vec<u32> = network.units.iter().map(|unit| unit.ports).collect();
        loop {
            let mut added = false;
            for distance in 1..=units / 2 {
                for a in 0..units {
                    let b = (a + distance) % units;
                    // Half-way around, both ends see the same pair.
                    let twice = 2 * distance == units && a > b;
                    if free[a] == 0 || free[b] == 0 || twice {
                        continue;
                    }
                    let place = circuits.place(UnitId(a), UnitId(b));
                    circuits.counts[place] += 1;
                    free[a] -= 1;
                    free[b] -= 1;
                    added = true;
                }
            }
            if !added {
                return circuits;
            }
        }
    }

    /// Number of units.
    #[must_use]
    pub fn units(&self) -> usize {
        self.units
    }

    /// All pairs of units, the lower number first, with their circuits.
    pub fn pairs(&self) -> impl Iterator<Item = (UnitId, UnitId, u32)> {
        let pairs = (0..self.units).flat_map(|a| (a + 1..self.units).map(move |b| (a, b)));
        pairs.zip(&self.counts).map(|((a, b), &count)| (UnitId(a), UnitId(b), count))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unit;

    fn network(units: usize, ports: u32) -> Network {
        let unit = Unit { ports, inc: 0, bandwidth: 1.0 };
        Network { units: vec![unit; units], port_rate: 1.0, reconfiguration: 0.0, slot: 1.0 }
    }

    #[test]
    fn uniform_circuits_differ_by_at_most_one_and_fill_the_ports() {
        for (units, ports) in [(8, 24), (8, 7), (64, 24), (5, 3), (2, 4), (1, 4), (4, 0)] {
            let circuits = Circuits::uniform(&network(units, ports));
            let counts: Vec<u32> = circuits.pairs().map(|(_, _, count)| count).collect();
            let (low, high) = (counts.iter().min(), counts.iter().max());
            assert!(high.unwrap_or(&0) - low.unwrap_or(&0) <= 1, "{units} {ports}: {counts:?}");
            for unit in (0..units).map(UnitId) {
                let used = circuits.ports(unit);
                assert!(used <= ports, "{units} {ports}");
                let odd = u32::from(units % 2 == 1);
                assert!(units < 2 || used + odd >= ports, "{units} {ports}: {used}");
            }
        }
    }
}
