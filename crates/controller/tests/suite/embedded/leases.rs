//! Jobs that clients admit with their settings: who takes part, and that they end with their workers; iterations with
//! endpoints that take part.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};
use tonic::Code;
use tonic::transport::Channel;
use tributary_access::{Door, Listen, Remote, Server};
use tributary_api::jobs::v1;
use tributary_api::jobs::v1::jobs_client::JobsClient;
use tributary_api::jobs::v1::take_request::Request as Say;
use tributary_api::jobs::v1::take_response::Notice;
use tributary_controller::jobs::Controller;
use tributary_controller::ports::PortMap;
use tributary_controller::server::LIMITS;
use tributary_controller::service::{Jobs, Journal, Known, Record};
use tributary_model::jobfile::{Site as Places, parse};
use tributary_model::{Deployment, Scenario};
use tributary_wire::{Epoch, JobId};

use crate::embedded::taking::Taking;
use crate::embedded::{Cables, Embedded, Running, running};
use crate::support::{self, Kit as _, free_port};

const GRACE: Duration = Duration::from_millis(800);
const SOON: Duration = Duration::from_secs(10);
/// Time limit where there are many jobs.
pub(crate) const LATE: Duration = Duration::from_secs(60);
/// Settings that would have workers read and write files.
const FILES: &str =
    "[job]\nworkload = { kind = \"files\", inputs = [\"a.npy\", \"b.npy\"], output_dir = \"c\" }\n";

pub(crate) const KEY: &[u8] = b"secret";
/// The first ID that is chosen for a job. The next ones are lower.
const FIRST: u32 = 65_535;

/// Outlives the controllers of a test, as a file does.
#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<BTreeMap<JobId, Record>>>);

impl Kept {
    fn records(&self) -> Vec<Record> {
        self.0.lock().unwrap().values().cloned().collect()
    }
}

impl Journal for Kept {
    fn keep(&self, record: &Record) -> Result<(), String> {
        self.0.lock().unwrap().insert(record.placement.job, record.clone());
        Ok(())
    }

    fn forget(&self, job: JobId) -> Result<(), String> {
        self.0.lock().unwrap().remove(&job);
        Ok(())
    }

    fn lasts(&self) -> bool {
        true
    }
}

/// A switch with four workers and 64 aggregators, and a job file with one job.
pub(crate) struct Site {
    scenario: Scenario,
    places: Arc<Places>,
    pub(crate) kit: Embedded,
    port: u16,
    kept: Kept,
    _switch: (Running, Cables),
}

/// A controller in a runtime of its own, with which all that it does ends.
pub(crate) struct Life {
    runtime: Option<tokio::runtime::Runtime>,
    pub(crate) jobs: Jobs,
    pub(crate) address: Remote,
    pub(crate) client: JobsClient<Channel>,
}

impl Site {
    pub(crate) fn new() -> Self {
        Self::of("p4inc", "segment = 16\n")
    }

    pub(crate) fn of(protocol: &str, job: &str) -> Self {
        let text = "[topology]\nworkers = 4\nps_hosts = 1\n[switch]\npool = 64\n[[job]]\n";
        let text = format!("protocol = \"{protocol}\"\n{text}window = 8\nslots = 8\n{job}");
        let scenario = parse(&text, "test").unwrap_or_else(|error| panic!("{error}"));
        let places = Arc::new(Places::of(&text, "test").unwrap());
        let (kit, port) = (running(protocol), free_port());
        let _switch = kit.start(port);
        Self { scenario, places, kit, port, kept: Kept::default(), _switch }
    }

    /// Starts a controller, which goes on with what an earlier one kept.
    pub(crate) async fn live(&self) -> Life {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let (topology, kept) = (self.scenario.network.topology.clone(), self.kept.clone());
        let switches = vec![support::config("s1", self.port)];
        let known = Known {
            site: Some(Arc::clone(&self.places)),
            grace: GRACE,
            ..Deployment::unassigned(self.scenario.clone()).into()
        };
        let pipeline = self.kit.pipeline();
        let (sender, started) = tokio::sync::oneshot::channel();
        runtime.spawn(async move {
            let records = kept.records();
            let served: Vec<_> =
                records.iter().map(|record| (record.placement.clone(), record.slot)).collect();
            let ports = PortMap::default();
            let controller =
                Controller::resume(&topology, &ports, switches, &pipeline, &served, |_| {});
            let jobs = Jobs::resume(controller.await.unwrap(), known, &records, Arc::new(kept));
            let service = jobs.service();
            let anywhere = Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
            let server = Server::start(service, Door::unlocked(anywhere), LIMITS).await.unwrap();
            let address = server.address().to_string();
            assert!(sender.send((address, jobs)).is_ok(), "the test waits");
            std::future::pending::<()>().await;
        });
        let (address, jobs) = timeout(LATE, started).await.unwrap().unwrap();
        let client = JobsClient::connect(format!("http://{address}")).await.unwrap();
        let address = Remote::new(&address, None).unwrap().unwrap();
        Life { runtime: Some(runtime), jobs, address, client }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

pub(crate) fn leased(job_id: u32, workers: &[&str]) -> v1::AdmitRequest {
    v1::AdmitRequest {
        job_id,
        workers: workers.iter().map(|&name| name.to_owned()).collect(),
        aggregation: v1::Aggregation::Network.into(),
        size: 16,
        name: "resnet".into(),
        lease: true,
        settings: "[job]\n".into(),
        key: KEY.to_vec(),
        ..v1::AdmitRequest::default()
    }
}

/// The same without a lease.
pub(crate) fn plain(job_id: u32, workers: &[&str]) -> v1::AdmitRequest {
    let (settings, key) = (String::new(), Vec::new());
    v1::AdmitRequest { lease: false, settings, key, ..leased(job_id, workers) }
}

impl Life {
    /// Returns the job's ID.
    pub(crate) async fn admit(&mut self, request: v1::AdmitRequest) -> u32 {
        self.client.admit(request).await.unwrap().into_inner().job_id
    }

    /// A worker, in a run or (0) the next one.
    async fn take(&self, job_id: u32, worker: u32, run: u32) -> Taking {
        Taking::of_admitted(&self.address, job_id, KEY, worker, run).await.unwrap()
    }

    /// Two workers in their run.
    async fn pair(&self, job_id: u32) -> (Taking, Taking, Epoch) {
        let [mut one, mut two] = [self.take(job_id, 0, 0).await, self.take(job_id, 1, 0).await];
        let run = one.epoch().await.unwrap();
        assert_eq!(two.epoch().await.unwrap(), run);
        (one, two, run)
    }

    pub(crate) async fn jobs(&mut self) -> Vec<(u32, String, Option<bool>)> {
        let listed = self.client.list(v1::ListRequest {}).await.unwrap().into_inner();
        let jobs = listed.jobs.into_iter();
        jobs.map(|job| (job.job_id, job.name, job.lease.map(|lease| lease.held))).collect()
    }

    /// Whether some worker takes part in the only job, which has a lease.
    async fn is_held(&mut self) -> bool {
        let [(_, name, Some(held))] = &self.jobs().await[..] else { panic!("not one leased job") };
        assert_eq!(name, "resnet");
        *held
    }

    /// Waits until there is no job. Returns how long that took.
    pub(crate) async fn emptied(&mut self) -> Duration {
        let begin = Instant::now();
        while !self.jobs().await.is_empty() {
            assert!(begin.elapsed() < LATE, "the job stays");
            sleep(Duration::from_millis(10)).await;
        }
        let listed = self.client.list(v1::ListRequest {}).await.unwrap().into_inner();
        assert!(listed.memory.iter().all(|memory| (memory.free, memory.largest) == (64, 64)));
        begin.elapsed()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_ends_with_its_workers() {
    let site = Site::new();
    let mut life = site.live().await;
    let job = life.admit(leased(0, &["w1", "w2"])).await;
    // Those of files and other clients are low.
    assert_eq!(job, FIRST);
    assert!(!life.is_held().await);
    let (one, mut two, _) = life.pair(job).await;
    sleep(2 * GRACE).await;
    assert!(life.is_held().await);
    // The other one learns how it was lost, and ends.
    drop(one);
    let lost = v1::Lost {
        worker: 0,
        reason: "is gone: its process has ended, or its connection is cut".into(),
    };
    assert_eq!(two.notice().await.unwrap(), Notice::Lost(lost));
    drop(two);
    life.emptied().await;
    assert!(site.kept.records().is_empty());

    // In order, it takes no time.
    let job = life.admit(leased(0, &["w1", "w2"])).await;
    let (mut one, mut two, run) = life.pair(job).await;
    for worker in [&mut one, &mut two] {
        worker.stopped(run, 7, true).await;
        while worker.notice().await.unwrap() != Notice::Complete(v1::Complete {}) {}
    }
    let took = life.emptied().await;
    assert!(took < GRACE / 2, "{took:?}");

    // Nobody comes for this one.
    life.admit(leased(7, &["w1", "w2"])).await;
    let took = life.emptied().await;
    assert!(took > GRACE / 2 && took < 4 * GRACE, "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_survives_its_controller_but_not_its_workers() {
    let site = Site::new();
    let mut life = site.live().await;
    let job = life.admit(leased(0, &["w1", "w2"])).await;
    let (_, _, run) = life.pair(job).await;
    drop(life);
    assert_eq!(site.kept.records().len(), 1);

    let mut life = site.live().await;
    assert!(!life.is_held().await);
    let [one, two] = [life.take(job, 0, run.get()).await, life.take(job, 1, run.get()).await];
    sleep(2 * GRACE).await;
    assert!(life.is_held().await);
    drop(life);
    drop((one, two));

    // A worker that does not come back is lost.
    let mut life = site.live().await;
    let mut one = life.take(job, 0, run.get()).await;
    let lost = timeout(2 * SOON, one.notice()).await.unwrap().unwrap();
    let Notice::Lost(v1::Lost { worker: 1, reason }) = lost else { panic!("{lost:?}") };
    assert!(reason.starts_with("is gone: it has not come back to the controller"), "{reason}");
    drop(one);
    life.emptied().await;

    let job = life.admit(leased(0, &["w1", "w2"])).await;
    drop(life.pair(job).await);
    drop(life);
    let mut life = site.live().await;
    let took = life.emptied().await;
    assert!(took > GRACE / 2, "{took:?}");
    assert!(site.kept.records().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_learn_of_the_release_and_have_no_part_in_the_next_job() {
    let site = Site::new();
    let mut life = site.live().await;
    life.admit(leased(5, &["w1", "w2"])).await;
    let (mut one, _two, run) = life.pair(5).await;
    let release = v1::ReleaseRequest { job_id: 5 };
    life.client.release(release).await.unwrap();
    let over = Notice::Over("the controller has released job resnet#5".into());
    assert_eq!(one.notice().await.unwrap(), over);
    let again = life.client.release(release).await.unwrap_err();
    assert_eq!(again.code(), Code::NotFound);

    let next = v1::AdmitRequest { key: b"another".to_vec(), ..leased(5, &["w3", "w4"]) };
    life.admit(next).await;
    for run in [0, run.get()] {
        let mut late = Taking::of_admitted(&life.address, 5, KEY, 0, run).await;
        let status = match &mut late {
            Ok(late) => late.notice().await.unwrap_err(),
            Err(status) => status.clone(),
        };
        assert_eq!(status.code(), Code::PermissionDenied);
        assert!(status.message().starts_with("this is not the key of job 5"), "{status}");
    }
    life.emptied().await;
}

/// Its sequence numbers are limited, and its controller is killed in between.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_lasts_longer_than_a_run() {
    let site = Site::new();
    let mut life = site.live().await;
    let job = life.admit(leased(0, &["w1", "w2"])).await;
    let (mut one, mut two, first) = life.pair(job).await;
    for worker in [&one, &two] {
        worker.stop(first, 1, v1::Stop::Renewal).await;
    }
    let second = one.epoch().await.unwrap();
    assert!(second.is_after(first));
    assert_eq!(two.epoch().await.unwrap(), second);
    let recorded = |kept: &Kept| kept.records()[0].placement.epoch;
    assert_eq!(recorded(&site.kept), second);

    // One has said so, and the controller is gone.
    one.stop(second, 2, v1::Stop::Renewal).await;
    drop(life);
    drop((one, two));
    let mut life = site.live().await;
    let again = second.get();
    let [mut one, mut two] = [life.take(job, 0, again).await, life.take(job, 1, again).await];
    for worker in [&one, &two] {
        worker.stop(second, 2, v1::Stop::Renewal).await;
    }
    let third = one.epoch().await.unwrap();
    assert!(third.is_after(second));
    assert_eq!(two.epoch().await.unwrap(), third);
    sleep(2 * GRACE).await;
    assert!(life.is_held().await);
    // One that dies between two runs is lost.
    one.stop(third, 3, v1::Stop::Renewal).await;
    drop(two);
    assert_eq!(one.lost().await, 1);
    drop(one);
    life.emptied().await;
}

/// What it says of the run before is not lost, and nobody takes the place of one that goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_may_leave_or_be_imitated_while_another_run_begins() {
    let site = Site::new();
    let mut life = site.live().await;
    let job = life.admit(leased(0, &["w1", "w2"])).await;
    let (mut one, mut two, first) = life.pair(job).await;
    let mut stranger = life.take(job, 0, 0).await;
    assert!(matches!(stranger.notice().await.unwrap(), Notice::Waiting(_)));
    for worker in [&one, &two] {
        worker.stop(first, 1, v1::Stop::Renewal).await;
    }
    let second = two.epoch().await.unwrap();
    assert_eq!(one.epoch().await.unwrap(), second);
    let refused = loop {
        match stranger.notice().await {
            Ok(Notice::Waiting(_)) => {}
            Ok(other) => panic!("{other:?}"),
            Err(status) => break status,
        }
    };
    assert_eq!(refused.code(), Code::AlreadyExists);

    // As if it had not heard of the second run yet.
    one.stopped(first, 7, true).await;
    while one.notice().await.unwrap() != Notice::Complete(v1::Complete {}) {}
    drop(one);
    let left = Notice::Left(v1::Left { worker: 0, rounds: 7 });
    assert_eq!(two.notice().await.unwrap(), left);
    sleep(Duration::from_millis(1500)).await;
    two.stopped(second, 7, true).await;
    assert_eq!(two.notice().await.unwrap(), Notice::Complete(v1::Complete {}));
    life.emptied().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_learn_who_is_behind_has_left_or_has_failed() {
    let site = Site::new();
    let mut life = site.live().await;
    let job = life.admit(leased(0, &["w1", "w2", "w3"])).await;
    let mut all = Vec::new();
    for worker in 0..3 {
        all.push(life.take(job, worker, 0).await);
    }
    let run = all[0].epoch().await.unwrap();
    for worker in &mut all[1..] {
        worker.epoch().await.unwrap();
    }
    // What comes soon after other notice comes later, and only the last of it.
    for (worker, reached) in [(0, 5), (1, 3), (2, 2), (2, 3)] {
        all[worker].say(Say::Reached(reached)).await;
    }
    let behind =
        |workers: &[u32], rounds| Notice::Behind(v1::Behind { workers: workers.to_vec(), rounds });
    loop {
        match all[0].notice().await.unwrap() {
            notice if notice == behind(&[1, 2], 3) => break,
            Notice::Behind(_) => {}
            other => panic!("{other:?}"),
        }
    }
    // Of several that leave, only those after fewer rounds than any before are notice.
    all[1].stopped(run, 8, true).await;
    let left = |worker, rounds| Notice::Left(v1::Left { worker, rounds });
    assert_eq!(all[0].notice().await.unwrap(), left(1, 8));
    all[2].stopped(run, 7, true).await;
    assert_eq!(all[0].notice().await.unwrap(), left(2, 7));
    all[0].stopped(run, 7, true).await;
    assert_eq!(all[0].notice().await.unwrap(), Notice::Complete(v1::Complete {}));
    life.emptied().await;

    let job = life.admit(leased(0, &["w1", "w2"])).await;
    let (mut one, two, _) = life.pair(job).await;
    two.say(Say::Failed("gave up:\nit was aborted".into())).await;
    let lost = v1::Lost { worker: 1, reason: "gave up:it was aborted".into() };
    assert_eq!(one.notice().await.unwrap(), Notice::Lost(lost));
}

/// Jobs that one switch does not sum alone get one of the parameter servers that take part.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_gets_a_parameter_server_that_takes_part() {
    for (protocol, settings) in
        [("p4inc", "[job]\naggregation = \"server\"\n"), ("atp", "[job]\n"), ("esa", "[job]\n")]
    {
        let site = Site::of(protocol, "");
        let mut life = site.live().await;
        let aggregation = v1::Aggregation::Unspecified.into();
        let settings = settings.to_owned();
        let request = || v1::AdmitRequest {
            aggregation,
            size: 0,
            settings: settings.clone(),
            ..leased(0, &["w1", "w2"])
        };
        let status = life.client.admit(request()).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "there may be one later");
        let why = "the job needs a parameter server, and no host has one that takes part; start";
        assert!(status.message().contains(why), "{status}");

        let mut server = Taking::server(&life.address, "ps").await.unwrap();
        // It names itself, and is then there.
        let job = loop {
            match life.client.admit(request()).await {
                Ok(admitted) => break admitted.into_inner().job_id,
                Err(_) => sleep(Duration::from_millis(10)).await,
            }
        };
        let changed = Notice::Changed(v1::Changed {});
        assert_eq!(server.notice().await.unwrap(), changed);
        let mut server = Taking::server(&life.address, "ps").await.unwrap();
        let run = server.run().await.unwrap();
        assert_eq!((run.job, run.workers.len()), (format!("resnet#{job}"), 2));
        let (_one, _two, own) = life.pair(job).await;
        assert_eq!(run.epochs, [own.get()]);
        let kept = &site.kept.records()[0];
        let described = kept.described.as_ref().unwrap();
        assert_eq!(described.token().is_some(), protocol == "esa");
        assert_eq!(described.spec().ps, kept.placement.ps);
    }
}

/// The ID of an ESA job decides on its place in the pool, and the pool has eight of this size.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_gets_an_id_whose_place_no_other_job_uses() {
    let site = Site::of("esa", "");
    let mut life = site.live().await;
    let _server = Taking::server(&life.address, "ps").await.unwrap();
    let request = || v1::AdmitRequest {
        aggregation: v1::Aggregation::Unspecified.into(),
        size: 0,
        settings: "[job]\nslots = 8\nwindow = 8\n".into(),
        ..leased(0, &["w1", "w2"])
    };
    let long = loop {
        match life.client.admit(request()).await {
            Ok(admitted) => break admitted.into_inner().job_id,
            Err(_) => sleep(Duration::from_millis(10)).await,
        }
    };
    let mut ids = vec![long];
    for _ in 0..9 {
        let id = life.admit(request()).await;
        assert!((long - id) % 8 != 0, "{id} has the place of {long}");
        ids.push(id);
        life.client.release(v1::ReleaseRequest { job_id: id }).await.unwrap();
    }
    assert!(ids.is_sorted_by(|one, next| one > next), "{ids:?}");
    assert_eq!(long - ids[9], 10, "one was left out");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_suit_a_lease_is_refused() {
    let site = Site::new();
    let mut life = site.live().await;
    let demand = Some(v1::Demand { bits: 32, iterations: 0, aggregators: 8, update_us: 0 });
    let settings =
        |text: &str| v1::AdmitRequest { settings: text.into(), ..leased(0, &["w1", "w2"]) };
    for (request, what) in [
        (plain(0, &[]), "name the job's workers"),
        (leased(0, &["w1", "w9"]), "the network has no host `w9`"),
        (leased(0, &["w1", "10.9.9.9,10.9.9.8"]), "the network has no host `10.9.9.9,10.9.9.8`"),
        (v1::AdmitRequest { name: "x".repeat(65), ..leased(0, &["w1"]) }, "a job's name has"),
        (v1::AdmitRequest { name: "a\nb".into(), ..leased(0, &["w1"]) }, "a job's name has"),
        (v1::AdmitRequest { key: vec![1; 65], ..leased(0, &["w1"]) }, "a job's key has at most 64"),
        (settings(&" ".repeat(9000)), "the settings of a job have at most 8192 bytes"),
        (
            v1::AdmitRequest { lease: true, ..plain(7, &["w1", "w2"]) },
            "a job with a lease is one of",
        ),
        (settings("job = 3"), "the job's settings:1:7: "),
        (
            settings("[job]\nname = \"a\"\n"),
            "the job's settings:2:8: `name` follows from who takes part",
        ),
        (settings("[job]\nslots = 3\n"), "the job's settings:2:9: 3 slots are not a power of two"),
        (settings("[switch]\n"), "the job's settings:1:2: unknown key `switch`"),
        (
            settings("[job]\nworkload = { kind = \"random\" }\n"),
            "the job's settings:2:12: `workload` is for workers that sum by themselves",
        ),
        (
            v1::AdmitRequest { lease: false, ..settings(FILES) },
            "the job's settings:2:12: only the controller's job file names files",
        ),
    ] {
        let status = life.client.admit(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().starts_with(what), "{}", status.message());
    }
    let both = v1::AdmitRequest { demand, ..leased(7, &["w1", "w2"]) };
    let status = life.client.admit(both).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().starts_with("job 7 has a lease, so it has no iterations"), "{status}");
    assert!(life.jobs().await.is_empty());

    let run = life.admit(leased(0, &["w1", "w2"])).await;
    let unleased = life.admit(plain(3, &["w3", "w4"])).await;
    let next = life.admit(leased(0, &["w1", "w3"])).await;
    assert_eq!((run, unleased, next), (FIRST, 3, FIRST - 1));
    // Who has admitted a job without settings has not said what its workers need.
    let closed =
        Taking::of_admitted(&life.address, 3, b"", 0, 0).await.err().expect("it is refused");
    assert_eq!(closed.code(), Code::NotFound);
    let _workers = life.pair(run).await;
    let job_id = run;
    let start = v1::StartIterationRequest { job_id, number: 1 };
    let rate = v1::SetRateRequest { job_id, rate: 1 };
    let there = v1::MoveRequest { job_id, aggregation: v1::Aggregation::Network.into(), size: 32 };
    let refusals = [
        (life.client.start_iteration(start).await.unwrap_err(), "job 65535: its workers sum when"),
        (life.client.set_rate(rate).await.unwrap_err(), "job 65535 has a lease"),
        (life.client.r#move(there).await.unwrap_err(), "job 65535: its workers sum when"),
    ];
    for (status, what) in refusals {
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert!(status.message().starts_with(what), "{}", status.message());
    }
}

/// The workers of a job with iterations, whose rounds a client lets begin.
#[tokio::test(flavor = "multi_thread")]
async fn workers_follow_the_iterations_of_their_job() {
    let site = Site::new();
    let mut life = site.live().await;
    let mut address = life.address.clone();
    // The job is known, and nobody has admitted it.
    let early = Taking::worker(&address, "job1", 0, 0).await.err().unwrap();
    assert_eq!((early.code(), early.message()), (Code::Aborted, "job job1 is not admitted yet"));
    let aggregation = v1::Aggregation::Network.into();
    let (job_id, size, stepped) = (1, 8, true);
    let workers = ["w1", "w2", "w3", "w4"].map(str::to_owned).into();
    let served = v1::AdmitRequest { workers, parameter_server: "ps".into(), ..Default::default() };
    let request = v1::AdmitRequest { job_id, aggregation, size, stepped, ..served };
    let admitted = life.client.admit(request).await.unwrap().into_inner();
    let epoch = Epoch::new(admitted.epoch).unwrap();
    // An iteration that begins before its workers come waits for them.
    let start = async |life: &mut Life, number| {
        let request = v1::StartIterationRequest { job_id, number };
        life.client.start_iteration(request).await.unwrap();
    };
    start(&mut life, 1).await;
    let mut server = Taking::server(&address, "ps").await.unwrap();
    let mut workers = Vec::new();
    for worker in 0..4 {
        workers.push(Taking::worker(&address, "job1", worker, 0).await.unwrap());
    }
    for worker in &mut workers {
        assert_eq!(worker.epoch().await.unwrap(), epoch);
        let turn = worker.turn().await.unwrap();
        assert_eq!((turn.number, turn.running, turn.reported), (1, true, false));
        assert_eq!(turn.assignment, admitted.assignment);
    }
    assert!(matches!(server.turn().await, Ok(v1::Turn { running: true, .. })));
    // Only the worker that reports is told that it is recorded.
    workers[2].finish(epoch, 1).await;
    let turn = workers[2].turn().await.unwrap();
    assert_eq!((turn.number, turn.running, turn.reported), (1, true, true));
    // What it says of another run, or of an iteration that has not begun, is nothing.
    workers[0].finish(Epoch::FIRST, 1).await;
    workers[0].finish(epoch, 2).await;

    // A controller that is killed goes on in the middle, and workers say again what it may not have heard.
    drop(life);
    let mut life = site.live().await;
    address = life.address.clone();
    let mut again = Vec::new();
    for worker in 0..4 {
        let mut back = Taking::worker(&address, "job1", worker, epoch.get()).await.unwrap();
        let turn = back.turn().await.unwrap();
        assert_eq!((turn.number, turn.running, turn.reported), (1, true, worker == 2));
        if worker != 2 {
            back.finish(epoch, 1).await;
        }
        again.push(back);
    }
    let mut ended = async |worker: usize| {
        loop {
            let turn = again[worker].turn().await.unwrap();
            if !turn.running {
                return turn.number;
            }
        }
    };
    for worker in 0..4 {
        assert_eq!(ended(worker).await, 1);
    }
    // Moved, the job has another assignment before its next iteration.
    let aggregation = v1::Aggregation::Network.into();
    let moved = v1::MoveRequest { job_id, aggregation, size: 16 };
    let moved = life.client.r#move(moved).await.unwrap().into_inner().assignment;
    assert_ne!(moved, admitted.assignment);
    start(&mut life, 2).await;
    for worker in &mut again {
        let turn = worker.turn().await.unwrap();
        assert_eq!((turn.number, turn.running, turn.assignment), (1, false, moved));
        let turn = worker.turn().await.unwrap();
        assert_eq!((turn.number, turn.running, turn.assignment), (2, true, moved));
    }

    // A release is told, and also to who was away at that time.
    let gone = again.pop().unwrap();
    drop(gone);
    life.client.release(v1::ReleaseRequest { job_id }).await.unwrap();
    for mut worker in again {
        let Notice::Over(why) = worker.notice().await.unwrap() else { panic!("it is over") };
        assert_eq!(why, "the controller has released job job1");
    }
    let back = Taking::worker(&address, "job1", 3, epoch.get()).await.err().unwrap();
    let said = (Code::FailedPrecondition, "the controller has released job job1");
    assert_eq!((back.code(), back.message()), said);
}

/// A worker that waits for the others learns of another controller by its set-up, which must be the one that it had.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_moves_before_its_workers_come_stays_the_same_for_them() {
    let site = Site::new();
    let mut life = site.live().await;
    let (job_id, size, stepped) = (1, 8, true);
    let workers = ["w1", "w2"].map(str::to_owned).into();
    let served = v1::AdmitRequest { workers, parameter_server: "ps".into(), ..Default::default() };
    let aggregation = v1::Aggregation::Server.into();
    let request = v1::AdmitRequest { job_id, aggregation, size, stepped, ..served };
    let admitted = life.client.admit(request).await.unwrap().into_inner();
    let setups = async |life: &Life| {
        let mut worker = Taking::worker(&life.address, "job1", 0, 0).await.unwrap();
        let mut server = Taking::server(&life.address, "ps").await.unwrap();
        (worker.setup().await.unwrap(), server.setup().await.unwrap())
    };
    let before = setups(&life).await;
    let there = v1::MoveRequest { job_id, aggregation: v1::Aggregation::Network.into(), size };
    let moved = life.client.r#move(there).await.unwrap().into_inner();
    assert_ne!(moved.assignment, admitted.assignment);
    drop(life);
    let life = site.live().await;
    assert_eq!(setups(&life).await, before);
    // The turn tells where it is.
    let mut pair = Vec::new();
    for worker in 0..2 {
        pair.push(Taking::worker(&life.address, "job1", worker, 0).await.unwrap());
    }
    for worker in &mut pair {
        assert_eq!(worker.turn().await.unwrap().assignment, moved.assignment);
    }
}

/// The endpoints of a host learn of the jobs that come and go.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_is_told_when_it_has_other_jobs() {
    let site = Site::new();
    let mut life = site.live().await;
    let mut server = Taking::server(&life.address, "ps").await.unwrap();
    let aggregation = v1::Aggregation::Network.into();
    let workers = ["w1", "w3"].map(str::to_owned).into();
    let served = v1::AdmitRequest { workers, parameter_server: "ps".into(), ..Default::default() };
    let request = v1::AdmitRequest { job_id: 1, aggregation, size: 8, ..served };
    // One without a server on the host is none of its business.
    life.admit(plain(7, &["w1", "w2"])).await;
    life.client.admit(request).await.unwrap();
    assert!(matches!(server.notice().await.unwrap(), Notice::Changed(_)));
    let mut server = Taking::server(&life.address, "ps").await.unwrap();
    assert_eq!(server.run().await.unwrap().job, "job1");
    life.client.release(v1::ReleaseRequest { job_id: 1 }).await.unwrap();
    assert!(matches!(server.notice().await.unwrap(), Notice::Changed(_)));
}
