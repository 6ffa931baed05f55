//! BMv2 as a switch: `simple_switch_grpc`, started without a program.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use tributary_controller::p4c;

/// The port by which the controller's packets come and go, as the programs have it.
const CPU_PORT: &str = "510";

/// The program, found on the `PATH`.
#[derive(Clone, Debug)]
pub struct Bmv2 {
    program: PathBuf,
}

impl Bmv2 {
    /// Looks for BMv2, and for the compiler that it needs.
    ///
    /// # Errors
    /// One line that says which of them is not there.
    pub fn find() -> Result<Self> {
        let program = p4c::find("simple_switch_grpc", "install BMv2 (docs/bmv2.md)")?;
        p4c::bmv2_compiler()?;
        Ok(Self { program })
    }

    /// A switch with these ports and interfaces, which waits for a controller at a Unix socket.
    ///
    /// Its queues cannot be set: the server of BMv2's own control interface (Thrift), which could,
    /// is left out of many builds of `simple_switch_grpc`. Jobs are paced to fit them
    /// ([`Scenario::pace_for_bmv2`](tributary_jobfile::Scenario::pace_for_bmv2)). The priorities of
    /// ESA are not those of queues: one queue a port is enough.
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
