//! The hardware.

use crate::Error;

/// The most units: matrices have an entry for each pair.
pub const UNITS_MAX: usize = 512;

/// The most optical ports of a unit: some searches take a step for each.
pub const PORTS_MAX: u32 = 256;

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

    /// Checks that the numbers are possible.
    ///
    /// # Errors
    /// The first problem.
    pub fn check(&self) -> Result<(), Error> {
        let problem = |what: String| Err(Error::Network(what));
        if self.units.is_empty() {
            return problem("it has no units; give it at least one".to_owned());
        }
        if self.units.len() > UNITS_MAX {
            return problem(format!("{} units; choose at most {UNITS_MAX}", self.units.len()));
        }
        if let Some(unit) = self.units.iter().find(|unit| unit.ports > PORTS_MAX) {
            return problem(format!("units with {} ports; choose at most {PORTS_MAX}", unit.ports));
        }
        let positive = |value: f64| value.is_finite() && value > 0.0;
        if !positive(self.port_rate) {
            return problem(format!("ports of {} b/s; choose more than 0", self.port_rate));
        }
        if !positive(self.slot) {
            return problem(format!("slots of {} s; choose more than 0", self.slot));
        }
        if !(self.reconfiguration >= 0.0 && self.reconfiguration < self.slot) {
            return problem(format!(
                "a reconfiguration of {} s; choose 0 s or more, and less than a slot of {} s",
                self.reconfiguration, self.slot
            ));
        }
        match self.units.iter().position(|unit| !positive(unit.bandwidth)) {
            Some(unit) => problem(format!("unit {unit}: a switch without bandwidth; give it some")),
            None => Ok(()),
        }
    }
}
