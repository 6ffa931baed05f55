//! Running jobs that are moved between segments, and between switches and server.

use std::time::Duration;

use nix::sys::signal::Signal;
use tributary_run::testbed::Stream;

use crate::net::{NETWORK, Net, SERVER, signal, stop, succeed, until};

const ELEMENTS: usize = 20_000;

fn job(workers: &str, more: &str) -> String {
    format!(
        "protocol = \"p4inc\"\nworker_timeout = \"20s\"\n[switch]\npool = 512\n\
         [faults]\nloss = 0.01\n[[job]]\nworkers = {workers}\n{more}slots = 64\nwindow = 32\n\
         workload = {{ kind = \"random\", tensors = 3, elements = {ELEMENTS} }}\n"
    )
}

#[test]
fn a_running_job_moves_to_its_server_and_back_to_another_segment() {
    let hosts = ["a1", "a2", "b1", "b2"];
    let Some(net) = Net::with(&job(&format!("{hosts:?}"), "")) else { return };
    // The processes wait for the job.
    let controller = net.controller();
    let workers = net.workers(&hosts);
    until(&workers[0], "job job1 is not admitted yet");
    let server = net.server();

    let mut client = net.client();
    client.admit(NETWORK, 64, 0);
    client.iterate(1);
    client.move_to(SERVER, 0);
    client.iterate(2);

    // The workers learn of the second move before the server, which drops their packets until then.
    signal(&server, Signal::SIGSTOP);
    client.move_to(NETWORK, 16);
    client.start(3);
    until(&workers[0], "iteration 3");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(client.unfinished(), [0, 1, 2, 3], "nothing is summed without the server");
    signal(&server, Signal::SIGCONT);
    client.finished(3);

    succeed(&workers, 3 * ELEMENTS);
    for worker in &workers {
        let output = worker.output(Stream::Out);
        for said in [
            "iteration 1: partial, service 1, 64 aggregators",
            "iteration 2: forwarded, service 0, 0 aggregators",
            "iteration 3: partial, service 2, 16 aggregators",
        ] {
            assert!(output.contains(said), "{said} in {output}");
        }
    }
    assert_eq!(client.release(), 0, "all fragments were finished");
    until(&server, "fragments, 0 of them");
    stop(&server);
    stop(&controller);
}

/// The server cannot continue from what it knew of the first iteration.
#[test]
fn a_server_that_does_not_see_a_local_iteration_serves_the_next_one() {
    let hosts = ["a1", "a2"];
    let more = "aggregation = \"server\"\n";
    let Some(net) = Net::with(&job(&format!("{hosts:?}"), more)) else { return };
    let controller = net.controller();
    let server = net.server();
    let workers = net.workers(&hosts);

    let mut client = net.client();
    client.admit(SERVER, 0, 0);
    client.iterate(1);
    signal(&server, Signal::SIGSTOP);
    client.move_to(NETWORK, 64);
    client.iterate(2);
    client.move_to(SERVER, 0);
    client.start(3);
    until(&workers[0], "iteration 3");
    signal(&server, Signal::SIGCONT);
    client.finished(3);

    succeed(&workers, 3 * ELEMENTS);
    assert!(workers[0].output(Stream::Out).contains("iteration 2: local, service 1"));
    assert_eq!(client.release(), 0);
    stop(&server);
    stop(&controller);
}
