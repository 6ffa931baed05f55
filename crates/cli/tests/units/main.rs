//! `tributary optical serve` around three units in namespaces, with real workers, servers, switches and
//! an emulated cross-connect or Open vSwitch, all of which outlive each other.

mod site;

use std::time::Duration;

use site::{Site, kill_now};
use tributary_run::testbed::{OpenVSwitch, Process, Stream};

const ELEMENTS: usize = 30_000;
const ROUNDS: usize = 6;

/// Job 1 is in one unit, and job 2 over two others. Packets are lost, too.
fn jobs() -> String {
    format!(
        "protocol = \"p4inc\"\nworker_timeout = \"60s\"\n\
         [topology]\nunits = 3\noptical_ports = 1\nreconfiguration = \"5ms\"\n\
         [orchestrator]\nslot = \"50ms\"\nport_rate = \"40Mb/s\"\nswitch_rate = \"1Gb/s\"\n\
         step = \"20Mb/s\"\ninc = 1\n\
         [switch]\npool = 256\n[faults]\nloss = 0.005\n\
         [[job]]\nname = \"near\"\nworkers = [\"w1\", \"w2\"]\nps = \"ps2\"\nslots = 32\nwindow = 32\n\
         segment = 64\n\
         workload = {{ kind = \"random\", tensors = {ROUNDS}, elements = {ELEMENTS} }}\n\
         [[job]]\nname = \"far\"\nworkers = [\"w3\", \"w5\"]\nps = \"ps3\"\nslots = 32\nwindow = 32\n\
         segment = 64\n\
         workload = {{ kind = \"random\", tensors = {ROUNDS}, elements = {ELEMENTS} }}\n"
    )
}

/// The hosts of each job's workers.
const WORKERS: [(&str, [&str; 2]); 2] = [("near", ["w1", "w2"]), ("far", ["w3", "w5"])];

/// The demand of a worker.
const BITS: u64 = 32 * ELEMENTS as u64;

/// Starts the servers and workers of both jobs, and admits the jobs.
fn start_jobs(site: &Site) -> ([Process; 2], Vec<Process>) {
    let servers = ["ps2", "ps3"].map(|host| site.server(host));
    let workers = WORKERS
        .iter()
        .flat_map(|(job, hosts)| {
            (0..).zip(hosts).map(|(index, host)| site.worker(job, index, host))
        })
        .collect();
    for job in [1, 2] {
        site.admit(job, BITS, ROUNDS as u64, 64);
    }
    (servers, workers)
}

fn are_over(workers: &[Process]) -> bool {
    workers.iter().all(|worker| worker.wait(Some(Duration::ZERO)).unwrap().is_some())
}

/// Checks that all workers have compared all values.
fn assert_summed(workers: &[Process]) {
    for worker in workers {
        let (code, errors) = site::ended(worker);
        assert_eq!(code, Some(0), "{errors}");
        let values = ROUNDS * ELEMENTS;
        let said = format!("{values} values summed, {values} of them compared");
        let output = worker.output(Stream::Out);
        assert!(output.contains(&said), "{output}");
    }
}

#[test]
fn jobs_go_on_whoever_is_killed() {
    let Some(site) = Site::start(&jobs()) else { return };
    let mut device = site.cross_connect();
    let mut controller = site.controller();
    let (servers, workers) = start_jobs(&site);
    let mut kills = 0;
    while !are_over(&workers) {
        // At another point of a slot each time.
        std::thread::sleep(Duration::from_millis(230 + 37 * kills % 200));
        kill_now(&controller);
        if kills % 3 == 1 {
            // It comes back dark.
            kill_now(&device);
            device = site.cross_connect();
        }
        controller = site.controller();
        kills += 1;
        let said = || {
            let parts = workers.iter().chain(&servers).chain([&controller]);
            let said = parts
                .map(|part| format!("{}\n{}", part.output(Stream::Out), part.output(Stream::Err)));
            said.collect::<Vec<_>>().join("\n--\n")
        };
        assert!(kills < 200, "the jobs do not end: {}", said());
    }
    println!("{kills} times killed");
    assert!(kills > 1, "the jobs were over before anything happened");
    assert_summed(&workers);
    // Jobs whose iterations are over leave the switches: all memory is free.
    site.until_empty();
    for process in servers.iter().chain([&controller, &device]) {
        site::stop(process);
    }
}

#[test]
fn jobs_go_on_when_open_vswitch_restarts() {
    if let Err(obstacle) = OpenVSwitch::check() {
        println!("skipped: {obstacle}");
        return;
    }
    let Some(site) = Site::start(&jobs()) else { return };
    let mut device = site.open_vswitch();
    let controller = site.controller_of(&format!("openflow:unix:{}", device.socket().display()));
    let (servers, workers) = start_jobs(&site);
    let mut kills = 0;
    while !are_over(&workers) {
        std::thread::sleep(Duration::from_millis(500 + 37 * kills % 200));
        let [_, switch] = device.processes();
        kill_now(switch);
        site.restart(&mut device);
        kills += 1;
        assert!(kills < 200, "the jobs do not end: {}", controller.output(Stream::Err));
    }
    println!("{kills} times killed");
    assert!(kills > 1, "the jobs were over before anything happened");
    assert_summed(&workers);
    site.until_empty();
    for process in servers.iter().chain([&controller]) {
        site::stop(process);
    }
}

#[test]
fn a_worker_that_dies_ends_its_job_and_no_other() {
    // Long enough for an iteration of the other job where all tests run at once.
    let file = jobs().replace("inc = 1\n", "inc = 1\niteration_timeout = \"20s\"\n");
    let Some(site) = Site::start(&file) else { return };
    let device = site.cross_connect();
    let controller = site.controller();
    let servers = ["ps2", "ps3"].map(|host| site.server(host));
    let near = site.worker("near", 0, "w1");
    // The other worker of this job is never started.
    let far = [site.worker("far", 0, "w3"), site.worker("far", 1, "w5")];
    for job in [1, 2] {
        site.admit(job, BITS, ROUNDS as u64, 64);
    }
    for worker in &far {
        let (code, errors) = site::ended(worker);
        assert_eq!(code, Some(0), "{errors}");
    }
    let (code, errors) = site::ended(&near);
    assert_eq!(code, Some(1), "{errors}");
    let lines: Vec<&str> = errors.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(lines.len(), 1, "{errors}");
    site.until_empty();
    site::until(&controller, "job 1: released, because iteration 1 has run for");
    for process in servers.iter().chain([&controller, &device]) {
        site::stop(process);
    }
}
