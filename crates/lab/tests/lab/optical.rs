//! `tributary-lab optical schedule`: open schedules and the exact model.

use serde_json::Value;

use crate::command::{fail, succeed};

const BOUND: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../optical/tests/cases/bound-not-optimum.toml");

#[test]
fn a_schedule_is_printed_as_json() {
    let output = succeed(&["optical", "schedule", BOUND, "--scheduler", "INC-FCFS", "--json"]);
    let schedule: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(schedule["scheduler"], "INC-FCFS");
    let output = succeed(&["optical", "schedule", BOUND, "--exact", "--json"]);
    let schedule: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(schedule["scheduler"], "exact");
    assert_eq!(schedule["completion_s"], 2.0);
}

#[test]
fn the_optimum_of_a_small_instance_is_proven_and_a_large_one_is_refused() {
    let output = succeed(&["optical", "schedule", BOUND, "--exact"]);
    assert!(output.contains(": the optimum is 2.000 s"), "{output}");
    let problem = fail(&["optical", "schedule", "--table1", "1000", "--exact"]);
    assert!(problem.contains("--exact: the exact model has "), "{problem}");
    assert!(
        problem.contains("give it fewer jobs or units, less data, or longer slots"),
        "{problem}"
    );
}
