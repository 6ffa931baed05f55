//! Hosts over UDP sockets, as an ordinary user.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use nix::unistd::geteuid;
use tributary_run::testbed::{Process, Stream};

use crate::by_hand::{Net, ended, freed, until};
use crate::command::{fail, namespaces};

/// The user without any rights.
const NOBODY: &str = "65534";

/// Where the endpoints take part.
const CONTROLLER: &str = "10.0.1.3:29812";

const JOB: &str = "[[topology.switch]]\nname = \"s1\"\n\
    [[topology.host]]\nname = \"w1\"\nmac = \"02:00:0a:00:01:01\"\nip = \"10.0.1.1\"\n\
    [[topology.host]]\nname = \"w2\"\nmac = \"02:00:0a:00:01:02\"\nip = \"10.0.1.2\"\n\
    [[topology.host]]\nname = \"ps\"\nrole = \"ps\"\nmac = \"02:00:0a:00:01:03\"\nip = \"10.0.1.3\"\n\
    [[topology.link]]\nbetween = [\"w1\", \"s1\"]\n[[topology.link]]\nbetween = [\"w2\", \"s1\"]\n\
    [[topology.link]]\nbetween = [\"ps\", \"s1\"]\n\
    [[job]]\nworkload = { kind = \"random\", tensors = 3, elements = 20_000 }\n";

/// The program, where every user can read it.
struct Readable<'a> {
    net: &'a Net,
    program: String,
}

impl<'a> Readable<'a> {
    fn of(net: &'a Net) -> Self {
        let program = net.file.path("tributary");
        fs::copy(env!("CARGO_BIN_EXE_tributary"), &program).unwrap();
        let directory = program.parent().unwrap();
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
        Self { net, program: program.display().to_string() }
    }

    /// Starts an endpoint without any privileges.
    fn start(&self, host: &str, endpoint: &[&str], io: &str) -> Process {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--no-new-privs"]);
        command.args(["--bounding-set=-all", "--", &self.program]).args(endpoint);
        command.args(["--interface", "eth0", "--io", io, "--controller", CONTROLLER]);
        command.current_dir("/");
        self.net.spawn(host, command)
    }
}

fn skipped() -> bool {
    if !namespaces() {
        return true;
    }
    let missing = !Path::new("/usr/bin/setpriv").exists();
    if missing || !geteuid().is_root() {
        println!("skipped: to become an ordinary user, this needs root and setpriv (util-linux)");
        return true;
    }
    false
}

#[test]
fn workers_and_servers_need_no_privileges() {
    if skipped() {
        return;
    }
    let net = Net::new(JOB);
    let (file, at) = (net.file.name(), format!("s1={}", net.socket()));
    let args = ["controller", &file, "--switch", &at, "--listen", CONTROLLER, "--allow-anyone"];
    let controller = net.start("ps", &args);
    until(&controller, "end with Ctrl-C");
    let readable = Readable::of(&net);
    // With raw frames, the same user is refused in one line.
    let raw = readable.start("w1", &["worker", "--job", "job1"], "packet");
    let (success, errors) = ended(&raw);
    assert!(!success);
    assert!(errors.contains("need the capability CAP_NET_RAW"), "{errors}");

    let server = readable.start("ps", &["ps"], "udp");
    until(&server, "serving");
    let workers =
        ["w1", "w2"].map(|host| readable.start(host, &["worker", "--job", "job1"], "udp"));
    for worker in &workers {
        let (success, errors) = ended(worker);
        assert!(success, "{errors}");
        let output = worker.output(Stream::Out);
        assert!(output.contains("60000 values summed, 60000 of them compared"), "{output}");
    }
    server.ask_to_end();
    assert!(ended(&server).0);
    freed(&controller);
}

#[test]
fn a_switch_cannot_use_udp_sockets() {
    if !namespaces() {
        return;
    }
    let error = fail(&["switch", "--port", "1@lo", "--io", "udp"]);
    assert!(error.contains("a switch port on `lo` needs every frame"), "{error}");
}
