//! `tributary-lab place`: policies compared over a trace, and errors of traces and clusters.

use std::fs;

use crate::command::{fail, succeed, text, tributary};

fn write(directory: &tempfile::TempDir, name: &str, text: &str) -> String {
    let path = directory.path().join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

const SMALL: &str = "racks = 2\nservers_per_rack = 3\n";

/// Jobs of 1, 12, 2 and 24 GPUs.
const TRACE: &str = "submit_s,duration_s,gpus\n0,600,1\n10,900,12\n20,300,2\n30,1200,24\n";

#[test]
fn all_policies_over_a_trace_as_tables_plots_and_a_page() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = write(&directory, "cluster.toml", SMALL);
    let trace = write(&directory, "trace.csv", TRACE);
    let out = directory.path().join("out");
    let json = directory.path().join("measures.json");
    let (out_name, json_name) = (out.display().to_string(), json.display().to_string());
    let output = succeed(&[
        "place",
        "--cluster",
        &cluster,
        "--trace",
        &trace,
        "--out",
        &out_name,
        "--json-out",
        &json_name,
    ]);
    let policies = [
        "netpack",
        "netpack+",
        "gpu-balance",
        "flow-balance",
        "least-fragmentation",
        "optimus",
        "tetris",
        "comb",
        "titan",
        "elasticflow",
        "hived",
        "tiresias",
    ];
    for policy in policies {
        assert!(output.contains(policy), "{policy}\n{output}");
    }
    let page = fs::read_to_string(out.join("index.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("least-fragmentation"));
    let jobs = fs::read_to_string(out.join("jobs.csv")).unwrap();
    // Every job of every policy once: the largest needs the whole cluster.
    assert_eq!(jobs.lines().count(), 1 + 4 * policies.len());
    assert!(jobs.lines().skip(1).all(|line| line.ends_with(",finished")), "{jobs}");
    assert!(fs::metadata(out.join("comparison.csv")).unwrap().len() > 500);
    let measures: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    let runs = measures["runs"].as_array().unwrap();
    assert_eq!(runs.len(), policies.len());
    assert!(runs.iter().all(|run| run["finished_jobs"] == 4.0));
}

/// An option sets a rule for all policies, a suffix for one.
#[test]
fn rules_are_exchanged_in_policies() {
    let run = |args: &[&str]| {
        let fixed = ["place", "--jobs", "40", "--policy"];
        succeed(&fixed.iter().chain(args).copied().collect::<Vec<_>>())
    };
    let by_option =
        run(&["netpack,tetris:fifo,titan", "--queue", "shortest", "--servers", "apart"]);
    for name in ["netpack:shortest:apart", "tetris:fifo:apart", "titan:shortest:apart"] {
        assert!(by_option.contains(name), "{name}: {by_option}");
    }
    let by_suffix = run(&["netpack:shortest:apart,tetris:fifo:apart,titan:shortest:apart"]);
    assert_eq!(by_option, by_suffix);
    assert!(run(&["all", "--racks", "racks-first"]).contains("comb:racks-first"));
}

#[test]
fn the_same_seed_gives_the_same_table() {
    let run = || succeed(&["place", "--jobs", "60", "--policy", "netpack,tetris", "--seeds", "2"]);
    assert_eq!(run(), run());
}

#[test]
fn a_generated_trace_makes_the_figures_of_both_papers() {
    let directory = tempfile::tempdir().unwrap();
    for (paper, last) in [("netpack", "netpack-15"), ("titan", "titan-11")] {
        let out = directory.path().join(paper).display().to_string();
        let sample = "examples/placement/sample.csv";
        let few = ["--quick", "--seeds", "1", "--testbed", "flows", "--trace", sample];
        let args = ["place", "figures", paper].into_iter().chain(few).chain(["--out", &out]);
        succeed(&args.collect::<Vec<_>>());
        for name in ["index.html".to_owned(), format!("{last}.csv")] {
            assert!(directory.path().join(paper).join(&name).exists(), "{paper}: {name}");
        }
    }
}

#[test]
fn invalid_jobs_are_named_by_line_and_omitted() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = write(&directory, "cluster.toml", SMALL);
    let jobs = "submit_s,duration_s,gpus\n0,600,1\n10,-5,2\n20,60,0\n30,60,25\n40,60,4\n";
    let trace = write(&directory, "trace.csv", jobs);
    let args = ["place", "--cluster", &cluster, "--trace", &trace, "--policy", "netpack"];
    let output = tributary(&args).output().unwrap();
    let (out, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{errors}");
    for line in [3, 4, 5] {
        assert!(errors.contains(&format!("trace.csv:{line}:")), "{errors}");
    }
    assert!(!errors.contains("trace.csv:2:") && !errors.contains("trace.csv:6:"), "{errors}");
    assert!(out.contains("netpack"), "the others run: {out}");
}

#[test]
fn impossible_requests_are_reported_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = write(&directory, "cluster.toml", "racks = 0\n");
    let words = write(&directory, "words.csv", "once upon a time\n");
    let line = fail(&["place", "--cluster", &cluster]);
    assert!(line.contains("cluster.toml:1:"), "{line}");
    let line = fail(&["place", "--trace", &words]);
    assert!(line.contains("words.csv"), "{line}");
    let line = fail(&["place", "--trace", "nowhere.csv"]);
    assert!(line.contains("nowhere.csv"), "{line}");
    let line = fail(&["place", "--policy", "netpack,,tetris"]);
    assert!(line.contains("--policy: a name is missing"), "{line}");
    for option in ["--period", "--ageing"] {
        let line = fail(&["place", option, "-5"]);
        assert!(line.contains(&format!("{option} -5: write ")), "{line}");
    }
    let line = fail(&["place", "--json-out", "no-such-directory/measures.json"]);
    assert!(line.contains("measures.json: there is no such directory"), "{line}");
    for policies in ["best", "netpack, best", "best:fifo"] {
        let line = fail(&["place", "--policy", policies]);
        assert!(line.contains("no policy is called `best`; there are netpack, "), "{line}");
    }
    for (args, problem) in [
        (
            ["--policy", "tetris:near"],
            "--policy tetris:near: there is no rule `near`; there are fifo, ",
        ),
        (["--queue", "lifo"], "--queue lifo: there are fifo, knapsack, shortest"),
        (["--servers", "apart,beside"], "`beside` is the second rule of its kind"),
        (["--policy", "titan:racks-first"], "places ranks without regard to racks"),
    ] {
        let line = fail(&["place", args[0], args[1]]);
        assert!(line.contains(problem), "{line}");
    }
    let line = fail(&["place", "figures", "titan", "--figure", "13"]);
    assert!(line.contains("--figure 13: there are trace, testbed, waiting, elasticflow"), "{line}");
    let line = fail(&["place", "--load", "0"]);
    assert!(line.contains("--load"), "{line}");
    let line = fail(&["place", "--seeds", "0"]);
    assert!(line.contains("--seeds 0"), "{line}");
    let line = fail(&["place", "--trace", &words, "--format", "pdf"]);
    assert!(line.contains("--format pdf: there are "), "{line}");
}
