//! Runs that lose time report where: job files that were slow, in virtual time.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use tributary_run::fabric::Kind;
use tributary_run::report::{JobReport, RunReport};
use tributary_run::{Options, run};

fn case(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name);
    fs::read_to_string(file).unwrap()
}

/// The report of a job file in virtual time.
fn report(text: &str) -> RunReport {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("job.toml");
    fs::write(&file, text).unwrap();
    let options = Options { fabric: Kind::Sim, ..Options::new(file) };
    run(&options, &AtomicBool::new(false), &mut ()).unwrap()
}

/// The only warning of a job.
fn warning(job: &JobReport) -> &str {
    let [warning] = &job.warnings[..] else {
        panic!("{}: {:?}, {:?}", job.name, job.warnings, job.lost)
    };
    warning
}

#[test]
fn repairs_over_tcp_are_named_with_the_setting_that_asks_for_them() {
    let text = case("papers.toml");
    let run = report(&text);
    let slow = run.jobs.iter().max_by(|one, other| {
        let seconds = |job: &JobReport| job.lost.unwrap().seconds;
        seconds(one).total_cmp(&seconds(other))
    });
    let warning = warning(slow.unwrap());
    for part in [
        " for fragments of which it reminded the agent over TCP (",
        "; workers answered the agent's queries after ",
        "; `[faults]` of the job file lose packets; ",
        "write `recovery = \"rack\"` into [protocol]",
    ] {
        assert!(warning.contains(part), "no {part:?}: {warning}");
    }
    assert!(!warning.contains("sent again"), "{warning}");
    let warnings: usize = run.jobs.iter().map(|job| job.warnings.len()).sum();
    assert_eq!(run.to_text().matches("\nwarning: ").count(), warnings);
    // The advice helps.
    let run = report(&text.replace("recovery = \"papers\"\n", ""));
    assert!(run.jobs.iter().all(|job| job.warnings.is_empty()), "{}", run.to_text());
}

#[test]
fn fragments_that_were_sent_again_are_named_with_the_links_that_lose_them() {
    let run = report(&case("bursts.toml"));
    let job = &run.jobs[0];
    let warning = warning(job);
    for part in [" for fragments that it sent again (", "; `[faults]` of the job file lose packets"]
    {
        assert!(warning.contains(part), "no {part:?}: {warning}");
    }
    assert!(!warning.contains("recovery"), "{warning}");
    assert!(run.to_text().ends_with(&format!("\nwarning: job burst: {warning}")));
    // The report for programs has the same numbers, and where they come from.
    let json = serde_json::to_value(&run).unwrap();
    let json = &json["jobs"][0];
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    let place = json["lost"]["worker"].as_u64().unwrap() as usize;
    let delays = &json["workers"][place]["delays"];
    let all = ["resent", "reminded", "delivered", "dismissed", "dismissed_by_agent"];
    let sum: f64 = all.iter().map(|kind| number(&delays[kind]["seconds"])).sum();
    assert!((sum - number(&json["lost"]["seconds"])).abs() < 1e-6, "{json}");
    assert!(delays["resent"]["count"].as_u64() > Some(10), "{delays}");
    assert!(number(&delays["in_flight_seconds"]) <= number(&json["lost"]["of_seconds"]), "{json}");
}

/// A late worker does not count as lost time.
#[test]
fn a_run_without_losses_warns_of_nothing() {
    let bursts = case("bursts.toml").replace("loss = 0.10\nburst = 4\n", "");
    // A farewell takes four latencies, and is worth a line from 10 ms on.
    let bursts = bursts.replace("latency = \"10ms\"", "latency = \"1ms\"");
    let late = format!("{bursts}[[job.straggler]]\nworker = 1\ndelay = \"2s\"\n");
    let atp = bursts.replace("\"esa\"", "\"atp\"");
    for text in [bursts, late, atp] {
        let run = report(&text);
        let lost = run.jobs[0].lost.unwrap();
        assert!(lost.seconds < 0.02 && lost.text().is_none(), "{lost:?}");
        assert!(
            run.jobs[0].warnings.is_empty() && !run.to_text().contains(" lost "),
            "{}",
            run.to_text()
        );
    }
}
