//! The hardware.

/// The number of a unit, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct UnitId(pub usize);

/// A programmable switch with a pool of servers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Unit {
    /// Optical ports towards the cross-connect: *P*(oxc, v).
    pub ports: u32,
    /// Number of jobs that the switch can aggregate at once: *N*(INC, v).
    pub inc: u32,
    /// Capacity of the switch, up and down together, in bits per second: *B*(PDP, v).
    pub bandwidth: f64,
}

/// Units around a cross-connect.
#[derive(Clone, PartialEq, Debug)]
pub struct Network {
    /// The units, by [`UnitId`].
    pub units: Vec<Unit>,
    /// Capacity of an optical port in bits per second, both directions together (eq. 6).
    pub port_rate: f64,
    /// Time in seconds that a changed circuit carries nothing: *ε*. Less than a slot.
    pub reconfiguration: f64,
    /// Length of a time slot in seconds: *Δt*.
    pub slot: f64,
}

impl Network {
    /// All units.
    pub fn unit_ids(&self) -> impl Iterator<Item = UnitId> + use<> {
        (0..self.units.len()).map(UnitId)
    }

    /// A unit.
    #[must_use]
    pub fn unit(&self, id: UnitId) -> &Unit {
        &self.units[id.0]
    }
}
