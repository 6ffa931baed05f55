//! The order of a rank's calls, and their results.
//!
//! Events come from several threads: the callers, the lanes of the worker, and the membership. A thread
//! with an event handles it and all others that are waiting, one at a time, unless another thread is at it. So
//! no thread waits for another one, and lanes go on carrying packets. One more thread passes over whole
//! tensors, and others call callbacks.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender, SyncSender};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tributary_controller::Deployment;
use tributary_endpoint::numbers::Jobs;
use tributary_metrics::Board;
use tributary_netio::FrameIo;
use tributary_netio::udp::Tunnel;
use tributary_protocol::priority::Code;
use tributary_protocol::worker::Stats;
use tributary_protocol::{Tensor, Terms, fixed};
use tributary_wire::{Epoch, WorkerIndex};
use tributary_worker::live::{self, LanePort};
use tributary_worker::numbers::{Numbers, Workers};
use tributary_worker::{Error as WorkerError, Node};

use crate::admission::Port;
use crate::agreement::{self, Claim, Magnitude};
use crate::description::Fabric;
use crate::membership::{FIRST, Member, News, Progress, Standing, Voice};
use crate::meter::Meter;
use crate::metrics::OfGroup;
use crate::outcome::{Callers, Outcome, lock};
use crate::scales::scale;
use crate::settings::{JOB, NonFinite};
use crate::work::{Call, Values, Work};
use crate::{Description, Error, Station, Switch};

/// How long a rank that leaves serves others that lack results (ESA).
const PATIENCE: Duration = Duration::from_secs(5);

/// Longer than a worker takes to stop.
const STOP: Duration = Duration::from_secs(1);

/// A call that has begun.
#[derive(Clone)]
pub struct Pending {
    outcome: Arc<Outcome>,
    shared: Arc<Shared>,
}

/// A rank's part in a group.
pub struct Communicator {
    shared: Arc<Shared>,
    /// Until the group is left.
    member: Mutex<Option<Member>>,
    finisher: Mutex<Option<JoinHandle<()>>>,
    _parts: Parts,
}

/// What a communicator keeps until its end.
struct Parts {
    /// Excludes other processes from the same part in the job.
    _claim: Vec<UnixListener>,
    shown: Shown,
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
    Agreed(Result<Tensor, WorkerError>, Stats),
    /// After an agreement that shows a mistake.
    Explained(Mistake, Result<Tensor, WorkerError>, Stats),
    Summed(u64, Result<Tensor, WorkerError>, Stats),
    News(News),
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
}

/// What has happened and was not handled.
#[derive(Default)]
struct Inbox {
    queue: VecDeque<Happening>,
    /// Whether a thread is handling what happens.
    busy: bool,
}

struct Shared {
    rank: u16,
    ranks: u16,
    values_per_packet: u16,
    nonfinite: NonFinite,
    profile: tributary_jobfile::Profile,
    priorities: Code,
    meter: Arc<Mutex<Meter>>,
    created: Instant,
    /// Milliseconds after which a call without a result breaks the group.
    timeout: AtomicU64,
    begun: AtomicU64,
    /// Runs of the job that are over here.
    runs: AtomicU64,
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
    voice: OnceLock<Voice>,
}

/// What is left when a call is over.
enum Finish {
    Sum(Box<Work>, Tensor),
    End,
}

struct State {
    /// `None` once the group is left.
    node: Option<Node<Box<dyn FrameIo>>>,
    broken: Option<Error>,
    /// Calls whose agreement has not begun.
    waiting: VecDeque<Box<Work>>,
    /// The call whose agreement is under way.
    agreeing: Option<Box<Work>>,
    /// Calls whose values are under way, by number.
    summing: BTreeMap<u64, Box<Work>>,
    /// Runs of the job before this one.
    runs: u64,
    /// Fragments of a lane in this run of the job, at most: the same at all ranks after the same call.
    fragments: u64,
    standings: Vec<Standing>,
    stats: Stats,
    done: u64,
    values: u64,
}

impl State {
    /// Calls without a result.
    fn works(&self) -> impl Iterator<Item = &Box<Work>> {
        self.summing.values().chain(&self.agreeing).chain(&self.waiting)
    }
}

/// Counters of a communicator.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Calls that have begun.
    pub begun: u64,
    /// Calls that have ended without an error.
    pub done: u64,
    /// Values that were summed.
    pub values: u64,
    /// Runs of the group's job before this one.
    pub runs: u64,
    /// Of the worker.
    pub worker: Stats,
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Communicator {
    /// Joins a group. The rank in the process of the switch gives the switch, the others their tunnels.
    ///
    /// # Errors
    /// If the group cannot be reached.
    pub fn join(
        description: &Description,
        rank: u16,
        tunnels: Vec<Tunnel>,
        switch: Option<&mut Switch>,
    ) -> Result<Self> {
        let deployment = Deployment::new(description.settings.scenario()?)?;
        let shown = match &switch {
            Some(switch) => Shown { board: switch.board().clone(), _of_group: None },
            None => Shown::new(&deployment)?,
        };
        let ports = match (&description.fabric, switch.and_then(Switch::take_own)) {
            (Fabric::Embedded(_), Some(own)) if rank == FIRST => own,
            (Fabric::Embedded(ends), _) => ends.connect(description, &deployment, rank, tunnels)?,
            (Fabric::External(_), _) => bail!("the group has no embedded switch"),
        };
        Self::with(description, &deployment, rank, ports, Parts { _claim: Vec::new(), shown })
    }

    /// Joins a group whose job was admitted by a controller.
    ///
    /// # Errors
    /// If the group cannot be reached, or the port of this host cannot be opened.
    pub fn join_at(description: &Description, rank: u16, station: &Station) -> Result<Self> {
        let Fabric::External(admitted) = &description.fabric else {
            bail!("the group has an embedded switch")
        };
        let deployment = admitted.deployment(description.settings.scenario()?)?;
        let Port { lane, claim } = station.open(&deployment, rank)?;
        let shown = Shown::new(&deployment)?;
        Self::with(description, &deployment, rank, vec![lane], Parts { _claim: claim, shown })
    }

    fn with(
        description: &Description,
        deployment: &Deployment,
        rank: u16,
        ports: Vec<LanePort>,
        parts: Parts,
    ) -> Result<Self> {
        let scenario = deployment.scenario();
        let (priorities, values_per_packet) =
            (scenario.priorities, scenario.switch.values_per_packet);
        let timeout = scenario.worker_timeout;
        let job = deployment.job(JOB);
        let ranks = u16::try_from(job.workers.len()).context("at most 1024 ranks")?;
        let profile = job.profile;
        let index = WorkerIndex::new(rank).context("at most 1024 ranks")?;
        let stop = Arc::new(AtomicBool::new(false));
        let count = ports.len();
        let lanes = live::lanes(deployment, JOB, index, ports)?;
        let node = Node::on(lanes, &stop, &parts.shown.board)?;
        let (finisher, to_finish) = mpsc::channel();
        let state = State {
            node: Some(node),
            broken: None,
            waiting: VecDeque::new(),
            agreeing: None,
            summing: BTreeMap::new(),
            runs: 0,
            fragments: 0,
            standings: Vec::new(),
            stats: Stats::default(),
            done: 0,
            values: 0,
        };
        let callers = Arc::<Callers>::default();
        let shared = Arc::new_cyclic(|this| Shared {
            rank,
            ranks,
            values_per_packet,
            nonfinite: description.settings.group.nonfinite,
            profile,
            priorities,
            meter: Arc::default(),
            created: Instant::now(),
            timeout: AtomicU64::new(millis(timeout)),
            begun: AtomicU64::new(0),
            runs: AtomicU64::new(0),
            lanes: count,
            fragments_per_run: description.settings.fragments_per_run(job.protocol),
            stop,
            inbox: Mutex::default(),
            this: Weak::clone(this),
            state: Mutex::new(state),
            finisher,
            failure: Arc::new(Outcome::new(u64::MAX, Arc::clone(&callers))),
            callers,
            voice: OnceLock::new(),
        });
        let finish = move || {
            for finish in to_finish {
                match finish {
                    Finish::Sum(work, sums) => work.finish(sums, ranks),
                    Finish::End => return,
                }
            }
        };
        let finisher = std::thread::Builder::new().name("results".into()).spawn(finish);
        let finisher = Mutex::new(Some(finisher.context("cannot start a thread")?));
        let communicator = Self { shared, member: Mutex::default(), finisher, _parts: parts };
        let shared = &communicator.shared;
        let (asked, told) = (Arc::clone(shared), Arc::clone(shared));
        let progress = move || asked.progress();
        let has = match &description.fabric {
            Fabric::Embedded(_) => "has the switch",
            Fabric::External(_) => "holds the group's job",
        };
        let tell = move |news: Result<News, String>| {
            told.happen(match news {
                Ok(news) => Happening::News(news),
                Err(why) => {
                    let why = format!("{has} and is gone: {why}");
                    Happening::Broken(Error::PeerLost { rank: FIRST, why })
                }
            });
        };
        let (hub, secret) = (description.hub, &description.secret);
        let member = Member::join(hub, secret, rank, progress, tell)?;
        // It is set once.
        drop(shared.voice.set(member.voice()));
        *lock(&communicator.member) = Some(member);
        Ok(communicator)
    }

    /// Sets the time after which a call without a result breaks the group. At first, it is that of the
    /// settings.
    pub fn set_timeout(&self, timeout: Duration) {
        self.shared.timeout.store(millis(timeout), Ordering::Relaxed);
    }

    /// Number of ranks.
    #[must_use]
    pub fn ranks(&self) -> u16 {
        self.shared.ranks
    }

    /// Begins a call. All ranks must make the same calls in the same order.
    #[must_use]
    pub fn call(&self, call: Call) -> Pending {
        let shared = &self.shared;
        let number = shared.begun.fetch_add(1, Ordering::Relaxed);
        let outcome = Arc::new(Outcome::new(number, Arc::clone(&shared.callers)));
        let fits = |elements| agreement::fits(elements, shared.ranks, shared.values_per_packet);
        let enter = |(index, count)| {
            let horizon = shared.profile.after(shared.created.elapsed()).horizon;
            let (profile, under_way) = Meter::sum(&shared.meter, index, count, horizon);
            // The formula counts layers from one.
            let layer = u32::try_from(index).unwrap_or(u32::MAX).saturating_add(1);
            (profile.of_layer(layer, shared.priorities), under_way)
        };
        let work = Work::new(call, outcome, fits, enter);
        let pending = Pending { outcome: Arc::clone(&work.outcome), shared: Arc::clone(shared) };
        shared.happen(Happening::Called(Box::new(work)));
        pending
    }

    /// Pending until the group fails or is left.
    #[must_use]
    pub fn failure(&self) -> Pending {
        let shared = Arc::clone(&self.shared);
        Pending { outcome: Arc::clone(&shared.failure), shared }
    }

    /// The counters so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let begun = self.shared.begun.load(Ordering::Relaxed);
        let state = lock(&self.shared.state);
        let State { done, values, runs, stats: worker, .. } = *state;
        Counters { begun, done, values, runs, worker }
    }

    /// Leaves the group when all calls are over. Calls that are not over soon fail, here and at the
    /// others. No callback is called afterwards.
    pub fn close(&self) {
        let Some(member) = lock(&self.member).take() else { return };
        let last = self.shared.pending();
        let deadline = Instant::now() + PATIENCE;
        let left = || deadline.saturating_duration_since(Instant::now());
        if last.iter().all(|outcome| outcome.wait(left()).is_some()) {
            let node = lock(&self.shared.state).node.take();
            if let Some(mut node) = node {
                // A worker whose group is broken has failed already.
                drop(node.leave(PATIENCE, false));
            }
            member.leave(self.shared.progress());
        } else {
            self.give_up(&member, "it left while calls were pending");
        }
        drop(member);
        self.finish();
    }

    /// Fails all calls, here and at the others, and leaves the group. No callback is called afterwards.
    pub fn abort(&self) {
        if let Some(member) = lock(&self.member).take() {
            self.give_up(&member, "it was aborted");
        }
        self.finish();
    }

    /// Breaks the group. This rank first, as the hub tells all ranks of it, this one too.
    fn give_up(&self, member: &Member, why: &str) {
        self.shared.happen(Happening::Broken(Error::Closed));
        member.voice().give_up(why);
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
        write!(f, "rank {} of {}", self.shared.rank, self.shared.ranks)
    }
}

impl Pending {
    /// The result, or `None` if there is none within this time.
    #[must_use]
    pub fn wait(&self, patience: Duration) -> Option<Result<(), Error>> {
        self.outcome.wait(patience)
    }

    /// The result, if there is one.
    #[must_use]
    pub fn result(&self) -> Option<Result<(), Error>> {
        self.outcome.wait(Duration::ZERO)
    }

    /// Breaks the group, because the result takes too long: all ranks that wait get an error.
    #[must_use]
    pub fn time_out(&self) -> Error {
        let error = self.shared.too_late(&self.outcome, &lock(&self.shared.state));
        self.shared.happen(Happening::Broken(error.clone()));
        // The memory is the caller's again after that.
        match self.wait(STOP) {
            Some(Err(error)) => error,
            _ => error,
        }
    }

    /// Has `callback` called with the result, in a thread of the communicator.
    pub fn on_done(&self, callback: impl FnOnce(Result<(), Error>) + Send + 'static) {
        self.outcome.on_done(Box::new(callback));
    }
}

impl Shared {
    /// Handles a happening, and others that came meanwhile, unless another thread is at it (or this one,
    /// further down its stack), which then handles this one, too.
    fn happen(&self, happening: Happening) {
        {
            let mut inbox = lock(&self.inbox);
            inbox.queue.push_back(happening);
            if std::mem::replace(&mut inbox.busy, true) {
                return;
            }
        }
        loop {
            let next = {
                let mut inbox = lock(&self.inbox);
                let next = inbox.queue.pop_front();
                inbox.busy = next.is_some();
                next
            };
            let Some(next) = next else { return };
            self.handle(&mut lock(&self.state), next);
        }
    }

    /// The calls that have no result, of all that began before. Some of those may still be in the inbox,
    /// so the question goes through it, too.
    fn pending(&self) -> Vec<Arc<Outcome>> {
        let (sender, answer) = mpsc::sync_channel(1);
        self.happen(Happening::Asked(sender));
        answer.recv().unwrap_or_default()
    }

    fn handle(&self, state: &mut State, happening: Happening) {
        match happening {
            Happening::Asked(sender) => {
                let outcomes = state.works().map(|work| Arc::clone(&work.outcome));
                // Who asks waits for the answer.
                drop(sender.send(outcomes.collect()));
            }
            Happening::Called(work) => {
                state.waiting.push_back(work);
                self.look_for_leavers(state);
            }
            Happening::Agreed(sums, stats) => {
                state.stats = stats;
                let Some(work) = state.agreeing.take() else { return };
                match sums {
                    Ok(sums) => self.agreed(state, work, &sums),
                    Err(error) => {
                        self.break_up(state, Error::Failed(error.to_string()));
                        self.fail(state, work);
                    }
                }
            }
            Happening::Explained(mistake, sums, stats) => {
                state.stats = stats;
                let Some(work) = state.agreeing.take() else { return };
                let texts = match sums {
                    Ok(Tensor::I32(sums)) => agreement::decode_texts(&sums),
                    Ok(Tensor::F32(_)) => unreachable!("integers were submitted"),
                    Err(error) => {
                        self.break_up(state, Error::Failed(error.to_string()));
                        self.fail(state, work);
                        self.advance(state);
                        return;
                    }
                };
                match mistake {
                    Mistake::Mismatch => {
                        let what = agreement::who_calls_what(&texts);
                        self.break_up(state, Error::Mismatch { call: work.number(), what });
                        self.fail(state, work);
                    }
                    Mistake::NotFinite => {
                        let found = texts.iter().enumerate().filter(|(_, text)| !text.is_empty());
                        let found = found.map(|(rank, text)| format!("rank {rank}: {text}"));
                        let found = found.collect::<Vec<_>>().join(", ");
                        let what = format!("in call {}, at {found}", work.number());
                        self.end(work, Err(Error::NotFinite { what }));
                    }
                }
            }
            Happening::Summed(number, sums, stats) => {
                state.stats = stats;
                let Some(work) = state.summing.remove(&number) else { return };
                match sums {
                    Ok(sums) => {
                        state.done += 1;
                        state.values += sums.len() as u64;
                        self.sum_done(work, sums);
                    }
                    Err(error) => {
                        self.break_up(state, Error::Failed(error.to_string()));
                        self.fail(state, work);
                    }
                }
            }
            Happening::Renewed(outcome) => {
                if let Err(error) = outcome {
                    self.break_up(state, Error::Failed(error.to_string()));
                }
            }
            Happening::News(news) => {
                self.look_for_a_run(state, &news);
                let standings = news.standings;
                let mut lost =
                    standings.iter().zip(0_u16..).filter_map(|(standing, rank)| match standing {
                        Standing::Lost(why) => Some(Error::PeerLost { rank, why: why.clone() }),
                        _ => None,
                    });
                let lost = lost.next();
                state.standings = standings;
                match lost {
                    Some(error) => self.break_up(state, error),
                    None => {
                        self.look_for_leavers(state);
                        self.look_at_time(state);
                    }
                }
            }
            Happening::Broken(error) => self.break_up(state, error),
        }
        self.advance(state);
    }

    /// Begins the next agreement if none is under way.
    fn advance(&self, state: &mut State) {
        if let Some(error) = &state.broken {
            for work in state.waiting.drain(..) {
                work.outcome.set(Err(error.clone()));
            }
            return;
        }
        if state.agreeing.is_some() || self.run_is_over(state) {
            return;
        }
        let Some(node) = &state.node else { return };
        let Some(work) = state.waiting.pop_front() else { return };
        let mut words = work.claim.encode(self.rank, self.ranks);
        if work.is_small
            && let Some(values) = &work.values
        {
            agreement::append(&mut words, self.rank, self.ranks, &values.floats());
        }
        state.fragments += self.begin(node, words, &work, Happening::Agreed);
        state.agreeing = Some(work);
    }

    /// Whether this run of the job is over: no call begins before the next one. All ranks find that after
    /// the same call. The hub is told when this rank has all results of the run.
    fn run_is_over(&self, state: &State) -> bool {
        let is_over = self.fragments_per_run.is_some_and(|most| state.fragments >= most);
        if is_over && state.summing.is_empty() {
            self.runs.store(state.runs + 1, Ordering::Relaxed);
        }
        is_over
    }

    /// Continues in the next run of the job if it has begun.
    fn look_for_a_run(&self, state: &mut State, news: &News) {
        let Some(node) = state.node.as_ref().filter(|_| news.runs != state.runs) else { return };
        let epochs: Vec<_> = news.epochs.iter().copied().filter_map(Epoch::new).collect();
        if epochs.len() != self.lanes {
            let what = format!("a run has {} epochs for {} lanes", epochs.len(), self.lanes);
            return self.break_up(state, Error::Failed(what));
        }
        let this = self.this();
        // What the worker is told to sum from now on belongs to the next run.
        node.renew(epochs, move |outcome| this.happen(Happening::Renewed(outcome)));
        (state.runs, state.fragments) = (news.runs, 0);
    }

    fn progress(&self) -> Progress {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Progress { calls: load(&self.begun), runs: load(&self.runs) }
    }

    /// Has all ranks, which see the same mistake, tell each other about it.
    fn explain(&self, state: &mut State, work: Box<Work>, mistake: Mistake, text: &str) {
        let Some(node) = &state.node else { return self.fail(state, work) };
        let words = agreement::encode_text(text, self.rank, self.ranks);
        state.fragments += self.begin(node, words, &work, move |sums, stats| {
            Happening::Explained(mistake, sums, stats)
        });
        state.agreeing = Some(work);
    }

    /// Has the worker sum integers for a call. Returns the number of fragments.
    fn begin(
        &self,
        node: &Node<Box<dyn FrameIo>>,
        words: Vec<i32>,
        work: &Work,
        done: impl FnOnce(Result<Tensor, WorkerError>, Stats) -> Happening + Send + 'static,
    ) -> u64 {
        let this = self.this();
        let fragments = node.fragments(words.len()) as u64;
        node.begin(vec![(words.into(), work.priority.into())], move |sums, stats| {
            let one = sums.map(|sums| sums.into_iter().next().expect("a tensor was submitted"));
            this.happen(done(one, stats));
        });
        fragments
    }

    /// Has the worker sum a call's values. Returns the number of fragments.
    fn send(&self, node: &Node<Box<dyn FrameIo>>, work: &mut Work, scale: fixed::Scale) -> u64 {
        let greatest = Some(work.greatest);
        let terms = Terms { priority: work.priority, scale: Some(scale), greatest };
        let (this, number) = (self.this(), work.number());
        let tensor = work.take_tensor();
        let fragments = node.fragments(tensor.len()) as u64;
        node.begin(vec![(tensor, terms)], move |sums, stats| {
            let one = sums.map(|sums| sums.into_iter().next().expect("a tensor was submitted"));
            this.happen(Happening::Summed(number, one, stats));
        });
        fragments
    }

    /// All ranks have told what they call.
    fn agreed(&self, state: &mut State, mut work: Box<Work>, sums: &Tensor) {
        let Tensor::I32(sums) = sums else { unreachable!("integers were submitted") };
        let claims = Claim::decode_all(sums, self.ranks);
        if claims.iter().any(|claim| !claim.agrees(&work.claim)) {
            let text = work.text.clone();
            self.explain(state, work, Mistake::Mismatch, &text);
            return;
        }
        if work.values.is_none() {
            state.done += 1;
            work.outcome.set(Ok(()));
            return;
        }
        let powers = claims.iter().filter_map(|claim| match claim.magnitude {
            Magnitude::Below(power) => Some(power),
            Magnitude::Zero | Magnitude::NotFinite => None,
        });
        let greatest = powers.max().map_or(Magnitude::Zero, Magnitude::Below);
        if claims.iter().any(|claim| claim.magnitude == Magnitude::NotFinite) {
            match self.nonfinite {
                NonFinite::Raise => {
                    let text = work.not_finite();
                    return self.explain(state, work, Mistake::NotFinite, &text);
                }
                NonFinite::Propagate if !work.is_small => {
                    state.done += 1;
                    state.values += work.claim.elements;
                    let spoiled = vec![f32::NAN; work.claim.elements as usize];
                    return self.sum_done(work, spoiled.into());
                }
                // Few values are added as floats, which propagate by themselves.
                NonFinite::Propagate => {}
            }
        }
        if work.is_small {
            state.done += 1;
            state.values += work.claim.elements;
            self.sum_done(work, agreement::add_up(sums, self.ranks).into());
        } else if let Some(node) = &state.node {
            state.fragments += self.send(node, &mut work, scale(greatest, self.ranks));
            state.summing.insert(work.number(), work);
        } else {
            self.fail(state, work);
        }
    }

    /// A call that a rank has left out by leaving never ends.
    fn look_for_leavers(&self, state: &mut State) {
        let begun = self.begun.load(Ordering::Relaxed);
        let gone =
            state.standings.iter().zip(0_u16..).find_map(|(standing, rank)| match standing {
                Standing::Left(Progress { calls, .. }) if *calls < begun && rank != self.rank => {
                    let why = format!(
                        "has left the group after {calls} calls, and this rank made {begun}"
                    );
                    Some(Error::PeerLost { rank, why })
                }
                _ => None,
            });
        if let Some(error) = gone {
            self.break_up(state, error);
        }
    }

    /// Breaks the group if a call takes too long, also if no thread waits for it.
    fn look_at_time(&self, state: &mut State) {
        let timeout = Duration::from_millis(self.timeout.load(Ordering::Relaxed));
        let oldest = state.works().map(|work| &work.outcome).min_by_key(|outcome| outcome.number);
        if let Some(outcome) = oldest.filter(|outcome| outcome.begun.elapsed() > timeout) {
            let error = self.too_late(outcome, state);
            self.break_up(state, error);
        }
    }

    /// The error for a call that takes too long, with the ranks that have not made it.
    fn too_late(&self, outcome: &Outcome, state: &State) -> Error {
        let (number, standings) = (outcome.number, &state.standings);
        let has_called = |standing: &Standing| matches!(standing, Standing::Present(progress) if progress.calls > number);
        let late: Vec<usize> = (0..standings.len())
            .filter(|rank| *rank != usize::from(self.rank) && !has_called(&standings[*rank]))
            .collect();
        let what = match late.len() {
            0 if self.runs.load(Ordering::Relaxed) > state.runs => {
                "the switches have not begun another run of the group's job".into()
            }
            0 => format!("all ranks have made call {number}; is the network up?"),
            1 => format!("{} has not made call {number}", agreement::names(&late)),
            _ => format!("{} have not made call {number}", agreement::names(&late)),
        };
        Error::TimedOut { waited: outcome.begun.elapsed(), what }
    }

    /// Marks the group as failed. Calls in flight fail once the worker has stopped using their memory.
    fn break_up(&self, state: &mut State, error: Error) {
        if state.broken.is_none() {
            // The others see anything else by themselves.
            if let Error::TimedOut { .. } | Error::Failed(_) = &error
                && let Some(voice) = self.voice.get()
            {
                voice.give_up(&error.to_string());
            }
            self.failure.set(Err(error.clone()));
            state.broken = Some(error);
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Fails a call that the worker does not have.
    fn fail(&self, state: &State, work: Box<Work>) {
        self.end(work, Err(state.broken.clone().unwrap_or(Error::Closed)));
    }

    /// Ends a call. Its memory is the caller's again before the caller learns of it.
    fn end(&self, work: Box<Work>, result: Result<(), Error>) {
        let outcome = Arc::clone(&work.outcome);
        drop(work);
        outcome.set(result);
    }

    /// Ends a call whose sums are in place; others need a pass over all values, in another thread.
    fn sum_done(&self, work: Box<Work>, sums: Tensor) {
        let in_place = matches!(&work.values, Some(Values::Single(values)) if values.is_empty());
        if in_place && !work.average {
            drop(sums);
            self.end(work, Ok(()));
        } else {
            drop(self.finisher.send(Finish::Sum(work, sums)));
        }
    }

    fn this(&self) -> Arc<Self> {
        self.this.upgrade().expect("it is in an `Arc`")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ranks, Settings};

    #[test]
    fn calls_in_the_inbox_are_pending() {
        let timeout = Duration::from_secs(60);
        let settings = Settings::complete("", Ranks::of_one_host(2), timeout).unwrap();
        let address = std::net::Ipv4Addr::LOCALHOST;
        let needed = settings.threads().unwrap().tunnels();
        let tunnels = crate::switch::endpoint(address, needed).unwrap();
        let ends = [Vec::new(), crate::switch::addresses(&tunnels).unwrap()];
        let mut switch = Switch::start(settings, address, &ends).unwrap();
        let description = switch.description().clone();
        let _other = Communicator::join(&description, 1, tunnels, None).unwrap();
        let communicator =
            Communicator::join(&description, 0, Vec::new(), Some(&mut switch)).unwrap();
        let shared = &communicator.shared;
        let (sender, answer) = mpsc::sync_channel(0);
        std::thread::scope(|scope| {
            // A thread that is handling something until the answer is taken.
            scope.spawn(|| shared.happen(Happening::Asked(sender)));
            while !lock(&shared.inbox).busy {
                std::thread::yield_now();
            }
            let operation = "barrier".to_owned();
            let call = Call::Announce { operation, elements: 0, element: String::new() };
            drop(communicator.call(call));
            let pending = scope.spawn(|| shared.pending());
            std::thread::sleep(Duration::from_millis(50));
            answer.recv().unwrap();
            assert_eq!(pending.join().unwrap().len(), 1);
        });
        communicator.abort();
    }
}
