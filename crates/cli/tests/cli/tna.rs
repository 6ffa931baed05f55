//! The examples with the programs for TNA: the sums are the same with losses and preemption.

use crate::command::{JobFile, fail, namespaces, root};
use crate::examples::{assert_verified, number, report};

/// Runs an example in one process.
fn example(name: &str) -> serde_json::Value {
    let report = report(&format!("examples/{name}.toml"), "memory", &["--arch", "tna"]);
    assert_verified(&report);
    report
}

#[test]
fn atp_sums_in_the_network() {
    for name in ["digits", "two-racks", "two-jobs", "lossy"] {
        for job in example(name)["jobs"].as_array().unwrap() {
            assert!(job["summed_in_network"].as_f64().unwrap() > 0.0, "{name}: {job}");
        }
    }
}

#[test]
fn esa_preempts_and_repairs() {
    let report = example("esa-two-jobs");
    let jobs = report["jobs"].as_array().unwrap();
    assert!(jobs.iter().map(|job| number(&job["esa"]["preemptions"])).sum::<u64>() > 0);
    for name in ["esa-two-racks", "esa-lossy"] {
        for job in example(name)["jobs"].as_array().unwrap() {
            assert!(number(&job["esa"]["results_of_switches"]) > 0, "{name}: {job}");
        }
    }
}

#[test]
fn jobs_with_segments_sum_in_the_network() {
    for name in ["p4inc-local", "p4inc-two-units", "p4inc-both", "switchml"] {
        example(name);
    }
}

#[test]
fn switches_in_namespaces_get_the_program_for_tna() {
    if namespaces() {
        assert_verified(&report("examples/two-racks.toml", "netns", &["--arch", "tna"]));
    }
}

#[test]
fn an_architecture_that_does_not_fit_is_refused() {
    let job = root().join("examples/two-racks.toml").display().to_string();
    let line = fail(&["run", &job, "--arch", "tna", "--fabric", "netns", "--target", "bmv2"]);
    assert!(line.contains("v1model, not for tna"), "{line}");
    let line = fail(&["run", &job, "--arch", "tna", "--p4", "p4src/v1model/atp.p4"]);
    assert!(line.contains("--arch tna: p4src/v1model/atp.p4 is for v1model"), "{line}");
    let odd = "[topology]\nkind = \"star\"\n[switch]\npool = 100\n[[job]]\nworkers = 2\n\
               workload = { kind = \"random\", tensors = 1, elements = 10 }\n";
    let file = JobFile::new(odd);
    let line = fail(&["run", &file.name(), "--arch", "tna"]);
    assert!(line.contains("tna/atp.p4 has errors"), "{line}");
}
