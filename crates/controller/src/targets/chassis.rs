//! Stratum's chassis configuration: which ports of a Tofino are up, and how fast.
//!
//! P4Runtime knows ports only by number. Stratum reads their place on the front panel when it
//! starts (`-chassis_config_file`) or over gNMI.

use std::fmt::Write as _;

use tributary_model::{SwitchId, Topology};

use crate::error::Error;
use crate::ports::PortMap;

/// Bytes of a frame around an IP packet: Ethernet header and check sequence.
const ETHERNET: u32 = 18;

/// The text of a switch's configuration. P4Runtime's device ID is the node's number.
///
/// # Errors
/// [`Error::UnknownPanel`] if the map lacks a port of the switch.
pub fn config(
    topology: &Topology,
    ports: &PortMap,
    switch: SwitchId,
    device_id: u64,
) -> Result<String, Error> {
    let name = &topology.switch(switch).name;
    let mut text = format!(
        "description: \"{name}, for Tributary\"\n\
         chassis {{\n  platform: PLT_GENERIC_BAREFOOT_TOFINO\n  name: \"{name}\"\n}}\n\
         nodes {{\n  id: {device_id}\n  slot: 1\n  index: 1\n}}\n"
    );
    for (number, link, far) in topology.ports(switch) {
        let panel = ports
            .panel(switch, number)
            .ok_or_else(|| Error::UnknownPanel { switch: name.clone(), port: number })?;
        // Stratum's own files number ports like this.
        let id = match panel.channel {
            0 => u32::from(panel.connector),
            channel => 100 * u32::from(panel.connector) + u32::from(channel),
        };
        let (connector, channel, speed) = (panel.connector, panel.channel, panel.speed_bps);
        let frame = topology.link(link).mtu + ETHERNET;
        let far = topology.end_name(far);
        let mut line = |indent: usize, line: &str| {
            let _ = writeln!(text, "{:indent$}{line}", "", indent = 2 * indent);
        };
        line(0, &format!("# Device port {}, towards {far}.", panel.device_port));
        line(0, "singleton_ports {");
        line(1, &format!("id: {id}"));
        line(1, &format!("name: \"{connector}/{channel}\""));
        line(1, "slot: 1");
        line(1, &format!("port: {connector}"));
        if channel > 0 {
            line(1, &format!("channel: {channel}"));
        }
        line(1, &format!("speed_bps: {speed}"));
        line(1, "config_params {");
        line(2, "admin_state: ADMIN_STATE_ENABLED");
        line(2, &format!("mtu: {frame}"));
        if let Some(autoneg) = panel.autoneg {
            let state = if autoneg { "TRUE" } else { "FALSE" };
            line(2, &format!("autoneg: TRI_STATE_{state}"));
        }
        if let Some(fec) = panel.fec {
            let mode = if fec { "ON" } else { "OFF" };
            line(2, &format!("fec_mode: FEC_MODE_{mode}"));
        }
        line(1, "}");
        line(1, &format!("node: {device_id}"));
        line(0, "}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::tests::{FILE, star};

    fn map() -> PortMap {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ports.toml");
        std::fs::write(&path, FILE).unwrap();
        PortMap::read(&path, &star().network.topology).unwrap()
    }

    #[test]
    fn every_port_of_the_topology_is_there() {
        let text = config(&star().network.topology, &map(), SwitchId(0), 1).unwrap();
        let ports: Vec<&str> = text.split("singleton_ports {").skip(1).collect();
        assert_eq!(ports.len(), 3);
        assert!(text.contains("platform: PLT_GENERIC_BAREFOOT_TOFINO"));
        assert!(
            ports[0].contains(
                "id: 1\n  name: \"1/0\"\n  slot: 1\n  port: 1\n  speed_bps: 100000000000"
            )
        );
        assert!(ports[0].contains("mtu: 1518") && !ports[0].contains("channel"));
        assert!(
            ports[1].contains("speed_bps: 40000000000")
                && ports[1].contains("autoneg: TRI_STATE_TRUE")
        );
        assert!(ports[2].contains("id: 301\n  name: \"3/1\"") && ports[2].contains("channel: 1"));
        assert!(ports[2].contains("fec_mode: FEC_MODE_ON"));
        assert_eq!(text.matches('{').count(), text.matches('}').count());
        assert!(text.contains("# Device port 20, towards ps."));
    }

    #[test]
    fn without_a_map_there_is_no_configuration() {
        let error =
            config(&star().network.topology, &PortMap::default(), SwitchId(0), 1).unwrap_err();
        assert_eq!(
            error.to_string(),
            "--chassis-config: nothing is known about port 1 of switch s1; give a file with --ports"
        );
    }
}
