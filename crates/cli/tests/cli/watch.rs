//! The live view: the events of a run's page, recordings and their replay, and running switches.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tributary_run::live::Hub;
use tributary_run::live::model::{Line, Sample, Scene};

use crate::by_hand::{Net, ended, freed};
use crate::command::{JobFile, fail, namespaces, succeed, text, tributary};

/// Two jobs that compete for few aggregators, one with a straggler.
fn job(protocol: &str) -> JobFile {
    let text = format!(
        "seed = 3\nprotocol = \"{protocol}\"\n[topology]\nkind = \"star\"\nworkers = 6\n\
         [switch]\npool = 16\n\
         [[job]]\nname = \"slow\"\nworkers = [\"w1\", \"w2\", \"w3\", \"w4\"]\n\
         communication = \"1ms\"\ncomputation = \"2ms\"\nremaining = \"60s\"\n\
         workload = {{ kind = \"random\", tensors = 4, bytes = \"16KB\" }}\n\
         [[job.straggler]]\nworker = \"w4\"\ndelay = \"3ms\"\n\
         [[job]]\nname = \"quick\"\nworkers = [\"w5\", \"w6\"]\n\
         communication = \"4ms\"\ncomputation = \"1ms\"\nremaining = \"5s\"\n\
         workload = {{ kind = \"random\", tensors = 4, bytes = \"64KB\" }}\n"
    );
    // Only ESA has priorities.
    let priorities = ["communication", "computation", "remaining"];
    let kept = |line: &&str| {
        protocol == "esa" || !priorities.iter().any(|key| line.trim_start().starts_with(key))
    };
    JobFile::new(&text.lines().filter(kept).collect::<Vec<_>>().join("\n"))
}

/// A process that is killed when the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn start(mut command: Command) -> Self {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Self(child.unwrap())
    }

    /// The address of the page, which the process prints.
    fn url(&mut self) -> String {
        let mut errors = BufReader::new(self.0.stderr.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("watch at ") {
            line.clear();
            assert_ne!(errors.read_line(&mut line).unwrap(), 0, "no address was printed");
        }
        // What else is printed must have room.
        std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
        line.trim_end().strip_prefix("watch at ").unwrap().to_owned()
    }

    /// Interrupts it, as Ctrl-C does. Returns its exit status and what it printed.
    fn interrupt(mut self) -> (Option<i32>, String) {
        kill(Pid::from_raw(self.0.id().try_into().unwrap()), Signal::SIGINT).unwrap();
        let mut out = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        (self.0.wait().unwrap().code(), out)
    }
}

/// The lines of a page's events, up to the end or the one that `last` accepts.
fn events(url: &str, mut last: impl FnMut(&Line) -> bool) -> Vec<Line> {
    let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(stream, "GET /{path}events HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut lines = Vec::new();
    for line in BufReader::new(stream).lines() {
        let line = line.unwrap();
        let Some(json) = line.strip_prefix("data: ") else { continue };
        let line = Line::parse(json).unwrap();
        lines.push(line);
        let newest = &lines[lines.len() - 1];
        if matches!(newest, Line::End(_)) || last(newest) {
            break;
        }
    }
    lines
}

fn scene_and_last(lines: &[Line]) -> (&Scene, &Sample) {
    let scene = lines.iter().rev().find_map(|line| match line {
        Line::Scene(scene) => Some(scene),
        _ => None,
    });
    let last = lines.iter().rev().find_map(|line| match line {
        Line::Sample(sample) => Some(sample),
        _ => None,
    });
    (scene.unwrap(), last.unwrap())
}

/// Packets by outcome in a sample and in a report, for each switch.
fn assert_counts(sample: &Sample, report: &Value) {
    for (switch, reported) in sample.switches.iter().zip(report["switches"].as_array().unwrap()) {
        let mut counted = BTreeMap::new();
        for (outcome, count) in switch.counts.iter().flatten() {
            if outcome != "evicted" {
                *counted.entry(outcome.clone()).or_insert(0) += count;
            }
        }
        let reported = reported["outcomes"].as_object().unwrap();
        let reported = reported.iter().map(|(name, count)| (name.clone(), count.as_u64().unwrap()));
        let reported: BTreeMap<_, _> = reported.filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, reported);
        assert!(counted["completed"] > 0);
    }
}

#[test]
fn a_watched_run_shows_all_progress_and_ends_with_the_reports_counts() {
    let file = job("esa");
    let report = file.path("report.json");
    let mut command = tributary(&["run", &file.name(), "--watch"]);
    command.arg("--json-out").arg(&report);
    let mut run = Running::start(command);
    let url = run.url();
    let lines = events(&url, |_| false);
    assert!(matches!(lines[lines.len() - 1], Line::End(ref end) if end.failure.is_none()));
    let (scene, last) = scene_and_last(&lines);
    assert_eq!((scene.fabric.as_str(), scene.protocol.as_str()), ("memory", "esa"));
    for job in 0..2 {
        assert_eq!(last.progress(scene, job), Some(1.0));
        assert!(last.jobs[job].over);
    }
    assert!(last.links.iter().all(|link| link.bytes[0] > 0 && link.bytes[1] > 0), "{last:?}");
    // The page stays until Ctrl-C.
    assert_eq!(events(&url, |_| false).len(), lines.len());
    let (status, printed) = run.interrupt();
    assert_eq!(status, Some(0), "{printed}");
    assert_counts(last, &serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap());
}

#[test]
fn a_recorded_run_in_virtual_time_is_the_same_run_and_replays_to_the_same_state() {
    for protocol in ["atp", "esa", "p4inc", "switchml"] {
        let file = job(protocol);
        let (plain, watched) = (file.path("plain.json"), file.path("watched.json"));
        let path = |path: &std::path::Path| path.display().to_string();
        let recording = file.path("run.jsonl");
        let run = ["run", &file.name(), "--fabric", "sim", "--json-out"];
        succeed(&[&run[..], &[&path(&plain)]].concat());
        succeed(&[&run[..], &[&path(&watched), "--record", &path(&recording)]].concat());
        let report = std::fs::read(&watched).unwrap();
        assert_eq!(std::fs::read(&plain).unwrap(), report, "{protocol}: to watch changes nothing");
        let hub = Hub::replay(&recording).unwrap();
        hub.look(|history| {
            let (scene, last) = (history.scene().unwrap(), history.samples().next_back().unwrap());
            assert_counts(last, &serde_json::from_slice(&report).unwrap());
            assert_eq!([0, 1].map(|job| last.progress(scene, job)), [Some(1.0); 2]);
            // Both jobs held aggregators at some time, and one waited for its straggler.
            for job in 0..2 {
                let held = history.samples().any(|sample| sample.switches[0].held[job] > 0);
                assert!(held, "{protocol}: job {job}");
            }
            let awaited = |worker: usize| {
                let at = |sample: &Sample| u64::from(sample.jobs[0].workers[worker].awaited);
                history.samples().map(at).sum::<u64>()
            };
            // In ESA, the other job evicts sums that wait.
            if protocol != "esa" {
                assert!(awaited(3) > awaited(0), "{protocol}: the straggler is waited for");
            }
        });
        // The page of a replay gets the same lines.
        let mut replay = Running::start(tributary(&["watch", "--replay", &path(&recording)]));
        let lines = events(&replay.url(), |_| false);
        let known: Vec<Line> = hub.look(|history| history.lines().cloned().collect());
        assert_eq!(lines, known);
        assert_eq!(replay.interrupt().0, Some(0));
    }
}

#[test]
fn a_run_in_namespaces_is_watched_like_any_other() {
    if !namespaces() {
        return;
    }
    let file = job("esa");
    let (report, recording) = (file.path("report.json"), file.path("run.jsonl"));
    let path = |path: &std::path::Path| path.display().to_string();
    succeed(&[
        "run",
        &file.name(),
        "--fabric",
        "netns",
        "--json-out",
        &path(&report),
        "--record",
        &path(&recording),
    ]);
    let hub = Hub::replay(&recording).unwrap();
    hub.look(|history| {
        let last = history.samples().next_back().unwrap();
        assert_counts(last, &serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap());
        assert!(last.links.iter().all(|link| link.bytes[0] > 0 && link.bytes[1] > 0), "{last:?}");
    });
}

#[test]
fn the_view_is_refused_where_others_could_reach_it() {
    let file = job("esa");
    let error = fail(&["run", &file.name(), "--watch", "0.0.0.0:0"]);
    assert!(error.contains("ssh -L"), "{error}");
    let output = tributary(&["watch", "--replay", &file.name()]).output().unwrap();
    assert!(text(&output.stderr).contains("is it a file that `--record` wrote?"));
    let error = fail(&["watch", "--switch", "unix:/nowhere/s1.sock"]);
    assert!(error.contains("s1"), "{error}");
}

/// For separately started processes.
const BY_HAND: &str = "[[topology.switch]]\nname = \"s1\"\n\
    [[topology.host]]\nname = \"w1\"\nmac = \"02:00:0a:00:01:01\"\nip = \"10.0.1.1\"\n\
    [[topology.host]]\nname = \"w2\"\nmac = \"02:00:0a:00:01:02\"\nip = \"10.0.1.2\"\n\
    [[topology.host]]\nname = \"ps\"\nrole = \"ps\"\nmac = \"02:00:0a:00:01:03\"\nip = \"10.0.1.3\"\n\
    [[topology.link]]\nbetween = [\"w1\", \"s1\"]\n[[topology.link]]\nbetween = [\"w2\", \"s1\"]\n\
    [[topology.link]]\nbetween = [\"ps\", \"s1\"]\n\
    [[job]]\nworkload = { kind = \"random\", tensors = 3, elements = 20_000 }\n";

#[test]
fn running_switches_are_watched_without_a_change() {
    if !namespaces() {
        return;
    }
    let net = Net::new(BY_HAND);
    let controller = net.controller();
    let at = format!("s1={}", net.socket());
    let mut watch = Running::start(tributary(&["watch", "--switch", &at]));
    let url = watch.url();
    let server = net.server();
    let workers = [net.worker(0), net.worker(1)];
    let completed = |sample: &Sample| sample.count(0, "completed");
    for worker in &workers {
        let (ended, errors) = ended(worker);
        assert!(ended, "{errors}");
    }
    let lines = events(&url, |line| matches!(line, Line::Sample(it) if completed(it) > 0));
    let (scene, last) = scene_and_last(&lines);
    assert_eq!((scene.fabric.as_str(), scene.switches[0].name.as_str()), ("attached", "s1"));
    assert!(scene.switches[0].cells > 0);
    assert_eq!(scene.jobs[0].workers.len(), 2, "{scene:?}");
    assert!(completed(last) > 0);
    drop(server);
    // When the job is removed, it is shown as over.
    freed(&controller);
    let lines = events(&url, |line| matches!(line, Line::Sample(it) if it.jobs[0].over));
    assert!(scene_and_last(&lines).1.jobs[0].over);
    assert_eq!(watch.interrupt().0, Some(0));
}
