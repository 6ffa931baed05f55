//! Stopped parts, and parts on the wrong host: which part is named, and when.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tributary_run::testbed::Stream;

use crate::by_hand::{Net, ended, until};
use crate::command::{JobFile, failure, namespaces};
use crate::deaths::{assert_gone, signal, under_way};

/// `worker_timeout` of the jobs here.
const TIMEOUT: Duration = Duration::from_secs(3);

/// A job long enough to be disturbed.
fn long(protocol: &str) -> String {
    let more = if protocol == "switchml" { "partitions = 1\n" } else { "" };
    format!(
        "protocol = \"{protocol}\"\nworker_timeout = \"3s\"\n[topology]\nkind = \"star\"\n\
         workers = 2\n[switch]\npool = 1024\n{more}[[job]]\nname = \"long\"\n\
         workload = {{ kind = \"random\", tensors = 100000, elements = 1000 }}\n"
    )
}

/// Stops a part of a run. Returns the run's error, which must come within twice the timeout.
fn stop(protocol: &str, victim: &str) -> String {
    let file = JobFile::new(&long(protocol));
    let name = file.name();
    let args = ["run", &name, "--fabric", "netns"];
    let (run, victim, before) = under_way(&args, victim);
    signal(victim, Signal::SIGSTOP);
    let stopped = Instant::now();
    let output = run.wait_with_output().unwrap();
    let (line, took) = (failure(&args, &output), stopped.elapsed());
    assert!(took < 2 * TIMEOUT, "{took:?}: {line}");
    assert!(line.contains(&format!("its process {victim} is stopped")), "{line}");
    assert_gone(&before);
    line
}

#[test]
fn a_part_that_is_stopped_is_named_within_twice_the_time_out() {
    if !namespaces() {
        return;
    }
    for protocol in ["atp", "esa", "p4inc", "switchml"] {
        let line = stop(protocol, "switch --name");
        assert!(line.contains("error: switch s1 was not heard from"), "{line}");
        let line = stop(protocol, "--worker 1");
        assert!(line.contains("error: job long: worker 1 was not heard from"), "{line}");
    }
    for protocol in ["atp", "esa"] {
        let line = stop(protocol, "--host ps");
        let named = "error: the parameter server on ps was not heard from";
        assert!(line.contains(named), "{line}");
    }
}

#[test]
fn a_separate_worker_names_only_parts_of_its_job() {
    if !namespaces() {
        return;
    }
    for protocol in ["switchml", "p4inc", "atp"] {
        let net = Net::new(&long(protocol));
        let _controller = net.controller();
        let has_server = protocol == "atp";
        let server = has_server.then(|| net.server());
        let workers = [0, 1].map(|index| net.worker(index));
        until(&workers[0], "round 1 ");
        // The controller still has its connection, so nobody knows that it is away.
        signal(workers[1].id().cast_signed(), Signal::SIGSTOP);
        let stopped = Instant::now();
        let (success, errors) = ended(&workers[0]);
        // Twice the timeout since the last result, and a little to end, on a machine with other work.
        assert!(!success && stopped.elapsed() < 2 * TIMEOUT + Duration::from_secs(4), "{errors}");
        assert!(errors.contains("are switch s1") && errors.contains("other workers"), "{errors}");
        assert_eq!(errors.contains("parameter server on ps"), has_server, "{errors}");
        assert!(has_server || !errors.contains("parameter server"), "{errors}");
        if let Some(server) = server {
            let output = server.output(Stream::Out);
            assert!(output.contains("waits for worker 1"), "{output}");
        }
    }
}

/// The others need not wait until results are missing for long.
#[test]
fn a_separate_worker_that_dies_is_named_within_seconds() {
    if !namespaces() {
        return;
    }
    for protocol in ["switchml", "atp", "esa"] {
        let net = Net::new(&long(protocol).replace("\"3s\"", "\"60s\""));
        let _controller = net.controller();
        let _server = (protocol != "switchml").then(|| net.server());
        let workers = [0, 1].map(|index| net.worker(index));
        until(&workers[0], "round 1 ");
        workers[1].kill().unwrap();
        let killed = Instant::now();
        let (success, errors) = ended(&workers[0]);
        // The controller waits a second for it to come back.
        assert!(!success && killed.elapsed() < Duration::from_secs(5), "{errors}");
        assert!(errors.contains("job long: worker 1 has died"), "{errors}");
    }
}

#[test]
fn a_server_that_hears_nothing_blames_no_worker() {
    if !namespaces() {
        return;
    }
    let net = Net::without_switch(&long("atp"), &["w1", "w2", "ps"]);
    let switch = net.start_switch(3);
    let _controller = net.controller();
    let server = net.server();
    let workers = [0, 1].map(|index| net.worker(index));
    until(&workers[0], "round 1 ");
    // Packets of one worker wait at the server for the other's.
    signal(workers[1].id().cast_signed(), Signal::SIGSTOP);
    std::thread::sleep(Duration::from_secs(1));
    signal(switch.id().cast_signed(), Signal::SIGSTOP);
    until(&server, "nothing has come for");
    let output = server.output(Stream::Out);
    assert!(
        output.contains("is switch s1 up?") && !output.contains("waits for worker"),
        "{output}"
    );
    for worker in workers {
        worker.kill().unwrap();
    }
    signal(switch.id().cast_signed(), Signal::SIGCONT);
}

#[test]
fn a_second_process_of_a_part_and_a_wrong_interface_are_refused_at_once() {
    if !namespaces() {
        return;
    }
    let net = Net::new(&long("atp"));
    let _controller = net.controller();
    let server = net.server();
    let second = ["ps", "--host", "ps"];
    let refused = |node: &str, args: &[&str]| {
        let started = Instant::now();
        let (success, errors) = ended(&net.endpoint(node, args));
        assert!(!success && started.elapsed() < Duration::from_secs(5), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
        errors
    };
    let line = refused("ps", &second);
    let part = "another process is the parameter server of job long (ID 1) on network interface";
    assert!(line.contains(part) && line.contains("`eth0`"), "{line}");
    // A worker does not run on another's host.
    let worker = |index| ["worker", "--job", "long", "--worker", index];
    let line = refused("w1", &worker("1"));
    assert!(line.contains("has the MAC address 02:00:0a:00:01:01"), "{line}");
    assert!(line.contains("gives host `w2` 02:00:0a:00:01:02"), "{line}");
    // Nor does the parameter server.
    let line = refused("w1", &["ps", "--host", "ps"]);
    assert!(line.contains("gives host `ps`"), "{line}");
    let first = net.endpoint("w1", &worker("0"));
    std::thread::sleep(Duration::from_secs(1));
    let line = refused("w1", &worker("0"));
    assert!(line.contains("another process is the worker of job long"), "{line}");
    // After a process is killed, another one can replace it.
    first.kill().unwrap();
    server.kill().unwrap();
    net.server();
    let again = net.endpoint("w1", &worker("0"));
    assert!(again.wait(Some(Duration::from_secs(1))).unwrap().is_none());
}

/// TCP requires that the kernel has the address.
#[test]
fn an_address_that_the_machine_does_not_have_is_refused_where_a_channel_needs_it() {
    if !namespaces() {
        return;
    }
    let job = long("esa").replace(
        "kind = \"star\"\nworkers = 2\n",
        "switch = [{ name = \"s1\" }]\n\
         host = [{ name = \"w1\", mac = \"02:00:0a:00:01:01\", ip = \"10.0.9.9\" }, \
         { name = \"w2\", mac = \"02:00:0a:00:01:02\", ip = \"10.0.1.2\" }, \
         { name = \"ps\", role = \"ps\", mac = \"02:00:0a:00:01:03\", ip = \"10.0.1.3\" }]\n\
         link = [{ between = [\"w1\", \"s1\"] }, { between = [\"w2\", \"s1\"] }, \
         { between = [\"ps\", \"s1\"] }]\n",
    );
    let net = Net::new(&job);
    let _controller = net.controller();
    let (success, errors) = ended(&net.worker(0));
    assert!(!success && errors.contains("does not have the address 10.0.9.9"), "{errors}");
}
