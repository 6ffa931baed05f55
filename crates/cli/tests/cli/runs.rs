//! Consecutive runs of a job with separately started processes, on the same switch: no values of
//! one run enter sums of the next, which each worker verifies.

use std::time::Duration;

use tributary_access::Remote;
use tributary_api::jobs::v1;
use tributary_api::jobs::v1::jobs_client::JobsClient;
use tributary_run::testbed::{Process, Stream};

use crate::by_hand::{Net, ended, freed, until};
use crate::command::{fail, namespaces, text, tributary};

/// Two workers, whose values depend on the seed.
fn job(protocol: &str, rounds: u32) -> String {
    format!(
        "worker_timeout = \"3s\"\nprotocol = \"{protocol}\"\n[topology]\nkind = \"star\"\n\
         workers = 2\n[[job]]\nworkload = {{ kind = \"random\", tensors = {rounds}, \
         elements = 2000 }}\n"
    )
}

/// Workers 0 and 1 with the values of a seed.
fn workers(net: &Net, seed: u32) -> [Process; 2] {
    let seed = seed.to_string();
    [0, 1].map(|index| net.worker_with(index, &["--seed", &seed]))
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

/// A network, its controller, and the processes that serve the workers.
fn served(protocol: &str, rounds: u32) -> (Net, Process, Vec<Process>) {
    let local = matches!(protocol, "p4inc" | "switchml");
    let hosts = if local { &["w1", "w2"][..] } else { &["w1", "w2", "ps"] };
    let net = Net::with(&job(protocol, rounds), hosts);
    let controller = net.controller();
    let servers = if local { Vec::new() } else { vec![net.server()] };
    (net, controller, servers)
}

/// The current run of the only job.
fn epoch(net: &Net) -> u32 {
    let controller = Remote::new(&net.runs(), None).unwrap().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut client = JobsClient::new(controller.connect().await.unwrap());
        let listed = client.list(v1::ListRequest {}).await.unwrap().into_inner();
        listed.jobs[0].epoch
    })
}

#[test]
fn workers_started_again_sum_their_own_values() {
    if !namespaces() {
        return;
    }
    for protocol in ["atp", "esa", "p4inc", "switchml"] {
        let (net, controller, _servers) = served(protocol, 5);
        for seed in [1, 2, 3] {
            exact(&workers(&net, seed), 10_000);
        }
        // A packet resent after its fragment's end occupies an aggregator for a while.
        let late = if matches!(protocol, "atp" | "esa") { 8 } else { 0 };
        assert!(freed(&controller) <= late, "{protocol}: each run finished its fragments");
    }
}

/// A reminder agent on a host of its own and its parameter server learn of each run separately.
#[test]
fn an_agent_by_itself_serves_one_run_after_the_other() {
    if !namespaces() {
        return;
    }
    let job = job("esa", 5)
        .replace("workers = 2\n", "workers = 2\nps_hosts = 2\n")
        .replace("[[job]]\n", "[[job]]\nps = \"ps1\"\nagent = \"ps2\"\n");
    let net = Net::with(&job, &["w1", "w2", "ps1", "ps2"]);
    let controller = net.controller();
    let _servers = [net.agent_on("ps2"), net.server_on("ps1")];
    for seed in [1, 2, 3] {
        exact(&workers(&net, seed), 10_000);
    }
    assert!(
        freed(&controller) <= 8,
        "each run finished its fragments, but for what was sent again late"
    );
}

#[test]
fn values_of_killed_workers_are_in_no_sum_of_the_next_run() {
    if !namespaces() {
        return;
    }
    for protocol in ["atp", "esa", "p4inc", "switchml"] {
        let (net, controller, _servers) = served(protocol, 2_000);
        let first = workers(&net, 1);
        // One is killed first, so that the other's contributions wait in switch and server.
        std::thread::sleep(Duration::from_millis(700));
        first[1].kill().unwrap();
        std::thread::sleep(Duration::from_millis(200));
        first[0].kill().unwrap();
        exact(&workers(&net, 2), 4_000_000);
        let freed = freed(&controller);
        // A resend that arrives after its result occupies an aggregator until the sweep.
        let resends = matches!(protocol, "atp" | "esa");
        assert!(
            freed == 0 || resends,
            "{protocol}: the second run finished its fragments: {freed}"
        );
    }
}

#[test]
fn a_worker_that_comes_again_waits_for_the_others() {
    if !namespaces() {
        return;
    }
    for protocol in ["atp", "esa"] {
        let (net, _controller, _servers) = served(protocol, 2_000);
        let [dies, left] = workers(&net, 1);
        until(&left, "round 1 ");
        let before = epoch(&net);
        dies.kill().unwrap();
        // It restarts and waits: the other worker's run continues as far as it can alone.
        let again = net.worker_with(0, &["--seed", "3"]);
        until(&again, "waiting for worker 1 to join the run");
        let (success, errors) = ended(&left);
        assert!(!success && !errors.is_empty(), "{errors}");
        assert_eq!(epoch(&net), before, "{protocol}");
        let other = net.worker_with(1, &["--seed", "3"]);
        exact(&[again, other], 4_000_000);
    }
}

#[test]
fn a_worker_that_waits_ends_on_a_signal_and_leaves_its_place() {
    if !namespaces() {
        return;
    }
    let (net, _controller, _servers) = served("switchml", 5);
    let first = net.worker(0);
    until(&first, "waiting for worker 1");
    first.ask_to_end();
    let (success, errors) = ended(&first);
    assert!(!success && errors.contains("stopped before it had joined a run"), "{errors}");
    let second = net.worker(1);
    until(&second, "waiting for worker 0");
    exact(&[net.worker(0), second], 10_000);
}

/// Endpoints that know nothing but their interface, the controller's address, and the name of a job.
#[test]
fn endpoints_need_no_job_file() {
    if !namespaces() {
        return;
    }
    for (protocol, threads) in [("atp", 1), ("esa", 1), ("p4inc", 2), ("switchml", 1)] {
        let local = matches!(protocol, "p4inc" | "switchml");
        let hosts = if local { &["w1", "w2"][..] } else { &["w1", "w2", "ps1", "ps2"] };
        let mut job =
            job(protocol, 5).replace("[[job]]\n", &format!("[[job]]\nthreads = {threads}\n"));
        if protocol == "esa" {
            job = job.replace("[[job]]\n", "[[job]]\nagent = \"ps2\"\n");
        }
        if !local {
            job = job.replace("workers = 2\n", "workers = 2\nps_hosts = 2\n");
        }
        let net = Net::with(&job, hosts);
        let _controller = net.controller();
        let (at, known) = (net.runs(), ["--interface", "eth0", "--controller"]);
        let start = |host, command: &[&str]| net.start(host, &[command, &known, &[&at]].concat());
        let agent = (protocol == "esa").then(|| start("ps2", &["reminder"]));
        let server = (!local).then(|| start("ps1", &["ps"]));
        for _ in 0..2 {
            let both = ["w1", "w2"].map(|host| start(host, &["worker", "--job", "job1"]));
            exact(&both, 10_000);
        }
        for process in agent.iter().chain(&server) {
            process.ask_to_end();
            let (success, errors) = ended(process);
            assert!(success, "{errors}");
        }
        let refused = |host, command: &[&str], said: &str| {
            let (success, errors) = ended(&start(host, command));
            let line = errors.lines().last().unwrap_or_default();
            assert!(!success && line.contains(said), "{protocol}: {errors}");
        };
        refused("w1", &["worker", "--job", "job2"], "there is no job `job2`");
        refused("w1", &["worker", "--job", "job1", "--host", "w9"], "the network has no host `w9`");
        refused("w1", &["worker", "--job", "job1", "--worker", "7"], "has workers 0 to 1");
    }
}

/// One process of a host, for all jobs that it ever has to serve.
#[test]
fn a_server_serves_the_jobs_that_its_host_has_now() {
    if !namespaces() {
        return;
    }
    let net = Net::with(&job("atp", 5), &["w1", "w2", "ps"]);
    let other = net.file.path("other.toml");
    let second = job("atp", 7).replace("[[job]]\n", "[[job]]\nname = \"second\"\n");
    std::fs::write(&other, second).unwrap();
    let (at, known) = (net.runs(), ["--interface", "eth0", "--controller"]);
    let start = |host, command: &[&str]| net.start(host, &[command, &known, &[&at]].concat());
    let workers = |job| ["w1", "w2"].map(|host| start(host, &["worker", "--job", job]));
    let controller = net.controller();
    let server = start("ps", &["ps"]);
    // This host has nothing to serve.
    let idle = start("w1", &["ps"]);
    exact(&workers("job1"), 10_000);
    controller.ask_to_end();
    assert!(ended(&controller).0);
    let _controller = net.controller_of(&other.display().to_string(), &[]);
    exact(&workers("second"), 14_000);
    for process in [server, idle] {
        process.ask_to_end();
        let (success, errors) = ended(&process);
        assert!(success, "{errors}");
    }
}

/// Hosts start their processes in any order.
#[test]
fn endpoints_wait_a_while_for_their_controller() {
    if !namespaces() {
        return;
    }
    let net = Net::with(&job("atp", 5), &["w1", "w2", "ps"]);
    let (at, known) = (net.runs(), ["ps", "--interface", "eth0", "--controller"]);
    let server = net.start("ps", &[&known[..], &[&at]].concat());
    let workers = workers(&net, 1);
    workers.iter().for_each(|worker| until(worker, "waiting for the controller: "));
    let said = || server.output(Stream::Err).contains("waiting for the controller at ");
    while !said() && server.wait(Some(Duration::from_millis(20))).unwrap().is_none() {}
    let _controller = net.controller();
    exact(&workers, 10_000);
    server.ask_to_end();
    let (success, errors) = ended(&server);
    let said = errors.lines().filter(|line| line.contains("waiting for the controller at "));
    assert!(success && said.count() == 1, "{errors}");
}

#[test]
fn without_a_controller_no_endpoint_starts() {
    let ask = |command: &[&str]| {
        let command = [command, &["--interface", "lo"]].concat();
        let output = tributary(&command).env_remove("TRIBUTARY_CONTROLLER").output().unwrap();
        let errors = text(&output.stderr);
        assert!(!output.status.success() && errors.contains("--controller <ADDR>"), "{errors}");
        let nobody = ["--controller", "unix:/nonexistent/runs.sock"];
        let line = fail(&[&command[..], &nobody].concat());
        assert!(line.contains("/nonexistent/runs.sock does not answer"), "{line}");
        let output = tributary(&command).env("TRIBUTARY_CONTROLLER", "nowhere").output().unwrap();
        let errors = text(&output.stderr);
        assert!(errors.contains("nowhere: it is not an address"), "{errors}");
    };
    std::thread::scope(|scope| {
        for command in [&["worker", "--job", "a"][..], &["ps", "--host", "ps"], &["reminder"]] {
            scope.spawn(move || ask(command));
        }
    });
    let nobody = ["--controller", "127.0.0.1:1", "--interface", "lo"];
    let output = tributary(&[&["worker"], &nobody[..]].concat()).output().unwrap();
    let errors = text(&output.stderr);
    assert!(!output.status.success() && errors.contains("--job <NAME>"), "{errors}");
}
