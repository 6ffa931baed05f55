//! Workers and controllers that die, and jobs that are released, while an iteration runs.

use std::time::Duration;

use tributary_run::testbed::{Process, Stream};

use crate::net::{NETWORK, Net, ended, slay, stop, succeed, until, until_on};

const HOSTS: [&str; 4] = ["a1", "a2", "b1", "b2"];

/// Values in an iteration.
const ELEMENTS: u64 = 10_000;

/// A rate at which an iteration takes two seconds.
const SLOW: u64 = 32 * ELEMENTS / 2;

fn job() -> String {
    format!(
        "protocol = \"p4inc\"\nworker_timeout = \"20s\"\n[switch]\npool = 512\n[[job]]\n\
         workers = {HOSTS:?}\nsegment = 64\nslots = 64\nwindow = 32\n\
         workload = {{ kind = \"random\", tensors = 3, elements = {ELEMENTS} }}\n"
    )
}

/// These processes end with one line that says why.
fn fail(workers: &[Process], why: &str) {
    for worker in workers {
        let (code, errors) = ended(worker);
        let lines: Vec<&str> = errors.lines().filter(|line| line.starts_with("error: ")).collect();
        assert!(code == Some(1) && lines.len() == 1 && lines[0].contains(why), "{errors}");
    }
}

#[test]
fn a_worker_that_dies_in_an_iteration_ends_the_others_and_the_job_can_be_started_again() {
    let Some(net) = Net::with(&job()) else { return };
    let controller = net.controller();
    let server = net.server();
    let workers = net.workers(&HOSTS);
    let mut client = net.client();
    let first = client.admit(NETWORK, 64, 0);
    client.set_rate(SLOW);
    client.start(1);
    workers.iter().for_each(|worker| until(worker, "iteration 1"));
    std::thread::sleep(Duration::from_millis(500));
    slay(&workers[3]);
    fail(&workers[..3], "worker 3 has died in the middle of the run");
    assert_eq!(client.unfinished(), [0, 1, 2, 3]);

    // The job begins anew with processes that are started again: its iterations are counted from the first.
    let workers = net.workers(&HOSTS);
    client.until_run_after(first);
    client.set_rate(0);
    client.iterate(1);
    workers.iter().for_each(|worker| until(worker, "round 1 of 3"));

    // Released and admitted again, it is another run, for which the same server process is good.
    client.release();
    fail(&workers, "the controller has released job job1");
    until(&server, "fragments");
    let workers = net.workers(&HOSTS);
    let second = client.admit(NETWORK, 64, 0);
    assert_ne!(first, second);
    client.iterate(1);
    until(&workers[0], "round 1 of 3");
    assert_eq!(client.release(), 0);
    fail(&workers, "the controller has released job job1");
    stop(&server);
    stop(&controller);
}

/// The iteration in which a worker dies is summed again by the others, and it ends when these have reported. A controller
/// that is killed goes on with both.
#[test]
fn a_job_with_iterations_goes_on_without_a_worker_that_dies() {
    let file = job().replace("[[job]]\n", "[[job]]\non_death = \"continue\"\n");
    let Some(net) = Net::with(&file) else { return };
    let controller = net.controller_that_remembers();
    let server = net.server();
    let workers = net.workers(&HOSTS);
    let mut client = net.client();
    let first = client.admit(NETWORK, 64, 0);
    client.set_rate(SLOW);
    client.iterate(1);
    client.start(2);
    workers.iter().for_each(|worker| until(worker, "iteration 2"));
    std::thread::sleep(Duration::from_millis(500));
    // The others keep their indices.
    slay(&workers[0]);
    client.until_run_after(first);
    slay(&controller);
    let controller = net.controller_that_remembers();
    let mut client = net.client();
    client.set_rate(0);
    client.finished(2);
    client.iterate(3);
    let left = &workers[1..];
    succeed(left, 3 * ELEMENTS as usize);
    let said = |worker: &Process, what: &str| {
        let output = worker.output(Stream::Out);
        let line = output.lines().find(|line| line.contains(what));
        line.unwrap_or_else(|| panic!("no {what} in {output}")).to_owned()
    };
    for worker in left {
        said(worker, "goes on without worker 0 from round 2");
        assert_eq!(said(worker, "digest of all sums"), said(&left[0], "digest of all sums"));
    }
    assert_eq!(client.release(), 0);
    stop(&server);
    stop(&controller);
}

#[test]
fn workers_go_on_without_the_controller_and_return_to_it() {
    let Some(net) = Net::with(&job()) else { return };
    let controller = net.controller();
    let server = net.server();
    let workers = net.workers(&HOSTS);
    let mut client = net.client();
    let run = client.admit(NETWORK, 64, 0);
    client.set_rate(SLOW);
    client.start(1);
    workers.iter().for_each(|worker| until(worker, "iteration 1"));
    // A server that has not learned of the admission yet would drop all packets.
    until(&server, "job 1: serving run");
    slay(&controller);
    for worker in &workers {
        until_on(worker, Stream::Err, "no news from the controller");
        assert!(!worker.output(Stream::Out).contains("round 1"), "the iteration still runs");
    }
    workers.iter().for_each(|worker| until(worker, "round 1 of 3"));

    // They find the one that is started in its place, and repeat their reports.
    let controller = net.controller();
    let mut client = net.client();
    assert_eq!(client.admit(NETWORK, 64, run), run);
    client.iterate(1);
    for worker in &workers {
        until_on(worker, Stream::Err, "answers again");
    }
    client.iterate(2);
    workers.iter().for_each(|worker| until(worker, "round 2 of 3"));

    // One that begins a new run has no use for them.
    slay(&controller);
    let controller = net.controller();
    let mut client = net.client();
    assert_ne!(client.admit(NETWORK, 64, 0), run);
    fail(&workers, "job job1 has another run now");
    client.release();
    stop(&server);
    stop(&controller);
}
