//! A controller with a journal that is killed (SIGKILL) at any point of a change: after any piece of what it
//! sends to its switch. What it had acknowledged is there when it is started again; what it had not is there
//! entirely or not at all; and nothing leaks.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tonic::Status;
use tonic::transport::Channel;
use tributary_access::Remote;
use tributary_api::jobs::v1;
use tributary_api::jobs::v1::jobs_client::JobsClient;
use tributary_controller::client::{Client, SwitchConfig, Target};
use tributary_p4runtime::p4::v1::{
    Entity, MulticastGroupEntry, PacketReplicationEngineEntry, TableEntry, entity,
    packet_replication_engine_entry,
};
use tributary_run::testbed::Stream;

use crate::by_hand::{Net, ended, freed, until};
use crate::command::{JobFile, namespaces, tributary};
use crate::on_demand::switch;

const POOL: u32 = 64;

const FILE: &str = "protocol = \"p4inc\"\n[topology]\nkind = \"star\"\nworkers = 4\nps_hosts = 1\n\
                    [switch]\npool = 64\n[[job]]\nworkers = [\"w1\", \"w2\"]\nsegment = 16\nwindow = 8\n\
                    slots = 8\nworkload = { kind = \"random\", tensors = 1, elements = 10 }\n";

/// Time limit of each wait.
const SOON: Duration = Duration::from_secs(30);

/// Kills without `TRIBUTARY_SEEDS`.
const KILLS: usize = 12;

/// Passes what the controller sends to the switch, until it kills the controller after a number of pieces.
struct Trap {
    pieces: Arc<AtomicI64>,
    /// The process to kill; 0 for none.
    victim: Arc<AtomicU32>,
}

impl Trap {
    fn between(near: &Path, far: &Path) -> Self {
        let listener = UnixListener::bind(near).unwrap();
        let far = far.to_owned();
        let pieces = Arc::new(AtomicI64::new(0));
        let victim = Arc::new(AtomicU32::new(0));
        let own = Self { pieces: Arc::clone(&pieces), victim: Arc::clone(&victim) };
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let far = UnixStream::connect(&far).unwrap();
                let ends = [(&near, &far), (&far, &near)];
                for (way, (from, to)) in ends.into_iter().enumerate() {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let trap = Self { pieces: Arc::clone(&pieces), victim: Arc::clone(&victim) };
                    std::thread::spawn(move || trap.carry(from, to, way == 0));
                }
            }
        });
        own
    }

    /// Kills a process at the given piece from now on: before it passes if the number is even, after it if it
    /// is odd.
    fn set(&self, victim: u32, pieces: i64) {
        self.pieces.store(pieces, Ordering::SeqCst);
        self.victim.store(victim, Ordering::SeqCst);
    }

    fn unset(&self) {
        self.victim.store(0, Ordering::SeqCst);
    }

    fn carry(&self, mut from: UnixStream, mut to: UnixStream, counts: bool) {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            let left = if counts { self.pieces.fetch_sub(1, Ordering::SeqCst) } else { i64::MAX };
            if left == 0 {
                self.spring();
            }
            if to.write_all(&buffer[..length]).is_err() {
                break;
            }
            if left == 1 {
                self.spring();
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Both);
    }

    fn spring(&self) {
        let victim = self.victim.swap(0, Ordering::SeqCst);
        if victim != 0 {
            kill(Pid::from_raw(victim.cast_signed()), Signal::SIGKILL).unwrap();
        }
    }
}

/// A job as a client sees it.
#[derive(Clone, PartialEq, Debug)]
struct Seen {
    epoch: u32,
    assignment: v1::Assignment,
    iteration: u64,
    unfinished: Vec<u32>,
    rate: u64,
}

type Jobs = BTreeMap<u32, Seen>;

/// A request of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    Admit(u32),
    Release(u32),
    Move(u32, v1::Aggregation, u32),
    Rate(u32, u64),
    Start(u32),
    Finish(u32, u32),
}

impl Act {
    fn job(self) -> u32 {
        match self {
            Self::Admit(job) | Self::Release(job) | Self::Move(job, ..) => job,
            Self::Rate(job, _) | Self::Start(job) | Self::Finish(job, _) => job,
        }
    }

    /// A request that may succeed.
    fn draw(random: &mut ChaCha8Rng, jobs: &Jobs) -> Self {
        let job = random.random_range(1..=3);
        let Some(seen) = jobs.get(&job) else { return Self::Admit(job) };
        if let Some(worker) = seen.unfinished.first() {
            return Self::Finish(job, *worker);
        }
        match random.random_range(0..7) {
            0 => Self::Release(job),
            1 => Self::Rate(job, random.random_range(1..1_000) * 1_000),
            2 => Self::Start(job),
            3 => Self::Move(job, v1::Aggregation::Server, 0),
            _ => Self::Move(job, v1::Aggregation::Network, random.random_range(4..=24)),
        }
    }

    /// What a job may be after this request, if it was carried out.
    fn allows(self, before: Option<&Seen>, after: Option<&Seen>, epochs: &BTreeSet<u32>) -> bool {
        let changed = |change: &dyn Fn(&mut Seen)| {
            let mut expected = before.cloned();
            expected.iter_mut().for_each(change);
            expected.as_ref() == after
        };
        match (self, before, after) {
            (Self::Admit(_), None, Some(seen)) => {
                // No run has an epoch of another.
                let later = epochs.iter().all(|epoch| *epoch < seen.epoch);
                later && seen.iteration == 0 && seen.rate == 0
            }
            (Self::Release(_), Some(_), None) => true,
            (Self::Move(_, to, size), Some(before), Some(after)) => {
                let moved = after.assignment.size == size
                    && (to == v1::Aggregation::Server) == (after.assignment.service_id == 0);
                let kept = Seen { assignment: after.assignment, ..before.clone() };
                moved && *after == kept
            }
            (Self::Rate(_, rate), ..) => changed(&|seen| seen.rate = rate),
            (Self::Start(_), ..) => changed(&|seen| {
                seen.iteration += 1;
                seen.unfinished = vec![0, 1];
            }),
            (Self::Finish(_, worker), ..) => {
                changed(&|seen| seen.unfinished.retain(|other| *other != worker))
            }
            _ => false,
        }
    }
}

struct Site {
    file: JobFile,
    trap: Trap,
    runtime: tokio::runtime::Runtime,
    client: JobsClient<Channel>,
    /// All epochs that were ever seen.
    epochs: BTreeSet<u32>,
}

impl Site {
    fn start(&self) -> Child {
        let at = format!("s1=unix:{}", self.file.path("trap.sock").display());
        let listen = format!("unix:{}", self.file.path("jobs.sock").display());
        let journal = self.file.path("journal.redb").display().to_string();
        let name = self.file.name();
        let args = ["controller", &name, "--switch", &at, "--listen", &listen];
        let more = ["--on-demand", "--journal", &journal];
        let mut command = tributary(&[&args[..], &more].concat());
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// All jobs, and the free aggregators; `None` if the controller does not answer.
    fn list(&mut self) -> Option<(Jobs, u32)> {
        let request = async { self.client.list(v1::ListRequest {}).await };
        let v1::ListResponse { jobs, memory } = self.runtime.block_on(request).ok()?.into_inner();
        let seen = |job: v1::Job| {
            let iteration = job.iteration.unwrap();
            let seen = Seen {
                epoch: job.epoch,
                assignment: job.assignment.unwrap(),
                iteration: iteration.number,
                unfinished: iteration.unfinished,
                rate: job.rate,
            };
            (job.job_id, seen)
        };
        Some((jobs.into_iter().map(seen).collect(), memory[0].free))
    }

    /// Waits until a controller serves; `None` if it was killed before.
    fn served(&mut self, controller: &mut Child) -> Option<(Jobs, u32)> {
        let deadline = Instant::now() + SOON;
        loop {
            if let Some(listed) = self.list() {
                return Some(listed);
            }
            if let Some(status) = controller.try_wait().unwrap() {
                use std::os::unix::process::ExitStatusExt as _;
                let mut errors = String::new();
                controller.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
                assert_eq!(status.signal(), Some(9), "{errors}");
                return None;
            }
            assert!(Instant::now() < deadline, "it does not serve");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn carry_out(&mut self, act: Act) -> Result<(), Status> {
        let job_id = act.job();
        let client = &mut self.client;
        self.runtime.block_on(async {
            match act {
                Act::Admit(_) => {
                    let request = v1::AdmitRequest {
                        stepped: true,
                        job_id,
                        workers: vec!["w1".into(), "w2".into()],
                        parameter_server: "ps".into(),
                        aggregation: v1::Aggregation::Network.into(),
                        size: 16,
                        ..v1::AdmitRequest::default()
                    };
                    client.admit(request).await.map(drop)
                }
                Act::Release(_) => client.release(v1::ReleaseRequest { job_id }).await.map(drop),
                Act::Move(_, to, size) => {
                    let aggregation = to.into();
                    client.r#move(v1::MoveRequest { job_id, aggregation, size }).await.map(drop)
                }
                Act::Rate(_, rate) => {
                    client.set_rate(v1::SetRateRequest { job_id, rate }).await.map(drop)
                }
                Act::Start(_) => {
                    let request = v1::StartIterationRequest { job_id, number: 0 };
                    client.start_iteration(request).await.map(drop)
                }
                Act::Finish(_, worker) => {
                    let number = client.list(v1::ListRequest {}).await?.into_inner().jobs;
                    let number = number.iter().find(|job| job.job_id == job_id);
                    let number = number.and_then(|job| job.iteration.as_ref()).unwrap().number;
                    let request = v1::FinishIterationRequest { job_id, number, worker };
                    client.finish_iteration(request).await.map(drop)
                }
            }
        })
    }

    /// All entries and groups of the switch.
    fn entries(&self) -> BTreeSet<String> {
        let address = format!("unix:{}", self.file.path("switch.sock").display());
        let config = SwitchConfig::new("s1", Target::Address(address));
        let table = TableEntry::default();
        let group = packet_replication_engine_entry::Type::MulticastGroupEntry(
            MulticastGroupEntry::default(),
        );
        let groups = PacketReplicationEngineEntry { r#type: Some(group) };
        let entities = [
            entity::Entity::TableEntry(table),
            entity::Entity::PacketReplicationEngineEntry(groups),
        ];
        let entities = entities.map(|entity| Entity { entity: Some(entity) });
        let read = self.runtime.block_on(async {
            let client = Client::connect(Arc::new(config)).await.unwrap();
            client.read(entities.into()).await.unwrap()
        });
        read.iter().map(|entity| format!("{entity:?}")).collect()
    }

    /// Compares what a controller has with what is known from before the last request, and with that request:
    /// if it was acknowledged, it was carried out, and otherwise it may have been.
    fn compare(&mut self, known: &mut Jobs, last: Option<(Act, bool)>, listed: (Jobs, u32)) {
        let (jobs, free) = listed;
        let ids: BTreeSet<u32> = known.keys().chain(jobs.keys()).copied().collect();
        for id in ids {
            let (before, after) = (known.get(&id), jobs.get(&id));
            let last = last.filter(|(act, _)| act.job() == id);
            let carried_out = last.is_some_and(|(act, _)| act.allows(before, after, &self.epochs));
            let acknowledged = last.is_some_and(|(_, acknowledged)| acknowledged);
            let right = carried_out || !acknowledged && before == after;
            assert!(right, "job {id}, {last:?}: {before:?} → {after:?}");
        }
        let held: u32 = jobs.values().map(|seen| seen.assignment.size).sum();
        assert_eq!(free + held, POOL, "{last:?}: aggregators leak: {jobs:?}");
        self.epochs.extend(jobs.values().map(|seen| seen.epoch));
        *known = jobs;
    }
}

#[test]
fn a_controller_that_is_killed_at_any_point_keeps_its_promises() {
    let number = |name| std::env::var(name).ok().map(|text: String| text.parse().unwrap());
    let seed: u64 = number("TRIBUTARY_SEED").unwrap_or(1);
    let kills = number("TRIBUTARY_SEEDS").map_or(KILLS, |seeds| seeds as usize);
    println!("TRIBUTARY_SEED={seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let file = JobFile::new(FILE);
    let _switch = switch(&file, "switch.sock");
    let trap = Trap::between(&file.path("trap.sock"), &file.path("switch.sock"));
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    let client = {
        let _context = runtime.enter();
        let address = format!("unix:{}", file.path("jobs.sock").display());
        JobsClient::new(Remote::new(&address, None).unwrap().unwrap().connect_lazy())
    };
    let mut site = Site { file, trap, runtime, client, epochs: BTreeSet::new() };

    let mut controller = site.start();
    site.served(&mut controller).unwrap();
    let clean = site.entries();
    let (mut known, mut open) = (Jobs::new(), None);
    let (mut killed, mut in_recovery, mut in_change) = (0, 0, 0);
    while killed < kills {
        // One in three comes while the controller starts, which takes fewer pieces.
        let early = random.random_range(0..3) == 0;
        controller.kill().unwrap();
        controller.wait().unwrap();
        controller = site.start();
        if early {
            site.trap.set(controller.id(), random.random_range(1..24));
        }
        let Some(listed) = site.served(&mut controller) else {
            (killed, in_recovery) = (killed + 1, in_recovery + 1);
            continue;
        };
        site.compare(&mut known, open.take(), listed);
        site.trap.set(controller.id(), random.random_range(0..60));
        let deadline = Instant::now() + SOON;
        loop {
            assert!(Instant::now() < deadline, "nothing is sent to the switch");
            let act = Act::draw(&mut random, &known);
            let outcome = site.carry_out(act);
            let Some(listed) = site.list() else {
                open = Some((act, outcome.is_ok()));
                break;
            };
            match &outcome {
                Ok(()) => {}
                // There may be no room.
                Err(status) if matches!(act, Act::Move(..) | Act::Admit(_)) => {
                    assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{act:?}: {status}");
                }
                Err(status) => panic!("{act:?}: {status}"),
            }
            site.compare(&mut known, Some((act, outcome.is_ok())), listed);
        }
        let status = controller.wait().unwrap();
        assert!(!status.success(), "{status}");
        (killed, in_change) = (killed + 1, in_change + 1);
    }
    site.trap.unset();
    let mut controller = site.start();
    let listed = site.served(&mut controller).expect("nothing kills it");
    site.compare(&mut known, open, listed);
    println!("{killed} kills: {in_recovery} during recovery, {in_change} during changes");
    for job in known.clone().into_keys() {
        site.carry_out(Act::Release(job)).unwrap();
    }
    assert_eq!(site.list().unwrap(), (Jobs::new(), POOL));
    assert_eq!(site.entries(), clean, "entries leak");
    controller.kill().unwrap();
    controller.wait().unwrap();
}

/// With a journal, endpoints of ESA keep their tokens, and a run goes on or is followed by another.
#[test]
fn a_controller_with_a_journal_may_be_killed_in_the_middle_of_a_run_and_between_two() {
    if !namespaces() {
        return;
    }
    let job = "protocol = \"esa\"\nworker_timeout = \"20s\"\n[topology]\nkind = \"star\"\nworkers = 2\n\
               [[job]]\nname = \"long\"\nworkload = { kind = \"random\", tensors = 60, elements = 2000 }\n\
               [[job.straggler]]\nworker = 0\ndelay = \"20ms\"\n";
    let net = Net::new(job);
    let journal = net.file.path("journal.redb").display().to_string();
    let start = || net.controller_with(&["--journal", &journal]);
    let mut controller = start();
    let said = controller.output(Stream::Out);
    assert!(said.contains("job long (1) admitted, epoch "), "{said}");
    let _server = net.server();
    let mut epochs = BTreeSet::new();
    for run in 0..2 {
        let workers = [0, 1].map(|index| net.worker(index));
        until(&workers[1], "round 5 ");
        controller.kill().unwrap();
        controller = start();
        let said = controller.output(Stream::Out);
        let epoch = said.lines().find_map(|line| line.strip_prefix("job long (1) goes on, epoch "));
        assert!(epochs.insert(epoch.expect("it goes on").to_owned()), "{run}: {epoch:?}");
        for worker in &workers {
            let (success, errors) = ended(worker);
            assert!(success, "run {run}: {errors}");
        }
        controller.kill().unwrap();
        controller = start();
    }
    // Without the journal, it is removed.
    controller.kill().unwrap();
    freed(&net.controller());
}
