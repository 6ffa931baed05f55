//! What is wrong is named: in the report, in recordings, and as warnings while a run lasts.

use serde_json::Value;
use tributary_run::live::Hub;
use tributary_run::live::model::{Finding, Rule};

use crate::command::{JobFile, namespaces, succeed, text, tributary};
use crate::examples::report;

const PROTOCOLS: [&str; 4] = ["atp", "esa", "p4inc", "switchml"];

/// Two jobs at one switch, and faults.
fn jobs(protocol: &str, seed: u32, rounds: u32, faults: &str, straggler: &str) -> JobFile {
    JobFile::new(&format!(
        "protocol = \"{protocol}\"\nseed = {seed}\n[topology]\nkind = \"star\"\nworkers = 6\n{faults}\
         [[job]]\nname = \"train\"\nworkers = [\"w1\", \"w2\", \"w3\"]\n\
         workload = {{ kind = \"random\", tensors = {rounds}, bytes = \"128KB\" }}\n\
         [[job]]\nname = \"other\"\nworkers = [\"w4\", \"w5\", \"w6\"]\n\
         workload = {{ kind = \"random\", tensors = {rounds}, bytes = \"128KB\" }}\n{straggler}"
    ))
}

/// A link that loses much.
fn lossy(host: &str) -> String {
    format!("[[faults.link]]\nbetween = [\"{host}\", \"s1\"]\nloss = 0.08\n")
}

const LATE: &str = "[[job.straggler]]\nworker = \"w5\"\ndelay = \"20ms\"\n";

fn texts(value: &Value) -> Vec<String> {
    let texts = value["findings"].as_array().unwrap().iter();
    texts.map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// Findings about the network and the machine, and those about the jobs.
fn findings(report: &Value) -> (Vec<String>, Vec<String>) {
    let jobs = report["jobs"].as_array().unwrap().iter().flat_map(texts);
    (texts(report), jobs.collect())
}

/// The fabrics on which these tests run.
fn fabrics() -> Vec<&'static str> {
    let netns = namespaces().then_some("netns");
    ["sim", "memory"].into_iter().chain(netns).collect()
}

/// The share in a line such as `w2 ↔ s1 loses 7.9 % of its frames`.
fn percent(line: &str) -> f64 {
    let share = line.split("loses ").nth(1).and_then(|rest| rest.split(" %").next());
    share
        .and_then(|share| share.rsplit(' ').next()?.parse().ok())
        .unwrap_or_else(|| panic!("{line}"))
}

fn assert_named(line: &str, link: &str) {
    assert!(line.starts_with(&format!("{link} loses ")), "{line}");
    assert!((6.0..10.0).contains(&percent(line)), "{line}");
}

#[test]
fn the_lossy_link_and_the_late_worker_are_named_on_every_fabric() {
    for fabric in fabrics() {
        let file = jobs("atp", 3, 40, &lossy("w2"), LATE);
        let (recording, json) = (file.path("run.jsonl"), file.path("report.json"));
        let [recording, json] = [recording, json].map(|path| path.display().to_string());
        let name = file.name();
        let run = ["run", &name, "--fabric", fabric, "--record", &recording, "--json-out", &json];
        let printed = succeed(&run);
        let report = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
        let (network, _) = findings(&report);
        assert_named(&network[0], "w2 ↔ s1");
        assert!(printed.contains(&format!("\n{}.\n", network[0])), "{fabric}: {printed}");
        let late = texts(&report["jobs"][1]);
        assert!(late[0].ends_with("ms for worker 1 (w5) in each round"), "{fabric}: {late:?}");
        assert!(texts(&report["jobs"][0]).is_empty(), "{fabric}: {report}");

        // The last sample of the live view has the same.
        let hub = Hub::replay(recording.as_ref()).unwrap();
        hub.look(|history| {
            let scene = history.scene().unwrap();
            let last = history.samples().next_back().unwrap();
            let of = |rule| last.findings.iter().filter(move |finding| finding.rule == rule);
            let links: Vec<&Finding> = of(Rule::LossyLink).collect();
            let found = links[0].link.unwrap();
            assert_eq!(links.len(), 1, "{fabric}: {links:?}");
            // In namespaces, the last reports of the ends of a link come after the last sample, so that few frames are
            // known of a short run.
            let line = links[0].line(scene);
            match fabric {
                "netns" => assert!(line.contains("w2") && line.contains("s1"), "{line}"),
                _ => {
                    assert_eq!(links[0].ways, [true; 2], "{fabric}");
                    assert_named(&line, "w2 ↔ s1");
                }
            }
            let late: Vec<&Finding> = of(Rule::LateWorker).collect();
            assert_eq!((late[0].job, &late[0].workers[..]), (Some(1), &[1][..]), "{fabric}");
            assert!(late[0].line(scene).starts_with("other: the others wait"), "{fabric}");
            for (number, link) in last.links.iter().enumerate() {
                let lost: u64 = link.lost.iter().sum();
                assert!((lost > 100) == (number == found), "{fabric}: link {number}: {link:?}");
            }
            assert!(last.jobs[1].workers[1].late_us > 15_000, "{fabric}: {last:?}");
            assert!(last.jobs[0].workers[1].resent > last.jobs[0].workers[0].resent, "{fabric}");
        });
    }
}

#[test]
fn the_lossy_link_is_named_with_every_protocol_at_workers_and_servers() {
    for protocol in PROTOCOLS {
        for fabric in fabrics() {
            let file = jobs(protocol, 5, 40, &lossy("w6"), "");
            let (network, _) = findings(&report(&file.name(), fabric, &[]));
            assert_named(&network[0], "w6 ↔ s1");
            assert!(
                !network.iter().any(|line| line.starts_with("most")),
                "{protocol}: {network:?}"
            );
        }
    }
    // With ATP, all sums pass the servers, whose links are named as any other.
    let (network, _) = findings(&report(&jobs("atp", 5, 40, &lossy("ps2"), "").name(), "sim", &[]));
    assert_eq!(network.len(), 1, "{network:?}");
    assert_named(&network[0], "ps2 ↔ s1");
}

#[test]
fn healthy_runs_have_no_findings() {
    for protocol in PROTOCOLS {
        for seed in 1..=4 {
            let file = jobs(protocol, seed, 20, "", "");
            let found = findings(&report(&file.name(), "sim", &[]));
            assert_eq!(found, (vec![], vec![]), "{protocol}, seed {seed}");
        }
        // Others share this machine, and may keep workers from a core.
        for fabric in fabrics() {
            let (network, _) =
                findings(&report(&jobs(protocol, 7, 20, "", "").name(), fabric, &[]));
            assert!(!network.iter().any(|line| line.contains("lose")), "{fabric}: {network:?}");
        }
    }
}

#[test]
fn links_that_all_lose_a_little_are_not_the_culprits() {
    for loss in ["0.005", "0.03"] {
        let faults = format!("[faults]\nloss = {loss}\n");
        let (network, _) = findings(&report(&jobs("atp", 2, 20, &faults, "").name(), "sim", &[]));
        let expected = usize::from(loss == "0.03");
        assert_eq!(network.len(), expected, "{loss}: {network:?}");
        assert!(
            network.iter().all(|line| line.starts_with("most links lose frames")),
            "{network:?}"
        );
    }
}

#[test]
fn a_run_in_real_time_warns_once_of_each_fault_after_five_seconds() {
    let file = jobs("atp", 3, 300, &lossy("w2"), LATE);
    let output = tributary(&["run", &file.name(), "--fabric", "memory"]).output().unwrap();
    let errors = text(&output.stderr);
    assert!(output.status.success(), "{errors}");
    for part in ["warning: w2 ↔ s1 loses ", "warning: other: the others wait up to "] {
        assert_eq!(errors.matches(part).count(), 1, "{errors}");
    }
    // Virtual time takes as long as it likes.
    let output = tributary(&["run", &file.name(), "--fabric", "sim"]).output().unwrap();
    assert_eq!(text(&output.stderr), "");
}
