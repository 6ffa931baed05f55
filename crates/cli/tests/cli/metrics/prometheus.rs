//! Debian's Prometheus and promtool, where they are installed.

use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::page::{Page, ask, try_ask};
use crate::by_hand::DEADLINE;
use crate::command::{JobFile, namespaces, root, text, tributary};

/// Two ESA jobs that contend for aggregators, for some seconds.
const JOBS: &str = "protocol = \"esa\"\nseed = 3\n[topology]\nkind = \"star\"\nworkers = 4\n[switch]\npool = 16\n\
                    [[job]]\nname = \"slow\"\nworkers = [\"w1\", \"w2\"]\ncommunication = \"1ms\"\n\
                    computation = \"2ms\"\nremaining = \"60s\"\n\
                    workload = { kind = \"random\", tensors = 4000, bytes = \"16KB\" }\n\
                    [[job.straggler]]\nworker = \"w2\"\ndelay = \"50ms\"\n\
                    [[job]]\nname = \"quick\"\nworkers = [\"w3\", \"w4\"]\ncommunication = \"4ms\"\n\
                    computation = \"1ms\"\nremaining = \"5s\"\n\
                    workload = { kind = \"random\", tensors = 4000, bytes = \"32KB\" }\n\
                    [[job.straggler]]\nworker = \"w4\"\ndelay = \"50ms\"\n";

/// Whether a program is on the path; prints a message if not.
fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        println!("skipped: no {program} here (Debian's package prometheus)");
    }
    found
}

/// A process that is ended with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let process = Pid::from_raw(self.0.id().try_into().unwrap());
        let _ = kill(process, Signal::SIGTERM);
        drop(self.0.wait());
    }
}

/// An address that nothing uses.
fn free() -> SocketAddr {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    TcpListener::bind(any).unwrap().local_addr().unwrap()
}

fn promtool(args: &[&str], input: &str) {
    let mut tool = Command::new("promtool");
    let tool = tool.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut tool = tool.current_dir(root().join("deploy/prometheus")).spawn().unwrap();
    tool.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = tool.wait_with_output().unwrap();
    assert!(output.status.success(), "{args:?}: {}{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn promtool_accepts_rules_and_configuration_and_alerts_fire_when_they_should() {
    if !has("promtool") {
        return;
    }
    promtool(&["check", "rules", "tributary.rules.yml"], "");
    promtool(&["check", "config", "prometheus.yml"], "");
    promtool(&["test", "rules", "tributary.test.yml"], "");
}

/// A run, and the address of its metrics.
fn start_run(file: &JobFile) -> (Ended, SocketAddr) {
    // In processes of their own, if that is possible here.
    let fabric = if namespaces() { "netns" } else { "memory" };
    let address = free();
    let metrics = address.to_string();
    let mut run = tributary(&["run", &file.name(), "--fabric", fabric, "--metrics", &metrics]);
    let run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    (Ended(run), address)
}

/// Asks Prometheus until the answer is good.
fn query(prometheus: SocketAddr, path: &str, good: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + DEADLINE;
    let mut last = Value::Null;
    while Instant::now() < deadline {
        if let Ok(stream) = TcpStream::connect(prometheus) {
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            // While it starts, it answers that it is not ready.
            match try_ask(stream, path, "*/*") {
                Ok(body) => {
                    let answer: Value = serde_json::from_str(&body).unwrap();
                    if good(&answer["data"]) {
                        return answer["data"].clone();
                    }
                    last = answer;
                }
                Err(answer) => last = answer.into(),
            }
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{path}: {last:#}");
}

#[test]
fn a_real_prometheus_reads_the_metrics_of_a_run_and_evaluates_the_rules() {
    if !has("prometheus") {
        return;
    }
    let file = JobFile::new(JOBS);
    let (_run, address) = start_run(&file);
    let rules = root().join("deploy/prometheus/tributary.rules.yml");
    fs::copy(rules, file.path("tributary.rules.yml")).unwrap();
    let config = format!(
        "global: {{ scrape_interval: 500ms, evaluation_interval: 500ms }}\n\
         rule_files: [tributary.rules.yml]\n\
         scrape_configs: [{{ job_name: tributary, static_configs: [{{ targets: [\"{address}\"] }}] }}]\n"
    );
    fs::write(file.path("prometheus.yml"), config).unwrap();
    let listen = free();
    let prometheus = Command::new("prometheus")
        .arg(format!("--config.file={}", file.path("prometheus.yml").display()))
        .arg(format!("--storage.tsdb.path={}", file.path("data").display()))
        .arg(format!("--web.listen-address={listen}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _prometheus = Ended(prometheus);

    // It accepts the whole page.
    let up = |data: &Value| data["activeTargets"][0]["health"] == "up";
    let target = query(listen, "/api/v1/targets", up);
    assert_eq!(target["activeTargets"][0]["lastError"], "");
    let some = |data: &Value| !data["result"].as_array().unwrap().is_empty();
    let series = |expression: &str, good: &dyn Fn(&Value) -> bool| {
        query(listen, &format!("/api/v1/query?query={}", encoded(expression)), good)
    };
    let all_workers = |data: &Value| data["result"].as_array().unwrap().len() == 4;
    series("sum by (job_id, worker) (tributary_worker_fragments_total) > 0", &all_workers);
    series("tributary_worker_rtt_seconds_bucket{le=\"+Inf\"} > 0", &some);
    series("sum(tributary_switch_packets_total{outcome=\"preempted\"}) > 0", &some);
    series("tributary_switch_aggregators == 16", &some);
    series("tributary_server_straggler_gap_seconds", &all_workers);
    series("tributary_job_info{name=\"slow\",protocol=\"esa\"}", &some);
    // Recording rules have values, and no rule fails.
    series("tributary:worker_lateness_seconds:mean_1m", &all_workers);
    series("tributary:switch_aggregators_in_use:ratio", &some);
    let evaluated = query(listen, "/api/v1/rules", |data| {
        let groups = data["groups"].as_array().unwrap();
        let rules = groups.iter().flat_map(|group| group["rules"].as_array().unwrap());
        rules.clone().count() > 10 && rules.into_iter().all(|rule| rule["health"] != "unknown")
    });
    for group in evaluated["groups"].as_array().unwrap() {
        for rule in group["rules"].as_array().unwrap() {
            assert_eq!(rule["health"], "ok", "{rule:#}");
        }
    }
}

#[test]
fn promtool_finds_nothing_to_complain_about_in_the_names() {
    if !has("promtool") {
        return;
    }
    let file = JobFile::new(JOBS);
    let (_run, address) = start_run(&file);
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Ok(stream) = TcpStream::connect(address) {
            let page = ask(stream, "/metrics", "application/openmetrics-text");
            let page = Page::parse(&page);
            if page.sum("tributary_worker_fragments_total", &[]) > 0.0
                && page.sum("tributary_switch_packets_total", &[]) > 0.0
                && page.samples("tributary_server_fragments_total").next().is_some()
            {
                super::Documented::load().has_all(&page);
                break;
            }
        }
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(100));
    }
    let older = ask(TcpStream::connect(address).unwrap(), "/metrics", "text/plain");
    promtool(&["check", "metrics"], &older);
}

/// An expression in a URL.
fn encoded(expression: &str) -> String {
    let mut all = String::new();
    for byte in expression.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => all.push(char::from(byte)),
            other => all.push_str(&format!("%{other:02X}")),
        }
    }
    all
}
