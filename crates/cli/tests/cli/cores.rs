//! Processor cores of processes.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use tributary_job::cores::Cores;

use crate::command::{JobFile, fail, namespaces, tributary};
use crate::deaths::children;

const DIGITS: &str = "examples/digits.toml";

/// The cores of a run's processes, by their command.
fn of_processes(run: u32) -> BTreeMap<&'static str, Cores> {
    let described = children(run).into_iter().filter_map(|(pid, line)| {
        let mut names = ["switch", "worker", "ps"].into_iter();
        let command = names.find(|name| line.contains(&format!(" {name} ")))?;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let cores = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        Some((command, cores.trim().parse().unwrap()))
    });
    described.collect()
}

#[test]
fn a_switch_has_a_core_of_its_own_and_hosts_have_the_others() {
    let available = Cores::available().unwrap();
    if available.count() < 2 || !namespaces() {
        println!("skipped: it takes two cores");
        return;
    }
    let job = JobFile::new(
        "[topology]\nkind = \"star\"\nworkers = 2\n[[job]]\n\
         workload = { kind = \"random\", tensors = 1000, elements = 20000 }\n",
    );
    let args = ["run", &job.name(), "--fabric", "netns", "--pin"];
    let mut run = tributary(&args).stdout(std::process::Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    let found = loop {
        let found = of_processes(run.id());
        // A process that has just begun has not chosen its cores yet.
        let chosen = found.values().all(|cores| *cores != available);
        if (found.len() == 3 && chosen) || run.try_wait().unwrap().is_some() {
            break found;
        }
        assert!(Instant::now() < deadline, "{found:?}");
        std::thread::sleep(Duration::from_millis(5));
    };
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(run.id().cast_signed()),
        nix::sys::signal::Signal::SIGINT,
    )
    .unwrap();
    run.wait().unwrap();
    let [switch, worker, ps] = ["switch", "worker", "ps"].map(|name| &found[name]);
    assert_eq!(switch.count(), 1, "{found:?}");
    assert_eq!(worker, ps);
    assert_eq!(worker.count(), available.count() - 1);
    assert_eq!(format!("{switch},{worker}").parse::<Cores>().unwrap(), available);
}

#[test]
fn cores_that_are_not_there_are_refused() {
    let error = fail(&["--cores", "1023", "run", DIGITS]);
    assert!(
        error.starts_with("error: --cores: this process may not use core 1023, only "),
        "{error}"
    );
    let error = fail(&["run", "--pin", DIGITS]);
    assert_eq!(
        error,
        "error: --pin is for our own processes: it needs --fabric netns, and no --target"
    );
    let one = Cores::available().unwrap().to_string();
    let one = one.split([',', '-']).next().unwrap();
    let error = fail(&["--cores", one, "run", "--pin", "--fabric", "netns", DIGITS]);
    assert!(error.contains("2 in all, and this process may use 1; leave --pin out"), "{error}");
}
