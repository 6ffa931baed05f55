//! Parameter servers of ATP and P4INC that are killed in the middle of a job and restarted.

use std::time::Duration;

use nix::sys::signal::Signal;
use tributary_run::testbed::{Process, Stream};

use crate::by_hand::{Net, ended, freed, until};
use crate::command::namespaces;
use crate::deaths::signal;

/// Number of deaths of a parameter server per job.
const DEATHS: usize = 6;

const TENSORS: usize = 120;

/// A job that takes longer than all deaths together.
fn job(protocol: &str, more: &str) -> String {
    format!(
        "protocol = \"{protocol}\"\nworker_timeout = \"10s\"\n[topology]\nkind = \"star\"\n\
         workers = 2\n[switch]\npool = 64\n[faults]\nloss = 0.02\n[[job]]\nname = \"long\"\n{more}\
         workload = {{ kind = \"random\", tensors = {TENSORS}, elements = 4000 }}\n\
         [[job.straggler]]\nworker = 0\ndelay = \"30ms\"\n"
    )
}

fn kill(server: &Process) {
    signal(server.id().cast_signed(), Signal::SIGKILL);
    server.wait(Some(Duration::from_secs(10))).unwrap().expect("it ends");
}

/// Runs the job, and kills and restarts its parameter server at each `next`.
fn run(job: &str, deaths: usize, next: impl Fn(usize, &Process)) {
    if !namespaces() {
        return;
    }
    let net = Net::new(job);
    let controller = net.controller();
    let mut server = net.server();
    let workers = [0, 1].map(|index| net.worker(index));
    until(&workers[0], "round 1 ");
    for death in 0..deaths {
        next(death, &workers[0]);
        kill(&server);
        server = net.server();
    }
    for worker in &workers {
        let (success, errors) = ended(worker);
        assert!(success, "{errors}");
        let output = worker.output(Stream::Out);
        let all = TENSORS * 4000;
        // Each sum is verified.
        assert!(
            output.contains(&format!("{all} values summed, {all} of them compared")),
            "{output}"
        );
    }
    server.ask_to_end();
    assert!(ended(&server).0);
    freed(&controller);
}

#[test]
fn a_server_of_atp_is_killed_and_started_again_while_packets_are_lost() {
    run(&job("atp", ""), DEATHS, |death, _| {
        std::thread::sleep(Duration::from_millis(170 + 60 * death as u64));
    });
}

#[test]
fn a_server_of_p4inc_is_killed_and_started_again_while_packets_are_lost() {
    run(&job("p4inc", "aggregation = \"server\"\n"), DEATHS, |death, _| {
        std::thread::sleep(Duration::from_millis(170 + 60 * death as u64));
    });
}

/// At that time one worker may have the last results and the other not.
#[test]
fn a_job_survives_the_death_of_its_server_at_the_end() {
    let last = format!("round {TENSORS} of");
    run(&job("atp", ""), 1, |_, worker| {
        // It may have ended by then.
        let ended = || worker.wait(Some(Duration::ZERO)).unwrap().is_some();
        while !worker.output(Stream::Out).contains(&last) && !ended() {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}
