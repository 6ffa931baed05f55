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
    /// With a port more in every unit, circuits are only added. So a schedule for some ports remains
    /// valid with more of them: no circuit is new that was there before.
    #[must_use]
    pub fn uniform(network: &Network) -> Self {
        let units = network.units.len();
        let mut circuits = Self::none(units);
        let mut free: Vec<u32> = network.units.iter().map(|unit| unit.ports).collect();
        let least = free.iter().copied().min().unwrap_or(0);
        let rounds = rounds(units);
        let mut join = |a: usize, b: usize, count: u32| {
            let place = circuits.place(UnitId(a), UnitId(b));
            circuits.counts[place] += count;
            free[a] -= count;
            free[b] -= count;
        };
        for (at, round) in rounds.iter().enumerate() {
            // How often it is this round's turn until each unit has its least number of ports.
            let turns = (least as usize + rounds.len() - 1 - at) / rounds.len();
            round.iter().for_each(|&(a, b)| join(a, b, turns as u32));
        }
        if network.units.iter().any(|unit| unit.ports > least) {
            fill(&mut circuits, &rounds, &mut free, network, least);
        }
        circuits
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

/// All pairs of units in rounds: each takes one port of each unit. If the number of units is odd, the
/// units that one round leaves out have two ports in the next.
///
/// Round after round, each unit gets a circuit to the unit at distance 1, 2, and so on. Units at one
/// distance form cycles, and every other step of a cycle is in one round. If a cycle is odd although
/// the number of units is even, its distance comes last, together with that of half-way around: the
/// cycles lie in pairs half-way apart. As in a tournament, each round leaves out one unit of a cycle,
/// which meets its counterpart in the other one.
fn rounds(units: usize) -> Vec<Vec<(usize, usize)>> {
    let even = units.is_multiple_of(2);
    // Numbers of cycles whose length is odd are multiples of this.
    let twos = 1 << units.trailing_zeros().min(usize::BITS - 1);
    let mut rounds = Vec::new();
    for distance in (1..units.div_ceil(2)).filter(|distance| !even || distance % twos > 0) {
        let cycles = gcd(units, distance);
        let length = units / cycles;
        let step = |cycle: usize, at: usize| {
            ((cycle + at * distance) % units, (cycle + (at + 1) * distance) % units)
        };
        let steps = |first: bool| {
            let of = move |at: &usize| (at.is_multiple_of(2) && *at + 1 < length) == first;
            let cycle = move |cycle| (0..length).filter(of).map(move |at| step(cycle, at));
            (0..cycles).flat_map(cycle).collect()
        };
        rounds.extend([steps(true), steps(false)]);
    }
    if even && units > 0 {
        let length = units / twos;
        for round in 0..length {
            let mut pairs = Vec::new();
            for cycle in 0..twos / 2 {
                let unit = |at: usize| cycle + twos * (at % length);
                let other = |unit: usize| (unit + units / 2) % units;
                pairs.push((unit(round), other(unit(round))));
                for step in 1..=length / 2 {
                    let (a, b) = (unit(round + step), unit(round + length - step));
                    pairs.extend([(a, b), (other(a), other(b))]);
                }
            }
            rounds.push(pairs);
        }
    }
    rounds
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Joins free ports of units that have more than the `least`, round after round.
fn fill(
    circuits: &mut Circuits,
    rounds: &[Vec<(usize, usize)>],
    free: &mut [u32],
    network: &Network,
    least: u32,
) {
    let more = |unit: usize| network.units[unit].ports > least;
    let (done, next) = rounds.split_at(least as usize % rounds.len().max(1));
    let mut pairs: Vec<(usize, usize)> = next.iter().chain(done).flatten().copied().collect();
    loop {
        pairs.retain(|&(a, b)| more(a) && more(b) && free[a] > 0 && free[b] > 0);
        if pairs.is_empty() {
            return;
        }
        for &(a, b) in &pairs {
            if free[a] > 0 && free[b] > 0 {
                let place = circuits.place(UnitId(a), UnitId(b));
                circuits.counts[place] += 1;
                free[a] -= 1;
                free[b] -= 1;
            }
        }
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
        for units in 1..=25 {
            for ports in 0..=2 * units as u32 {
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

    #[test]
    fn a_port_more_only_adds_uniform_circuits() {
        for units in (1..=25).chain([48, 64, 150]) {
            let mut before = Circuits::none(units);
            for ports in 1..=2 * units.min(20) as u32 {
                let now = Circuits::uniform(&network(units, ports));
                assert_eq!(before.new_since(&now), 0, "{units} {ports}");
                before = now;
            }
        }
    }

    #[test]
    fn uniform_circuits_go_to_the_nearest_units_first() {
        let circuits = Circuits::uniform(&network(64, 24));
        for (a, b, count) in circuits.pairs() {
            let distance = (b.0 - a.0).min(64 + a.0 - b.0);
            assert_eq!(count, u32::from(distance <= 12));
        }
    }

    #[test]
    fn units_with_more_ports_join_what_is_left() {
        let mut network = network(4, 2);
        network.units[0].ports = 5;
        network.units[2].ports = 4;
        let circuits = Circuits::uniform(&network);
        assert_eq!(circuits.between(UnitId(0), UnitId(2)), 2);
        assert_eq!(circuits.pairs().map(|(_, _, count)| count).sum::<u32>(), 4 + 2);
    }
}
