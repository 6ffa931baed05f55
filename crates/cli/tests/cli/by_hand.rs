//! Processes in network namespaces, each started separately.

use std::net::Ipv4Addr;
use std::process::Command;
use std::time::{Duration, Instant};

use tributary_run::testbed::{
    Host, Link, LinkEnd, Output, Process, Stream, SwitchNode, Testbed, Topology,
};

use crate::command::{JobFile, root};

/// Hosts around the switch `s1`, with separately started processes.
pub(crate) struct Net {
    pub(crate) file: JobFile,
    testbed: Testbed,
}

/// Time limit of each wait.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

impl Net {
    pub(crate) fn new(job: &str) -> Self {
        Self::with(job, &["w1", "w2", "ps"])
    }

    /// A network with these hosts at the switch's ports, from port 1 up.
    pub(crate) fn with(job: &str, names: &[&str]) -> Self {
        let net = Self::without_switch(job, names);
        net.start_switch(names.len());
        net
    }

    /// The same without the process of `s1`.
    pub(crate) fn without_switch(job: &str, names: &[&str]) -> Self {
        let hosts: Vec<Host> = (1..).zip(names).map(|(number, name)| host(number, name)).collect();
        let cable = |(port, host): (u16, &Host)| Link {
            a: LinkEnd::new(&host.name, 0),
            b: LinkEnd::new("s1", port),
            mtu: 1500,
        };
        let testbed = Testbed::build(&Topology {
            links: (1..).zip(&hosts).map(cable).collect(),
            hosts,
            switches: vec![SwitchNode { name: "s1".into() }],
        });
        Self { file: JobFile::new(job), testbed: testbed.unwrap() }
    }

    /// Starts the switch with this many ports; also after it has ended.
    pub(crate) fn start_switch(&self, ports: usize) -> Process {
        self.start_switch_at(&self.socket(), ports, &[])
    }

    /// Starts the switch with another address and more options.
    pub(crate) fn start_switch_at(&self, address: &str, ports: usize, more: &[&str]) -> Process {
        let ports: Vec<String> = (1..=ports).map(|n| format!("{n}@port{n}")).collect();
        let ports = ports.iter().flat_map(|port| ["--port", port]);
        let args: Vec<&str> = ["switch", "--p4runtime", address].into_iter().chain(ports).collect();
        let args = [&args, more].concat();
        let switch = self.start("s1", &args);
        until(&switch, "end with Ctrl-C");
        switch
    }

    pub(crate) fn socket(&self) -> String {
        format!("unix:{}", self.file.path("s1.sock").display())
    }

    /// The address at which endpoints take part.
    pub(crate) fn runs(&self) -> String {
        format!("unix:{}", self.file.path("runs.sock").display())
    }

    pub(crate) fn start(&self, node: &str, args: &[&str]) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
        command.args(args).current_dir(root());
        self.spawn(node, command)
    }

    /// Starts any program.
    pub(crate) fn spawn(&self, node: &str, command: Command) -> Process {
        self.testbed.spawn(node, command, Output::Keep).unwrap()
    }

    /// Runs a closure in the namespace of a node.
    pub(crate) fn run_in<T: Send>(&self, node: &str, what: impl FnOnce() -> T + Send) -> T {
        self.testbed.run_in(node, what).unwrap()
    }

    /// Starts a controller and waits until it has admitted the job.
    pub(crate) fn controller(&self) -> Process {
        self.controller_with(&[])
    }

    /// The same with more options.
    pub(crate) fn controller_with(&self, more: &[&str]) -> Process {
        self.controller_of(&self.file.name(), more)
    }

    /// The same for another job file.
    pub(crate) fn controller_of(&self, file: &str, more: &[&str]) -> Process {
        let (at, runs) = (format!("s1={}", self.socket()), self.runs());
        let args = ["controller", file, "--switch", &at, "--listen", &runs];
        let controller = self.start("s1", &[&args, more].concat());
        until(&controller, "end with Ctrl-C");
        controller
    }

    pub(crate) fn server(&self) -> Process {
        self.server_on("ps")
    }

    pub(crate) fn server_on(&self, host: &str) -> Process {
        self.server_with(host, &[])
    }

    pub(crate) fn server_with(&self, host: &str, more: &[&str]) -> Process {
        let command = [&["ps", "--host", host], more].concat();
        let server = self.endpoint(host, &command);
        until(&server, "serving");
        server
    }

    /// Starts a reminder agent on a host of its own.
    pub(crate) fn agent_on(&self, host: &str) -> Process {
        self.agent_with(host, &[])
    }

    pub(crate) fn agent_with(&self, host: &str, more: &[&str]) -> Process {
        let command = [&["reminder", "--host", host], more].concat();
        let agent = self.endpoint(host, &command);
        until(&agent, "listening");
        agent
    }

    /// Takes a host's interface down, or brings it up again.
    pub(crate) fn set_link(&self, host: &str, up: bool) {
        self.testbed.set_link(host, "eth0", up).unwrap();
    }

    /// A worker of the only job.
    pub(crate) fn worker(&self, index: u8) -> Process {
        self.worker_with(index, &[])
    }

    pub(crate) fn worker_with(&self, index: u8, more: &[&str]) -> Process {
        let number = index.to_string();
        let command = [&["worker", "--job", "1", "--worker", &number], more].concat();
        self.endpoint(&format!("w{}", index + 1), &command)
    }

    /// An endpoint at the controller.
    pub(crate) fn endpoint(&self, host: &str, command: &[&str]) -> Process {
        self.endpoint_at(host, &self.runs(), command)
    }

    /// The same at another address.
    pub(crate) fn endpoint_at(&self, host: &str, controller: &str, command: &[&str]) -> Process {
        let more = ["--interface", "eth0", "--controller", controller];
        self.start(host, &[command, &more[..]].concat())
    }

    /// Ends the job, then admits and ends it again. Returns how many cells each sweep freed.
    pub(crate) fn sweeps(&self, controller: &Process) -> [u64; 2] {
        let first = freed(controller);
        [first, freed(&self.controller())]
    }
}

fn host(number: u8, name: &str) -> Host {
    let ip = Ipv4Addr::new(10, 0, 1, number);
    Host { name: name.into(), mac: [2, 0, 10, 0, 1, number], ip, prefix: 8 }
}

/// Waits until a process has printed a text.
pub(crate) fn until(process: &Process, said: &str) {
    let deadline = Instant::now() + DEADLINE;
    while !process.output(Stream::Out).contains(said) {
        let errors = process.output(Stream::Err);
        assert!(Instant::now() < deadline, "it never said `{said}`: {errors}");
        assert!(process.wait(Some(Duration::from_millis(20))).unwrap().is_none(), "{errors}");
    }
}

/// Ends a controller. Returns how many cells its sweep freed.
pub(crate) fn freed(controller: &Process) -> u64 {
    controller.ask_to_end();
    let status = controller.end(DEADLINE).unwrap();
    assert!(status.success(), "{}", controller.output(Stream::Err));
    let output = controller.output(Stream::Out);
    let said = output.lines().find_map(|line| line.split_once("removed, "));
    let (_, rest) = said.unwrap_or_else(|| panic!("no sweep in {output}"));
    rest.split(' ').next().unwrap().parse().unwrap()
}

/// Waits for a process to end. Returns whether it succeeded, and its standard error.
pub(crate) fn ended(process: &Process) -> (bool, String) {
    let status = process.wait(Some(DEADLINE)).unwrap().expect("it ends");
    let errors = process.output(Stream::Err);
    assert!(!errors.contains("panicked"), "{errors}");
    (status.success(), errors)
}
