//! The placement manager with real agents, workers and parameter servers, in network namespaces.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use tributary_run::testbed::{Process, Stream};

use crate::by_hand::{DEADLINE, Net, ended, until};
use crate::command::{JobFile, fail, namespaces};
use crate::deaths::{children, signal};

/// Three servers at a switch, and the host `ps` for manager and controller only.
const NETWORK: &str = "[topology]\nkind = \"star\"\nworkers = 3\nps_hosts = 1\n\
                       [switch]\npool = 512\n[[job]]\n";

const SITE: &str = "network = \"job.toml\"\nlink_gbps = 10\n\
                    [[server]]\nhost = \"w1\"\ngpus = 2\n\
                    [[server]]\nhost = \"w2\"\ngpus = 2\n\
                    [[server]]\nhost = \"w3\"\ngpus = 2\n";

/// The manager's address, which agents reach through the switch.
const MANAGER: &str = "10.0.1.4:9640";
const CONTROLLER: &str = "10.0.1.4:9641";

const SERVERS: [&str; 3] = ["w1", "w2", "w3"];

struct Cluster {
    net: Net,
    manager: Option<Process>,
    agents: BTreeMap<&'static str, Process>,
    controller: Process,
}

impl Cluster {
    fn start() -> Self {
        Self::of("atp")
    }

    /// A cluster whose jobs have this protocol.
    fn of(protocol: &str) -> Self {
        let network = format!("protocol = \"{protocol}\"\n{NETWORK}");
        let network = match protocol {
            "switchml" => {
                network.replace("ps_hosts = 1\n", "").replace("workers = 3", "workers = 4")
            }
            _ => network,
        };
        let net = Net::with(&network, &["w1", "w2", "w3", "ps"]);
        std::fs::write(net.file.path("site.toml"), SITE).unwrap();
        let controller = Self::controller(&net, &[]);
        let (manager, agents) = (None, BTreeMap::new());
        let mut cluster = Self { net, manager, agents, controller };
        cluster.start_manager();
        for server in SERVERS {
            cluster.start_agent(server);
        }
        cluster
    }

    fn controller(net: &Net, more: &[&str]) -> Process {
        let at = format!("s1={}", net.socket());
        let args = ["controller", &net.file.name(), "--switch", &at, "--listen", CONTROLLER];
        let args = [&args[..], &["--on-demand", "--allow-anyone"], more].concat();
        let controller = net.start("ps", &args);
        until(&controller, "end with Ctrl-C");
        controller
    }

    fn start_manager(&mut self) {
        let [site, database] = ["site.toml", "manager.redb"].map(|name| self.path(name));
        let args = [
            &["place", "serve", &site, "--listen", MANAGER, "--database", &database][..],
            &["--period", "200", "--lease", "20000", "--controller", CONTROLLER, "--allow-anyone"],
        ];
        let manager = self.net.start("ps", &args.concat());
        until(&manager, "end with Ctrl-C");
        self.manager = Some(manager);
    }

    fn kill_manager(&mut self) {
        self.manager.take().unwrap().kill().unwrap();
    }

    fn start_agent(&mut self, server: &'static str) {
        let directory = self.path(server);
        let args = [
            &["place", "agent", "--manager", MANAGER, "--server", server][..],
            &["--interface", "eth0", "--directory", &directory, "--commands"],
            &["--controller", CONTROLLER],
        ];
        let agent = self.net.start(server, &args.concat());
        until(&agent, "registered");
        self.agents.insert(server, agent);
    }

    fn path(&self, name: &str) -> String {
        self.net.file.path(name).display().to_string()
    }

    /// Runs a command on the manager's host.
    fn call(&self, args: &[&str]) -> String {
        let args = [&["job"], args, &["--manager", MANAGER]].concat();
        let process = self.net.start("ps", &args);
        let (success, errors) = ended(&process);
        assert!(success, "{args:?}: {errors}");
        process.output(Stream::Out)
    }

    fn submit(&self, name: &str, gpus: u32, iterations: u32) {
        let [gpus, iterations] = [gpus, iterations].map(|number| number.to_string());
        self.call(&[
            "submit",
            "--name",
            name,
            "--request-key",
            name,
            "--gpus",
            &gpus,
            "--iterations",
            &iterations,
            "--gradients",
            "20000",
            "--compute",
            "5000",
            "--model",
            "test",
        ]);
    }

    /// Why a job is where it is.
    fn explain(&self, job: &str) -> Value {
        let args = ["place", "explain", job, "--json", "--manager", MANAGER];
        let process = self.net.start("ps", &args);
        let (success, errors) = ended(&process);
        assert!(success, "{errors}");
        serde_json::from_str(&process.output(Stream::Out)).unwrap()
    }

    fn list(&self) -> Value {
        serde_json::from_str(&self.call(&["list", "--json"])).unwrap()
    }

    fn jobs(&self) -> Vec<Value> {
        self.list()["jobs"].as_array().unwrap().clone()
    }

    /// Waits until the jobs satisfy a condition.
    fn wait(&self, all: impl Fn(&Value) -> bool) -> Vec<Value> {
        self.until(|jobs| jobs.iter().all(&all))
    }

    fn until(&self, done: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let jobs = self.jobs();
            if done(&jobs) {
                return jobs;
            }
            assert!(Instant::now() < deadline, "{jobs:#?}\n{}", self.errors());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn finish(&self) -> Vec<Value> {
        let jobs = self.wait(|job| job["state"] == "finished");
        for job in &jobs {
            check_sums(job);
        }
        for server in self.list()["servers"].as_array().unwrap() {
            assert_eq!(server["free"], server["gpus"], "{server}");
        }
        jobs
    }

    fn errors(&self) -> String {
        let processes = self.agents.values().chain(&self.manager).chain([&self.controller]);
        processes.map(|process| process.output(Stream::Err)).collect::<Vec<_>>().join("\n")
    }
}

/// Checks that every worker verified every sum.
fn check_sums(job: &Value) {
    let iterations = job["iterations"].as_u64().unwrap();
    let tasks = job["tasks"].as_array().unwrap();
    assert!(!tasks.is_empty());
    for worker in tasks {
        assert_eq!(worker["values"], 5_000 * iterations, "{job:#}");
        assert_eq!(worker["verified"], worker["values"], "{job:#}");
    }
}

/// Number of a job's servers, without its parameter server's.
fn servers(job: &Value) -> usize {
    job["tasks"].as_array().unwrap().len()
}

#[test]
fn a_trace_of_jobs_runs_and_the_manager_may_be_killed() {
    if !namespaces() {
        return;
    }
    let mut cluster = Cluster::start();
    for (name, gpus) in [("one", 1), ("two", 2), ("four", 4)] {
        cluster.submit(name, gpus, 150);
    }
    // Again, as a client does that missed the answer.
    cluster.submit("four", 4, 150);
    cluster.wait(|job| job["state"] != "waiting" || job["name"] == "four");
    // With running processes, and again when they were just started.
    for (name, gpus) in [("six", 6), ("three", 3)] {
        cluster.until(|jobs| jobs.iter().any(|job| job["state"] == "running"));
        cluster.kill_manager();
        std::thread::sleep(Duration::from_millis(150));
        cluster.start_manager();
        cluster.submit(name, gpus, 150);
    }
    let jobs = cluster.finish();
    let of = |name: &str| jobs.iter().find(|job| job["name"] == name).unwrap();
    assert_eq!(jobs.len(), 5, "{jobs:#?}");
    for job in &jobs {
        assert_eq!(job["attempts"], 1, "{job:#}\n{}", cluster.errors());
    }
    assert_eq!((servers(of("one")), servers(of("six"))), (1, 3));
}

#[test]
fn the_jobs_of_a_dead_agent_restart() {
    if !namespaces() {
        return;
    }
    let mut cluster = Cluster::start();
    cluster.submit("all", 6, 100);
    cluster.wait(|job| job["state"] == "running");
    std::thread::sleep(Duration::from_millis(300));
    cluster.agents.remove("w2").unwrap().kill().unwrap();
    // It is noticed at once; the server's processes are known to have ended when its agent is back.
    let deadline = Instant::now() + DEADLINE;
    while cluster.list()["servers"][1]["present"] == true {
        assert!(Instant::now() < deadline);
    }
    cluster.start_agent("w2");
    let jobs = cluster.finish();
    assert_eq!(jobs[0]["attempts"], 2, "{jobs:#?}\n{}", cluster.errors());
    assert!(jobs[0]["reason"].as_str().unwrap().contains("w2"), "{jobs:#?}");

    // A job that is cancelled ends, and its GPUs are free.
    cluster.submit("long", 5, 10_000);
    cluster.wait(|job| job["state"] != "waiting");
    cluster.call(&["cancel", "2"]);
    cluster.wait(|job| job["state"] == "finished" || job["state"] == "cancelled");
}

/// The parameter server of ESA is on the third server.
#[test]
fn jobs_of_every_protocol_are_placed_and_summed() {
    if !namespaces() {
        return;
    }
    for protocol in ["esa", "p4inc", "switchml"] {
        let cluster = Cluster::of(protocol);
        cluster.submit("one", 1, 50);
        cluster.submit("four", 4, 50);
        let jobs = cluster.finish();
        let four = jobs.iter().find(|job| job["name"] == "four").unwrap();
        assert_eq!((servers(four), &four["attempts"]), (2, &1.into()), "{protocol}: {four:#}");
        let workers = four["tasks"].as_array().unwrap();
        let its = &four["server"];
        assert!(workers.iter().all(|worker| worker["server"] != *its), "{protocol}: {four:#}");
        assert_eq!(its.is_null(), protocol == "switchml", "{four:#}");
        // Every server has a worker of this one, so the controller chooses another host.
        if protocol == "esa" {
            let spare = cluster.net.endpoint_at("ps", CONTROLLER, &["ps"]);
            until(&spare, "no job has its parameter server here yet");
            cluster.submit("six", 6, 50);
            let jobs = cluster.finish();
            let six = jobs.iter().find(|job| job["name"] == "six").unwrap();
            assert_eq!((servers(six), &six["server"]), (3, &"ps".into()), "{six:#}");
        }
    }
}

/// Without a journal, too, but for protocols whose jobs have aggregators of their own.
#[test]
fn a_controller_that_dies_costs_time_only() {
    if !namespaces() {
        return;
    }
    let cases = [("atp", false), ("atp", true), ("esa", false), ("esa", true), ("p4inc", true)];
    for (protocol, journal) in cases {
        let mut cluster = Cluster::of(protocol);
        let path = cluster.path("controller.redb");
        let more = if journal { &["--journal", &*path][..] } else { &[] };
        if journal {
            cluster.controller.ask_to_end();
            cluster.controller.end(DEADLINE).unwrap();
            cluster.controller = Cluster::controller(&cluster.net, more);
        }
        cluster.submit("all", 4, 300);
        cluster.wait(|job| job["state"] == "running");
        for _ in 0..2 {
            std::thread::sleep(Duration::from_millis(400));
            cluster.controller.kill().unwrap();
            cluster.controller = Cluster::controller(&cluster.net, more);
        }
        let jobs = cluster.finish();
        let errors = cluster.errors();
        assert_eq!(jobs[0]["attempts"], 1, "{protocol}, {journal}: {jobs:#?}\n{errors}");
    }
}

/// The agent of its server starts it again, in the same attempt.
#[test]
fn a_parameter_server_that_dies_costs_time_only() {
    if !namespaces() {
        return;
    }
    let cluster = Cluster::start();
    cluster.submit("all", 6, 200);
    cluster.wait(|job| job["state"] == "running");
    let explained = cluster.explain("1");
    assert_eq!(explained["rate_gbps"], 5.0, "its link carries two flows: {explained:#}");
    assert_eq!(explained["plans"].as_array().unwrap().len(), 1, "{explained:#}");
    for _ in 0..2 {
        let agents = cluster.agents.values();
        let server = || {
            let mut below = agents.clone().flat_map(|agent| children(agent.id()));
            below.find(|(_, line)| line.contains("tributary ps"))
        };
        let deadline = Instant::now() + DEADLINE;
        let victim = loop {
            if let Some((victim, _)) = server() {
                break victim;
            }
            assert!(Instant::now() < deadline, "{}", cluster.errors());
            std::thread::sleep(Duration::from_millis(20));
        };
        std::thread::sleep(Duration::from_millis(300));
        signal(victim, Signal::SIGKILL);
        while server().is_some_and(|(id, _)| id == victim) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let jobs = cluster.finish();
    assert_eq!(jobs[0]["attempts"], 1, "{jobs:#?}\n{}", cluster.errors());
    assert_eq!(cluster.errors().matches("it is started again in").count(), 2);
}

#[test]
fn a_command_of_a_user_takes_part_in_the_sums() {
    if !namespaces() {
        return;
    }
    let cluster = Cluster::start();
    let worker = format!(
        "echo GPUs $CUDA_VISIBLE_DEVICES; exec {} worker --interface $TRIBUTARY_INTERFACE",
        env!("CARGO_BIN_EXE_tributary")
    );
    let args = ["--gpus", "5", "--iterations", "20", "--gradients", "20000", "--wait"];
    // The address of the manager stands before the command.
    let args = [&["job", "submit", "--manager", MANAGER], &args[..], &["--", "sh", "-c", &worker]];
    let process = cluster.net.start("ps", &args.concat());
    let (success, errors) = ended(&process);
    assert!(success, "{errors}\n{}", cluster.errors());
    for (index, server) in SERVERS.into_iter().enumerate() {
        let log = std::fs::read_to_string(
            cluster.net.file.path(server).join(format!("job-1-1-{index}.log")),
        );
        let log = log.unwrap();
        assert!(log.starts_with("GPUs 0"), "{log}");
        assert!(log.contains("100000 values summed, 100000 of them compared"), "{log}");
        let worker = index.to_string();
        let args = ["logs", "--worker", &worker, "--follow", "1"];
        assert_eq!(cluster.call(&args), log, "a job that is over has all of its output");
    }
    let shown = cluster.call(&["show", "1"]);
    let mut from = 0;
    for line in [
        "accepted: 5 GPUs",
        "attempt 1 on ",
        "the switches serve it",
        "ends: all workers",
        "finished",
    ] {
        from += shown[from..].find(line).unwrap_or_else(|| panic!("{line} in its place: {shown}"));
    }
}

#[test]
fn bad_input_is_refused_in_one_line() {
    let file = JobFile::new(NETWORK);
    let site = file.path("site.toml");
    let name = site.display().to_string();
    let database = file.path("manager.redb").display().to_string();
    let serve = |text: &str, more: &[&str]| {
        std::fs::write(&site, text).unwrap();
        let args = [
            &["place", "serve", &name, "--listen", "127.0.0.1:0", "--allow-anyone"][..],
            &["--database", &database],
            more,
        ];
        fail(&args.concat())
    };
    let line = serve("network = \"job.toml\"\n[[server]]\nhost = \"w9\"\ngpus = 2\n", &[]);
    assert!(line.contains("site.toml:3:8: the network file has no host `w9`"), "{line}");
    let line = serve(SITE, &["--policy", "best"]);
    assert!(line.contains("there is no such policy; there are netpack"), "{line}");
    std::fs::write(file.path("manager.redb"), "not a database").unwrap();
    let line = serve(SITE, &[]);
    assert!(line.contains("manager.redb"), "{line}");
    let line = fail(&["job", "list", "--manager", "127.0.0.1:1"]);
    assert!(line.contains("the manager at 127.0.0.1:1 cannot be reached"), "{line}");
}
