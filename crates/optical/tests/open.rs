//! A checker in Python that shares nothing with this crate accepts the open schedules of all schedulers, and refuses
//! damaged ones.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use tributary_optical::{Input, Open, Refine, read, schedulers};

const CHECKER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/optical/check.py");
const EXAMPLE: &str = include_str!("../../../examples/optical/jobs.toml");

/// False, after a line on why, if the checker cannot run.
fn can_check() -> bool {
    let python = Command::new("python3").args(["-c", "import tomllib"]).output();
    let can = python.is_ok_and(|output| output.status.success());
    if !can {
        eprintln!("skipped: examples/optical/check.py needs python3, 3.11 or later, on the PATH");
    }
    can
}

fn run(directory: &Path, file: &str, schedules: &[Value]) -> Output {
    let input = directory.join("jobs.toml");
    std::fs::write(&input, file).unwrap();
    let mut command = Command::new("python3");
    command.arg(CHECKER).arg(input);
    for (at, schedule) in schedules.iter().enumerate() {
        let path = directory.join(format!("{at}.json"));
        std::fs::write(&path, schedule.to_string()).unwrap();
        command.arg(path);
    }
    command.output().unwrap()
}

/// The open schedules of all schedulers that can carry out the jobs.
fn open(file: &str) -> Vec<Value> {
    let Input { network, jobs } = read(file, "jobs.toml").unwrap_or_else(|error| panic!("{error}"));
    let mut all = schedulers();
    all.push(Box::new(Refine::default()));
    let mut opened = Vec::new();
    for one in all {
        if let Ok(schedule) = one.schedule(&network, &jobs) {
            let open = Open::new(one.name(), &network, &jobs, &schedule);
            let open = open.unwrap_or_else(|violation| panic!("{}: {violation}", one.name()));
            opened.push(serde_json::to_value(open).unwrap());
        }
    }
    opened
}

/// Jobs of all kinds for two to four units.
fn random_file(random: &mut ChaCha8Rng) -> String {
    let units = random.random_range(2..=4);
    let mut file = format!(
        "[network]\nunits = {units}\nports = {}\nport_gbps = 40\nswitch_gbps = {}\ninc = {}\n\
         slot_s = {}\nreconfiguration_ms = {}\nlocal_inc_only = {}\n",
        units - 1 + random.random_range(0..=3),
        random.random_range(320..=640),
        random.random_range(0..=2),
        [0.5, 1.0, 2.0][random.random_range(0..3_usize)],
        random.random_range(0..=300),
        random.random_bool(0.5),
    );
    for _ in 0..random.random_range(1..=5) {
        let workers: Vec<u32> =
            (0..units).map(|_| [0, 1, 3][random.random_range(0..3_usize)]).collect();
        if workers.iter().all(|&count| count == 0) {
            continue;
        }
        let (server, arrival) = (random.random_range(0..units), random.random_range(0..4));
        let (data, update) = (random.random_range(0.0..6e3), random.random_range(0..400));
        writeln!(
            file,
            "[[training]]\nworkers = {workers:?}\nserver = {server}\nmegabytes = {data}\n\
             update_ms = {update}\narrival = {arrival}"
        )
        .unwrap();
    }
    for _ in 0..random.random_range(1..=3) {
        let mut demand = || {
            let (from, to) = (random.random_range(0..units), random.random_range(0..units));
            format!("[{from}, {to}, {}]", random.random_range(0..9_000))
        };
        let demands = [demand(), demand()].join(", ");
        writeln!(file, "[[coflow]]\ndemands = [{demands}]").unwrap();
    }
    file
}

#[test]
fn the_checker_accepts_the_schedules_of_all_schedulers() {
    if !can_check() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut files = vec![
        EXAMPLE.to_owned(),
        include_str!("cases/bound-not-optimum.toml").to_owned(),
        include_str!("cases/no-ports.toml").to_owned(),
        include_str!("cases/one-job.toml").to_owned(),
        include_str!("cases/refine-worse.toml").to_owned(),
    ];
    files.extend((0..10).map(|seed| random_file(&mut ChaCha8Rng::seed_from_u64(seed))));
    for file in files {
        let schedules = open(&file);
        assert!(schedules.len() >= 3, "{file}");
        let output = run(directory.path(), &file, &schedules);
        let said = String::from_utf8_lossy(&output.stdout);
        let problem = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{problem}\n{file}");
        assert_eq!(said.lines().count(), schedules.len(), "{said}");
    }
}

#[test]
fn the_checker_refuses_damaged_schedules() {
    if !can_check() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let schedules = open(EXAMPLE);
    let valid = schedules.iter().find(|one| one["scheduler"] == "INC-TW").unwrap();
    // What the damages below rely on.
    let sends = |slot: usize| valid["slots"][slot]["sends"].as_array().unwrap();
    assert!(sends(0).len() == 3 && sends(1).len() == 1, "{valid}");
    type Damage = fn(&mut Value);
    let damages: [(&str, Damage); 15] = [
        ("ports are used", |all| all["slots"][0]["circuits"][0][2] = json!(5)),
        ("initially, unit 0: 9 ports", |all| all["initial"] = json!([[0, 1, 9]])),
        ("moves differ", |all| all["slots"][1]["moves"] = json!([[0, 1, 1]])),
        ("Gb/s", |all| all["slots"][0]["sends"][0]["rate_gbps"] = json!(10_000.0)),
        ("units (2, 3): 100.0 Gb/s", |all| {
            all["slots"][0]["sends"][2]["rate_gbps"] = json!(100.0);
        }),
        ("switch 0: 2 jobs", |all| {
            all["jobs"][1]["switch"] = json!(0);
            all["slots"][0]["sends"][1]["flows"][0]["to"] = json!(0);
        }),
        ("job 0 was interrupted", |all| {
            let mut again = all["slots"][0].clone();
            again["slot"] = json!(2);
            all["slots"].as_array_mut().unwrap().push(again);
        }),
        ("MB are left of", |all| all["slots"].as_array_mut().unwrap().truncate(1)),
        ("its number is", |all| drop(all["slots"].as_array_mut().unwrap().remove(0))),
        ("is early", |all| {
            let late = all["slots"][1]["sends"].as_array().unwrap();
            let late = late.iter().find(|send| send["job"] == 2).unwrap().clone();
            all["slots"][0]["sends"].as_array_mut().unwrap().push(late);
        }),
        ("has none of its workers", |all| all["jobs"][0]["switch"] = json!(3)),
        ("it ends at", |all| all["jobs"][1]["completion_s"] = json!(0.25)),
        ("circuits are new", |all| all["new_circuits"] = json!(99)),
        ("MB, not", |all| {
            all["slots"][0]["sends"][0]["flows"][0]["sent_megabytes"] = json!(1e6);
        }),
        ("not in the format", |all| drop(all["slots"][0].as_object_mut().unwrap().remove("moves"))),
    ];
    for (expected, damage) in damages {
        let mut damaged = valid.clone();
        damage(&mut damaged);
        let output = run(directory.path(), EXAMPLE, &[damaged]);
        let problem = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{expected}: {problem}");
        assert!(problem.contains("refused") && problem.contains(expected), "{expected}: {problem}");
        assert_eq!(problem.lines().count(), 1, "{problem}");
    }
}

#[test]
fn an_open_schedule_tells_what_is_sent_and_what_is_left() {
    // 80 Gb of a worker to a server, over one circuit that exists and one that is set up in 20 ms.
    let file = include_str!("cases/bound-not-optimum.toml");
    let all = open(file);
    let refined = all.iter().find(|one| one["scheduler"] == "INC-Refine").unwrap();
    assert_eq!(refined["completion_s"], 2.0);
    let job = json!({
        "job": 0, "switch": null, "first_slot": 0, "last_slot": 1, "completion_s": 2.0,
    });
    assert_eq!(refined["jobs"], json!([job]));
    let flows: Vec<&Value> = refined["slots"]
        .as_array()
        .unwrap()
        .iter()
        .map(|slot| &slot["sends"][0]["flows"][0])
        .collect();
    let number = |flow: usize, key: &str| flows[flow][key].as_f64().unwrap();
    assert!((number(0, "sent_megabytes") + number(1, "sent_megabytes") - 10_000.0).abs() < 0.1);
    assert!((number(0, "left_megabytes") - number(1, "sent_megabytes")).abs() < 0.1);
    assert!(number(1, "left_megabytes") < 0.1);
}
