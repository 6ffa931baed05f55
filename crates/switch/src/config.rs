//! What a switch is told when it is made.

/// The port of the controller in v1model programs of this project and of BMv2's testbeds.
pub const CPU_PORT: u16 = 510;

/// Ports are 9 bits wide in v1model; the highest one means "drop".
pub(crate) const PORT_COUNT: usize = 512;

/// Sizes and names of a switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SwitchConfig {
    /// P4Runtime's name for the switch.
    pub device_id: u64,
    /// Ports with a cable, besides the CPU port. Packets for other ports are dropped and counted.
    pub ports: Vec<u16>,
    /// The port whose packets go to the controller and come from it.
    pub cpu_port: u16,
    /// Packets that an egress queue holds; more are dropped and counted.
    pub queue_limit: usize,
    /// Packets that may wait to be parsed again; more are dropped and counted.
    pub recirculation_limit: usize,
    /// Resubmissions of one packet; a packet that asks for more is dropped and counted.
    pub resubmit_limit: u32,
}

impl Default for SwitchConfig {
    fn default() -> Self {
        Self {
            device_id: 1,
            ports: Vec::new(),
            cpu_port: CPU_PORT,
            queue_limit: 1024,
            recirculation_limit: 1024,
            resubmit_limit: 16,
        }
    }
}

impl SwitchConfig {
    /// Whether a port exists, the CPU port included.
    #[must_use]
    pub fn has_port(&self, port: u16) -> bool {
        port == self.cpu_port || self.ports.contains(&port)
    }
}
