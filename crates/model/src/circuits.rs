//! Which ports of a cross-connect are joined.

use std::collections::BTreeMap;
use std::fmt;

/// A port of a cross-connect. Ports count from 1.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize,
)]
pub struct Port(pub u16);

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Circuits: each joins two ports, for light in both directions. A port has at most one.
#[derive(Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Circuits {
    /// The other end of each port's circuit: every circuit is here twice.
    peers: BTreeMap<Port, Port>,
}

/// Why ports cannot be joined.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Invalid {
    /// A circuit would lead from a port to itself.
    #[error("port {0} cannot be joined with itself")]
    Loop(Port),
    /// A port has a circuit already.
    #[error("port {port} is joined with port {peer} already")]
    Taken {
        /// The port.
        port: Port,
        /// The other end of its circuit.
        peer: Port,
    },
    /// The cross-connect has no such port.
    #[error("the cross-connect has ports 1 to {ports}, not {port}")]
    Unknown {
        /// The port.
        port: Port,
        /// Number of ports of the cross-connect.
        ports: u16,
    },
}

impl Circuits {
    /// No circuits: all ports are dark.
    pub const DARK: Self = Self { peers: BTreeMap::new() };

    /// Circuits between these pairs of ports.
    ///
    /// # Errors
    /// [`Invalid::Loop`], [`Invalid::Taken`].
    pub fn new(pairs: impl IntoIterator<Item = (Port, Port)>) -> Result<Self, Invalid> {
        let mut circuits = Self::DARK;
        for (a, b) in pairs {
            circuits.join(a, b)?;
        }
        Ok(circuits)
    }

    /// Adds a circuit.
    ///
    /// # Errors
    /// [`Invalid::Loop`], [`Invalid::Taken`]; nothing has changed then.
    pub fn join(&mut self, a: Port, b: Port) -> Result<(), Invalid> {
        if a == b {
            return Err(Invalid::Loop(a));
        }
        for port in [a, b] {
            if let Some(peer) = self.peer(port) {
                return Err(Invalid::Taken { port, peer });
            }
        }
        self.peers.insert(a, b);
        self.peers.insert(b, a);
        Ok(())
    }

    /// Removes the circuit of a port. Returns its other end, if there was one.
    pub fn part(&mut self, port: Port) -> Option<Port> {
        let peer = self.peers.remove(&port)?;
        self.peers.remove(&peer);
        Some(peer)
    }

    /// Checks that all ports exist in a cross-connect of `ports` ports.
    ///
    /// # Errors
    /// [`Invalid::Unknown`].
    pub fn fit(&self, ports: u16) -> Result<(), Invalid> {
        let unknown = self.peers.keys().find(|port| port.0 == 0 || port.0 > ports);
        unknown.map_or(Ok(()), |&port| Err(Invalid::Unknown { port, ports }))
    }

    /// The other end of a port's circuit.
    #[must_use]
    pub fn peer(&self, port: Port) -> Option<Port> {
        self.peers.get(&port).copied()
    }

    /// All circuits, each once, its lower port first.
    pub fn pairs(&self) -> impl Iterator<Item = (Port, Port)> {
        self.peers.iter().map(|(&a, &b)| (a, b)).filter(|(a, b)| a < b)
    }

    /// Number of circuits.
    #[must_use]
    pub fn len(&self) -> usize {
        self.peers.len() / 2
    }

    /// Whether all ports are dark.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    /// The circuits that are both here and there: they carry light while one becomes the other.
    #[must_use]
    pub fn kept(&self, next: &Self) -> Self {
        let peers = self.peers.iter().filter(|(port, peer)| next.peers.get(port) == Some(peer));
        Self { peers: peers.map(|(&port, &peer)| (port, peer)).collect() }
    }
}

impl fmt::Debug for Circuits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.pairs().map(|(a, b)| (a.0, b.0))).finish()
    }
}

/// `1-4 2-3`, or `none`.
impl fmt::Display for Circuits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        for (at, (a, b)) in self.pairs().enumerate() {
            write!(f, "{}{a}-{b}", if at == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circuits(pairs: &[(u16, u16)]) -> Result<Circuits, Invalid> {
        Circuits::new(pairs.iter().map(|&(a, b)| (Port(a), Port(b))))
    }

    #[test]
    fn a_port_has_one_circuit() {
        assert_eq!(circuits(&[(1, 1)]), Err(Invalid::Loop(Port(1))));
        let taken = Invalid::Taken { port: Port(2), peer: Port(1) };
        assert_eq!(circuits(&[(1, 2), (3, 2)]), Err(taken));
        let two = circuits(&[(4, 1), (2, 3)]).unwrap();
        assert_eq!(two.pairs().collect::<Vec<_>>(), [(Port(1), Port(4)), (Port(2), Port(3))]);
        assert_eq!((two.peer(Port(4)), two.peer(Port(5))), (Some(Port(1)), None));
        assert_eq!(
            (two.to_string(), Circuits::DARK.to_string()),
            ("1-4 2-3".into(), "none".into())
        );
    }

    #[test]
    fn ports_must_exist() {
        let two = circuits(&[(4, 1), (2, 3)]).unwrap();
        assert_eq!(two.fit(4), Ok(()));
        assert_eq!(two.fit(3), Err(Invalid::Unknown { port: Port(4), ports: 3 }));
        let zero = circuits(&[(0, 1)]).unwrap();
        assert_eq!(zero.fit(3), Err(Invalid::Unknown { port: Port(0), ports: 3 }));
    }

    #[test]
    fn circuits_that_stay_are_kept() {
        let before = circuits(&[(1, 2), (3, 4), (5, 6)]).unwrap();
        let after = circuits(&[(2, 1), (3, 5)]).unwrap();
        assert_eq!(before.kept(&after), circuits(&[(1, 2)]).unwrap());
        let mut parted = before.clone();
        assert_eq!((parted.part(Port(4)), parted.part(Port(4))), (Some(Port(3)), None));
        assert_eq!(parted.len(), 2);
    }
}
