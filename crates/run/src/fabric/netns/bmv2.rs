//! BMv2 as a switch: `simple_switch_grpc`, started without a program.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use tributary_controller::p4c;

/// The controller's port, as in the programs.
const CPU_PORT: &str = "510";

/// BMv2, found on the `PATH`.
#[derive(Clone, Debug)]
pub struct Bmv2 {
    program: PathBuf,
}

impl Bmv2 {
    /// Finds BMv2 and its compiler.
    ///
    /// # Errors
    /// One line that names the missing one.
    pub fn find() -> Result<Self> {
        let program = p4c::find("simple_switch_grpc", "install BMv2 (docs/operate/bmv2.md)")?;
        p4c::bmv2_compiler()?;
        Ok(Self { program })
    }

    /// A switch with these ports and interfaces, which waits for a controller at a Unix socket.
    ///
    /// Its queues cannot be configured: many builds of `simple_switch_grpc` lack the server of
    /// BMv2's own control interface (Thrift). Jobs are paced to fit the queues instead
    /// ([`Scenario::pace_for_bmv2`](tributary_model::Scenario::pace_for_bmv2)). ESA's priorities
    /// are not those of queues, so one queue per port is enough.
    pub(super) fn command(
        &self,
        device_id: u64,
        ports: impl Iterator<Item = (u16, String)>,
        socket: &Path,
    ) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["--no-p4", "--log-level", "off", "--device-id", &device_id.to_string()]);
        for (port, interface) in ports {
            command.arg("--interface").arg(format!("{port}@{interface}"));
        }
        let address = format!("unix:{}", socket.display());
        command.args(["--", "--cpu-port", CPU_PORT, "--grpc-server-addr", &address]);
        command
    }
}
