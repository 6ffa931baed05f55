//! The manager's service with real agents and processes. The processes run a script, and the
//! controller of the switches only records its requests.

mod commands;
mod reasons;
mod strangers;
mod switches;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tonic::Code;
use tonic::service::Routes;
use tonic::transport::Channel;
use tributary_access::{Door, Limits, Remote, SILENCE, Server};
use tributary_api::placement::v1;
use tributary_api::placement::v1::job::State;
use tributary_api::placement::v1::placement_manager_client::PlacementManagerClient;
use tributary_api::placement::v1::placement_manager_server::PlacementManagerServer;
use tributary_manager::agent::{Agent, AgentError, Settings as AgentSettings};
use tributary_manager::database::Redb;
use tributary_manager::manager::Settings;
use tributary_manager::service::Service;
use tributary_manager::shell::{Input, Shell, View};
use tributary_manager::site::Site;
use tributary_metrics::Metrics;

use crate::first_fit::FirstFit;
use switches::Switches;

const NETWORK: &str = "[topology]\nkind = \"star\"\nworkers = 2\nps_hosts = 1\n";
const SITE: &str = "network = \"n.toml\"\n[[server]]\nhost = \"w1\"\ngpus = 2\n\
                    [[server]]\nhost = \"w2\"\ngpus = 2\n";
const DEADLINE: Duration = Duration::from_secs(60);

/// Replaces the `tributary` program: workers fail while there is a file `bad`, or run for long while there is a file
/// `long`, and otherwise report sums; a parameter server runs until it is told to end.
const PROGRAM: &str = r#"#!/bin/sh
if [ "$1" = ps ]; then
    trap 'echo "{\"event\":\"done\",\"reports\":[]}"; exit 0' TERM
    echo '{"event":"ready"}'
    while :; do sleep 0.02; done
fi
if [ "$1" = run ]; then
    echo '{"jobs": [{"bytes": 40, "verified": 10}]}' > "$4"
    exit
fi
echo '{"event":"round","done":1,"of":1,"note":null}'
if [ -e "${0%/*}/bad" ]; then
    echo '{"event":"failed","reason":"no luck"}'; echo 'error: no luck' >&2; exit 1
elif [ -e "${0%/*}/long" ]; then
    sleep 60 & wait
fi
sleep 0.1
echo '{"event":"done","values":10,"verified":10}'
"#;

struct Place {
    runtime: Runtime,
    directory: TempDir,
    switches: Switches,
    server: Server,
    inputs: Sender<Input>,
    thread: Option<JoinHandle<()>>,
}

fn remote(address: &str) -> Remote {
    Remote::new(address, None).unwrap().unwrap()
}

/// Runs the servers of a test in the background.
fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

impl Place {
    fn start() -> Self {
        let runtime = runtime();
        let directory = tempfile::tempdir().unwrap();
        let switches = runtime.block_on(Switches::start());
        let (view, seen) = watch::channel(View::default());
        let (wishes, wanted) = tokio::sync::mpsc::unbounded_channel();
        let (inputs, incoming) = channel();
        let store = Redb::open(&directory.path().join("m.redb")).unwrap();
        let thread = std::thread::spawn(move || {
            let site = Site::parse(SITE, NETWORK).unwrap();
            let settings = Settings { period_ms: 50, lease_ms: 20_000, ..Settings::default() };
            let policy = Box::new(FirstFit);
            let mut shell = Shell::start(site, settings, policy, store, view, wishes).unwrap();
            shell.run(&incoming).unwrap();
        });
        let service = PlacementManagerServer::new(Service::new(inputs.clone(), seen));
        let door = Door::unlocked("127.0.0.1:0".parse().unwrap());
        let limits = Limits { connections: 100, calls: 4, silence: SILENCE };
        let starting = Server::start(Routes::new(service), door, limits);
        let server = runtime.block_on(starting).unwrap();
        let controller = remote(&switches.address.to_string());
        let asked = inputs.clone();
        runtime.spawn(tributary_manager::switches::follow(controller, wanted, asked));
        Self { runtime, directory, switches, server, inputs, thread: Some(thread) }
    }

    fn settings(&self, server: &str) -> AgentSettings {
        AgentSettings {
            metrics: Metrics::off(),
            server: server.into(),
            manager: remote(&self.server.address().to_string()),
            controller: self.switches.address.to_string(),
            identity: None,
            program: program(self.directory.path()),
            directory: self.directory.path().join(server),
            interface: "none".into(),
            arguments: Vec::new(),
            commands: true,
        }
    }

    /// Starts an agent. Returns its stop flag and its task.
    fn agent(&self, server: &str) -> (Arc<AtomicBool>, tokio::task::JoinHandle<()>) {
        let mut agent = Agent::new(self.settings(server)).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let task = self.runtime.spawn(async move { agent.run(&flag, |_| {}).await.unwrap() });
        (stop, task)
    }

    fn client(&self) -> PlacementManagerClient<Channel> {
        let connected =
            PlacementManagerClient::connect(format!("http://{}", self.server.address()));
        self.runtime.block_on(connected).unwrap()
    }

    fn submit(&self, name: &str, gpus: u32) -> Result<u32, Code> {
        if ["bad", "long"].contains(&name) {
            std::fs::write(self.directory.path().join(name), "").unwrap();
        }
        let answer = self.runtime.block_on(self.client().submit(request(name, gpus)));
        answer.map(|answer| answer.into_inner().job_id).map_err(|status| status.code())
    }

    fn list(&self) -> v1::ListResponse {
        self.runtime.block_on(self.client().list(v1::ListRequest {})).unwrap().into_inner()
    }

    /// All states of a job from now to its end.
    fn watch(&self, job_id: u32) -> Vec<v1::Job> {
        let mut client = self.client();
        let watched = async {
            let request = v1::WatchRequest { job_id, history: true };
            let mut stream = client.watch(request).await.unwrap().into_inner();
            let mut states = Vec::new();
            while let Some(state) = stream.message().await.unwrap() {
                states.extend(state.job);
            }
            states
        };
        let within = async { tokio::time::timeout(DEADLINE, watched).await };
        self.runtime.block_on(within).expect("the job is over some time")
    }

    fn until(&self, what: impl Fn(&v1::ListResponse) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !what(&self.list()) {
            assert!(Instant::now() < deadline, "{:#?}", self.list());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.inputs.send(Input::End).unwrap();
        let ended = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}

fn request(name: &str, gpus: u32) -> v1::SubmitRequest {
    v1::SubmitRequest {
        key: name.into(),
        name: name.into(),
        model: "m".into(),
        gpus,
        value: 1.0,
        iterations: 1,
        compute_us: 0,
        gradient_bytes: 40,
        retries: 1,
        command: Vec::new(),
        directory: String::new(),
    }
}

fn program(directory: &Path) -> PathBuf {
    let path = directory.join("program.sh");
    if !path.exists() {
        let new = directory.join("program.new");
        std::fs::write(&new, PROGRAM).unwrap();
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::rename(&new, &path).unwrap();
    }
    path
}

#[test]
fn jobs_run_on_agents_and_switches_know_them_meanwhile() {
    let place = Place::start();
    // No agent is connected yet, so the job waits.
    let first = place.submit("first", 3).unwrap();
    let _agents = ["w1", "w2"].map(|server| place.agent(server));
    let states = place.watch(first);
    let last = states.last().unwrap();
    assert_eq!((last.state(), last.attempts), (State::Finished, 1), "{states:#?}");
    let places: Vec<(&str, u32)> =
        last.tasks.iter().map(|task| (task.server.as_str(), task.gpus)).collect();
    assert_eq!((places, last.server.as_str()), (vec![("w1", 2), ("w2", 1)], "w2"));
    for task in &last.tasks {
        let exit = task.exit.as_ref().unwrap();
        assert_eq!(exit.outcome(), v1::exit::Outcome::Success, "{task:?}");
        assert_eq!((exit.values, exit.verified), (10, 10));
    }
    let (admitted, serving) = place.switches.seen();
    assert_eq!(admitted, [(1, vec!["w1".to_owned(), "w2".to_owned()], "w2".to_owned())]);
    assert!(serving.is_empty());

    // On one server: no switch is involved.
    let second = place.submit("second", 2).unwrap();
    assert_eq!(place.watch(second).last().unwrap().state(), State::Finished);
    assert_eq!(place.switches.seen().0.len(), 1);
    let listed = place.list();
    assert!(listed.servers.iter().all(|server| server.present && server.free == 2), "{listed:?}");
    // Acknowledged processes leave no files.
    let left = || std::fs::read_dir(place.directory.path().join("w1")).unwrap().count();
    place.until(|_| left() == 1);
}

#[test]
fn a_job_whose_process_fails_is_tried_again_and_then_given_up() {
    let place = Place::start();
    let _agents = ["w1", "w2"].map(|server| place.agent(server));
    let job = place.submit("bad", 4).unwrap();
    let last = place.watch(job).pop().unwrap();
    assert_eq!((last.state(), last.attempts), (State::Failed, 2), "{last:#?}");
    assert!(last.reason.contains("no luck"), "{}", last.reason);
    assert_eq!(place.switches.seen().0.len(), 2, "another number in each attempt");
    assert!(place.switches.seen().1.is_empty());
}

#[test]
fn a_controller_that_forgets_is_told_again() {
    let place = Place::start();
    let _agents = ["w1", "w2"].map(|server| place.agent(server));
    let job = place.submit("long", 4).unwrap();
    place.until(|_| place.switches.seen().1.len() == 1);
    place.switches.forget();
    place.until(|_| place.switches.seen().1.len() == 1);
    let (admitted, _) = place.switches.seen();
    assert_eq!((admitted.len(), &admitted[0]), (2, &admitted[1]));
    let cancel = v1::CancelRequest { job_id: job };
    place.runtime.block_on(place.client().cancel(cancel)).unwrap();
    let last = place.watch(job).pop().unwrap();
    assert_eq!((last.state(), last.attempts), (State::Cancelled, 1), "{last:#?}");
    assert!(place.switches.seen().1.is_empty());
}

#[test]
fn a_stopped_agent_ends_its_processes_and_its_jobs_wait() {
    let place = Place::start();
    let _first = place.agent("w1");
    let (stop, ended) = place.agent("w2");
    let job = place.submit("long", 4).unwrap();
    place.until(|listed| listed.jobs[0].state() == State::Running);
    place.until(|_| place.switches.seen().1.len() == 1);
    std::thread::sleep(Duration::from_millis(200));
    stop.store(true, Ordering::Relaxed);
    place.runtime.block_on(ended).unwrap();
    place.until(|listed| !listed.servers[1].present);
    // A new life of the agent: the processes of the old one have ended.
    let _again = place.agent("w2");
    place.until(|listed| listed.jobs[0].attempts == 2);
    let reason = place.list().jobs[0].reason.clone();
    assert!(reason.contains("w2"), "{reason}");
    let cancel = v1::CancelRequest { job_id: job };
    place.runtime.block_on(place.client().cancel(cancel)).unwrap();
    assert_eq!(place.watch(job).last().unwrap().state(), State::Cancelled);
}

#[test]
fn refusals_have_the_codes_of_the_interface() {
    let place = Place::start();
    assert_eq!(place.submit("much", 5), Err(Code::InvalidArgument));
    let job = place.submit("one", 1).unwrap();
    assert_eq!(place.submit("one", 1), Ok(job), "the same request is the same job");
    assert_eq!(place.submit("one", 2), Err(Code::AlreadyExists));
    let cancel = |job_id| {
        let asked = v1::CancelRequest { job_id };
        let answer = place.runtime.block_on(place.client().cancel(asked));
        answer.map(drop).map_err(|status| status.code())
    };
    assert_eq!(cancel(77), Err(Code::NotFound));
    assert_eq!(cancel(job), Ok(()));
    assert_eq!(cancel(job), Err(Code::FailedPrecondition));
    let mut client = place.client();
    let unknown = client.watch(v1::WatchRequest { job_id: 77, history: false });
    assert_eq!(place.runtime.block_on(unknown).map(drop).unwrap_err().code(), Code::NotFound);
    let silent = client.agent(tokio_stream::empty());
    let refused = place.runtime.block_on(silent).map(drop).unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);

    // An agent of an unknown server ends. A second agent of a server cannot lock its directory.
    let stop = AtomicBool::new(false);
    let mut stranger = Agent::new(place.settings("w9")).unwrap();
    let ended = place.runtime.block_on(stranger.run(&stop, |_| {}));
    assert!(matches!(ended, Err(AgentError::Unwanted(why)) if why.contains("no server `w9`")));
    let _agent = place.agent("w1");
    assert!(matches!(Agent::new(place.settings("w1")), Err(AgentError::Locked(_))));
    // An agent with its own directory is rejected as long as the first one is connected.
    place.until(|listed| listed.servers[0].present);
    let settings =
        AgentSettings { directory: place.directory.path().join("other"), ..place.settings("w1") };
    let mut second = Agent::new(settings).unwrap();
    let turned_away = async {
        let mut registered = false;
        let run = second.run(&stop, |_| registered = true);
        let _ = tokio::time::timeout(Duration::from_secs(1), run).await;
        registered
    };
    assert!(!place.runtime.block_on(turned_away));
}

/// A failing release is repeated at growing intervals, and other jobs are served meanwhile.
#[test]
fn a_release_that_fails_keeps_no_other_job_waiting() {
    let place = Place::start();
    place.switches.admit_stuck(1);
    place.until(|_| place.switches.releases() >= 1);
    let _agents = ["w1", "w2"].map(|server| place.agent(server));
    let job = place.submit("first", 4).unwrap();
    assert_eq!(place.watch(job).last().unwrap().state(), State::Finished);
    let (admitted, serving) = place.switches.seen();
    assert_eq!(admitted.last().unwrap().0, 2, "the number of the job that is stuck is not used");
    assert_eq!(serving, [1]);
    std::thread::sleep(Duration::from_secs(4));
    let releases = place.switches.releases();
    assert!(releases <= 5, "{releases} releases, one of them of job 2");
}
