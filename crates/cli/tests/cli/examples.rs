//! The examples and their reports.

use serde_json::Value;

use crate::command::{JobFile, fail, namespaces, root, succeed, xdp};

/// Runs a job file and returns its JSON report.
pub(crate) fn report(job: &str, fabric: &str, more: &[&str]) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("report.json").display().to_string();
    let mut args = vec!["run", job, "--fabric", fabric, "--json-out", &json];
    args.extend(more);
    let output = succeed(&args);
    assert!(output.contains("all equal"), "{output}");
    serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap()
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a number"))
}

/// Checks that all values of all workers were verified.
pub(crate) fn assert_verified(report: &Value) {
    for job in report["jobs"].as_array().unwrap() {
        let workers = job["workers"].as_array().unwrap();
        assert_eq!(number(&job["verified"]), workers.len() as u64 * number(&job["bytes"]) / 4);
        assert!(number(&job["verified"]) > 0);
    }
}

#[test]
fn digits_trains_and_matches_the_training_in_one_process() {
    let report = report("examples/digits.toml", "memory", &[]);
    assert_verified(&report);
    let job = &report["jobs"][0];
    assert_eq!(job["matches_reference"], true);
    assert!(job["training"]["loss"].as_f64() < job["training"]["first_loss"].as_f64());
    assert!(job["summed_in_network"].as_f64().unwrap() > 0.5, "{job}");
}

#[test]
fn two_racks_add_at_both_levels() {
    for engine in ["automatic", "interpreter", "compiled"] {
        let report = report("examples/two-racks.toml", "memory", &["--engine", engine]);
        assert_verified(&report);
        for switch in report["switches"].as_array().unwrap() {
            assert!(number(&switch["outcomes"]["completed"]) > 0, "{engine}: {switch}");
        }
    }
}

/// NetPack's selective aggregation.
#[test]
fn only_the_named_switches_add() {
    let text = std::fs::read_to_string(root().join("examples/two-racks.toml")).unwrap();
    let fabrics = if namespaces() { &["memory", "sim", "netns"][..] } else { &["memory", "sim"] };
    for names in [&[][..], &["rack1"], &["rack2"], &["rack1", "rack2"]] {
        let file =
            JobFile::new(&text.replace("[[job]]\n", &format!("[[job]]\nswitches = {names:?}\n")));
        for fabric in fabrics {
            let report = report(&file.name(), fabric, &[]);
            assert_verified(&report);
            for switch in report["switches"].as_array().unwrap() {
                let adds = number(&switch["outcomes"]["completed"]) > 0;
                let named = names.contains(&switch["name"].as_str().unwrap());
                assert_eq!(adds, named, "{fabric}, {names:?}: {switch}");
            }
            let share = report["jobs"][0]["summed_in_network"].as_f64().unwrap();
            // Of three additions, each rack makes one, and the upper switch another if both add.
            let expected = [0.0, 1.0, 3.0][names.len()] / 3.0;
            let error = share - expected;
            // On the other fabrics, a busy machine makes packets late, whose sums are the server's.
            let less = *fabric != "sim" && share > 0.3 * expected;
            let fits = error.abs() < 0.05 || less && error < 0.0;
            assert!(fits, "{fabric}, {names:?}: {share}");
        }
    }
    let file = JobFile::new(&text.replace("[[job]]\n", "[[job]]\nswitches = [\"rack3\"]\n"));
    let line = fail(&["run", &file.name()]);
    assert!(line.contains("there is no switch `rack3`; did you mean `rack1`?"), "{line}");
}

#[test]
fn units_get_light_and_rates_from_the_control_loop() {
    let refused = fail(&["run", "examples/units.toml"]);
    assert!(refused.contains("add --fabric sim, or --fabric netns"), "{refused}");
    let fabrics = if namespaces() { &["sim", "netns"][..] } else { &["sim"] };
    for fabric in fabrics {
        let report = report("examples/units.toml", fabric, &[]);
        assert_verified(&report);
        let jobs = report["jobs"].as_array().unwrap();
        let summed = |job: usize| jobs[job]["summed_in_network"].as_f64().unwrap();
        // A job over two units is summed at its server, which only light reaches.
        assert_eq!((summed(0), summed(1), summed(2)), (1.0, 0.0, 1.0), "{fabric}: {report}");
    }
}

#[test]
fn two_hundred_and_fifty_six_workers_meet_in_sixteen_racks() {
    let report = report("examples/large.toml", "sim", &[]);
    assert_verified(&report);
    let job = &report["jobs"][0];
    assert_eq!(job["workers"].as_array().unwrap().len(), 256);
    assert!(job["summed_in_network"].as_f64().unwrap() > 0.9, "{job}");
}

#[test]
fn two_jobs_collide_and_neither_starves() {
    let report = report("examples/two-jobs.toml", "memory", &[]);
    assert_verified(&report);
    assert!(number(&report["switches"][0]["outcomes"]["collided"]) > 0);
    for job in report["jobs"].as_array().unwrap() {
        assert!(job["summed_in_network"].as_f64().unwrap() > 0.0, "{job}");
        let stayed = ["absorbed", "seized", "added", "duplicate"]
            .map(|outcome| number(&job["outcomes"][outcome]))
            .iter()
            .sum::<u64>();
        assert_eq!(number(&job["kept_bytes"]), stayed * FRAME, "{job}");
    }
}

/// Ethernet, IPv4, UDP, the aggregation header, 64 values.
const FRAME: u64 = 14 + 20 + 8 + 28 + 256;

#[test]
fn esa_preempts_where_workers_are_late() {
    let report = report("examples/esa-two-jobs.toml", "memory", &[]);
    assert_verified(&report);
    let jobs = report["jobs"].as_array().unwrap();
    let sum = |key: &str| jobs.iter().map(|job| number(&job["esa"][key])).sum::<u64>();
    assert!(sum("preemptions") > 0 && sum("downgradings") > 0, "{report}");
    assert_eq!(sum("preemptions"), sum("evictions"), "who takes, takes from somebody");
    let mut kept = 0;
    for job in jobs {
        let of = |outcome: &str| number(&job["outcomes"][outcome]);
        let esa = &job["esa"];
        assert_eq!(of("preempted"), number(&esa["preemptions"]), "{job}");
        let stayed = of("absorbed") + of("added") + of("duplicate") + of("preempted");
        let left = number(&esa["evictions"]) + of("reminded");
        assert_eq!(number(&job["kept_bytes"]), (stayed - left) * FRAME, "{job}");
        kept += stayed - left;
        let results = number(&esa["results_of_switches"]) + number(&esa["results_of_server"]);
        assert_eq!(results, number(&job["fragments"]), "{job}");
        assert!(number(&esa["results_of_switches"]) > 0, "{job}");
    }
    // What the example says of the quick job.
    let quick = &jobs[1];
    let of_switches = number(&quick["esa"]["results_of_switches"]);
    assert!(of_switches * 10 > number(&quick["fragments"]) * 9, "{quick}");
    // Bytes that entered the switch and did not leave it, by its counters.
    let of = |outcome: &str| number(&report["switches"][0]["outcomes"][outcome]);
    assert_eq!(kept, of("absorbed") + of("added") + of("duplicate") - of("reminded"));
}

#[test]
fn esa_sums_at_both_levels_and_publishes_at_the_top() {
    let report = report("examples/esa-two-racks.toml", "memory", &[]);
    assert_verified(&report);
    for switch in report["switches"].as_array().unwrap() {
        assert!(number(&switch["outcomes"]["completed"]) > 0, "{switch}");
    }
    assert!(number(&report["jobs"][0]["esa"]["results_of_switches"]) > 0);
}

#[test]
fn esa_repairs_losses_in_packets_and_over_tcp() {
    let packets = report("examples/esa-lossy.toml", "memory", &[]);
    assert_verified(&packets);
    for job in packets["jobs"].as_array().unwrap() {
        assert!(resends(job) > 0 && number(&job["esa"]["reminders"]) > 0, "{job}");
    }
    // By the papers' rules TCP delivers everything.
    let text = std::fs::read_to_string(root().join("examples/esa-lossy.toml")).unwrap();
    let papers = "protocol = { kind = \"esa\", recovery = \"papers\" }";
    let file = JobFile::new(&text.replace("protocol = \"esa\"", papers));
    let papers = report(&file.name(), "memory", &[]);
    assert_verified(&papers);
    for job in papers["jobs"].as_array().unwrap() {
        assert_eq!(resends(job), 0, "{job}");
        for key in ["reminders", "queries", "retransmissions", "delivered"] {
            assert!(number(&job["esa"][key]) > 0, "{key}: {job}");
        }
    }
}

fn resends(job: &Value) -> u64 {
    job["workers"].as_array().unwrap().iter().map(|worker| number(&worker["resent"])).sum()
}

/// A job's segment in the report, which no packet left.
fn segment(job: &Value) -> (u64, u64) {
    let segment = &job["segment"];
    assert_eq!(number(&segment["outside"]), 0, "{job}");
    assert!(number(&segment["memory_bytes"]) > 4 * 64 * number(&segment["aggregators"]), "{job}");
    (number(&segment["offset"]), number(&segment["aggregators"]))
}

#[test]
fn a_local_job_of_p4inc_gets_lost_results_from_the_copy_and_needs_no_server() {
    let report = report("examples/p4inc-local.toml", "memory", &[]);
    assert_verified(&report);
    let job = &report["jobs"][0];
    assert!(job["server"].is_null());
    assert_eq!((&job["segment"]["mode"], segment(job)), (&"local".into(), (0, 64)));
    assert!(number(&job["segment"]["from_the_copy"]) > 0 && resends(job) > 0, "{job}");
    assert_eq!(number(&job["segment"]["turned_back"]), 0, "its window is in its segment");
    assert_eq!(job["summed_in_network"], 1.0);
    // The first packet of each fragment, those between, and the last.
    let of = |outcome: &str| number(&job["outcomes"][outcome]);
    let fragments = number(&job["fragments"]);
    let counts = (of("absorbed"), of("added"), of("completed"));
    assert_eq!(counts, (fragments, 2 * fragments, fragments));
    let stayed = 3 * fragments + of("duplicate") + of("stale");
    assert_eq!(number(&job["kept_bytes"]), stayed * FRAME);
}

#[test]
fn units_sum_their_parts_and_return_early_packets() {
    let report = report("examples/p4inc-two-units.toml", "memory", &[]);
    assert_verified(&report);
    let job = &report["jobs"][0];
    assert_eq!((&job["segment"]["mode"], segment(job)), (&"partial".into(), (0, 16)));
    let turned_back = number(&job["segment"]["turned_back"]);
    assert!(turned_back > 0, "{job}");
    // A worker may have the result before its returned packet arrives.
    let workers = job["workers"].as_array().unwrap();
    let noticed: u64 = workers.iter().map(|worker| number(&worker["asynchronous"])).sum();
    assert!((1..=turned_back).contains(&noticed), "{noticed} of {turned_back}");
    for switch in report["switches"].as_array().unwrap() {
        // Resends may bypass the aggregators.
        let completed = number(&switch["outcomes"]["completed"]);
        assert!(100 * completed >= 99 * number(&job["fragments"]), "{switch}");
    }
    assert_eq!(number(&job["server"]["completed"]), number(&job["fragments"]));
    let share = job["summed_in_network"].as_f64().unwrap();
    assert!((share - 2.0 / 3.0).abs() < 0.01, "each unit adds once, and the server once: {share}");
}

#[test]
fn a_local_job_and_one_over_two_units_share_a_switch() {
    let report = report("examples/p4inc-both.toml", "memory", &[]);
    assert_verified(&report);
    let [local, across] = &report["jobs"].as_array().unwrap()[..] else { panic!("two jobs") };
    assert_eq!((segment(local), segment(across)), ((0, 64), (64, 64)));
    assert!(local["server"].is_null() && !across["server"].is_null());
    let coarser = number(&local["segment"]["coarser"]);
    assert!(coarser > 0 && coarser < number(&local["fragments"]), "{local}");
    assert_eq!(number(&across["segment"]["coarser"]), 0);
}

#[test]
fn jobs_of_switchml_have_a_part_each() {
    let report = report("examples/switchml.toml", "memory", &[]);
    assert_verified(&report);
    let [first, second] = &report["jobs"].as_array().unwrap()[..] else { panic!("two jobs") };
    assert_eq!((segment(first), segment(second)), ((0, 128), (128, 128)));
    for job in [first, second] {
        assert!(job["server"].is_null());
        assert_eq!(job["summed_in_network"], 1.0);
        assert_eq!(number(&job["outcomes"]["completed"]), number(&job["fragments"]));
    }
    // With copies, an aggregator of P4INC takes twice as much.
    let bytes = number(&first["segment"]["memory_bytes"]) / 128;
    assert!((256..300).contains(&bytes), "64 sums and little more: {bytes}");
}

#[test]
fn training_comes_to_the_same_weights_under_every_protocol() {
    let example = std::fs::read_to_string(root().join("examples/digits.toml")).unwrap();
    let weights = ["atp", "esa", "p4inc", "switchml"].map(|protocol| {
        let named = format!("protocol = \"{protocol}\"");
        let text = example.replace("protocol = \"atp\"", &named);
        assert!(text.contains(&named));
        let report = report(&JobFile::new(&text).name(), "memory", &[]);
        assert_verified(&report);
        let job = &report["jobs"][0];
        assert_eq!((&job["protocol"], &job["matches_reference"]), (&protocol.into(), &true.into()));
        job["training"]["weights"].as_str().unwrap().to_owned()
    });
    assert!(weights.iter().all(|own| *own == weights[0]), "{weights:?}");
}

#[test]
fn a_job_of_p4inc_that_its_server_sums_gets_the_same_sums() {
    let text = "protocol = \"p4inc\"\n[topology]\nkind = \"star\"\n[faults]\nloss = 0.01\n[[job]]\n\
                aggregation = \"server\"\nworkload = { kind = \"random\", elements = 20000 }\n";
    let report = report(&JobFile::new(text).name(), "memory", &[]);
    assert_verified(&report);
    let job = &report["jobs"][0];
    assert_eq!(
        (&job["segment"]["mode"], &job["summed_in_network"]),
        (&"server".into(), &0.0.into())
    );
    assert_eq!(number(&job["segment"]["memory_bytes"]), 0);
    assert_eq!(number(&job["outcomes"]["absorbed"]), 0, "{job}");
}

#[test]
fn segments_that_do_not_fit_are_refused_before_anything_starts() {
    let text = "protocol = \"p4inc\"\n[topology]\nkind = \"star\"\nworkers = 2\n[switch]\npool = 64\n\
                [[job]]\nsegment = 40\n[[job]]\nname = \"late\"\nsegment = 40\n";
    let line = fail(&["run", &JobFile::new(text).name()]);
    assert!(line.contains("40") && line.contains("24") && line.contains("s1"), "{line}");
}

#[test]
fn lossy_links_lose_no_sum() {
    let report = report("examples/lossy.toml", "memory", &["--seed", "9"]);
    assert_eq!(number(&report["seed"]), 9);
    assert_verified(&report);
    assert!(resends(&report["jobs"][0]) > 0);
}

#[test]
fn sums_of_files_are_written() {
    let file = JobFile::new(
        "[topology]\nkind = \"star\"\nworkers = 2\n[[job]]\n\
         workload = { kind = \"files\", inputs = [\"a.npy\", \"b.npy\"], output_dir = \"out\" }\n",
    );
    for (name, example) in [("a.npy", "worker0.npy"), ("b.npy", "worker1.npy")] {
        std::fs::copy(root().join("examples/tensors").join(example), file.path(name)).unwrap();
    }
    assert_verified(&report(&file.name(), "memory", &[]));
    let sum = std::fs::read(file.path("out/sum.npy")).unwrap();
    let input = std::fs::read(file.path("a.npy")).unwrap();
    assert_eq!(&sum[..6], b"\x93NUMPY");
    assert_ne!(sum[128..], input[128..], "it is the sum, not the input");
}

#[test]
fn the_same_in_namespaces() {
    if namespaces() {
        all_in_namespaces("packet");
    }
}

#[test]
fn the_same_with_super_frames() {
    if namespaces() {
        all_in_namespaces("gso");
    }
}

#[test]
fn the_same_over_udp() {
    if namespaces() {
        all_in_namespaces("udp");
    }
}

#[test]
fn the_same_over_udp_with_super_frames() {
    if namespaces() {
        all_in_namespaces("udp-gso");
    }
}

#[test]
fn the_same_over_af_xdp() {
    if xdp() {
        all_in_namespaces("xdp");
    }
}

fn all_in_namespaces(io: &str) {
    for job in [
        "examples/two-racks.toml",
        "examples/digits.toml",
        "examples/esa-two-jobs.toml",
        "examples/esa-two-racks.toml",
        "examples/esa-lossy.toml",
        "examples/forty-workers.toml",
        "examples/p4inc-local.toml",
        "examples/p4inc-two-units.toml",
        "examples/p4inc-both.toml",
        "examples/switchml.toml",
    ] {
        assert_verified(&report(job, "netns", &["--io", io]));
    }
    let lossy = report("examples/lossy.toml", "netns", &["--io", io]);
    assert_verified(&lossy);
    assert!(number(&lossy["switches"][0]["outcomes"]["flushed"]) > 0, "packets were lost");
}

#[test]
fn p4_programs_are_checked_and_described() {
    let output = succeed(&["p4", "check", "p4src/v1model/atp.p4", "-D", "VALUES=2048"]);
    assert!(output.contains("no errors"), "{output}");
    let output = succeed(&["p4", "info", "p4src/v1model/atp.p4"]);
    assert!(output.contains("AtpIngress.membership.memberships"), "{output}");
}
