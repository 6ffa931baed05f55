//! Site files, and the database.

use std::num::NonZeroU64;
use std::os::unix::fs::PermissionsExt as _;

use tributary_cluster::{Plan, RackIndex, ServerIndex};
use tributary_manager::database::Redb;
use tributary_manager::durable::{Change, Counters, Store};
use tributary_manager::job::{Phase, Record, Request, Run, Task};
use tributary_manager::site::{Site, Summed};
use tributary_wire::channel::{TOKEN_LEN, Token};

const NETWORK: &str = "name = \"other\"\nworker_timeout = \"7s\"\n[topology]\nracks = 2\n\
                       hosts_per_rack = 2\nps_hosts = 1\n[switch]\npool = 128\n\
                       [[job]]\nname = \"not-looked-at\"\nworkers = 2\n";

/// Two servers per rack; those of the second rack come first in the file.
const SITE: &str = "network = \"n.toml\"\nlink_gbps = 10\nuplink_gbps = 15\npat_gbps = 20\n\
                    [[server]]\nhost = \"w3\"\ngpus = 2\n[[server]]\nhost = \"w4\"\ngpus = 2\n\
                    [[server]]\nhost = \"w1\"\ngpus = 4\nlink_gbps = 5\n\
                    [[server]]\nhost = \"w2\"\ngpus = 0\n";

fn site() -> Site {
    Site::parse(SITE, NETWORK).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(site: &str, network: &str) -> String {
    let line = Site::parse(site, network).expect_err("it is faulty").to_string();
    assert!(!line.contains('\n'), "{line}");
    line
}

fn request() -> Request {
    Request {
        key: "k".into(),
        name: "job-1".into(),
        model: "vgg16".into(),
        gpus: 3,
        value: 2.5,
        iterations: 7,
        compute_us: 1_500,
        gradient_bytes: 4_000,
        retries: 1,
        command: Vec::new(),
        directory: String::new(),
        tenant: None,
        max_rate: NonZeroU64::new(5_000_000),
    }
}

fn task(worker: u8, server: &str, gpus: u32) -> Task {
    Task { worker, server: server.into(), incarnation: u64::MAX, gpus, exit: None }
}

fn record(wire: Option<u16>, tasks: Vec<Task>) -> Record {
    let run = Run {
        attempt: 2,
        since_ms: 5,
        wire,
        epoch: wire.map(u32::from),
        adding: None,
        ps: wire.map(|_| "w1".into()),
        key: Token([9; TOKEN_LEN]),
        tasks,
    };
    Record {
        id: 9,
        request: request(),
        submitted_ms: 4,
        attempts: 2,
        failures: 1,
        setback: Some("w1 was away".into()),
        phase: Phase::Running(run),
        servers: Vec::new(),
        history: Vec::new(),
    }
}

#[test]
fn servers_stand_in_the_racks_of_their_switches() {
    let site = site();
    let names: Vec<&str> = site.servers().map(|server| server.name.as_str()).collect();
    assert_eq!(names, ["w1", "w2", "w3", "w4"]);
    assert_eq!(site.gpus(), 8);
    let all = site.part(|_| true);
    let racks: Vec<u32> = all.cluster.servers().iter().map(|server| server.rack.0).collect();
    assert_eq!(racks, [0, 0, 1, 1]);
    assert_eq!(all.cluster.server(ServerIndex(0)).link_gbps, 5.0);
    assert_eq!(all.cluster.server(ServerIndex(1)).link_gbps, 10.0);
    let rack = &all.cluster.racks()[1];
    assert_eq!((rack.uplink_gbps, rack.pat_gbps), (15.0, 20.0));
    // A rack keeps its place when its servers are absent.
    let some = site.part(|name| name == "w4");
    assert_eq!((some.cluster.gpus(), some.cluster.server(ServerIndex(0)).rack.0), (2, 1));
    assert_eq!((some.index("w4"), some.index("w3")), (Some(ServerIndex(0)), None));
}

#[test]
fn a_plan_may_leave_switches_out() {
    let site = site();
    let all = site.part(|_| true);
    // Servers 0 and 1 are below the first switch, 2 and 3 below the second.
    let shares =
        [(ServerIndex(0), 2), (ServerIndex(1), 2), (ServerIndex(2), 2), (ServerIndex(3), 2)];
    let whole = Plan::spread(&all.cluster, &shares, ServerIndex(0));
    assert_eq!((whole.aggregating.len(), site.summed(&all, &whole).adding), (2, None));
    for (racks, names) in [(&[][..], &[][..]), (&[1], &["rack2"]), (&[0], &["rack1"])] {
        let aggregating: Vec<RackIndex> = racks.iter().map(|&rack| RackIndex(rack)).collect();
        let some = Plan { aggregating, ..whole.clone() };
        let Summed { ps, adding } = site.summed(&all, &some);
        let adding = adding.unwrap();
        assert_eq!(ps.as_deref(), Some("w1"));
        assert_eq!(adding, names);
        let mut again = whole.clone();
        site.leave_out(&mut again, Some(&adding));
        assert_eq!(again, some);
    }
    let alone = Plan::on_one(ServerIndex(0), 2);
    assert_eq!(site.summed(&all, &alone), Summed::default());
}

#[test]
fn only_atp_shares_a_server_between_a_worker_and_the_parameter_server() {
    let summed = |protocol: &str, ps: u32| {
        let site = Site::parse(SITE, &format!("protocol = \"{protocol}\"\n{NETWORK}")).unwrap();
        let all = site.part(|_| true);
        let shares = [(ServerIndex(0), 2), (ServerIndex(1), 2)];
        site.summed(&all, &Plan::spread(&all.cluster, &shares, ServerIndex(ps))).ps
    };
    for (protocol, shared) in [("atp", Some("w1")), ("esa", None), ("p4inc", None)] {
        assert_eq!(summed(protocol, 0).as_deref(), shared, "{protocol}");
        assert_eq!(summed(protocol, 2).as_deref(), Some("w3"), "{protocol}");
    }
}

#[test]
fn the_peak_of_a_switch_follows_from_its_pool() {
    let pat = |network: &str, site: &str| -> Vec<f64> {
        let site = Site::parse(site, network).unwrap_or_else(|error| panic!("{error}"));
        site.part(|_| true).cluster.racks().iter().map(|rack| rack.pat_gbps).collect()
    };
    let site = SITE.replace("pat_gbps = 20\n", "");
    let network = |switch: &str| {
        let protocol = "protocol = { kind = \"atp\", values_per_packet = 32 }";
        format!("{protocol}\n{}", NETWORK.replace("pool = 128", switch))
    };
    // In the time in which a link of 10 Gb/s sends 100 packets of 56 + 128 bytes, 200 aggregators sum 128
    // bytes each.
    let switch = "pool = 200\necn_threshold = 100";
    let usual = 200.0 * 128.0 / (100.0 * 184.0) * 10.0;
    for found in pat(&network(switch), &site) {
        assert!((found / usual - 1.0).abs() < 1e-9, "{found} is not {usual}");
    }
    let twice = pat(&network(&switch.replace("200", "400")), &site);
    assert!((twice[0] / usual - 2.0).abs() < 1e-9, "{twice:?}");
    assert_eq!(pat(&network(switch), SITE), [20.0; 2], "the file's own");
    // 200 aggregators of 128 bytes in each 20 µs.
    let timed = format!("round_trip = \"20us\"\n{site}");
    for found in pat(&network(switch), &timed) {
        assert!((found - 10.24).abs() < 1e-9, "{found} is not 10.24");
    }
    let lines = |text: &str| -> Vec<String> {
        Site::parse(text, &network(switch)).unwrap().peaks().collect()
    };
    assert_eq!(
        lines(&timed)[0],
        "switch rack1 aggregates at most 10.2 Gb/s: 200 aggregators of 128 bytes in each round trip of 20.0 µs \
         (round_trip of the site file)"
    );
    assert_eq!(
        lines(&site)[1],
        "switch rack2 aggregates at most 13.9 Gb/s: 200 aggregators of 128 bytes in each round trip of 14.7 µs \
         (propagation of 0.0 µs and a queue of 100 packets at 10 Gb/s)"
    );
    assert!(lines(SITE)[0].ends_with("at most 20.0 Gb/s: pat_gbps of the site file"));
    let line = refused(&site.replace("link_gbps = 10\n", "round_trip = \"0us\"\n"), NETWORK);
    assert!(line.starts_with("site.toml:2:14: `round_trip` is 0ns, out of range"), "{line}");
}

#[test]
fn faults_are_named_with_their_place() {
    let line = refused(&SITE.replace("w4", "w5"), NETWORK);
    assert!(line.starts_with("site.toml:9:8: the network file has no host `w5`"), "{line}");
    let line = refused(&SITE.replace("w3", "w5"), NETWORK);
    assert!(line.starts_with("site.toml:6:8: the network file has no host `w5`"), "{line}");
    let line = refused(&SITE.replace("w4", "w3"), NETWORK);
    assert!(line.contains("host `w3` is given twice"), "{line}");
    let line = refused("network = \"n.toml\"\n", NETWORK);
    assert!(line.contains("there is no server; add a [[server]]"), "{line}");
    let line = refused(&SITE.replace("gpus = 4", "gpu = 4"), NETWORK);
    assert!(line.contains("unknown key `gpu`") && line.contains("`gpus`"), "{line}");
    let line = refused(&SITE.replace("= 15", "= -1"), NETWORK);
    assert!(line.starts_with("site.toml:3:15:"), "{line}");
    let line = refused(SITE, &format!("protocol = \"switchml\"\n{NETWORK}"));
    assert!(line.contains("\"switchml\"") && line.contains("at 2 switches"), "{line}");
    let line = refused(SITE, &NETWORK.replace("pool = 128", "pool = 0"));
    assert!(line.contains("n.toml"), "{line}");
    let line = refused(SITE, "[topology\n");
    assert!(line.starts_with("n.toml:1:"), "{line}");
}

/// An error message, and the change of a valid request that causes it.
type Spoilt = (&'static str, fn(&mut Request));

#[test]
fn invalid_requests_are_rejected() {
    let site = site();
    assert_eq!(site.check(&request()), Ok(()));
    let spoilt: [Spoilt; 9] = [
        ("is not a name", |request| request.name = "a job".into()),
        ("0 GPUs", |request| request.gpus = 0),
        ("choose 1 to 8", |request| request.gpus = 9),
        ("value", |request| request.value = f64::NAN),
        ("value", |request| request.value = 0.0),
        ("0 iterations", |request| request.iterations = 0),
        ("µs", |request| request.compute_us = 60_000_001),
        ("a multiple of 4", |request| request.gradient_bytes = 10),
        ("more than a job may send", |request| {
            request.iterations = 1_000_000;
            request.gradient_bytes = 4 << 20;
        }),
    ];
    for (complaint, spoil) in spoilt {
        let mut request = request();
        spoil(&mut request);
        let refused = site.check(&request).expect_err(complaint);
        assert!(refused.contains(complaint), "{refused}");
    }
}

#[test]
fn the_database_gives_back_what_was_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("m.redb");
    let mut store = Redb::open(&path).unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it has the keys of jobs");
    assert_eq!(store.load().unwrap(), Default::default());
    let mut expected = store.load().unwrap();
    let counters = Counters { job: 12, wire: 65_535 };
    let steps = [
        vec![Change::Counters(counters), Change::Job(Box::new(record(Some(1), Vec::new())))],
        vec![Change::Job(Box::new(record(None, vec![task(0, "w4", 2)])))],
        vec![Change::Job(Box::new(Record { id: 3, ..record(None, Vec::new()) }))],
        vec![Change::Forget(9)],
    ];
    for (at, changes) in steps.iter().enumerate() {
        store.commit(changes).unwrap();
        changes.iter().for_each(|change| expected.apply(change));
        assert_eq!(store.load().unwrap(), expected);
        // The file as kill -9 would leave it, without an orderly shutdown.
        let copy = directory.path().join(format!("copy{at}"));
        std::fs::copy(&path, &copy).unwrap();
        assert_eq!(Redb::open(&copy).unwrap().load().unwrap(), expected, "after {at}");
    }
    let line = Redb::open(&path).expect_err("it is open").to_string();
    assert!(line.contains("another manager has it open"), "{line}");
    drop(store);
    assert_eq!(Redb::open(&path).unwrap().load().unwrap(), expected);
}

#[test]
fn other_files_are_not_opened_as_databases() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("m.redb");
    std::fs::write(&path, "hello").unwrap();
    let line = Redb::open(&path).expect_err("it is none").to_string();
    assert!(line.starts_with("database ") && line.contains("m.redb"), "{line}");
    assert!(!line.contains('\n'), "{line}");
}

#[test]
fn a_damaged_database_is_rejected_or_intact() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("m.redb");
    let mut store = Redb::open(&path).unwrap();
    store.commit(&[Change::Job(Box::new(record(Some(1), Vec::new())))]).unwrap();
    let expected = store.load().unwrap();
    drop(store);
    let whole = std::fs::read(&path).unwrap();
    let text = serde_json::to_vec(expected.jobs.values().next().unwrap()).unwrap();
    let copies = whole.windows(text.len()).enumerate().filter(|(_, at)| *at == text);
    let places: Vec<usize> = copies.map(|(at, _)| at).collect();
    assert!(!places.is_empty(), "the job is in the file as it is");
    let mut bytes = whole.clone();
    for at in places {
        bytes[at + 5] ^= 1;
    }
    std::fs::write(&path, &bytes).unwrap();
    let line = Redb::open(&path).expect_err("a job's text has changed").to_string();
    assert!(line.contains("damaged"), "{line}");

    // At any other position, too: the file is rejected, or its content is unchanged.
    for at in (0..whole.len()).step_by(whole.len() / 60) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x20;
        std::fs::write(&path, &bytes).unwrap();
        if let Ok(store) = Redb::open(&path) {
            assert_eq!(store.load().unwrap(), expected, "byte {at}");
        }
    }
}
