//! Jobs that go on without workers that die, and controllers that end at every point of the change.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::timeout;
use tributary_access::{Door, Listen, Remote, Server};
use tributary_api::jobs::v1;
use tributary_api::jobs::v1::take_response::Notice;
use tributary_controller::client::SwitchConfig;
use tributary_controller::jobs::Controller;
use tributary_controller::ports::PortMap;
use tributary_controller::server::LIMITS;
use tributary_controller::service::{Jobs, Journal, Record};
use tributary_model::Deployment;
use tributary_model::job::Handover;
use tributary_model::jobfile::parse;
use tributary_model::{Scenario, plan::Placement};
use tributary_wire::{Epoch, JobId};

use crate::embedded::taking::{SOON, Taking};
use crate::embedded::{Cables, Running, embedded};
use crate::support::{self, Kit, free_port};

/// Outlives the controllers of a test, as a file does. The controller ends when a record is written that the
/// test does not let pass.
#[derive(Debug, Default)]
struct Kept {
    records: Mutex<BTreeMap<JobId, Record>>,
    /// Whether a handover is refused, as if the controller had been killed just before.
    stuck: Mutex<bool>,
    /// How many handovers cannot be written.
    full: Mutex<u32>,
}

impl Journal for Kept {
    fn keep(&self, record: &Record) -> Result<(), String> {
        if record.handover.is_some() && *self.stuck.lock().unwrap() {
            // The thread of the runtime that is about to be dropped.
            loop {
                // A thread may be unparked for other reasons.
                std::thread::park();
            }
        }
        let mut full = self.full.lock().unwrap();
        if record.handover.is_some() && *full > 0 {
            *full -= 1;
            return Err("the disk is full".into());
        }
        self.records.lock().unwrap().insert(record.placement.job, record.clone());
        Ok(())
    }

    fn forget(&self, job: JobId) -> Result<(), String> {
        self.records.lock().unwrap().remove(&job);
        Ok(())
    }

    fn lasts(&self) -> bool {
        true
    }
}

/// A switch, and a job file with one job of three workers, of which one must be left.
struct Site {
    scenario: Scenario,
    port: u16,
    kept: Arc<Kept>,
    directory: TempDir,
    _switch: (Running, Cables),
}

/// A controller in a runtime of its own, with which all that it does ends.
struct Life {
    runtime: Option<tokio::runtime::Runtime>,
    controller: Arc<Controller>,
    _server: Server,
}

impl Drop for Life {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Site {
    fn new() -> Self {
        let text = "[switch]\npool = 64\n[[job]]\nname = \"long\"\nworkers = 3\n\
                    on_death = \"continue\"\n";
        let scenario = parse(text, "test").unwrap_or_else(|error| panic!("{error}"));
        let port = free_port();
        let _switch = embedded().start(port);
        let directory = tempfile::tempdir().unwrap();
        Self { scenario, port, kept: Arc::default(), directory, _switch }
    }

    fn job(&self) -> JobId {
        self.scenario.jobs[0].id
    }

    fn handover(&self) -> Option<Handover> {
        self.kept.records.lock().unwrap()[&self.job()].handover
    }

    fn address(&self) -> Remote {
        let socket = self.directory.path().join("runs.sock");
        Remote::new(&format!("unix:{}", socket.display()), None).unwrap().unwrap()
    }

    /// Starts a controller, which takes over what the journal has.
    async fn start(&self, election_id: u128) -> Life {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.unwrap();
        let records: Vec<Record> = self.kept.records.lock().unwrap().values().cloned().collect();
        let resumed: Vec<_> =
            records.iter().map(|record| (record.placement.clone(), record.slot)).collect();
        let configs = vec![SwitchConfig { election_id, ..support::config("s1", self.port) }];
        let scenario = self.scenario.clone();
        let (topology, job) = (scenario.network.topology.clone(), scenario.jobs[0].clone());
        let kept = Arc::clone(&self.kept);
        let socket = self.directory.path().join("runs.sock");
        let start = async move {
            let (ports, pipeline) = (PortMap::default(), embedded().pipeline());
            let controller =
                Controller::resume(&topology, &ports, configs, &pipeline, &resumed, |_| {}).await;
            let controller = controller.unwrap();
            if resumed.is_empty() {
                let epoch = controller.issue().await.unwrap();
                let placement = Placement { epoch, ..Placement::unassigned(&job) };
                controller.admit(&placement).await.unwrap();
            }
            let controller = Arc::new(controller);
            let deployment = Deployment::new(scenario).unwrap();
            let jobs = Jobs::resume(Arc::clone(&controller), deployment, &records, kept);
            let door = Door::unlocked(Listen::Unix(socket));
            let server = Server::start(jobs.service(), door, LIMITS).await.unwrap();
            (controller, server)
        };
        let (controller, _server) = runtime.spawn(start).await.unwrap();
        Life { runtime: Some(runtime), controller, _server }
    }

    /// All workers begin a run.
    async fn begin(&self) -> (Epoch, [Worker; 3]) {
        let mut workers = Vec::new();
        for index in 0..3 {
            workers.push(Worker::take(self, index, 0).await);
        }
        let mut epoch = None;
        for worker in &mut workers {
            let run = worker.goes_on().await;
            assert_eq!((&run.workers[..], run.rounds), (&[0, 1, 2][..], 0));
            assert!(epoch.is_none_or(|epoch| epoch == run.epochs[0]));
            epoch = Some(run.epochs[0]);
        }
        let workers = workers.try_into().ok().expect("there are three");
        (Epoch::new(epoch.unwrap()).unwrap(), workers)
    }
}

const PAUSE: Duration = Duration::from_millis(50);

/// A worker that takes part, and calls again when its stream breaks in a run.
struct Worker {
    address: Remote,
    index: u32,
    epoch: u32,
    said: Option<(Epoch, u64, bool)>,
    taking: Taking,
}

impl Worker {
    async fn take(site: &Site, index: u32, epoch: u32) -> Self {
        let address = site.address();
        let taking = Taking::worker(&address, "long", index, epoch).await.unwrap();
        Self { address, index, epoch, said: None, taking }
    }

    async fn notice(&mut self) -> Notice {
        loop {
            match self.taking.notice().await {
                Ok(Notice::Run(run)) => {
                    self.epoch = run.epochs[0];
                    return Notice::Run(run);
                }
                Ok(notice) => return notice,
                Err(status) if status.code() == tonic::Code::FailedPrecondition => {
                    return Notice::Over(status.message().to_owned());
                }
                Err(_) => self.call_again().await,
            }
        }
    }

    async fn call_again(&mut self) {
        let again = async {
            loop {
                match Taking::worker(&self.address, "long", self.index, self.epoch).await {
                    Ok(taking) => return taking,
                    Err(_) => tokio::time::sleep(PAUSE).await,
                }
            }
        };
        self.taking = timeout(SOON, again).await.expect("a controller answers");
        if let Some((epoch, rounds, done)) = self.said {
            self.taking.stopped(epoch, rounds, done).await;
        }
    }

    async fn say(&mut self, rounds: u64, done: bool) {
        let epoch = Epoch::new(self.epoch).unwrap();
        self.said = Some((epoch, rounds, done));
        self.taking.stopped(epoch, rounds, done).await;
    }

    async fn hears_of(&mut self, lost: u32) {
        loop {
            match self.notice().await {
                Notice::Lost(v1::Lost { worker, .. }) => return assert_eq!(worker, lost),
                Notice::Waiting(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// What ends the run, or the next one.
    async fn verdict(&mut self) -> Notice {
        loop {
            match self.notice().await {
                Notice::Lost(_) | Notice::Waiting(_) => {}
                other => return other,
            }
        }
    }

    async fn goes_on(&mut self) -> v1::Run {
        match self.verdict().await {
            Notice::Run(next) => next,
            other => panic!("{other:?}"),
        }
    }

    fn die(self) {}
}

fn complete() -> Notice {
    Notice::Complete(v1::Complete {})
}

fn run(epochs: &v1::Run) -> Epoch {
    Epoch::new(epochs.epochs[0]).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_waits_for_a_journal_that_cannot_be_written() {
    let site = Site::new();
    *site.kept.full.lock().unwrap() = 2;
    let _life = site.start(1).await;
    let (first, [mut one, two, mut three]) = site.begin().await;
    two.die();
    one.say(4, false).await;
    three.say(4, false).await;
    let next = one.goes_on().await;
    assert_eq!(next, three.goes_on().await);
    assert_eq!(site.handover(), Some(Handover { before: first, rounds: 4 }));
    assert_eq!(*site.kept.full.lock().unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_goes_on_from_the_least_round_again_and_again_until_all_have_all_sums() {
    let site = Site::new();
    let life = site.start(1).await;
    let (first, [mut one, two, mut three]) = site.begin().await;
    two.die();
    one.hears_of(1).await;
    three.hears_of(1).await;
    three.say(5, true).await;
    one.say(4, false).await;
    let next = one.goes_on().await;
    assert_eq!(next, three.goes_on().await);
    assert_eq!((&next.workers[..], next.rounds), (&[0, 2][..], 4));
    assert!(run(&next).is_after(first));
    assert_eq!(site.handover(), Some(Handover { before: first, rounds: 4 }));
    // Its server serves the same run.
    let mut server = Taking::server(&site.address(), "ps").await.unwrap();
    assert_eq!(server.run().await.unwrap(), next);
    let (placement, _) = life.controller.placement(site.job()).unwrap();
    let hosts = &site.scenario.jobs[0].workers;
    assert_eq!(placement.workers, [hosts[0], hosts[2]]);
    // It comes back, and nobody waits for it.
    for epoch in [0, first.get()] {
        let stale = Worker::take(&site, 1, epoch).await.verdict().await;
        assert!(
            matches!(&stale, Notice::Over(why) if why.contains("without worker 1")),
            "{stale:?}"
        );
    }
    one.die();
    three.hears_of(0).await;
    three.say(4, false).await;
    let last = three.goes_on().await;
    assert_eq!((&last.workers[..], last.rounds), (&[2][..], 4));
    three.say(5, true).await;
    assert_eq!(three.verdict().await, complete());
    // All three begin the next run.
    let (after, mut workers) = site.begin().await;
    assert!(after.is_after(run(&last)));
    assert_eq!(site.handover(), None);
    for worker in &mut workers {
        worker.say(5, true).await;
    }
    for worker in &mut workers {
        assert_eq!(worker.verdict().await, complete());
    }
}

/// Nobody was told, so it decides again: another worker has died meanwhile, and the rest has more rounds.
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_ends_before_its_decision_is_recorded_decides_again() {
    let site = Site::new();
    let life = site.start(1).await;
    let (first, [mut one, two, mut three]) = site.begin().await;
    *site.kept.stuck.lock().unwrap() = true;
    two.die();
    one.hears_of(1).await;
    one.say(4, false).await;
    three.say(3, false).await;
    // Until switches have another run, which is recorded next.
    let changed = async {
        while life.controller.placement(site.job()).unwrap().0.workers.len() == 3
            || !life.controller.serves(site.job())
        {
            tokio::time::sleep(PAUSE).await;
        }
    };
    timeout(SOON, changed).await.expect("switches change");
    assert_eq!(site.handover(), None);
    drop(life);
    three.die();
    *site.kept.stuck.lock().unwrap() = false;
    let _life = site.start(2).await;
    let next = one.goes_on().await;
    assert_eq!((&next.workers[..], next.rounds), (&[0][..], 4));
    assert_eq!(site.handover(), Some(Handover { before: first, rounds: 4 }));
}

/// One worker was told. The other is told the same, whatever it says now.
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_ends_after_its_decision_is_recorded_tells_the_same() {
    let site = Site::new();
    let life = site.start(1).await;
    let (first, [mut one, two, mut three]) = site.begin().await;
    two.die();
    one.say(4, false).await;
    three.say(3, false).await;
    let next = one.goes_on().await;
    drop(life);
    three.die();
    let _life = site.start(2).await;
    let mut again = Worker::take(&site, 2, first.get()).await;
    again.said = Some((first, 7, true));
    again.taking.stopped(first, 7, true).await;
    assert_eq!(again.goes_on().await, next);
    assert_eq!((&next.workers[..], next.rounds), (&[0, 2][..], 3));
    // They go on.
    one.say(9, true).await;
    again.say(9, true).await;
    assert_eq!((one.verdict().await, again.verdict().await), (complete(), complete()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_does_not_call_after_the_controller_was_started_again_has_died() {
    let site = Site::new();
    let life = site.start(1).await;
    let (_, [mut one, two, mut three]) = site.begin().await;
    drop(life);
    two.die();
    let _life = site.start(2).await;
    // Both call again at once.
    tokio::join!(one.hears_of(1), three.hears_of(1));
    one.say(2, false).await;
    three.say(3, false).await;
    let next = one.goes_on().await;
    assert_eq!(next, three.goes_on().await);
    assert_eq!((&next.workers[..], next.rounds), (&[0, 2][..], 2));
}
