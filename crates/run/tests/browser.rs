//! The page in headless Chromium, where that is on the `PATH`.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use tiny_skia::Pixmap;
use tributary_run::live::Hub;
use tributary_run::live::model::{
    Clock, End, Host, JobSample, Line, Link, LinkSample, Node, Note, Sample, Scene, ShownJob,
    ShownSwitch, SwitchSample, VERSION, Weight, WorkerSample,
};
use tributary_run::live::server::Server;

const CELLS: u32 = 16;
const SAMPLES: u64 = 60;

fn scene() -> Scene {
    let host = |name: &str| Host { name: name.into() };
    let link = |host| Link {
        ends: [Node::Host(host), Node::Switch(0)],
        rate: Some(10_000_000_000),
        loss: 0.0,
    };
    let job = |name: &str, workers: &[usize]| ShownJob {
        name: name.into(),
        workers: workers.to_vec(),
        server: Some(3),
        agent: None,
        rounds: Some(SAMPLES),
    };
    Scene {
        version: VERSION,
        name: "<b>two</b> & \"jobs\"".into(),
        protocol: "esa".into(),
        fabric: "sim".into(),
        clock: Clock::Virtual,
        switches: vec![ShownSwitch { name: "s1".into(), pool: CELLS, cells: CELLS }],
        hosts: ["w1", "w2", "w3", "ps1"].map(host).to_vec(),
        links: (0..4).map(link).collect(),
        jobs: vec![job("slow", &[0, 1]), job("quick", &[2])],
    }
}

fn sample(at: u64) -> Sample {
    let worker = |rounds| WorkerSample { rounds, awaited: 3, ..WorkerSample::default() };
    let counts = |name: &str, count| BTreeMap::from([(name.to_owned(), count)]);
    Sample {
        at_us: 100 * at,
        jobs: vec![
            JobSample { workers: vec![worker(at + 1), worker(at)], over: false },
            JobSample { workers: vec![worker(at + 1)], over: false },
        ],
        switches: vec![SwitchSample {
            counts: vec![counts("evicted", at / 50), counts("preempted", at / 50)],
            held: vec![8, 8],
            cells: "0d1d".repeat(CELLS as usize / 2),
        }],
        links: vec![LinkSample { bytes: [50_000 * at, 0], drops: [0, at / 55], lost: [0, 0] }; 4],
        findings: Vec::new(),
    }
}

/// A run that has ended.
fn server() -> Server {
    let hub = Hub::default();
    hub.push(Line::Scene(scene()));
    (0..SAMPLES).for_each(|at| hub.push(Line::Sample(sample(at))));
    hub.push(Line::Note(Note {
        at_us: 50,
        weight: Weight::Info,
        job: Some(0),
        text: "<i>a milestone</i>".into(),
    }));
    hub.push(Line::End(End { at_us: 100 * SAMPLES, failure: None }));
    Server::start(hub, "127.0.0.1:0".parse().unwrap()).unwrap()
}

/// Runs Chromium with these arguments. Returns what it prints; `None` if it is missing. The page must
/// write nothing to its console, where violations of its policy would be too.
fn chromium(arguments: &[&str]) -> Option<String> {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(["--window-size=1400,1000", "--force-device-scale-factor=1"])
        .args(arguments)
        .stdin(Stdio::null())
        .output();
    let output = match output {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: chromium not found");
            return None;
        }
        other => other.unwrap(),
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let console: Vec<_> = errors.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(console.is_empty(), "{console:?}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a_replay_in_the_page_reaches_the_end_without_a_word_on_the_console() {
    let server = server();
    let Some(page) = chromium(&["--virtual-time-budget=32000", "--dump-dom", server.url()]) else {
        return;
    };
    for part in [
        "<h1 id=\"title\">&lt;b&gt;two&lt;/b&gt; &amp; \"jobs\"</h1>",
        "data-samples=\"60\"",
        "data-cursor=\"59\"",
        "5.90 ms virtual",
        "slow",
        "59 of 60",
        "quick at s1: took 1 aggregator from other tasks",
        "&lt;i&gt;a milestone&lt;/i&gt;",
        "Aggregators of s1: 16 of 16 held",
        "s1 to w1: 1 frame dropped at a full queue",
    ] {
        assert!(page.contains(part), "{part} is not in the page");
    }
}

#[test]
fn an_address_with_a_time_shows_that_time() {
    let server = server();
    let url = format!("{}#at=5050", server.url());
    let Some(page) = chromium(&["--virtual-time-budget=3000", "--dump-dom", &url]) else { return };
    assert!(page.contains("data-cursor=\"50\"") && page.contains("5.00 ms virtual"), "{page}");
    assert!(page.contains("looking back"), "{page}");
}

#[test]
fn the_heat_map_has_the_colours_of_the_jobs() {
    let server = server();
    let directory = tempfile::tempdir().unwrap();
    let picture = directory.path().join("page.png");
    let shot = format!("--screenshot={}", picture.display());
    let url = format!("{}#at=3000", server.url());
    if chromium(&["--virtual-time-budget=3000", &shot, &url]).is_none() {
        return;
    }
    let picture = Pixmap::load_png(&picture).unwrap();
    // Cells of the fourth level have so much of their job's colour, over that of free ones.
    let strength = 0.3 + 0.7 * 3.0 / 11.0;
    let free = [0xe6, 0xea, 0xee];
    for (job, colour) in [("slow", [0x00, 0x72, 0xb2]), ("quick", [0xd9, 0x82, 0x00])] {
        let mix =
            |i: usize| f64::from(free[i]) * (1.0 - strength) + f64::from(colour[i]) * strength;
        let near = |a: u8, b: f64| (f64::from(a) - b).abs() <= 2.0;
        let cells = picture.pixels().iter().filter(|it| {
            near(it.red(), mix(0)) && near(it.green(), mix(1)) && near(it.blue(), mix(2))
        });
        let count = cells.count();
        assert!(count > 8000, "{job}: {count} pixels, where eight cells are");
    }
}
