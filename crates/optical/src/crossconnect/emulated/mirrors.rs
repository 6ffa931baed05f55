//! Where light goes while circuits change. No I/O and no clock: callers pass the time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tributary_model::circuits::{Circuits, Invalid, Port};

/// The mirrors of a cross-connect. Times are those of the caller's clock, from any origin.
#[derive(Clone, Debug)]
pub struct Mirrors {
    ports: u16,
    outage: Duration,
    stuck: BTreeSet<Port>,
    /// The circuits of the last change.
    target: Circuits,
    /// Ports of `target` whose mirrors still move, and when they stop.
    moving: BTreeMap<Port, Duration>,
}

impl Mirrors {
    /// All ports are dark. A port is dark for `outage` when it gets another circuit.
    #[must_use]
    pub fn new(ports: u16, outage: Duration) -> Self {
        Self {
            ports,
            outage,
            stuck: BTreeSet::new(),
            target: Circuits::DARK,
            moving: BTreeMap::new(),
        }
    }

    /// Breaks the mirror of a dark port: the port stays dark, although changes report success.
    pub fn stick(&mut self, port: Port) {
        self.stuck.insert(port);
    }

    /// Number of ports.
    #[must_use]
    pub fn ports(&self) -> u16 {
        self.ports
    }

    /// Begins a change to `next`. Returns the time at which all of its circuits carry light. Those that
    /// exist already are not touched.
    ///
    /// # Errors
    /// If there are not enough ports. Nothing has changed then.
    pub fn change(&mut self, now: Duration, next: &Circuits) -> Result<Duration, Invalid> {
        next.fit(self.ports)?;
        let mut next = next.clone();
        for &port in &self.stuck {
            next.part(port);
        }
        let kept = self.target.kept(&next);
        self.moving.retain(|&port, _| kept.peer(port).is_some());
        let stop = now + self.outage;
        let new = next.pairs().flat_map(|(a, b)| [a, b]).filter(|&port| kept.peer(port).is_none());
        self.moving.extend(new.map(|port| (port, stop)));
        self.target = next;
        Ok(self.moving.values().copied().fold(now, Duration::max))
    }

    /// When the next mirror stops, which is when [`settle`](Self::settle) is due.
    #[must_use]
    pub fn due(&self) -> Option<Duration> {
        self.moving.values().min().copied()
    }

    /// Gives light to the ports whose mirrors have stopped, and returns them. What had arrived there
    /// before is lost: the caller discards it from its buffers.
    #[must_use]
    pub fn settle(&mut self, now: Duration) -> Vec<Port> {
        self.moving.extract_if(.., |_, stop| *stop <= now).map(|(port, _)| port).collect()
    }

    /// The port where light from `port` leaves; `None` if it is lost.
    #[must_use]
    pub fn path(&self, port: Port) -> Option<Port> {
        if self.moving.contains_key(&port) {
            return None;
        }
        self.target.peer(port)
    }

    /// The circuits that carry light.
    #[must_use]
    pub fn circuits(&self) -> Circuits {
        let mut lit = self.target.clone();
        for &port in self.moving.keys() {
            lit.part(port);
        }
        lit
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PORTS: u16 = 6;
    const OUTAGE: u64 = 20;

    fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    fn circuits(pairs: &[(u16, u16)]) -> Circuits {
        Circuits::new(pairs.iter().map(|&(a, b)| (Port(a), Port(b)))).unwrap()
    }

    /// Circuits from random numbers: pairs that do not fit are left out.
    fn any_circuits() -> impl Strategy<Value = Circuits> {
        prop::collection::vec((1..=PORTS, 1..=PORTS), 0..4).prop_map(|pairs| {
            let mut circuits = Circuits::DARK;
            for (a, b) in pairs {
                // Refused circuits are left out.
                let _ = circuits.join(Port(a), Port(b));
            }
            circuits
        })
    }

    /// What the rule says, from the whole history of changes: light passes from a port to its peer if
    /// they have been joined for the outage.
    fn expected(history: &[(u64, Circuits)], now: u64, port: Port) -> Option<Port> {
        let peer = history.last()?.1.peer(port)?;
        let since = history.iter().rev().take_while(|(_, then)| then.peer(port) == Some(peer));
        (since.last()?.0 + OUTAGE <= now).then_some(peer)
    }

    proptest! {
        #[test]
        fn light_follows_the_history(
            steps in prop::collection::vec((0..30_u64, any::<bool>(), any_circuits()), 1..20),
        ) {
            let mut mirrors = Mirrors::new(PORTS, ms(OUTAGE));
            let (mut now, mut history) = (0, Vec::new());
            for (pause, change, next) in steps {
                now += pause;
                let before: Vec<_> = (1..=PORTS).map(|port| mirrors.path(Port(port))).collect();
                for port in mirrors.settle(ms(now)) {
                    prop_assert_eq!(before[usize::from(port.0) - 1], None, "{} had light", port);
                }
                if change {
                    let light = mirrors.change(ms(now), &next).unwrap();
                    history.push((now, next.clone()));
                    prop_assert!(light <= ms(now + OUTAGE));
                    let mut later = mirrors.clone();
                    let _ = later.settle(light);
                    prop_assert_eq!(later.circuits(), next, "all circuits when promised");
                    if light > ms(now) {
                        let mut sooner = mirrors.clone();
                        let _ = sooner.settle(light - ms(1));
                        prop_assert_ne!(sooner.circuits(), later.circuits(), "not before");
                    }
                }
                let mut lit = Circuits::DARK;
                for port in (1..=PORTS).map(Port) {
                    let path = mirrors.path(port);
                    prop_assert_eq!(path, expected(&history, now, port), "port {}", port);
                    if let Some(peer) = path.filter(|peer| port < *peer) {
                        lit.join(port, peer).unwrap();
                    }
                }
                prop_assert_eq!(mirrors.circuits(), lit);
                prop_assert_eq!(mirrors.due().is_some(), mirrors.circuits() != mirrors.target);
            }
        }
    }

    #[test]
    fn only_touched_ports_go_dark() {
        let mut mirrors = Mirrors::new(6, ms(OUTAGE));
        assert_eq!(mirrors.change(ms(0), &circuits(&[(1, 2), (3, 4), (5, 6)])), Ok(ms(20)));
        assert_eq!((mirrors.due(), mirrors.circuits()), (Some(ms(20)), Circuits::DARK));
        assert_eq!(mirrors.settle(ms(20)).len(), 6);
        // 1-2 stays, 3 and 5 are joined anew, 4 and 6 go dark.
        assert_eq!(mirrors.change(ms(30), &circuits(&[(1, 2), (3, 5)])), Ok(ms(50)));
        assert_eq!(mirrors.circuits(), circuits(&[(1, 2)]));
        assert_eq!(mirrors.settle(ms(49)), []);
        assert_eq!(mirrors.settle(ms(50)), [Port(3), Port(5)]);
        assert_eq!(mirrors.circuits(), circuits(&[(1, 2), (3, 5)]));
        // Going dark takes no time, and neither does a change to what is there.
        assert_eq!(mirrors.change(ms(60), &circuits(&[(1, 2)])), Ok(ms(60)));
        assert_eq!(mirrors.change(ms(60), &circuits(&[(1, 2)])), Ok(ms(60)));
    }

    #[test]
    fn a_change_waits_for_the_mirrors_of_the_one_before() {
        let mut mirrors = Mirrors::new(4, ms(OUTAGE));
        assert_eq!(mirrors.change(ms(0), &circuits(&[(1, 2)])), Ok(ms(20)));
        assert_eq!(mirrors.change(ms(5), &circuits(&[(1, 2), (3, 4)])), Ok(ms(25)));
        assert_eq!(mirrors.settle(ms(20)), [Port(1), Port(2)]);
        assert_eq!(mirrors.change(ms(21), &circuits(&[(1, 2), (3, 4)])), Ok(ms(25)));
    }

    #[test]
    fn a_stuck_port_stays_dark() {
        let mut mirrors = Mirrors::new(4, Duration::ZERO);
        mirrors.stick(Port(2));
        mirrors.change(ms(0), &circuits(&[(1, 2), (3, 4)])).unwrap();
        assert_eq!(mirrors.settle(ms(0)), [Port(3), Port(4)]);
        assert_eq!(mirrors.circuits(), circuits(&[(3, 4)]));
    }

    #[test]
    fn circuits_must_fit() {
        let mut mirrors = Mirrors::new(2, ms(OUTAGE));
        let unknown = Invalid::Unknown { port: Port(3), ports: 2 };
        assert_eq!(mirrors.change(ms(0), &circuits(&[(1, 3)])), Err(unknown));
        assert_eq!(mirrors.due(), None);
    }
}
