//! Workers that take part in runs of a job, over gRPC, with the embedded switch.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tonic::{Code, Status};
use tributary_access::{Door, Listen, Remote, Server};
use tributary_api::JOBS_VERSION;
use tributary_api::jobs::v1;
use tributary_api::jobs::v1::part::Role;
use tributary_api::jobs::v1::worker::Which;
use tributary_controller::client::SwitchConfig;
use tributary_controller::jobs::Controller;
use tributary_controller::server::LIMITS;
use tributary_controller::service::Jobs;
use tributary_model::jobfile::parse;
use tributary_model::plan::Placement;
use tributary_model::{Deployment, Scenario};
use tributary_wire::{Epoch, JobId};

use crate::embedded::taking::{SOON, Taking, part, set};
use crate::embedded::{Cables, Running, embedded};
use crate::support::{self, Kit, free_port};

/// One job of three workers at one switch.
struct Setting {
    jobs: Jobs,
    server: Server,
    controller: Arc<Controller>,
    job: JobId,
    port: u16,
    _switch: (Running, Cables),
}

fn scenario() -> Scenario {
    parse("[switch]\npool = 64\n[[job]]\nname = \"a\"\nworkers = 3\n", "test").unwrap()
}

async fn setting() -> Setting {
    let port = free_port();
    let switch = embedded().start(port);
    let (controller, job) = admitted(port, 1).await;
    let (jobs, server) = served(&controller).await;
    Setting { jobs, server, controller, job, port, _switch: switch }
}

async fn served(controller: &Arc<Controller>) -> (Jobs, Server) {
    let jobs = Jobs::new(Arc::clone(controller), Deployment::new(scenario()).unwrap());
    let anywhere = Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
    let server = Server::start(jobs.service(), Door::unlocked(anywhere), LIMITS).await.unwrap();
    (jobs, server)
}

/// A controller that has admitted the job, continuing the run in the switch if there is one.
async fn admitted(port: u16, election_id: u128) -> (Arc<Controller>, JobId) {
    let scenario = scenario();
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

fn remote(server: &Server) -> Remote {
    Remote::new(&server.address().to_string(), None).unwrap().unwrap()
}

/// A worker process that waits for a run, and stays in it.
type Joining = JoinHandle<Result<(Epoch, Taking), Status>>;

fn worker(controller: Remote, worker: u32) -> Joining {
    tokio::spawn(async move {
        let mut taking = Taking::worker(&controller, "a", worker, 0).await?;
        Ok((taking.epoch().await?, taking))
    })
}

impl Setting {
    fn controller(&self) -> Remote {
        remote(&self.server)
    }

    fn worker(&self, index: u32) -> Joining {
        worker(self.controller(), index)
    }

    async fn waiting(&self, index: u32) -> Taking {
        Taking::worker(&self.controller(), "a", index, 0).await.unwrap()
    }

    async fn current(&self) -> Epoch {
        Taking::server(&self.controller(), "ps").await.unwrap().epoch().await.unwrap()
    }
}

async fn begun(worker: Joining) -> Result<(Epoch, Taking), Status> {
    timeout(SOON, worker).await.expect("the run begins").unwrap()
}

async fn epoch(worker: Joining) -> Epoch {
    begun(worker).await.unwrap().0
}

async fn refused(worker: Joining) -> String {
    match begun(worker).await {
        Ok((epoch, _)) => panic!("run {epoch} has begun"),
        Err(status) => status.message().to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_begin_a_run_together_and_each_run_once() {
    let setting = setting().await;
    let mut last = None;
    for _ in 0..3 {
        let before = setting.current().await;
        let mut first = setting.waiting(0).await;
        let second = setting.worker(1);
        first.missing(set(&[2])).await;
        assert_eq!(setting.current().await, before, "no run begins without worker 2");
        let third = setting.worker(2);
        let now = epoch(second).await;
        assert_eq!(epoch(third).await, now);
        assert_eq!(first.epoch().await.unwrap(), now);
        assert_eq!(setting.current().await, now);
        assert!(last.is_none_or(|last| now.is_after(last)), "a run begins once: {last:?} {now}");
        last = Some(now);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_leaves_or_comes_twice_is_waited_for_again() {
    let setting = setting().await;
    let mut first = setting.waiting(0).await;
    let second = setting.worker(1);
    first.missing(set(&[2])).await;
    second.abort();
    first.missing(set(&[1, 2])).await;
    let second = setting.worker(1);
    first.missing(set(&[2])).await;
    // The same worker, started a second time: the newer one waits.
    let again = setting.worker(1);
    let error = refused(second).await;
    assert!(error.contains("another process takes part in job a as the same worker"), "{error}");
    let third = setting.worker(2);
    assert_eq!(epoch(again).await, epoch(third).await);
}

/// A job that ends with its first dead worker: the others learn which one.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_dies_is_named_and_one_that_has_all_sums_leaves() {
    let setting = setting().await;
    let workers = [0, 1, 2].map(|index| setting.worker(index));
    let mut there = Vec::new();
    for worker in workers {
        there.push(begun(worker).await.unwrap());
    }
    let (run, first) = there.remove(0);
    first.stopped(run, 7, true).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(first);
    // It has left, and is not dead.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let (_, second) = there.remove(0);
    drop(second);
    assert_eq!(there[0].1.lost().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_was_started_again_begins_a_new_run() {
    let setting = setting().await;
    let workers = [0, 1, 2].map(|index| setting.worker(index));
    let mut epochs = Vec::new();
    for worker in workers {
        epochs.push(epoch(worker).await);
    }
    // The controller stops abruptly: the job stays in the switch.
    let (again, _) = admitted(setting.port, 2).await;
    let (_jobs, server) = served(&again).await;
    let mut servers = Taking::server(&remote(&server), "ps").await.unwrap();
    assert_eq!(servers.epoch().await.unwrap(), epochs[0], "workers of the run go on");
    let workers = [0, 1, 2].map(|index| worker(remote(&server), index));
    for worker in workers {
        assert!(epoch(worker).await.is_after(epochs[0]));
    }
}

/// However fast runs follow each other, epochs never exceed the clock. The next controller takes
/// its epochs from the clock if the switch is empty.
#[tokio::test(flavor = "multi_thread")]
async fn no_later_controller_issues_an_epoch_again() {
    let setting = setting().await;
    let mut last = setting.current().await;
    for _ in 0..20 {
        let workers = [0, 1, 2].map(|index| setting.worker(index));
        for worker in workers {
            last = epoch(worker).await;
        }
    }
    setting.jobs.close().await;
    setting.controller.remove(setting.job).await.unwrap();
    let (again, job) = admitted(setting.port, 2).await;
    let (jobs, _server) = served(&again).await;
    let first = jobs.served(job).unwrap().epoch;
    assert!(first.is_after(last), "{last} {first}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_ends_lets_workers_go() {
    let setting = setting().await;
    let mut first = setting.waiting(0).await;
    let second = setting.worker(1);
    first.missing(set(&[2])).await;
    setting.jobs.close().await;
    let error = refused(second).await;
    assert!(error.contains("the controller ends"), "{error}");
    let error = refused(setting.worker(2)).await;
    assert!(error.contains("the controller ends"), "{error}");
    setting.controller.remove(setting.job).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_make_no_sense_are_refused() {
    let setting = setting().await;
    let controller = setting.controller();
    let code = async |part: v1::Part| match Taking::part(&controller, part).await {
        Ok(mut taking) => taking.run().await.map(|_| ()).unwrap_err().code(),
        Err(status) => status.code(),
    };
    let named = |job: &str, which| v1::Worker {
        job: job.to_owned(),
        which: Some(which),
        ..v1::Worker::default()
    };
    let worker = |job: &str, index| part(Role::Worker(named(job, Which::Worker(index))));
    for job in ["", "b", "a/1", "aa"] {
        assert_eq!(code(worker(job, 0)).await, Code::NotFound, "{job}");
    }
    for index in [3, 31, 32, 255, 256, 1024, 65_536, u32::MAX] {
        assert_eq!(code(worker("a", index)).await, Code::InvalidArgument, "{index}");
    }
    assert_eq!(code(part(Role::Server("w9".to_owned()))).await, Code::InvalidArgument);
    for host in ["ps", "w9", "10.9.9.9"] {
        let on_host = part(Role::Worker(named("a", Which::Host(host.to_owned()))));
        assert_eq!(code(on_host).await, Code::InvalidArgument, "{host}");
    }
    let nobody = v1::Part { role: None, ..worker("a", 0) };
    assert_eq!(code(nobody).await, Code::InvalidArgument);
    let later = v1::Part { version: JOBS_VERSION + 1, ..worker("a", 0) };
    assert_eq!(code(later).await, Code::Unimplemented);
    // A run that nobody has begun.
    let run = v1::Worker { epoch: 17, ..named("a", Which::Worker(0)) };
    assert_eq!(code(part(Role::Worker(run))).await, Code::FailedPrecondition);
}

/// Processes come, leave at any moment and come twice, also while switches change to a new run. A
/// worker is told of a run at most once, and when processes behave again, a run begins.
#[tokio::test(flavor = "multi_thread")]
async fn processes_that_come_and_go_at_random_block_no_run() {
    const SEEDS: u64 = 6;
    for seed in 1..=SEEDS {
        let setting = setting().await;
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut begun: BTreeMap<Epoch, Vec<u32>> = BTreeMap::new();
        let mut there: Vec<(u32, Joining)> = Vec::new();
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
        let mut probe = setting.waiting(0).await;
        probe.missing(set(&[1, 2])).await;
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
        setting.jobs.close().await;
        setting.controller.remove(setting.job).await.unwrap();
    }
}

async fn count(ended: Vec<(u32, Joining)>, begun: &mut BTreeMap<Epoch, Vec<u32>>) {
    for (worker, joining) in ended {
        match joining.await {
            Ok(Ok((epoch, _))) => begun.entry(epoch).or_default().push(worker),
            Ok(Err(status)) => assert!(status.message().contains("as the same worker"), "{status}"),
            Err(aborted) => assert!(aborted.is_cancelled(), "{aborted}"),
        }
    }
}
