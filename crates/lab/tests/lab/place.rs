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

/// The cells of `jobs.csv` of a run into a directory.
fn jobs_of(directory: &tempfile::TempDir, name: &str, args: &[&str]) -> (String, Vec<Vec<String>>) {
    let out = directory.path().join(name);
    let fixed = ["place", "--policy", "netpack", "--out", out.to_str().unwrap()];
    succeed(&fixed.iter().chain(args).copied().collect::<Vec<_>>());
    let file = out.join("jobs.csv");
    let text = fs::read_to_string(&file).unwrap();
    let rows = text.lines().map(|row| row.split(',').map(str::to_owned).collect()).collect();
    (file.display().to_string(), rows)
}

#[test]
fn the_listed_jobs_of_a_run_are_a_trace_that_gives_the_run_again() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = write(&directory, "cluster.toml", SMALL);
    let (listed, first) =
        jobs_of(&directory, "first", &["--cluster", &cluster, "--jobs", "60", "--load", "0.9"]);
    let (_, again) = jobs_of(&directory, "again", &["--cluster", &cluster, "--trace", &listed]);
    assert_eq!(first.len(), 61);
    assert!(first.iter().any(|row| row.last().unwrap() != "finished"), "some are too large");
    for (row, other) in first.iter().zip(&again) {
        for (cell, other) in row.iter().zip(other) {
            let close = match (cell.parse::<f64>(), other.parse::<f64>()) {
                (Ok(number), Ok(other)) => (number - other).abs() <= 1e-9 * number.abs(),
                _ => cell == other,
            };
            assert!(close, "{row:?} {other}");
        }
    }
    assert_eq!(first.len(), again.len());
    // The rows of two runs repeat the numbers of jobs.
    let both = fs::read_to_string(&listed).unwrap();
    let second: String = both.lines().skip(1).map(|row| format!("{row}\n")).collect();
    let both = write(&directory, "both.csv", &(both + &second));
    let error = fail(&["place", "--trace", &both]);
    assert!(error.contains("both.csv:62: the job has the number of the job in line 2;"), "{error}");
}

/// Titan §II-B: machines in use, and traffic in units of the model's size; ours sums 1 GB in each of
/// 1 000 iterations.
#[test]
fn titans_worked_example_is_one_command() {
    let file = |name: &str| format!("examples/placement/titan-example-{name}");
    let output = succeed(&[
        "place",
        "--cluster",
        &file("cluster.toml"),
        "--occupied",
        &file("occupied.toml"),
        "--trace",
        &file("job.csv"),
        "--communication",
        "halving-doubling",
        "--period",
        "0",
        "--policy",
        "elasticflow,hived,titan",
    ]);
    let cells = |line| str::split(line, ['│', '┆']).map(str::trim).skip(1).collect();
    let table: Vec<Vec<&str>> = output.lines().map(cells).collect();
    for (policy, machines, traffic) in
        [("elasticflow", "4.0", "0.0"), ("hived", "3.0", "1.5"), ("titan", "3.0", "1.0")]
    {
        let row = table.iter().find(|row| row.first() == Some(&policy)).unwrap();
        assert!(row.contains(&machines) && row.contains(&traffic), "{output}");
    }
}

#[test]
fn columns_of_any_table_are_named_and_errors_name_the_fix() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = write(&directory, "cluster.toml", SMALL);
    let jobs = "JobID;Submit;Start;End;GPUs\na;0;5;65;2\nb;10;10;40;1\n";
    let trace = write(&directory, "jobs.csv", jobs);
    let run = |columns: &'static str| {
        ["place", "--cluster", &cluster, "--policy", "netpack", "--trace", &trace]
            .into_iter()
            .chain(["--columns", columns])
            .collect::<Vec<_>>()
    };
    succeed(&run("job=JobID,submit=Submit,start=Start,end=End,gpus=GPUs"));
    let error = fail(&run("submit=Submit,start=Start,end=End,gpus=GPU"));
    let expected = "jobs.csv:1: there is no column `GPU`; correct `gpus=GPU`: did you mean `gpus`?";
    assert!(error.contains(expected), "{error}");
    let error = fail(&run("submit=Submit,gpus=GPUs"));
    assert!(
        error.contains("--columns: how long jobs ran is missing; add duration=COLUMN"),
        "{error}"
    );
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
