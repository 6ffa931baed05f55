//! Processes that die or are interrupted: the run ends, names them, and leaves nothing behind.

mod going_on;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::command::{JobFile, failure, namespaces, root, text, tributary};

/// A job long enough to be disturbed: one worker pauses before each of many tensors.
const LONG: &str = "worker_timeout = \"3s\"\n[topology]\nkind = \"star\"\nworkers = 3\n[[job]]\n\
                    name = \"long\"\n\
                    workload = { kind = \"random\", tensors = 1000, elements = 1000 }\n\
                    [[job.straggler]]\nworker = 0\ndelay = \"20ms\"\n";

/// A job that ends at once.
const SMALL: &str = "[topology]\nkind = \"star\"\n[[job]]\nworkers = 1\n\
                     workload = { kind = \"random\", tensors = 1, elements = 10 }\n";

pub(crate) fn start(args: &[&str]) -> Child {
    tributary(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The descendants of a process, with their command lines.
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

/// Waits for a descendant of a process whose command line contains a text.
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

/// Starts a run and lets it sum for a while. Returns the run, its descendant whose command line
/// contains `victim`, and all descendants.
pub(crate) fn under_way(args: &[&str], victim: &str) -> (Child, i32, Vec<(i32, String)>) {
    let run = start(args);
    let victim = wait_for_child(run.id(), victim);
    wait_for_child(run.id(), "--worker 1");
    std::thread::sleep(Duration::from_millis(500));
    let below = children(run.id());
    (run, victim, below)
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
    let (run, worker, before) = under_way(&args, "--worker 1");
    signal(worker, Signal::SIGKILL);
    let killed = Instant::now();
    let output = run.wait_with_output().unwrap();
    assert!(killed.elapsed() < Duration::from_secs(10), "{:?}", killed.elapsed());
    let line = failure(&args, &output);
    assert!(line.contains("job long: worker 1 failed"), "{line}");
    assert_gone(&before);
}

/// The processes of units, each named once.
#[test]
fn a_cross_connect_and_a_worker_of_units_that_die_are_named() {
    if !namespaces() {
        return;
    }
    let units = "protocol = \"p4inc\"\n[topology]\nunits = 2\nhosts_per_unit = 2\n[orchestrator]\n\
                 slot = \"200ms\"\n[[job]]\nname = \"near\"\nworkers = [\"w1\", \"w2\"]\nps = \"ps2\"\n\
                 workload = { kind = \"random\", tensors = 10000, bytes = \"40KB\" }\n";
    let file = JobFile::new(units);
    let name = file.name();
    let args = ["run", &name, "--fabric", "netns"];
    for (victim, said) in [
        ("crossconnect", "error: the cross-connect ended with signal: 9 (SIGKILL)"),
        (
            "--worker 1",
            "error: job near: worker 1 failed: its process ended with signal: 9 (SIGKILL)",
        ),
    ] {
        let (run, process, before) = under_way(&args, victim);
        signal(process, Signal::SIGKILL);
        let output = run.wait_with_output().unwrap();
        let errors = text(&output.stderr);
        assert_eq!(errors.lines().filter(|line| *line == said).count(), 1, "{errors}");
        assert_eq!(errors.lines().filter(|line| line.starts_with("error")).count(), 1, "{errors}");
        assert!(!output.status.success());
        assert_gone(&before);
    }
}

#[test]
fn a_worker_that_stops_responding_is_named() {
    if !namespaces() {
        return;
    }
    let file = JobFile::new(LONG);
    let name = file.name();
    let args = ["run", &name, "--fabric", "netns"];
    let (run, worker, before) = under_way(&args, "--worker 2");
    signal(worker, Signal::SIGSTOP);
    let output = run.wait_with_output().unwrap();
    let line = failure(&args, &output);
    assert!(line.contains("job long: worker 2 was not heard from"), "{line}");
    assert_gone(&before);
}

/// Parameter servers and reminder agents are started again, and the sums stay exact.
#[test]
fn a_server_that_dies_is_started_again() {
    if !namespaces() {
        return;
    }
    for (protocol, victims) in
        [("atp", &["--host ps"; 2][..]), ("esa", &["--host ps1", "--host ps2"])]
    {
        let file = LONG.replace("tensors = 1000", "tensors = 150").replace("\"3s\"", "\"10s\"");
        let file = match protocol {
            "esa" => file
                .replace("workers = 3\n", "workers = 3\nps_hosts = 2\n")
                .replace("name = \"long\"\n", "name = \"long\"\nps = \"ps1\"\nagent = \"ps2\"\n"),
            _ => file,
        };
        let file = JobFile::new(&format!("protocol = \"{protocol}\"\n{file}"));
        let name = file.name();
        let args = ["run", &name, "--fabric", "netns"];
        let (run, mut server, before) = under_way(&args, victims[0]);
        for (death, victim) in victims.iter().enumerate() {
            if death > 0 {
                std::thread::sleep(Duration::from_millis(700));
                server = wait_for_child(run.id(), victim);
            }
            signal(server, Signal::SIGKILL);
        }
        let output = run.wait_with_output().unwrap();
        let errors = text(&output.stderr);
        assert!(output.status.success(), "{protocol}: {errors}");
        // What it said last may stand between the two.
        for said in ["ended with signal: 9 (SIGKILL)", "; it is started again"] {
            assert_eq!(errors.matches(said).count(), victims.len(), "{protocol}: {errors}");
        }
        assert_gone(&before);
    }
}

#[test]
fn a_server_that_keeps_dying_ends_the_run() {
    if !namespaces() {
        return;
    }
    let file = JobFile::new(LONG);
    let name = file.name();
    let args = ["run", &name, "--fabric", "netns"];
    let (mut run, mut server, before) = under_way(&args, "--host ps");
    let deadline = Instant::now() + Duration::from_secs(30);
    while run.try_wait().unwrap().is_none() {
        signal(server, Signal::SIGKILL);
        let killed = server;
        while server == killed && run.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "the run goes on");
            std::thread::sleep(Duration::from_millis(20));
            let below = children(run.id());
            let found = below.iter().find(|(id, line)| *id != killed && line.contains("--host ps"));
            server = found.map_or(server, |(id, _)| *id);
        }
    }
    let output = run.wait_with_output().unwrap();
    let line = failure(&args, &output);
    assert!(line.contains("the parameter server on ps ended with signal: 9"), "{line}");
    assert_gone(&before);
}

/// All signals that ask a process to end.
const SIGNALS: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

/// The names in a directory.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn an_interrupted_run_cleans_up() {
    // ESA also has tokens.
    let file = JobFile::new(&format!("protocol = \"esa\"\n{LONG}"));
    let name = file.name();
    let mut fabrics = vec!["memory"];
    if namespaces() {
        fabrics.push("netns");
    }
    for (fabric, signalled) in
        fabrics.into_iter().flat_map(|fabric| SIGNALS.map(|signal| (fabric, signal)))
    {
        let temporary = tempfile::tempdir().unwrap();
        let args = ["run", &name, "--fabric", fabric];
        let mut command = tributary(&args);
        command.env("TMPDIR", temporary.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let run = command.spawn().unwrap();
        if fabric == "netns" {
            wait_for_child(run.id(), "--worker 2");
        }
        std::thread::sleep(Duration::from_secs(1));
        let before = children(run.id());
        signal(i32::try_from(run.id()).unwrap(), signalled);
        let output = run.wait_with_output().unwrap();
        let line = failure(&args, &output);
        assert!(line.contains("interrupted"), "{fabric}, {signalled}: {line}");
        assert_gone(&before);
        assert_eq!(names(temporary.path()), [""; 0], "{fabric}, {signalled}");
    }
}

#[test]
fn a_run_under_nohup_survives_its_terminal() {
    let file = JobFile::new(LONG);
    let args = ["run", &file.name()];
    let run = tributary(&args);
    let mut command = Command::new("nohup");
    command.arg(run.get_program()).args(run.get_args()).current_dir(root());
    let run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let id = i32::try_from(run.id()).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    signal(id, Signal::SIGHUP);
    std::thread::sleep(Duration::from_secs(1));
    // It continues, and ends on another signal.
    signal(id, Signal::SIGTERM);
    let output = run.wait_with_output().unwrap();
    assert!(failure(&args, &output).contains("interrupted"));
}

/// Daemons end with status 0, and leave no socket behind.
#[test]
fn daemons_end_cleanly_with_every_signal() {
    let file = JobFile::new("network = \"network.toml\"\n[[server]]\nhost = \"w1\"\ngpus = 1\n");
    let network = "[topology]\nkind = \"star\"\nworkers = 1\nps_hosts = 1\n[[job]]\n";
    std::fs::write(file.path("network.toml"), network).unwrap();
    let database = file.path("manager.redb").display().to_string();
    let socket = file.path("switch.sock");
    let at = format!("unix:{}", socket.display());
    let listen = format!("unix:{}", file.path("manager.sock").display());
    let (site, directory) = (file.name(), file.path("agent").display().to_string());
    let manager = ["place", "serve", &site, "--listen", &listen, "--database", &database].to_vec();
    let agent =
        ["place", "agent", "--server", "w1", "--interface", "lo", "--directory", &directory];
    let nobody = ["--manager", "127.0.0.1:1", "--controller", "127.0.0.1:1"];
    let mut daemons = vec![manager, [&agent[..], &nobody].concat()];
    if namespaces() {
        daemons.push(["switch", "--port", "1@lo", "--p4runtime", &at].to_vec());
    }
    for (args, signalled) in daemons.iter().flat_map(|args| SIGNALS.map(|signal| (args, signal))) {
        let mut daemon = start(args);
        std::thread::sleep(Duration::from_millis(700));
        if args[0] == "switch" && daemon.try_wait().unwrap().is_some() {
            println!("skipped: no raw sockets here");
            continue;
        }
        signal(i32::try_from(daemon.id()).unwrap(), signalled);
        let output = daemon.wait_with_output().unwrap();
        let errors = text(&output.stderr);
        assert!(output.status.success(), "{args:?}, {signalled}: {} {errors}", output.status);
        assert!(!socket.exists(), "{signalled}");
    }
}

#[test]
fn a_run_that_is_killed_leaves_no_process() {
    if !namespaces() {
        return;
    }
    let file = JobFile::new(LONG);
    let temporary = tempfile::tempdir().unwrap();
    let mut run = tributary(&["run", &file.name(), "--fabric", "netns"]);
    run.env("TMPDIR", temporary.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut run = run.spawn().unwrap();
    wait_for_child(run.id(), "--worker 2");
    let before = children(run.id());
    run.kill().unwrap();
    run.wait().unwrap();
    assert_gone(&before);
    let left = |directory: &tempfile::TempDir| names(directory.path()).len();
    assert_eq!(left(&temporary), 1, "nothing can follow SIGKILL");
    // The next run removes it.
    let small = JobFile::new(SMALL);
    let mut next = tributary(&["run", &small.name(), "--fabric", "netns"]);
    assert!(next.env("TMPDIR", temporary.path()).output().unwrap().status.success());
    assert_eq!(left(&temporary), 0, "{:?}", names(temporary.path()));
}

/// Checks that the processes end soon.
pub(crate) fn assert_gone(processes: &[(i32, String)]) {
    let deadline = Instant::now() + Duration::from_secs(10);
    for (id, line) in processes {
        // A process with a reused ID has another command line.
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
