//! Configuration of a switch.

use std::collections::{BTreeMap, BTreeSet};

use tributary_dataplane::{
    EngineKind, PSA_CPU_PORT, PSA_RECIRCULATION_PORT, RECIRCULATION_PORT, psa_port_number,
};
use tributary_p4::Architecture;

use crate::entities::Refusal;
use crate::generator::{APPLICATIONS, Application, Trigger};

/// The controller's port in v1model programs of this project and of BMv2's testbeds.
pub const CPU_PORT: u16 = 510;

/// The controller's port in TNA programs of this project: the PCIe port of a Tofino with two pipes.
pub const TNA_CPU_PORT: u16 = 192;

/// Ports have numbers of 9 bits in v1model and TNA, where the highest one means "drop". In PSA it is
/// the recirculation port.
pub(crate) const PORT_COUNT: usize = 512;

/// Bytes of a port's metadata.
pub const PORT_METADATA_BYTES: usize = 8;

/// Longest packet of a generator: its buffer.
const LONGEST_PACKET: usize = 16 << 10;

/// Sizes and names of a switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SwitchConfig {
    /// P4Runtime's name for the switch.
    pub device_id: u64,
    /// Ports with a link, without the CPU port. Packets for other ports are dropped and counted.
    pub ports: Vec<u16>,
    /// The controller's port in v1model programs.
    pub cpu_port: u16,
    /// The controller's port in TNA programs.
    pub tna_cpu_port: u16,
    /// Packets per egress queue; more are dropped and counted.
    pub queue_limit: usize,
    /// Egress queues per port, at least one. A packet joins the queue of its
    /// `standard_metadata.priority`; higher priorities are sent first. Packets for a missing queue
    /// are dropped and counted. simple_switch has one queue without `--priority-queues`.
    pub priority_queues: usize,
    /// Packets that may wait for recirculation; more are dropped and counted.
    pub recirculation_limit: usize,
    /// Resubmissions per packet; packets that request more are dropped and counted.
    pub resubmit_limit: u32,
    /// The execution engine of programs.
    pub engine: EngineKind,
    /// Cores, at least one: see [`crate::runtime`].
    pub cores: u16,
    /// Settings for TNA programs that P4Runtime cannot express.
    pub tofino: TofinoConfig,
}

impl Default for SwitchConfig {
    fn default() -> Self {
        Self {
            device_id: 1,
            ports: Vec::new(),
            cpu_port: CPU_PORT,
            tna_cpu_port: TNA_CPU_PORT,
            queue_limit: 1024,
            priority_queues: 1,
            recirculation_limit: 1024,
            resubmit_limit: 16,
            engine: EngineKind::default(),
            cores: 1,
            tofino: TofinoConfig::default(),
        }
    }
}

impl SwitchConfig {
    /// The controller's port for programs of an architecture.
    #[must_use]
    pub fn cpu_port_of(&self, architecture: Architecture) -> u16 {
        match architecture {
            Architecture::V1model => self.cpu_port,
            Architecture::Tna => self.tna_cpu_port,
            Architecture::Psa => PSA_CPU_PORT,
        }
    }

    /// The recirculation port for programs of an architecture, if it is a port.
    #[must_use]
    pub fn recirculation_port_of(&self, architecture: Architecture) -> Option<u16> {
        match architecture {
            Architecture::V1model => None,
            Architecture::Tna => Some(RECIRCULATION_PORT),
            Architecture::Psa => Some(PSA_RECIRCULATION_PORT),
        }
    }

    /// The ports whose frames arrive again, for programs of an architecture.
    pub(crate) fn recirculation_ports(
        &self,
        architecture: Architecture,
    ) -> impl Iterator<Item = u16> {
        let loopback = (architecture == Architecture::Tna).then_some(&self.tofino.loopback);
        let loopback = loopback.into_iter().flatten().copied();
        self.recirculation_port_of(architecture).into_iter().chain(loopback)
    }

    /// Ports without a link that exist for programs of an architecture.
    pub(crate) fn internal_ports(&self, architecture: Architecture) -> impl Iterator<Item = u16> {
        let recirculation = self.recirculation_ports(architecture);
        std::iter::once(self.cpu_port_of(architecture)).chain(recirculation)
    }

    /// Whether a program of an architecture can send to a port.
    #[must_use]
    pub fn has_port(&self, architecture: Architecture, port: u16) -> bool {
        self.ports.contains(&port) || self.internal_ports(architecture).any(|known| known == port)
    }

    /// The port that the controller of a program of an architecture means by a number, if a program
    /// can send to it.
    pub(crate) fn port_of(&self, architecture: Architecture, number: u64) -> Option<u16> {
        let port = match architecture {
            Architecture::Psa => psa_port_number(number),
            Architecture::V1model | Architecture::Tna => u16::try_from(number).ok(),
        };
        port.filter(|&port| self.has_port(architecture, port))
    }

    /// Refuses links in ports that programs of an architecture use otherwise.
    pub(crate) fn check_ports(&self, architecture: Architecture) -> Result<(), Refusal> {
        match self.internal_ports(architecture).find(|port| self.ports.contains(port)) {
            None => Ok(()),
            Some(port) => Err(Refusal::failed_precondition(format!(
                "port {port} has a cable, but {architecture} programs use it within the switch: \
                 connect the cable to another port"
            ))),
        }
    }
}

/// What the driver of a Tofino configures besides the entities of P4Runtime.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TofinoConfig {
    /// The bytes after the intrinsic header of packets that arrive on a port; zeros for others.
    pub port_metadata: BTreeMap<u16, [u8; PORT_METADATA_BYTES]>,
    /// The ports of each level-2 exclusion id.
    pub exclusions: BTreeMap<u16, Vec<u16>>,
    /// Ports in loopback mode besides the recirculation port: what leaves them arrives on them again.
    pub loopback: BTreeSet<u16>,
    /// The port for packets whose own queue has no room, if they ask for it (`deflect_on_drop`).
    pub deflection: Option<u16>,
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
        let ports = ports.chain(self.loopback.iter().copied()).chain(self.deflection);
        let mut ports = ports.chain(self.generator.iter().map(|app| app.port));
        if self.loopback.contains(&TNA_CPU_PORT) {
            return Err(format!("port {TNA_CPU_PORT} is the controller's: it has no loopback"));
        }
        match ports.find(|&port| usize::from(port) >= PORT_COUNT) {
            Some(port) => Err(format!("port {port} does not exist: ports have 9 bits")),
            None => Ok(()),
        }
    }
}
