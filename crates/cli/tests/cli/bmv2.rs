//! Jobs on BMv2, if it and p4c are installed; and the errors if they are not.

use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::command::{JobFile, fail, failure, namespaces, tributary};
use crate::deaths::{assert_gone, signal, under_way};
use crate::examples::{assert_verified, number, report};

/// Whether a program is on the `PATH`; prints a message if not.
pub(crate) fn installed(program: &str) -> bool {
    let found = tributary_base::programs::on_path(program).is_some();
    if !found {
        println!("skipped: {program} not found on the PATH");
    }
    found
}

/// Whether this machine can run jobs on BMv2.
pub(crate) fn bmv2() -> bool {
    installed("simple_switch_grpc") && installed("p4c-bm2-ss") && namespaces()
}

fn on_bmv2(job: &str) -> Value {
    let report = report(job, "netns", &["--target", "bmv2"]);
    assert_verified(&report);
    assert_eq!(report["switch"], "bmv2");
    report
}

/// A packet counter of a switch or job; the report omits zeros.
fn of(counted: &Value, outcome: &str) -> u64 {
    counted["outcomes"][outcome].as_u64().unwrap_or(0)
}

#[test]
fn atp_trains_on_bmv2() {
    if !bmv2() {
        return;
    }
    let report = on_bmv2("examples/digits.toml");
    let job = &report["jobs"][0];
    assert_eq!(job["matches_reference"], true);
    assert!(of(job, "completed") > 0, "{job}");
    assert!(report["switches"][0]["cpu_seconds"].as_f64().unwrap() > 0.0);
}

#[test]
fn atp_over_two_racks_of_bmv2_adds_at_both_levels() {
    if !bmv2() {
        return;
    }
    for switch in on_bmv2("examples/two-racks.toml")["switches"].as_array().unwrap() {
        assert!(of(switch, "completed") > 0, "{switch}");
    }
}

#[test]
fn losses_of_links_are_repaired_on_bmv2() {
    if !bmv2() {
        return;
    }
    let report = on_bmv2("examples/lossy.toml");
    assert!(of(&report["switches"][0], "flushed") > 0, "packets were lost: {report}");
}

/// The link between two BMv2 racks loses packets, although BMv2 cannot inject faults.
#[test]
fn a_cable_between_switches_of_bmv2_loses_packets() {
    if !bmv2() {
        return;
    }
    let text = "[topology]\nkind = \"racks\"\nracks = 2\nhosts_per_rack = 1\n\
                [[faults.link]]\nbetween = [\"rack2\", \"rack1\"]\nloss = 0.1\nduplicate = 0.1\n\
                [[job]]\nworkload = { kind = \"random\", tensors = 2, elements = 16000 }\n";
    let report = on_bmv2(&JobFile::new(text).name());
    let workers = report["jobs"][0]["workers"].as_array().unwrap();
    let resends: u64 = workers.iter().map(|worker| number(&worker["resent"])).sum();
    assert!(resends > 10, "a tenth of 500 results: {report}");
}

#[test]
fn esa_preempts_and_repairs_on_bmv2() {
    if !bmv2() {
        return;
    }
    let report = on_bmv2("examples/esa-two-jobs.toml");
    let jobs = report["jobs"].as_array().unwrap();
    let sum = |key: &str| jobs.iter().map(|job| number(&job["esa"][key])).sum::<u64>();
    assert!(sum("preemptions") > 0, "{report}");
    assert_eq!(sum("preemptions"), sum("evictions"), "who takes, takes from somebody");
    on_bmv2("examples/esa-lossy.toml");
    on_bmv2("examples/esa-two-racks.toml");
}

#[test]
fn jobs_with_segments_run_on_bmv2() {
    if !bmv2() {
        return;
    }
    let report = on_bmv2("examples/p4inc-local.toml");
    let job = &report["jobs"][0];
    assert!(number(&job["segment"]["from_the_copy"]) > 0, "results were lost: {job}");
    on_bmv2("examples/p4inc-two-units.toml");
    on_bmv2("examples/p4inc-both.toml");
    on_bmv2("examples/switchml.toml");
}

#[test]
fn a_switch_that_dies_is_named() {
    if !bmv2() {
        return;
    }
    let file = JobFile::new(
        "[topology]\nkind = \"star\"\nworkers = 2\n[[job]]\n\
         workload = { kind = \"random\", tensors = 1000, elements = 1000 }\n",
    );
    let name = file.name();
    let args = ["run", &name, "--fabric", "netns", "--target", "bmv2"];
    let (run, switch, before) = under_way(&args, "simple_switch_grpc");
    signal(switch, Signal::SIGKILL);
    let killed = Instant::now();
    let output = run.wait_with_output().unwrap();
    let line = failure(&args, &output);
    assert!(line.contains("switch s1 (") && line.contains("simple_switch_grpc"), "{line}");
    assert!(line.contains("SIGKILL"), "{line}");
    assert!(killed.elapsed() < Duration::from_secs(15), "{:?}", killed.elapsed());
    assert_gone(&before);
}

#[test]
fn bmv2_without_interfaces_is_refused() {
    let line = fail(&["run", "examples/digits.toml", "--target", "bmv2"]);
    assert!(line.contains("--target bmv2 needs --fabric netns"), "{line}");
}

#[test]
fn missing_programs_are_named_before_anything_starts() {
    let run = |path: &str| {
        let args = ["run", "examples/digits.toml", "--fabric", "netns", "--target", "bmv2"];
        let output = tributary(&args).env("PATH", path).output().unwrap();
        failure(&args, &output)
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display().to_string();
    let line = run(&path);
    assert_eq!(
        line,
        "error: simple_switch_grpc is not on the PATH; install BMv2 (docs/operate/bmv2.md)"
    );
    std::fs::write(directory.path().join("simple_switch_grpc"), "").unwrap();
    let line = run(&path);
    assert!(line.contains("p4c-bm2-ss is not on the PATH; install p4c"), "{line}");
}

#[test]
fn errors_of_cables_are_reported() {
    for (args, says) in [
        (vec!["lo", "lo"], "a cable has two ends"),
        (vec!["no-such-interface", "lo"], "no-such-interface"),
    ] {
        let mut all = vec!["cable", "--between"];
        all.extend(args);
        let line = fail(&all);
        assert!(line.contains(says), "{line}");
    }
}

#[test]
fn a_network_is_shown() {
    let output = Command::new(env!("CARGO_BIN_EXE_tributary"))
        .args(["network", "examples/two-racks.toml", "--json"])
        .current_dir(crate::command::root())
        .output()
        .unwrap();
    let network: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(network["switches"], serde_json::json!(["rack1", "rack2"]));
    let ends: Vec<&Value> =
        network["links"].as_array().unwrap().iter().map(|link| &link["ends"]).collect();
    assert!(ends.contains(&&serde_json::json!([["rack1", 4], ["rack2", 3]])), "{ends:?}");
    let ps = network["hosts"].as_array().unwrap().iter().find(|host| host["name"] == "ps");
    assert_eq!(ps.unwrap()["duties"][0]["duty"], "ps");
}
