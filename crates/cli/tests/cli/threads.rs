//! Jobs with several threads per worker.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;
use tributary_run::testbed::Stream;

use crate::bad_input::npy;
use crate::by_hand::{Net, ended, freed};
use crate::command::{JobFile, fail, namespaces, succeed, text, tributary};

const PROTOCOLS: [&str; 4] = ["atp", "esa", "p4inc", "switchml"];

const FAULTS: &str = "[faults]\nloss = 0.02\nduplicate = 0.02\nreorder = 0.02\n";

fn file(protocol: &str, faults: &str, threads: usize, workload: &str) -> JobFile {
    let head = format!("{faults}[protocol]\nkind = \"{protocol}\"\n");
    JobFile::new(&file_text(&head, threads, workload))
}

fn file_text(head: &str, threads: usize, workload: &str) -> String {
    format!(
        "seed = 3\n{head}[topology]\nkind = \"star\"\nworkers = 3\n[switch]\npool = 1024\n[[job]]\n\
         name = \"a\"\nslots = 32\nthreads = {threads}\nworkload = {{ {workload} }}\n"
    )
}

fn report(file: &JobFile, more: &[&str]) -> Value {
    let (name, json) = (file.name(), file.path("report.json").display().to_string());
    succeed(&[&["run", &*name, "--json-out", &*json], more].concat());
    serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap()
}

/// Requires one report for the job of three workers, in which `values` of each were compared.
fn check(report: &Value, values: u64) {
    let [job] = &report["jobs"].as_array().unwrap()[..] else { panic!("{report}") };
    assert_eq!(job["name"], "a");
    assert_eq!(job["verified"], 3 * values);
    assert_eq!(job["bytes"], 4 * values);
    assert_eq!(job["workers"].as_array().unwrap().len(), 3);
}

#[test]
fn sums_are_exact_with_every_protocol_over_links_with_faults() {
    for protocol in PROTOCOLS {
        for threads in [2, 3] {
            for faults in ["", FAULTS] {
                let file = file(protocol, faults, threads, "kind = \"random\", elements = 20_001");
                let report = report(&file, &[]);
                check(&report, 4 * 20_001);
                let job = &report["jobs"][0];
                // A tensor has as many fragments as with one thread.
                assert_eq!(job["fragments"], 4 * 313);
                assert_eq!(job["workers"][2]["results"], 4 * 313);
                if job["segment"].is_object() {
                    assert_eq!(job["segment"]["segments"], threads);
                }
                assert_eq!(job["server"].is_object(), matches!(protocol, "atp" | "esa"));
            }
        }
    }
}

#[test]
fn tensors_may_have_fewer_fragments_than_a_worker_has_threads() {
    for elements in [1, 64, 65, 129] {
        for protocol in PROTOCOLS {
            let workload = format!("kind = \"random\", elements = {elements}");
            check(&report(&file(protocol, "", 4, &workload), &[]), 4 * elements);
        }
    }
}

/// Several tensors in each step, whose sums decide the next one.
#[test]
fn training_is_the_same_with_any_number_of_threads() {
    for protocol in PROTOCOLS {
        let results = [1, 2, 3].map(|threads| {
            let workload = "kind = \"digits\", epochs = 2, batch = 96";
            let report = report(&file(protocol, "", threads, workload), &[]);
            assert_eq!(report["jobs"][0]["matches_reference"], true);
            report["jobs"][0]["training"].clone()
        });
        assert!(results[0]["weights"].is_string(), "{}", results[0]);
        assert_eq!(results[0], results[1]);
        assert_eq!(results[0], results[2]);
    }
}

#[test]
fn integers_are_summed_as_with_one_thread() {
    let values = |worker: i32| -> Vec<[u8; 4]> {
        (0..5_000_i32).map(|at| ((at - 2_500) * 77_777 * (worker + 1) / 3).to_le_bytes()).collect()
    };
    let sums = [1, 2, 3].map(|threads| {
        let inputs = "inputs = [\"0.npy\", \"1.npy\", \"2.npy\"], output_dir = \"out\"";
        let file = file("atp", "", threads, &format!("kind = \"files\", {inputs}"));
        for worker in 0..3 {
            let npy = npy("<i4", "(5000,)", &values(worker));
            fs::write(file.path(&format!("{worker}.npy")), npy).unwrap();
        }
        check(&report(&file, &[]), 5_000);
        fs::read(file.path("out/sum.npy")).unwrap()
    });
    assert_eq!(sums[0], sums[1]);
    assert_eq!(sums[0], sums[2]);
}

#[test]
fn a_value_that_one_thread_cannot_sum_ends_the_run_in_one_line() {
    let inputs = "inputs = [\"0.npy\", \"1.npy\", \"2.npy\"], output_dir = \"out\"";
    for protocol in ["p4inc", "switchml"] {
        let scale = format!("{FAULTS}[protocol]\nkind = \"{protocol}\"\nscale = 1e10\n");
        let text = file_text(&scale, 3, &format!("kind = \"files\", {inputs}"));
        let file = JobFile::new(&text);
        for worker in 0..3 {
            let mut values = [1.0_f32; 1_000];
            if worker == 1 {
                values[900] = f32::MAX;
            }
            let npy = npy("<f4", "(1000,)", &values.map(f32::to_le_bytes));
            fs::write(file.path(&format!("{worker}.npy")), npy).unwrap();
        }
        let begin = Instant::now();
        let line = fail(&["run", &file.name()]);
        assert!(begin.elapsed() < Duration::from_secs(8), "before any worker takes it for silent");
        assert_eq!(
            line,
            format!(
                "error: job a: worker 1 failed: tensor 0: value 900 is {}, which even the coarsest scale \
                 cannot sum",
                f32::MAX
            )
        );
    }
}

#[test]
fn each_thread_has_a_socket_in_namespaces() {
    if !namespaces() {
        return;
    }
    for io in ["packet", "gso", "udp", "udp-gso"] {
        for protocol in PROTOCOLS {
            let file = file(protocol, FAULTS, 2, "kind = \"random\", elements = 10_000");
            check(&report(&file, &["--fabric", "netns", "--io", io]), 4 * 10_000);
        }
    }
    let file = file("atp", "", 2, "kind = \"random\"");
    let line = fail(&["run", &file.name(), "--fabric", "netns", "--io", "xdp"]);
    assert!(line.starts_with("error: --io xdp: ") && line.contains("`threads`"), "{line}");
}

/// As many threads of the server as a job has; the other job's part is served by the first.
#[test]
fn a_server_sums_with_several_threads() {
    let job = "[[job]]\nworkers = 2\nps = \"ps\"\naggregation = \"server\"\n";
    let file = JobFile::new(&format!(
        "protocol = \"p4inc\"\n[topology]\nkind = \"star\"\nworkers = 4\nps_hosts = 1\n{FAULTS}{job}\
         threads = 3\n{job}"
    ));
    let namespaces = namespaces();
    for io in ["memory", "packet", "udp"] {
        let more = ["--fabric", "netns", "--io", io];
        let report = match io {
            "memory" => report(&file, &[]),
            _ if namespaces => report(&file, &more),
            _ => return,
        };
        // Each thread of a process asks once more at its end, as its server may be another by then.
        let last = if io == "memory" { [0, 0] } else { [3, 1] };
        for (job, last) in last.into_iter().enumerate() {
            let job = &report["jobs"][job];
            assert_eq!(job["verified"], 2 * 1_000_000);
            assert_eq!(job["server"]["completed"], 4 * 3907 + last);
        }
    }
}

#[test]
fn daemons_join_a_run_with_all_threads() {
    if !namespaces() {
        return;
    }
    for protocol in ["atp", "esa"] {
        let net = Net::new(&format!(
            "protocol = \"{protocol}\"\n[topology]\nkind = \"star\"\nworkers = 2\n[[job]]\n\
             threads = 3\nworkload = {{ kind = \"random\", elements = 20_000 }}\n"
        ));
        let controller = net.controller();
        let said = controller.output(Stream::Out);
        for lane in ["job job1 (1)", "job job1/1 (2)", "job job1/2 (3)"] {
            assert!(said.contains(&format!("{lane} admitted")), "{said}");
        }
        let server = net.server();
        let workers = [0, 1].map(|index| net.worker(index));
        for worker in &workers {
            let (success, errors) = ended(worker);
            assert!(success, "{errors}");
            let output = worker.output(Stream::Out);
            assert!(output.contains("80000 values summed, 80000 of them compared"), "{output}");
        }
        server.ask_to_end();
        assert!(ended(&server).0);
        freed(&controller);
    }
}

#[test]
fn threads_are_refused_or_ignored_where_they_cannot_be() {
    let file = file("atp", "", 2, "kind = \"random\", elements = 1_000");
    let name = file.name();
    let controller = ["controller", &*name, "--switch", "s1=127.0.0.1:1"];
    let line = fail(&[&controller[..], &["--on-demand", "--listen", "127.0.0.1:0"]].concat());
    assert!(line.contains("--on-demand: ") && line.contains("`threads` out of job a"), "{line}");
    let output = tributary(&["run", &name, "--fabric", "sim"]).output().unwrap();
    let errors = text(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(errors.contains("warning: `threads` of jobs is ignored"), "{errors}");
    assert!(text(&output.stdout).contains("12 000 results compared"), "4 tensors at 3 workers");
}
