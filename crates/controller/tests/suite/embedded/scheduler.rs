//! Clients that admit, step, move and release jobs over gRPC, with the embedded switch.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};
use tributary_access::{Door, Listen, Server};
use tributary_api::jobs::v1;
use tributary_api::jobs::v1::iteration::State;
use tributary_api::jobs::v1::jobs_client::JobsClient;
use tributary_controller::jobs::Controller;
use tributary_controller::server::LIMITS;
use tributary_controller::service::Jobs;
use tributary_model::jobfile::parse;
use tributary_model::{Deployment, Scenario};

use crate::embedded::{Cables, Running, running};
use crate::support::{self, Kit, free_port};

type Client = JobsClient<Channel>;

const NETWORK: i32 = v1::Aggregation::Network as i32;
const SERVER: i32 = v1::Aggregation::Server as i32;
const SOON: Duration = Duration::from_secs(10);

/// A controller of two racks with four workers and 64 aggregators each, and one known job; and a
/// client.
struct Setting {
    server: Server,
    jobs: Jobs,
    client: Client,
    _switches: [(Running, Cables); 2],
}

fn scenario() -> Scenario {
    let text = "[topology]\nracks = 2\nhosts_per_rack = 4\n[switch]\npool = 64\n[[job]]\n";
    parse(text, "test").unwrap_or_else(|error| panic!("{error}"))
}

async fn setting(program: &str) -> Setting {
    let scenario = scenario();
    let kit = running(program);
    let ports = [free_port(), free_port()];
    let switches = ports.map(|port| kit.start(port));
    let configs = ["rack1", "rack2"].into_iter().zip(ports);
    let configs = configs.map(|(name, port)| support::config(name, port)).collect();
    let controller =
        Controller::connect(&scenario.network.topology, configs, &kit.pipeline).await.unwrap();
    let controller = match program {
        "switchml" => controller.partitioned(4).unwrap(),
        _ => controller,
    };
    let jobs = Jobs::new(controller, Deployment::unassigned(scenario));
    let anywhere = Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
    let server = Server::start(jobs.service(), Door::unlocked(anywhere), LIMITS).await.unwrap();
    let client = connect(&server).await;
    Setting { server, jobs, client, _switches: switches }
}

async fn connect(server: &Server) -> Client {
    JobsClient::connect(format!("http://{}", server.address())).await.unwrap()
}

fn admit(job_id: u32, aggregation: i32, size: u32) -> v1::AdmitRequest {
    let stepped = true;
    v1::AdmitRequest { job_id, aggregation, size, stepped, ..v1::AdmitRequest::default() }
}

/// A job in the first rack, without a parameter server.
fn local(job_id: u32, workers: &[&str], size: u32) -> v1::AdmitRequest {
    let workers = workers.iter().map(|&name| name.to_owned()).collect();
    v1::AdmitRequest { workers, ..admit(job_id, NETWORK, size) }
}

fn assignment(service_id: u32, mem_id: u32, size: u32, mode: v1::Mode) -> Option<v1::Assignment> {
    Some(v1::Assignment { service_id, mem_id, size, mode: mode.into() })
}

fn iteration(number: u64, unfinished: &[u32]) -> Option<v1::Iteration> {
    let state = if unfinished.is_empty() { State::Finished } else { State::Running };
    Some(v1::Iteration { number, state: state.into(), unfinished: unfinished.to_vec() })
}

#[track_caller]
fn refused<T: std::fmt::Debug>(outcome: Result<tonic::Response<T>, Status>, code: Code) -> String {
    let status = outcome.unwrap_err();
    assert_eq!(status.code(), code, "{}", status.message());
    status.message().to_owned()
}

impl Setting {
    async fn start(&mut self, job_id: u32, number: u64) -> Result<v1::Iteration, Status> {
        let request = v1::StartIterationRequest { job_id, number };
        let answer = self.client.start_iteration(request).await?.into_inner();
        Ok(answer.iteration.unwrap())
    }

    async fn finish(
        &mut self,
        job_id: u32,
        number: u64,
        worker: u32,
    ) -> Result<v1::Iteration, Status> {
        let request = v1::FinishIterationRequest { job_id, number, worker };
        let answer = self.client.finish_iteration(request).await?.into_inner();
        Ok(answer.iteration.unwrap())
    }

    async fn watch(&mut self, job_id: u32) -> Streaming<v1::WatchResponse> {
        self.client.watch(v1::WatchRequest { job_id, epoch: 0 }).await.unwrap().into_inner()
    }

    async fn list(&mut self) -> v1::ListResponse {
        self.client.list(v1::ListRequest {}).await.unwrap().into_inner()
    }
}

async fn told(stream: &mut Streaming<v1::WatchResponse>) -> Option<v1::WatchResponse> {
    timeout(SOON, stream.message()).await.expect("nothing is told").unwrap()
}

/// A job's whole life, as a watcher sees it.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_admitted_stepped_moved_and_released() {
    let mut setting = setting("p4inc").await;
    let answer = setting.client.admit(admit(1, NETWORK, 16)).await.unwrap().into_inner();
    let partial = assignment(1, 0, 16, v1::Mode::Partial);
    assert_eq!(answer.assignment, partial);

    let mut watcher = setting.watch(1).await;
    let epoch = answer.epoch;
    let at =
        |iteration, assignment| Some(v1::WatchResponse { iteration, assignment, rate: 0, epoch });
    assert_eq!(told(&mut watcher).await, at(iteration(0, &[]), partial));
    let everyone: Vec<u32> = (0..8).collect();
    assert_eq!(setting.start(1, 1).await.unwrap(), iteration(1, &everyone).unwrap());
    assert_eq!(told(&mut watcher).await, at(iteration(1, &everyone), partial));

    // The rate changes at any time, and only a change is told.
    for (rate, changes) in [(0, false), (7, true), (7, false), (5_000_000, true), (0, true)] {
        setting.client.set_rate(v1::SetRateRequest { job_id: 1, rate }).await.unwrap();
        assert_eq!(setting.list().await.jobs[0].rate, rate);
        if changes {
            assert_eq!(told(&mut watcher).await.unwrap().rate, rate);
        }
    }
    let stranger = v1::SetRateRequest { job_id: 9, rate: 1 };
    refused(setting.client.set_rate(stranger).await, Code::NotFound);

    // A running job is not moved; repeating the same start changes nothing.
    let there = v1::MoveRequest { job_id: 1, aggregation: SERVER, size: 0 };
    let message = refused(setting.client.r#move(there).await, Code::FailedPrecondition);
    assert!(
        message.starts_with("job 1: iteration 1 runs; it is not finished by workers 0–"),
        "{message}"
    );
    assert_eq!(setting.start(1, 1).await.unwrap(), iteration(1, &everyone).unwrap());
    assert_eq!(setting.start(1, 2).await.unwrap_err().code(), Code::FailedPrecondition);

    for worker in 0..8 {
        let left: Vec<u32> = (worker + 1..8).collect();
        assert_eq!(setting.finish(1, 1, worker).await.unwrap(), iteration(1, &left).unwrap());
        assert_eq!(told(&mut watcher).await, at(iteration(1, &left), partial));
        // A repeated report changes nothing.
        assert_eq!(setting.finish(1, 1, worker).await.unwrap(), iteration(1, &left).unwrap());
    }
    assert_eq!(setting.finish(1, 1, 8).await.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(setting.finish(1, 2, 0).await.unwrap_err().code(), Code::FailedPrecondition);

    let answer = setting.client.r#move(there).await.unwrap().into_inner();
    let forwarded = assignment(0, 0, 0, v1::Mode::Forwarded);
    assert_eq!(answer.assignment, forwarded);
    assert_eq!(told(&mut watcher).await, at(iteration(1, &[]), forwarded));
    let back = v1::MoveRequest { job_id: 1, aggregation: NETWORK, size: 32 };
    let answer = setting.client.r#move(back).await.unwrap().into_inner();
    let partial = assignment(2, 0, 32, v1::Mode::Partial);
    assert_eq!(answer.assignment, partial);
    assert_eq!(told(&mut watcher).await, at(iteration(1, &[]), partial));

    let listed = setting.list().await;
    let [job] = &listed.jobs[..] else { panic!("one job: {listed:?}") };
    assert_eq!((job.job_id, job.assignment, job.workers.len()), (1, partial, 8));
    assert_eq!((job.workers[0].as_str(), job.parameter_server.as_str()), ("w1", "ps"));
    let memory: Vec<_> = listed.memory.iter().map(|m| (m.switch.as_str(), m.free)).collect();
    assert_eq!(memory, [("rack1", 32), ("rack2", 32)]);

    // A job may end during an iteration, and watchers are told.
    setting.start(1, 0).await.unwrap();
    assert_eq!(told(&mut watcher).await.unwrap().iteration, iteration(2, &everyone));
    let release = v1::ReleaseRequest { job_id: 1 };
    let answer = setting.client.release(release).await.unwrap().into_inner();
    assert_eq!(answer.freed, 0);
    assert_eq!(told(&mut watcher).await, None);
    refused(setting.client.release(release).await, Code::NotFound);
    assert!(setting.list().await.jobs.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_is_refused_with_the_right_status() {
    let mut setting = setting("p4inc").await;
    for (request, code, what) in [
        (
            admit(0, NETWORK, 8),
            Code::InvalidArgument,
            "name the job's workers, or its ID in the con",
        ),
        (admit(65_536, NETWORK, 8), Code::InvalidArgument, "a job ID is between"),
        (admit(1, 0, 8), Code::InvalidArgument, "say where the job is to be summed"),
        (admit(1, 77, 8), Code::InvalidArgument, "say where the job is to be summed"),
        (admit(1, NETWORK, 0), Code::InvalidArgument, "say how many aggregators"),
        (admit(2, NETWORK, 8), Code::NotFound, "the controller's job file has no job 2"),
        (local(2, &["w1", "nobody"], 8), Code::InvalidArgument, "the network has no host `nobody`"),
        (local(2, &["w1", "w1"], 8), Code::InvalidArgument, "the workers and the parameter server"),
        (local(2, &["w1", "w5"], 8), Code::InvalidArgument, "job 2 needs a parameter server"),
        (
            local(2, &["w1"; 33], 8),
            Code::InvalidArgument,
            "33 of the workers are at switch rack1; a rack has at most 31",
        ),
        (
            local(2, &["w1", "w2"], 65),
            Code::ResourceExhausted,
            "switch rack1: job 2 wants 65 aggreg",
        ),
        (
            admit(1, NETWORK, 65),
            Code::ResourceExhausted,
            "switch rack1: job 1 wants 65 aggregators",
        ),
    ] {
        let message = refused(setting.client.admit(request).await, code);
        assert!(message.starts_with(what), "{message}");
    }
    assert!(setting.list().await.jobs.is_empty());
    let unknown = v1::MoveRequest { job_id: 1, aggregation: SERVER, size: 0 };
    refused(setting.client.r#move(unknown).await, Code::NotFound);
    refused(setting.client.watch(v1::WatchRequest { job_id: 1, epoch: 1 }).await, Code::NotFound);
    assert_eq!(setting.start(1, 0).await.unwrap_err().code(), Code::NotFound);
    assert_eq!(setting.finish(1, 1, 0).await.unwrap_err().code(), Code::NotFound);

    setting.client.admit(local(2, &["w1", "w2"], 60)).await.unwrap();
    let again = setting.client.admit(local(2, &["w1", "w2"], 4)).await;
    assert_eq!(refused(again, Code::AlreadyExists), "job 2 is admitted already; release it first");
    let alone = v1::MoveRequest { job_id: 2, aggregation: SERVER, size: 0 };
    refused(setting.client.r#move(alone).await, Code::InvalidArgument);
    let larger = v1::MoveRequest { job_id: 2, aggregation: NETWORK, size: 5 };
    let message = refused(setting.client.r#move(larger).await, Code::ResourceExhausted);
    assert_eq!(
        message,
        "switch rack1: job 2 wants 5 aggregators in one piece, and the largest free piece has 4; ask \
         for fewer, or wait until a job ends"
    );
    // The job is unchanged and continues.
    setting.start(2, 1).await.unwrap();
    setting.finish(2, 1, 1).await.unwrap();
    setting.finish(2, 1, 0).await.unwrap();
    let unnamed = v1::ReleaseRequest { job_id: 0 };
    refused(setting.client.release(unnamed).await, Code::InvalidArgument);
}

/// Many concurrent clients request more memory than exists: segments never overlap, refusals are
/// justified, and everything is free in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn clients_at_once_never_share_a_segment() {
    let mut setting = setting("p4inc").await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 1..=12_u32 {
        let mut client = connect(&setting.server).await;
        tasks.spawn(async move {
            let mut admitted = 0;
            for _ in 0..6 {
                match client.admit(local(number, &["w1", "w2", "w3"], 16)).await {
                    Ok(answer) => {
                        let assignment = answer.into_inner().assignment.unwrap();
                        assert_eq!((assignment.size, assignment.mem_id % 16), (16, 0));
                        let listed = client.list(v1::ListRequest {}).await.unwrap().into_inner();
                        let places = listed.jobs.iter().map(|job| job.assignment.unwrap().mem_id);
                        let places: Vec<u32> = places.collect();
                        let different: BTreeSet<u32> = places.iter().copied().collect();
                        assert_eq!(different.len(), places.len(), "{places:?}");
                        assert!(places.contains(&assignment.mem_id));
                        let release = v1::ReleaseRequest { job_id: number };
                        client.release(release).await.unwrap();
                        admitted += 1;
                    }
                    Err(status) => assert_eq!(status.code(), Code::ResourceExhausted, "{status}"),
                }
            }
            admitted
        });
    }
    let admitted: u32 = tasks.join_all().await.into_iter().sum();
    assert!(admitted >= 12, "{admitted} admissions");
    let listed = setting.list().await;
    assert!(listed.jobs.is_empty());
    assert!(listed.memory.iter().all(|memory| (memory.free, memory.largest) == (64, 64)));
}

/// If two clients request the same change of a job, one succeeds; and a worker's report is counted
/// once, whichever client sends it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn clients_at_once_change_a_job_one_after_the_other() {
    let mut setting = setting("p4inc").await;
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(connect(&setting.server).await);
    }
    let mut tasks = tokio::task::JoinSet::new();
    for mut client in clients.clone() {
        tasks.spawn(async move { client.admit(admit(1, NETWORK, 8)).await.map(drop) });
    }
    let outcomes = tasks.join_all().await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    let all = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
    assert!(all.map(Status::code).all(|code| code == Code::AlreadyExists));

    for number in 1..=5 {
        setting.start(1, number).await.unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for (worker, mut client) in (0..8).zip(clients.clone()) {
            tasks.spawn(async move {
                for _ in 0..2 {
                    let report = v1::FinishIterationRequest { job_id: 1, number, worker };
                    client.finish_iteration(report).await.unwrap();
                }
            });
        }
        tasks.join_all().await;
        let listed = setting.list().await;
        assert_eq!(listed.jobs[0].iteration, iteration(number, &[]));

        // Half of the clients request one place, half the other: each succeeds or is told to retry.
        let mut tasks = tokio::task::JoinSet::new();
        for (number, mut client) in clients.iter().cloned().enumerate() {
            let aggregation = if number % 2 == 0 { NETWORK } else { SERVER };
            let request = v1::MoveRequest { job_id: 1, aggregation, size: 8 };
            tasks.spawn(async move { client.r#move(request).await.map(drop) });
        }
        let outcomes = tasks.join_all().await;
        assert!(outcomes.iter().any(Result::is_ok));
        let refused = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
        assert!(refused.map(Status::code).all(|code| code == Code::Aborted), "{outcomes:?}");
        let listed = setting.list().await;
        let held = listed.jobs[0].assignment.unwrap().size;
        assert!(listed.memory.iter().all(|memory| memory.free == 64 - held), "{listed:?}");
    }
}

/// A watcher that hangs up is forgotten, and one that does not read delays no one else.
#[tokio::test(flavor = "multi_thread")]
async fn watchers_come_and_go() {
    let mut setting = setting("p4inc").await;
    setting.client.admit(local(7, &["w1"], 4)).await.unwrap();
    let mut faithful = setting.watch(7).await;
    let idle = setting.watch(7).await;
    let mut fickle = connect(&setting.server).await;
    let watch = v1::WatchRequest { job_id: 7, epoch: 0 };
    let mut fleeting = fickle.watch(watch).await.unwrap().into_inner();
    assert!(told(&mut fleeting).await.is_some());
    drop(fleeting);
    drop(fickle);

    for number in 1..=2000 {
        setting.start(7, number).await.unwrap();
        setting.finish(7, number, 0).await.unwrap();
    }
    // Numbers increase even if some are skipped, and the last state is always sent.
    let mut last = 0;
    while last < 2000 {
        let number = told(&mut faithful).await.unwrap().iteration.unwrap().number;
        assert!(number >= last);
        last = number;
    }
    setting.client.release(v1::ReleaseRequest { job_id: 7 }).await.unwrap();
    while told(&mut faithful).await.is_some() {}
    drop(idle);
}

/// A client that hangs up half-way through an admission leaves a complete job, or none.
#[tokio::test(flavor = "multi_thread")]
async fn an_admission_outlives_its_client() {
    let mut setting = setting("p4inc").await;
    for round in 0..20 {
        let mut client = connect(&setting.server).await;
        let patience = Duration::from_micros(200 * round);
        let _ = timeout(patience, client.admit(admit(1, NETWORK, 8))).await;
        drop(client);
        // Either way the job is released, or never existed.
        loop {
            match setting.client.release(v1::ReleaseRequest { job_id: 1 }).await {
                Err(status) if status.code() == Code::Aborted => {}
                Err(status) if status.code() == Code::NotFound => break,
                outcome => drop(outcome.unwrap()),
            }
        }
    }
    let listed = setting.list().await;
    assert!(listed.memory.iter().all(|memory| memory.free == 64));
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_releases_all_jobs() {
    let mut setting = setting("p4inc").await;
    setting.client.admit(admit(1, NETWORK, 8)).await.unwrap();
    setting.client.admit(local(2, &["w1", "w2"], 8)).await.unwrap();
    setting.start(2, 1).await.unwrap();
    let mut watcher = setting.watch(2).await;
    assert!(told(&mut watcher).await.is_some());
    let released = setting.jobs.release_all().await;
    assert!(released.len() == 2 && released.iter().all(|(.., outcome)| outcome.is_ok()));
    assert_eq!(told(&mut watcher).await, None);
    refused(setting.client.admit(admit(1, NETWORK, 8)).await, Code::Unavailable);
    assert!(setting.jobs.room().iter().all(|room| room.free == 64));
    let address = setting.server.address().clone();
    setting.server.stop().await;
    let again = JobsClient::connect(format!("http://{address}")).await;
    assert!(again.is_err(), "nobody listens any more");
}

/// After a switch is lost, its job can only be released, once the switch is back.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_broken_by_a_lost_switch_can_be_released() {
    let scenario = scenario();
    let kit = running("p4inc");
    let ports = [free_port(), free_port()];
    let _rack1 = kit.start(ports[0]);
    let rack2 = kit.start(ports[1]);
    let configs = ["rack1", "rack2"].into_iter().zip(ports).map(|(name, port)| {
        let patience = Duration::from_millis(300);
        tributary_controller::client::SwitchConfig { patience, ..support::config(name, port) }
    });
    let controller =
        Controller::connect(&scenario.network.topology, configs.collect(), &kit.pipeline);
    let jobs = Jobs::new(controller.await.unwrap(), Deployment::unassigned(scenario.clone()));
    let server =
        Server::start(jobs.service(), Door::unlocked("127.0.0.1:0".parse().unwrap()), LIMITS)
            .await
            .unwrap();
    let mut client = connect(&server).await;
    client.admit(admit(1, NETWORK, 8)).await.unwrap();

    drop(rack2);
    let there = v1::MoveRequest { job_id: 1, aggregation: SERVER, size: 0 };
    refused(client.r#move(there).await, Code::Unavailable);
    refused(client.r#move(there).await, Code::FailedPrecondition);
    let start = v1::StartIterationRequest { job_id: 1, number: 0 };
    refused(client.start_iteration(start).await, Code::FailedPrecondition);
    let release = v1::ReleaseRequest { job_id: 1 };
    refused(client.release(release).await, Code::Unavailable);
    refused(client.admit(admit(1, NETWORK, 8)).await, Code::AlreadyExists);

    let _rack2 = kit.start(ports[1]);
    let released = async {
        while client.release(release).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(SOON, released).await.expect("the switch is back");
    let answer = client.admit(admit(1, NETWORK, 64)).await.unwrap().into_inner();
    assert_eq!(answer.assignment, assignment(2, 0, 64, v1::Mode::Partial));
}

/// Their endpoints have tokens from the controller's file only.
#[tokio::test(flavor = "multi_thread")]
async fn clients_admit_esa_jobs_only_with_settings() {
    let mut setting = setting("esa").await;
    let message = refused(setting.client.admit(admit(1, NETWORK, 8)).await, Code::InvalidArgument);
    assert!(message.starts_with("jobs of esa, whose endpoints need tokens, are adm"), "{message}");
    // Nor with iterations, which their workers would not wait for.
    let settings = "[job]\n".to_owned();
    let stepped = v1::AdmitRequest { settings, stepped: true, ..admit(1, NETWORK, 8) };
    let message = refused(setting.client.admit(stepped).await, Code::FailedPrecondition);
    assert!(message.starts_with("job 1 is of esa, so it has no iterations"), "{message}");
    assert!(setting.list().await.jobs.is_empty());
}

/// SwitchML: static parts, jobs at one switch, and no server to move to.
#[tokio::test(flavor = "multi_thread")]
async fn switchml_jobs_get_static_parts() {
    let mut setting = setting("switchml").await;
    for (job_id, offset) in [(1, 0), (2, 16), (3, 32), (4, 48)] {
        let answer = setting.client.admit(local(job_id, &["w1", "w2"], 3 + job_id)).await.unwrap();
        let expected = assignment(1, offset, 16, v1::Mode::Local);
        assert_eq!(answer.into_inner().assignment, expected);
    }
    refused(setting.client.admit(local(5, &["w3", "w4"], 1)).await, Code::ResourceExhausted);
    refused(setting.client.admit(local(5, &["w5", "w6"], 17)).await, Code::ResourceExhausted);
    refused(setting.client.admit(local(5, &["w4", "w5"], 1)).await, Code::InvalidArgument);
    let there = v1::MoveRequest { job_id: 1, aggregation: SERVER, size: 0 };
    refused(setting.client.r#move(there).await, Code::InvalidArgument);
    // All parts have the same size, so there is nothing to move.
    let same = v1::MoveRequest { job_id: 1, aggregation: NETWORK, size: 9 };
    let answer = setting.client.r#move(same).await.unwrap().into_inner();
    assert_eq!(answer.assignment, assignment(1, 0, 16, v1::Mode::Local));
    // In any order of release, each part serves another job.
    for job_id in [2, 4, 1, 3] {
        setting.client.release(v1::ReleaseRequest { job_id }).await.unwrap();
    }
    let listed = setting.list().await;
    let rack1 = &listed.memory[0];
    assert_eq!((rack1.aggregators, rack1.free, rack1.largest), (64, 64, 16));
    let answer = setting.client.admit(local(2, &["w1", "w2"], 16)).await.unwrap().into_inner();
    assert_eq!(answer.assignment, assignment(2, 0, 16, v1::Mode::Local));
}
