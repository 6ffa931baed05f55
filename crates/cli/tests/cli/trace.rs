//! `tributary p4 trace` and `tributary switch --explain`: the examples of docs/reference/trace.md,
//! live packets, and bad input.

use std::io::Write;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use tributary_run::testbed::{Host, Link, LinkEnd, Output as Keep, SwitchNode, Testbed, Topology};

use crate::command::{namespaces, root, text, tributary};

/// The text between the first line that is `begin` and the next that is `end`.
fn between<'a>(page: &'a str, begin: &str, end: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("\n{begin}\n")).expect("the page has it");
    rest.split_once(&format!("\n{end}\n")).expect("it ends").0
}

/// Writes the example of docs/reference/stf.md, which both pages share.
fn example(directory: &Path) {
    let page = std::fs::read_to_string(root().join("docs/reference/stf.md")).unwrap();
    std::fs::write(directory.join("port.p4"), between(&page, "```p4", "```")).unwrap();
    std::fs::write(directory.join("port.stf"), between(&page, "```text", "```")).unwrap();
}

fn run(directory: &Path, args: &[&str]) -> Output {
    let args = [&["p4", "trace"][..], args].concat();
    tributary(&args).current_dir(directory).output().unwrap()
}

#[test]
fn the_example_of_the_page_gives_the_output_of_the_page() {
    let directory = tempfile::tempdir().unwrap();
    example(directory.path());
    let page = std::fs::read_to_string(root().join("docs/reference/trace.md")).unwrap();
    let shown = between(&page, "```console", "```");
    let (command, expected) = shown.split_once('\n').unwrap();
    assert_eq!(command, "$ tributary p4 trace port.p4 --entries port.stf --packet '15 00 AABB'");
    let args = ["port.p4", "--entries", "port.stf", "--packet", "15 00 AABB"];
    let output = run(directory.path(), &args);
    assert_eq!(text(&output.stdout).trim_end(), expected.trim_end());
    assert!(output.status.success());
    assert_eq!(text(&output.stderr), "");
}

/// The gradient that completes an aggregator: the sums are those of the two fragments.
#[test]
fn the_packet_of_the_page_completes_the_sums_of_both_workers() {
    let hex = std::fs::read_to_string(root().join("examples/trace/atp-gradient.hex")).unwrap();
    let common = [
        "p4src/v1model/atp.p4",
        "-D",
        "VALUES=32",
        "--entries",
        "examples/trace/atp.stf",
        "--port",
        "2",
        "--packet",
        &hex,
    ];
    let output = run(&root(), &[&common[..], &["--format", "json"]].concat());
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut nodes = vec![&document["tree"]];
    let mut sent = Vec::new();
    while let Some(node) = nodes.pop() {
        if node["kind"] == "sent" {
            sent.push((node["port"].as_u64().unwrap(), node["bytes"].as_str().unwrap().to_owned()));
        }
        nodes.extend(node["children"].as_array().into_iter().flatten());
    }
    let [(port, frame)] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!(*port, 3);
    let values = (1..=32).map(|i| format!("{:08x}", 11 * i)).collect::<String>();
    assert!(frame.ends_with(&values), "{frame}");
}

#[test]
fn bad_input_gives_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    example(at);
    std::fs::write(at.join("wrong.stf"), "add ports 10 hdr.tag.tag:0x10 to(port:1000)\n").unwrap();
    std::fs::write(at.join("bad.stf"), "add ports 10\n  what\n").unwrap();
    let cases: &[(&[&str], &str)] = &[
        (&["--packet", "123"], "--packet: 3 digits are not whole bytes: write two digits for each"),
        (&["--packet", "12zz"], "--packet: `z`, character 3, is not a hexadecimal digit"),
        (&["--packet", "12", "--port", "511"], "port 511: the switch has the ports 0 to 510"),
        (
            &["--packet", "12", "--unknown", "nope"],
            "the program has no table `nope`: it has Forward.ports",
        ),
        (&["--packet", "12", "--entries", "none.stf"], "cannot read none.stf"),
        (&["--packet", "12", "--entries", "wrong.stf"], "wrong.stf:1:"),
        (&["--packet", "12", "--entries", "bad.stf"], "bad.stf:"),
        (&["--packet", "12", "--format", "png"], "invalid value 'png'"),
    ];
    for (args, reason) in cases {
        let output = run(at, &[&["port.p4"][..], args].concat());
        let error = text(&output.stderr);
        assert!(!output.status.success(), "{args:?}");
        assert_eq!(text(&output.stdout), "", "{args:?}");
        assert!(error.contains(reason), "{args:?}: {error}");
        if !error.contains("invalid value") {
            assert_eq!(error.trim_end().lines().count(), 1, "{args:?}: {error}");
        }
    }
    let output = run(at, &["absent.p4", "--packet", "00"]);
    assert!(text(&output.stderr).contains("cannot read absent.p4"));
    for filter in ["udp.dst", "port = 1", "hdr.nothing == 1", "tag.tag == x"] {
        let args = ["switch", "port.p4", "--port", "1@lo", "--io", "packet", "--explain", filter];
        let output = tributary(&args).current_dir(at).output().unwrap();
        let error = text(&output.stderr);
        assert!(!output.status.success() && error.contains("--explain: "), "{filter}: {error}");
        assert_eq!(error.trim_end().lines().count(), 1, "{error}");
    }
}

#[test]
fn an_empty_packet_is_explained_too() {
    let directory = tempfile::tempdir().unwrap();
    example(directory.path());
    let output = run(directory.path(), &["port.p4", "--packet", ""]);
    let shown = text(&output.stdout);
    assert!(output.status.success() && shown.contains("error PacketTooShort"), "{shown}");
}

/// Sends every frame from port 1 to port 2 and back, and counts them.
const BRIDGE: &str = r#"
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> destination; bit<48> source; bit<16> type; }
header ipv4_t { bit<96> beginning; bit<32> source; bit<32> destination; }
header udp_t { bit<16> source; bit<16> destination; bit<32> rest; }
struct headers_t { ethernet_t ethernet; ipv4_t ipv4; udp_t udp; }
struct metadata_t { bit<32> number; }
parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) { 0x0800: ipv4; default: accept; }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.beginning[23:16]) { 17: udp; default: accept; }
    }
    state udp { packet.extract(hdr.udp); transition accept; }
}
control Forward(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    register<bit<32>>(1) seen;
    apply {
        seen.read(meta.number, 0);
        if (hdr.udp.isValid()) { meta.number = meta.number + 1; }
        seen.write(0, meta.number);
        sm.egress_spec = 3 - sm.ingress_port;
    }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply {} }
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Emit(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(Parse(), Verify(), Forward(), Leave(), Update(), Emit()) main;
"#;

/// One packet in ten meets the filter. It is interpreted, while machine code runs the others: the register
/// that counts them all has the right number in each trace. No more are traced than were asked for.
#[test]
fn live_packets_are_traced_by_a_filter_and_share_registers_with_the_others() {
    if !namespaces() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("bridge.p4");
    std::fs::write(&program, BRIDGE).unwrap();
    let host = |number: u8, name: &str| Host {
        name: name.into(),
        mac: [2, 0, 10, 0, 1, number],
        ip: Ipv4Addr::new(10, 0, 1, number),
        prefix: 8,
    };
    let hosts = [host(1, "a"), host(2, "b")];
    let cable = |(index, host): (usize, &Host)| Link {
        a: LinkEnd::new(&host.name, 0),
        b: LinkEnd::new("s1", u16::try_from(index).unwrap() + 1),
        mtu: 1500,
    };
    let topology = Topology {
        links: hosts.iter().enumerate().map(cable).collect(),
        hosts: hosts.to_vec(),
        switches: vec![SwitchNode { name: "s1".into() }],
    };
    let testbed = Testbed::build(&topology).unwrap();
    let out = directory.path().join("traces.json");
    let socket = directory.path().join("s1.sock");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
    command.arg("switch").arg(&program).args(["--port", "1@port1", "--port", "2@port2"]);
    command.args(["--io", "packet", "--engine", "compiled", "--p4runtime"]);
    command.arg(format!("unix:{}", socket.display()));
    command.args(["--explain", "port == 1 && udp.destination == 7010", "--explain-count", "5"]);
    command.args(["--explain-rate", "1000", "--explain-out"]).arg(&out);
    let switch = testbed.spawn("s1", command, Keep::Keep).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !socket.exists() {
        assert!(Instant::now() < deadline, "the switch does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    let receiver = testbed.run_in("b", || UdpSocket::bind("10.0.1.2:7009").unwrap()).unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let sender = testbed.run_in("a", || UdpSocket::bind("10.0.1.1:9000").unwrap()).unwrap();
    let mut buffer = [0; 64];
    // Nobody listens at port 7010; a packet to 7009 behind it shows that it has passed.
    for round in 0u32..8 {
        for packet in 0..9 {
            sender.send_to(&round.to_be_bytes(), "10.0.1.2:7009").unwrap();
            receiver.recv(&mut buffer).unwrap_or_else(|e| panic!("round {round}, {packet}: {e}"));
        }
        sender.send_to(b"trace me", "10.0.1.2:7010").unwrap();
    }
    let traces = || -> Vec<Value> {
        let written = std::fs::read_to_string(&out).unwrap_or_default();
        // The last line may be half written.
        let whole = written.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    while traces().len() < 5 {
        assert!(Instant::now() < deadline, "{} traces", traces().len());
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(switch);
    let traces = traces();
    assert_eq!(traces.len(), 5);
    for (round, trace) in traces.iter().enumerate() {
        assert_eq!(trace["version"], 1);
        let (mut nodes, mut writes, mut sent) = (vec![&trace["tree"]], Vec::new(), Vec::new());
        while let Some(node) = nodes.pop() {
            match node["kind"].as_str().unwrap() {
                "register" if node["access"] == "write" => writes.push(node["after"].clone()),
                "sent" => sent.push((node["port"].clone(), node["bytes"].clone())),
                _ => {}
            }
            nodes.extend(node["children"].as_array().into_iter().flatten());
        }
        // Nine packets before, and this one, in each round.
        assert_eq!(writes, [Value::from((10 * (round + 1)).to_string())]);
        let [(port, bytes)] = &sent[..] else { panic!("{sent:?}") };
        assert_eq!(*port, 2);
        assert!(bytes.as_str().unwrap().contains("7472616365206d65"), "{bytes}");
        assert_eq!(trace["tree"]["bytes"], *bytes, "the bridge changes nothing");
    }
    std::io::stderr().flush().unwrap();
}
