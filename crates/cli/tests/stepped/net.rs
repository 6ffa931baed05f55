//! The network, its processes, and a client of the controller.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tonic::transport::Channel;
use tributary_access::Remote;
use tributary_api::jobs::v1;
use tributary_api::jobs::v1::jobs_client::JobsClient;
use tributary_run::testbed::{
    Host, Link, LinkEnd, Output, Process, Stream, SwitchNode, Testbed, Topology,
};

/// Time limit of each wait.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) const NETWORK: v1::Aggregation = v1::Aggregation::Network;
pub(crate) const SERVER: v1::Aggregation = v1::Aggregation::Server;

const HOSTS: [&str; 5] = ["a1", "a2", "server", "b1", "b2"];

/// The links, in the order of the switches' ports from 1.
const LINKS: [[&str; 2]; 6] =
    [["a1", "s1"], ["a2", "s1"], ["server", "s1"], ["b1", "s2"], ["b2", "s2"], ["s1", "s2"]];

/// The two units with running switches.
pub(crate) struct Net {
    directory: tempfile::TempDir,
    testbed: Testbed,
}

impl Net {
    /// The network with these lines in its job file; `None`, with a message, if there cannot be
    /// network namespaces here.
    pub(crate) fn with(job: &str) -> Option<Self> {
        let mut used = [0, 0];
        let mut end = |name: &str| {
            let switch = ["s1", "s2"].iter().position(|switch| *switch == name);
            let port = switch.map_or(0, |switch| {
                used[switch] += 1;
                used[switch]
            });
            LinkEnd::new(name, port)
        };
        let links = LINKS.map(|[a, b]| Link { a: end(a), b: end(b), mtu: 1500 });
        let host = |(number, name): (u8, &&str)| Host {
            name: (*name).into(),
            mac: [2, 0, 0, 0, 0, number],
            ip: Ipv4Addr::new(10, 9, 1, number),
            prefix: 8,
        };
        let testbed = Testbed::build(&Topology {
            hosts: (1..).zip(&HOSTS).map(host).collect(),
            switches: ["s1", "s2"].map(|name| SwitchNode { name: name.into() }).into(),
            links: links.into(),
        });
        let testbed = match testbed {
            Err(error @ tributary_run::testbed::Error::NotPermitted(_)) => {
                println!("skipped: {error}");
                return None;
            }
            testbed => testbed.unwrap(),
        };
        let net = Self { directory: tempfile::tempdir().unwrap(), testbed };
        std::fs::write(net.path("job.toml"), format!("{job}\n{}", hosts())).unwrap();
        for (switch, ports) in [("s1", 4), ("s2", 3)] {
            let socket = net.socket(switch);
            let ports: Vec<String> = (1..=ports).map(|n| format!("{n}@port{n}")).collect();
            let ports = ports.iter().flat_map(|port| ["--port", port]);
            let args: Vec<&str> =
                ["switch", "--p4runtime", &socket].into_iter().chain(ports).collect();
            until(&net.start(switch, &args), "end with Ctrl-C");
        }
        Some(net)
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// The address of a process that listens at a socket of this name.
    fn socket(&self, name: &str) -> String {
        format!("unix:{}", self.path(&format!("{name}.sock")))
    }

    fn start(&self, node: &str, args: &[&str]) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        command.args(args).current_dir(root).env("TRIBUTARY_LOG", "tributary_endpoint=info");
        self.testbed.spawn(node, command, Output::Keep).unwrap()
    }

    /// Starts the controller. When this returns, it serves clients.
    pub(crate) fn controller(&self) -> Process {
        self.controller_with(&[])
    }

    /// The same with a journal.
    pub(crate) fn controller_that_remembers(&self) -> Process {
        self.controller_with(&["--journal", &self.path("journal.redb")])
    }

    fn controller_with(&self, more: &[&str]) -> Process {
        let switches = ["s1", "s2"].map(|switch| format!("{switch}={}", self.socket(switch)));
        let (file, at) = (self.path("job.toml"), self.socket("controller"));
        let [first, second] = &switches;
        let args = ["controller", &file, "--switch", first, "--switch", second, "--listen", &at];
        let controller = self.start("s1", &[&args[..], &["--on-demand"], more].concat());
        until(&controller, "end with Ctrl-C");
        controller
    }

    fn endpoint(&self, host: &str, command: &[&str]) -> Process {
        let at = self.socket("controller");
        let more = ["--interface", "eth0", "--controller", &at];
        self.start(host, &[command, &more[..]].concat())
    }

    pub(crate) fn server(&self) -> Process {
        let server = self.endpoint("server", &["ps", "--host", "server"]);
        until(&server, "no job has its parameter server here yet");
        server
    }

    /// Starts the workers of the file's job, which are on these hosts.
    pub(crate) fn workers(&self, hosts: &[&str]) -> Vec<Process> {
        let worker = |(index, host): (usize, &&str)| {
            self.endpoint(host, &["worker", "--job", "job1", "--worker", &index.to_string()])
        };
        hosts.iter().enumerate().map(worker).collect()
    }

    pub(crate) fn client(&self) -> Client {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _context = runtime.enter();
        let channel =
            Remote::new(&self.socket("controller"), None).unwrap().unwrap().connect_lazy();
        drop(_context);
        Client { runtime, client: JobsClient::new(channel) }
    }
}

/// The same network in the words of a job file.
fn hosts() -> String {
    let switches = ["s1", "s2"].map(|name| format!("[[topology.switch]]\nname = \"{name}\"\n"));
    let host = |(number, name): (u8, &&str)| {
        let role = if *name == "server" { "role = \"ps\"\n" } else { "" };
        format!(
            "[[topology.host]]\nname = \"{name}\"\n{role}mac = \"02:00:00:00:00:{number:02}\"\n\
             ip = \"10.9.1.{number}\"\n"
        )
    };
    let hosts: String = (1..).zip(&HOSTS).map(host).collect();
    let link = |ends: &[&str; 2]| format!("[[topology.link]]\nbetween = {ends:?}\n");
    format!("{}{hosts}{}", switches.concat(), LINKS.iter().map(link).collect::<String>())
}

/// The client that decides about job 1.
pub(crate) struct Client {
    runtime: tokio::runtime::Runtime,
    client: JobsClient<Channel>,
}

impl Client {
    /// Admits the job, for a new run or for one that goes on. Returns the run.
    pub(crate) fn admit(&mut self, aggregation: v1::Aggregation, size: u32, epoch: u32) -> u32 {
        let aggregation = aggregation.into();
        let request = v1::AdmitRequest {
            job_id: 1,
            aggregation,
            size,
            epoch,
            stepped: true,
            ..Default::default()
        };
        let admitted = self.runtime.block_on(self.client.admit(request)).unwrap();
        admitted.into_inner().epoch
    }

    pub(crate) fn move_to(&mut self, aggregation: v1::Aggregation, size: u32) {
        let request = v1::MoveRequest { job_id: 1, aggregation: aggregation.into(), size };
        self.runtime.block_on(self.client.r#move(request)).unwrap();
    }

    pub(crate) fn set_rate(&mut self, rate: u64) {
        let request = v1::SetRateRequest { job_id: 1, rate };
        self.runtime.block_on(self.client.set_rate(request)).unwrap();
    }

    pub(crate) fn start(&mut self, number: u64) {
        let request = v1::StartIterationRequest { job_id: 1, number };
        self.runtime.block_on(self.client.start_iteration(request)).unwrap();
    }

    /// Releases the job. Returns how many cells it had not finished.
    pub(crate) fn release(&mut self) -> u32 {
        let request = v1::ReleaseRequest { job_id: 1 };
        self.runtime.block_on(self.client.release(request)).unwrap().into_inner().freed
    }

    /// Waits for the end of an iteration.
    pub(crate) fn finished(&mut self, number: u64) {
        let request = v1::WatchRequest { job_id: 1, epoch: 0 };
        let finished = async {
            let mut told = self.client.watch(request).await.unwrap().into_inner();
            loop {
                let iteration = told.message().await.unwrap().unwrap().iteration.unwrap();
                if iteration.number == number && iteration.state() == v1::iteration::State::Finished
                {
                    return;
                }
            }
        };
        let limited = async { tokio::time::timeout(DEADLINE, finished).await };
        self.runtime.block_on(limited).expect("the iteration ends");
    }

    pub(crate) fn iterate(&mut self, number: u64) {
        self.start(number);
        self.finished(number);
    }

    /// Waits until the job has another run.
    pub(crate) fn until_run_after(&mut self, epoch: u32) {
        let request = v1::WatchRequest { job_id: 1, epoch: 0 };
        let begun = async {
            let mut told = self.client.watch(request).await.unwrap().into_inner();
            while told.message().await.unwrap().unwrap().epoch == epoch {}
        };
        let limited = async { tokio::time::timeout(DEADLINE, begun).await };
        self.runtime.block_on(limited).expect("another run begins");
    }

    /// Workers that have not finished the last iteration.
    pub(crate) fn unfinished(&mut self) -> Vec<u32> {
        let list = self.runtime.block_on(self.client.list(v1::ListRequest {})).unwrap();
        let mut jobs = list.into_inner().jobs;
        jobs.remove(0).iteration.unwrap().unfinished
    }
}

pub(crate) fn signal(process: &Process, signal: Signal) {
    kill(Pid::from_raw(process.id().cast_signed()), signal).unwrap();
}

/// Kills a process, which has no time to do anything.
pub(crate) fn slay(process: &Process) {
    signal(process, Signal::SIGKILL);
    process.wait(Some(DEADLINE)).unwrap().expect("it ends");
}

/// Waits until a process has printed a text.
pub(crate) fn until(process: &Process, said: &str) {
    until_on(process, Stream::Out, said);
}

/// Waits until a process has printed a text on one of its streams.
pub(crate) fn until_on(process: &Process, stream: Stream, said: &str) {
    let deadline = Instant::now() + DEADLINE;
    while !process.output(stream).contains(said) {
        let status = process.wait(Some(Duration::from_millis(20))).unwrap();
        let errors = process.output(Stream::Err);
        assert!(status.is_none(), "it ended before it said `{said}`: {errors}");
        assert!(Instant::now() < deadline, "it never said `{said}`: {errors}");
    }
}

/// Waits for a process to end. Returns its exit status, and its standard error.
pub(crate) fn ended(process: &Process) -> (Option<i32>, String) {
    let status = process.wait(Some(DEADLINE)).unwrap().expect("it ends");
    let errors = process.output(Stream::Err);
    assert!(!errors.contains("panicked"), "{errors}");
    (status.code(), errors)
}

/// Waits for workers that sum and verify so many values each.
pub(crate) fn succeed(workers: &[Process], values: usize) {
    for worker in workers {
        let (code, errors) = ended(worker);
        assert_eq!(code, Some(0), "{errors}");
        let output = worker.output(Stream::Out);
        let said = format!("{values} values summed, {values} of them compared");
        assert!(output.contains(&said), "{output}");
    }
}

/// Ends a controller or a parameter server.
pub(crate) fn stop(process: &Process) {
    process.ask_to_end();
    let (code, errors) = ended(process);
    assert_eq!(code, Some(0), "{errors}");
}
