//! Rounding errors of fixed point are reported, and cause a warning or an error if they exceed what
//! the job allows.

use tributary_run::testbed::Stream;

use crate::by_hand::{Net, ended};
use crate::command::{JobFile, fail, namespaces, succeed};
use crate::examples::{number, report};

/// Two workers with values of N(0, deviation), the same in every run.
fn normal(deviation: &str, rest: &str) -> JobFile {
    JobFile::new(&format!(
        "[[job]]\nname = \"small\"\nworkers = 2\n{rest}\n\
         workload = {{ kind = \"random\", tensors = 2, elements = 1000, \
         distribution = \"normal\", magnitude = {deviation} }}\n"
    ))
}

#[test]
fn values_that_become_zero_cause_a_warning_with_a_better_scale() {
    let file = normal("1e-7", "");
    let output = succeed(&["run", &file.name()]);
    let warning = output.lines().find(|line| line.starts_with("warning: job small: worker "));
    let warning = warning.unwrap_or_else(|| panic!("no warning: {output}"));
    assert!(warning.contains("became zero at scale 1048576"), "{warning}");
    let scale = warning.split_once("set `scale = ").unwrap().1.split_once('`').unwrap().0;
    let report = report(&file.name(), "memory", &[]);
    let job = &report["jobs"][0];
    assert_eq!(number(&job["rounding"]["values"]), 4000);
    assert_eq!(number(&job["rounding"]["zeroed"]), 4000);
    assert_eq!(number(&job["rounding"]["imprecise"]), 0);
    assert_eq!(job["warnings"].as_array().unwrap().len(), 1);
    // The suggested scale keeps them.
    let output = succeed(&["run", &normal("1e-7", &format!("scale = {scale}")).name()]);
    assert!(!output.contains("warning"), "{output}");
    let line = output.lines().find(|line| line.starts_with("small: 0 of 4 000 non-zero")).unwrap();
    assert!(line.contains("0 of 4 000 non-zero values (0.00 %) were smaller"), "{line}");
    assert!(line.ends_with("rounding changed none of the others by more than 1 %."), "{line}");
    let allowed = succeed(&["run", &normal("1e-7", "max_underflow = 1").name()]);
    assert!(!allowed.contains("warning"), "{allowed}");
}

#[test]
fn a_job_may_refuse_sums_that_lost_too_much() {
    for protocol in ["atp", "esa", "p4inc", "switchml"] {
        let rest = format!("protocol = \"{protocol}\"\non_underflow = \"fail\"");
        let line = fail(&["run", &normal("1e-7", &rest).name()]);
        assert!(line.contains("non-zero values (100.00 %) were smaller"), "{line}");
        assert!(line.contains("set `scale = "), "{line}");
        succeed(&["run", &normal("1.0", &rest).name()]);
    }
}

#[test]
fn a_worker_by_itself_reports_and_warns() {
    if !namespaces() {
        return;
    }
    let job = "[topology]\nkind = \"star\"\nworkers = 1\n[[job]]\nworkload = { kind = \"random\", \
               tensors = 1, elements = 1000, distribution = \"normal\", magnitude = 1e-7 }\n";
    let net = Net::with(job, &["w1", "ps"]);
    let (_controller, _server) = (net.controller(), net.server());
    let worker = net.worker(0);
    let (success, err) = ended(&worker);
    assert!(success, "{err}");
    let out = worker.output(Stream::Out);
    assert!(out.contains("1 000 of 1 000 non-zero values (100.00 %) were smaller"), "{out}");
    assert!(
        err.contains("job job1: 1 000 of 1 000 non-zero values") && err.contains("set `scale = "),
        "{err}"
    );
}
