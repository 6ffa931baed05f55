//! Runs of a job whose processes are started by hand, one after the other on the same switch: nothing of
//! one comes into the sums of the next, which each worker compares with sums computed apart.

use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tributary_controller::runs::ask;
use tributary_testbed::{Process, Stream};
use tributary_wire::{Epoch, JobId};

use crate::by_hand::{DEADLINE, Net, ended, freed};
use crate::command::{namespaces, tributary};

/// Two workers; other values with each seed.
fn job(protocol: &str, rounds: u32) -> String {
    format!(
        "worker_timeout = \"3s\"\nprotocol = \"{protocol}\"\n[topology]\nkind = \"star\"\n\
         workers = 2\n[[job]]\nworkload = {{ kind = \"random\", tensors = {rounds}, \
         elements = 2000 }}\n"
    )
}

/// Workers 0 and 1 with the values of a seed.
fn workers(net: &Net, seed: u32) -> [Process; 2] {
    let (tokens, seed) = (net.tokens(), seed.to_string());
    [0, 1].map(|index| net.worker_with(index, &tokens, &["--seed", &seed]))
}

fn exact(workers: &[Process; 2], values: u32) {
    for worker in workers {
        let (success, errors) = ended(worker);
        assert!(success, "{errors}");
        let output = worker.output(Stream::Out);
        let said = format!("{values} values summed, {values} of them compared");
        assert!(output.contains(&said), "{output}");
    }
}

/// A network, its controller, and the processes that serve the workers. Those of ESA know one run.
fn served(protocol: &str, rounds: u32) -> (Net, Process, Vec<Process>) {
    let local = matches!(protocol, "p4inc" | "switchml");
    let hosts = if local { &["w1", "w2"][..] } else { &["w1", "w2", "ps"] };
    let net = Net::with(&job(protocol, rounds), hosts);
    let controller = net.controller(&net.tokens());
    let servers = if local { Vec::new() } else { vec![net.server()] };
    (net, controller, servers)
}

/// The current run of the only job.
fn epoch(net: &Net) -> Epoch {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(ask(&net.runs(), JobId::new(1).unwrap(), None)).unwrap()
}

#[test]
fn workers_started_again_sum_their_own_values() {
    if !namespaces() {
        return;
    }
    for protocol in ["atp", "p4inc", "switchml"] {
        let (net, controller, _servers) = served(protocol, 5);
        for seed in [1, 2, 3] {
            exact(&workers(&net, seed), 10_000);
        }
        assert_eq!(freed(&controller), 0, "{protocol}: each run finished its fragments");
    }
}

#[test]
fn what_killed_workers_leave_is_in_no_sum_of_the_next_run() {
    if !namespaces() {
        return;
    }
    for protocol in ["atp", "esa", "p4inc", "switchml"] {
        let (net, controller, mut servers) = served(protocol, 2_000);
        let first = workers(&net, 1);
        // One dies first, so that the other's contributions wait in switch and server.
        std::thread::sleep(Duration::from_millis(700));
        first[1].kill().unwrap();
        std::thread::sleep(Duration::from_millis(200));
        first[0].kill().unwrap();
        if protocol == "esa" {
            // A new agent and server for the new run, which the first worker that joins begins.
            servers.drain(..).for_each(|server| {
                server.kill().unwrap();
            });
            let second = workers(&net, 2);
            servers.push(net.server());
            exact(&second, 4_000_000);
        } else {
            exact(&workers(&net, 2), 4_000_000);
        }
        assert_eq!(freed(&controller), 0, "{protocol}: the second run finished its fragments");
    }
}

#[test]
fn a_worker_that_is_left_behind_gives_up_and_disturbs_nobody() {
    if !namespaces() {
        return;
    }
    let (net, _controller, _servers) = served("atp", 2_000);
    let first = workers(&net, 1);
    std::thread::sleep(Duration::from_millis(500));
    first[0].kill().unwrap();
    // It comes again, which begins a new run; the other one goes on sending for the old run.
    let alone = net.worker_with(0, &net.tokens(), &["--seed", "2"]);
    let (success, errors) = ended(&first[1]);
    assert!(!success && !errors.is_empty(), "{errors}");
    alone.kill().unwrap();
    // The worker that has joined the latest run begins the next one; the other one must not come first.
    let before = epoch(&net);
    let again = net.worker_with(0, &net.tokens(), &["--seed", "3"]);
    let deadline = Instant::now() + DEADLINE;
    while epoch(&net) == before {
        assert!(Instant::now() < deadline, "{}", again.output(Stream::Err));
        std::thread::sleep(Duration::from_millis(20));
    }
    let other = net.worker_with(1, &net.tokens(), &["--seed", "3"]);
    exact(&[again, other], 4_000_000);
}

#[test]
fn without_an_epoch_no_endpoint_starts() {
    if !namespaces() {
        return;
    }
    let net = Net::with(&job("atp", 1), &["w1", "w2", "ps"]);
    let file = net.file.name();
    for command in [&["worker", "--worker", "0"][..], &["ps", "--host", "ps"]] {
        let host = if command[0] == "ps" { "ps" } else { "w1" };
        let process = net.start(host, &[command, &[&file, "--interface", "eth0"]].concat());
        let (success, errors) = ended(&process);
        let line = errors.lines().last().unwrap_or_default();
        assert!(!success && line.contains("--controller") && line.contains("--epoch"), "{errors}");
        let nobody = ["--controller", "unix:/nonexistent/runs.sock"];
        let process =
            net.start(host, &[command, &[&file, "--interface", "eth0"], &nobody].concat());
        let (success, errors) = ended(&process);
        let line = errors.lines().last().unwrap_or_default();
        assert!(!success && line.contains("names no run"), "{errors}");
    }
    for epoch in ["0", "x", "a=", "4294967296"] {
        let args = ["worker", &file, "--worker", "0", "--interface", "lo", "--epoch", epoch];
        let output = tributary(&args).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains("for '--epoch <N>'"), "{errors}");
    }
}
