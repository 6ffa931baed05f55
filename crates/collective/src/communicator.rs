//! The order of a rank's calls, and their results.
//!
//! Events come from several threads: the callers, the lanes of the worker, and the membership. A thread
//! with an event handles it and all others that are waiting, one at a time, unless another thread is at it. So
//! no thread waits for another one, and lanes go on carrying packets. One more thread passes over whole
//! tensors, and others call callbacks.

mod events;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io::Read as _;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender, SyncSender};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tributary_access::Remote;
use tributary_endpoint::channel;
use tributary_endpoint::membership::{Begun, Membership, Occurrence, Setup, Voice, Which, Who};
use tributary_endpoint::numbers::Jobs;
use tributary_endpoint::tokens::Tokens;
use tributary_metrics::Board;
use tributary_model::{Deployment, HostId};
use tributary_netio::FrameIo;
use tributary_netio::udp::Tunnel;
use tributary_protocol::Tensor;
use tributary_protocol::buffer::Buffer;
use tributary_protocol::priority::Code;
use tributary_protocol::worker::Stats;
use tributary_wire::{Epoch, WorkerIndex, WorkerSet};
use tributary_worker::live::{self, LanePort};
use tributary_worker::numbers::{Numbers, Workers};
use tributary_worker::{Error as WorkerError, Node, Sums};

use crate::admission::RankPort;
use crate::description::Fabric;
use crate::error::caught;
use crate::exchange::{Exchange, Seat};
use crate::follower::Follower;
use crate::group::{Counters, Group, Patience, Pending};
use crate::members::Members;
use crate::meter::Meter;
use crate::metrics::OfGroup;
use crate::outcome::{Callers, Outcome, lock};
use crate::scales::Precision;
use crate::settings::{self, JOB, NonFinite};
use crate::underflow::{Policy, Warnings};
use crate::values::Values;
use crate::work::{Call, Work};
use crate::{Collective, Description, ElementType, Error, GroupSwitch, Station};

/// The rank whose process has an embedded switch, and its member.
const FIRST: u16 = 0;

/// Time for a connection to the first rank.
const REACH: Duration = Duration::from_secs(10);

/// How long a rank that leaves serves others that lack results (ESA).
const PATIENCE: Duration = Duration::from_secs(5);

/// Time for a connection to the first rank that runs, and for its greeting.
const GREETING: Duration = Duration::from_secs(2);

/// The worker waits longer than any call. Calls have a timeout of their own, which can be changed.
const UNLIMITED: Duration = Duration::from_secs(1 << 20);

/// Longer than a worker takes to stop.
const STOP: Duration = Duration::from_secs(1);

/// A member's part in a group.
pub struct Communicator {
    shared: Arc<Shared>,
    /// Until the group is left.
    follower: Mutex<Option<Follower>>,
    finisher: Mutex<Option<JoinHandle<()>>>,
    settings: settings::Group,
    _parts: Parts,
}

/// What a communicator keeps until its end.
struct Parts {
    /// Excludes other processes from the same part in the job.
    _claim: Vec<UnixListener>,
    _shown: Shown,
}

/// Where the numbers of a rank are published.
struct Shown {
    board: Board<Numbers>,
    /// The metrics of the group in this process, unless the switch has them.
    _of_group: Option<OfGroup>,
}

impl Shown {
    fn new(deployment: &Deployment) -> Result<Self> {
        let (of_group, board) = (OfGroup::new()?, Board::default());
        of_group.metrics.add(Workers::new(board.clone()));
        of_group.metrics.add(Jobs::new(&deployment.scenario().jobs));
        Ok(Self { board, _of_group: Some(of_group) })
    }
}

/// Something that happens to a communicator.
enum Happening {
    Called(Box<Work>),
    Agreed(Result<Vec<i32>, WorkerError>, Stats),
    /// After an agreement, if the magnitudes of the values are not part of it.
    Measured(Result<Vec<i32>, WorkerError>, Stats),
    /// After an agreement that shows a mistake.
    Explained(Mistake, Result<Vec<i32>, WorkerError>, Stats),
    Summed(u64, Result<Sums, WorkerError>, Stats),
    /// What the controller tells, or nothing for some time.
    Told(Option<Occurrence>),
    /// The worker continues in another run of the job.
    Renewed(Result<(), WorkerError>),
    Broken(Error),
    /// Asks for the calls that have no result.
    Asked(SyncSender<Vec<Arc<Outcome>>>),
}

/// What ranks do wrong.
#[derive(Clone, Copy)]
enum Mistake {
    /// They call different things.
    Mismatch,
    /// They have values that cannot be summed.
    NotFinite,
    /// They may have values of which too many become zero as planned.
    Underflow,
}

/// What has happened and was not handled.
#[derive(Default)]
struct Inbox {
    queue: VecDeque<Happening>,
    /// Whether a thread is handling what happens.
    busy: bool,
}

struct Shared {
    /// Which of the members this one is: its worker's index.
    member: u16,
    workers: u16,
    members: Members,
    /// The controller in the process of the first rank, if that is another one.
    first: Option<SocketAddr>,
    values_per_packet: u16,
    /// See [`Communicator::exchanges_parts`].
    exchanges_parts: bool,
    nonfinite: NonFinite,
    precision: Precision,
    underflow: Policy,
    profile: tributary_model::Profile,
    priorities: Code,
    meter: Arc<Mutex<Meter>>,
    created: Instant,
    /// Milliseconds after which a call without a result breaks the group.
    timeout: AtomicU64,
    begun: AtomicU64,
    /// See [`Settings::fragments_per_run`](crate::Settings).
    fragments_per_run: Option<u64>,
    lanes: usize,
    stop: Arc<AtomicBool>,
    inbox: Mutex<Inbox>,
    this: Weak<Self>,
    state: Mutex<State>,
    finisher: Sender<Finish>,
    callers: Arc<Callers>,
    /// Why the group cannot be used any more.
    failure: Arc<Outcome>,
    /// Tells the other ranks if the group fails here.
    voice: Voice,
}

/// What a rank needs to begin its first run.
struct Entry {
    deployment: Deployment,
    ports: Vec<LanePort>,
    /// Where the reminder agent of a host is reached, unless the ports have their channels (ESA).
    agent: Option<Agent>,
    tokens: Tokens,
    board: Board<Numbers>,
}

/// The address of the reminder agent on a host.
type Agent = Box<dyn Fn(HostId) -> SocketAddr + Send>;

impl Entry {
    /// The worker of this member in a run.
    fn begin(
        self,
        member: u16,
        begun: &Begun,
        stop: &Arc<AtomicBool>,
    ) -> Result<Node<Box<dyn FrameIo>>> {
        let Self { mut deployment, mut ports, agent, tokens, board } = self;
        deployment.set_worker_timeout(UNLIMITED);
        let lanes = deployment.scenario().lanes(JOB);
        for (lane, epoch) in lanes.clone().zip(&begun.epochs) {
            deployment.set_epoch(lane, *epoch);
        }
        let index = WorkerIndex::new(member).context("at most 1024 members")?;
        if let Some(agent) = agent {
            for (lane, port) in lanes.zip(&mut ports) {
                let job = deployment.job(lane);
                port.link =
                    channel::worker_link(deployment.scenario(), job, index, &tokens, &agent)?;
            }
        }
        Ok(Node::on(live::lanes(&deployment, JOB, index, ports)?, stop, &board)?)
    }
}

/// What is left when a call is over.
enum Finish {
    Sum(Box<Work>, Tensor, Vec<i32>),
    End,
}

struct State {
    /// Until the first run begins.
    entry: Option<Entry>,
    /// `None` before the first run, and once the group is left.
    node: Option<Node<Box<dyn FrameIo>>>,
    broken: Option<Error>,
    /// Calls whose agreement has not begun.
    waiting: VecDeque<Box<Work>>,
    /// The call whose agreement is under way.
    agreeing: Option<Box<Work>>,
    /// Calls whose values are under way, by number.
    summing: BTreeMap<u64, Box<Work>>,
    /// This run of the job.
    run: Option<Epoch>,
    /// Runs of the job before this one.
    runs: u64,
    /// Whether the controller was told that this rank waits for the next run.
    renews: bool,
    /// Fragments of a lane in this run of the job, at most: the same at all ranks after the same call.
    fragments: u64,
    /// Members that have not joined yet.
    missing: WorkerSet,
    /// The members that have made the fewest calls, and how many.
    behind: Option<(WorkerSet, u64)>,
    /// A member that has left after so many calls.
    left: Option<(u16, u64)>,
    stats: Stats,
    done: u64,
    values: u64,
    /// Calls of which more values became zero at this rank than the settings allow, or would have.
    underflows: u64,
    warnings: Warnings,
}

impl State {
    fn new(entry: Entry) -> Self {
        Self {
            entry: Some(entry),
            node: None,
            broken: None,
            waiting: VecDeque::new(),
            agreeing: None,
            summing: BTreeMap::new(),
            run: None,
            runs: 0,
            renews: false,
            fragments: 0,
            missing: WorkerSet::EMPTY,
            behind: None,
            left: None,
            stats: Stats::default(),
            done: 0,
            values: 0,
            underflows: 0,
            warnings: Warnings::default(),
        }
    }

    /// Calls without a result.
    fn works(&self) -> impl Iterator<Item = &Box<Work>> {
        self.summing.values().chain(&self.agreeing).chain(&self.waiting)
    }
}

/// Takes part in a group's job, up to its first run.
fn take(
    controller: Remote,
    description: &Description,
    member: u16,
    led: bool,
) -> Result<(Membership, Setup)> {
    let index = WorkerIndex::new(member).context("at most 1024 members")?;
    let ((id, key), job) = (description.admitted()?, description.name.clone());
    let which = Which { job, id: Some(id), key, who: Who::Index(index), led };
    let stop = Arc::<AtomicBool>::default();
    let mut membership = Membership::take(controller, which, &stop)?;
    let rank = description.members.worker(member.into());
    let waits = |reason| tracing::warn!("rank {rank} waits for the controller: {reason}");
    let setup = membership.setup(&stop, waits)?;
    ensure!(
        setup.stepped.is_empty(),
        "job {}: a client lets its iterations begin, and a group sums when it likes",
        description.name
    );
    Ok((membership, setup))
}

/// Whether the process of a controller runs. The kernel accepts connections for one that is stopped, which does not
/// greet.
fn greets(controller: SocketAddr) -> bool {
    let greeting = || {
        let mut stream = TcpStream::connect_timeout(&controller, GREETING)?;
        stream.set_read_timeout(Some(GREETING))?;
        stream.read_exact(&mut [0])
    };
    greeting().is_ok()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Communicator {
    /// Joins a group with an embedded switch. The member in the process of the switch gives the switch, the others their
    /// tunnels.
    ///
    /// # Errors
    /// If the first rank cannot be reached.
    pub fn join(
        description: &Description,
        member: u16,
        tunnels: Vec<Tunnel>,
        switch: Option<&mut GroupSwitch>,
    ) -> Result<Self> {
        let Fabric::Embedded { controller, tunnels: ends } = &description.fabric else {
            bail!("the group has no embedded switch")
        };
        let remote = Remote::new(&controller.to_string(), None)?.context("no address")?;
        let taken = take(remote.with_patience(REACH), description, member, true);
        let (membership, setup) =
            taken.with_context(|| format!("cannot reach the first rank at {controller}"))?;
        let Setup { deployment, tokens, .. } = setup;
        let shown = match &switch {
            Some(switch) => Shown { board: switch.board().clone(), _of_group: None },
            None => Shown::new(&deployment)?,
        };
        let (ports, agent) = match switch.and_then(GroupSwitch::take_own) {
            Some(own) if member == FIRST => (own, None),
            _ => {
                let ports = ends.connect(&deployment, member, tunnels)?;
                let agent = ends.channel(member).map(|agent| -> Agent { Box::new(move |_| agent) });
                (ports, agent)
            }
        };
        let entry = Entry { deployment, ports, agent, tokens, board: shown.board.clone() };
        let parts = Parts { _claim: Vec::new(), _shown: shown };
        Self::with(description, member, membership, entry, parts)
    }

    /// Joins a group whose job was admitted by a controller. A call may take `timeout`.
    ///
    /// # Errors
    /// If the controller cannot be reached or refuses this member, or the port of this host cannot be opened.
    pub fn join_at(
        description: &Description,
        member: u16,
        station: &Station,
        timeout: Duration,
    ) -> Result<Self> {
        let controller = station.controller().clone();
        let (membership, setup) = take(controller, description, member, false)?;
        let Setup { mut deployment, tokens, .. } = setup;
        deployment.set_worker_timeout(timeout);
        let RankPort { lane, claim } = station.open(&deployment, member)?;
        let shown = Shown::new(&deployment)?;
        let scenario = deployment.scenario().clone();
        let agent: Agent = Box::new(move |host| channel::agent_address(&scenario, host));
        let (agent, board) = (Some(agent), shown.board.clone());
        let entry = Entry { deployment, ports: vec![lane], agent, tokens, board };
        Self::with(description, member, membership, entry, Parts { _claim: claim, _shown: shown })
    }

    fn with(
        description: &Description,
        member: u16,
        membership: Membership,
        entry: Entry,
        parts: Parts,
    ) -> Result<Self> {
        let (scenario, job) = (entry.deployment.scenario(), entry.deployment.job(JOB));
        let (priorities, values_per_packet) =
            (scenario.network.priorities, scenario.network.switch.values_per_packet);
        let timeout = scenario.network.worker_timeout;
        let first = match &description.fabric {
            Fabric::Embedded { controller, .. } if member != FIRST => Some(*controller),
            Fabric::Embedded { .. } | Fabric::External => None,
        };
        let members = description.members.clone();
        let workers = u16::try_from(job.workers.len()).context("at most 1024 members")?;
        ensure!(
            members.count() == job.workers.len(),
            "the group's job has {workers} workers, and the group {} members",
            members.count()
        );
        let index = WorkerIndex::new(member).context("at most 1024 members")?;
        let config = entry.deployment.worker(JOB, index).job;
        let exchanges_parts = config.exchanges_parts() && members == Members::each_alone(workers);
        let (profile, underflow) = (job.profile, Policy::of(job));
        let fragments_per_run = description.group.fragments_per_run(job.protocol);
        let (lanes, ranks) = (entry.ports.len(), members.ranks());
        let (finisher, to_finish) = mpsc::channel();
        let state = State::new(entry);
        let callers = Arc::<Callers>::default();
        let shared = Arc::new_cyclic(|this| Shared {
            member,
            workers,
            members,
            first,
            values_per_packet,
            exchanges_parts,
            nonfinite: description.group.nonfinite,
            precision: description.group.precision,
            underflow,
            profile,
            priorities,
            meter: Arc::default(),
            created: Instant::now(),
            timeout: AtomicU64::new(millis(timeout)),
            begun: AtomicU64::new(0),
            lanes,
            fragments_per_run,
            stop: Arc::default(),
            inbox: Mutex::default(),
            this: Weak::clone(this),
            state: Mutex::new(state),
            finisher,
            failure: Arc::new(Outcome::new(u64::MAX, Arc::clone(&callers))),
            callers,
            voice: membership.voice(),
        });
        let own = Arc::downgrade(&shared);
        let finish = move || {
            for finish in to_finish {
                match finish {
                    Finish::Sum(work, sums, extras) => {
                        let finished = caught(|| {
                            work.finish(sums, &extras, ranks);
                            Ok(())
                        });
                        if let (Err(error), Some(shared)) = (finished, own.upgrade()) {
                            shared.happen(Happening::Broken(error));
                        }
                    }
                    Finish::End => return,
                }
            }
        };
        let finisher = std::thread::Builder::new().name("results".into()).spawn(finish);
        let finisher = Mutex::new(Some(finisher.context("cannot start a thread")?));
        let (follower, settings) = (Mutex::default(), description.group.clone());
        let communicator = Self { shared, follower, finisher, settings, _parts: parts };
        membership.ready();
        let told = Arc::clone(&communicator.shared);
        let tell = move |occurrence| told.happen(Happening::Told(occurrence));
        *lock(&communicator.follower) = Some(Follower::start(membership, tell)?);
        Ok(communicator)
    }

    /// The group's settings.
    #[must_use]
    pub fn settings(&self) -> &settings::Group {
        &self.settings
    }

    /// The ranks of this member, and the number of ranks of all.
    pub(crate) fn ranks(&self) -> (&[u16], usize) {
        let Shared { members, member, .. } = &*self.shared;
        (members.of((*member).into()), members.ranks())
    }

    /// Whether a call may fail without an end of the group: its values must stay as they are until then.
    pub(crate) fn refuses(&self) -> bool {
        self.shared.nonfinite == NonFinite::Raise || self.shared.underflow.fails
    }

    /// Begins the sum of values that ranks with values of this type have added up. They divide the sums themselves for
    /// an average. The memory is given back with the sums.
    pub(crate) fn sum(
        &self,
        values: Buffer<f32>,
        element: ElementType,
        average: bool,
        layer: Option<(usize, usize)>,
    ) -> Pending {
        let call = Call::Reduce { values: Values::Single(values), average, layer };
        self.begin(|outcome| {
            let mut work = self.work(call, outcome.keeping_sums());
            work.on_behalf_of(element);
            work
        })
    }

    /// This member.
    #[must_use]
    pub fn member(&self) -> usize {
        self.shared.member.into()
    }

    /// Whether ranks can exchange parts of tensors: each is a worker, and one switch has all of them below it, with
    /// P4INC or SwitchML.
    #[must_use]
    pub fn exchanges_parts(&self) -> bool {
        self.shared.exchanges_parts
    }

    /// Begins a collective in which ranks [exchange parts](Self::exchanges_parts): gathers all, or scatters sums. All
    /// ranks must make the same calls and collectives in the same order.
    ///
    /// # Errors
    /// If it is another collective, or the ranks cannot exchange parts, or have none.
    pub fn begin_collective(&self, collective: Collective) -> Result<Pending, Error> {
        let Shared { member, workers, values_per_packet, exchanges_parts, .. } = *self.shared;
        if !exchanges_parts {
            return Err(Error::Failed("the group's ranks cannot exchange parts".into()));
        }
        let Collective { claim, what } = collective;
        let (rank, ranks) = (member.into(), workers.into());
        let seat = Seat { rank, ranks, values_per_packet: values_per_packet.into() };
        let begun = Exchange::begin(what, seat)?;
        let packet = (workers, values_per_packet);
        Ok(self.begin(|outcome| Work::exchange(claim, begun, Arc::new(outcome), packet)))
    }

    fn work(&self, call: Call, outcome: Outcome) -> Work {
        let shared = &self.shared;
        let enter = |(index, count)| {
            let horizon = shared.profile.after(shared.created.elapsed()).horizon;
            let (profile, under_way) = Meter::sum(&shared.meter, index, count, horizon);
            // The formula counts layers from one.
            let layer = u32::try_from(index).unwrap_or(u32::MAX).saturating_add(1);
            (profile.of_layer(layer, shared.priorities), under_way)
        };
        let packet = (shared.workers, shared.values_per_packet);
        Work::new(call, Arc::new(outcome), packet, enter)
    }

    fn begin(&self, make: impl FnOnce(Outcome) -> Work) -> Pending {
        let shared = &self.shared;
        let number = shared.begun.fetch_add(1, Ordering::Relaxed);
        shared.voice.reach(number + 1);
        let work = make(Outcome::new(number, Arc::clone(&shared.callers)));
        let pending = Pending::new(&work.outcome, shared);
        shared.happen(Happening::Called(Box::new(work)));
        pending
    }

    /// Fails all calls, here and at the others.
    pub(crate) fn fail(&self, why: String) {
        self.shared.happen(Happening::Broken(Error::Failed(why)));
    }

    /// The error for a call that takes too long.
    pub(crate) fn too_late(&self, outcome: &Outcome) -> Error {
        self.shared.too_late(outcome, &lock(&self.shared.state))
    }

    /// Breaks the group. This rank first, as the controller tells all ranks of it, this one too.
    fn give_up(&self, follower: Follower, why: &str) {
        self.shared.happen(Happening::Broken(Error::Closed));
        self.shared.give_up(why);
        follower.end();
    }

    fn finish(&self) {
        self.shared.happen(Happening::Broken(Error::Closed));
        // Not dropped under the lock, for which its lanes may wait.
        let node = lock(&self.shared.state).node.take();
        drop(node);
        // All lanes have answered. Another thread may still be handling the answers.
        let deadline = Instant::now() + STOP;
        while !self.shared.pending().is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(self.shared.finisher.send(Finish::End));
        let finisher = lock(&self.finisher).take();
        if let Some(thread) = finisher {
            // The panic hook has reported a panic of the thread.
            drop(thread.join());
        }
        self.shared.callers.end();
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        self.abort();
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.shared.members.of(self.shared.member.into()))
    }
}

impl Group for Communicator {
    fn call(&self, call: Call) -> Pending {
        self.begin(|outcome| self.work(call, outcome))
    }

    fn failure(&self) -> Pending {
        Pending::new(&self.shared.failure, &self.shared)
    }

    fn counters(&self) -> Counters {
        let begun = self.shared.begun.load(Ordering::Relaxed);
        let state = lock(&self.shared.state);
        let State { done, values, underflows, runs, stats: worker, .. } = *state;
        Counters { begun, done, values, underflows, runs, worker }
    }

    fn set_timeout(&self, timeout: Duration) {
        self.shared.timeout.store(millis(timeout), Ordering::Relaxed);
    }

    fn set_progress(&self, step: u64, of: u64) {
        lock(&self.shared.meter).set_progress(step, of);
    }

    fn close(&self) {
        let Some(follower) = lock(&self.follower).take() else { return };
        let last = self.shared.pending();
        let deadline = Instant::now() + PATIENCE;
        let left = || deadline.saturating_duration_since(Instant::now());
        if last.iter().all(|outcome| outcome.wait(left()).is_some()) {
            let (node, run) = {
                let mut state = lock(&self.shared.state);
                (state.node.take(), state.run)
            };
            if let Some(mut node) = node {
                // A worker whose group is broken has failed already.
                drop(node.leave(PATIENCE, false));
            }
            if let Some(run) = run {
                follower.voice().leave(run, self.shared.begun.load(Ordering::Relaxed));
                follower.end();
            }
        } else {
            self.give_up(follower, "it left while calls were pending");
        }
        self.finish();
    }

    fn abort(&self) {
        let follower = lock(&self.follower).take();
        if let Some(follower) = follower {
            self.give_up(follower, "it was aborted");
        }
        self.finish();
    }
}

impl Patience for Shared {
    fn time_out(&self, outcome: &Outcome) -> Error {
        let error = self.too_late(outcome, &lock(&self.state));
        self.happen(Happening::Broken(error.clone()));
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ranks, Settings};

    /// Two ranks, the first of which has the switch.
    fn pair() -> (GroupSwitch, Communicator, Communicator) {
        let timeout = Duration::from_secs(60);
        let settings = Settings::complete("", Ranks::of_one_host(2), timeout).unwrap();
        let address = std::net::Ipv4Addr::LOCALHOST.into();
        let needed = settings.threads().unwrap().tunnels();
        let tunnels = crate::tunnels::endpoint(address, needed).unwrap();
        let ends = [Vec::new(), crate::tunnels::addresses(&tunnels).unwrap()];
        let members = Members::each_alone(2);
        let mut switch = GroupSwitch::start(settings, &members, address, &ends).unwrap();
        let description = switch.description().clone();
        let other = Communicator::join(&description, 1, tunnels, None).unwrap();
        let first = Communicator::join(&description, 0, Vec::new(), Some(&mut switch)).unwrap();
        (switch, first, other)
    }

    fn barrier() -> Call {
        Call::Announce { operation: "barrier".into(), elements: 0, element: String::new() }
    }

    #[test]
    fn a_panic_fails_the_group_at_all_ranks() {
        let (_switch, communicator, other) = pair();
        let shared = &communicator.shared;
        let pending = communicator.call(barrier());
        // The other rank does not call.
        while lock(&shared.state).agreeing.is_none() {
            std::thread::yield_now();
        }
        // No worker gives such an answer to a barrier.
        shared.happen(Happening::Measured(Ok(Vec::new()), Stats::default()));
        let enough = Duration::from_secs(60);
        let panicked = |result: Option<Result<(), Error>>| {
            let error = result.expect("it ends").unwrap_err().to_string();
            assert!(error.contains("panicked"), "{error}");
        };
        panicked(pending.wait(enough));
        panicked(communicator.call(barrier()).wait(enough));
        panicked(other.failure().wait(enough));
        other.abort();
        communicator.abort();
    }

    #[test]
    fn calls_in_the_inbox_are_pending() {
        let (_switch, communicator, _other) = pair();
        let shared = &communicator.shared;
        // As if a thread were handling something that takes long.
        while std::mem::replace(&mut lock(&shared.inbox).busy, true) {
            std::thread::yield_now();
        }
        drop(communicator.call(barrier()));
        std::thread::scope(|scope| {
            let pending = scope.spawn(|| shared.pending());
            std::thread::sleep(Duration::from_millis(50));
            lock(&shared.inbox).busy = false;
            // This thread handles what is in the inbox.
            assert_eq!(shared.pending().len(), 1);
            assert_eq!(pending.join().unwrap().len(), 1);
        });
        communicator.abort();
    }
}
