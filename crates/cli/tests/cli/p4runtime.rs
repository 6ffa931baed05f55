//! `tributary p4runtime` with a switch in this process: single commands, and many in standard input.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};

use tributary_netio::memory;
use tributary_switch::runtime::{Runtime, SwitchHandle};
use tributary_switch::server::{Listen, ServerHandle, Service};
use tributary_switch::{Forwarding, SwitchConfig};

use crate::command::{fail, failure, succeed, text, tributary};

const ROUTER: &str = include_str!("../../../../docs/reference/router.p4");

/// A running switch, served on a Unix socket.
struct Device {
    address: String,
    _switch: SwitchHandle,
    _server: ServerHandle,
    directory: tempfile::TempDir,
}

impl Device {
    fn new(program: Option<&str>) -> Self {
        let mut runtime = Runtime::new(SwitchConfig::default());
        let (near, _) = memory::link(4, runtime.waker(), &Default::default());
        runtime.add_port(1, Box::new(near), None);
        let (switch, packets_in) = runtime.start().unwrap();
        if let Some(source) = program {
            let forwarding = Forwarding::from_source(source).unwrap();
            switch.control().call(|switch, _| switch.commit(forwarding)).unwrap();
        }
        let service = Service::new(switch.control().clone(), packets_in);
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("p4runtime.sock");
        let server = ServerHandle::start(service, Listen::Unix(socket.clone())).unwrap();
        let address = format!("unix:{}", socket.display());
        Self { address, _switch: switch, _server: server, directory }
    }

    fn arguments<'a>(&'a self, words: &[&'a str]) -> Vec<&'a str> {
        [&["p4runtime", &*self.address][..], words].concat()
    }

    fn run(&self, words: &[&str]) -> String {
        succeed(&self.arguments(words))
    }

    fn fail(&self, words: &[&str]) -> String {
        fail(&self.arguments(words))
    }

    /// Runs commands in standard input.
    fn script(&self, options: &[&str], lines: &str) -> Output {
        let mut command = tributary(&self.arguments(options));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }
}

#[test]
fn single_commands_write_and_read() {
    let device = Device::new(Some(ROUTER));
    assert!(device.run(&["tables"]).contains("ipv4_lpm"));
    let said = device.run(&["add", "ipv4_lpm", "dst=10.0.0.0/8", "forward", "port=1"]);
    assert_eq!(said.trim_end(), "added: ipv4_lpm dst=10.0.0.0/8 forward port=1");
    device.run(&["add ipv4_lpm dst=10.1.0.0/16 -> forward(port=2)"]);
    device.run(&["add", "ipv4_lpm", "dst=10.2.0.0/16", "forward(port=3)"]);
    let dump = device.run(&["dump", "ipv4_lpm"]);
    for part in ["10.0.0.0/8", "forward port=2", "forward port=3"] {
        assert!(dump.contains(part), "{part}: {dump}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&device.run(&["dump", "ipv4_lpm", "dst=10.0.0.0/8", "--json"]))
            .unwrap();
    assert_eq!(json[0]["table"], "MyIngress.ipv4_lpm");
    assert_eq!(json[0]["keys"]["hdr.ipv4.dst"], "10.0.0.0/8");
    assert_eq!(json[0]["action"]["params"]["port"], "1");
    assert_eq!(device.run(&["--json", "multicast"]).trim_end(), "[]");
    assert!(device.run(&["--json", "help"]).starts_with('['));
    device.run(&["register", "seen", "3", "-1"]);
    let line = device.fail(&["add", "ipv4_lmp", "dst=1"]);
    assert_eq!(line, "error: there is no table `ipv4_lmp`; did you mean `ipv4_lpm`?");
    let line = device.fail(&["dumb"]);
    assert!(line.contains("did you mean `dump`?"), "{line}");
}

#[test]
fn a_script_is_carried_out_up_to_its_first_error() {
    let device = Device::new(None);
    let program = device.directory.path().join("router.p4");
    std::fs::write(&program, ROUTER).unwrap();
    let lines = format!(
        "# the program\npipeline set {}\n\nadd ipv4_lpm dst=10.0.0.0/8 forward port=1\n\
         add ipv4_lpm dst=10.0.0.0/8 forward port=2\nclear all\n",
        program.display()
    );
    let output = device.script(&[], &lines);
    let line = failure(&["p4runtime"], &output);
    assert!(line.starts_with("error: line 5: ipv4_lpm dst=10.0.0.0/8 forward port=2: "), "{line}");
    assert!(text(&output.stdout).contains("added: ipv4_lpm"), "{}", text(&output.stdout));
    // What is saved restores the same.
    let saved = device.run(&["save"]);
    assert!(saved.contains("add ipv4_lpm dst=10.0.0.0/8 forward port=1"), "{saved}");
    let output = device.script(&["--json"], &format!("clear all\n{saved}quit\nnonsense\n"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines = text(&output.stdout);
    assert!(lines.lines().all(|line| line.starts_with('{')), "{lines}");
    assert_eq!(device.run(&["save"]), saved);
}

#[test]
fn a_missing_switch_and_a_wrong_program_are_reported() {
    let line = fail(&["p4runtime", "127.0.0.1:1", "tables"]);
    assert!(line.contains("no P4Runtime server answers at 127.0.0.1:1"), "{line}");
    let line = fail(&["p4runtime", "somewhere", "tables"]);
    assert!(line.contains("write HOST:PORT or unix:PATH"), "{line}");
    let device = Device::new(None);
    let program = device.directory.path().join("wrong.p4");
    std::fs::write(&program, "#include <core.p4>\ncontrol c() { apply { x = 1; } }\n").unwrap();
    let output = tributary(&device.arguments(&["pipeline", "set", &program.display().to_string()]));
    let output = { output }.output().unwrap();
    let line = failure(&["pipeline"], &output);
    assert!(line.contains("wrong.p4 has errors"), "{line}");
    assert!(text(&output.stderr).contains('x'), "the errors are printed: {}", text(&output.stderr));
}

#[test]
fn an_interrupted_script_stops_with_an_error() {
    let device = Device::new(Some(ROUTER));
    // While a command listens, and while the script waits for its next line.
    for (lines, place) in
        [("tables\npackets\ntables\n", "line 2"), ("packets seconds=0\ntables\n", "line 3")]
    {
        let mut command = tributary(&device.arguments(&[]));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut keys = child.stdin.take().unwrap();
        keys.write_all(lines.as_bytes()).unwrap();
        let mut said = [0; 1];
        child.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(300));
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        drop(keys);
        let line = failure(&["p4runtime"], &output);
        assert!(line.starts_with(&format!("error: {place}: interrupted")), "{line}");
        assert_eq!(text(&output.stdout).matches("ipv4_lpm").count(), 1);
    }
}

/// With util-linux's `script`, which gives the shell a terminal.
#[test]
fn the_shell_completes_and_goes_on_after_errors() {
    if Command::new("script").arg("--version").output().is_err() {
        println!("skipped: the shell needs a terminal, from script (util-linux)");
        return;
    }
    let device = Device::new(Some(ROUTER));
    let shell = format!("{} p4runtime {}", crate::PROGRAM, device.address);
    let mut command = Command::new("script");
    command.args(["-qec", &shell, "/dev/null"]).env("TERM", "xterm");
    command.env("XDG_STATE_HOME", device.directory.path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (mut keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut said = Vec::new();
    let history = device.directory.path().join("tributary/p4runtime.history");
    // What is typed before a prompt is lost.
    for (line, answer) in [
        ("", "Ctrl-D leaves"),
        ("add ipv\tds\t10.0.0.0/8 fo\tpo\t1\r", "added: ipv4_lpm dst=10.0.0.0/8 forward port=1"),
        ("nonsense\r", "error: there is no command `nonsense`"),
        ("dump ipv4_lpm\r", "│ 10.0.0.0/8 ┆ forward port=1 │"),
        ("exit\r", ""),
    ] {
        if line == "exit\r" {
            // Another shell ends first.
            std::fs::create_dir_all(history.parent().unwrap()).unwrap();
            std::fs::write(&history, "#V2\nlist registers\n").unwrap();
        }
        keys.write_all(line.as_bytes()).unwrap();
        said.clear();
        let is_answered = |said: &[u8]| {
            let said = text(said);
            let behind = said.split_once(answer).map_or("", |(_, behind)| behind);
            // The terminal shows the prompt when it is complete.
            let prompt = behind.rfind("p4runtime> ").map_or("", |at| &behind[at..]);
            prompt.contains("\u{1b}[?2026l")
        };
        let mut bytes = [0; 4096];
        while !is_answered(&said) {
            match screen.read(&mut bytes).unwrap() {
                0 => break,
                length => said.extend_from_slice(&bytes[..length]),
            }
        }
        assert!(text(&said).contains(answer), "{answer}: {}", text(&said));
    }
    assert!(child.wait().unwrap().success(), "{}", text(&said));
    let kept = std::fs::read_to_string(&history).unwrap();
    assert!(kept.contains("list registers") && kept.contains("dump ipv4_lpm"), "{kept}");
    let mode = std::fs::metadata(&history).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
