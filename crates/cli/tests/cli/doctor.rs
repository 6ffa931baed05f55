//! `tributary doctor` on this machine, and with switches in namespaces.

use std::net::TcpListener;

use serde_json::Value;
use tributary_run::testbed::Stream;

use crate::by_hand::Net;
use crate::command::{JobFile, failure, namespaces, text, tributary};

const JOB: &str = "[topology]\nkind = \"star\"\nworkers = 2\n[[job]]\nname = \"small\"\n\
                   workload = { kind = \"random\", tensors = 3, bytes = \"4KB\" }\n";

/// The checks of a call, whatever its status.
fn checks(args: &[&str]) -> (bool, Vec<Value>) {
    let args: Vec<&str> = ["doctor", "--json"].iter().chain(args).copied().collect();
    let output = tributary(&args).output().unwrap();
    let checks = serde_json::from_slice(&output.stdout);
    let checks: Vec<Value> = checks.unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    for check in &checks {
        let troubled = check["verdict"] == "fail" || check["verdict"] == "warn";
        assert!(!troubled || check["fix"].is_string(), "it says what to do: {check}");
    }
    let failed = checks.iter().any(|check| check["verdict"] == "fail");
    assert_eq!(output.status.code(), Some(i32::from(failed)), "{}", text(&output.stderr));
    (output.status.success(), checks)
}

fn named<'c>(checks: &'c [Value], area: &str, name: &str) -> &'c Value {
    let mut found = checks
        .iter()
        .filter(|check| check["name"] == name && check["area"].as_str().unwrap().starts_with(area));
    found.next().unwrap_or_else(|| panic!("no {area}: {name} in {checks:#?}"))
}

#[test]
fn this_machine_is_described() {
    let (_, checks) = checks(&[]);
    assert_eq!(named(&checks, "kernel", "AF_PACKET")["verdict"], "ok");
    assert!(named(&checks, "kernel", "version")["found"].as_str().unwrap().contains('.'));
    for (area, name) in [
        ("rights", "raw sockets"),
        ("memory", "receive buffers"),
        ("processors", "cores"),
        ("tools", "simple_switch_grpc"),
    ] {
        named(&checks, area, name);
    }
}

#[test]
fn problems_fail_with_one_line() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("s1=127.0.0.1:{port}");
    let args = ["doctor", "--interface", "no-such-if", "--switch", &address];
    let output = tributary(&args).output().unwrap();
    let line = failure(&args, &output);
    assert!(line.contains("checks failed"), "{line}");
    let said = text(&output.stdout);
    assert!(said.contains("FAIL  presence: there is no such interface"), "{said}");
    assert!(said.contains("FAIL  P4Runtime: nobody answers"), "{said}");
    let (_, loopback) = checks(&["--interface", "lo"]);
    assert_eq!(named(&loopback, "interface lo", "presence")["verdict"], "fail");
}

#[test]
fn a_server_that_does_not_answer_is_distinguished() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let (good, checks) = checks(&["--switch", &address]);
    let check = named(&checks, "switch", "P4Runtime");
    assert!(!good && check["verdict"] == "fail", "{check}");
    assert!(check["found"].as_str().unwrap().contains("does not answer"), "{check}");
}

#[test]
fn an_invalid_job_file_is_reported_in_one_line() {
    let file = JobFile::new("[[job]]\nwokers = 2\n");
    let args = ["doctor", "--job-file", &file.name()];
    let line = failure(&args, &tributary(&args).output().unwrap());
    assert!(line.contains("wokers"), "{line}");
}

/// On a worker's host, before and after a controller was running.
#[test]
fn a_host_and_its_switch() {
    if !namespaces() {
        return;
    }
    let net = Net::new(JOB);
    let (file, socket) = (net.file.name(), net.socket());
    let doctor = |node: &str| -> Vec<Value> {
        let switch = format!("s1={socket}");
        let args =
            ["doctor", "--json", "--job-file", &file, "--interface", "eth0", "--switch", &switch];
        let process = net.start(node, &args);
        process.wait(Some(crate::by_hand::DEADLINE)).unwrap().expect("it ends");
        serde_json::from_str(&process.output(Stream::Out))
            .unwrap_or_else(|_| panic!("{}", process.output(Stream::Err)))
    };
    let before = doctor("w1");
    assert_eq!(named(&before, "interface eth0", "address")["verdict"], "ok");
    assert_eq!(named(&before, "interface eth0", "MTU")["verdict"], "ok");
    assert_eq!(named(&before, "switch", "program")["found"], "none yet");
    assert_eq!(named(&before, "switch", "controller")["verdict"], "ok");
    assert_eq!(named(&before, "hosts", "silent")["verdict"], "warn");

    let controller = net.controller();
    let after = doctor("w1");
    let program = named(&after, "switch", "program");
    assert_eq!(program["verdict"], "ok", "{program}");
    let ruler = named(&after, "switch", "controller")["found"].as_str().unwrap();
    assert_eq!(ruler, "one is connected, with election ID 1");
    assert_eq!(named(&after, "hosts", "neighbours")["verdict"], "ok", "{after:#?}");
    // The doctor replaced no controller: the controller still removes its job.
    assert_eq!(crate::by_hand::freed(&controller), 0);
}
