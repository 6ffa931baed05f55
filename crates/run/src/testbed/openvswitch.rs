//! Open vSwitch inside a node, in user space: its processes belong to the testbed, and its files are in one
//! directory. It uses neither the kernel's datapath nor an Open vSwitch that runs outside.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tributary_base::programs;

use super::{Output, Process, Stream, Testbed};

/// The programs that it needs, all of Debian's `openvswitch-switch`.
const PROGRAMS: [&str; 4] = ["ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl"];

/// With this, the datapath in user space makes an interface for the bridge.
const TUNNELS: &str = "/dev/net/tun";

/// Name of the bridge.
const BRIDGE: &str = "oxc";

/// Only errors: the last line is part of the report of an unexpected end.
const QUIET: &str = "--verbose=console:err";

/// Time limit for each step of the start.
const START: Duration = Duration::from_secs(20);

/// Why Open vSwitch cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenVSwitchError {
    /// A program is missing.
    #[error("{0} is not on the PATH; install Open vSwitch (docs/operate/cross-connects.md)")]
    Missing(&'static str),
    /// The kernel does not let it make an interface.
    #[error("Open vSwitch in user space needs {TUNNELS}: {0}")]
    Tunnels(std::io::Error),
    /// A program failed.
    #[error("{0}")]
    Failed(String),
    /// An error of the testbed.
    #[error(transparent)]
    Testbed(#[from] super::Error),
}

/// A bridge of Open vSwitch that forwards by flows from OpenFlow 1.3, and only so.
#[derive(Debug)]
pub struct OpenVSwitch {
    node: String,
    directory: PathBuf,
    database: Process,
    switch: Process,
}

impl OpenVSwitch {
    /// Checks that this machine has what it needs.
    ///
    /// # Errors
    /// One line that names what is missing.
    pub fn check() -> Result<(), OpenVSwitchError> {
        PROGRAMS.into_iter().try_for_each(|program| find(program).map(drop))?;
        let tunnels = std::fs::File::options().read(true).write(true).open(TUNNELS);
        tunnels.map(drop).map_err(OpenVSwitchError::Tunnels)
    }

    /// Starts it in a node, with these ports and interfaces, and its files in this directory. It connects to a
    /// controller at HOST:PORT, or listens for one at [`socket`](Self::socket). Until it has flows, it drops all
    /// frames.
    ///
    /// # Errors
    /// One line that names the program that failed. The testbed ends the others.
    pub fn start(
        testbed: &Testbed,
        node: &str,
        directory: &Path,
        ports: &[(u16, String)],
        controller: Option<&str>,
    ) -> Result<Self, OpenVSwitchError> {
        let place = Place { testbed, node, directory };
        let file = directory.join("conf.db").display().to_string();
        succeeds(&place.spawn("ovsdb-tool", &["create".into(), file])?, &[])?;
        let (database, switch) = (place.start_database()?, place.start_switch()?);
        let bridge = bridge(directory, ports, controller);
        succeeds(&place.spawn("ovs-vsctl", &bridge)?, &[&database, &switch])?;
        let (node, directory) = (node.to_owned(), directory.to_owned());
        Ok(Self { node, directory, database, switch })
    }

    /// Where it listens for its controller. Its other sockets and files are in the same directory.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        control(&self.directory)
    }

    /// The database, and `ovs-vswitchd`, which forwards frames.
    #[must_use]
    pub fn processes(&self) -> [&Process; 2] {
        [&self.database, &self.switch]
    }

    /// Starts `ovs-vswitchd` again after it has ended. It has its ports then, and no flows.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn restart(&mut self, testbed: &Testbed) -> Result<(), OpenVSwitchError> {
        let place = Place { testbed, node: &self.node, directory: &self.directory };
        self.switch = place.start_switch()?;
        Ok(())
    }
}

/// Where its processes run, and where their files are.
struct Place<'a> {
    testbed: &'a Testbed,
    node: &'a str,
    directory: &'a Path,
}

impl Place<'_> {
    fn spawn(
        &self,
        program: &'static str,
        arguments: &[String],
    ) -> Result<Process, OpenVSwitchError> {
        let mut command = Command::new(find(program)?);
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
            command.env(variable, self.directory);
        }
        command.args(arguments);
        Ok(self.testbed.spawn(self.node, command, Output::Keep)?)
    }

    fn start_database(&self) -> Result<Process, OpenVSwitchError> {
        let socket = self.directory.join("db.sock");
        let arguments = [
            self.directory.join("conf.db").display().to_string(),
            format!("--remote=punix:{}", socket.display()),
            format!("--unixctl={}", self.directory.join("ovsdb.ctl").display()),
            QUIET.to_owned(),
        ];
        let process = self.spawn("ovsdb-server", &arguments)?;
        await_that(&process, "listen", &[&process], || socket.exists())?;
        Ok(process)
    }

    fn start_switch(&self) -> Result<Process, OpenVSwitchError> {
        let arguments = [
            format!("unix:{}", self.directory.join("db.sock").display()),
            // Without the kernel's datapath, which belongs to the whole machine.
            "--disable-system".to_owned(),
            "--disable-system-route".to_owned(),
            format!("--unixctl={}", self.directory.join("switch.ctl").display()),
            QUIET.to_owned(),
        ];
        self.spawn("ovs-vswitchd", &arguments)
    }
}

fn find(program: &'static str) -> Result<PathBuf, OpenVSwitchError> {
    programs::on_path(program).ok_or(OpenVSwitchError::Missing(program))
}

fn control(directory: &Path) -> PathBuf {
    // Open vSwitch accepts only names that begin with that of the bridge.
    directory.join(format!("{BRIDGE}.control"))
}

/// The arguments of `ovs-vsctl` that make the bridge.
fn bridge(directory: &Path, ports: &[(u16, String)], controller: Option<&str>) -> Vec<String> {
    let database = format!("--db=unix:{}", directory.join("db.sock").display());
    let limit = format!("--timeout={}", START.as_secs());
    let controller = match controller {
        Some(address) => format!("tcp:{address}"),
        None => format!("punix:{}", control(directory).display()),
    };
    let mut arguments = vec![database, limit];
    let mut add = |more: &[&str]| arguments.extend(more.iter().map(|&word| word.to_owned()));
    add(&["add-br", BRIDGE, "--", "set", "bridge", BRIDGE]);
    add(&["datapath_type=netdev", "fail_mode=secure", "protocols=OpenFlow13"]);
    add(&["--", "set-controller", BRIDGE, &controller]);
    // Without this, it has flows of its own for the traffic of a controller behind its ports.
    add(&["--", "set", "controller", BRIDGE, "connection_mode=out-of-band"]);
    for (port, interface) in ports {
        add(&["--", "add-port", BRIDGE, interface]);
        add(&["--", "set", "interface", interface, &format!("ofport_request={port}")]);
    }
    arguments
}

/// Waits until a tool has ended well, while these processes run.
fn succeeds(tool: &Process, meanwhile: &[&Process]) -> Result<(), OpenVSwitchError> {
    await_that(tool, "end", meanwhile, || has_ended(tool))?;
    match tool.wait(None) {
        Ok(Some(status)) if status.success() => Ok(()),
        _ => Err(failed(tool, "failed")),
    }
}

/// Waits until a process has done something, while these processes run.
fn await_that(
    process: &Process,
    what: &str,
    meanwhile: &[&Process],
    done: impl Fn() -> bool,
) -> Result<(), OpenVSwitchError> {
    let deadline = Instant::now() + START;
    while !done() {
        if let Some(ended) = meanwhile.iter().find(|process| has_ended(process)) {
            return Err(failed(ended, "ended"));
        }
        if Instant::now() > deadline {
            return Err(failed(process, &format!("does not {what} within {START:?}")));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn has_ended(process: &Process) -> bool {
    !matches!(process.wait(Some(Duration::ZERO)), Ok(None))
}

/// What a process did, with its last line.
fn failed(process: &Process, what: &str) -> OpenVSwitchError {
    let errors = process.output(Stream::Err);
    let said = errors.lines().last().map_or(String::new(), |line| format!(": {line}"));
    OpenVSwitchError::Failed(format!("{} {what}{said}", process.name()))
}
