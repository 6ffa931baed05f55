//! Processor cores of processes.

use std::fs;
use std::process::Child;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tributary_run::cores::Cores;

use crate::command::{JobFile, fail, namespaces};
use crate::deaths::{children, start};

const DIGITS: &str = "examples/digits.toml";

/// A run that does not outlive its test.
struct Run(Child);

impl Drop for Run {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The cores of a run's processes, each with its command.
fn of_processes(run: u32) -> Vec<(&'static str, Cores)> {
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
        println!("skipped: it takes two cores and network namespaces");
        return;
    }
    let job = JobFile::new(
        "[topology]\nkind = \"star\"\nworkers = 2\n[[job]]\n\
         workload = { kind = \"random\", tensors = 1000, elements = 20000 }\n",
    );
    let mut run = Run(start(&["run", &job.name(), "--fabric", "netns", "--pin"]));
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut found;
    while {
        found = of_processes(run.0.id());
        // A process that has just begun has not chosen its cores yet.
        found.len() < 4 || found.iter().any(|(_, cores)| *cores == available)
    } {
        assert!(run.0.try_wait().unwrap().is_none(), "it ended before it had all processes");
        assert!(Instant::now() < deadline, "{found:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    let of = |name| found.iter().filter(move |(command, _)| *command == name).map(|(_, it)| it);
    let switch = of("switch").next().unwrap();
    assert_eq!(switch.count(), 1, "{found:?}");
    let hosts: Vec<&Cores> = of("worker").chain(of("ps")).collect();
    assert_eq!(hosts.len(), 3, "{found:?}");
    for host in hosts {
        assert_eq!(host.count(), available.count() - 1, "{found:?}");
        assert_eq!(format!("{switch},{host}").parse::<Cores>().unwrap(), available);
    }
    kill(Pid::from_raw(run.0.id().cast_signed()), Signal::SIGINT).unwrap();
    run.0.wait().unwrap();
}

#[test]
fn cores_that_are_not_there_are_refused() {
    let error = fail(&["run", "--cores", "1023", DIGITS]);
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
    let error = fail(&["run", "--cores", one, "--pin", "--fabric", "netns", DIGITS]);
    assert!(error.contains("2 in all, and this process may use 1; leave --pin out"), "{error}");
}
