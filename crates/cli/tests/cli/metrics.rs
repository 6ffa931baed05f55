//! Metrics of real processes: their pages, a real Prometheus that reads them, and the documentation, dashboard and
//! rules that name them.

mod documents;
mod page;
mod prometheus;

use std::path::Path;
use std::time::{Duration, Instant};

use tributary_run::testbed::Process;

use crate::by_hand::{DEADLINE, Net, ended, until};
use crate::command::{JobFile, namespaces, text, tributary};
use documents::Documented;
use page::{Page, over_unix};

/// Two rounds of a job of two workers.
const SMALL: &str = "[topology]\nkind = \"star\"\nworkers = 2\nps_hosts = 1\n[[job]]\nname = \"train\"\n\
                     workload = { kind = \"random\", tensors = 2, elements = 6400 }\n";

/// Values per packet.
const VALUES: u64 = 64;

/// Waits until a page has what is wanted, and returns it.
fn wait(socket: &Path, wanted: impl Fn(&Page) -> bool) -> Page {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let page = over_unix(socket);
        if wanted(&page) {
            return page;
        }
        assert!(Instant::now() < deadline, "{page:#?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// What counts nothing serves nothing.
#[test]
fn commands_without_numbers_refuse_the_option() {
    for args in [
        &["network", "examples/digits.toml"][..],
        &["controller", "push", "examples/digits.toml", "--dry-run"],
        &["completions", "bash"],
    ] {
        let output = tributary(&[args, &["--metrics", "127.0.0.1:0"]].concat()).output().unwrap();
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {errors}");
        assert!(errors.contains("unexpected argument '--metrics'"), "{args:?}: {errors}");
    }
}

#[test]
fn each_process_of_a_site_counts_what_it_does() {
    if !namespaces() {
        return;
    }
    let net = Net::without_switch(SMALL, &["w1", "w2", "ps"]);
    let socket = |name: &str| net.file.path(&format!("{name}.metrics"));
    let address = |name: &str| format!("unix:{}", socket(name).display());
    let _switch =
        net.start_switch_at(&net.socket(), 3, &["--name", "s1", "--metrics", &address("s1")]);

    let at = format!("s1={}", net.socket());
    let (file, runs) = (net.file.name(), net.runs());
    let args =
        ["controller", &file, "--switch", &at, "--listen", &runs, "--metrics", &address("c")];
    let controller = net.start("s1", &args);
    until(&controller, "end with Ctrl-C");
    let endpoint = |host: &str, name: &str, command: &[&str]| {
        let more = ["--interface", "eth0", "--controller", &runs, "--metrics", &address(name)];
        net.start(host, &[command, &more].concat())
    };
    let server = endpoint("ps", "ps", &["ps", "--host", "ps"]);
    until(&server, "serving");

    // A page is readable before there is anything to count.
    let first = endpoint("w1", "w1", &["worker", "--job", "train"]);
    wait(&socket("w1"), |page| page.value("process_open_fds", &[]).is_some());
    let controlled = wait(&socket("c"), |page| {
        page.value("tributary_controller_switch_up", &[("switch", "s1")]) == Some(1.0)
    });
    let second: Process = endpoint("w2", "w2", &["worker", "--job", "train"]);
    for worker in [&first, &second] {
        let (success, errors) = ended(worker);
        assert!(success, "{errors}");
    }
    assert!(!socket("w1").exists(), "a process removes its socket at its end");

    // At its end, each worker sends one more.
    let fragments = (2 * 6400 / VALUES + 1) as f64;
    let job = ("job_id", "1");
    let switched = wait(&socket("s1"), |page| {
        page.sum("tributary_switch_packets_total", &[job, ("outcome", "distributed")]) >= fragments
    });
    let outcome = |name| switched.sum("tributary_switch_packets_total", &[job, ("outcome", name)]);
    // Each fragment is absorbed once and completed once, unless it collided or a packet was lost.
    let whole = outcome("absorbed") + outcome("bypassed") + outcome("collided");
    assert!(whole >= fragments && outcome("completed") > 0.0, "{switched:#?}");
    assert_eq!(switched.value("tributary_switch_aggregators", &[("switch", "s1")]), Some(4096.0));
    // A late resend may have taken one once more.
    assert!(switched.sum("tributary_switch_aggregators_in_use", &[job]) < 10.0, "{switched:#?}");
    assert_eq!(
        switched.value("tributary_switch_p4runtime_streams", &[("switch", "s1")]),
        Some(1.0)
    );
    let memberships = switched.samples("tributary_switch_table_entries").find(|sample| {
        sample.labels.get("table").is_some_and(|table| table.ends_with("memberships"))
    });
    assert!(memberships.unwrap().value > 0.0, "{switched:#?}");
    let bytes = |name| switched.sum(name, &[("switch", "s1")]);
    assert!(bytes("tributary_switch_port_received_bytes_total") > fragments * 2.0 * 256.0);
    assert!(bytes("tributary_switch_port_sent_bytes_total") > fragments * 2.0 * 256.0);

    let served = wait(&socket("ps"), |page| {
        page.sum("tributary_server_fragments_total", &[job]) >= fragments
    });
    assert_eq!(served.sum("tributary_server_fragments_total", &[job]), fragments);
    assert_eq!(served.sum("tributary_server_pending_fragments", &[job]), 0.0);
    for worker in ["0", "1"] {
        let gap =
            served.value("tributary_server_straggler_gap_seconds", &[job, ("worker", worker)]);
        assert_eq!(gap, Some(0.0));
    }
    let name = [job, ("name", "train"), ("protocol", "atp")];
    assert_eq!(served.value("tributary_job_info", &name), Some(1.0));

    // The controller reads the same counters over P4Runtime.
    let read = wait(&socket("c"), |page| {
        page.sum("tributary_controller_packets_total", &[job, ("outcome", "distributed")])
            >= fragments
    });
    for page in [&controlled, &switched, &served, &read] {
        Documented::load().has_all(page);
    }
}

#[test]
fn a_run_has_the_numbers_of_its_workers_while_it_runs() {
    let text = SMALL.replace("tensors = 2", "tensors = 40")
        + "[[job.straggler]]\nworker = \"w2\"\ndelay = \"20ms\"\n";
    let file = JobFile::new(&text);
    let socket = file.path("metrics.sock");
    let address = format!("unix:{}", socket.display());
    let mut run = tributary(&["run", &file.name(), "--metrics", &address]);
    let mut run = run.stdout(std::process::Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + DEADLINE;
    while !socket.exists() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(10));
    }
    let worker = |index| [("job_id", "1"), ("worker", index)];
    let page = wait(&socket, |page| {
        page.sum("tributary_worker_fragments_total", &worker("1")) > 0.0
            && page.sum("tributary_worker_rtt_seconds_count", &worker("0")) > 0.0
    });
    assert!(page.sum("tributary_worker_window_packets", &worker("0")) >= 1.0);
    assert!(page.sum("tributary_worker_position_fragments", &worker("0")) > 0.0);
    Documented::load().has_all(&page);
    // The histogram's last bucket has all times.
    let all = [worker("0").as_slice(), &[("le", "+Inf")]].concat();
    let (count, last) = (
        page.sum("tributary_worker_rtt_seconds_count", &worker("0")),
        page.sum("tributary_worker_rtt_seconds_bucket", &all),
    );
    assert_eq!(count, last);
    assert!(run.wait().unwrap().success());
    assert!(!socket.exists());
}
