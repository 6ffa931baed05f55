//! What joins the units: the emulated cross-connect, or Open vSwitch.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::time::Instant;
use tributary_optical::crossconnect::{CrossConnect, connect};

use crate::fabric::CrossConnectKind;
use crate::testbed::{self, LinkEnd, OpenVSwitch, Output, Process};

use super::{Netns, START_TIME, wait_for};

/// Name of the cross-connect's namespace; no host or switch has such a name.
pub const CROSS_CONNECT: &str = "cross=connect";

/// Time limit for the cross-connect to answer, beside the outage.
const TIME: Duration = Duration::from_secs(5);

impl Netns {
    /// Starts the cross-connect between the units.
    pub(super) async fn start_cross_connect(
        &mut self,
        topology: &testbed::Topology,
    ) -> Result<Box<dyn CrossConnect>> {
        let units = &self.deployment.scenario().network.topology;
        let outage = units.optical.as_ref().map_or(Duration::ZERO, |optical| optical.outage);
        let interface = |port| (port, topology.interface(&LinkEnd::new(CROSS_CONNECT, port)));
        let ports: Vec<_> = (1..=units.cross_connect_ports()).map(interface).collect();
        let address = match self.options.cross_connect {
            CrossConnectKind::Emulated => self.start_emulated(&ports, outage).await?,
            CrossConnectKind::OpenVSwitch => self.start_open_vswitch(&ports)?,
        };
        let mut device = connect(&address, outage + TIME, None)?;
        let deadline = Instant::now() + START_TIME;
        loop {
            // Open vSwitch opens interfaces in the background.
            let found = device.ports().await;
            if found.as_ref().is_ok_and(|found| usize::from(*found) >= ports.len()) {
                return Ok(device);
            }
            if Instant::now() > deadline {
                let found = found.context("the cross-connect")?;
                bail!(
                    "the cross-connect has {found} of its {} ports after {START_TIME:?}",
                    ports.len()
                );
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Returns its address.
    async fn start_emulated(
        &mut self,
        ports: &[(u16, String)],
        outage: Duration,
    ) -> Result<String> {
        let socket = self.sockets.path().join("cross-connect.sock");
        let mut command = self.command("crossconnect", None);
        self.measure(&mut command, "cross-connect");
        for (port, interface) in ports {
            command.arg("--port").arg(format!("{port}@{interface}"));
        }
        command.args(["--io", &self.options.io.of_ports().to_string()]);
        command.args(["--outage", &format!("{}us", outage.as_micros())]);
        command.args(["--listen", &format!("unix:{}", socket.display())]);
        let process = self.testbed.spawn(CROSS_CONNECT, command, Output::Keep)?;
        wait_for(&socket, &process).await.context("the cross-connect")?;
        self.cables.push(process);
        Ok(format!("emulated:unix:{}", socket.display()))
    }

    /// Returns its address.
    fn start_open_vswitch(&mut self, ports: &[(u16, String)]) -> Result<String> {
        let directory = self.sockets.path().join("openvswitch");
        std::fs::create_dir(&directory).context("cannot make a directory for Open vSwitch")?;
        let started = OpenVSwitch::start(&self.testbed, CROSS_CONNECT, &directory, ports, None);
        let started = started.context("the cross-connect")?;
        self.cables.extend(started.processes().map(Process::clone));
        Ok(format!("openflow:unix:{}", started.socket().display()))
    }
}

/// What a process between links is.
pub(super) fn link_part(process: &Process) -> String {
    match (process.node(), process.name()) {
        (CROSS_CONNECT, program) if program.starts_with("ovs") => {
            format!("the cross-connect ({program})")
        }
        (CROSS_CONNECT, _) => "the cross-connect".to_owned(),
        (node, _) => format!("the cable {node}"),
    }
}
