//! The cross-connects under test, as processes in a lab.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tributary_optical::crossconnect::CrossConnect;
use tributary_run::testbed::{Output as Kept, Process, Stream};

use crate::lab::{Lab, NODE, PORTS};

/// Time limit of drivers.
pub(crate) const LIMIT: Duration = Duration::from_secs(2);

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
    kind: Kind,
    directory: TempDir,
    /// The process that forwards frames, last.
    processes: Vec<Process>,
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
        let mut device =
            Self { kind, directory: tempfile::tempdir().unwrap(), processes: Vec::new() };
        match kind {
            Kind::Emulated => device.start_emulated(lab, &["--outage", "100ms"]),
            Kind::OpenFlow => device.create_bridge(lab, &format!("punix:{}", device.socket())),
        }
        device
    }

    /// An emulated one with more arguments.
    pub(crate) fn emulated(lab: &Lab, more: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut device = Self { kind: Kind::Emulated, directory, processes: Vec::new() };
        device.start_emulated(lab, more);
        device
    }

    /// Open vSwitch that connects to its controller at `HOST:PORT`.
    pub(crate) fn calling(lab: &Lab, controller: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut device = Self { kind: Kind::OpenFlow, directory, processes: Vec::new() };
        device.create_bridge(lab, &format!("tcp:{controller}"));
        device
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn socket(&self) -> String {
        // Open vSwitch accepts only names that begin with that of the bridge.
        self.path("oxc.control").display().to_string()
    }

    /// The address of the cross-connect.
    pub(crate) fn address(&self) -> String {
        match self.kind {
            Kind::Emulated => format!("emulated:unix:{}", self.socket()),
            Kind::OpenFlow => format!("openflow:unix:{}", self.socket()),
        }
    }

    pub(crate) fn driver(&self) -> Box<dyn CrossConnect> {
        tributary_optical::crossconnect::connect(&self.address(), LIMIT, None).unwrap()
    }

    /// Kills the process that forwards frames.
    pub(crate) fn kill(&mut self) {
        self.processes.pop().expect("it runs").kill().unwrap();
    }

    /// Starts it again.
    pub(crate) fn restart(&mut self, lab: &Lab) {
        match self.kind {
            Kind::Emulated => self.start_emulated(lab, &["--outage", "100ms"]),
            Kind::OpenFlow => self.start_switch(lab),
        }
    }

    /// Stops the process that forwards frames, which does not answer then, until it is continued.
    pub(crate) fn signal(&self, signal: Signal) {
        let id = self.processes.last().expect("it runs").id();
        kill(Pid::from_raw(id.cast_signed()), signal).unwrap();
    }

    fn start_emulated(&mut self, lab: &Lab, more: &[&str]) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
        command.args(["crossconnect", "--listen", &format!("unix:{}", self.socket())]).args(more);
        for port in 1..=PORTS {
            command.args(["--port", &format!("{port}@port{port}")]);
        }
        let process = lab.testbed.spawn(NODE, command, Kept::Keep).unwrap();
        await_that("the emulated cross-connect does not listen", || {
            process.output(Stream::Out).contains("5 ports at unix:")
        });
        self.processes.push(process);
    }

    /// A program of Open vSwitch with its files in the directory.
    fn open_vswitch(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
            command.env(variable, self.directory.path());
        }
        command
    }

    fn unixctl(&self, name: &str) -> String {
        format!("--unixctl={}", self.path(name).display())
    }

    fn create_bridge(&mut self, lab: &Lab, controller: &str) {
        let database = self.path("conf.db");
        run(self.open_vswitch("ovsdb-tool").arg("create").arg(&database));
        let socket = self.path("db.sock");
        let mut server = self.open_vswitch("ovsdb-server");
        server.arg(database).arg(format!("--remote=punix:{}", socket.display()));
        server.arg(self.unixctl("ovsdb.ctl"));
        self.processes.push(lab.testbed.spawn(NODE, server, Kept::Keep).unwrap());
        await_file(&socket);
        self.start_switch(lab);
        let mut vsctl = self.open_vswitch("ovs-vsctl");
        vsctl.arg(format!("--db=unix:{}", socket.display())).arg("--timeout=20");
        vsctl.args(["add-br", "oxc", "--", "set", "bridge", "oxc"]);
        vsctl.args(["datapath_type=netdev", "fail_mode=secure", "protocols=OpenFlow13"]);
        vsctl.args(["--", "set-controller", "oxc", controller]);
        // Without this, it has flows of its own for the traffic of a controller behind its ports.
        vsctl.args(["--", "set", "controller", "oxc", "connection_mode=out-of-band"]);
        for port in 1..=PORTS {
            let (name, number) = (format!("port{port}"), format!("ofport_request={port}"));
            vsctl.args(["--", "add-port", "oxc", &name, "--", "set", "interface", &name, &number]);
        }
        run(&mut vsctl);
    }

    fn start_switch(&mut self, lab: &Lab) {
        let mut switch = self.open_vswitch("ovs-vswitchd");
        switch.arg(format!("unix:{}", self.path("db.sock").display()));
        // Without the kernel's datapath, which the tests must not touch.
        switch.args(["--disable-system", "--disable-system-route"]).arg(self.unixctl("switch.ctl"));
        self.processes.push(lab.testbed.spawn(NODE, switch, Kept::Keep).unwrap());
    }

    /// Adds a flow as another controller would.
    pub(crate) fn add_flow(&self, flow: &str) {
        let bridge = format!("unix:{}", self.path("oxc.mgmt").display());
        let mut command = self.open_vswitch("ovs-ofctl");
        run(command.args(["-O", "OpenFlow13", "add-flow", &bridge, flow]));
    }
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    output
}

fn await_file(path: &Path) {
    await_that(&format!("{} does not appear", path.display()), || path.exists());
}

pub(crate) fn await_that(complaint: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + START;
    while !done() {
        assert!(Instant::now() < deadline, "{complaint}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
