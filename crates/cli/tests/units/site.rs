//! The units, their processes, and a client of the controller.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tributary_access::Remote;
use tributary_api::jobs::v1;
use tributary_api::jobs::v1::jobs_client::JobsClient;
use tributary_model::{End, Scenario, circuits::Port as Fibre};
use tributary_run::testbed::{
    Host, Link, LinkEnd, OpenVSwitch, Output, Process, Stream, SwitchNode, Testbed, Topology,
};

/// Time limit of each wait.
const DEADLINE: Duration = Duration::from_secs(90);

/// The node of the cross-connect.
const DEVICE: &str = "device";

/// Units with running switches.
pub(crate) struct Site {
    directory: tempfile::TempDir,
    scenario: Scenario,
    topology: Topology,
    testbed: Testbed,
}

impl Site {
    /// The units of a job file; `None`, with a message, if there cannot be network namespaces here.
    pub(crate) fn start(file: &str) -> Option<Self> {
        let scenario = tributary_model::jobfile::parse(file, "units.toml");
        let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
        let network = &scenario.network.topology;
        let end = |end: End| match end {
            End::Host(host) => LinkEnd::new(&network.host(host).name, 0),
            End::Switch(switch, port) => LinkEnd::new(&network.switch(switch).name, port),
        };
        let links = network.links[..network.fixed_links()].iter();
        let links =
            links.map(|link| Link { a: end(link.ends[0]), b: end(link.ends[1]), mtu: 1500 });
        let fibres = (1..=network.cross_connect_ports()).map(|number| {
            let (switch, port) = network.optical_end(Fibre(number));
            let a = LinkEnd::new(&network.switch(switch).name, port);
            Link { a, b: LinkEnd::new(DEVICE, number), mtu: 1500 }
        });
        let hosts = network.hosts.iter().map(|host| Host {
            name: host.name.clone(),
            mac: host.address.mac.0,
            ip: host.address.ip,
            prefix: 8,
        });
        let switches = network.switches.iter().map(|switch| switch.name.clone());
        let switches = switches.chain([DEVICE.to_owned()]).map(|name| SwitchNode { name });
        let topology = Topology {
            hosts: hosts.collect(),
            switches: switches.collect(),
            links: links.chain(fibres).collect(),
        };
        let testbed = match Testbed::build(&topology) {
            Err(error @ tributary_run::testbed::Error::NotPermitted(_)) => {
                println!("skipped: {error}");
                return None;
            }
            testbed => testbed.unwrap(),
        };
        let site = Self { directory: tempfile::tempdir().unwrap(), scenario, topology, testbed };
        std::fs::write(site.path("units.toml"), file).unwrap();
        let network = &site.scenario.network.topology;
        for id in network.switch_ids() {
            let name = &network.switch(id).name;
            let (socket, faults) =
                (site.socket(name), format!("{}:{name}", site.path("units.toml")));
            let mut args = vec!["switch".to_owned(), "--p4runtime".into(), socket];
            args.extend(["--faults".into(), faults]);
            for port in network.port_numbers(id) {
                let interface = site.topology.interface(&LinkEnd::new(name, port));
                args.extend(["--port".into(), format!("{port}@{interface}")]);
            }
            until(&site.start_at(name, &args), "end with Ctrl-C");
        }
        Some(site)
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// The address of a process that listens at a socket of this name.
    fn socket(&self, name: &str) -> String {
        format!("unix:{}", self.path(&format!("{name}.sock")))
    }

    fn start_at(&self, node: &str, args: &[String]) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        command.args(args).current_dir(root);
        self.testbed.spawn(node, command, Output::Keep).unwrap()
    }

    /// Starts the cross-connect, which is dark.
    pub(crate) fn cross_connect(&self) -> Process {
        let mut args = vec!["crossconnect".to_owned(), "--outage".into(), "5ms".into()];
        args.extend(["--listen".into(), self.socket(DEVICE)]);
        for number in 1..=self.scenario.network.topology.cross_connect_ports() {
            let interface = self.topology.interface(&LinkEnd::new(DEVICE, number));
            args.extend(["--port".into(), format!("{number}@{interface}")]);
        }
        let process = self.start_at(DEVICE, &args);
        until(&process, "end with Ctrl-C");
        process
    }

    /// Starts Open vSwitch in its place.
    pub(crate) fn open_vswitch(&self) -> OpenVSwitch {
        let ports = 1..=self.scenario.network.topology.cross_connect_ports();
        let interface = |port| (port, self.topology.interface(&LinkEnd::new(DEVICE, port)));
        let ports: Vec<_> = ports.map(interface).collect();
        OpenVSwitch::start(&self.testbed, DEVICE, self.directory.path(), &ports, None).unwrap()
    }

    /// Starts Open vSwitch again, without its flows.
    pub(crate) fn restart(&self, device: &mut OpenVSwitch) {
        device.restart(&self.testbed).unwrap();
    }

    /// Starts the controller of the emulated cross-connect. When this returns, it serves clients.
    pub(crate) fn controller(&self) -> Process {
        self.controller_of(&format!("emulated:{}", self.socket(DEVICE)))
    }

    /// Starts the controller of a cross-connect.
    pub(crate) fn controller_of(&self, cross_connect: &str) -> Process {
        let mut args = vec!["optical".to_owned(), "serve".into(), self.path("units.toml")];
        for switch in &self.scenario.network.topology.switches {
            args.extend([
                "--switch".into(),
                format!("{0}={1}", switch.name, self.socket(&switch.name)),
            ]);
        }
        args.extend(["--cross-connect".into(), cross_connect.into()]);
        args.extend(["--listen".into(), self.socket("controller")]);
        args.extend(["--journal".into(), self.path("journal.redb")]);
        let process = self.start_at("unit1", &args);
        until(&process, "end with Ctrl-C");
        process
    }

    fn endpoint(&self, host: &str, args: &[&str]) -> Process {
        let own = args.iter().map(|arg| (*arg).to_owned());
        let common = ["--interface", "eth0", "--controller"].map(str::to_owned);
        let args: Vec<String> = own.chain(common).chain([self.socket("controller")]).collect();
        self.start_at(host, &args)
    }

    pub(crate) fn server(&self, host: &str) -> Process {
        self.endpoint(host, &["ps", "--host", host])
    }

    pub(crate) fn worker(&self, job: &str, index: usize, host: &str) -> Process {
        let index = index.to_string();
        self.endpoint(host, &["worker", "--job", job, "--worker", &index])
    }

    /// Calls the controller.
    fn call<T>(&self, call: impl AsyncFnOnce(JobsClient<tonic::transport::Channel>) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let endpoint = Remote::new(&self.socket("controller"), None).unwrap().unwrap();
            call(JobsClient::new(endpoint.connect_lazy())).await
        })
    }

    /// Admits a job of the file.
    pub(crate) fn admit(&self, job_id: u32, bits: u64, iterations: u64, aggregators: u32) {
        let demand = Some(v1::Demand { bits, iterations, aggregators, update_us: 0 });
        let aggregation = v1::Aggregation::Server.into();
        let request = v1::AdmitRequest { job_id, aggregation, demand, ..Default::default() };
        self.call(async |mut client| client.admit(request).await.unwrap());
    }

    /// Waits until the controller has no jobs, and all memory of switches is free.
    pub(crate) fn until_empty(&self) {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let listed = self.call(async |mut client| client.list(v1::ListRequest {}).await);
            let listed = listed.unwrap().into_inner();
            if listed.jobs.is_empty() {
                assert!(listed.memory.iter().all(|memory| memory.free == memory.aggregators));
                return;
            }
            assert!(Instant::now() < deadline, "{:?}", listed.jobs);
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn signal(process: &Process, signal: Signal) {
    kill(Pid::from_raw(process.id().cast_signed()), signal).unwrap();
}

/// Kills a process, which has no time to do anything.
pub(crate) fn kill_now(process: &Process) {
    signal(process, Signal::SIGKILL);
    process.wait(Some(DEADLINE)).unwrap().expect("it ends");
}

/// Ends a process that was asked to end well.
pub(crate) fn stop(process: &Process) {
    signal(process, Signal::SIGTERM);
    let (code, errors) = ended(process);
    assert_eq!(code, Some(0), "{errors}");
}

/// Waits until a process has printed a text.
pub(crate) fn until(process: &Process, said: &str) {
    let deadline = Instant::now() + DEADLINE;
    while !process.output(Stream::Out).contains(said) {
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
