//! `tributary testbed`: networks of P4 programs in virtual time and in network namespaces.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::command::{fail, namespaces, root, succeed, text, tributary};
use crate::deaths::signal;

const NET: &str = "examples/testbed/net.toml";
const TEST: &str = "examples/testbed/test.stf";

/// A shell's command that succeeds if a host answers: it refuses a TCP connection. The checksum of the answer and
/// of what it answers must be right.
const REACH_H2: &str = "h1:timeout 20 bash -c 'exec 3<>/dev/tcp/10.0.0.2/9' 2>&1 | grep -q refused";

/// A directory with the example's files, in which a test changes some.
struct Copy(tempfile::TempDir);

impl Copy {
    fn new() -> Self {
        let copy = Self(tempfile::tempdir().unwrap());
        for file in root().join("examples/testbed").read_dir().unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), copy.path(file.file_name())).unwrap();
        }
        copy
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(name)
    }

    fn replace(&self, name: &str, old: &str, new: &str) {
        let text = std::fs::read_to_string(self.path(name)).unwrap();
        assert!(text.contains(old), "{name} has no {old}");
        std::fs::write(self.path(name), text.replacen(old, new, 1)).unwrap();
    }

    /// Runs the test, which must fail. Returns the reason.
    fn fail(&self) -> String {
        let [net, test] =
            ["net.toml", "test.stf"].map(|name| self.path(name).display().to_string());
        let output = tributary(&["testbed", &net, "--test", &test]).output().unwrap();
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{said}{}", text(&output.stderr));
        let reason = said.strip_prefix("FAIL: ").unwrap_or_else(|| panic!("{said}"));
        assert_eq!(reason.lines().count(), 1, "{reason}");
        let directory = format!("{}/", self.0.path().display());
        reason.trim_end().replace(&directory, "")
    }
}

#[test]
fn the_example_passes_in_virtual_time() {
    assert_eq!(succeed(&["testbed", NET, "--test", TEST]), "PASS\n");
}

#[test]
fn a_failed_test_names_the_line_and_the_host() {
    let copy = Copy::new();
    copy.replace("test.stf", "0800 45AABBCC $", "0800 45AABBCD $");
    let reason = copy.fail();
    let says = "test.stf:3:1: host h2, packet 1 of 2: byte 17 is CC, not CD; expected";
    assert!(reason.starts_with(says), "{reason}");

    let copy = Copy::new();
    copy.replace("test.stf", "popped(7) packets == 1", "popped(7) packets == 2");
    let reason = copy.fail();
    let says = "test.stf:4:21: switch s2: counter Pop.popped[7] is at 1 packets, not == 2";
    assert!(reason.starts_with(says), "{reason}");
}

#[test]
fn errors_of_all_files_have_positions() {
    type Case = (&'static str, &'static str, &'static str, &'static str);
    let cases: [Case; 6] = [
        ("net.toml", "p4 = \"pop.p4\"", "p4 = \"pup.p4\"", "net.toml:12:6: cannot read pup.p4"),
        ("pop.p4", "popped.count", "poppet.count", "pop.p4:16:13: "),
        ("s1.stf", "push(class:7)", "push(colour:7)", "s1.stf:2:43: action `Push.push` has no"),
        (
            "s1.stf",
            "add classes",
            "packet 1 00\nadd classes",
            "s1.stf:2:1: only commands for tables",
        ),
        (
            "test.stf",
            "packet h1",
            "packet h3",
            "test.stf:2:8: there is no host `h3` (known: h1, h2)",
        ),
        ("test.stf", "on s1 add", "add", "test.stf:13:1: `add` is not a command in a test of a"),
    ];
    for (file, old, new, says) in cases {
        let copy = Copy::new();
        copy.replace(file, old, new);
        let reason = copy.fail();
        assert!(reason.starts_with(says), "{reason}");
    }
}

#[test]
fn programs_of_two_architectures_are_in_one_network() {
    let copy = Copy::new();
    let tna = root().join("crates/switch/tests/switch/programs/tna.p4");
    copy.replace("net.toml", "\"pop.p4\"", &format!("\"{}\"", tna.display()));
    copy.replace("net.toml", "define = [\"CLASSES=8\"]", "entries = \"s2.stf\"");
    std::fs::write(copy.path("s2.stf"), "add ports to:0x0002 send(port:2)\n").unwrap();
    // Both programs take these bytes for their header: an operation, and the port 2; Ethernet addresses and a type.
    let test = "packet h2 00 00 0002 0000 0000 00000000 00000000 00000000 0000 0000 AABB
                expect h1 00 00 0002 0000 0001 00000001
                on s2 check_counter ops(0) packets == 1";
    std::fs::write(copy.path("test.stf"), test).unwrap();
    let [net, test] = ["net.toml", "test.stf"].map(|name| copy.path(name).display().to_string());
    assert_eq!(succeed(&["testbed", &net, "--test", &test]), "PASS\n");
}

/// Two links between two switches, each of which sends what arrives from one out of the other.
#[test]
fn a_loop_of_switches_ends_with_one_line() {
    let copy = Copy::new();
    let turn = "bit<9> port = 2;
        if (sm.ingress_port == 2) { port = 3; }
        sm.egress_spec = port;";
    let program = std::fs::read_to_string(copy.path("push.p4")).unwrap();
    let (head, rest) = program.split_once("    apply {").unwrap();
    let (_, tail) = rest.split_once("\nV1Switch").unwrap();
    let program = format!("{head}    apply {{ {turn} }}\n}}\nV1Switch{tail}");
    std::fs::write(copy.path("push.p4"), program).unwrap();
    copy.replace("net.toml", "p4 = \"pop.p4\"", "p4 = \"push.p4\"");
    copy.replace("net.toml", "define = [\"CLASSES=8\"]", "");
    copy.replace("net.toml", "entries = \"s1.stf\"", "");
    copy.replace("net.toml", "[[link]]", "[[link]]\nbetween = [\"s1:3\", \"s2:3\"]\n\n[[link]]");
    let reason = copy.fail();
    let says = "test.stf:2:1: switches have sent more than 10000 frames for this packet, last s";
    assert!(reason.starts_with(says), "{reason}");
}

#[test]
fn packets_travel_between_namespaces() {
    if !namespaces() {
        return;
    }
    succeed(&["testbed", NET, "--exec", REACH_H2, "--exec", "h2:grep -q eth0 /proc/net/dev"]);
    // Without entries, the first switch drops everything.
    let copy = Copy::new();
    copy.replace("net.toml", "entries = \"s1.stf\"", "");
    let net = copy.path("net.toml").display().to_string();
    let exec = format!("{} || exit 9", REACH_H2.replace("timeout 20", "timeout 2"));
    let output = tributary(&["testbed", &net, "--exec", &exec]).output().unwrap();
    assert_eq!(output.status.code(), Some(9), "{}", text(&output.stderr));
}

#[test]
fn hosts_have_the_gateways_and_addresses_of_the_file() {
    if !namespaces() {
        return;
    }
    let copy = Copy::new();
    copy.replace(
        "net.toml",
        "ip = \"10.0.0.1/24\"",
        "ip = \"10.0.0.1/24\"\ngateway = \"10.0.0.254\"",
    );
    copy.replace("net.toml", "ip = \"10.0.0.2/24\"", "");
    let net = copy.path("net.toml").display().to_string();
    let route = "h1:grep -q '^eth0.00000000.FE00000A' /proc/net/route";
    let none = "h2:! grep -q eth0 /proc/net/route";
    succeed(&["testbed", &net, "--exec", route, "--exec", none]);
}

#[test]
fn the_status_is_that_of_the_first_command_that_fails() {
    if !namespaces() {
        return;
    }
    let commands =
        ["testbed", NET, "--exec", "s1:true", "--exec", "h1:exit 7", "--exec", "h1:echo no"];
    let output = tributary(&commands).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "");
    let line = fail(&["testbed", NET, "--exec", "h9:true"]);
    assert!(line.contains("--exec: there is no host or switch `h9` in"), "{line}");
}

/// A network that runs until it is stopped.
struct Running {
    child: Child,
    /// What it has printed.
    said: Vec<String>,
}

impl Running {
    fn start() -> Self {
        let mut command = tributary(&["testbed", NET]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut said = Vec::new();
        for line in lines {
            let last = line == "end with Ctrl-C";
            said.push(line);
            if last {
                break;
            }
        }
        let running = Self { child, said };
        assert_eq!(running.said.last().map(String::as_str), Some("end with Ctrl-C"));
        running
    }

    /// Processes of the switches.
    fn switches(&self) -> Vec<u32> {
        let parent = format!("PPid:\t{}\n", self.child.id());
        let processes = Path::new("/proc").read_dir().unwrap().flatten();
        let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let of_parent = |id: &u32| {
            let status = std::fs::read_to_string(format!("/proc/{id}/status"));
            status.is_ok_and(|status| status.contains(&parent))
        };
        ids.filter(of_parent).collect()
    }

    fn sockets(&self) -> Vec<PathBuf> {
        let words = self.said.iter().flat_map(|line| line.split_whitespace());
        let paths = words.filter_map(|word| word.strip_prefix("unix:"));
        paths.map(PathBuf::from).collect()
    }

    /// Waits for its end. Returns its status and standard error.
    fn end(mut self) -> (Option<i32>, String) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        };
        let mut errors = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        (status.code(), errors)
    }
}

impl Drop for Running {
    /// A test that fails leaves no network.
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            signal(self.child.id().cast_signed(), Signal::SIGTERM);
            self.child.wait().ok();
        }
    }
}

/// Nothing is left of these processes and sockets.
fn gone(switches: &[u32], sockets: &[PathBuf]) {
    assert_eq!((switches.len(), sockets.len()), (2, 2), "{switches:?} {sockets:?}");
    for id in switches {
        assert!(!Path::new(&format!("/proc/{id}")).exists(), "process {id} is left");
    }
    for socket in sockets {
        assert!(!socket.parent().unwrap().exists(), "{} is left", socket.display());
    }
}

#[test]
fn nothing_is_left_after_a_signal() {
    if !namespaces() {
        return;
    }
    let running = Running::start();
    let said = running.said.join("\n");
    for part in
        ["port1 to h1", "port2 to s2:2", "eth0 02:00:00:00:00:01 10.0.0.1/24", "h2: nsenter "]
    {
        assert!(said.contains(part), "no {part} in {said}");
    }
    let (switches, sockets) = (running.switches(), running.sockets());
    assert!(sockets.iter().all(|socket| socket.exists()), "{sockets:?}");
    signal(running.child.id().cast_signed(), Signal::SIGTERM);
    let (status, errors) = running.end();
    assert_eq!(status, Some(0), "{errors}");
    gone(&switches, &sockets);
}

#[test]
fn the_death_of_a_switch_ends_the_network() {
    if !namespaces() {
        return;
    }
    let running = Running::start();
    let (switches, sockets) = (running.switches(), running.sockets());
    let victim = nix::unistd::Pid::from_raw(switches[0].cast_signed());
    nix::sys::signal::kill(victim, Signal::SIGKILL).unwrap();
    let (status, errors) = running.end();
    assert_eq!(status, Some(1), "{errors}");
    assert!(errors.contains("error: switch s") && errors.contains("signal: 9"), "{errors}");
    gone(&switches, &sockets);
}

/// Errors in entries come before ports are opened.
#[test]
fn a_switch_reads_its_entries_first() {
    let copy = Copy::new();
    copy.replace("s1.stf", "add classes", "put classes");
    let [program, entries] =
        ["push.p4", "s1.stf"].map(|name| copy.path(name).display().to_string());
    let line = fail(&["switch", &program, "--port", "1@no-such", "--entries", &entries]);
    assert!(line.contains("s1.stf:2:1: `put` is not a command"), "{line}");
}
