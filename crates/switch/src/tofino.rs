//! What the driver of a Tofino configures besides the entities of P4Runtime.

use std::collections::BTreeMap;

use crate::generator::{APPLICATIONS, Application, Trigger};

/// Bytes of a port's metadata.
pub const PORT_METADATA_BYTES: usize = 8;

/// Longest packet of a generator: its buffer.
const LONGEST_PACKET: usize = 16 << 10;

/// Settings of a switch for TNA programs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TofinoConfig {
    /// The bytes after the intrinsic header of packets that arrive on a port; zeros for others.
    pub port_metadata: BTreeMap<u16, [u8; PORT_METADATA_BYTES]>,
    /// The ports of each level-2 exclusion id.
    pub exclusions: BTreeMap<u16, Vec<u16>>,
    /// The applications of the packet generator.
    pub generator: Vec<Application>,
}

impl TofinoConfig {
    /// Checks it.
    ///
    /// # Errors
    /// A line that names the first problem.
    pub fn check(&self) -> Result<(), String> {
        let mut seen = [false; APPLICATIONS as usize];
        for app in &self.generator {
            let id = app.id;
            let wrong = |what: &str| Err(format!("application {id} of the generator {what}"));
            match seen.get_mut(usize::from(id)) {
                None => {
                    return wrong(&format!("does not exist: they are 0 to {}", APPLICATIONS - 1));
                }
                Some(true) => return wrong("is there twice"),
                Some(first) => *first = true,
            }
            let counts = 1..=1 << 16;
            if !counts.contains(&app.batches) || !counts.contains(&app.packets) {
                return wrong("has a number of batches or packets that is not from 1 to 65536");
            }
            if app.packet.is_empty() || app.packet.len() > LONGEST_PACKET {
                return wrong(&format!("needs a packet of 1 to {LONGEST_PACKET} bytes"));
            }
            if app.trigger == Trigger::Every(0) {
                return wrong("has an interval of zero: it must be a microsecond or more");
            }
        }
        let ports = self.port_metadata.keys().copied();
        let ports = ports.chain(self.exclusions.values().flatten().copied());
        let mut ports = ports.chain(self.generator.iter().map(|app| app.port));
        match ports.find(|&port| usize::from(port) >= crate::config::PORT_COUNT) {
            Some(port) => Err(format!("port {port} does not exist: ports have 9 bits")),
            None => Ok(()),
        }
    }
}
