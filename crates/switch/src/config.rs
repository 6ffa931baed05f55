//! What a switch is told when it is made.

use tributary_dataplane::{EngineKind, RECIRCULATION_PORT};
use tributary_p4::Architecture;

use crate::entities::Refusal;

/// The port of the controller in v1model programs of this project and of BMv2's testbeds.
pub const CPU_PORT: u16 = 510;

/// The port of the controller in TNA programs of this project: where a Tofino with two pipes has its
/// PCIe port.
pub const TNA_CPU_PORT: u16 = 192;

/// Ports are 9 bits wide in both architectures; the highest one means "drop".
pub(crate) const PORT_COUNT: usize = 512;

/// Sizes and names of a switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SwitchConfig {
    /// P4Runtime's name for the switch.
    pub device_id: u64,
    /// Ports with a cable, besides the CPU port. Packets for other ports are dropped and counted.
    pub ports: Vec<u16>,
    /// The port whose packets go to the controller and come from it, for v1model programs.
    pub cpu_port: u16,
    /// The same for TNA programs.
    pub tna_cpu_port: u16,
    /// Packets that an egress queue holds; more are dropped and counted.
    pub queue_limit: usize,
    /// Egress queues of each port, at least one. A packet joins the one that its
    /// `standard_metadata.priority` says, the highest goes first; one of a queue that is not there is
    /// dropped and counted. simple_switch has one, too, unless `--priority-queues` says otherwise.
    pub priority_queues: usize,
    /// Packets that may wait to be parsed again; more are dropped and counted.
    pub recirculation_limit: usize,
    /// Resubmissions of one packet; a packet that asks for more is dropped and counted.
    pub resubmit_limit: u32,
    /// What runs programs.
    pub engine: EngineKind,
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
        }
    }
}

impl SwitchConfig {
    /// The port of the controller for programs of an architecture.
    #[must_use]
    pub fn cpu_port_of(&self, architecture: Architecture) -> u16 {
        match architecture {
            Architecture::V1model => self.cpu_port,
            Architecture::Tna => self.tna_cpu_port,
        }
    }

    /// The port through which programs of an architecture recirculate, where it is a port.
    #[must_use]
    pub fn recirculation_port_of(&self, architecture: Architecture) -> Option<u16> {
        (architecture == Architecture::Tna).then_some(RECIRCULATION_PORT)
    }

    /// Ports without a cable that programs of an architecture find.
    pub(crate) fn internal_ports(&self, architecture: Architecture) -> impl Iterator<Item = u16> {
        let recirculation = self.recirculation_port_of(architecture);
        std::iter::once(self.cpu_port_of(architecture)).chain(recirculation)
    }

    /// Whether a program of an architecture can send to a port.
    #[must_use]
    pub fn has_port(&self, architecture: Architecture, port: u16) -> bool {
        self.ports.contains(&port) || self.internal_ports(architecture).any(|known| known == port)
    }

    /// Refuses cables in ports that programs of an architecture have another use for.
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
