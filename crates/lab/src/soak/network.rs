//! The network in namespaces, and the processes that run all the time.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tributary_run::testbed::{
    Host, Link, LinkEnd, Output, Process, Stream, SwitchNode, Testbed, Topology,
};

pub(crate) const SWITCHES: [&str; 2] = ["s1", "s2"];

/// The hosts of workers, by their index, and of the parameter server.
pub(crate) const WORKERS: [&str; 4] = ["a1", "a2", "b1", "b2"];
const SERVER: &str = "server";

/// The links, in the order of the switches' ports from 1.
const LINKS: [[&str; 2]; 6] =
    [["a1", "s1"], ["a2", "s1"], ["server", "s1"], ["b1", "s2"], ["b2", "s2"], ["s1", "s2"]];

/// Iterations of each job, with one tensor each.
pub(crate) const ITERATIONS: u64 = 3;

/// Values of a tensor.
pub(crate) const ELEMENTS: u64 = 20_000;

/// Time limit of each step.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A running network. Its processes end with it.
pub(crate) struct RunningNetwork {
    processes: Vec<(&'static str, Process)>,
    testbed: Testbed,
    directory: tempfile::TempDir,
    program: PathBuf,
}

impl Drop for RunningNetwork {
    fn drop(&mut self) {
        self.testbed.end_processes(Duration::from_secs(5));
    }
}

impl RunningNetwork {
    /// Builds the network, and starts switches, controller and parameter server.
    pub(crate) fn start() -> Result<Self> {
        let host = |(number, name): (u8, &str)| Host {
            name: name.into(),
            mac: [2, 0, 0, 0, 0, number],
            ip: Ipv4Addr::new(10, 9, 1, number),
            prefix: 8,
        };
        let testbed = Testbed::build(&Topology {
            hosts: hosts().map(host).collect(),
            switches: SWITCHES.map(|name| SwitchNode { name: name.into() }).into(),
            links: links(),
        })?;
        let directory = tributary_base::socket_parent().and_then(tempfile::tempdir_in);
        let directory = directory.context("cannot create a temporary directory")?;
        let program = tributary_base::programs::path("tributary")?;
        let mut network = Self { processes: Vec::new(), testbed, directory, program };
        let file = network.path("job.toml");
        std::fs::write(&file, job_file()).with_context(|| format!("cannot write {file}"))?;
        for (switch, ports) in SWITCHES.into_iter().zip([4, 3]) {
            let ports = (1..=ports).flat_map(|n| ["--port".to_owned(), format!("{n}@port{n}")]);
            let args = ["switch".to_owned(), "--p4runtime".into(), network.socket(switch)];
            network.add(
                switch,
                switch,
                args.into_iter().chain(ports).collect(),
                "end with Ctrl-C",
            )?;
        }
        let address = network.socket("controller");
        let switches = SWITCHES.iter().flat_map(|switch| {
            ["--switch".to_owned(), format!("{switch}={}", network.socket(switch))]
        });
        let args = ["controller", &file, "--listen", &address, "--on-demand"].map(str::to_owned);
        let args = args.into_iter().chain(switches).collect();
        network.add("controller", "s1", args, "end with Ctrl-C")?;
        let args = ["ps", "--host", SERVER, "--interface", "eth0", "--controller", &address];
        network.add(
            "ps",
            SERVER,
            args.map(str::to_owned).into(),
            "no job has its parameter server",
        )?;
        Ok(network)
    }

    /// Starts one of the processes that stay, and waits until it says that it serves.
    fn add(
        &mut self,
        name: &'static str,
        node: &str,
        args: Vec<String>,
        ready: &str,
    ) -> Result<()> {
        let process = self.spawn(node, &args)?;
        let deadline = Instant::now() + PATIENCE;
        while !process.output(Stream::Out).contains(ready) {
            let ended = process.wait(Some(Duration::from_millis(20)))?.is_some();
            if ended || Instant::now() > deadline {
                bail!("the {name} does not start: {}", process.output(Stream::Err).trim());
            }
        }
        self.processes.push((name, process));
        Ok(())
    }

    fn spawn(&self, node: &str, args: &[String]) -> Result<Process> {
        let mut command = Command::new(&self.program);
        command.args(args).current_dir(self.directory.path());
        Ok(self.testbed.spawn(node, command, Output::Keep)?)
    }

    /// Starts the workers of a job.
    pub(crate) fn workers(&self) -> Result<Vec<Process>> {
        let address = self.socket("controller");
        let worker = |(index, host): (usize, &&str)| {
            let index = index.to_string();
            let which = ["worker", "--job", "job1", "--worker", &index];
            let place = ["--interface", "eth0", "--controller", &address];
            let args = [&which[..], &place[..]].concat();
            self.spawn(host, &args.into_iter().map(str::to_owned).collect::<Vec<_>>())
        };
        WORKERS.iter().enumerate().map(worker).collect()
    }

    /// The processes that stay.
    pub(crate) fn processes(&self) -> impl Iterator<Item = (&str, &Process)> {
        self.processes.iter().map(|(name, process)| (*name, process))
    }

    /// None of the processes that stay has ended, or said that something is wrong.
    pub(crate) fn check(&self) -> Result<()> {
        for (name, process) in self.processes() {
            if process.wait(Some(Duration::ZERO))?.is_some() {
                bail!("the {name} has ended: {}", process.output(Stream::Err).trim());
            }
        }
        Ok(())
    }

    /// The address of a process that listens at a socket of this name.
    pub(crate) fn socket(&self, name: &str) -> String {
        format!("unix:{}", self.path(&format!("{name}.sock")))
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }
}

/// All hosts with their numbers.
fn hosts() -> impl Iterator<Item = (u8, &'static str)> {
    (1..).zip(WORKERS.into_iter().chain([SERVER]))
}

fn links() -> Vec<Link> {
    let mut used = [0; 2];
    let mut end = |name: &str| {
        let switch = SWITCHES.iter().position(|switch| *switch == name);
        let port = switch.map_or(0, |switch| {
            used[switch] += 1;
            used[switch]
        });
        LinkEnd::new(name, port)
    };
    LINKS.map(|[a, b]| Link { a: end(a), b: end(b), mtu: 1500 }).into()
}

/// The network and its job in the words of a job file.
fn job_file() -> String {
    let switches = SWITCHES.map(|name| format!("[[topology.switch]]\nname = \"{name}\"\n"));
    let host = |(number, name): (u8, &str)| {
        let role = if name == SERVER { "role = \"ps\"\n" } else { "" };
        format!(
            "[[topology.host]]\nname = \"{name}\"\n{role}mac = \"02:00:00:00:00:{number:02}\"\n\
             ip = \"10.9.1.{number}\"\n"
        )
    };
    let links = LINKS.map(|ends| format!("[[topology.link]]\nbetween = {ends:?}\n"));
    format!(
        "protocol = \"p4inc\"\nworker_timeout = \"20s\"\n[switch]\npool = 512\n\
         [[job]]\nworkers = {WORKERS:?}\nslots = 64\nwindow = 32\n\
         workload = {{ kind = \"random\", tensors = {ITERATIONS}, elements = {ELEMENTS} }}\n{}{}{}",
        switches.concat(),
        hosts().map(host).collect::<String>(),
        links.concat(),
    )
}
