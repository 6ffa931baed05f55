//! Workers and schedulers that die, and jobs that are released, while an iteration runs.

use std::time::Duration;

use tributary_testbed::{Process, Stream};

use crate::net::{NETWORK, Net, ended, slay, stop, until, until_on};

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
fn an_iteration_without_a_worker_does_not_end_and_its_job_can_be_released() {
    let Some(net) = Net::with(&job()) else { return };
    let scheduler = net.scheduler();
    let server = net.server();
    let workers = net.workers(&HOSTS);
    let mut client = net.client();
    let first = client.admit(NETWORK, 64, 0);
    client.set_rate(SLOW);
    client.start(1);
    workers.iter().for_each(|worker| until(worker, "iteration 1"));
    std::thread::sleep(Duration::from_millis(500));
    slay(&workers[3]);
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(client.unfinished(), [0, 1, 2, 3]);

    client.release();
    fail(&workers[..3], "has released the job");
    until(&server, "job 1: released");

    // Nothing is left that would disturb the next run, for which the same server process is good.
    let workers = net.workers(&HOSTS);
    let second = client.admit(NETWORK, 64, 0);
    assert_ne!(first, second);
    client.iterate(1);
    until(&workers[0], "round 1 of 3");
    assert_eq!(client.release(), 0);
    fail(&workers, "has released the job");
    stop(&server);
    stop(&scheduler);
}

#[test]
fn workers_go_on_without_the_scheduler_and_return_to_it() {
    let Some(net) = Net::with(&job()) else { return };
    let scheduler = net.scheduler();
    let server = net.server();
    let workers = net.workers(&HOSTS);
    let mut client = net.client();
    let run = client.admit(NETWORK, 64, 0);
    client.set_rate(SLOW);
    client.start(1);
    workers.iter().for_each(|worker| until(worker, "iteration 1"));
    // A server that has not learned of the admission yet would drop all packets.
    until(&server, "job 1: serving run");
    slay(&scheduler);
    for worker in &workers {
        until_on(worker, Stream::Err, "no news from the scheduler");
        assert!(!worker.output(Stream::Out).contains("round 1"), "the iteration still runs");
    }
    workers.iter().for_each(|worker| until(worker, "round 1 of 3"));

    // They find the one that is started in its place, and repeat their reports.
    let scheduler = net.scheduler();
    let mut client = net.client();
    assert_eq!(client.admit(NETWORK, 64, run), run);
    client.iterate(1);
    for worker in &workers {
        until_on(worker, Stream::Err, "answers again");
    }
    client.iterate(2);
    workers.iter().for_each(|worker| until(worker, "round 2 of 3"));

    // One that begins a new run has no use for them.
    slay(&scheduler);
    let scheduler = net.scheduler();
    let mut client = net.client();
    assert_ne!(client.admit(NETWORK, 64, 0), run);
    fail(&workers, "start it again");
    client.release();
    stop(&server);
    stop(&scheduler);
}
