//! The cross-connects under test, as processes in a lab.

use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tributary_optical::crossconnect::CrossConnect;
use tributary_run::testbed::{OpenVSwitch, Output, Process, Stream};

use crate::lab::{Lab, NODE, PORTS};

/// Time limit of drivers.
pub(crate) const LIMIT: Duration = Duration::from_secs(2);

/// The outage of emulated ones.
const OUTAGE: &[&str] = &["--outage", "100ms"];

/// Time limit for processes to start.
const START: Duration = Duration::from_secs(20);

/// A kind of cross-connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// `tributary crossconnect`.
    Emulated,
    /// Open vSwitch.
    OpenFlow,
}

/// A running cross-connect.
pub(crate) struct Device {
    directory: TempDir,
    running: Running,
}

enum Running {
    Emulated(Process),
    OpenFlow(OpenVSwitch),
}

impl Kind {
    /// How long frames may be lost, or follow old circuits, after a change was answered. The forwarding
    /// threads of Open vSwitch learn of new flows a little later.
    pub(crate) fn patience(self) -> Duration {
        match self {
            Self::Emulated => Duration::ZERO,
            Self::OpenFlow => Duration::from_secs(2),
        }
    }
}

impl Device {
    pub(crate) fn start(kind: Kind, lab: &Lab) -> Self {
        match kind {
            Kind::Emulated => Self::emulated(lab, OUTAGE),
            Kind::OpenFlow => Self::open_vswitch(lab, None),
        }
    }

    /// An emulated one with more arguments.
    pub(crate) fn emulated(lab: &Lab, more: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let running = Running::Emulated(start_emulated(lab, &directory, more));
        Self { directory, running }
    }

    /// Open vSwitch that connects to its controller at `HOST:PORT`.
    pub(crate) fn calling(lab: &Lab, controller: &str) -> Self {
        Self::open_vswitch(lab, Some(controller))
    }

    fn open_vswitch(lab: &Lab, controller: Option<&str>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let ports: Vec<_> = (1..=PORTS).map(|port| (port, format!("port{port}"))).collect();
        let started = OpenVSwitch::start(&lab.testbed, NODE, directory.path(), &ports, controller);
        Self { directory, running: Running::OpenFlow(started.unwrap()) }
    }

    /// The address of the cross-connect.
    pub(crate) fn address(&self) -> String {
        match &self.running {
            Running::Emulated(_) => emulated_address(&self.directory),
            Running::OpenFlow(device) => format!("openflow:unix:{}", device.socket().display()),
        }
    }

    pub(crate) fn driver(&self) -> Box<dyn CrossConnect> {
        tributary_optical::crossconnect::connect(&self.address(), LIMIT, None).unwrap()
    }

    /// The process that forwards frames.
    fn process(&self) -> &Process {
        match &self.running {
            Running::Emulated(process) => process,
            Running::OpenFlow(device) => device.processes()[1],
        }
    }

    /// Kills the process that forwards frames.
    pub(crate) fn kill(&self) {
        self.process().kill().unwrap();
    }

    /// Starts it again.
    pub(crate) fn restart(&mut self, lab: &Lab) {
        match &mut self.running {
            Running::Emulated(process) => *process = start_emulated(lab, &self.directory, OUTAGE),
            Running::OpenFlow(device) => device.restart(&lab.testbed).unwrap(),
        }
    }

    /// Stops the process that forwards frames, which does not answer then, until it is continued.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.process().id().cast_signed()), signal).unwrap();
    }

    /// Adds a flow as another controller would.
    pub(crate) fn add_flow(&self, flow: &str) {
        let bridge = format!("unix:{}", self.directory.path().join("oxc.mgmt").display());
        let mut command = Command::new("ovs-ofctl");
        let output =
            command.args(["-O", "OpenFlow13", "add-flow", &bridge, flow]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {errors}");
    }
}

fn emulated_address(directory: &TempDir) -> String {
    format!("emulated:unix:{}", directory.path().join("oxc.control").display())
}

fn start_emulated(lab: &Lab, directory: &TempDir, more: &[&str]) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
    let address = emulated_address(directory);
    let listen = address.strip_prefix("emulated:").unwrap();
    command.args(["crossconnect", "--listen", listen]).args(more);
    for port in 1..=PORTS {
        command.args(["--port", &format!("{port}@port{port}")]);
    }
    let process = lab.testbed.spawn(NODE, command, Output::Keep).unwrap();
    let deadline = Instant::now() + START;
    while !process.output(Stream::Out).contains("5 ports at unix:") {
        assert!(Instant::now() < deadline, "the emulated cross-connect does not listen");
        std::thread::sleep(Duration::from_millis(5));
    }
    process
}
