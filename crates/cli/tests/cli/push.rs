//! `tributary controller push`, and controllers with restarting switches and competing controllers.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tributary_run::testbed::Stream;

use crate::by_hand::{DEADLINE, Net, ended, until};
use crate::command::{JobFile, fail, namespaces, succeed, text, tributary};
use crate::deaths::{signal, wait_for_child};

const JOB: &str = "[topology]\nkind = \"star\"\nworkers = 2\n[[job]]\nname = \"small\"\n\
                   workload = { kind = \"random\", tensors = 3, bytes = \"4KB\" }\n";

#[test]
fn a_dry_run_shows_everything_and_needs_no_switch() {
    let said = succeed(&["controller", "push", "examples/two-racks.toml", "--dry-run"]);
    for line in [
        "program    v1model/atp.p4, as source",
        "switch rack2",
        "  multicast group 1 → ports 1 2 3",
        "  hosts hdr.ethernet.destination=0x2000a000101 → to_port port=1",
        "    memberships job=1 epoch=1 port=1 kind=1 rack=0 → contribute unit=1 members=15 upward=15 group=0 slot=1",
        "nothing was pushed (--dry-run)",
    ] {
        assert!(said.lines().any(|found| found == line), "{line}: {said}");
    }
    let none = ["controller", "push", "examples/two-racks.toml", "--dry-run", "--no-jobs"];
    assert!(!succeed(&none).contains("memberships"));
}

#[test]
fn invalid_bundles_are_refused_before_any_switch_is_contacted() {
    let file = JobFile::new("not json");
    let bundle = file.name();
    // No switch exists: the bundle is checked first.
    let push = |more: &[&str]| {
        let base = ["controller", "push", "examples/digits.toml", "--switch", "s1=127.0.0.1:1"];
        let args: Vec<&str> = base.iter().chain(more).copied().collect();
        fail(&args)
    };
    let line = push(&["--bundle", &bundle]);
    assert!(line.contains("the embedded switch runs P4 source"), "{line}");
    let line = push(&["--target", "bmv2", "--bundle", &bundle]);
    assert!(line.contains("it is not the JSON of p4c-bm2-ss"), "{line}");
    let line = push(&["--target", "stratum", "--bundle", &bundle]);
    assert!(line.contains("is no pipeline for Stratum"), "{line}");
    let directory = file.path("").display().to_string();
    let line = push(&["--target", "stratum", "--bundle", &directory]);
    assert!(line.contains("has no bfrt.json"), "{line}");
    let line = push(&["--ports", &bundle]);
    assert!(line.contains("job.toml:1:5: key with no value"), "{line}");
    let output = tributary(&["controller", "push", "examples/digits.toml", "--election-id", "0"]);
    assert_eq!({ output }.output().unwrap().status.code(), Some(2));
}

#[test]
fn a_chassis_configuration_is_written() {
    let file = JobFile::new(JOB);
    let port = |to: &str, device: u16, connector: u16| {
        format!(
            "[[port]]\nswitch = \"s1\"\nto = \"{to}\"\ndevice_port = {device}\nconnector = {connector}\n"
        )
    };
    let ports = file.path("ports.toml").display().to_string();
    std::fs::write(&ports, [port("w1", 4, 1), port("w2", 12, 2), port("ps", 20, 3)].concat())
        .unwrap();
    let out = file.path("chassis").display().to_string();
    let name = file.name();
    let args =
        ["controller", "push", &name, "--dry-run", "--ports", &ports, "--chassis-config", &out];
    let said = succeed(&args);
    assert!(said.contains("multicast group 1 → ports 4 12 20"), "{said}");
    let text = std::fs::read_to_string(file.path("chassis/s1.pb.txt")).unwrap();
    assert_eq!(text.matches("singleton_ports {").count(), 3);
    std::fs::write(&ports, port("w1", 4, 1)).unwrap();
    let line = fail(&args);
    assert!(line.contains("port 2 of switch s1, towards w2, is missing"), "{line}");
}

/// Pushing again changes nothing, and a controller goes on with what was pushed.
#[test]
fn a_job_runs_on_what_was_pushed() {
    if !namespaces() {
        return;
    }
    let net = Net::new(JOB);
    let (file, at) = (net.file.name(), format!("s1={}", net.socket()));
    let push = |more: &[&str]| {
        let base = ["controller", "push", &file, "--switch", &at];
        let args: Vec<&str> = base.iter().chain(more).copied().collect();
        let process = net.start("s1", &args);
        let (good, errors) = ended(&process);
        assert!(good, "{errors}");
        process.output(Stream::Out)
    };
    let first = push(&[]);
    assert!(first.contains("no program") && first.contains("pushed"), "{first}");
    let second = push(&["--no-jobs"]);
    assert!(second.contains("the same") && second.contains("kept"), "{second}");
    let said = push(&[]);
    let run = said.lines().find_map(|line| line.split_once(": run ")).expect("a run").1;
    let controller = net.controller();
    let admitted = controller.output(Stream::Out);
    assert!(admitted.contains(&format!("admitted, epoch {run}")), "{admitted}");
    let _server = net.server();
    for worker in [0, 1].map(|index| net.worker(index)) {
        let (good, errors) = ended(&worker);
        assert!(good, "{errors}");
    }
}

/// Of two controllers the one with the higher election ID is primary; the other reports that ID.
#[test]
fn another_controller_is_named() {
    if !namespaces() {
        return;
    }
    let net = Net::new(JOB);
    let (file, at) = (net.file.name(), format!("s1={}", net.socket()));
    let ruler = net.start("s1", &["controller", &file, "--switch", &at, "--election-id", "7"]);
    until(&ruler, "end with Ctrl-C");
    let rival = net.start("s1", &["controller", "push", &file, "--switch", &at]);
    let (good, errors) = ended(&rival);
    assert!(!good);
    let expected = "another controller is primary (election ID 7, ours is 1); stop it, or take over \
                    with --election-id 8";
    assert!(errors.contains(expected), "{errors}");
    let usurper =
        net.start("s1", &["controller", "push", &file, "--switch", &at, "--election-id", "8"]);
    let (good, errors) = ended(&usurper);
    assert!(good, "{errors}");
}

/// A job that takes some seconds.
const LONG: &str = "worker_timeout = \"20s\"\n[topology]\nkind = \"star\"\nworkers = 2\n[[job]]\n\
               name = \"long\"\n\
               workload = { kind = \"random\", tensors = 150, bytes = \"16KB\" }\n\
               [[job.straggler]]\nworker = 0\ndelay = \"20ms\"\n";

/// The switch is killed in the middle of a job and restarted: it gets its program and entries back,
/// and every sum is correct.
#[test]
fn a_switch_that_restarts_in_the_middle_of_a_job() {
    if !namespaces() {
        return;
    }
    let net = Net::new(LONG);
    let controller = net.controller();
    let _server = net.server();
    let workers = [0, 1].map(|index| net.worker(index));
    std::thread::sleep(Duration::from_millis(1500));
    for worker in &workers {
        assert!(worker.wait(Some(Duration::ZERO)).unwrap().is_none(), "the job is under way");
    }
    let switch = wait_for_child(std::process::id(), &net.socket());
    let killed = Instant::now();
    signal(switch, Signal::SIGKILL);
    std::thread::sleep(Duration::from_millis(500));
    let _switch = net.start_switch(3);
    for worker in &workers {
        let (good, errors) = ended(worker);
        assert!(good, "{errors}");
        let report = worker.output(Stream::Out);
        assert!(report.contains("150"), "{report}");
    }
    assert!(killed.elapsed() < DEADLINE);
    controller.ask_to_end();
    assert!(controller.end(DEADLINE).unwrap().success(), "{}", controller.output(Stream::Err));
    let said = text(controller.output(Stream::Err).as_bytes());
    assert!(said.contains("connection was lost"), "it did notice: {said}");
}

/// The controller is killed in the middle of a job and restarted: every sum is correct.
#[test]
fn a_controller_that_restarts_in_the_middle_of_a_job() {
    if !namespaces() {
        return;
    }
    let net = Net::new(LONG);
    let controller = net.controller();
    let _server = net.server();
    let workers = [0, 1].map(|index| net.worker(index));
    std::thread::sleep(Duration::from_millis(1500));
    let process = wait_for_child(std::process::id(), &format!("controller {}", net.file.name()));
    signal(process, Signal::SIGKILL);
    assert!(!controller.wait(Some(DEADLINE)).unwrap().expect("it is dead").success());
    for worker in &workers {
        assert!(worker.wait(Some(Duration::ZERO)).unwrap().is_none(), "the job is under way");
    }
    let _again = net.controller();
    for worker in &workers {
        let (good, errors) = ended(worker);
        assert!(good, "{errors}");
    }
}
