//! Who may use a placement manager: users of two tenants, agents, an operator, and strangers, each with
//! the certificates that `tributary certs` makes.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::command::{JobFile, fail, failure, succeed, text, tributary};

const NETWORK: &str = "[topology]\nkind = \"star\"\nworkers = 2\nps_hosts = 1\n[[job]]\n";
const SITE: &str = "network = \"job.toml\"\n[[server]]\nhost = \"w1\"\ngpus = 2\n\
                    [[server]]\nhost = \"w2\"\ngpus = 2\n";
const ACCESS: &str = r#"
[[tenant]]
name = "blue"
jobs = 1
[[tenant]]
name = "red"
[[client]]
certificate = "alice"
role = "submit"
tenant = "blue"
[[client]]
certificate = "bob"
role = "submit"
tenant = "red"
[[client]]
certificate = "*.nodes"
role = "agent"
[[client]]
certificate = "boss"
role = "operate"
[[client]]
certificate = "watcher"
role = "observe"
"#;

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A manager, and the certificates of its clients.
struct Place {
    file: JobFile,
    address: String,
    _manager: Running,
}

impl Place {
    fn start() -> Self {
        let file = JobFile::new(NETWORK);
        std::fs::write(file.path("site.toml"), SITE).unwrap();
        std::fs::write(file.path("access.toml"), ACCESS).unwrap();
        let keys = file.path("keys").display().to_string();
        let names = ["alice", "bob", "boss", "watcher", "eve", "w1.nodes", "w2.nodes"];
        let made = [&["certs", &keys, "manager=127.0.0.1"][..], &names].concat();
        assert!(succeed(&made).contains("keys/manager"));
        let path = |name: &str| file.path(name).display().to_string();
        let [site, access, database] = ["site.toml", "access.toml", "manager.redb"].map(path);
        let own = format!("{keys}/manager");
        let args = [
            "place",
            "serve",
            &site,
            "--listen",
            "127.0.0.1:0",
            "--database",
            &database,
            "--identity",
            &own,
            "--access",
        ];
        let mut command = tributary(&args);
        command.arg(&access).stdout(Stdio::piped());
        let mut manager = Running(command.spawn().unwrap());
        let mut said = String::new();
        BufReader::new(manager.0.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let address = said.split([' ', ',']).nth(3).unwrap().to_owned();
        assert!(address.starts_with("127.0.0.1:"), "{said}");
        Self { file, address, _manager: manager }
    }

    /// A command of a client.
    fn command(&self, who: &str, args: &[&str]) -> Vec<String> {
        let identity = self.file.path("keys").join(who).display().to_string();
        let own = ["--manager", &self.address, "--identity", &identity];
        let kind = if args[0] == "agent" { "place" } else { "job" };
        let all = [&[kind], args, &own[..]].concat();
        all.into_iter().map(str::to_owned).collect()
    }

    fn call(&self, who: &str, args: &[&str]) -> String {
        let all = self.command(who, args);
        succeed(&all.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn refused(&self, who: &str, args: &[&str]) -> String {
        let all = self.command(who, args);
        fail(&all.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The jobs that a client sees.
    fn jobs(&self, who: &str) -> Vec<u64> {
        let listed: Value = serde_json::from_str(&self.call(who, &["list", "--json"])).unwrap();
        let jobs = listed["jobs"].as_array().unwrap();
        jobs.iter().map(|job| job["job"].as_u64().unwrap()).collect()
    }
}

#[test]
fn each_client_of_a_manager_does_what_its_role_says() {
    let place = Place::start();
    let submit = ["submit", "--gpus", "1", "--iterations", "1", "--model", "vgg16"];
    place.call("alice", &submit);
    place.call("bob", &submit);
    place.call("bob", &submit);
    // Each tenant has its jobs, and its quota.
    assert_eq!(place.jobs("alice"), [1]);
    assert_eq!(place.jobs("bob"), [2, 3]);
    for who in ["boss", "watcher"] {
        assert_eq!(place.jobs(who), [1, 2, 3]);
    }
    let line = place.refused("alice", &submit);
    assert!(
        line.contains("tenant `blue` has as many jobs that wait or run as it may have: 1"),
        "{line}"
    );
    let line = place.refused("alice", &["cancel", "2"]);
    assert!(line.contains("job 2 is another tenant's"), "{line}");
    for command in ["show", "logs"] {
        let line = place.refused("alice", &[command, "2"]);
        assert!(line.contains("job 2 is another tenant's"), "{line}");
    }
    assert!(place.call("watcher", &["show", "2"]).contains("accepted: 1 GPU, value 1"));
    let line = place.refused("watcher", &["logs", "2"]);
    assert!(line.contains("has the role `observe`, and this needs `submit`"), "{line}");
    let line = place.refused("bob", &["logs", "2"]);
    assert!(line.contains("job 2 runs no command"), "{line}");
    place.call("alice", &["cancel", "1"]);
    place.call("alice", &submit);
    place.call("boss", &["cancel", "3"]);
    let line = place.refused("watcher", &submit);
    assert!(line.contains("has the role `observe`, and this needs `submit`"), "{line}");

    // Strangers: not in the list, of no root, without TLS.
    let line = place.refused("eve", &["list"]);
    assert!(line.contains("the certificate of eve may not use this server"), "{line}");
    let unnamed = place.command("eve", &["list"]);
    let all: Vec<_> = unnamed.iter().map(String::as_str).collect();
    // `job list --manager ADDRESS`, and with a root alone.
    let rooted = place.file.path("rooted");
    std::fs::create_dir(&rooted).unwrap();
    std::fs::copy(place.file.path("keys/ca.pem"), rooted.join("ca.pem")).unwrap();
    let rooted = rooted.display().to_string();
    for some in [&all[..4], &[&all[..5], &[&*rooted]].concat()] {
        let line = fail(some);
        assert!(line.contains("manager"), "{line}");
    }
}

#[test]
fn only_the_agent_of_a_server_is_its_agent() {
    let place = Place::start();
    let directory = |name: &str| place.file.path(name).display().to_string();
    let agent = |who: &str, server: &str| {
        let own = directory(&format!("{who} for {server}"));
        let args = ["agent", "--server", server, "--interface", "lo", "--directory", &own];
        place.command(who, &[&args[..], &["--controller", "127.0.0.1:1"]].concat())
    };
    for (who, server) in [("w2.nodes", "w1"), ("alice", "w1"), ("watcher", "w2"), ("eve", "w1")] {
        let args = agent(who, server);
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        let line = failure(&args, &tributary(&args).output().unwrap());
        assert!(line.contains("may not") || line.contains("this needs `agent`"), "{line}");
    }
    // A server's own agent does no more than that.
    let line = place.refused("w1.nodes", &["list"]);
    assert!(line.contains("has the role `agent`, and this needs `observe`"), "{line}");
    let args = agent("w1.nodes", "w1");
    let mut own = Command::new(env!("CARGO_BIN_EXE_tributary"));
    let _own = Running(own.args(&args).stdout(Stdio::null()).spawn().unwrap());
    let begin = Instant::now();
    loop {
        let listed: Value = serde_json::from_str(&place.call("boss", &["list", "--json"])).unwrap();
        let present = |at: usize| listed["servers"][at]["present"].as_bool().unwrap();
        if present(0) {
            assert!(!present(1));
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "{listed}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_manager_without_options_is_its_users() {
    let file = JobFile::new(NETWORK);
    std::fs::write(file.path("site.toml"), SITE).unwrap();
    let [site, database] =
        ["site.toml", "m.redb"].map(|name| file.path(name).display().to_string());
    let open = ["place", "serve", &site, "--database", &database, "--listen", "127.0.0.1:0"];
    let line = fail(&open);
    assert!(line.contains("anyone who reaches this address would have full control"), "{line}");

    // This user's directory, which is not where other tests look.
    let socket = file.path("manager.sock");
    let at = format!("unix:{}", socket.display());
    let mut command = tributary(&["place", "serve", &site, "--database", &database]);
    let mut manager =
        Running(command.args(["--listen", &at]).stdout(Stdio::piped()).spawn().unwrap());
    let mut said = String::new();
    BufReader::new(manager.0.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains(&at), "{said}");
    let listed = tributary(&["job", "list", "--manager", &at]).output().unwrap();
    assert!(listed.status.success(), "{}", text(&listed.stderr));
}
