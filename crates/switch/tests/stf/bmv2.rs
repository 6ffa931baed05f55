//! Runs the same cases on BMv2 with packets from and to files, which needs neither interfaces nor
//! root.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tributary_controller::p4c;
use tributary_controller::programs::Source;
use tributary_switch::stf::Script;

const SWITCH: &str = "simple_switch_grpc";

/// Maximum time for all packets of a case.
const PATIENCE: Duration = Duration::from_secs(30);
/// Additional time for unexpected packets.
const GRACE: Duration = Duration::from_millis(100);

/// Cases that p4c or BMv2 does not support, with the reason.
const EXCEPTIONS: [&str; 4] = [
    // BMv2 supports stacks of headers only.
    "arrays",
    "run_time_indices",
    // `packet_in.length` is not there.
    "lengths",
    // p4c's back end for BMv2 rejects loops over ranges, which are part of the language.
    "loops",
];

/// Why BMv2 is not used here; `None` if it is used.
pub(crate) fn obstacle() -> Option<String> {
    let tools = p4c::find(SWITCH, "").and_then(|_| p4c::bmv2_compiler());
    tools.err().map(|error| match error {
        tributary_controller::Error::NoTool { program, .. } => {
            format!("{program} not found on the PATH")
        }
        other => other.to_string(),
    })
}

/// Whether a case can run on BMv2. Control-plane commands would need a controller.
pub(crate) fn takes(path: &Path) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    // simple_switch runs v1model only.
    let other = ["psa_", "tna_"].iter().any(|architecture| stem.starts_with(architecture));
    let exception = other || EXCEPTIONS.contains(&stem);
    !exception && script(path).is_ok_and(|script| script.only_packets())
}

pub(crate) fn passes(path: &Path) -> Result<(), String> {
    let script = script(path)?;
    let main = path.with_extension("p4").display().to_string();
    let program = p4c::bmv2(&Source { main, files: Vec::new() }, &[]);
    let program = program.map_err(|error| error.to_string())?;
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let files = Files { directory: directory.path(), ports: script.ports().collect() };
    files.write(&program.device_config, &script).map_err(|error| error.to_string())?;
    let mut switch = files.switch().spawn().map_err(|error| error.to_string())?;
    let deadline = Instant::now() + PATIENCE;
    let mut outcome;
    loop {
        outcome = script.compare(&files.read());
        if outcome.is_ok() || Instant::now() > deadline {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    if outcome.is_ok() {
        std::thread::sleep(GRACE);
        outcome = script.compare(&files.read());
    }
    switch.kill().and_then(|()| switch.wait()).map_err(|error| error.to_string())?;
    outcome.map_err(|failure| failure.to_string())
}

fn script(path: &Path) -> Result<Script, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    Script::parse(&text).map_err(|error| error.to_string())
}

/// The files that BMv2 reads and writes: two captures per port.
struct Files<'a> {
    directory: &'a Path,
    ports: BTreeSet<u16>,
}

impl Files<'_> {
    fn write(&self, program: &[u8], script: &Script) -> std::io::Result<()> {
        std::fs::write(self.directory.join("program.json"), program)?;
        for &at in &self.ports {
            let mut capture = Vec::new();
            // The pcap header: magic number, version 2.4, snapshot length, Ethernet.
            for word in [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, u32::from(u16::MAX), 1u32] {
                capture.extend(word.to_le_bytes());
            }
            // BMv2 processes the packets of all ports in order of their timestamps.
            for (second, (port, data)) in script.packets().enumerate() {
                if port == at {
                    let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
                    let second = u32::try_from(second).unwrap_or(u32::MAX);
                    for word in [second, 0, length, length] {
                        capture.extend(word.to_le_bytes());
                    }
                    capture.extend(data);
                }
            }
            std::fs::write(self.directory.join(format!("{at}_in.pcap")), capture)?;
        }
        Ok(())
    }

    fn switch(&self) -> Command {
        let mut command = Command::new(SWITCH);
        command.current_dir(self.directory).stdout(Stdio::null()).stderr(Stdio::null());
        command.args(["--use-files", "0", "--log-level", "off"]);
        for port in &self.ports {
            command.arg("-i").arg(format!("{port}@{port}"));
        }
        let socket = self.directory.join("grpc.sock");
        command.args(["program.json", "--", "--grpc-server-addr"]);
        command.arg(format!("unix:{}", socket.display()));
        command
    }

    /// The output so far.
    fn read(&self) -> BTreeMap<u16, Vec<Vec<u8>>> {
        let capture = |port| {
            let bytes = std::fs::read(self.directory.join(format!("{port}_out.pcap")));
            packets(bytes.as_deref().unwrap_or_default())
        };
        self.ports.iter().map(|&port| (port, capture(port))).collect()
    }
}

/// The packets of a capture, which may end in the middle of one.
fn packets(capture: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = capture.get(24..).unwrap_or_default();
    let mut packets = Vec::new();
    while let Some((header, data)) = rest.split_first_chunk::<16>() {
        let length = u32::from_le_bytes([header[8], header[9], header[10], header[11]]) as usize;
        let Some((packet, after)) = data.split_at_checked(length) else { break };
        packets.push(packet.to_vec());
        rest = after;
    }
    packets
}
