//! The examples, and what their reports say.

use serde_json::Value;

use crate::command::{JobFile, namespaces, root, succeed};

/// Runs a job file and returns its JSON report.
fn report(job: &str, fabric: &str, more: &[&str]) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("report.json").display().to_string();
    let mut args = vec!["run", job, "--fabric", fabric, "--json", &json];
    args.extend(more);
    let output = succeed(&args);
    assert!(output.contains("all equal"), "{output}");
    serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a number"))
}

/// Every worker's every value was compared.
fn assert_verified(report: &Value) {
    for job in report["jobs"].as_array().unwrap() {
        let workers = job["workers"].as_array().unwrap();
        assert_eq!(number(&job["verified"]), workers.len() as u64 * number(&job["bytes"]) / 4);
        assert!(number(&job["verified"]) > 0);
    }
}

#[test]
fn digits_trains_and_matches_the_training_in_one_process() {
    let report = report("examples/digits.toml", "memory", &[]);
    assert_verified(&report);
    let job = &report["jobs"][0];
    assert_eq!(job["matches_reference"], true);
    assert!(job["training"]["loss"].as_f64() < job["training"]["first_loss"].as_f64());
    assert!(job["summed_in_network"].as_f64().unwrap() > 0.5, "{job}");
}

#[test]
fn two_racks_add_at_both_levels() {
    let report = report("examples/two-racks.toml", "memory", &[]);
    assert_verified(&report);
    for switch in report["switches"].as_array().unwrap() {
        assert!(number(&switch["outcomes"]["completed"]) > 0, "{switch}");
    }
}

#[test]
fn two_jobs_collide_and_neither_starves() {
    let report = report("examples/two-jobs.toml", "memory", &[]);
    assert_verified(&report);
    assert!(number(&report["switches"][0]["outcomes"]["collided"]) > 0);
    for job in report["jobs"].as_array().unwrap() {
        assert!(job["summed_in_network"].as_f64().unwrap() > 0.0, "{job}");
        let stayed = ["absorbed", "seized", "added", "duplicate"]
            .map(|outcome| number(&job["outcomes"][outcome]))
            .iter()
            .sum::<u64>();
        assert_eq!(number(&job["kept_bytes"]), stayed * FRAME, "{job}");
    }
}

/// Ethernet, IPv4, UDP, the aggregation header, 64 values.
const FRAME: u64 = 14 + 20 + 8 + 20 + 256;

#[test]
fn esa_preempts_where_workers_are_late() {
    let report = report("examples/esa-two-jobs.toml", "memory", &[]);
    assert_verified(&report);
    let jobs = report["jobs"].as_array().unwrap();
    let sum = |key: &str| jobs.iter().map(|job| number(&job["esa"][key])).sum::<u64>();
    assert!(sum("preemptions") > 0 && sum("downgradings") > 0, "{report}");
    assert_eq!(sum("preemptions"), sum("evictions"), "who takes, takes from somebody");
    let mut kept = 0;
    for job in jobs {
        let of = |outcome: &str| number(&job["outcomes"][outcome]);
        let esa = &job["esa"];
        assert_eq!(of("preempted"), number(&esa["preemptions"]), "{job}");
        let stayed = of("absorbed") + of("added") + of("duplicate") + of("preempted");
        let left = number(&esa["evictions"]) + of("reminded");
        assert_eq!(number(&job["kept_bytes"]), (stayed - left) * FRAME, "{job}");
        kept += stayed - left;
        let results = number(&esa["results_of_switches"]) + number(&esa["results_of_server"]);
        assert_eq!(results, number(&job["fragments"]), "{job}");
        assert!(number(&esa["results_of_switches"]) > 0, "{job}");
    }
    // What came in and did not go on, as the switch sees it.
    let of = |outcome: &str| number(&report["switches"][0]["outcomes"][outcome]);
    assert_eq!(kept, of("absorbed") + of("added") + of("duplicate") - of("reminded"));
}

#[test]
fn esa_sums_at_both_levels_and_publishes_at_the_top() {
    let report = report("examples/esa-two-racks.toml", "memory", &[]);
    assert_verified(&report);
    for switch in report["switches"].as_array().unwrap() {
        assert!(number(&switch["outcomes"]["completed"]) > 0, "{switch}");
    }
    assert!(number(&report["jobs"][0]["esa"]["results_of_switches"]) > 0);
}

#[test]
fn esa_repairs_over_tcp_what_is_lost() {
    let report = report("examples/esa-lossy.toml", "memory", &[]);
    assert_verified(&report);
    for job in report["jobs"].as_array().unwrap() {
        for key in ["reminders", "queries", "retransmissions", "delivered"] {
            assert!(number(&job["esa"][key]) > 0, "{key}: {job}");
        }
        assert!(job["workers"].as_array().unwrap().iter().all(|w| number(&w["resends"]) == 0));
    }
}

#[test]
fn lossy_links_lose_no_sum() {
    let report = report("examples/lossy.toml", "memory", &["--seed", "9"]);
    assert_eq!(number(&report["seed"]), 9);
    assert_verified(&report);
    let resends: u64 = report["jobs"][0]["workers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|w| number(&w["resends"]))
        .sum();
    assert!(resends > 0);
}

#[test]
fn sums_of_files_are_written() {
    let file = JobFile::new(
        "[topology]\nkind = \"star\"\nworkers = 2\n[[job]]\n\
         workload = { kind = \"files\", inputs = [\"a.npy\", \"b.npy\"], output_dir = \"out\" }\n",
    );
    for (name, example) in [("a.npy", "worker0.npy"), ("b.npy", "worker1.npy")] {
        std::fs::copy(root().join("examples/tensors").join(example), file.path(name)).unwrap();
    }
    assert_verified(&report(&file.name(), "memory", &[]));
    let sum = std::fs::read(file.path("out/sum.npy")).unwrap();
    let input = std::fs::read(file.path("a.npy")).unwrap();
    assert_eq!(&sum[..6], b"\x93NUMPY");
    assert_ne!(sum[128..], input[128..], "it is the sum, not the input");
}

#[test]
fn the_same_in_namespaces() {
    if !namespaces() {
        return;
    }
    for job in [
        "examples/two-racks.toml",
        "examples/digits.toml",
        "examples/esa-two-jobs.toml",
        "examples/esa-two-racks.toml",
        "examples/esa-lossy.toml",
    ] {
        assert_verified(&report(job, "netns", &[]));
    }
    let lossy = report("examples/lossy.toml", "netns", &[]);
    assert_verified(&lossy);
    assert!(number(&lossy["switches"][0]["outcomes"]["flushed"]) > 0, "packets were lost");
}

#[test]
fn p4_programs_are_checked_and_described() {
    let output = succeed(&["p4", "check", "p4src/v1model/atp.p4", "-D", "VALUES=2048"]);
    assert!(output.contains("no errors"), "{output}");
    let output = succeed(&["p4", "info", "p4src/v1model/atp.p4"]);
    assert!(output.contains("AtpIngress.membership.memberships"), "{output}");
}
