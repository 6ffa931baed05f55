//! `bmv2-testbed/run.py`: its errors without Mininet, and jobs on BMv2 under Mininet if both are
//! installed.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::bmv2::installed;
use crate::command::{root, text};
use crate::deaths::signal;

/// The Python of a distribution's Mininet.
const PYTHON: &str = "/usr/bin/python3";

fn run_py(args: &[&str]) -> Command {
    let mut command = Command::new(PYTHON);
    command.arg("bmv2-testbed/run.py").current_dir(root());
    command.args(["--tributary", env!("CARGO_BIN_EXE_tributary")]).args(args);
    command
}

/// Whether the system's Python exists and is new enough to read TOML; prints a message if not.
fn python() -> bool {
    let probe = Command::new(PYTHON).args(["-c", "import tomllib"]).output();
    let found = probe.is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: {PYTHON} 3.11 not found");
    }
    found
}

/// Whether jobs can run on BMv2 under Mininet here; prints a message if not.
fn mininet() -> bool {
    python() && installed("simple_switch_grpc") && installed("p4c-bm2-ss") && has_mininet()
}

/// Whether Mininet can run here; prints a message if not.
fn has_mininet() -> bool {
    let probe = Command::new(PYTHON).args(["-c", "import mininet"]).output().unwrap();
    if !probe.status.success() || !installed("mnexec") {
        println!("skipped: Mininet not found");
        return false;
    }
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: Mininet needs root");
        return false;
    }
    true
}

fn failure(output: &Output) -> String {
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let line = errors.lines().find(|line| line.starts_with("error: "));
    line.unwrap_or_else(|| panic!("no error line in {errors}")).to_owned()
}

/// Runs a job, all of whose values must be verified. Returns its output and its report.
fn succeed(args: &[&str]) -> (String, Value) {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("report.json");
    let mut all = args.to_vec();
    let name = json.display().to_string();
    all.extend(["--json-out", &name]);
    let output = run_py(&all).output().unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{args:?}: {said}{}", text(&output.stderr));
    assert!(said.contains("all equal"), "{said}");
    let report: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    for worker in report["workers"].as_array().unwrap() {
        assert_eq!(worker["verified"], worker["values"], "{worker}");
    }
    (said, report)
}

/// A job small enough for BMv2 on a busy machine.
fn small(directory: &Path, protocol: &str) -> String {
    let file = directory.join("small.toml");
    let job = "[[job]]\nname = \"small\"\n\
               workload = { kind = \"random\", tensors = 4, elements = 8000 }\n";
    std::fs::write(&file, format!("protocol = \"{protocol}\"\n{job}")).unwrap();
    file.display().to_string()
}

#[test]
fn topologies_are_listed_and_shown_without_mininet() {
    if !python() {
        return;
    }
    let list = text(&run_py(&["--list"]).output().unwrap().stdout);
    for name in ["one-rack", "two-racks", "four-units", "fat-tree"] {
        assert!(list.contains(name), "{list}");
        let job = ["--topology", name, "--job", "examples/two-racks.toml", "--dry-run"];
        let output = run_py(&job).output().unwrap();
        let said = text(&output.stdout);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(said.contains("worker 3 of across") && said.contains("[topology]"), "{said}");
    }
    let four = ["--topology", "four-units", "--job", "examples/two-racks.toml", "--dry-run"];
    let said = text(&run_py(&four).output().unwrap().stdout);
    assert!(said.contains("circuit through optical"), "{said}");
    assert!(said.contains("takes the place of that in examples/two-racks.toml"), "{said}");
}

/// (2/2)² cores, two pods with one switch above one rack each; and so on.
#[test]
fn fat_trees_have_the_switches_of_their_k() {
    if !python() {
        return;
    }
    for (k, switches, hosts) in [("2", 5, 3), ("4", 20, 17), ("6", 45, 55)] {
        let args =
            ["--topology", "fat-tree", "--k", k, "--job", "examples/digits.toml", "--dry-run"];
        // 54 workers are more than a job may have: the error names the number.
        let directory = tempfile::tempdir().unwrap();
        let job = directory.path().join("job.toml");
        std::fs::write(&job, "[[job]]\nworkers = 2\n").unwrap();
        let mut args = args.map(str::to_owned);
        args[5] = job.display().to_string();
        let output = run_py(&args.each_ref().map(String::as_str)).output().unwrap();
        let said = text(&output.stdout);
        let expected = format!("{switches} switches, {hosts} hosts");
        assert!(said.contains(&expected), "k = {k}: {said}{}", text(&output.stderr));
    }
}

#[test]
fn oversized_jobs_are_reported_in_one_line() {
    if !python() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let bad = directory.path().join("bad.toml");
    let path = bad.display().to_string();
    let job = "examples/two-racks.toml";
    for (contents, says) in [
        ("[[switch]]\nname = \"s1\"\ncolour = 3\n", "no key `colour`"),
        ("[[link]]\nbetween = [\"a\", \"b\"]\n", "there is no host or switch a"),
        ("[racks]\n", "unknown table [racks]"),
        (
            "[[switch]]\nname = \"s1\"\n[links]\nbandwidth = true\n[[host]]\nname = \"a\"\n[[link]]\nbetween = [\"a\", \"s1\"]\nbandwidth = 0\n",
            "bandwidth is in Mbit/s",
        ),
        (
            "[[switch]]\nname = \"s1\"\n[[host]]\nname = \"a\"\n[[patch]]\nname = \"p\"\n[[link]]\nbetween = [\"a\", \"s1\"]\nthrough = \"p\"\n",
            "only links between switches",
        ),
        ("= 3", "bad.toml"),
    ] {
        std::fs::write(&bad, contents).unwrap();
        let line =
            failure(&run_py(&["--topology", &path, "--job", job, "--dry-run"]).output().unwrap());
        assert!(line.contains(says), "{line}");
    }
    for (args, says) in [
        (
            vec!["--job", job, "--topology", "no-rack"],
            "choose four-units, one-rack, two-racks, fat-tree",
        ),
        (vec!["--job", job, "--topology", "fat-tree", "--k", "3"], "even k"),
        (vec!["--job", "no-such-file.toml"], "no-such-file.toml"),
        (vec![], "--job JOB.toml"),
        (vec!["--job", job, "--restart", "s9@1"], "there is no switch s9"),
        (
            vec!["--job", "examples/p4inc-both.toml", "--topology", "one-rack"],
            "examples/p4inc-both.toml with topology one-rack: there is no host `w5`",
        ),
    ] {
        let line = failure(&run_py(&args).output().unwrap());
        assert!(line.contains(says), "{line}");
    }
}

#[test]
fn missing_programs_are_named() {
    if !python() {
        return;
    }
    let empty = tempfile::tempdir().unwrap();
    let args = ["--topology", "one-rack", "--job", "examples/digits.toml"];
    let output = run_py(&args).env("PATH", empty.path()).output().unwrap();
    let line = failure(&output);
    assert!(line.contains("simple_switch_grpc is not on the PATH"), "{line}");
}

#[test]
fn a_job_runs_on_every_topology_under_mininet() {
    if !mininet() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for (protocol, topology) in [
        ("atp", &["--topology", "one-rack"][..]),
        ("esa", &["--topology", "two-racks"]),
        ("p4inc", &["--topology", "four-units"]),
        ("atp", &["--topology", "fat-tree", "--k", "2", "--hosts-per-rack", "2"]),
    ] {
        let job = small(directory.path(), protocol);
        let mut args = vec!["--job", &job];
        args.extend(topology);
        let (said, report) = succeed(&args);
        assert!(!report["workers"].as_array().unwrap().is_empty());
        assert!(said.contains("job small (1) removed"), "{said}");
    }
    let (_, report) =
        succeed(&["--topology", "one-rack", "--job", &small(directory.path(), "switchml")]);
    assert_eq!(report["workers"].as_array().unwrap().len(), 4);
}

#[test]
fn a_switch_that_is_started_again_gets_everything_back_under_mininet() {
    if !mininet() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("long.toml");
    let job = "worker_timeout = \"60s\"\n[[job]]\nname = \"long\"\n\
               workload = { kind = \"random\", tensors = 30, elements = 16000 }\n\
               [[job.straggler]]\nworker = 0\ndelay = \"100ms\"\n";
    std::fs::write(&file, job).unwrap();
    let args =
        ["--topology", "one-rack", "--job", &file.display().to_string(), "--restart", "s1@1"];
    let (said, report) = succeed(&args);
    assert!(said.contains("switch s1 was killed and started again"), "{said}");
    let workers = report["workers"].as_array().unwrap();
    let resends: u64 = workers.iter().map(|worker| worker["resent"].as_u64().unwrap()).sum();
    assert!(resends > 0, "packets were lost: {report}");
}

/// Command lines of processes that contain the socket directory of a run.
fn of_run(outer: u32) -> Vec<String> {
    let text = format!("tributary-bmv2-{outer}/");
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(&text)).collect()
}

fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(240);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn start(job: &str) -> Child {
    let mut command = run_py(&["--topology", "one-rack", "--job", job]);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_run_under_mininet_that_is_interrupted_or_killed_leaves_nothing() {
    if !mininet() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("long.toml");
    let job = "[[job]]\nworkload = { kind = \"random\", tensors = 5000, elements = 16000 }\n";
    std::fs::write(&file, job).unwrap();
    for how in [Signal::SIGTERM, Signal::SIGKILL] {
        let mut run = start(&file.display().to_string());
        let id = run.id();
        until("no worker was started", || of_run(id).iter().any(|line| line.contains(" worker ")));
        signal(i32::try_from(id).unwrap(), how);
        run.wait().unwrap();
        until("processes are left", || of_run(id).is_empty());
    }
    // The next run removes the directory of the killed one.
    let next = start(&small(directory.path(), "atp")).wait_with_output().unwrap();
    assert!(next.status.success(), "{}", text(&next.stderr));
    let left = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    let left = left.filter(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let number = name.strip_prefix("tributary-bmv2-");
        number.is_some_and(|id| !Path::new("/proc").join(id).exists())
    });
    assert_eq!(left.count(), 0);
}

/// Whether networks can run under Mininet here, without BMv2; prints a message if not.
fn mininet_alone() -> bool {
    python() && has_mininet()
}

/// What a call of `mn` or of a script prints. It has network and process namespaces of its own: after an error, `mn`
/// removes all that could be Mininet's.
fn in_mininet(program: &str, args: &[&str]) -> String {
    let mut command = Command::new("unshare");
    command.args(["--net", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    command.args(["sh", "-c", "ip link set lo up; exec \"$@\"", "sh", program]).args(args);
    command.current_dir(root()).env("TRIBUTARY", env!("CARGO_BIN_EXE_tributary"));
    let output = command.output().unwrap();
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{program} {args:?}: {said}{errors}");
    said + &errors
}

#[test]
fn two_programs_run_in_one_network_under_mininet() {
    if !mininet_alone() {
        return;
    }
    // The other host refuses a connection: packets and their checksums arrive both ways.
    let reach = "h1:timeout 20 bash -c 'exec 3<>/dev/tcp/10.0.0.2/9' 2>&1 | grep refused";
    let said = in_mininet(PYTHON, &["bmv2-testbed/two_programs.py", reach]);
    assert!(said.contains("refused"), "{said}");
}

#[test]
fn mn_starts_the_switch_as_a_custom_one() {
    if !mininet_alone() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    // Ports 1 and 2 send to each other.
    let headers = root().join("examples/testbed/headers.p4");
    std::fs::write(
        path("wire.p4"),
        format!(
            "#include \"{}\"
             control Wire(inout headers_t hdr, inout metadata_t meta,
                          inout standard_metadata_t sm) {{
                 apply {{ sm.egress_spec = CROSSED - sm.ingress_port; }}
             }}
             V1Switch(Parse(), Verify(), Wire(), Leave(), Update(), Emit()) main;",
            headers.display()
        ),
    )
    .unwrap();
    std::fs::write(path("commands"), "h1 timeout 20 bash -c 'exec 3<>/dev/tcp/10.0.0.2/9'\n")
        .unwrap();
    let switch = format!("tributary,p4={},defines=CROSSED=3", path("wire.p4"));
    let custom = "bmv2-testbed/tributary_switch.py";
    let args = ["--custom", custom, "--switch", &switch, "--controller", "none"];
    let more = ["--topo", "single,2", "--test", "none", "--post", &path("commands")];
    let said = in_mininet("mn", &[&args[..], &more].concat());
    assert!(said.contains("refused"), "{said}");
}

#[test]
fn a_program_with_an_error_is_reported_under_mininet() {
    if !mininet_alone() {
        return;
    }
    let script = "
import sys
sys.path.insert(0, 'bmv2-testbed')
from mininet.net import Mininet
from topology import Wrong
from tributary_switch import TributarySwitch
net = Mininet(controller=None, switch=TributarySwitch)
net.addLink(net.addHost('h1'), net.addSwitch('s1', p4='no-such.p4', p4runtime='127.0.0.1:0'))
try:
    net.start()
except Wrong as error:
    print(error)
finally:
    net.stop()
";
    let said = in_mininet(PYTHON, &["-c", script]);
    assert!(said.contains("switch s1 ended with status 1 (cannot read no-such.p4"), "{said}");
}
