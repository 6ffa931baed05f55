//! A network in network namespaces of this machine, in real time.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tributary_base::program::{self, stop_flag};
use tributary_base::programs;
use tributary_run::fabric::Scratch;
use tributary_run::report::table;
use tributary_run::testbed::{
    self, LinkEnd, Output, Privilege, Process, Stream, Testbed, Topology,
    enter_user_namespace_if_needed,
};
use tributary_switch::stf::End;

use super::file::{Host, Net, SwitchNode};
use super::virtual_time;

/// Time limit for a switch to start.
const START: Duration = Duration::from_secs(60);
/// Interval of looking at processes.
const LOOK: Duration = Duration::from_millis(50);
/// The last words of the line that a switch prints when its ports work.
const READY: &str = "end with Ctrl-C";

/// A command in a node: `NODE:COMMAND`.
#[derive(Clone, Debug)]
pub(super) struct Exec {
    node: String,
    command: String,
}

impl FromStr for Exec {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (node, command) = text.split_once(':').unwrap_or_default();
        if node.is_empty() || command.trim().is_empty() {
            return Err("write NODE:COMMAND, such as 'h1:ping -c 3 10.0.0.2'");
        }
        Ok(Self { node: node.to_owned(), command: command.to_owned() })
    }
}

/// Builds a network and runs the commands in it; without any, until Ctrl-C or SIGTERM.
///
/// # Errors
/// One line that describes the problem.
pub(super) fn run(file: &Path, commands: &[Exec]) -> Result<ExitCode> {
    let privilege = enter_user_namespace_if_needed()?;
    let stop = stop_flag()?;
    let net = Net::load(file)?;
    for exec in commands {
        let mut nodes = net.hosts.iter().map(|host| &host.name);
        let known = nodes.any(|name| *name == exec.node)
            || net.switches.iter().any(|switch| switch.name == exec.node);
        ensure!(known, "--exec: there is no host or switch `{}` in {}", exec.node, file.display());
    }
    // Errors of programs and entries have positions here, and come before anything is made.
    virtual_time::build(&net)?;
    let running = Running::start(&net, &stop)?;
    if commands.is_empty() {
        program::print(&running.describe(&net, privilege)?)?;
        program::ready();
        while !stop.load(Ordering::Relaxed) {
            running.check()?;
            std::thread::sleep(LOOK);
        }
    }
    for exec in commands {
        if let Some(status) = running.execute(exec, &stop)? {
            return Ok(status);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A network that runs. Dropping it ends its processes and removes everything.
struct Running {
    switches: Vec<Process>,
    testbed: Testbed,
    sockets: Scratch,
}

impl Running {
    fn start(net: &Net, stop: &AtomicBool) -> Result<Self> {
        let testbed = Testbed::build(&topology(net))?;
        for host in &net.hosts {
            if let Some(gateway) = host.gateway {
                testbed.add_gateway(&host.name, gateway)?;
            }
        }
        let sockets = tributary_base::socket_parent().and_then(|parent| Scratch::new(&parent));
        let sockets = sockets.context("cannot make a directory for sockets")?;
        let mut running = Self { switches: Vec::new(), testbed, sockets };
        let program = programs::path("tributary")?;
        for (number, switch) in net.switches.iter().enumerate() {
            let command = running.command(&program, net, number, switch);
            let process = running.testbed.spawn(&switch.name, command, told(&switch.name))?;
            running.switches.push(process);
        }
        running.wait_until_ready(stop)?;
        Ok(running)
    }

    /// The command line of a switch.
    fn command(&self, program: &Path, net: &Net, number: usize, switch: &SwitchNode) -> Command {
        let mut command = Command::new(program);
        // Joined to their options, since values of the file may begin with `-`.
        let joined = |option: &str, value: &OsStr| {
            let mut argument = OsString::from(option);
            argument.push(value);
            argument
        };
        command.arg("switch").arg(joined("--name=", switch.name.as_ref()));
        command.args(switch.defines.iter().map(|define| joined("-D", define.as_ref())));
        command.args(switch.include.iter().map(|dir| joined("-I", dir.as_ref())));
        for port in net.ports(number).into_keys() {
            command.arg("--port").arg(format!("{port}@port{port}"));
        }
        if let Some(entries) = &switch.entries {
            command.arg(joined("--entries=", entries.as_ref()));
        }
        command.arg("--p4runtime").arg(self.address(switch)).arg("--").arg(&switch.p4);
        command
    }

    fn address(&self, switch: &SwitchNode) -> String {
        format!("unix:{}", self.socket(switch).display())
    }

    fn socket(&self, switch: &SwitchNode) -> PathBuf {
        self.sockets.path().join(format!("{}.sock", switch.name))
    }

    fn wait_until_ready(&self, stop: &AtomicBool) -> Result<()> {
        for switch in &self.switches {
            let deadline = Instant::now() + START;
            while !switch.output(Stream::Out).contains(READY) {
                self.check()?;
                ensure!(!stop.load(Ordering::Relaxed), "interrupted while the switches started");
                let late = Instant::now() > deadline;
                ensure!(!late, "switch {} has not started after {START:?}", switch.node());
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        Ok(())
    }

    /// Fails if a switch has ended.
    fn check(&self) -> Result<()> {
        for switch in &self.switches {
            if let Some(status) = switch.wait(Some(Duration::ZERO))? {
                let errors = switch.output(Stream::Err);
                let last = errors.lines().last().map_or(String::new(), |line| {
                    format!(": {}", line.strip_prefix("error: ").unwrap_or(line))
                });
                bail!("switch {} ended with {status}{last}", switch.node());
            }
        }
        Ok(())
    }

    /// Runs a command in a node. Returns a status if it fails, or if this process is to end.
    fn execute(&self, exec: &Exec, stop: &AtomicBool) -> Result<Option<ExitCode>> {
        let mut shell = Command::new("sh");
        shell.args(["-c", &exec.command]);
        let process = self.testbed.spawn(&exec.node, shell, Output::Inherit)?;
        loop {
            if let Some(status) = process.wait(Some(LOOK))? {
                return Ok((!status.success()).then(|| exit_code(status)));
            }
            self.check()?;
            if stop.load(Ordering::Relaxed) {
                return Ok(Some(ExitCode::FAILURE));
            }
        }
    }

    /// The nodes, their interfaces, and how to run a command in each.
    fn describe(&self, net: &Net, privilege: Privilege) -> Result<String> {
        let mut nodes = table(&["node", "interfaces", "P4Runtime"]);
        let mut enter = String::new();
        for (number, switch) in net.switches.iter().enumerate() {
            let port = |(port, far)| format!("port{port} to {}", net.end(far));
            let ports: Vec<String> = net.ports(number).into_iter().map(port).collect();
            nodes.add_row([switch.name.clone(), ports.join("\n"), self.address(switch)]);
            enter += &self.entry(&switch.name, privilege)?;
        }
        for host in &net.hosts {
            nodes.add_row([host.name.clone(), interface(host), String::new()]);
            enter += &self.entry(&host.name, privilege)?;
        }
        Ok(format!("{nodes}\nA command in a node:\n{enter}{READY}"))
    }

    /// How to run a command in a node.
    fn entry(&self, node: &str, privilege: Privilege) -> Result<String> {
        let path = self.testbed.namespace_path(node)?;
        let user = match privilege {
            Privilege::Own => String::new(),
            Privilege::UserNamespace => {
                format!("--preserve-credentials --user=/proc/{}/ns/user ", std::process::id())
            }
        };
        Ok(format!("  {node}: nsenter {user}--net={} COMMAND\n", path.display()))
    }
}

/// Passes on what a switch logs. Its last error becomes this process's.
fn told(name: &str) -> Output {
    let name = name.to_owned();
    Output::Lines(Arc::new(move |stream, line| {
        if stream == Stream::Err && !line.starts_with("error: ") {
            // A reader that has gone must not end the network.
            writeln!(std::io::stderr(), "{name}: {line}").ok();
        }
    }))
}

fn interface(host: &Host) -> String {
    let mac: Vec<String> = host.mac.iter().map(|byte| format!("{byte:02x}")).collect();
    let ip = host.ip.map_or_else(String::new, |(ip, prefix)| format!(" {ip}/{prefix}"));
    format!("eth0 {}{ip}", mac.join(":"))
}

/// The status that a shell gives: of a command that a signal ended, 128 and the signal's number.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    let code = code.and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}

/// The network as the testbed knows it.
fn topology(net: &Net) -> Topology {
    let end = |end| match end {
        End::Host(host) => LinkEnd::new(&net.hosts[usize::from(host)].name, 0),
        End::Switch(switch, port) => LinkEnd::new(&net.switches[switch].name, port),
    };
    let host = |host: &Host| {
        let (ip, prefix) = host.ip.unwrap_or(testbed::Host::NO_ADDRESS);
        testbed::Host { name: host.name.clone(), mac: host.mac, ip, prefix }
    };
    let link = |link: &super::file::Link| {
        let [a, b] = link.ends.map(end);
        testbed::Link { a, b, mtu: u32::from(link.mtu) }
    };
    let switch = |switch: &SwitchNode| testbed::SwitchNode { name: switch.name.clone() };
    Topology {
        hosts: net.hosts.iter().map(host).collect(),
        switches: net.switches.iter().map(switch).collect(),
        links: net.links.iter().map(link).collect(),
    }
}
