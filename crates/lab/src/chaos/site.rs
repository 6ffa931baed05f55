//! The network in namespaces, and the command line of each of its parts.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tributary_model::{Duty, End, JobSpec, OnDeath, Scenario, SwitchId, Workload};
use tributary_netio::device::Kind as Io;
use tributary_run::fabric::CROSS_CONNECT;
use tributary_run::testbed::{LinkEnd, Testbed};

use crate::chaos::Options;
use crate::chaos::schedule::Kind;

/// A part that is a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Role {
    pub(crate) kind: Kind,
    /// Its name, for people.
    pub(crate) name: String,
    /// The node in which it runs.
    pub(crate) node: String,
    task: Task,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Task {
    Switch(SwitchId),
    Controller,
    CrossConnect,
    Server,
    Agent,
    Worker { crew: usize, index: usize },
}

/// The network, and where its parts find each other.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) testbed: Testbed,
    pub(crate) scenario: Scenario,
    /// The switch's end of each link.
    pub(crate) links: Vec<(String, String)>,
    topology: tributary_run::testbed::Topology,
    job_file: PathBuf,
    program: PathBuf,
    seed: u64,
    /// Whether clients decide about the jobs.
    clients: bool,
    /// Sockets, and the controller's journal.
    directory: TempDir,
}

/// Reads the job file.
///
/// # Errors
/// If it is invalid, or its jobs cannot be disturbed.
pub(crate) fn scenario(options: &Options) -> Result<Scenario> {
    let scenario = tributary_model::jobfile::load_with_seed(&options.job_file, Some(options.seed))?;
    if scenario.orchestration.is_some() && !scenario.network.protocol.can_move() {
        bail!("the control loop of a cross-connect has jobs of p4inc; set protocol = \"p4inc\"");
    }
    for (_, job) in scenario.whole_jobs() {
        if !matches!(job.workload, Workload::Random(_)) {
            bail!(
                "job {}: each run needs values of its own, to show what an earlier run left behind; give it a \
                 workload of kind \"random\"",
                job.name
            );
        }
    }
    if let Some((_, job)) = scenario.whole_jobs().find(|(_, job)| job.on_death == OnDeath::Wait) {
        bail!(
            "job {}: a worker that dies comes back with the next run, and on_death = \"wait\" waits for it in this one; \
             set on_death = \"continue\"",
            job.name
        );
    }
    tributary_run::fabric::one_process_per_host(&scenario)?;
    Ok(scenario)
}

impl Site {
    pub(crate) fn build(options: &Options, scenario: Scenario) -> Result<Self> {
        let job_file = options.job_file.canonicalize().context("cannot find the job file")?;
        let topology = tributary_run::fabric::testbed_topology(&scenario.network.topology);
        let testbed = Testbed::build_for(Io::Packet, &topology)?;
        let links = scenario.network.topology.links.iter().filter_map(|link| {
            // An endpoint's process would end with an error if its own interface were taken down.
            let end = link.ends.iter().rev().find_map(|end| match *end {
                End::Switch(switch, port) => Some((switch, port)),
                End::Host(_) => None,
            });
            let (switch, port) = end?;
            let node = scenario.network.topology.switch(switch).name.clone();
            let interface = topology.interface(&LinkEnd::new(&node, port));
            Some((node, interface))
        });
        let links = links.collect();
        let directory = tributary_base::socket_parent().and_then(|parent| {
            tempfile::Builder::new().prefix("tributary-chaos-").tempdir_in(parent)
        });
        let directory = directory.context("cannot make a directory for sockets")?;
        let program = tributary_base::programs::path("tributary")?;
        let Options { seed, clients, .. } = *options;
        Ok(Self { testbed, scenario, links, topology, job_file, program, seed, clients, directory })
    }

    /// Where the controller serves.
    pub(crate) fn controller_at(&self) -> String {
        self.socket("runs")
    }

    /// All processes, in the order in which they are started.
    pub(crate) fn roles(&self) -> Vec<Role> {
        let topology = &self.scenario.network.topology;
        let role =
            |kind, name: String, node: &str, task| Role { kind, name, node: node.into(), task };
        let switches = topology.switch_ids().map(|id| {
            let name = &topology.switch(id).name;
            role(Kind::Switch, format!("switch {name}"), name, Task::Switch(id))
        });
        let mut roles: Vec<Role> = switches.collect();
        let first = roles[0].node.clone();
        if topology.optical.is_some() {
            let name = "the cross-connect".into();
            roles.push(role(Kind::CrossConnect, name, CROSS_CONNECT, Task::CrossConnect));
        }
        roles.push(role(Kind::Controller, "the controller".into(), &first, Task::Controller));
        for host in topology.host_ids() {
            let name = &topology.host(host).name;
            let has = |wanted| self.scenario.duties(host).any(|(_, duty)| duty == wanted);
            if has(Duty::ReminderAgent) {
                roles.push(role(Kind::Agent, format!("agent {name}"), name, Task::Agent));
            }
            if has(Duty::ParameterServer) {
                roles.push(role(Kind::Server, format!("server {name}"), name, Task::Server));
            }
        }
        for (crew, job) in self.jobs().enumerate() {
            for (index, &host) in job.workers.iter().enumerate() {
                let name = format!("worker {index} of job {}", job.name);
                let node = &topology.host(host).name;
                roles.push(role(Kind::Worker, name, node, Task::Worker { crew, index }));
            }
        }
        roles
    }

    /// The jobs, each with all of its lanes.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = &JobSpec> {
        self.scenario.whole_jobs().map(|(_, job)| job)
    }

    /// The command line of a part. Workers have the values of this run.
    pub(crate) fn command(&self, role: &Role, run: u64) -> Command {
        let mut command = Command::new(&self.program);
        match role.task {
            Task::Switch(id) => self.switch(id, &mut command),
            Task::Controller => {
                self.controller(&mut command);
                command.arg("--listen").arg(self.socket("runs"));
                command.arg("--journal").arg(self.path("journal.redb"));
                if self.clients && self.scenario.orchestration.is_none() {
                    command.arg("--on-demand");
                }
            }
            Task::CrossConnect => self.cross_connect(&mut command),
            Task::Server | Task::Agent => {
                let name = if role.task == Task::Agent { "reminder" } else { "ps" };
                self.endpoint(name, &mut command);
                command.args(["--host", &role.node]);
            }
            Task::Worker { crew, index } => {
                self.endpoint("worker", &mut command);
                let job = self.jobs().nth(crew).expect("a job of the file");
                command.args(["--job", &job.name, "--worker", &index.to_string()]);
                // No two jobs or runs have the same values.
                let runs = (run << 10 | crew as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                command.args(["--seed", &self.seed.wrapping_add(runs).to_string()]);
            }
        }
        command
    }

    /// A controller that knows of no jobs, and so removes all that an earlier one has left behind.
    pub(crate) fn cleaner(&self) -> Command {
        let mut command = Command::new(&self.program);
        self.controller(&mut command);
        if self.scenario.orchestration.is_some() {
            command.arg("--listen").arg(self.socket("cleaner"));
            command.arg("--journal").arg(self.path("cleaner.redb"));
        }
        command
    }

    fn controller(&self, command: &mut Command) {
        if self.scenario.orchestration.is_some() {
            command.args(["optical", "serve"]).arg(&self.job_file);
            command.args(["--cross-connect", &format!("emulated:{}", self.socket("crossconnect"))]);
        } else {
            command.arg("controller").arg(&self.job_file);
        }
        for id in self.scenario.network.topology.switch_ids() {
            let name = &self.scenario.network.topology.switch(id).name;
            command.args(["--switch", &format!("{name}={}", self.socket(&switch_socket(id)))]);
        }
    }

    fn switch(&self, id: SwitchId, command: &mut Command) {
        let scenario = &self.scenario;
        let name = &scenario.network.topology.switch(id).name;
        command.arg("switch");
        for port in scenario.network.topology.port_numbers(id) {
            let interface = self.topology.interface(&LinkEnd::new(name, port));
            command.arg("--port").arg(format!("{port}@{interface}"));
        }
        command.args(["--p4runtime", &self.socket(&switch_socket(id))]);
        command.args(["--queue-capacity", &scenario.network.switch.queue_capacity.to_string()]);
        command.args(["--seed", &self.seed.to_string()]);
        let mut faults = self.job_file.clone().into_os_string();
        faults.push(format!(":{name}"));
        command.arg("--faults").arg(faults);
    }

    fn cross_connect(&self, command: &mut Command) {
        let topology = &self.scenario.network.topology;
        command.arg("crossconnect").args(["--listen", &self.socket("crossconnect")]);
        for port in 1..=topology.cross_connect_ports() {
            let interface = self.topology.interface(&LinkEnd::new(CROSS_CONNECT, port));
            command.arg("--port").arg(format!("{port}@{interface}"));
        }
        let outage = topology.optical.as_ref().map_or(Duration::ZERO, |optical| optical.outage);
        command.args(["--outage", &format!("{}us", outage.as_micros())]);
    }

    fn endpoint(&self, name: &str, command: &mut Command) {
        command.arg(name).args(["--interface", "eth0", "--json-events"]);
        command.arg("--controller").arg(self.socket("runs"));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn socket(&self, name: &str) -> String {
        let path: &Path = &self.path(&format!("{name}.sock"));
        format!("unix:{}", path.display())
    }
}

impl Role {
    /// The job and the index of a worker.
    pub(crate) fn worker(&self) -> Option<(usize, usize)> {
        match self.task {
            Task::Worker { crew, index } => Some((crew, index)),
            _ => None,
        }
    }
}

fn switch_socket(id: SwitchId) -> String {
    format!("switch{}", id.0)
}
