//! `tributary-lab chaos` for a few seconds.

use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::command::{JobFile, fail, failure, namespaces, text, tributary};
use crate::deaths::{assert_gone, children, names, signal, wait_for_child};

/// Short runs, so that there are several.
fn job(protocol: &str) -> String {
    format!(
        "protocol = \"{protocol}\"\nworker_timeout = \"2s\"\n[topology]\nkind = \"star\"\nworkers = 3\n\
         [switch]\npool = 64\n[faults]\nloss = 0.01\n[[job]]\nname = \"a\"\n\
         workload = {{ kind = \"random\", tensors = 40, elements = 2000 }}\n\
         [[job.straggler]]\nworker = 0\ndelay = \"10ms\"\n"
    )
}

/// The number before a word in a text.
fn count(text: &str, word: &str) -> u64 {
    let before = text.split(word).next().unwrap();
    let number = before.trim_end().rsplit([' ', '\n', '(']).next().unwrap();
    number.parse().unwrap_or_else(|_| panic!("no number before `{word}` in {text}"))
}

#[test]
fn every_sum_is_right_while_parts_are_killed() {
    if !namespaces() {
        return;
    }
    let file = JobFile::new(&job("atp"));
    let name = file.name();
    let args = ["lab", "chaos", &name, "--minutes", "0.15", "--seed", "4", "--every", "700"];
    let temporary = tempfile::tempdir().unwrap();
    let output = tributary(&args).env("TMPDIR", temporary.path()).output().unwrap();
    let (report, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{errors}\n{report}");
    assert!(count(&report, "runs complete") > 0, "{report}");
    assert!(count(&report, "sums compared") > 50, "{report}");
    assert_eq!(count(&report, "wrong"), 0, "{report}");
    for said in ["killed, back after", "down for"] {
        assert!(errors.contains(said), "{errors}");
    }
    assert_eq!(names(temporary.path()), [""; 0]);
}

/// Workers die for good, until the next run.
#[test]
fn jobs_go_on_without_workers_that_are_killed() {
    if !namespaces() {
        return;
    }
    let file = job("atp").replace("name = \"a\"\n", "name = \"a\"\non_death = \"continue\"\n");
    let file = JobFile::new(&file.replace("tensors = 40", "tensors = 150"));
    let name = file.name();
    let args = ["lab", "chaos", &name, "--minutes", "0.3", "--seed", "6", "--every", "900"];
    let output = tributary(&args).output().unwrap();
    let (report, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{errors}\n{report}");
    assert!(count(&report, "runs complete") > 0, "{report}");
    assert!(count(&report, "times without workers") > 0, "{report}\n{errors}");
    assert_eq!(count(&report, "wrong"), 0, "{report}");
}

/// Two jobs over two racks, on links that lose, repeat and reorder packets. Job `one` goes on without workers
/// that die.
fn over_racks(protocol: &str, servers: &str, roles: &str) -> String {
    format!(
        "protocol = \"{protocol}\"\nworker_timeout = \"3s\"\n[topology]\nkind = \"racks\"\nracks = 2\n\
         hosts_per_rack = 3\nps_hosts = {servers}\n[switch]\npool = 64\n[faults]\nloss = 0.01\n\
         duplicate = 0.02\nreorder = 0.02\njitter = \"200us\"\n\
         [[job]]\nname = \"one\"\nworkers = [\"w1\", \"w2\", \"w4\", \"w5\"]\n\
         on_death = \"continue\"\nmin_workers = 2\n{roles}\
         workload = {{ kind = \"random\", tensors = 150, elements = 3000 }}\n\
         [[job.straggler]]\nworker = 0\ndelay = \"10ms\"\n\
         [[job]]\nname = \"two\"\nworkers = [\"w3\", \"w6\"]\n{roles}\
         workload = {{ kind = \"random\", tensors = 60, elements = 8000 }}\n"
    )
}

#[test]
fn a_job_over_racks_goes_on_beside_another() {
    if !namespaces() {
        return;
    }
    for (protocol, servers, roles) in
        [("atp", "1", "ps = \"ps\"\n"), ("esa", "2", "ps = \"ps1\"\nagent = \"ps2\"\n")]
    {
        let file = JobFile::new(&over_racks(protocol, servers, roles));
        let name = file.name();
        let args = ["lab", "chaos", &name, "--minutes", "0.3", "--seed", "11", "--every", "900"];
        let output = tributary(&args).output().unwrap();
        let (report, errors) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{protocol}: {errors}\n{report}");
        assert!(count(&report, "sums compared") > 0, "{protocol}: {report}");
        assert!(count(&report, "times without workers") > 0, "{protocol}: {report}\n{errors}");
        assert_eq!(count(&report, "wrong"), 0, "{protocol}: {report}");
    }
}

/// A client admits jobs, moves, paces and releases them meanwhile.
#[test]
fn jobs_that_a_client_decides_about_are_disturbed() {
    if !namespaces() {
        return;
    }
    let args = ["lab", "chaos", "examples/chaos/p4inc.toml", "--minutes", "0.4", "--every", "900"];
    let args = [&args[..], &["--seed", "1", "--clients"]].concat();
    let output = tributary(&args).output().unwrap();
    let (report, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{errors}\n{report}");
    assert!(count(&report, "sums compared") > 20, "{report}");
    assert!(count(&report, "iterations") > 10, "{report}");
    assert!(count(&report, "moves") > 0, "{report}");
    assert_eq!(count(&report, "wrong"), 0, "{report}");
}

/// The control loop schedules some of the jobs, and the cross-connect fails, too.
#[test]
fn jobs_of_the_control_loop_are_disturbed() {
    if !namespaces() {
        return;
    }
    let args = ["lab", "chaos", "examples/chaos/units.toml", "--minutes", "0.4", "--every", "900"];
    let output = tributary(&args).output().unwrap();
    let (report, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{errors}\n{report}");
    assert!(count(&report, "sums compared") > 20, "{report}");
    assert!(count(&report, "admissions with a demand") > 0, "{report}");
    assert!(errors.contains("the cross-connect: killed"), "{errors}");
    assert_eq!(count(&report, "wrong"), 0, "{report}");
}

/// Each part of three units fails once.
#[test]
fn jobs_get_over_each_part_in_turn() {
    if !namespaces() {
        return;
    }
    let args = ["lab", "chaos", "examples/chaos/units.toml", "--in-turn", "--every", "100"];
    let output = tributary(&args).output().unwrap();
    let (report, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{errors}\n{report}");
    let failures = ["unit1", "unit2", "unit3"].map(|unit| format!("switch {unit} "));
    let others =
        ["the controller", "the cross-connect", "server ps1", "server ps2"].map(String::from);
    let workers =
        ["worker 0 of job near", "worker 1 of job near", "worker 2 of job far"].map(String::from);
    for part in failures.iter().chain(&others).chain(&workers) {
        assert_eq!(report.matches(&format!("│ {part}")).count(), 1, "{part}: {report}");
    }
    assert!(report.matches(" cut ").count() > 5, "{report}");
    assert_eq!(count(&report, "wrong"), 0, "{report}");
}

#[test]
fn an_interrupted_chaos_leaves_nothing_behind() {
    if !namespaces() {
        return;
    }
    let file = JobFile::new(&job("switchml").replace("pool = 64", "pool = 1024\npartitions = 1"));
    let name = file.name();
    let args = ["lab", "chaos", &name, "--minutes", "5", "--every", "500"];
    let temporary = tempfile::tempdir().unwrap();
    let mut command = tributary(&args);
    command.env("TMPDIR", temporary.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let chaos = command.spawn().unwrap();
    wait_for_child(chaos.id(), "--worker 2");
    std::thread::sleep(Duration::from_secs(3));
    let before = children(chaos.id());
    // A terminal and a script may both send one.
    signal(chaos.id().cast_signed(), Signal::SIGINT);
    std::thread::sleep(Duration::from_millis(5));
    signal(chaos.id().cast_signed(), Signal::SIGINT);
    let output = chaos.wait_with_output().unwrap();
    let line = failure(&args, &output);
    assert!(line.contains("interrupted"), "{line}");
    assert_gone(&before);
    assert_eq!(names(temporary.path()), [""; 0]);
}

#[test]
fn jobs_whose_sums_prove_nothing_are_refused() {
    let file = JobFile::new("[[job]]\nworkload = { kind = \"digits\" }\n");
    let line = fail(&["lab", "chaos", &file.name()]);
    assert!(line.contains("give it a workload of kind \"random\""), "{line}");
    let file = JobFile::new("[[job]]\non_death = \"wait\"\n");
    let line = fail(&["lab", "chaos", &file.name()]);
    assert!(line.contains("set on_death = \"continue\""), "{line}");
    let line = fail(&["lab", "chaos", "/nonexistent.toml"]);
    assert!(
        line.contains("/nonexistent.toml") || line.contains("cannot find the job file"),
        "{line}"
    );
}
