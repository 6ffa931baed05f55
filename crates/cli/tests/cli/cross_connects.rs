//! Units around Open vSwitch and the emulated cross-connect, with embedded switches and BMv2: circuits change while
//! jobs run, and every sum is exact.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use tributary_model::circuits::Circuits;
use tributary_optical::crossconnect::{CrossConnect, connect};
use tributary_run::testbed::OpenVSwitch;

use crate::bmv2::bmv2;
use crate::command::{JobFile, fail, failure, namespaces, text, tributary};
use crate::deaths::{assert_gone, children, names, signal, under_way, wait_for_child};
use crate::examples::assert_verified;

/// Two jobs over two units each, which need the only port of the unit with their servers in turn.
const TURNS: &str = "protocol = \"p4inc\"\n\
    [topology]\nunits = 3\nhosts_per_unit = 2\noptical_ports = 1\nreconfiguration = \"5ms\"\n\
    [orchestrator]\nslot = \"200ms\"\nport_rate = \"20Mb/s\"\nswitch_rate = \"1Gb/s\"\nstep = \"5Mb/s\"\n\
    [[job]]\nname = \"second\"\nworkers = [\"w1\", \"w3\"]\nps = \"ps1\"\n\
    workload = { kind = \"random\", tensors = TENSORS, bytes = \"100KB\" }\n\
    [[job]]\nname = \"third\"\nworkers = [\"w2\", \"w5\"]\nps = \"ps1\"\n\
    workload = { kind = \"random\", tensors = TENSORS, bytes = \"100KB\" }\n";

const OPEN_VSWITCH: [&str; 2] = ["--cross-connect", "openvswitch"];
const BMV2: [&str; 2] = ["--target", "bmv2"];

/// Time between two looks at the circuits.
const LOOK: Duration = Duration::from_millis(20);

fn turns(tensors: u32) -> JobFile {
    JobFile::new(&TURNS.replace("TENSORS", &tensors.to_string()))
}

/// Whether Open vSwitch can run here; prints a message if not.
fn open_vswitch() -> bool {
    let obstacle = OpenVSwitch::check().err();
    if let Some(obstacle) = &obstacle {
        println!("skipped: {obstacle}");
    }
    obstacle.is_none() && namespaces()
}

/// The address of a run's cross-connect, once it listens.
fn address(temporary: &Path) -> Option<String> {
    let [directory] = &names(temporary)[..] else { return None };
    let found = |name: &str| Some(temporary.join(directory).join(name)).filter(|at| at.exists());
    let of = |kind: &str, socket: PathBuf| format!("{kind}:unix:{}", socket.display());
    let emulated = found("cross-connect.sock").map(|socket| of("emulated", socket));
    emulated.or_else(|| found("openvswitch/oxc.control").map(|socket| of("openflow", socket)))
}

/// Runs a job file, calls `look` with its cross-connect again and again, and returns the report and all circuits that
/// were seen.
fn watched(
    job: &str,
    more: &[&str],
    mut look: impl AsyncFnMut(&mut dyn CrossConnect),
) -> (Value, BTreeSet<String>) {
    let temporary = tempfile::tempdir().unwrap();
    let json = tempfile::NamedTempFile::new().unwrap();
    let name = json.path().display().to_string();
    let args = [&["run", job, "--fabric", "netns", "--json-out", &name], more].concat();
    let mut command = tributary(&args);
    command.env("TMPDIR", temporary.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = command.spawn().unwrap();
    let seen = tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut seen = BTreeSet::new();
        let mut device = None;
        while run.try_wait().unwrap().is_none() {
            if device.is_none()
                && let Some(address) = address(temporary.path())
            {
                device = Some(connect(&address, Duration::from_secs(2), None).unwrap());
            }
            if let Some(device) = &mut device {
                seen.extend(device.circuits().await.ok().map(|circuits| circuits.to_string()));
                look(device.as_mut()).await;
            }
            tokio::time::sleep(LOOK).await;
        }
        seen
    });
    let output = run.wait_with_output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    assert_eq!(names(temporary.path()), [""; 0], "{args:?}");
    let report = serde_json::from_str(&std::fs::read_to_string(json.path()).unwrap()).unwrap();
    assert_verified(&report);
    (report, seen)
}

/// Runs the two jobs, whose circuits must take turns.
fn take_turns(more: &[&str]) -> Value {
    let (report, seen) = watched(&turns(4).name(), more, async |_| {});
    for circuits in ["1-2", "1-3"] {
        assert!(seen.contains(circuits), "{more:?}: {seen:?}");
    }
    report
}

#[test]
fn circuits_of_the_emulated_cross_connect_change_while_jobs_run() {
    if namespaces() {
        take_turns(&[]);
    }
}

#[test]
fn circuits_of_open_vswitch_change_while_jobs_run() {
    if !open_vswitch() {
        return;
    }
    take_turns(&OPEN_VSWITCH);
    let (report, seen) = watched("examples/units.toml", &OPEN_VSWITCH, async |_| {});
    let jobs = report["jobs"].as_array().unwrap();
    let summed: Vec<_> =
        jobs.iter().map(|job| job["summed_in_network"].as_f64().unwrap()).collect();
    assert_eq!(summed, [1.0, 0.0, 1.0], "{report}");
    assert!(seen.len() > 1, "{seen:?}");
}

#[test]
fn circuits_change_between_units_of_bmv2() {
    if !bmv2() {
        return;
    }
    assert_eq!(take_turns(&BMV2)["switch"], "bmv2");
    watched("examples/units.toml", &BMV2, async |_| {});
    let lossy = TURNS.replace("TENSORS", "1") + "[faults]\nloss = 0.01\n";
    let file = JobFile::new(&lossy);
    let name = file.name();
    let args = [&["run", &name, "--fabric", "netns"], &BMV2[..]].concat();
    let output = tributary(&args).output().unwrap();
    let errors = text(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(errors.contains("`[faults]` is ignored on the fibres between units"), "{errors}");
}

#[test]
fn circuits_of_open_vswitch_change_between_units_of_bmv2() {
    if !bmv2() || !open_vswitch() {
        return;
    }
    let both = [OPEN_VSWITCH, BMV2].concat();
    assert_eq!(take_turns(&both)["switch"], "bmv2");
    watched("examples/units.toml", &both, async |_| {});
}

/// As another controller would remove them.
#[test]
fn the_loop_restores_flows_that_open_vswitch_has_lost() {
    if !open_vswitch() {
        return;
    }
    let mut lost = 0;
    let (_, seen) = watched(&turns(6).name(), &OPEN_VSWITCH, async |device| {
        if lost < 3 && device.circuits().await.is_ok_and(|circuits| !circuits.is_empty()) {
            lost += u32::from(device.change(&Circuits::DARK).await.is_ok());
        }
    });
    assert_eq!(lost, 3, "{seen:?}");
}

#[test]
fn a_program_of_open_vswitch_that_dies_is_named() {
    if !open_vswitch() {
        return;
    }
    let file = turns(10_000);
    let name = file.name();
    let args = [&["run", &name, "--fabric", "netns"], &OPEN_VSWITCH[..]].concat();
    for victim in ["ovs-vswitchd", "ovsdb-server"] {
        let (run, process, before) = under_way(&args, victim);
        signal(process, Signal::SIGKILL);
        let line = failure(&args, &run.wait_with_output().unwrap());
        let said = format!("error: the cross-connect ({victim}) ended with signal: 9 (SIGKILL)");
        assert_eq!(line, said);
        assert_gone(&before);
    }
}

#[test]
fn nothing_of_open_vswitch_outlives_a_run() {
    if !open_vswitch() {
        return;
    }
    let file = turns(10_000);
    let name = file.name();
    let args = [&["run", &name, "--fabric", "netns"], &OPEN_VSWITCH[..]].concat();
    for signalled in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL] {
        let temporary = tempfile::tempdir().unwrap();
        let mut command = tributary(&args);
        command.env("TMPDIR", temporary.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let run = command.spawn().unwrap();
        wait_for_child(run.id(), "--worker 1");
        let before = children(run.id());
        assert!(before.iter().any(|(_, line)| line.contains("ovs-vswitchd")), "{before:?}");
        signal(run.id().cast_signed(), signalled);
        let output = run.wait_with_output().unwrap();
        assert_gone(&before);
        if signalled != Signal::SIGKILL {
            assert!(failure(&args, &output).contains("interrupted"), "{signalled}");
            assert_eq!(names(temporary.path()), [""; 0], "{signalled}");
        }
    }
}

#[test]
fn open_vswitch_is_refused_where_it_cannot_be() {
    let units = "examples/units.toml";
    for (job, more, says) in [
        (units, &["--fabric", "sim"][..], "--cross-connect openvswitch needs --fabric netns"),
        (
            "examples/digits.toml",
            &["--fabric", "netns"],
            "--cross-connect: examples/digits.toml has no units around a cross-connect",
        ),
        (
            units,
            &["--fabric", "netns", "--io", "gso"],
            "--io gso: Open vSwitch takes datagrams one by one; use --io packet or udp",
        ),
        (units, &["--fabric", "netns", "--pin"], "--pin is for our own processes"),
    ] {
        let line = fail(&[&["run", job], more, &OPEN_VSWITCH].concat());
        assert!(line.contains(says), "{line}");
    }
    let args = [&["run", units, "--fabric", "netns"], &OPEN_VSWITCH[..]].concat();
    let nothing = tempfile::tempdir().unwrap();
    let line = failure(&args, &tributary(&args).env("PATH", nothing.path()).output().unwrap());
    assert_eq!(
        line,
        "error: ovs-vswitchd is not on the PATH; install Open vSwitch \
         (docs/operate/cross-connects.md)"
    );
}
