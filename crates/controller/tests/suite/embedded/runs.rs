//! Workers that join runs of a job, over gRPC, with the embedded switch.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tonic::Code;
use tributary_access::{Door, Listen, Remote, Server};
use tributary_controller::Error;
use tributary_controller::client::SwitchConfig;
use tributary_controller::jobs::Controller;
use tributary_controller::runs::{Progress, Runs, ask};
use tributary_controller::scheduler::Forgetful;
use tributary_controller::server::LIMITS;
use tributary_jobfile::parse;
use tributary_model::plan::Placement;
use tributary_proto::runs::v1::JoinRequest;
use tributary_proto::runs::v1::runs_client::RunsClient;
use tributary_wire::{Epoch, JobId, WorkerIndex, WorkerSet};

use crate::embedded::{Cables, Running, embedded};
use crate::support::{self, Kit, free_port};

const SOON: Duration = Duration::from_secs(10);

/// One job of three workers at one switch.
struct Setting {
    runs: Runs,
    server: Server,
    controller: Arc<Controller>,
    job: JobId,
    port: u16,
    _switch: (Running, Cables),
}

async fn setting() -> Setting {
    let port = free_port();
    let switch = embedded().start(port);
    let (controller, job) = admitted(port, 1).await;
    let runs = Runs::new(Arc::clone(&controller), Arc::new(Forgetful));
    let anywhere = Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
    let server =
        Server::start(runs.clone().service(), Door::unlocked(anywhere), LIMITS).await.unwrap();
    Setting { runs, server, controller, job, port, _switch: switch }
}

/// A controller that has admitted the job, continuing the run in the switch if there is one.
async fn admitted(port: u16, election_id: u128) -> (Arc<Controller>, JobId) {
    let scenario = parse("[switch]\npool = 64\n[[job]]\nworkers = 3\n", "test").unwrap();
    let configs = vec![SwitchConfig { election_id, ..support::config("s1", port) }];
    let pipeline = embedded().pipeline();
    let controller =
        Controller::connect(&scenario.network.topology, configs, &pipeline).await.unwrap();
    let job = scenario.jobs[0].id;
    let epoch = match controller.found(job) {
        Some(epoch) => epoch,
        None => controller.issue().await.unwrap(),
    };
    let placement = Placement { epoch, ..Placement::unassigned(&scenario.jobs[0]) };
    controller.admit(&placement).await.unwrap();
    (Arc::new(controller), job)
}

fn index(worker: u16) -> WorkerIndex {
    WorkerIndex::new(worker).unwrap()
}

/// A worker process that asks to join.
type Joining = JoinHandle<Result<Epoch, Error>>;

impl Setting {
    fn controller(&self) -> Remote {
        Remote::new(&self.server.address().to_string(), None).unwrap().unwrap()
    }

    fn worker(&self, worker: u16) -> Joining {
        let (controller, job) = (self.controller(), self.job);
        tokio::spawn(async move {
            ask(&controller, job, Some(index(worker)), |_| {}).await.map(|begun| begun.epoch)
        })
    }

    async fn current(&self) -> Epoch {
        ask(&self.controller(), self.job, None, |_| {}).await.unwrap().epoch
    }

    /// Waits until exactly these workers are missing, according to a waiting worker.
    async fn missing(&self, told: &mut tokio::sync::watch::Receiver<Progress>, missing: u32) {
        let missing = Progress::Waiting { missing: WorkerSet::from_low_bits(missing) };
        let there = told.wait_for(|progress| *progress == missing);
        timeout(SOON, there).await.expect("they come").unwrap();
    }
}

async fn epoch(worker: Joining) -> Epoch {
    timeout(SOON, worker).await.expect("the run begins").unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_begin_a_run_together_and_each_run_once() {
    let setting = setting().await;
    let mut last = None;
    for _ in 0..3 {
        let before = setting.current().await;
        let mut first = setting.runs.join(setting.job, index(0)).unwrap();
        let second = setting.worker(1);
        setting.missing(&mut first, 0b100).await;
        assert_eq!(setting.current().await, before, "no run begins without worker 2");
        let third = setting.worker(2);
        let now = epoch(second).await;
        assert_eq!(epoch(third).await, now);
        timeout(SOON, first.wait_for(|told| *told == Progress::Begun(now))).await.unwrap().unwrap();
        assert_eq!(setting.current().await, now);
        assert!(last.is_none_or(|last| now.is_after(last)), "a run begins once: {last:?} {now}");
        last = Some(now);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_leaves_or_comes_twice_is_waited_for_again() {
    let setting = setting().await;
    let mut first = setting.runs.join(setting.job, index(0)).unwrap();
    let second = setting.worker(1);
    setting.missing(&mut first, 0b100).await;
    second.abort();
    setting.missing(&mut first, 0b110).await;
    let second = setting.worker(1);
    setting.missing(&mut first, 0b100).await;
    // The same worker, started a second time: the newer one waits.
    let again = setting.worker(1);
    let error = timeout(SOON, second).await.unwrap().unwrap().unwrap_err().to_string();
    assert!(error.contains("another process has joined job 1 as the same worker"), "{error}");
    let third = setting.worker(2);
    assert_eq!(epoch(again).await, epoch(third).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_was_started_again_begins_a_new_run() {
    let setting = setting().await;
    let workers = [0, 1, 2].map(|worker| setting.worker(worker));
    let mut epochs = Vec::new();
    for worker in workers {
        epochs.push(epoch(worker).await);
    }
    // The controller stops abruptly: the job stays in the switch.
    let (again, job) = admitted(setting.port, 2).await;
    let runs = Runs::new(again, Arc::new(Forgetful));
    let current = runs.current(job).await.map(|begun| begun.epoch);
    assert_eq!(current, Ok(epochs[0]), "workers of the run go on");
    let mut waiting: Vec<_> =
        [0, 1, 2].iter().map(|&worker| runs.join(job, index(worker)).unwrap()).collect();
    let begun = waiting[0].wait_for(|told| !matches!(told, Progress::Waiting { .. }));
    let begun = timeout(SOON, begun).await.unwrap().unwrap().clone();
    assert!(matches!(begun, Progress::Begun(epoch) if epoch.is_after(epochs[0])), "{begun:?}");
}

/// However fast runs follow each other, epochs never exceed the clock. The next controller takes
/// its epochs from the clock if the switch is empty.
#[tokio::test(flavor = "multi_thread")]
async fn no_later_controller_issues_an_epoch_again() {
    let setting = setting().await;
    let mut last = setting.current().await;
    for _ in 0..20 {
        let workers = [0, 1, 2].map(|worker| setting.worker(worker));
        for worker in workers {
            last = epoch(worker).await;
        }
    }
    setting.runs.close().await;
    setting.controller.remove(setting.job).await.unwrap();
    let (again, job) = admitted(setting.port, 2).await;
    let first = Runs::new(again, Arc::new(Forgetful)).current(job).await.unwrap().epoch;
    assert!(first.is_after(last), "{last} {first}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_ends_lets_workers_go() {
    let setting = setting().await;
    let mut first = setting.runs.join(setting.job, index(0)).unwrap();
    let second = setting.worker(1);
    setting.missing(&mut first, 0b100).await;
    setting.runs.close().await;
    let error = timeout(SOON, second).await.unwrap().unwrap().unwrap_err().to_string();
    assert!(error.contains("the controller ends"), "{error}");
    let late = setting.worker(2);
    let error = timeout(SOON, late).await.unwrap().unwrap().unwrap_err().to_string();
    assert!(error.contains("the controller ends"), "{error}");
    setting.controller.remove(setting.job).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_make_no_sense_are_refused() {
    let setting = setting().await;
    let address = format!("http://{}", setting.server.address());
    let mut client = RunsClient::connect(address).await.unwrap();
    let mut refused = async |job_id, worker| {
        client.join(JoinRequest { job_id, worker }).await.map(|_| ()).unwrap_err().code()
    };
    for job in [0, 2, 65_535, 65_536 + 1, u32::MAX] {
        assert_eq!(refused(job, None).await, Code::NotFound, "{job}");
        assert_eq!(refused(job, Some(0)).await, Code::NotFound, "{job}");
    }
    for worker in [3, 31, 32, 255, 256, u32::MAX] {
        assert_eq!(refused(1, Some(worker)).await, Code::InvalidArgument, "{worker}");
    }
}

/// Processes come, leave at any moment and come twice, also while switches change to a new run. A
/// worker is told of a run at most once, and when processes behave again, a run begins.
#[tokio::test(flavor = "multi_thread")]
async fn processes_that_come_and_go_at_random_block_no_run() {
    const SEEDS: u64 = 6;
    for seed in 1..=SEEDS {
        let setting = setting().await;
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut begun: BTreeMap<Epoch, Vec<u16>> = BTreeMap::new();
        let mut there: Vec<(u16, Joining)> = Vec::new();
        for _ in 0..120 {
            let worker = random.random_range(0..3);
            there.push((worker, setting.worker(worker)));
            if random.random() {
                sleep(Duration::from_micros(random.random_range(0..4000))).await;
            }
            if random.random_ratio(1, 3) {
                let victim = random.random_range(0..there.len());
                there.swap_remove(victim).1.abort();
            }
            let (ended, waiting) =
                there.into_iter().partition(|(_, joining)| joining.is_finished());
            there = waiting;
            count(ended, &mut begun).await;
        }
        there.iter().for_each(|(_, joining)| joining.abort());
        count(there, &mut begun).await;
        for (epoch, workers) in &begun {
            let each =
                workers.iter().all(|one| workers.iter().filter(|two| *two == one).count() == 1);
            assert!(each, "seed {seed}: run {epoch} was told to {workers:?}");
        }
        // The controller notices that they have left.
        let mut probe = setting.runs.join(setting.job, index(0)).unwrap();
        setting.missing(&mut probe, 0b110).await;
        drop(probe);
        let last = [0, 1, 2].map(|worker| setting.worker(worker));
        let mut epochs = Vec::new();
        for worker in last {
            epochs.push(epoch(worker).await);
        }
        assert!(epochs.iter().all(|epoch| *epoch == epochs[0]), "seed {seed}: {epochs:?}");
        assert!(
            begun.keys().all(|before| epochs[0].is_after(*before)),
            "seed {seed}: {begun:?} {epochs:?}"
        );
        setting.runs.close().await;
        setting.controller.remove(setting.job).await.unwrap();
    }
}

async fn count(ended: Vec<(u16, Joining)>, begun: &mut BTreeMap<Epoch, Vec<u16>>) {
    for (worker, joining) in ended {
        match joining.await {
            Ok(Ok(epoch)) => begun.entry(epoch).or_default().push(worker),
            Ok(Err(error)) => {
                let error = error.to_string();
                assert!(error.contains("as the same worker"), "{error}");
            }
            Err(aborted) => assert!(aborted.is_cancelled(), "{aborted}"),
        }
    }
}
