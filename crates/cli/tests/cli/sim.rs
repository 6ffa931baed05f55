//! Virtual time: every example runs in it, and the run is a function of the seed.

use std::fs;
use std::path::PathBuf;

use pcap_parser::traits::PcapNGPacketBlock as _;
use pcap_parser::{Block, PcapBlockOwned, PcapNGSlice};
use tributary_wire::agg::Packet;

use crate::command::{JobFile, fail, root, succeed, text, tributary};
use crate::examples::{assert_verified, report};

fn examples() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(root().join("examples"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    files
}

#[test]
fn every_example_runs_in_virtual_time() {
    let files = examples();
    assert!(files.len() > 10, "{files:?}");
    for file in files {
        let report = report(file.to_str().unwrap(), "sim", &[]);
        assert_verified(&report);
        assert_eq!(report["fabric"], "sim");
        let seconds = report["seconds"].as_f64().unwrap();
        assert!(seconds > 0.0, "{report}");
        for switch in report["switches"].as_array().unwrap() {
            assert!(
                switch["longest_queue"].is_u64() && switch["cpu_seconds"].is_null(),
                "{switch}"
            );
        }
    }
}

#[test]
fn rates_of_links_slow_down_a_simulation_and_other_fabrics_warn() {
    let file = JobFile::new(
        "[topology]\nworkers = 2\nrate = \"100Mb/s\"\n[[topology.link]]\nbetween = [\"w2\", \"s1\"]\n\
         rate = \"10Mb/s\"\n[[job]]\nworkload = { kind = \"random\", tensors = 1, bytes = \"64KB\" }\n",
    );
    let errors = |fabric: &str| {
        let json = file.path("report.json").display().to_string();
        let args = ["run", &file.name(), "--fabric", fabric, "--json-out", &json];
        let output = tributary(&args).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let report = fs::read_to_string(json).unwrap();
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        (text(&output.stderr), report["seconds"].as_f64().unwrap())
    };
    let (warnings, seconds) = errors("sim");
    // 250 packets of 350 bytes at 10 Mb/s.
    assert!((0.070..0.072).contains(&seconds), "{seconds} s");
    assert!(!warnings.contains("warning"), "{warnings}");
    let (warnings, _) = errors("memory");
    let lines: Vec<&str> = warnings.lines().filter(|line| line.starts_with("warning: ")).collect();
    assert!(matches!(lines[..], [line] if line.contains("`rate` and `latency`")), "{warnings}");
    let table = succeed(&["network", &file.name()]);
    assert!(table.contains("0.01 Gb/s") && table.contains("0.1 Gb/s"), "{table}");
}

#[test]
fn the_same_seed_gives_the_same_trace_and_report_byte_for_byte() {
    for example in ["esa-lossy", "p4inc-local", "switchml"] {
        let job = format!("examples/{example}.toml");
        let file = JobFile::new("");
        let run = |name: &str, seed: &str| {
            let path =
                |extension: &str| file.path(&format!("{name}.{extension}")).display().to_string();
            let (text, svg, json) = (path("txt"), path("svg"), path("json"));
            let run = ["run", &job, "--fabric", "sim", "--seed", seed];
            succeed(&[&run[..], &["--frames", &text, "--json-out", &json]].concat());
            if example == "esa-lossy" {
                succeed(&[&run[..], &["--frames", &svg]].concat());
            }
            [text, svg, json].map(|path| fs::read(path).unwrap_or_default())
        };
        let first = run("first", "7");
        // Not assert_eq, whose message would contain the traces.
        assert!(first == run("again", "7"), "{example}");
        // Without faults and pauses nothing depends on the seed.
        let other = run("other", "8");
        assert_eq!(first[0] == other[0], example == "switchml", "{example}");
        let text = String::from_utf8(first[0].clone()).unwrap();
        assert!(text.contains(" µs  w1 → s1: gradient"), "{example}");
        if example == "esa-lossy" {
            assert!(text.contains("LOST") && text.contains("remind j1"), "{example}");
            let svg = String::from_utf8(first[1].clone()).unwrap();
            assert!(svg.starts_with("<svg") && svg.contains("</svg>"));
        }
    }
}

#[test]
fn a_chart_has_the_chosen_frames_and_stays_small() {
    let file = JobFile::new("");
    let path = file.path("frames.svg").display().to_string();
    let all = ["run", "examples/two-jobs.toml", "--fabric", "sim", "--frames", &path];
    let chart = |conditions: &[&str]| {
        let output = tributary(&[&all[..], conditions].concat()).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        (text(&output.stderr), fs::read_to_string(&path).unwrap())
    };
    let (warning, whole) = chart(&[]);
    assert!(
        warning.contains("the chart has the first 1000 frames and messages, and lacks "),
        "{warning}"
    );
    assert!(whole.contains("two-jobs: the first 1000 of ") && whole.len() < 1 << 20);
    let (warning, chosen) = chart(&["--frames-of", "job=blue,at=w3,from=20us,to=200us"]);
    assert!(!warning.contains("lacks"), "{warning}");
    let times =
        chosen.split(" µs<").filter_map(|part| part.rsplit('>').next()?.parse::<f64>().ok());
    let times: Vec<f64> = times.collect();
    assert!(
        !times.is_empty() && times.iter().all(|time| (20.0..=200.0).contains(time)),
        "{times:?}"
    );
    assert!(chosen.contains(">w3<") && !chosen.contains(">w1<") && !chosen.contains(" j1 "));
    let line = fail(&[&all[..], &["--frames-of", "job=none"]].concat());
    assert!(line.contains("there is no job `none`; the jobs are"), "{line}");
    let line = fail(&[&all[..], &["--frames-of", "at=w77"]].concat());
    assert!(line.contains("there is no host or switch `w77`"), "{line}");
}

#[test]
fn a_trace_named_pcapng_is_a_capture_with_one_interface_for_each_end_of_a_link() {
    let file = JobFile::new(
        "seed = 3\n[topology]\nkind = \"star\"\nworkers = 2\n[faults]\nloss = 0.1\n\
         [[job]]\nworkload = { kind = \"random\", tensors = 1, bytes = \"16KB\" }\n",
    );
    let capture = |name: &str| {
        let path = file.path(name).display().to_string();
        succeed(&["run", &file.name(), "--fabric", "sim", "--frames", &path]);
        fs::read(path).unwrap()
    };
    let bytes = capture("trace.pcapng");
    let (mut names, mut frames) = (Vec::new(), 0);
    for block in PcapNGSlice::from_slice(&bytes).unwrap() {
        match block.unwrap() {
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                names.push(interface.if_name().unwrap().unwrap().to_owned());
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                Packet::new_checked(packet.packet_data()).unwrap();
                frames += 1;
            }
            _ => {}
        }
    }
    assert_eq!(names, ["w1", "s1:w1", "w2", "s1:w2", "ps", "s1:ps"]);
    assert!(frames > 100, "{frames}");
    assert!(bytes.windows(16).any(|text| text == b"lost on the link"));
    // The job file and its seed decide every byte.
    assert!(bytes == capture("again.pcapng"));
}

#[test]
fn the_report_names_who_is_waited_for_and_a_pool_that_is_too_small() {
    // One link loses packets, and one worker is late: each job has its own trouble.
    let file = JobFile::new(
        "seed = 3\n[topology]\nkind = \"star\"\nworkers = 8\n\
         [[faults.link]]\nbetween = [\"w4\", \"s1\"]\nloss = 0.08\n\
         [[job]]\nname = \"train\"\nworkers = [\"w1\", \"w2\", \"w3\", \"w4\", \"w5\"]\n\
         workload = { kind = \"random\", tensors = 10, bytes = \"256KB\" }\n\
         [[job]]\nname = \"other\"\nworkers = [\"w6\", \"w7\", \"w8\"]\n\
         workload = { kind = \"random\", tensors = 10, bytes = \"256KB\" }\n\
         [[job.straggler]]\nworker = \"w7\"\ndelay = \"20ms\"\n",
    );
    let findings = |job: &str| {
        let report = report(job, "sim", &[]);
        let of = |job: &serde_json::Value| {
            let texts = job["findings"].as_array().unwrap().iter();
            texts.map(|text| text.as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        report["jobs"].as_array().unwrap().iter().map(of).collect::<Vec<_>>()
    };
    let found = findings(&file.name());
    let late = "the others wait up to 20.0 ms for worker 1 (w7) in each round";
    assert_eq!((found[0].len(), &*found[1]), (0, &[late.to_owned()][..]), "{found:?}");
    for found in findings("examples/two-jobs.toml") {
        assert!(found[0].ends_with("which is 64, or make windows smaller"), "{found:?}");
    }
    assert_eq!(findings("examples/digits.toml"), [Vec::<String>::new()]);
}

#[test]
fn a_run_that_cannot_end_says_so_in_virtual_time() {
    // Nothing arrives: the virtual timeout passes within moments.
    let file = JobFile::new(
        "timeout = \"60min\"\nworker_timeout = \"2s\"\n[topology]\nkind = \"star\"\nworkers = 2\n\
         [faults]\nloss = 1.0\n[[job]]\nname = \"lost\"\n\
         workload = { kind = \"random\", tensors = 1, bytes = \"4KB\" }\n",
    );
    let trace = file.path("trace.txt").display().to_string();
    let line = fail(&["run", &file.name(), "--fabric", "sim", "--frames", &trace]);
    assert!(line.contains("job lost: worker 0 failed: no result came for 4.0s"), "{line}");
    // The trace is written although the run failed.
    assert!(fs::read_to_string(trace).unwrap().contains("LOST"));
}

#[test]
fn options_of_other_fabrics_are_refused() {
    let job = "examples/digits.toml";
    let line = fail(&["run", job, "--frames", "/dev/null"]);
    assert!(line.contains("add `--fabric sim`"), "{line}");
    // A refused run leaves files as they were.
    let file = JobFile::new("old");
    let (old, new) = (file.name(), file.path("new.txt").display().to_string());
    fail(&["run", job, "--frames", &old, "--json-out", &new]);
    let capture = file.path("new.pcapng").display().to_string();
    let line = fail(&["run", job, "--frames", &capture]);
    assert!(line.contains("add `--fabric sim`"), "{line}");
    assert!(!fs::exists(&capture).unwrap(), "{capture}");
    assert_eq!(fs::read_to_string(&old).unwrap(), "old");
    assert!(!fs::exists(&new).unwrap(), "{new}");
    succeed(&["run", "examples/switchml.toml", "--fabric", "sim", "--json-out", &old]);
    assert!(fs::read_to_string(&old).unwrap().starts_with("{\n"));
    let line = fail(&["run", job, "--fabric", "sim", "--io", "xdp"]);
    assert!(line.contains("no network interfaces"), "{line}");
    let line = fail(&["run", job, "--fabric", "sim", "--target", "stratum"]);
    assert!(line.contains("tributary controller --target stratum"), "{line}");
}

/// A connection on which only the last messages are left loses each of their segments several times in a burst, and
/// doubles its timeout each time.
#[test]
fn no_job_of_esa_waits_at_its_end_for_connections_that_lose_segments() {
    let file = JobFile::new(
        "protocol = \"esa\"\n[topology]\nkind = \"star\"\nworkers = 3\n[switch]\npool = 256\n\
         [faults]\nloss = 0.10\nburst = 4\n\
         [[job]]\nworkload = { kind = \"random\", tensors = 4, bytes = \"64KB\" }\n",
    );
    for seed in 1..=12 {
        let report = report(&file.name(), "sim", &["--seed", &seed.to_string()]);
        assert_verified(&report);
        let seconds = report["seconds"].as_f64().unwrap();
        assert!(seconds < 1.0, "seed {seed}: {seconds} s");
    }
}
