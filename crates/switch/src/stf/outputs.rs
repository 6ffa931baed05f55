//! Actual and expected output packets.

use std::collections::{BTreeMap, BTreeSet};

use crate::stf::error::{Failure, Place};
use crate::stf::pattern::{Pattern, hex};

/// Maximum number of bytes of a packet in a message.
const SHOWN: usize = 96;

/// Packets and expectations of the ports that a script mentions.
pub(crate) struct Outputs {
    ports: BTreeMap<u16, Port>,
    /// Output since the last input packet.
    since_packet: Vec<(u16, Vec<u8>)>,
    /// The hosts that the numbers stand for in the test of a network; empty in that of a switch.
    hosts: Vec<String>,
}

#[derive(Default)]
struct Port {
    sent: Vec<Vec<u8>>,
    expected: Vec<(Place, Option<Pattern>)>,
}

impl Outputs {
    pub(crate) fn new(ports: BTreeSet<u16>) -> Self {
        let ports = ports.into_iter().map(|port| (port, Port::default())).collect();
        Self { ports, since_packet: Vec::new(), hosts: Vec::new() }
    }

    /// The same for hosts in place of ports.
    pub(crate) fn with_hosts(self, hosts: Vec<String>) -> Self {
        Self { hosts, ..self }
    }

    /// The name of a port in messages.
    fn name(&self, port: u16) -> String {
        match self.hosts.get(usize::from(port)) {
            Some(host) => format!("host {host}"),
            None => format!("port {port}"),
        }
    }

    /// Output since the last input packet, in order, with its ports.
    pub(crate) fn of_packet(&self) -> &[(u16, Vec<u8>)] {
        &self.since_packet
    }

    pub(crate) fn next_packet(&mut self) {
        self.since_packet.clear();
    }

    pub(crate) fn sent(&mut self, port: u16, frame: &[u8]) {
        if let Some(known) = self.ports.get_mut(&port) {
            known.sent.push(frame.to_vec());
        }
        self.since_packet.push((port, frame.to_vec()));
    }

    pub(crate) fn expect(&mut self, place: Place, port: u16, pattern: Option<Pattern>) {
        self.ports.entry(port).or_default().expected.push((place, pattern));
    }

    /// Checks that the last packet caused no output on any port.
    pub(crate) fn expect_nothing(&self, place: Place) -> Result<(), Failure> {
        match self.since_packet.first() {
            None => Ok(()),
            Some((port, frame)) => Err(place.failure(format!(
                "{}: expected no packet, got {}",
                self.name(*port),
                shown(&hex(frame))
            ))),
        }
    }

    /// Compares all output: each port must have sent exactly the expected packets in order.
    pub(crate) fn compare(&self) -> Result<(), Failure> {
        self.ports.iter().try_for_each(|(number, port)| port.compare(&self.name(*number)))
    }
}

impl Port {
    fn compare(&self, name: &str) -> Result<(), Failure> {
        if self.expected.len() != self.sent.len() {
            return Err(self.miscounted(name));
        }
        let count = self.sent.len();
        for (i, ((place, pattern), packet)) in self.expected.iter().zip(&self.sent).enumerate() {
            let Some(pattern) = pattern else { continue };
            if let Some(difference) = pattern.difference(packet) {
                return Err(place.failure(format!(
                    "{name}, packet {} of {count}: {difference}; expected {}, got {}",
                    i + 1,
                    shown(&pattern.to_string()),
                    shown(&hex(packet))
                )));
            }
        }
        Ok(())
    }

    /// The number of packets differs: reports the first packet without a counterpart.
    fn miscounted(&self, name: &str) -> Failure {
        let (expected, sent) = (self.expected.len(), self.sent.len());
        let fits = |(expected, packet): (&(Place, Option<Pattern>), &Vec<u8>)| {
            expected.1.as_ref().is_none_or(|pattern| pattern.difference(packet).is_none())
        };
        let pairs = self.expected.iter().zip(&self.sent);
        let odd = pairs.clone().position(|pair| !fits(pair)).unwrap_or(expected.min(sent));
        let packets = tributary_base::counted(expected, "packet");
        let mut reason = format!("{name}: expected {packets}, got {sent}");
        if let Some((_, Some(pattern))) = self.expected.get(odd) {
            reason += &format!("; packet {} was to be {}", odd + 1, shown(&pattern.to_string()));
        }
        if let Some(packet) = self.sent.get(odd) {
            reason += &format!("; packet {} is {}", odd + 1, shown(&hex(packet)));
        }
        Failure { place: self.expected.get(odd).map(|(place, _)| *place), reason }
    }
}

/// Truncates a packet to fit on one line.
fn shown(digits: &str) -> String {
    match digits.get(..2 * SHOWN) {
        Some(start) if digits.len() > 2 * SHOWN => {
            format!("{start}… ({} bytes)", digits.len().div_ceil(2))
        }
        _ if digits.is_empty() => "an empty packet".to_owned(),
        _ => digits.to_owned(),
    }
}
