//! Processes that die or are interrupted: the run ends, says who, and leaves nothing.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::command::{JobFile, failure, namespaces, tributary};

/// A job that takes long enough to be disturbed: one worker pauses before each of many tensors.
const LONG: &str = "worker_timeout = \"3s\"\n[topology]\nkind = \"star\"\nworkers = 3\n[[job]]\n\
                    name = \"long\"\n\
                    workload = { kind = \"random\", tensors = 1000, elements = 1000 }\n\
                    [[job.straggler]]\nworker = 0\ndelay = \"20ms\"\n";

pub(crate) fn start(args: &[&str]) -> Child {
    tributary(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The processes below one, with their command lines.
pub(crate) fn children(parent: u32) -> Vec<(i32, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        if after_name.split_whitespace().nth(1) != Some(&parent.to_string()) {
            continue;
        }
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        found.push((id, String::from_utf8_lossy(&line).replace('\0', " ")));
    }
    found
}

/// Waits for a process below another whose command line has a text.
pub(crate) fn wait_for_child(parent: u32, text: &str) -> i32 {
    let deadline = Instant::now() + Duration::from_secs(30);
    while Instant::now() < deadline {
        if let Some((id, _)) = children(parent).iter().find(|(_, line)| line.contains(text)) {
            return *id;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("no process with `{text}` was started");
}

pub(crate) fn signal(id: i32, signal: Signal) {
    kill(Pid::from_raw(id), signal).unwrap();
}

#[test]
fn a_worker_that_dies_is_named() {
    if !namespaces() {
        return;
    }
    let file = JobFile::new(LONG);
    let name = file.name();
    let args = ["run", &name, "--fabric", "netns"];
    let run = start(&args);
    let worker = wait_for_child(run.id(), "--worker 1");
    std::thread::sleep(Duration::from_millis(500));
    let before = children(run.id());
    signal(worker, Signal::SIGKILL);
    let killed = Instant::now();
    let output = run.wait_with_output().unwrap();
    assert!(killed.elapsed() < Duration::from_secs(10), "{:?}", killed.elapsed());
    let line = failure(&args, &output);
    assert!(line.contains("job long: worker 1 failed"), "{line}");
    assert_gone(&before);
}

#[test]
fn a_worker_that_falls_silent_is_named() {
    if !namespaces() {
        return;
    }
    let file = JobFile::new(LONG);
    let name = file.name();
    let args = ["run", &name, "--fabric", "netns"];
    let run = start(&args);
    let worker = wait_for_child(run.id(), "--worker 2");
    std::thread::sleep(Duration::from_millis(500));
    let before = children(run.id());
    signal(worker, Signal::SIGSTOP);
    let output = run.wait_with_output().unwrap();
    let line = failure(&args, &output);
    assert!(line.contains("job long: worker 2 was not heard of"), "{line}");
    assert_gone(&before);
}

#[test]
fn an_interrupted_run_cleans_up() {
    let file = JobFile::new(LONG);
    let name = file.name();
    let mut fabrics = vec!["memory"];
    if namespaces() {
        fabrics.push("netns");
    }
    for fabric in fabrics {
        let args = ["run", &name, "--fabric", fabric];
        let run = start(&args);
        std::thread::sleep(Duration::from_secs(2));
        let before = children(run.id());
        signal(i32::try_from(run.id()).unwrap(), Signal::SIGINT);
        let output = run.wait_with_output().unwrap();
        let line = failure(&args, &output);
        assert!(line.contains("interrupted"), "{line}");
        assert_gone(&before);
    }
}

#[test]
fn a_run_that_is_killed_leaves_no_process() {
    if !namespaces() {
        return;
    }
    let file = JobFile::new(LONG);
    let mut run = start(&["run", &file.name(), "--fabric", "netns"]);
    wait_for_child(run.id(), "--worker 2");
    let before = children(run.id());
    run.kill().unwrap();
    run.wait().unwrap();
    assert_gone(&before);
}

/// The processes end, soon.
pub(crate) fn assert_gone(processes: &[(i32, String)]) {
    let deadline = Instant::now() + Duration::from_secs(10);
    for (id, line) in processes {
        // A number that somebody else has by now has another command line.
        let alive = || {
            let now = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            !now.is_empty() && String::from_utf8_lossy(&now).replace('\0', " ") == *line
        };
        while alive() {
            assert!(Instant::now() < deadline, "process {id} is left: {line}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
