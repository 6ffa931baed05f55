//! A cross-connect between the units, whose circuits change while jobs run.

use std::time::Duration;

use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_model::circuits::{Circuits, Port};
use tributary_sim::Act;

use super::case::{Case, time};

/// Two with workers and parameter servers, and one that only passes frames.
pub(crate) const UNITS: u16 = 3;

/// The cross-connect of a case. Before the first change some units may be without light; after the last
/// one, there is a way between the two with hosts.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Optical {
    /// Optical ports of each unit.
    pub(crate) ports: u16,
    pub(crate) outage: Duration,
    pub(crate) patches: Vec<(Duration, Circuits)>,
}

impl Optical {
    pub(crate) fn random(seed: u64) -> Self {
        let random = &mut ChaCha8Rng::seed_from_u64(seed ^ 0x6c69_6768_7421);
        let ports = random.random_range(1..=3);
        let outage = *[0, 20, 1_000, 20_000].choose(random).unwrap();
        let mut at = Duration::ZERO;
        let mut patches: Vec<(Duration, Circuits)> = (0..random.random_range(0..4))
            .map(|_| {
                at += time(random, 3_000);
                (at, matching(random, ports))
            })
            .collect();
        at += time(random, 10_000);
        let last = std::iter::repeat_with(|| matching(random, ports));
        let mut last = last.skip_while(|circuits| !joins_hosts(circuits, ports));
        patches.push((at, last.next().unwrap()));
        Self { ports, outage: Duration::from_micros(outage), patches }
    }

    /// When the circuits have changed for the last time, and carry light.
    pub(crate) fn settled(&self) -> Duration {
        self.patches.last().map_or(Duration::ZERO, |(at, _)| *at + self.outage)
    }

    pub(crate) fn acts(&self) -> impl Iterator<Item = (Duration, Act)> {
        self.patches.iter().enumerate().map(|(index, (at, _))| (*at, Act::Patch(index)))
    }
}

impl Case {
    /// The P4INC or SwitchML case of a seed with a cross-connect between the units, in place of a link.
    pub(crate) fn circuits(seed: u64) -> Self {
        let case = Self::segments(seed);
        let ps_rack = case.ps_rack.or(Some(1));
        Self { ps_rack, outages: Vec::new(), optical: Some(Optical::random(seed)), ..case }
    }
}

/// Random circuits between different units.
fn matching(random: &mut ChaCha8Rng, ports: u16) -> Circuits {
    let mut free: Vec<u16> = (1..=UNITS * ports).collect();
    free.shuffle(random);
    let mut circuits = Circuits::DARK;
    while let Some(port) = free.pop() {
        let partner = free.iter().position(|other| unit(*other, ports) != unit(port, ports));
        if let Some(at) = partner.filter(|_| random.random_bool(0.8)) {
            circuits.join(Port(port), Port(free.remove(at))).unwrap();
        }
    }
    circuits
}

fn unit(port: u16, ports: u16) -> u16 {
    (port - 1) / ports
}

/// Whether there is a way between the two units with hosts.
fn joins_hosts(circuits: &Circuits, ports: u16) -> bool {
    let joins = |a: u16, b: u16| {
        circuits.pairs().any(|(one, other)| {
            let units = [unit(one.0, ports), unit(other.0, ports)];
            units == [a, b] || units == [b, a]
        })
    };
    joins(0, 1) || joins(0, 2) && joins(2, 1)
}
