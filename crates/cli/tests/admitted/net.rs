//! The network, its processes, and a client of the controller.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tributary_access::Remote;
use tributary_api::jobs::v1;
use tributary_api::jobs::v1::jobs_client::JobsClient;
use tributary_run::testbed::{
    Host, Link, LinkEnd, Output, Process, Stream, SwitchNode, Testbed, Topology,
};
use tributary_wire::JobId;

use crate::rank;

/// Time limit of each wait.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) const RANKS: u8 = 3;
const HOSTS: [(&str, u8); 4] = [("w1", 1), ("w2", 2), ("w3", 3), ("control", 9)];

/// Where the controller listens, on its host.
pub(crate) const ADDRESS: &str = "10.9.1.9:29813";

/// The switches of hosts, and the link between two switches, which comes last.
struct Shape {
    of_hosts: [&'static str; HOSTS.len()],
    between: Option<[&'static str; 2]>,
}

const STAR: Shape = Shape { of_hosts: ["s1"; HOSTS.len()], between: None };
const RACKS: Shape = Shape { of_hosts: ["s1", "s1", "s2", "s2"], between: Some(["s1", "s2"]) };

impl Shape {
    fn switches(&self) -> Vec<&'static str> {
        let mut switches = self.of_hosts.to_vec();
        switches.dedup();
        switches
    }

    /// The ends of each link.
    fn links(&self) -> impl Iterator<Item = [&'static str; 2]> {
        let hosts = HOSTS.iter().zip(self.of_hosts).map(|((name, _), switch)| [*name, switch]);
        hosts.chain(self.between)
    }

    /// The number of the port that each end of a switch gets: in the order of the links.
    fn ports(&self) -> BTreeMap<&'static str, Vec<u16>> {
        let mut ports: BTreeMap<_, Vec<u16>> = BTreeMap::new();
        for switch in self.links().flatten().filter(|end| self.of_hosts.contains(end)) {
            let of = ports.entry(switch).or_default();
            of.push(of.len() as u16 + 1);
        }
        ports
    }
}

/// A network with running switches.
pub(crate) struct Net {
    directory: tempfile::TempDir,
    testbed: Testbed,
    groups: Cell<u32>,
    shape: Shape,
    _switches: Vec<Process>,
}

/// A rank on each of the first hosts.
pub(crate) struct Group {
    pub(crate) ranks: Vec<Process>,
    pub(crate) directory: PathBuf,
}

impl Net {
    pub(crate) fn new(protocol: &str) -> Self {
        Self::of(protocol, STAR)
    }

    /// Two switches, with two hosts each.
    pub(crate) fn racks(protocol: &str) -> Self {
        Self::of(protocol, RACKS)
    }

    fn of(protocol: &str, shape: Shape) -> Self {
        let host = |&(name, number): &(&str, u8)| Host {
            name: name.into(),
            mac: [2, 0, 0, 0, 0, number],
            ip: Ipv4Addr::new(10, 9, 1, number),
            prefix: 24,
        };
        let mut used: BTreeMap<&str, u16> = BTreeMap::new();
        let mut port = |end: &'static str| {
            let next = used.entry(end).or_default();
            *next += u16::from(shape.of_hosts.contains(&end));
            LinkEnd::new(end, *next)
        };
        let links = shape.links().map(|[a, b]| Link { a: port(a), b: port(b), mtu: 1500 });
        let switches = shape.switches();
        let testbed = Testbed::build(&Topology {
            hosts: HOSTS.iter().map(host).collect(),
            switches: switches.iter().map(|&name| SwitchNode { name: name.into() }).collect(),
            links: links.collect(),
        });
        let testbed = testbed.unwrap();
        // As an operator sets it up once: the number of the job does not matter.
        let switch = tributary_wire::Host::service(JobId::new(1).unwrap());
        for (name, _) in &HOSTS[..RANKS.into()] {
            testbed.add_neighbour(name, "eth0", switch.ip, switch.mac.0).unwrap();
        }
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("network.toml"), network(protocol, &shape)).unwrap();
        let start = |(switch, ports): (&str, Vec<u16>)| {
            let socket = directory.path().join(format!("{switch}.sock"));
            let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
            command.args(["switch", "--p4runtime", &format!("unix:{}", socket.display())]);
            for port in ports {
                command.args(["--port", &format!("{port}@port{port}")]);
            }
            let process = testbed.spawn(switch, command, Output::Keep).unwrap();
            until(&process, "end with Ctrl-C");
            process
        };
        let _switches = shape.ports().into_iter().map(start).collect();
        Self { directory, testbed, groups: Cell::new(0), shape, _switches }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// Starts the controller. When this returns, it serves clients.
    pub(crate) fn controller(&self, options: &[&str]) -> Process {
        self.serving_controller(
            &[&["--listen", ADDRESS, "--on-demand", "--allow-anyone"], options].concat(),
        )
    }

    /// The same with all options.
    pub(crate) fn serving_controller(&self, options: &[&str]) -> Process {
        let controller = self.failing_controller(options);
        until(&controller, "end with Ctrl-C");
        controller
    }

    /// Starts a controller, which may end at once.
    pub(crate) fn failing_controller(&self, options: &[&str]) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
        command.args(["controller", &self.path("network.toml")]);
        for switch in self.shape.switches() {
            let socket = self.path(&format!("{switch}.sock"));
            command.args(["--switch", &format!("{switch}=unix:{socket}")]);
        }
        command.args(options);
        self.testbed.spawn("control", command, Output::Keep).unwrap()
    }

    /// Starts a parameter server beside the controller, on which no rank is.
    pub(crate) fn server(&self) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
        command.args(["ps", "--controller", ADDRESS, "--interface", "eth0"]);
        let server = self.testbed.spawn("control", command, Output::Keep).unwrap();
        until(&server, "end with Ctrl-C");
        server
    }

    /// Admits a job for all ranks, as others do. Returns its ID.
    pub(crate) fn admit(&self, name: &str) -> u32 {
        let workers = HOSTS[..RANKS.into()].iter().map(|(name, _)| (*name).to_owned()).collect();
        let (name, settings) = (name.to_owned(), "[job]\n".to_owned());
        let request = v1::AdmitRequest { name, workers, settings, ..v1::AdmitRequest::default() };
        self.ask(async |client| client.admit(request).await.unwrap().into_inner().job_id)
    }

    /// Starts all ranks of a group. These variables replace those of the environment.
    pub(crate) fn group(&self, variables: &[(&str, &str)]) -> Group {
        let directory = self.group_directory();
        let ranks = (0..RANKS).map(|rank| self.rank(rank, &directory, variables));
        Group { ranks: ranks.collect(), directory }
    }

    /// Starts only the first rank of a group.
    pub(crate) fn first_rank(&self, variables: &[(&str, &str)]) -> Process {
        self.rank(0, &self.group_directory(), variables)
    }

    fn group_directory(&self) -> PathBuf {
        self.groups.set(self.groups.get() + 1);
        let directory = self.directory.path().join(format!("group{}", self.groups.get()));
        std::fs::create_dir(&directory).unwrap();
        directory
    }

    fn rank(&self, rank: u8, directory: &Path, variables: &[(&str, &str)]) -> Process {
        let (host, _) = HOSTS[usize::from(rank)];
        let names: Vec<&str> = HOSTS[..RANKS.into()].iter().map(|(name, _)| *name).collect();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(rank::NUMBER, rank.to_string());
        command.env(rank::HOSTS, names.join(","));
        command.env(rank::DIRECTORY, directory);
        command.env("TRIBUTARY_CONTROLLER", format!("tributary://{ADDRESS}"));
        command.envs(variables.iter().copied());
        self.testbed.spawn(host, command, Output::Keep).unwrap()
    }

    /// Asks the controller, from the controller's host.
    fn ask<T: Send>(
        &self,
        ask: impl AsyncFnOnce(&mut JobsClient<tonic::transport::Channel>) -> T + Send,
    ) -> T {
        let work = || {
            let own = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            own.block_on(async {
                let endpoint = Remote::new(ADDRESS, None).unwrap().unwrap();
                let mut client = JobsClient::new(endpoint.connect().await.unwrap());
                ask(&mut client).await
            })
        };
        self.testbed.run_in("control", work).unwrap()
    }

    fn list(&self) -> v1::ListResponse {
        self.ask(async |client| client.list(v1::ListRequest {}).await.unwrap().into_inner())
    }

    /// IDs and names of the admitted jobs, and whether their leases are held.
    pub(crate) fn jobs(&self) -> Vec<(u32, String, Option<bool>)> {
        let jobs = self.list().jobs.into_iter();
        jobs.map(|job| (job.job_id, job.name, job.lease.map(|lease| lease.held))).collect()
    }

    pub(crate) fn until_jobs(&self, expected: &[(u32, String, Option<bool>)], limit: Duration) {
        let begin = Instant::now();
        while self.jobs() != expected {
            assert!(begin.elapsed() < limit, "{:?}", self.jobs());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Whether no job holds aggregators.
    pub(crate) fn is_free(&self) -> bool {
        let memory = self.list().memory;
        assert!(!memory.is_empty(), "jobs of this protocol have no aggregators of their own");
        memory.iter().all(|memory| memory.free == memory.aggregators)
    }

    pub(crate) fn release(&self, job_id: u32) {
        self.ask(async |client| client.release(v1::ReleaseRequest { job_id }).await.unwrap());
    }

    /// The files of a root, and of a certificate for the controller's address with its key.
    pub(crate) fn certificates(&self) -> [String; 3] {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["10.9.1.9".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &root).unwrap();
        [root.pem(), certificate.pem(), key.serialize_pem()]
    }

    /// A new directory with an identity: these files and their texts.
    pub(crate) fn identity(&self, name: &str, files: &[(&str, &str)]) -> String {
        let directory = self.path(name);
        std::fs::create_dir(&directory).unwrap();
        for (file, text) in files {
            std::fs::write(format!("{directory}/{file}"), text).unwrap();
        }
        directory
    }
}

/// The network in the words of a job file.
fn network(protocol: &str, shape: &Shape) -> String {
    let host = |(name, number): &(&str, u8)| {
        let role = if *name == "control" { "role = \"ps\"\n" } else { "" };
        format!(
            "[[topology.host]]\nname = \"{name}\"\n{role}mac = \"02:00:00:00:00:{number:02}\"\n\
             ip = \"10.9.1.{number}\"\n"
        )
    };
    let switch = |name: &str| format!("[[topology.switch]]\nname = \"{name}\"\n");
    let link = |[a, b]: [&str; 2]| format!("[[topology.link]]\nbetween = [\"{a}\", \"{b}\"]\n");
    let switches: String = shape.switches().into_iter().map(switch).collect();
    let hosts: String = HOSTS.iter().map(host).collect();
    let links: String = shape.links().map(link).collect();
    format!(
        "protocol = \"{protocol}\"\n[switch]\npool = 512\n{switches}{hosts}{links}[[job]]\nname = \"other\"\n"
    )
}

/// Kills a process, which has no time to do anything.
pub(crate) fn slay(process: &Process) {
    process.kill().unwrap();
}

/// Waits until a process has printed a text.
fn until(process: &Process, said: &str) {
    let deadline = Instant::now() + DEADLINE;
    while !process.output(Stream::Out).contains(said) {
        let status = process.wait(Some(Duration::from_millis(20))).unwrap();
        let errors = process.output(Stream::Err);
        assert!(status.is_none(), "it ended before it said `{said}`: {errors}");
        assert!(Instant::now() < deadline, "it never said `{said}`: {errors}");
    }
}

/// Ends a controller in order.
pub(crate) fn stop(process: &Process) {
    process.ask_to_end();
    let status = process.wait(Some(DEADLINE)).unwrap().expect("it ends");
    assert!(status.success(), "{}", process.output(Stream::Err));
}
