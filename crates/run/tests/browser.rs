//! The page in headless Chromium, where that is on the `PATH`.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use tiny_skia::Pixmap;
use tributary_run::live::Hub;
use tributary_run::live::model::{
    Clock, End, Finding, Host, JobSample, Line, Link, LinkSample, Node, Note, Rule, Sample, Scene,
    ShownJob, ShownSwitch, SwitchSample, VERSION, Weight, WorkerSample,
};
use tributary_run::live::server::Server;

const CELLS: u32 = 16;
const SAMPLES: u64 = 60;
/// The first sample in which something is wrong.
const WRONG: u64 = 40;

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

/// The link of the third host, towards it, and the second worker of the first job.
fn findings() -> Vec<Finding> {
    let finding = |rule, text: &str| Finding {
        rule,
        job: None,
        workers: Vec::new(),
        link: None,
        ways: [false, false],
        text: text.into(),
    };
    let lossy = finding(Rule::LossyLink, "s1 → w3 loses 8 % of its frames");
    let late =
        finding(Rule::LateWorker, "the others wait up to 20.0 ms for worker 1 (w2) in each round");
    vec![
        Finding { link: Some(2), ways: [false, true], ..lossy },
        Finding { job: Some(0), workers: vec![1], ..late },
    ]
}

fn sample(at: u64) -> Sample {
    let worker = |rounds| WorkerSample { rounds, awaited: 3, resent: at / 30, late_us: 20_000 };
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
        links: vec![
            LinkSample { bytes: [50_000 * at, 0], drops: [0, at / 55], lost: [0, at / 57] };
            4
        ],
        findings: if at < WRONG { Vec::new() } else { findings() },
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
        "s1 to w3: 1 frame lost",
        "w2 of slow: sent 1 packet again",
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
fn what_is_wrong_is_at_the_top_and_only_the_culprits_are_marked() {
    let server = server();
    let at = |time: u64| {
        let url = format!("{}#at={time}", server.url());
        chromium(&["--virtual-time-budget=3000", "--dump-dom", &url])
    };
    let Some(page) = at(5050) else { return };
    let count = |page: &str, part: &str| page.matches(part).count();
    let lines = [
        "s1 → w3 loses 8 % of its frames",
        "slow: the others wait up to 20.0 ms for worker 1 (w2)",
    ];
    for line in lines {
        assert!(page.contains(&format!("<li class=\"wrong\">{line}")), "{line}: {page}");
    }
    // One direction of a link, and its sample in the key; one worker in the network, and in its row name and lateness.
    assert_eq!(count(&page, "class=\"wire lossy\""), 2, "{page}");
    assert_eq!(count(&page, "class=\"late-name\""), 1, "{page}");
    assert_eq!(count(&page, "<td class=\"late\""), 2, "{page}");
    assert!(page.contains(">8 %</text>"), "{page}");
    let Some(before) = at(1000) else { return };
    assert!(before.contains("<li class=\"none\">nothing wrong was found"), "{before}");
    assert_eq!(count(&before, "class=\"wire lossy\""), 1, "{before}");
    assert_eq!(count(&before, "class=\"late-name\"") + count(&before, "<td class=\"late\""), 0);
}

#[test]
fn a_page_without_samples_says_that_the_run_prepares() {
    let hub = Hub::default();
    let server = Server::start(hub.clone(), "127.0.0.1:0".parse().unwrap()).unwrap();
    let look = || chromium(&["--timeout=1500", "--dump-dom", server.url()]);
    for scene in [None, Some(scene())] {
        scene.into_iter().for_each(|scene| hub.push(Line::Scene(scene)));
        let Some(page) = look() else { return };
        assert!(page.contains(">preparing …</p>"), "{page}");
        assert!(page.contains("The view begins with the first sample"), "{page}");
        assert!(page.contains("<main hidden"), "{page}");
    }
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
