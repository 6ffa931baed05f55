//! ESA as users run it: in one command, and as separate processes that die and come back.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use tributary_run::testbed::{Process, Stream};

use crate::by_hand::{DEADLINE, Net, ended, until};
use crate::command::{JobFile, fail, failure, namespaces, succeed};
use crate::deaths::{assert_gone, signal, under_way};

/// Two jobs that share few aggregators, on links that lose packets.
const SMALL: &str = "protocol = \"esa\"\n[topology]\nkind = \"star\"\nworkers = 4\n\
                     [switch]\npool = 8\n[faults]\nloss = 0.01\n\
                     [[job]]\nname = \"a\"\nworkers = [\"w1\", \"w2\"]\nremaining = \"60s\"\n\
                     workload = { kind = \"random\", tensors = 10, elements = 2000 }\n\
                     [[job]]\nname = \"b\"\nworkers = [\"w3\", \"w4\"]\nremaining = \"1s\"\n\
                     workload = { kind = \"random\", tensors = 10, elements = 2000 }\n";

/// A job with its reminder agent on a host of its own. With the papers' rules workers use the agent
/// at once.
const APART: &str = "protocol = { kind = \"esa\", recovery = \"papers\" }\n[topology]\nkind = \"star\"\nworkers = 3\n\
                     ps_hosts = 2\n[faults]\nloss = 0.02\n\
                     [[job]]\nname = \"a\"\nps = \"ps1\"\nagent = \"ps2\"\n\
                     workload = { kind = \"random\", tensors = 10, elements = 2000 }\n";

fn fabrics() -> Vec<&'static str> {
    if namespaces() { vec!["memory", "netns"] } else { vec!["memory"] }
}

/// Runs a file and returns its report.
fn report(file: &JobFile, fabric: &str) -> Value {
    let json = file.path("report.json").display().to_string();
    succeed(&["run", &file.name(), "--fabric", fabric, "--json-out", &json]);
    serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap()
}

#[test]
fn jobs_that_contend_are_summed_exactly_and_reported() {
    let file = JobFile::new(SMALL);
    for fabric in ["sim"].into_iter().chain(fabrics()) {
        let report = report(&file, fabric);
        let jobs = report["jobs"].as_array().unwrap();
        let of = |job: &Value, name: &str| job["esa"][name].as_u64().unwrap();
        for job in jobs {
            assert_eq!(job["protocol"], "esa");
            assert_eq!(job["verified"], 2 * 10 * 2000, "{fabric}: {job}");
            let results = of(job, "results_of_switches") + of(job, "results_of_server");
            assert_eq!(results, job["fragments"].as_u64().unwrap());
            // On the other fabrics, the machine decides whether the jobs meet at all.
            let contends = of(job, "reminders") > 0 && of(job, "downgradings") > 0;
            assert!(contends || fabric != "sim", "{job}");
        }
        let preemptions: u64 = jobs.iter().map(|job| of(job, "preemptions")).sum();
        assert!(preemptions > 0 || fabric != "sim", "{report}");
    }
}

#[test]
fn an_agent_on_a_host_of_its_own_reports_too() {
    let file = JobFile::new(APART);
    for fabric in fabrics() {
        let report = report(&file, fabric);
        let job = &report["jobs"][0];
        assert_eq!(job["verified"], 3 * 10 * 2000, "{fabric}: {job}");
        assert!(job["server"]["agent"]["reminded"].as_u64().unwrap() > 0, "{fabric}: {job}");
        assert!(job["esa"]["reminders"].as_u64().unwrap() > 0, "{fabric}: {job}");
    }
}

#[test]
fn a_host_cannot_be_parameter_server_of_one_job_and_agent_of_another() {
    let text = APART.replace("workers = 3", "workers = 4").replace(
        "[[job]]\nname = \"a\"\n",
        "[[job]]\nname = \"b\"\nps = \"ps2\"\nworkers = [\"w3\", \"w4\"]\n\
         workload = { kind = \"random\", tensors = 1, elements = 10 }\n\
         [[job]]\nname = \"a\"\nworkers = [\"w1\", \"w2\"]\n",
    );
    let line = fail(&["run", &JobFile::new(&text).name()]);
    assert!(line.contains("host `ps2`") && line.contains("reminder agent"), "{line}");
}

/// A job long enough to be disturbed.
fn long(tensors: u32) -> String {
    format!(
        "protocol = \"esa\"\nworker_timeout = \"3s\"\n[topology]\nkind = \"star\"\nworkers = 2\n\
         [switch]\npool = 64\n[faults]\nloss = 0.02\n[[job]]\nname = \"long\"\n\
         workload = {{ kind = \"random\", tensors = {tensors}, elements = 2000 }}\n\
         [[job.straggler]]\nworker = 0\ndelay = \"20ms\"\n"
    )
}

#[test]
fn tokens_are_on_no_command_line_and_the_run_names_the_dead_process() {
    if !namespaces() {
        return;
    }
    let file = JobFile::new(&long(1000));
    let name = file.name();
    for (victim, said) in
        [("switch --name", "switch s1"), ("--worker 1", "job long: worker 1 failed")]
    {
        let args = ["run", &name, "--fabric", "netns"];
        let (run, victim, before) = under_way(&args, victim);
        // They come through a socket that only this user reaches.
        let sockets: Vec<_> = before
            .iter()
            .filter_map(|(_, line)| line.split(' ').skip_while(|arg| *arg != "--controller").nth(1))
            .collect();
        assert_eq!(sockets.len(), 3, "two workers and a parameter server: {before:?}");
        let socket = Path::new(sockets[0].strip_prefix("unix:").unwrap()).to_owned();
        let directory = socket.parent().unwrap();
        assert_eq!(fs::metadata(directory).unwrap().permissions().mode() & 0o077, 0);
        let is_token = |word: &str| word.len() == 32 && word.bytes().all(|c| c.is_ascii_hexdigit());
        for (id, line) in &before {
            assert!(!line.split([' ', '=', ':']).any(is_token), "{line}");
            let environment = fs::read(format!("/proc/{id}/environ")).unwrap();
            let environment = String::from_utf8_lossy(&environment).into_owned();
            assert!(!environment.split(['\0', '=', ':']).any(is_token));
        }
        signal(victim, Signal::SIGKILL);
        let output = run.wait_with_output().unwrap();
        let line = failure(&args, &output);
        assert!(line.contains(said), "{line}");
        assert_gone(&before);
        assert!(!socket.exists(), "the socket is gone with the run");
    }
}

#[test]
fn a_parameter_server_that_is_killed_and_restarted_costs_time_only() {
    if !namespaces() {
        return;
    }
    let net = Net::new(&long(150));
    let controller = net.controller();
    let server = net.server();
    let workers = [0, 1].map(|index| net.worker(index));
    for worker in &workers {
        until(worker, "round 20 of 150");
    }
    server.kill().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    let still_at_it = |worker: &Process| !worker.output(Stream::Out).contains("round 150 of 150");
    assert!(workers.iter().all(still_at_it), "it was killed in the middle");
    let server = net.server();
    for worker in &workers {
        let (success, errors) = ended(worker);
        assert!(success, "{errors}");
        let output = worker.output(Stream::Out);
        assert!(output.contains("300000 values summed, 300000 of them compared"), "{output}");
    }
    server.ask_to_end();
    assert!(server.end(DEADLINE).unwrap().success());
    let [_, left] = net.sweeps(&controller);
    assert_eq!(left, 0, "nothing stays in the switch");
}

#[test]
fn an_agent_apart_that_is_killed_and_restarted_costs_time_only() {
    if !namespaces() {
        return;
    }
    let job = long(150)
        .replace("workers = 2\n", "workers = 2\nps_hosts = 2\n")
        .replace("name = \"long\"\n", "name = \"long\"\nps = \"ps1\"\nagent = \"ps2\"\n");
    let net = Net::with(&job, &["w1", "w2", "ps1", "ps2"]);
    let controller = net.controller();
    let agent = net.agent_on("ps2");
    let server = net.server_on("ps1");
    let workers = [0, 1].map(|index| net.worker(index));
    for worker in &workers {
        until(worker, "round 20 of 150");
    }
    agent.kill().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    let still_at_it = |worker: &Process| !worker.output(Stream::Out).contains("round 150 of 150");
    assert!(workers.iter().all(still_at_it), "it was killed in the middle");
    // Workers and server find the new agent by themselves.
    let agent = net.agent_on("ps2");
    for worker in &workers {
        let (success, errors) = ended(worker);
        assert!(success, "{errors}");
        let output = worker.output(Stream::Out);
        assert!(output.contains("300000 values summed, 300000 of them compared"), "{output}");
    }
    agent.ask_to_end();
    assert!(agent.end(DEADLINE).unwrap().success());
    let said = agent.output(Stream::Out);
    let report = said.lines().find_map(|line| line.strip_prefix("job 1: "));
    let report = report.unwrap_or_else(|| panic!("no report in {said}"));
    let reminded = report.split(' ').next().unwrap();
    assert!(reminded.parse::<u64>().unwrap() > 0, "the successor was of use: {report}");
    server.ask_to_end();
    assert!(server.end(DEADLINE).unwrap().success());
    let [_, left] = net.sweeps(&controller);
    assert_eq!(left, 0, "nothing stays in the switch");
}

#[test]
fn a_worker_that_is_killed_leaves_nothing_in_the_switch() {
    if !namespaces() {
        return;
    }
    let net = Net::new(&long(1000));
    let controller = net.controller();
    let server = net.server();
    let workers = [0, 1].map(|index| net.worker(index));
    for worker in &workers {
        until(worker, "round 20 of 1000");
    }
    workers[0].kill().unwrap();
    let (success, errors) = ended(&workers[1]);
    assert!(!success && errors.contains("worker 0 has died"), "{errors}");
    server.ask_to_end();
    assert!(server.end(DEADLINE).unwrap().success());
    let [_, left] = net.sweeps(&controller);
    assert_eq!(left, 0, "the sweep found every cell");
}

/// A controller without a journal draws new tokens when it is started again. The server learns them, and a run that goes
/// on has the old ones.
#[test]
fn a_worker_with_another_token_is_refused_at_once() {
    if !namespaces() {
        return;
    }
    let net = Net::new(&long(100_000));
    let controller = net.controller();
    let server = net.server();
    let workers = [0, 1].map(|index| net.worker(index));
    for worker in &workers {
        until(worker, "round 20 of");
    }
    controller.kill().unwrap();
    let _controller = net.controller();
    for worker in &workers {
        let (success, errors) = ended(worker);
        assert!(!success, "{errors}");
        assert!(errors.contains("refused this worker: the token is not the job's"), "{errors}");
    }
    let log = server.output(Stream::Err);
    assert!(log.contains("a peer of job 1 and was refused: its token is not the job's"), "{log}");
}

/// ESA's TCP crosses the same links as its packets, so no message passes such a link.
#[test]
fn over_links_that_lose_everything_no_job_succeeds() {
    for fabric in fabrics() {
        for protocol in ["atp", "esa", "p4inc", "switchml"] {
            let file = JobFile::new(&format!(
                "protocol = \"{protocol}\"\ntimeout = \"6s\"\nworker_timeout = \"1s\"\n\
                 [faults]\nloss = 1.0\n[[job]]\nworkers = 2\n\
                 workload = {{ kind = \"random\", tensors = 1, elements = 100 }}\n"
            ));
            let line = fail(&["run", &file.name(), "--fabric", fabric]);
            assert!(!line.contains("panicked"), "{fabric}, {protocol}: {line}");
        }
    }
}

#[test]
fn tcp_messages_take_the_time_of_the_links() {
    // With the papers' rules, a worker that has its sums stays until it is dismissed over TCP: the handshake, the goodbye
    // and its answer cross two links four times in total.
    let file = JobFile::new(
        "protocol = { kind = \"esa\", recovery = \"papers\" }\n[faults]\ndelay = \"50ms\"\n[[job]]\nworkers = 2\n\
         workload = { kind = \"random\", tensors = 1, elements = 10 }\n",
    );
    for fabric in fabrics() {
        let report = report(&file, fabric);
        assert!(report["seconds"].as_f64().unwrap() > 0.4, "{fabric}: {report}");
    }
}
