//! Commands that users submit.

use std::path::PathBuf;

use tributary_api::placement::v1;
use tributary_api::placement::v1::job::State;
use tributary_manager::agent::{Agent, Settings as AgentSettings};

use super::{Place, request};

impl Place {
    /// Submits a script for the shell.
    fn submit_script(&self, name: &str, gpus: u32, script: &str) -> u32 {
        self.submit_again(name, gpus, script, 0)
    }

    /// The same, which is tried again after failures.
    fn submit_again(&self, name: &str, gpus: u32, script: &str, retries: u32) -> u32 {
        let command = ["sh", "-c", script].map(str::to_owned).to_vec();
        let directory = self.directory.path().display().to_string();
        let request = v1::SubmitRequest { command, directory, retries, ..request(name, gpus) };
        self.runtime.block_on(self.client().submit(request)).unwrap().into_inner().job_id
    }

    /// The file with the output of a command.
    fn log(&self, server: &str, name: &str) -> PathBuf {
        self.directory.path().join(server).join(name)
    }

    fn read(&self, server: &str, name: &str) -> String {
        std::fs::read_to_string(self.log(server, name)).unwrap_or_default()
    }

    fn cancel(&self, job_id: u32) {
        let cancel = v1::CancelRequest { job_id };
        self.runtime.block_on(self.client().cancel(cancel)).unwrap();
    }
}

#[test]
fn a_command_runs_once_on_each_server_with_its_gpus() {
    let place = Place::start();
    let _agents = ["w1", "w2"].map(|server| place.agent(server));
    let script = "echo $CUDA_VISIBLE_DEVICES, node $PET_NODE_RANK of $PET_NNODES, $MASTER_ADDR, \
                  $TRIBUTARY_WORKERS, $TRIBUTARY_SERVER, $GLOO_SOCKET_IFNAME, $PWD; test ${#TRIBUTARY_JOB_KEY} = 32";
    let job = place.submit_script("three", 3, script);
    let last = place.watch(job).pop().unwrap();
    assert_eq!(last.state(), State::Finished, "{last:#?}");
    let directory = place.directory.path().display();
    let rest = |rank: u8| format!("node {rank} of 2, 10.0.1.1, w1,w2, w2, none, {directory}\n");
    assert_eq!(place.read("w1", "job-1-1-0.log"), format!("0,1, {}", rest(0)));
    assert_eq!(place.read("w2", "job-1-1-1.log"), format!("0, {}", rest(1)));
    assert!(last.tasks[0].exit.as_ref().unwrap().detail.contains("output in "), "{last:#?}");
}

#[test]
fn commands_on_a_server_have_different_gpus() {
    let place = Place::start();
    let _agent = place.agent("w1");
    let script = "echo $CUDA_VISIBLE_DEVICES; exec sleep 60";
    let jobs = ["a", "b"].map(|name| place.submit_script(name, 1, script));
    let seen = || jobs.map(|job| place.read("w1", &format!("job-{job}-1-0.log")));
    place.until(|_| seen().iter().all(|log| log.ends_with('\n')));
    let mut devices = seen();
    devices.sort();
    assert_eq!(devices, ["0\n", "1\n"]);
    place.cancel(jobs[0]);
    place.watch(jobs[0]);
    let third = place.submit_script("c", 1, script);
    let log = format!("job-{third}-1-0.log");
    place
        .until(|_| place.read("w1", &log) == place.read("w1", &format!("job-{}-1-0.log", jobs[0])));
    for job in [jobs[1], third] {
        place.cancel(job);
        place.watch(job);
    }
}

#[test]
fn a_command_goes_on_from_what_an_earlier_attempt_has_left() {
    let place = Place::start();
    let _agent = place.agent("w1");
    let script =
        "test $TRIBUTARY_ATTEMPT = 2 && exec cat checkpoint; echo step 7 > checkpoint; exit 1";
    let job = place.submit_again("again", 1, script, 1);
    let last = place.watch(job).pop().unwrap();
    assert_eq!((last.state(), last.attempts), (State::Finished, 2), "{last:#?}");
    assert_eq!(place.read("w1", &format!("job-{job}-2-0.log")), "step 7\n");
}

#[test]
fn a_job_that_is_tried_again_keeps_its_number() {
    let place = Place::start();
    let _agents = ["w1", "w2"].map(|server| place.agent(server));
    let job = place.submit_again("wide", 3, "test $TRIBUTARY_ATTEMPT = 3", 2);
    // Another one, whose number must not be taken for that.
    let next = place.submit_script("next", 4, "true");
    assert_eq!(place.watch(job).pop().unwrap().attempts, 3);
    assert_eq!(place.watch(next).pop().unwrap().state(), State::Finished);
    let mut numbers: Vec<u32> = place.switches.seen().0.iter().map(|(id, ..)| *id).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [job, job, job, next]);
}

#[test]
fn nothing_that_a_command_started_outlives_it() {
    let place = Place::start();
    let _agent = place.agent("w1");
    // As torchrun starts its workers: in sessions of their own.
    let script = "setsid --fork sh -c 'echo $$; exec sleep 60'; exec sleep 60";
    let job = place.submit_script("sessions", 1, script);
    let pid = || place.read("w1", "job-1-1-0.log").trim().to_owned();
    place.until(|_| !pid().is_empty());
    let process = PathBuf::from(format!("/proc/{}/exe", pid()));
    assert!(process.exists());
    place.cancel(job);
    assert_eq!(place.watch(job).last().unwrap().state(), State::Cancelled);
    assert!(!process.exists(), "it is in another process group");
}

#[test]
fn a_command_that_fails_is_reported_with_its_file() {
    let place = Place::start();
    let _agent = place.agent("w1");
    let job = place.submit_script("bad", 1, "echo lost >&2; exit 3");
    let last = place.watch(job).pop().unwrap();
    assert_eq!(last.state(), State::Failed);
    assert!(last.reason.contains("exit status: 3; output in "), "{}", last.reason);
    assert_eq!(place.read("w1", "job-1-1-0.log"), "lost\n");
}

#[test]
fn an_agent_runs_commands_only_if_it_may() {
    let place = Place::start();
    let settings = AgentSettings { commands: false, ..place.settings("w1") };
    let mut agent = Agent::new(settings).unwrap();
    place.runtime.spawn(async move { agent.run(&Default::default(), |_| {}).await });
    let job = place.submit_script("no", 1, "true");
    let last = place.watch(job).pop().unwrap();
    assert_eq!(last.state(), State::Failed);
    assert!(last.reason.contains("runs no commands; start it with --commands"), "{}", last.reason);
    assert!(!place.log("w1", "job-1-1-0.log").exists());
}

#[test]
fn a_missing_working_directory_is_not_a_missing_program() {
    let place = Place::start();
    let _agent = place.agent("w1");
    let file = place.directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let missing = place.directory.path().join("missing");
    for (directory, problem) in
        [(missing, "missing: No such file or directory"), (file, "file is not a directory")]
    {
        let directory = directory.display().to_string();
        let command = vec!["true".to_owned()];
        let request =
            v1::SubmitRequest { command, directory: directory.clone(), ..request(problem, 1) };
        let request = v1::SubmitRequest { name: "here".into(), retries: 0, ..request };
        let job =
            place.runtime.block_on(place.client().submit(request)).unwrap().into_inner().job_id;
        let last = place.watch(job).pop().unwrap();
        assert_eq!(last.state(), State::Failed);
        assert!(
            last.reason.contains("the working directory of the command on w1: "),
            "{}",
            last.reason
        );
        assert!(last.reason.contains(problem), "{}", last.reason);
        assert!(last.reason.contains("name another with --chdir"), "{}", last.reason);
    }
}

#[test]
fn the_manager_passes_on_what_commands_write() {
    let place = Place::start();
    let agents = ["w1", "w2"].map(|server| place.agent(server));
    let read = |job_id, worker, from| {
        let wanted = v1::LogRequest { job_id, worker, from };
        place.runtime.block_on(place.client().log(wanted)).map(tonic::Response::into_inner)
    };
    let refused = |job, worker| read(job, worker, 0).unwrap_err().message().to_owned();
    assert_eq!(refused(7, 0), "there is no job 7, or it was over long ago");
    // Of a database that was lost.
    std::fs::write(place.log("w2", "job-1-2-1.log"), "of another job").unwrap();
    // More than a message takes, after an attempt that fails.
    let script = "if [ $TRIBUTARY_ATTEMPT = 1 ]; then exit $((1 - $PET_NODE_RANK)); fi; \
                  echo worker $PET_NODE_RANK; head -c 100000 /dev/zero";
    let job = place.submit_again("wide", 4, script, 1);
    assert_eq!(place.watch(job).pop().unwrap().state(), State::Finished);
    for worker in 0..2 {
        let mut text = Vec::new();
        let last = loop {
            let part = read(job, worker, text.len() as u64).unwrap();
            text.extend_from_slice(&part.data);
            if part.data.is_empty() {
                break part;
            }
        };
        assert_eq!((text.len() as u64, last.size, last.attempt), (100_009, 100_009, 2));
        assert_eq!(&text[..9], format!("worker {worker}\n").as_bytes());
    }
    assert_eq!(refused(job, 2), format!("job {job} has no worker 2"));
    std::fs::remove_file(place.log("w1", "job-1-2-0.log")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", place.log("w1", "job-1-2-0.log")).unwrap();
    assert!(read(job, 0, 0).is_err(), "a link is not followed");
    let sums = place.submit("sums", 1).unwrap();
    place.watch(sums);
    assert!(refused(sums, 0).contains("runs no command"));
    // The second server's agent ends.
    agents[1].0.store(true, std::sync::atomic::Ordering::Relaxed);
    place.until(|listed| !listed.servers[1].present);
    assert_eq!(refused(job, 1), format!("job {job} has this worker on w2, whose agent is away"));
}
