//! Jobs that go on without workers that die: the others agree on a round, and hold the same sums.

use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tributary_run::testbed::{Process, Stream};

use super::signal;
use crate::by_hand::{DEADLINE, Net, ended, until};
use crate::command::{JobFile, failure, namespaces, text, tributary};

const PROTOCOLS: [&str; 4] = ["atp", "esa", "p4inc", "switchml"];

/// Values of a tensor, and tensors of a job.
const ELEMENTS: u64 = 2_000;
const ROUNDS: u64 = 150;

/// A job that takes about a second and a half, with this many workers. Without a number of workers that must
/// be left, it waits for those that die.
fn job(protocol: &str, workers: usize, least: Option<usize>) -> String {
    let on_death = match least {
        Some(least) => format!("on_death = \"continue\"\nmin_workers = {least}"),
        None => "on_death = \"wait\"".to_owned(),
    };
    format!(
        "worker_timeout = \"10s\"\nprotocol = \"{protocol}\"\n[topology]\nkind = \"star\"\n\
         workers = {workers}\n[[job]]\nname = \"long\"\n{on_death}\njitter = \"15ms\"\n\
         workload = {{ kind = \"random\", tensors = {ROUNDS}, elements = {ELEMENTS} }}\n"
    )
}

/// How often each test varies what is random.
fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = number("TRIBUTARY_SEED").unwrap_or(1);
    first..first + number("TRIBUTARY_SEEDS").unwrap_or(1)
}

/// A network, its controller, and all processes of a job.
struct Crew {
    net: Net,
    controller: Process,
    _servers: Vec<Process>,
    workers: Vec<Process>,
}

/// How the workers that are left ended.
#[derive(PartialEq, Debug)]
struct Agreed {
    /// What each said about losses.
    losses: Vec<String>,
    digest: String,
}

impl Crew {
    fn new(protocol: &str, workers: usize, least: impl Into<Option<usize>>) -> Self {
        let mut hosts: Vec<String> = (1..=workers).map(|host| format!("w{host}")).collect();
        let served = matches!(protocol, "atp" | "esa");
        if served {
            hosts.push("ps".into());
        }
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let net = Net::with(&job(protocol, workers, least.into()), &hosts);
        let controller = start_controller(&net);
        let servers = if served { vec![net.server()] } else { Vec::new() };
        let mut crew = Self { net, controller, _servers: servers, workers: Vec::new() };
        crew.workers = (0..workers).map(|worker| crew.worker(worker)).collect();
        crew
    }

    fn worker(&self, worker: usize) -> Process {
        self.net.worker(u8::try_from(worker).unwrap())
    }

    /// Waits for a round of a worker, and then kills another one.
    fn kill(&self, victim: usize, after: u64) {
        let witness = (victim + 1) % self.workers.len();
        until(&self.workers[witness], &format!("round {after} of"));
        self.workers[victim].kill().unwrap();
    }

    /// All but these workers end with all sums compared, and the same.
    fn agree(&self, lost: &[usize]) -> Agreed {
        let left = (0..self.workers.len()).filter(|worker| !lost.contains(worker));
        let mut all = left.map(|worker| {
            let (success, errors) = ended(&self.workers[worker]);
            let output = self.workers[worker].output(Stream::Out);
            assert!(success, "worker {worker}: {errors}\n{}", text_of(&self.controller));
            let values = ROUNDS * ELEMENTS;
            let said = format!("{values} values summed, {values} of them compared");
            assert!(output.contains(&said), "worker {worker}: {output}");
            let lines = |start: &str| -> Vec<String> {
                let lines = output.lines().filter(|line| line.starts_with(start));
                lines.map(str::to_owned).collect()
            };
            let digest = lines("digest of all sums: ").pop().expect("a digest");
            Agreed { losses: lines("the job goes on without worker"), digest }
        });
        let first = all.next().expect("a worker is left");
        all.for_each(|other| assert_eq!(other, first));
        first
    }
}

/// A controller with a journal, also after another one.
fn start_controller(net: &Net) -> Process {
    let journal = net.file.path("journal.redb").display().to_string();
    net.controller_with(&["--journal", &journal])
}

fn text_of(process: &Process) -> String {
    format!("{}{}", process.output(Stream::Out), process.output(Stream::Err))
}

/// The workers and the round of what was said.
fn parsed(loss: &str) -> (Vec<usize>, u64) {
    let (_, rest) = loss.split_once("without worker").unwrap();
    let rest = rest.trim_start_matches(['s', ' ']);
    let (workers, round) = rest.split_once(" from round ").unwrap();
    (workers.split(", ").map(|one| one.parse().unwrap()).collect(), round.parse().unwrap())
}

#[test]
fn the_others_go_on_and_hold_the_same_sums() {
    if !namespaces() {
        return;
    }
    for seed in seeds() {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        for protocol in PROTOCOLS {
            for victim in 0..3 {
                let after = random.random_range(1..ROUNDS - 10);
                println!("seed {seed}: {protocol}, worker {victim} after round {after}");
                let crew = Crew::new(protocol, 3, 2);
                crew.kill(victim, after);
                let Agreed { losses, .. } = crew.agree(&[victim]);
                let [loss] = &losses[..] else { panic!("{losses:?}") };
                let (without, round) = parsed(loss);
                assert_eq!(without, [victim]);
                // The witness had that round, and all others nearly.
                assert!((after..=ROUNDS).contains(&round), "after {after}: {loss}");
                let told = text_of(&crew.controller);
                let said = format!("job long goes on without worker {victim} from round {round}");
                assert!(told.contains(&said), "{told}");
            }
        }
    }
}

#[test]
fn one_worker_after_the_other_may_die_at_any_time() {
    if !namespaces() {
        return;
    }
    for seed in seeds() {
        let mut random = ChaCha8Rng::seed_from_u64(1000 + seed);
        for protocol in PROTOCOLS {
            let first = random.random_range(0..4);
            let second = (first + random.random_range(1..4)) % 4;
            // Before the controller knows of the first death, during the change to the next run, and in it.
            let pause = Duration::from_millis(random.random_range(0..2500));
            let after = random.random_range(1..ROUNDS / 3);
            println!(
                "seed {seed}: {protocol}, worker {first} after {after}, {second} {pause:?} later"
            );
            let crew = Crew::new(protocol, 4, 2);
            crew.kill(first, after);
            std::thread::sleep(pause);
            crew.workers[second].kill().unwrap();
            let Agreed { losses, .. } = crew.agree(&[first, second]);
            let mut without: Vec<usize> = losses.iter().flat_map(|loss| parsed(loss).0).collect();
            without.sort_unstable();
            let mut both = [first, second];
            both.sort_unstable();
            assert_eq!(without, both, "{losses:?}");
            let rounds: Vec<u64> = losses.iter().map(|loss| parsed(loss).1).collect();
            assert!(rounds.is_sorted() && rounds[0] >= after, "{losses:?}");
        }
    }
}

#[test]
fn a_controller_that_is_killed_meanwhile_gives_one_answer() {
    if !namespaces() {
        return;
    }
    for seed in seeds() {
        let mut random = ChaCha8Rng::seed_from_u64(2000 + seed);
        for protocol in PROTOCOLS {
            let victim = random.random_range(0..3);
            let after = random.random_range(1..ROUNDS / 2);
            // The controller decides about 1.1 s after the death.
            let pause = Duration::from_millis(random.random_range(500..1800));
            println!(
                "seed {seed}: {protocol}, worker {victim} after {after}, controller {pause:?} later"
            );
            let mut crew = Crew::new(protocol, 3, 1);
            crew.kill(victim, after);
            std::thread::sleep(pause);
            crew.controller.kill().unwrap();
            crew.controller = start_controller(&crew.net);
            let Agreed { losses, .. } = crew.agree(&[victim]);
            assert_eq!(losses.len(), 1, "{losses:?}");
            assert_eq!(parsed(&losses[0]).0, [victim]);
        }
    }
}

/// A worker that often loses results lacks some that the other has. Without a server, nothing can repeat them when the
/// switch has lost its memory.
#[test]
fn a_job_goes_on_when_its_switch_has_lost_its_memory() {
    if !namespaces() {
        return;
    }
    for protocol in ["p4inc", "switchml"] {
        // All the time in the middle of a tensor.
        let file = job(protocol, 2, None)
            .replace("worker_timeout = \"10s\"", "worker_timeout = \"1s\"")
            .replace("jitter = \"15ms\"\n", "")
            .replace("tensors = 150, elements = 2000", "tensors = 10, elements = 200000");
        let file = format!("{file}[[faults.link]]\nbetween = [\"w2\", \"s1\"]\nloss = 0.2\n");
        let net = Net::without_switch(&file, &["w1", "w2"]);
        let faults = format!("{}:s1", net.file.name());
        let start = || net.start_switch_at(&net.socket(), 2, &["--faults", &faults]);
        let mut switch = start();
        let _controller = start_controller(&net);
        let workers = [0, 1].map(|worker| net.worker(worker));
        until(&workers[0], "round 1 of");
        let goes_on =
            |worker: &Process| text_of(worker).contains("the job goes on with all workers");
        for round in 2..10 {
            switch.kill().unwrap();
            switch = start();
            // Either nothing was lost that only one of them has, or they go on in another run.
            let again = format!("round {round} of");
            let deadline = Instant::now() + DEADLINE;
            while !goes_on(&workers[0]) && !text_of(&workers[0]).contains(&again) {
                assert!(Instant::now() < deadline, "{protocol}: {}", text_of(&workers[0]));
                std::thread::sleep(Duration::from_millis(20));
            }
            if goes_on(&workers[0]) {
                break;
            }
        }
        assert!(goes_on(&workers[0]), "{protocol}: {}", text_of(&workers[0]));
        let digests = workers.map(|worker| {
            let (success, errors) = ended(&worker);
            let output = worker.output(Stream::Out);
            assert!(success, "{protocol}: {errors}");
            assert!(output.contains("2000000 values summed, 2000000 of them compared"), "{output}");
            let digest = output.lines().find(|line| line.starts_with("digest of all sums: "));
            digest.expect("a digest").to_owned()
        });
        assert_eq!(digests[0], digests[1]);
    }
}

/// The others wait until it has been started again. Its sums of the rounds from then on are theirs.
#[test]
fn a_job_waits_for_a_worker_and_goes_on_with_it() {
    if !namespaces() {
        return;
    }
    for seed in seeds() {
        let mut random = ChaCha8Rng::seed_from_u64(3000 + seed);
        for protocol in PROTOCOLS {
            let victim = random.random_range(0..3);
            let after = random.random_range(1..ROUNDS / 2);
            let kills_controller = random.random();
            println!("seed {seed}: {protocol}, worker {victim} after {after}, {kills_controller}");
            let mut crew = Crew::new(protocol, 3, None);
            crew.kill(victim, after);
            let witness = (victim + 1) % 3;
            until(&crew.workers[witness], &format!("waiting for worker {victim} "));
            if kills_controller {
                crew.controller.kill().unwrap();
                crew.controller = start_controller(&crew.net);
            }
            crew.workers[victim] = crew.worker(victim);
            let mut digests = Vec::new();
            for (index, worker) in crew.workers.iter().enumerate() {
                let (success, errors) = ended(worker);
                let output = worker.output(Stream::Out);
                assert!(success, "worker {index}: {errors}\n{}", text_of(&crew.controller));
                let line = |start: &str| output.lines().find(|line| line.starts_with(start));
                let went_on =
                    line("the job goes on with all workers from round ").expect("it does");
                let round: u64 = went_on.rsplit(' ').next().unwrap().parse().unwrap();
                assert!(round >= after, "{went_on}");
                let rounds = if index == victim { ROUNDS + 1 - round } else { ROUNDS };
                let values = rounds * ELEMENTS;
                let said = format!("{values} values summed, {values} of them compared");
                assert!(output.contains(&said), "worker {index}: {output}");
                digests.extend(line("digest of all sums: ").map(str::to_owned));
            }
            assert_eq!(digests.len(), 2, "the worker that was started again has no sums of before");
            assert_eq!(digests[0], digests[1]);
        }
    }
}

#[test]
fn too_few_workers_end_the_job() {
    if !namespaces() {
        return;
    }
    let crew = Crew::new("atp", 3, 3);
    crew.kill(1, 20);
    for worker in [0, 2] {
        let (success, errors) = ended(&crew.workers[worker]);
        let said = "error: job long has 2 workers left, without worker 1, and min_workers is 3; start all \
                    workers of the job again";
        assert!(!success && errors.contains(said), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
    // All of them can begin again.
    let again = Crew { workers: Vec::new(), ..crew };
    let workers = (0..3).map(|worker| again.worker(worker)).collect();
    let again = Crew { workers, ..again };
    assert_eq!(again.agree(&[]).losses, [""; 0]);
}

#[test]
fn a_worker_that_comes_back_is_refused_until_the_run_is_over() {
    if !namespaces() {
        return;
    }
    for protocol in ["atp", "switchml"] {
        let mut crew = Crew::new(protocol, 3, 1);
        crew.kill(0, 10);
        until(&crew.workers[2], "goes on without worker 0");
        let back = crew.worker(0);
        let (success, errors) = ended(&back);
        let said = "error: job long goes on without worker 0, which was not heard from; start it again when \
                    that run is over";
        assert!(!success && errors.lines().eq([said]), "{errors}");
        crew.agree(&[0]);
        // The next run has all workers, and a server that knows it.
        crew.workers = (0..3).map(|worker| crew.worker(worker)).collect();
        assert_eq!(crew.agree(&[]).losses, [""; 0]);
    }
}

/// Nobody knows that it is away until it does not answer the controller.
#[test]
fn a_worker_that_stops_responding_is_left_behind() {
    if !namespaces() {
        return;
    }
    let crew = Crew::new("atp", 3, 1);
    until(&crew.workers[0], "round 20 of");
    signal(crew.workers[2].id().cast_signed(), Signal::SIGSTOP);
    let losses = crew.agree(&[2]).losses;
    assert_eq!(parsed(&losses[0]).0, [2]);
    signal(crew.workers[2].id().cast_signed(), Signal::SIGCONT);
    let (success, errors) = ended(&crew.workers[2]);
    assert!(!success && errors.contains("job long goes on without worker 2"), "{errors}");
}

/// A relay between a worker and the controller, until it is cut.
struct Relay {
    ends: Arc<Mutex<Vec<UnixStream>>>,
    open: Arc<AtomicBool>,
    address: String,
}

impl Relay {
    fn new(crew: &Net) -> Self {
        let path = crew.file.path("relay.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let far = crew.file.path("runs.sock");
        let (ends, open): (Arc<Mutex<Vec<UnixStream>>>, _) =
            (Arc::default(), Arc::new(AtomicBool::new(true)));
        let own = Self {
            ends: Arc::clone(&ends),
            open: Arc::clone(&open),
            address: format!("unix:{}", path.display()),
        };
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let mut ends = ends.lock().unwrap();
                if !open.load(Ordering::Relaxed) {
                    continue;
                }
                let Ok(far) = UnixStream::connect(&far) else { continue };
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    std::thread::spawn(move || std::io::copy(&mut from, &mut to));
                }
                ends.extend([near, far]);
            }
        });
        own
    }

    fn cut(&self) {
        self.open.store(false, Ordering::Relaxed);
        for end in self.ends.lock().unwrap().drain(..) {
            drop(end.shutdown(Shutdown::Both));
        }
    }
}

/// The job of these tests, with a short wait for decisions.
fn crew_with_relay() -> (Crew, Relay) {
    let file = job("atp", 3, Some(2)).replace("\"10s\"", "\"1s\"");
    let net = Net::with(&file, &["w1", "w2", "w3", "ps"]);
    let controller = start_controller(&net);
    let servers = vec![net.server()];
    let relay = Relay::new(&net);
    let mut workers: Vec<Process> = (0..2).map(|worker| net.worker(worker)).collect();
    let more = ["--interface", "eth0", "--controller", &relay.address];
    workers.push(net.start("w3", &[&["worker", "--job", "1"], &more[..]].concat()));
    (Crew { net, controller, _servers: servers, workers }, relay)
}

/// Nobody has died, and all have all sums.
#[test]
fn complete_sums_are_a_success_whoever_is_away() {
    if !namespaces() {
        return;
    }
    let ways: [fn(&Crew, &Relay); 3] = [
        |crew, _| {
            crew.controller.kill().unwrap();
        },
        |crew, _| signal(crew.controller.id().cast_signed(), Signal::SIGSTOP),
        |_, relay| relay.cut(),
    ];
    // Their workers wait at the same time.
    let crews = ways.map(|takes_away| {
        let (crew, relay) = crew_with_relay();
        until(&crew.workers[0], &format!("round {} of", ROUNDS - 3));
        takes_away(&crew, &relay);
        crew
    });
    for crew in crews {
        assert_eq!(crew.agree(&[]).losses, [""; 0]);
        drop(crew.controller.kill());
    }
}

#[test]
fn a_controller_without_a_journal_cannot_know_with_whom_a_job_goes_on() {
    let file = JobFile::new(&job("atp", 2, Some(1)));
    let listen = format!("unix:{}", file.path("runs.sock").display());
    let name = file.name();
    let args = ["controller", &name, "--switch", "s1=127.0.0.1:1", "--listen", &listen];
    let line = failure(&args, &tributary(&args).output().unwrap());
    assert!(line.contains("job long goes on when a worker dies (on_death)"), "{line}");
    assert!(line.contains("--journal FILE"), "{line}");
}

/// With racks, and with P4INC over two switches.
#[test]
fn a_run_goes_on_and_its_report_says_so() {
    if !namespaces() {
        return;
    }
    let racks = |protocol: &str| {
        job(protocol, 4, Some(1)).replace("kind = \"star\"\nworkers = 4\n", "racks = 2\n")
    };
    let mut files: Vec<(String, String)> =
        PROTOCOLS.iter().map(|name| (format!("{name}, star"), job(name, 4, Some(1)))).collect();
    files.extend(["atp", "esa", "p4inc"].map(|name| (format!("{name}, racks"), racks(name))));
    let mut random = ChaCha8Rng::seed_from_u64(seeds().start);
    for (what, file) in files {
        let victim = random.random_range(0..4);
        println!("{what}: worker {victim}");
        let file = JobFile::new(&file);
        let (name, json) = (file.name(), file.path("report.json").display().to_string());
        let args = ["run", &name, "--fabric", "netns", "--json-out", &json];
        let (run, worker, _) = super::under_way(&args, &format!("--worker {victim}"));
        std::thread::sleep(Duration::from_millis(random.random_range(0..600)));
        signal(worker, Signal::SIGKILL);
        let output = run.wait_with_output().unwrap();
        let (report, errors) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{what}: {errors}");
        assert!(errors.contains(&format!("job long: worker {victim} is lost")), "{what}: {errors}");
        let said = format!("job long went on without worker {victim} from round ");
        assert!(report.contains(&said), "{what}: {report}");
        let json: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
        let job = &json["jobs"][0];
        assert_eq!(job["losses"][0]["without"], serde_json::json!([victim]), "{what}");
        let workers = job["workers"].as_array().unwrap();
        assert_eq!(workers.len(), 3, "{what}");
        for worker in workers {
            assert_eq!(worker["verified"], ROUNDS * ELEMENTS, "{what}");
            assert_eq!(worker["digest"], workers[0]["digest"], "{what}");
        }
    }
}
