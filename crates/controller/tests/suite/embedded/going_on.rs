//! Jobs that go on without workers that die, and controllers that end at every point of the change.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tributary_access::{Door, Listen, Remote, Server};
use tributary_controller::Error;
use tributary_controller::client::SwitchConfig;
use tributary_controller::jobs::Controller;
use tributary_controller::ports::PortMap;
use tributary_controller::runs::{
    Attended, Attendee, Continuation, Runs, Standing, Team, Verdict, ask, attend,
};
use tributary_controller::scheduler::{Handover, Journal, Record};
use tributary_controller::server::LIMITS;
use tributary_jobfile::parse;
use tributary_model::{Scenario, plan::Placement};
use tributary_wire::{Epoch, JobId, WorkerIndex, WorkerSet};

use crate::embedded::{Cables, Running, embedded};
use crate::support::{self, Kit, free_port};

/// Longer than the controller waits for workers that have not called.
const SOON: Duration = Duration::from_secs(20);

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
        let (topology, job) =
            (self.scenario.network.topology.clone(), self.scenario.jobs[0].clone());
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
            let (placement, _) = controller.placement(job.id).unwrap();
            let handover = records.first().and_then(|record| record.handover);
            let teams = BTreeMap::from([(job.id, Team::new(&job, &placement, handover))]);
            let controller = Arc::new(controller);
            let runs = Runs::with_teams(Arc::clone(&controller), kept, teams);
            let door = Door::unlocked(Listen::Unix(socket));
            let server = Server::start(runs.service(), door, LIMITS).await.unwrap();
            (controller, server)
        };
        let (controller, _server) = runtime.spawn(start).await.unwrap();
        Life { runtime: Some(runtime), controller, _server }
    }

    /// All workers begin a run.
    async fn begin(&self) -> (Epoch, [Worker; 3]) {
        let joining = [0, 1, 2].map(|worker| {
            let (address, job) = (self.address(), self.job());
            tokio::spawn(async move { ask(&address, job, Some(index(worker)), |_| {}).await })
        });
        let mut epoch = None;
        for joining in joining {
            let begun = timeout(SOON, joining).await.expect("the run begins").unwrap().unwrap();
            assert_eq!(begun.workers, None);
            assert!(epoch.is_none_or(|epoch| epoch == begun.epoch));
            epoch = Some(begun.epoch);
        }
        let epoch = epoch.unwrap();
        (epoch, [0, 1, 2].map(|worker| self.worker(worker, epoch)))
    }

    /// A worker that takes part in a run, and calls again when its call breaks.
    fn worker(&self, worker: u16, epoch: Epoch) -> Worker {
        let (address, run) = (self.address(), self.job().run(epoch));
        let (standing, mut said) = watch::channel(None);
        let (lost, loss) = watch::channel(None);
        let attendee = Attendee { run, worker: index(worker), goes_on: true };
        let task = tokio::spawn(async move {
            loop {
                let tell = |other| {
                    lost.send_replace(Some(other));
                };
                match attend(&address, attendee, &mut said, tell).await {
                    Ok(Attended::Decided(verdict)) => return verdict,
                    Ok(other) => panic!("{other:?}"),
                    Err(Error::Joining { .. }) => tokio::time::sleep(PAUSE).await,
                    Err(error) => panic!("{error}"),
                }
            }
        });
        Worker { epoch, standing, loss, task }
    }
}

const PAUSE: Duration = Duration::from_millis(50);

struct Worker {
    epoch: Epoch,
    standing: watch::Sender<Option<(Epoch, Standing)>>,
    loss: watch::Receiver<Option<WorkerIndex>>,
    task: JoinHandle<Verdict>,
}

impl Worker {
    fn say(&self, rounds: u64, done: bool) {
        self.standing.send_replace(Some((self.epoch, Standing { rounds, done })));
    }

    async fn hears_of(&mut self, lost: u16) {
        let told = self.loss.wait_for(|told| *told == Some(index(lost)));
        timeout(SOON, told).await.expect("it is told").unwrap();
    }

    async fn verdict(self) -> Verdict {
        timeout(SOON, self.task).await.expect("it is decided").unwrap()
    }

    async fn goes_on(self) -> Continuation {
        match self.verdict().await {
            Verdict::GoOn(next) => next,
            other => panic!("{other:?}"),
        }
    }

    fn die(self) {
        self.task.abort();
    }
}

fn index(worker: u16) -> WorkerIndex {
    WorkerIndex::new(worker).unwrap()
}

const fn set(bits: u32) -> WorkerSet {
    WorkerSet::from_low_bits(bits)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_waits_for_a_journal_that_cannot_be_written() {
    let site = Site::new();
    *site.kept.full.lock().unwrap() = 2;
    let _life = site.start(1).await;
    let (first, [one, two, three]) = site.begin().await;
    two.die();
    one.say(4, false);
    three.say(4, false);
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
    three.say(5, true);
    one.say(4, false);
    let next = one.goes_on().await;
    assert_eq!(next, three.goes_on().await);
    assert_eq!((next.workers, next.rounds), (set(0b101), 4));
    assert!(next.epoch.is_after(first));
    assert_eq!(site.handover(), Some(Handover { before: first, rounds: 4 }));
    // Its server serves the same run.
    let begun = ask(&site.address(), site.job(), None, |_| {}).await.unwrap();
    assert_eq!((begun.epoch, begun.workers), (next.epoch, Some(set(0b101))));
    let (placement, _) = life.controller.placement(site.job()).unwrap();
    let hosts = &site.scenario.jobs[0].workers;
    assert_eq!(placement.workers, [hosts[0], hosts[2]]);
    // It comes back, and nobody waits for it.
    let refused = |joined: Result<_, Error>| joined.unwrap_err().to_string();
    let [one, mut three] = [0, 2].map(|worker| site.worker(worker, next.epoch));
    tokio::time::sleep(PAUSE * 4).await;
    let back = ask(&site.address(), site.job(), Some(index(1)), |_| {}).await;
    assert!(refused(back).contains("job long goes on without worker 1"));
    let stale = site.worker(1, first).verdict().await;
    assert!(matches!(&stale, Verdict::Over(why) if why.contains("without worker 1")), "{stale:?}");
    one.die();
    three.hears_of(0).await;
    three.say(4, false);
    let last = three.goes_on().await;
    assert_eq!((last.workers, last.rounds), (set(0b100), 4));
    let three = site.worker(2, last.epoch);
    three.say(5, true);
    assert_eq!(three.verdict().await, Verdict::Complete);
    // All three begin the next run.
    let (after, workers) = site.begin().await;
    assert!(after.is_after(last.epoch));
    assert_eq!(site.handover(), None);
    workers.iter().for_each(|worker| worker.say(5, true));
    for worker in workers {
        assert_eq!(worker.verdict().await, Verdict::Complete);
    }
}

/// Nobody was told, so it decides again: another worker has died meanwhile, and the rest has more rounds.
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_ends_before_its_decision_is_recorded_decides_again() {
    let site = Site::new();
    let life = site.start(1).await;
    let (first, [mut one, two, three]) = site.begin().await;
    *site.kept.stuck.lock().unwrap() = true;
    two.die();
    one.hears_of(1).await;
    one.say(4, false);
    three.say(3, false);
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
    assert_eq!((next.workers, next.rounds), (set(0b001), 4));
    assert_eq!(site.handover(), Some(Handover { before: first, rounds: 4 }));
}

/// One worker was told. The other is told the same, whatever it says now.
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_ends_after_its_decision_is_recorded_tells_the_same() {
    let site = Site::new();
    let life = site.start(1).await;
    let (first, [one, two, three]) = site.begin().await;
    two.die();
    one.say(4, false);
    three.say(3, false);
    let next = one.goes_on().await;
    drop(life);
    three.die();
    let _life = site.start(2).await;
    let again = site.worker(2, first);
    again.say(7, true);
    assert_eq!(again.goes_on().await, next);
    assert_eq!((next.workers, next.rounds), (set(0b101), 3));
    // They go on.
    let [one, three] = [0, 2].map(|worker| site.worker(worker, next.epoch));
    one.say(9, true);
    three.say(9, true);
    assert_eq!(
        (one.verdict().await, three.verdict().await),
        (Verdict::Complete, Verdict::Complete)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_does_not_call_after_the_controller_was_started_again_has_died() {
    let site = Site::new();
    let life = site.start(1).await;
    let (_, [mut one, two, mut three]) = site.begin().await;
    drop(life);
    two.die();
    let _life = site.start(2).await;
    one.hears_of(1).await;
    three.hears_of(1).await;
    one.say(2, false);
    three.say(3, false);
    let next = one.goes_on().await;
    assert_eq!(next, three.goes_on().await);
    assert_eq!((next.workers, next.rounds), (set(0b101), 2));
}
