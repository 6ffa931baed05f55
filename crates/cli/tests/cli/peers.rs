//! `bench allreduce --peers`: our all-reduce and OpenMPI's, if it is installed.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::bmv2::installed;
use crate::command::{fail, failure, namespaces, text, tributary};
use crate::deaths::{names, signal, wait_for_child};

/// The smallest measurement; without Gloo, whose start takes long.
const SMALLEST: [&str; 12] = [
    "lab",
    "bench",
    "allreduce",
    "--peers",
    "--workers=2",
    "--sizes=64KiB",
    "--mtu=1500",
    "--repeat=1",
    "--python",
    "no-such-python",
    "--json-out",
    "measured.json",
];

/// What ours are called in the table.
const OURS: [&str; 4] =
    ["ATP, 64 values", "SwitchML, 64 values", "P4INC, 64 values", "P4INC, 256 values"];

/// The smallest measurement, with all of its temporary files in `directory/temporary`.
fn smallest(directory: &Path) -> Command {
    let temporary = directory.join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let mut command = tributary(&SMALLEST);
    command.env("TMPDIR", temporary).current_dir(directory);
    command
}

/// Checks that no file is left in `directory/temporary`, and soon no process whose environment
/// names it.
fn assert_nothing_left(directory: &Path) {
    let temporary = directory.join("temporary");
    assert_eq!(names(&temporary), [""; 0]);
    let wanted = format!("TMPDIR={}", temporary.display());
    let processes = || -> Vec<String> {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let environments = entries.filter_map(|entry| {
            let environment = std::fs::read(entry.path().join("environ")).ok()?;
            String::from_utf8_lossy(&environment).contains(&wanted).then(|| {
                let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
                String::from_utf8_lossy(&line).replace('\0', " ")
            })
        });
        environments.collect()
    };
    let deadline = Instant::now() + Duration::from_secs(10);
    while let left = processes()
        && !left.is_empty()
    {
        assert!(Instant::now() < deadline, "left: {left:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn all_are_measured_in_turns_and_nothing_is_left() {
    if !namespaces() {
        return;
    }
    let openmpi = installed("mpirun") && installed("mpicc");
    let directory = tempfile::tempdir().unwrap();
    let output = smallest(directory.path()).output().unwrap();
    let printed = text(&output.stdout);
    assert!(output.status.success(), "{printed}{}", text(&output.stderr));
    let gloo = "Gloo is left out: cannot start no-such-python";
    assert!(printed.lines().any(|line| line.starts_with(gloo)), "{printed}");
    let left_out = printed.lines().filter(|line| line.starts_with("OpenMPI is left out: ")).count();
    assert_eq!(left_out, usize::from(!openmpi), "{printed}");

    let rows: Vec<Vec<&str>> = printed
        .lines()
        .filter(|line| line.starts_with("│ 2 "))
        .map(|line| line.trim_matches('│').split('┆').map(str::trim).collect())
        .collect();
    assert_eq!(rows.len(), OURS.len() + usize::from(openmpi), "{printed}");
    for (at, row) in rows.iter().enumerate() {
        assert_eq!(row[..2], ["2", "65.5 KB"], "{printed}");
        match OURS.get(at) {
            Some(name) => assert_eq!(row[2], *name),
            None => assert!(row[2].starts_with("OpenMPI, "), "{printed}"),
        }
    }
    let json = std::fs::read_to_string(directory.path().join("measured.json")).unwrap();
    let measured: Vec<Value> = serde_json::from_str(&json).unwrap();
    assert_eq!(measured.len(), rows.len());
    for one in measured {
        assert_eq!(one["failure"], Value::Null, "{one}");
        let runs = one["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 1, "{one}");
        for of in ["rounds", "gbps", "processor_per_gb"] {
            assert!(runs[0][of].as_f64().unwrap() > 0.0, "{one}");
        }
    }
    assert_nothing_left(directory.path());
}

#[test]
fn an_interrupted_measurement_leaves_nothing() {
    if !namespaces() {
        return;
    }
    let mut victims = vec!["switch --cores"];
    if installed("mpirun") && installed("mpicc") {
        victims.push("mpirun");
    }
    for victim in victims {
        let directory = tempfile::tempdir().unwrap();
        let mut command = smallest(directory.path());
        let run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_for_child(run.id(), victim);
        std::thread::sleep(Duration::from_millis(200));
        signal(run.id().cast_signed(), Signal::SIGINT);
        let line = failure(&SMALLEST, &run.wait_with_output().unwrap());
        assert!(line.contains("interrupted"), "{victim}: {line}");
        assert_nothing_left(directory.path());
    }
}

#[test]
fn peers_are_beside_all_reduce_only() {
    for what in [&["engine"][..], &["allreduce", "io"], &[]] {
        let line = fail(&[&["lab", "bench"][..], what, &["--peers"]].concat());
        assert!(line.contains("write `bench allreduce --peers`"), "{line}");
    }
    for wrong in [
        &["--workers", "1"][..],
        &["--workers", "33"],
        &["--sizes", "6B"],
        &["--sizes", "2GiB"],
        &["--sizes", "64"],
        &["--mtu", "9001"],
        &["--io", "tcp"],
        &["--fabric", "netns"],
    ] {
        let args = [&["lab", "bench", "allreduce", "--peers"][..], wrong].concat();
        let output = tributary(&args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(wrong[0]), "{}", text(&output.stderr));
    }
}
