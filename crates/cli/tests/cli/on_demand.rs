//! `tributary controller --on-demand`, called by a separate client and by `tributary job`.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tonic::Code;
use tributary_api::jobs::v1;
use tributary_api::jobs::v1::jobs_client::JobsClient;
use tributary_netio::memory::{self, MemoryPort};
use tributary_switch::SwitchConfig;
use tributary_switch::runtime::{Runtime, SwitchHandle};
use tributary_switch::server::{Listen, ServerHandle, Service};

use crate::command::{JobFile, fail, failure, succeed, tributary};
use crate::deaths::signal;

const FILE: &str = "protocol = \"p4inc\"\n[topology]\nkind = \"star\"\nworkers = 4\n\
                    ps_hosts = 1\n[switch]\npool = 64\n\
                    [[job]]\nworkers = [\"w1\", \"w2\"]\nsegment = 16\nwindow = 8\nslots = 8\n\
                    workload = { kind = \"random\", tensors = 1, elements = 10 }\n";

/// A switch with five ports that waits for its controller at a socket in the file's directory; it
/// ends when dropped.
pub(crate) fn switch(
    file: &JobFile,
    socket: &str,
) -> (ServerHandle, SwitchHandle, Vec<MemoryPort>) {
    let mut runtime = Runtime::new(SwitchConfig::default());
    let cables = (1..=5).map(|port| {
        let (near, far) = memory::pair();
        runtime.add_port(port, Box::new(near), None);
        far
    });
    let cables = cables.collect();
    let (switch, packets_in) = runtime.start().unwrap();
    let service = Service::new(switch.control().clone(), packets_in);
    let server = ServerHandle::start(service, Listen::Unix(file.path(socket))).unwrap();
    (server, switch, cables)
}

/// The printed address of a controller's service. Its output is not read afterwards.
fn address(controller: &mut Child) -> SocketAddr {
    let lines = BufReader::new(controller.stdout.take().unwrap()).lines();
    let mut said = lines.map_while(Result::ok);
    let at = said.find_map(|line| {
        Some(line.strip_prefix("endpoints and clients are served at ")?.parse().unwrap())
    });
    at.expect("the controller says where it serves")
}

#[test]
fn clients_control_jobs() {
    let file = JobFile::new(FILE);
    let _switch = switch(&file, "first.sock");
    let at = |socket| format!("s1=unix:{}", file.path(socket).display());
    let (name, first) = (file.name(), at("first.sock"));
    let args = ["controller", &name, "--switch", &first, "--listen", "127.0.0.1:0"];
    let args = [&args[..], &["--on-demand", "--allow-anyone"]].concat();
    let spawned = tributary(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut controller = spawned.unwrap();
    let address = address(&mut controller);

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = JobsClient::connect(format!("http://{address}"));
        let mut client = client.await.unwrap();
        // Job 1 is that of the file; job 9 has other hosts.
        let network = v1::Aggregation::Network as i32;
        let (aggregation, size, stepped) = (network, 16, true);
        let known =
            v1::AdmitRequest { job_id: 1, aggregation, size, stepped, ..Default::default() };
        let workers = vec!["w3".to_owned(), "w4".to_owned()];
        let other = v1::AdmitRequest { job_id: 9, workers, size: 48, ..known.clone() };
        for (request, mem_id) in [(known, 0), (other.clone(), 16)] {
            let assignment = client.admit(request).await.unwrap().into_inner().assignment;
            let assignment = assignment.unwrap();
            assert_eq!((assignment.service_id, assignment.mem_id), (1, mem_id));
        }
        let full = client.admit(v1::AdmitRequest { job_id: 10, ..other }).await.unwrap_err();
        assert_eq!(full.code(), Code::ResourceExhausted);
        let start = v1::StartIterationRequest { job_id: 1, number: 1 };
        assert!(client.start_iteration(start).await.is_ok());
    });

    // A second controller reports that the socket is in use, and does not disturb the first.
    let taken = address.to_string();
    let _other_switch = switch(&file, "second.sock");
    let second = at("second.sock");
    let args = ["controller", &name, "--switch", &second, "--listen", &taken];
    let args = [&args[..], &["--on-demand", "--allow-anyone"]].concat();
    let line = failure(&args, &tributary(&args).output().unwrap());
    assert!(line.contains(&taken) && line.contains("in use"), "{line}");

    // With jobs admitted, one of them at work.
    signal(controller.id().cast_signed(), Signal::SIGTERM);
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    let status = loop {
        match controller.try_wait().unwrap() {
            Some(status) => break status,
            None => assert!(std::time::Instant::now() < deadline, "it does not end"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(status.success(), "{status}");
}

/// A controller that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// `tributary job` with each of its commands, at a controller.
#[test]
fn the_command_line_controls_jobs() {
    let file = JobFile::new(FILE);
    let _switch = switch(&file, "first.sock");
    let at = format!("s1=unix:{}", file.path("first.sock").display());
    let (name, listen) = (file.name(), format!("unix:{}", file.path("jobs.sock").display()));
    let args = ["controller", &name, "--switch", &at, "--listen", &listen, "--on-demand"];
    let spawned = tributary(&args).stdout(Stdio::piped()).spawn();
    let mut controller = Running(spawned.unwrap());
    let lines = BufReader::new(controller.0.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "end with Ctrl-C"));
    let at = ["--controller", &listen];
    let job = |args: &[&str]| succeed(&[&["job"], args, &at[..]].concat());
    let refused = |args: &[&str]| fail(&[&["job"], args, &at[..]].concat());

    // A job of the file, and one that it does not have.
    let network = ["--aggregation", "network", "--stepped"];
    let own = [&["submit", "--id", "1", "--segment", "16"][..], &network].concat();
    let said = job(&own);
    assert!(said.starts_with("job 1: run ") && said.contains("local (16 aggregators)"), "{said}");
    let other = ["submit", "--id", "9", "--worker", "w3", "--worker", "w4", "--name", "other"];
    let other = [&other[..], &["--segment", "32"], &network].concat();
    let said = job(&other);
    assert!(said.starts_with("job 9: run ") && said.contains("local (32 aggregators)"), "{said}");
    let line = refused(&own);
    assert!(line.contains("refused: "), "{line}");
    let line = refused(&["submit", "--id", "2"]);
    assert!(line.contains("--segment N"), "{line}");
    let line = refused(&["submit"]);
    assert!(line.contains("--id N") && line.contains("--worker HOST"), "{line}");

    let listed = || -> Value { serde_json::from_str(&job(&["list", "--json"])).unwrap() };
    let found = listed();
    let jobs = found["jobs"].as_array().unwrap();
    assert_eq!(jobs.iter().map(|job| job["job"].as_u64()).collect::<Vec<_>>(), [Some(1), Some(9)]);
    assert_eq!((&jobs[1]["name"], &jobs[1]["workers"]), (&"other".into(), &json!(["w3", "w4"])));
    assert_eq!(found["memory"][0]["free"].as_u64(), Some(64 - 16 - 32));
    let table = job(&["list"]);
    assert!(table.contains("w3 w4") && table.contains("unlimited"), "{table}");

    // Each change is a line of a watch, which ends with the job.
    let watch = [&["job", "watch", "9"], &at[..]].concat();
    let mut watch = tributary(&watch).stdout(Stdio::piped()).spawn().unwrap();
    let mut states = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = || states.next().unwrap().unwrap();
    let first = next();
    assert!(first.contains("iteration 0 finished, local (32 aggregators)"), "{first}");
    assert_eq!(job(&["change", "9", "--rate", "2Mb/s"]), "job 9: rate 2 Mb/s\n");
    let paced = next();
    assert!(paced.contains("rate 2 Mb/s"), "{paced}");
    let moved = job(&["change", "9", "--segment", "16"]);
    assert_eq!(moved, "job 9: local (16 aggregators)\n");
    assert!(next().contains("local (16 aggregators)"));
    assert_eq!(job(&["cancel", "9"]), "job 9 released, 0 aggregators freed\n");
    assert_eq!(next(), "job 9 is released");
    assert!(watch.wait().unwrap().success());
    assert_eq!(listed()["jobs"].as_array().unwrap().len(), 1);
    let line = refused(&["cancel", "9"]);
    assert!(line.contains("refused: "), "{line}");
}

/// Options of one server are not taken for the other.
#[test]
fn a_job_is_submitted_to_one_server() {
    for args in [
        &["job", "list", "--manager", "127.0.0.1:1", "--controller", "127.0.0.1:1"][..],
        &["job", "submit", "--gpus", "1", "--iterations", "1", "--id", "3"],
        &["job", "submit", "--controller", "127.0.0.1:1", "--id", "3", "--gpus", "1"],
        &["job", "submit", "--iterations", "1"],
        &["job", "change", "3"],
    ] {
        let output = tributary(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
    let line = fail(&["job", "cancel", "3", "--controller", "127.0.0.1:1"]);
    assert!(line.contains("the controller at 127.0.0.1:1 cannot be reached"), "{line}");
}
