//! Captures of runs and of interfaces, and what tshark shows of them with generated dissectors.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use pcap_parser::pcapng::OptionCode;
use pcap_parser::traits::PcapNGPacketBlock as _;
use pcap_parser::{Block, PcapBlockOwned, PcapNGSlice};
use tributary_netio::FrameIo as _;
use tributary_netio::device::Kind as Io;
use tributary_netio::packet::{Config, PacketSocket};
use tributary_run::testbed::{Host, Link, LinkEnd, Output, Stream, Testbed, Topology};
use tributary_wire::agg::{Flags, Packet, Repr};
use tributary_wire::golden;

use crate::command::{JobFile, fail, namespaces, root, succeed, text, tributary};

/// A captured frame.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Captured {
    /// Nanoseconds.
    time: u64,
    interface: String,
    inbound: bool,
    frame: Vec<u8>,
}

/// The comment of the section, and the frames.
fn read(path: &Path) -> (String, Vec<Captured>) {
    let bytes = fs::read(path).unwrap();
    let (mut comment, mut names, mut frames) = (String::new(), Vec::new(), Vec::new());
    for block in PcapNGSlice::from_slice(&bytes).unwrap() {
        match block.unwrap() {
            PcapBlockOwned::NG(Block::SectionHeader(section)) => {
                let found =
                    section.options.iter().find(|option| option.code == OptionCode::Comment);
                comment =
                    found.map(|option| option.as_str().unwrap().to_owned()).unwrap_or_default();
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                names.push(interface.if_name().unwrap().unwrap().to_owned());
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let flags = packet.options.iter().find(|option| option.code == OptionCode(2));
                frames.push(Captured {
                    time: u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low),
                    interface: names[packet.if_id as usize].clone(),
                    inbound: flags.unwrap().as_u32_le().unwrap() == 1,
                    frame: packet.packet_data().to_vec(),
                });
            }
            _ => {}
        }
    }
    (comment, frames)
}

/// A small job of a protocol. Frames are lost, so that more kinds of packets appear.
fn job(protocol: &str, loss: &str) -> JobFile {
    JobFile::new(&format!(
        "seed = 5\n[topology]\nkind = \"star\"\nworkers = 3\n[faults]\nloss = {loss}\n\
         [switch]\npool = 256\n[[job]]\nname = \"j\"\nprotocol = \"{protocol}\"\n\
         workload = {{ kind = \"random\", tensors = 2, bytes = \"8KB\" }}\n"
    ))
}

/// Runs a job with a capture. Returns the capture's path.
fn capture(file: &JobFile, more: &[&str]) -> std::path::PathBuf {
    let directory = file.path("captures").display().to_string();
    let out = succeed(&[&["run", &file.name(), "--capture", &directory], more].concat());
    let path = file.path("captures/job.pcapng");
    let line = out.lines().last().unwrap().to_owned();
    let frames = read(&path).1.len();
    let digits: String =
        line.split(" frames").next().unwrap().chars().filter(char::is_ascii_digit).collect();
    assert_eq!(digits, frames.to_string(), "{line}");
    assert!(line.ends_with(&format!("frames captured in {}.", path.display())), "{line}");
    path
}

#[test]
fn a_capture_in_memory_has_every_frame_at_both_ends_of_its_link() {
    let file = job("atp", "0.0");
    let (comment, frames) = read(&capture(&file, &[]));
    assert_eq!(comment, "job file job.toml, fabric memory, seed 5");
    assert!(frames.is_sorted_by_key(|frame| frame.time));
    // Of a link without faults, both ends have seen the same.
    let mut links: BTreeMap<_, [Vec<&[u8]>; 2]> = BTreeMap::new();
    for Captured { interface, inbound, frame, .. } in &frames {
        let host = interface.split(':').next_back().unwrap();
        let up = interface.contains(':') == *inbound;
        links.entry((host, up)).or_default()[usize::from(*inbound)].push(frame);
    }
    assert_eq!(links.len(), 8, "{:?}", links.keys());
    for ((host, up), [mut sent, mut received]) in links {
        assert!(sent.len() > 10, "{host} {up}: {}", sent.len());
        sent.sort();
        received.sort();
        assert!(sent == received, "{host} {up}: {} sent, {} received", sent.len(), received.len());
    }
}

#[test]
fn a_capture_in_virtual_time_follows_from_the_job_file_and_its_seed() {
    let [first, second] = ["esa", "esa"].map(|protocol| {
        let file = job(protocol, "0.05");
        let path = capture(&file, &["--fabric", "sim"]);
        let (_, frames) = read(&path);
        assert!(frames.iter().all(|frame| frame.time < 3_600_000_000_000), "virtual time");
        frames
    });
    assert!(first == second);
}

#[test]
fn a_capture_in_namespaces_has_every_frame_at_both_ends_of_its_link() {
    if !namespaces() {
        return;
    }
    for io in ["packet", "gso", "udp", "udp-gso"] {
        let file = job("atp", "0.0");
        let (_, frames) = read(&capture(&file, &["--fabric", "netns", "--io", io]));
        let mut counts: BTreeMap<_, [usize; 2]> = BTreeMap::new();
        for Captured { interface, inbound, frame, .. } in &frames {
            if Packet::new_checked(&frame[..]).is_ok() {
                let host = interface.split(':').next_back().unwrap();
                let up = interface.contains(':') == *inbound;
                counts.entry((host, up)).or_default()[usize::from(*inbound)] += 1;
            }
        }
        assert_eq!(counts.len(), 8, "{io}: {counts:?}");
        assert!(
            counts.values().all(|[sent, received]| sent == received && *sent > 10),
            "{io}: {counts:?}"
        );
    }
    let file = job("atp", "0.0");
    let xdp = ["--fabric", "netns", "--io", "xdp", "--capture", "captures"];
    let line = fail(&[&["run", &file.name()], &xdp[..]].concat());
    assert!(line.contains("AF_XDP"), "{line}");
}

#[test]
fn hosts_in_namespaces_send_no_arp_requests_which_links_could_lose() {
    if !namespaces() {
        return;
    }
    for io in ["packet", "udp"] {
        let file = job("esa", "0.0");
        let (_, frames) = read(&capture(&file, &["--fabric", "netns", "--io", io]));
        let of_type =
            |wanted: [u8; 2]| frames.iter().filter(|it| it.frame[12..14] == wanted).count();
        let (ipv4, arp) = (of_type([8, 0]), of_type([8, 6]));
        let tcp =
            frames.iter().filter(|it| it.frame[12..14] == [8, 0] && it.frame[23] == 6).count();
        assert!(tcp > 10 && ipv4 > tcp, "{io}: {ipv4} of IPv4, {tcp} of TCP");
        assert_eq!(arp, 0, "{io}");
    }
}

#[test]
fn a_capture_that_cannot_be_written_is_refused_and_loses_nothing() {
    let file = job("atp", "0.0");
    let directory = file.path("captures").display().to_string();
    let run = ["run", &file.name(), "--capture", &directory];
    let path = capture(&file, &["--fabric", "sim"]);
    let before = fs::read(&path).unwrap();
    let line = fail(&run);
    assert!(line.contains("job.pcapng exists"), "{line}");
    assert!(fs::read(&path).unwrap() == before);
    let blocked = file.path("job.toml").display().to_string();
    let line = fail(&["run", &file.name(), "--capture", &blocked]);
    assert!(line.contains("--capture: cannot write to"), "{line}");
    // A run that fails at once leaves no file.
    fs::remove_file(&path).unwrap();
    let line = fail(&[&run[..], &["--p4", "no-such.p4"]].concat());
    assert!(line.contains("no-such.p4") && !path.exists(), "{line}");
    let trace = file.path("t.pcapng").display().to_string();
    let line = fail(&[&run[..], &["--fabric", "sim", "--frames", &trace]].concat());
    assert!(line.contains("leave one out"), "{line}");
}

#[test]
fn a_full_disk_is_an_error_after_the_report() {
    let file = job("atp", "0.0");
    let directory = file.path("captures").display().to_string();
    for fabric in ["memory", "sim"] {
        // The shell limits files to 100 blocks of 512 or 1024 bytes.
        let command =
            tributary(&["run", &file.name(), "--capture", &directory, "--fabric", fabric]);
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words: Vec<_> = words.map(|word| word.to_str().unwrap()).collect();
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -f 100 && exec \"$@\"", "sh"]).args(words).current_dir(root());
        let output = shell.output().unwrap();
        let (out, errors) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(out.contains("all equal"), "the report is printed: {out}");
        assert!(errors.contains("error: --capture: cannot write"), "{errors}");
        fs::remove_dir_all(&directory).unwrap();
    }
}

/// Whether tshark is installed; prints a message if not.
fn tshark() -> bool {
    let found = Command::new("tshark").arg("--version").output().is_ok();
    if !found {
        println!("skipped: tshark is not on the PATH");
    }
    found
}

/// What tshark shows of each frame: the values of these fields, separated by tabs.
fn shown(dissector: &Path, capture: &Path, fields: &[String]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    command.arg("-X").arg(format!("lua_script:{}", dissector.display())).arg("-r").arg(capture);
    command.args(["-T", "fields"]);
    command.args(fields.iter().flat_map(|field| ["-e", field]));
    let output = command.output().unwrap();
    let errors = text(&output.stderr);
    assert!(output.status.success() && !errors.contains("Lua"), "{errors}");
    let out = text(&output.stdout);
    out.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// The values that a dissector must show of an aggregation header.
fn expected(repr: &Repr) -> Vec<String> {
    let flag = |flag| u32::from(repr.flags.contains(flag));
    let numbers = [
        repr.protocol as u32,
        repr.kind as u32,
        flag(Flags::ECN),
        flag(Flags::OVERFLOW),
        flag(Flags::COLLISION),
        flag(Flags::RESEND),
        repr.priority.into(),
        repr.job.get().into(),
        repr.values.into(),
        repr.epoch.get(),
        repr.sequence.0,
        repr.bitmap.0,
        repr.rack.0.into(),
        repr.index.0,
    ];
    numbers.iter().map(u32::to_string).collect()
}

/// The same header in the program.
const FIELDS: [&str; 14] = [
    "protocol",
    "kind",
    "congested",
    "overflow",
    "collided",
    "resend",
    "priority",
    "job",
    "values",
    "epoch",
    "sequence",
    "bitmap",
    "rack",
    "index",
];

#[test]
fn tshark_shows_with_a_generated_dissector_what_is_in_each_packet() {
    if !tshark() {
        return;
    }
    for (protocol, fabric, architecture) in [
        ("atp", "sim", "v1model"),
        ("esa", "sim", "v1model"),
        ("p4inc", "sim", "v1model"),
        ("switchml", "sim", "v1model"),
        ("esa", "memory", "v1model"),
        ("p4inc", "memory", "tna"),
    ] {
        let file = job(protocol, "0.03");
        let path = capture(&file, &["--fabric", fabric, "--arch", architecture]);
        let lua = file.path("dissector.lua");
        let values: u16 = if architecture == "tna" { 32 } else { 64 };
        let define = format!("VALUES={values}");
        let program = format!("p4src/{architecture}/{protocol}.p4");
        let output = lua.display().to_string();
        let said = succeed(&["p4", "dissector", &program, "-D", &define, "--out", &output]);
        assert_eq!(
            said.trim_end(),
            format!("{output}: protocol p4_{protocol}, for UDP port 29810")
        );

        let name = |field: &str| format!("p4_{protocol}.{field}");
        let mut fields = vec!["frame.interface_name".to_owned()];
        fields.extend(FIELDS.iter().map(|field| name(&format!("aggregation.{field}"))));
        let lanes = (0..values).map(|at| format!("values{}.v{}", at / 32, at % 32));
        fields.extend(lanes.map(|lane| name(&lane)));
        let shown = shown(&lua, &path, &fields);
        let (_, frames) = read(&path);
        assert_eq!(shown.len(), frames.len(), "{protocol}");
        let mut kinds = BTreeMap::new();
        for (line, Captured { interface, frame, .. }) in shown.iter().zip(&frames) {
            assert_eq!(line[0], *interface);
            let Ok(packet) = Packet::new_checked(&frame[..]) else {
                assert!(line[1..].iter().all(String::is_empty), "{line:?}");
                continue;
            };
            *kinds.entry(format!("{:?}", packet.kind())).or_insert(0) += 1;
            let (header, lanes) = line[1..].split_at(FIELDS.len());
            assert_eq!(header, expected(packet.repr()), "{protocol}");
            let mut sums: Vec<_> =
                packet.values_i32().map(|value| value.cast_unsigned().to_string()).collect();
            sums.resize(values.into(), String::new());
            assert!(lanes == sums, "{protocol}: {lanes:?} of {sums:?}");
        }
        assert!(kinds["Gradient"] > 100 && kinds["Parameter"] > 50, "{protocol}: {kinds:?}");
        println!("{protocol} on {fabric}, {architecture}: {kinds:?}");
    }
}

#[test]
fn tshark_shows_names_in_its_list_of_packets_and_filters_by_them() {
    if !tshark() {
        return;
    }
    let file = job("switchml", "0.0");
    let path = capture(&file, &["--fabric", "sim"]);
    let lua = file.path("dissector.lua");
    let output = lua.display().to_string();
    succeed(&["p4", "dissector", "p4src/v1model/switchml.p4", "--out", &output, "--name", "own"]);
    let list = |more: &[&str]| {
        let mut command = Command::new("tshark");
        command.arg("-X").arg(format!("lua_script:{output}")).arg("-r").arg(&path).args(more);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let first = list(&["-c", "1"]);
    assert!(
        first.contains(" own 326 aggregation: SWITCHML, GRADIENT, priority 1, job 1,"),
        "{first}"
    );
    let details = list(&["-c", "1", "-V"]);
    assert!(details.contains("kind: GRADIENT (1)"), "{details}");
    assert!(details.contains(".... 0... = congested: 0"), "{details}");
    let results = list(&["-Y", "own.aggregation.kind == 2 && own.aggregation.job == 1"]);
    assert!(results.lines().count() > 50 && results.lines().all(|line| line.contains("PARAMETER")));
    // The comments of the simulation.
    let completed = list(&[
        "-Y",
        "frame.comment == \"completed\"",
        "-T",
        "fields",
        "-e",
        "frame.interface_name",
    ]);
    assert!(
        completed.lines().count() > 50 && completed.lines().all(|line| line.starts_with("s1:w"))
    );
}

#[test]
fn the_dissector_command_explains_what_it_cannot_do() {
    let file = JobFile::new("");
    let program = file.path("gap.p4");
    let text = "#include <core.p4>\n#include <v1model.p4>\nheader h_t { bit<8> x; }\nstruct headers_t { h_t h; }\n\
        struct metadata_t {}\nparser P(packet_in p, out headers_t hdr, inout metadata_t m, inout standard_metadata_t s) {\n\
        state start { transition select(s.ingress_port) { 1: h; default: accept; } }\n\
        state h { p.extract(hdr.h); transition accept; } }\n\
        control V(inout headers_t hdr, inout metadata_t m) { apply {} }\n\
        control I(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t s) { apply {} }\n\
        control D(packet_out p, in headers_t hdr) { apply {} }\n\
        V1Switch(P(), V(), I(), I(), V(), D()) main;\n";
    fs::write(&program, text).unwrap();
    let name = program.display().to_string();
    let output = tributary(&["p4", "dissector", &name]).output().unwrap();
    let errors = crate::command::text(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let reason = "state `start` depends on `ingress_port`, which is not in the packet";
    assert_eq!(errors.trim_end(), format!("warning: the dissector stops early: {reason}"));
    assert!(crate::command::text(&output.stdout).contains(&format!("-- Stops early: {reason}.")));
    let line = fail(&["p4", "dissector", &name, "--name", "A B"]);
    assert!(line.contains("`A B` cannot be a protocol's name"), "{line}");
    let line = fail(&["p4", "dissector", "no-such.p4"]);
    assert!(line.contains("no-such.p4"), "{line}");
    let line = fail(&["p4", "dissector", &name, "--out", "/proc/self/net/x.lua"]);
    assert!(line.contains("cannot write /proc/self/net/x.lua"), "{line}");
    let both =
        tributary(&["p4", "dissector", &name, "--port", "1", "--ethernet"]).output().unwrap();
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn an_interface_is_captured_until_a_limit_or_a_signal() {
    if !namespaces() {
        return;
    }
    let host = |number: u8| Host {
        name: format!("h{number}"),
        mac: [2, 0, 10, 0, 1, number],
        ip: Ipv4Addr::new(10, 0, 1, number),
        prefix: 8,
    };
    let hosts = vec![host(1), host(2)];
    let link = Link { a: LinkEnd::new("h1", 0), b: LinkEnd::new("h2", 0), mtu: 1500 };
    let topology = Topology { hosts, switches: Vec::new(), links: vec![link] };
    let testbed = Testbed::build_for(Io::Packet, &topology).unwrap();
    let file = JobFile::new("");
    let start = |name: &str, more: &[&str]| {
        let output = file.path(name).display().to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
        command.args(["capture", "--interface", "eth0", "--out", &output]).args(more);
        let process = testbed.spawn("h2", command, Output::Keep).unwrap();
        // The file is there when frames are seen.
        let deadline = Instant::now() + Duration::from_secs(20);
        while !file.path(name).exists() {
            assert!(Instant::now() < deadline, "{}", process.output(Stream::Err));
            std::thread::sleep(Duration::from_millis(10));
        }
        process
    };
    let limited = start("limited.pcapng", &["--count", "3"]);
    let ours = start("ours.pcapng", &[]);
    let all = start("all.pcapng", &["--all"]);
    let open = |node: &str| {
        let open = || PacketSocket::open(&Config::switch_port("eth0")).unwrap();
        testbed.run_in(node, open).unwrap()
    };
    let (mut near, mut far) = (open("h1"), open("h2"));
    let sent: Vec<Vec<u8>> = golden::VECTORS.iter().map(golden::Vector::bytes).collect();
    let other = [[0xff; 12].as_slice(), &[0x88, 0xb5], &[1; 46]].concat();
    for frame in sent.iter().chain([&other]) {
        assert!(near.send(frame).unwrap());
    }
    near.flush().unwrap();
    assert!(far.send(&sent[0]).unwrap());
    far.flush().unwrap();
    let status = limited.wait(Some(Duration::from_secs(20))).unwrap().expect("it ends by itself");
    assert!(status.success(), "{}", limited.output(Stream::Err));
    std::thread::sleep(Duration::from_millis(500));
    for process in [&ours, &all] {
        process.ask_to_end();
        let status = process.end(Duration::from_secs(20)).unwrap();
        assert!(status.success(), "{}", process.output(Stream::Err));
        assert!(process.output(Stream::Err).contains(" captured; 0 dropped by the kernel"));
    }
    let frames = |name: &str| read(&file.path(name)).1;
    assert_eq!(frames("limited.pcapng").len(), 3);
    let captured = frames("ours.pcapng");
    let inbound: Vec<_> =
        captured.iter().filter(|one| one.inbound).map(|one| one.frame.clone()).collect();
    assert!(inbound == sent, "{} of {} frames", inbound.len(), sent.len());
    let outbound: Vec<_> = captured.iter().filter(|one| !one.inbound).collect();
    assert!(outbound.len() == 1 && outbound[0].frame == sent[0]);
    assert!(frames("all.pcapng").iter().any(|one| one.frame == other));

    let missing = fail(&[
        "capture",
        "--interface",
        "no-such",
        "--out",
        &file.path("x").display().to_string(),
    ]);
    assert!(missing.contains("there is no network interface `no-such`"), "{missing}");
    assert!(!file.path("x").exists());
}
