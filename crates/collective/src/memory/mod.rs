//! The ranks of a host: they add in memory that they share, and need no switch. If the group has other hosts, too,
//! the first rank then adds its host's sums to those of the others through a network.
//!
//! Each rank has a thread that carries out its calls in their order, if its caller does not, in *steps*: a rank takes a step
//! when it has written what the others need, and waits until all have taken as many. Before the first step of a call it writes
//! what it calls, so that all ranks see a difference before they touch any value. Of many values each rank adds up a
//! share; few are added up by every rank, which saves a step. Sums are those of double precision in the order of the
//! ranks, divided for an average, and rounded; those of 16-bit types to `f32` before.
//!
//! | module | content |
//! | --- | --- |
//! | `segment` | the shared memory |
//! | `join` | how ranks come by it, and notice that one is gone |
//! | `sums` | sums over buffers |
//! | `calls` | how a rank carries out its calls |
//! | `collectives` | what ranks do beside sums that all get |
//! | `host` | the part of a host in a group of several |

mod calls;
mod collectives;
mod host;
mod join;
mod segment;
mod sums;

use std::collections::VecDeque;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use self::calls::Task;
use self::host::Host;
use self::join::{Connections, Entrance, Found};
use self::segment::{Claim, Lane, Segment};
use self::sums::Buffers;
use crate::group::Patience;
use crate::outcome::{Callers, Outcome, lock};
use crate::settings::{self, NonFinite};
use crate::{Call, Collective, Counters, Error, Group, Members, Pending, agreement, communicator};

/// How long a rank that leaves waits for calls that are under way.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest sleep before a look at the time and at the other ranks.
const SLEEP: Duration = Duration::from_millis(50);

/// How much longer than its host's first rank another one waits: the first rank knows what is missing at other hosts.
const LEAD: Duration = Duration::from_secs(1);

/// Looks at the other ranks before a sleep, if each can have a processor.
const LOOKS: u32 = 2_000;

/// Number of further looks, each after a yield, if at most two ranks share a processor. Without them, two ranks on one
/// processor take turns in their sleeps for long: the scheduler sees nothing to move to an idle one.
const YIELDS: u32 = 500;

/// Bytes up to which every rank adds all values.
const FEW: usize = 16 << 10;

/// What the first rank tells the others.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Description {
    socket: String,
    settings: settings::Group,
    /// If there are other hosts.
    of_host: Option<OfHost>,
}

/// The ranks of a host in a group of several.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct OfHost {
    /// Those of this host, in the group.
    ranks: Vec<u16>,
    /// Number of the ranks of all hosts.
    all: usize,
}

/// The memory of a group, in the process of its first rank.
pub struct Memory {
    entrance: Entrance,
    segment: Segment,
    description: Description,
    /// The part of the host in the group of hosts, if there are several.
    above: Option<Arc<communicator::Communicator>>,
}

impl Memory {
    /// Makes memory for a group of so many ranks.
    ///
    /// # Errors
    /// If there are too many, or the operating system refuses.
    pub fn open(ranks: usize, settings: settings::Group) -> Result<Self> {
        Self::for_ranks(ranks, settings, None, None)
    }

    /// Makes memory for the ranks of a member of a group, whose sums are then summed over all members.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn of_member(above: Arc<communicator::Communicator>) -> Result<Self> {
        let (ranks, all) = above.ranks();
        let (settings, of_host) = (above.settings().clone(), OfHost { ranks: ranks.to_vec(), all });
        Self::for_ranks(ranks.len(), settings, Some(of_host), Some(above))
    }

    fn for_ranks(
        ranks: usize,
        settings: settings::Group,
        of_host: Option<OfHost>,
        above: Option<Arc<communicator::Communicator>>,
    ) -> Result<Self> {
        ensure!((2..=1024).contains(&ranks), "{ranks} ranks cannot share memory");
        let (entrance, segment) = Entrance::open(ranks)?;
        let description = Description { socket: entrance.name().to_owned(), settings, of_host };
        Ok(Self { entrance, segment, description, above })
    }

    /// How other ranks reach it, as text.
    ///
    /// # Panics
    /// Never: it is plain data.
    #[must_use]
    pub fn description(&self) -> String {
        serde_json::to_string(&self.description).expect("plain data")
    }
}

/// A rank's part in a group that shares memory.
pub struct Communicator {
    shared: Arc<Shared>,
    /// Until the group is left.
    threads: Mutex<Option<Threads>>,
    description: Description,
}

struct Threads {
    calls: JoinHandle<()>,
    results: Option<JoinHandle<()>>,
    watch: JoinHandle<()>,
}

struct Shared {
    segment: Segment,
    /// Among those of the host.
    rank: usize,
    ranks: usize,
    /// What the ranks of the host are called.
    names: Members,
    /// If there are other hosts.
    host: Option<Host>,
    nonfinite: NonFinite,
    /// See [`LOOKS`] and [`YIELDS`].
    looks: u32,
    yields: u32,
    /// Whether the rank's callers carry out calls: no processor is left for its thread.
    helps: bool,
    /// The thread that has it carries out the rank's next call.
    turn: Mutex<Place>,
    /// Milliseconds after which a call without a result breaks the group.
    timeout: AtomicU64,
    stop: AtomicBool,
    /// Ends the watch over the connections, and so the connections, when it is shut down.
    watching: Mutex<Option<UnixStream>>,
    state: Mutex<State>,
    called: Condvar,
    callers: Arc<Callers>,
    /// Why the group cannot be used any more.
    failure: Arc<Outcome>,
}

#[derive(Default)]
struct State {
    /// Calls that have not begun, each with its outcome.
    waiting: VecDeque<(Task, Arc<Outcome>)>,
    /// Calls that are under way.
    under_way: Vec<Arc<Outcome>>,
    begun: u64,
    done: u64,
    values: u64,
    broken: Option<Error>,
    /// Whether this rank is leaving the group: no call follows.
    ended: bool,
}

/// How far a rank is, in a thread of its own.
struct Place {
    lane: Lane,
    steps: u32,
    /// Buffers used so far.
    parts: usize,
}

impl Place {
    fn new(lane: Lane) -> Self {
        Self { lane, steps: 0, parts: 0 }
    }

    /// The number of the buffer for the next part.
    fn next(&mut self) -> usize {
        self.parts += 1;
        self.parts % 2
    }
}

impl Communicator {
    /// Joins the group in the process of the first rank.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn first(memory: Memory, ranks: usize, timeout: Duration) -> Result<Self> {
        let Memory { entrance, segment, description, above } = memory;
        let connections = Connections::of_first(entrance, ranks);
        Self::start(connections, segment, &description, above, (0, ranks), timeout)
    }

    /// Joins the group that the first rank has described. `rank` is among those of the host.
    ///
    /// # Errors
    /// If the first rank cannot be reached.
    pub fn join(description: &str, rank: usize, ranks: usize, timeout: Duration) -> Result<Self> {
        let description: Description =
            serde_json::from_str(description).context("not the description of a group")?;
        let (connections, segment) = join::join(&description.socket, rank, ranks, timeout)?;
        Self::start(connections, segment, &description, None, (rank, ranks), timeout)
    }

    fn start(
        connections: Connections,
        segment: Segment,
        description: &Description,
        above: Option<Arc<communicator::Communicator>>,
        (rank, ranks): (usize, usize),
        timeout: Duration,
    ) -> Result<Self> {
        let of_host = description.of_host.clone();
        let names = match &of_host {
            Some(OfHost { ranks, .. }) => Members::alone(ranks),
            None => Members::each_alone(u16::try_from(ranks)?),
        };
        let host = of_host.map(|OfHost { all, .. }| Host { all, above });
        let callers = Arc::<Callers>::default();
        let (watching, closing) = UnixStream::pair()?;
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let helps = ranks >= cores && host.is_none();
        let shared = Arc::new(Shared {
            segment,
            rank,
            ranks,
            names,
            host,
            nonfinite: description.settings.nonfinite,
            looks: if ranks <= cores { LOOKS } else { 0 },
            yields: if ranks <= 2 * cores { YIELDS } else { 0 },
            helps,
            turn: Mutex::new(Place::new(Lane::Sums)),
            timeout: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            watching: Mutex::new(Some(watching)),
            state: Mutex::default(),
            called: Condvar::new(),
            failure: Arc::new(Outcome::new(u64::MAX, Arc::clone(&callers))),
            callers,
        });
        shared.set_timeout(timeout);
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            let thread = thread::Builder::new().name(name.into()).spawn(run);
            thread.context("cannot start a thread")
        };
        let (of_calls, of_watch) = (Arc::clone(&shared), Arc::clone(&shared));
        let of_results = Arc::clone(&shared);
        let (to_results, rests) = mpsc::channel();
        // Without the other threads, these have nothing to carry out: they end with the process.
        let calls = spawn("sums", Box::new(move || of_calls.run(&to_results)))?;
        let results = match &shared.host {
            Some(_) => Some(spawn("results", Box::new(move || of_results.finish_all(rests)))?),
            None => None,
        };
        let watch = spawn("watch", Box::new(move || of_watch.watch(connections, &closing)))?;
        shared.follow_the_others();
        let threads = Mutex::new(Some(Threads { calls, results, watch }));
        Ok(Self { shared, threads, description: description.clone() })
    }

    /// The name of the abstract Unix socket at one end of each connection.
    #[must_use]
    pub fn socket(&self) -> &str {
        &self.description.socket
    }

    /// The group's settings.
    #[must_use]
    pub fn settings(&self) -> &settings::Group {
        &self.description.settings
    }

    /// This rank, among those of the host.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.shared.rank
    }

    /// Whether all ranks of the group share its memory: only then can they carry out a [`Collective`].
    #[must_use]
    pub fn has_all_ranks(&self) -> bool {
        self.shared.host.is_none()
    }

    /// Begins a collective. All ranks must make the same calls and collectives in the same order.
    ///
    /// # Panics
    /// If not all ranks of the group share its memory.
    pub fn begin(&self, collective: Collective) -> Pending {
        assert!(self.has_all_ranks(), "a group of one host");
        self.shared.begin(Task::Collective(collective))
    }

    fn end(&self, threads: Threads) {
        let Threads { calls, results, watch } = threads;
        lock(&self.shared.state).ended = true;
        self.shared.called.notify_all();
        // The panic hook has reported a panic of a thread.
        drop((calls.join(), results.map(JoinHandle::join)));
        self.shared.break_up(&Error::Closed);
        // A caller that carries out a call stops to use its memory.
        drop(lock(&self.shared.turn));
        self.shared.end_watch();
        drop(watch.join());
        self.shared.callers.end();
    }
}

impl Group for Communicator {
    fn call(&self, call: Call) -> Pending {
        self.shared.begin(Task::Call(call))
    }

    fn failure(&self) -> Pending {
        Pending::new(&self.shared.failure, &self.shared)
    }

    fn counters(&self) -> Counters {
        let State { begun, done, values, .. } = *lock(&self.shared.state);
        let above = self.shared.above().map(|above| above.counters()).unwrap_or_default();
        Counters { begun, done, values, ..above }
    }

    fn set_timeout(&self, timeout: Duration) {
        self.shared.set_timeout(timeout);
    }

    fn set_progress(&self, step: u64, of: u64) {
        if let Some(above) = self.shared.above() {
            above.set_progress(step, of);
        }
    }

    fn close(&self) {
        let Some(threads) = lock(&self.threads).take() else { return };
        let shared = &self.shared;
        let deadline = Instant::now() + PATIENCE;
        let left = || deadline.saturating_duration_since(Instant::now());
        if shared.pending().iter().all(|outcome| outcome.wait(left()).is_some()) {
            shared.segment.leave(shared.rank, lock(&shared.state).begun);
        } else {
            shared.give_up("it left while calls were pending");
            // Calls that are in the network end now.
            shared.abort_above();
        }
        self.end(threads);
        if let Some(above) = shared.above() {
            above.close();
        }
    }

    fn abort(&self) {
        let Some(threads) = lock(&self.threads).take() else { return };
        self.shared.give_up("it was aborted");
        self.shared.abort_above();
        self.end(threads);
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        self.abort();
    }
}

impl Patience for Shared {
    fn time_out(&self, outcome: &Outcome) -> Error {
        if self.is_led()
            && let Some(Err(error)) = self.failure.wait(LEAD)
        {
            return error;
        }
        let error = self.too_late(outcome);
        self.break_up(&error);
        error
    }
}

impl Shared {
    fn set_timeout(&self, timeout: Duration) {
        let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        self.timeout.store(millis, Ordering::Relaxed);
        if let Some(above) = self.above() {
            above.set_timeout(timeout);
        }
    }

    /// Calls without a result.
    fn pending(&self) -> Vec<Arc<Outcome>> {
        let state = lock(&self.state);
        let waiting = state.waiting.iter().map(|(_, outcome)| outcome);
        state.under_way.iter().chain(waiting).cloned().collect()
    }

    /// Watches the connections until one shows that a rank is gone, or this rank leaves.
    fn watch(&self, mut connections: Connections, closing: &UnixStream) {
        loop {
            match connections.watch(closing) {
                Ok(Found::Closed) => break,
                Ok(Found::Gone(rank)) => {
                    if self.segment.left(rank).is_some() && self.segment.failure().is_none() {
                        continue;
                    }
                    // If the group has failed before, that is told.
                    let error = self.lost(rank, "is gone: its process has ended".into());
                    self.segment.fail(&error);
                    self.break_up(&self.told(self.segment.failure().unwrap_or(error)));
                    break;
                }
                Err(error) => {
                    self.break_up(&Error::Failed(format!("cannot watch the other ranks: {error}")));
                    break;
                }
            }
        }
        // The others look for a failure then.
        connections.shut_down();
    }

    /// A call has a result. Its memory is the caller's again.
    fn end_call(&self, outcome: &Arc<Outcome>, elements: u64, result: Result<(), Error>) {
        if let Err(error) = &result
            && !error.is_of_one_call()
        {
            self.break_up(error);
        }
        {
            let mut state = lock(&self.state);
            state.under_way.retain(|other| !Arc::ptr_eq(other, outcome));
            if result.is_ok() {
                (state.done, state.values) = (state.done + 1, state.values + elements);
            }
        }
        outcome.set(result);
    }

    /// The buffers of the next part.
    fn buffers(&self, place: &mut Place) -> Buffers<'_> {
        Buffers { segment: &self.segment, which: place.next(), ranks: self.ranks }
    }

    /// Looks for reasons why a rank that is missing will not come.
    fn look(&self, outcome: &Outcome, missing: usize) -> Result<(), Error> {
        if let Some(error) = self.segment.failure() {
            return Err(self.told(error));
        }
        if self.stop.load(Ordering::Relaxed) {
            return Err(lock(&self.state).broken.clone().unwrap_or(Error::Closed));
        }
        if let Some(calls) = self.segment.left(missing).filter(|calls| *calls <= outcome.number) {
            let begun = lock(&self.state).begun;
            let why = format!("has left the group after {calls} calls, and this rank made {begun}");
            return Err(self.lost(missing, why));
        }
        let timeout = Duration::from_millis(self.timeout.load(Ordering::Relaxed));
        let lead = if self.is_led() { LEAD } else { Duration::ZERO };
        if outcome.begun.elapsed() > timeout.saturating_add(lead) {
            return Err(self.too_late(outcome));
        }
        Ok(())
    }

    /// The error for a rank of the host that is lost.
    fn lost(&self, rank: usize, why: String) -> Error {
        Error::PeerLost { rank: self.names.worker(rank), why }
    }

    /// What this rank makes of an error that it finds in the memory.
    fn told(&self, error: Error) -> Error {
        match error {
            Error::PeerLost { rank, .. } if rank == self.names.worker(self.rank) => {
                lock(&self.state).broken.clone().unwrap_or(Error::Closed)
            }
            error => error,
        }
    }

    /// The error for a call that takes too long, with the ranks that have not made it.
    fn too_late(&self, outcome: &Outcome) -> Error {
        let behind = self.segment.behind(outcome.number.saturating_add(1));
        let what = match (behind.is_empty(), &self.host, self.above()) {
            (true, Some(_), Some(above)) => return above.too_late(outcome),
            (true, Some(_), None) => {
                format!("{} has no result of call {}", self.names.names(&[0]), outcome.number)
            }
            (true, None, _) => format!("all ranks have made call {}", outcome.number),
            (false, ..) => {
                format!("{} not made call {}", self.names.have(&behind), outcome.number)
            }
        };
        Error::TimedOut { waited: outcome.begun.elapsed(), what }
    }

    /// Marks the group as failed, here and at the others. The call that is under way fails once its memory is not used
    /// any more.
    fn break_up(&self, error: &Error) {
        let waiting = {
            let mut state = lock(&self.state);
            if state.broken.is_some() {
                return;
            }
            state.broken = Some(error.clone());
            std::mem::take(&mut state.waiting)
        };
        self.stop.store(true, Ordering::Relaxed);
        match error {
            Error::Closed => self.end_watch(),
            _ if self.above().is_some() => {
                self.segment.fail(error);
                self.end_watch();
            }
            Error::TimedOut { .. } | Error::Failed(_) => {
                self.segment.fail(&self.lost(self.rank, format!("gave up: {error}")));
                self.end_watch();
            }
            // The others see it by themselves.
            _ => {}
        }
        if let Some(above) = self.above()
            && *error != Error::Closed
        {
            above.fail(error.to_string());
        }
        self.segment.wake();
        self.failure.set(Err(error.clone()));
        for (task, outcome) in waiting {
            drop(task);
            outcome.set(Err(error.clone()));
        }
    }

    /// Ends the watch over the connections, also if a forked process has a copy of this end.
    fn end_watch(&self) {
        if let Some(end) = lock(&self.watching).take() {
            // The watch may have ended.
            drop(end.shutdown(Shutdown::Both));
        }
    }

    /// Breaks the group because this rank wants to leave it.
    fn give_up(&self, why: &str) {
        self.segment.fail(&self.lost(self.rank, format!("gave up: {why}")));
        self.break_up(&Error::Closed);
    }
}

fn claim(operation: &str, elements: u64, element: &str, refused: Option<usize>) -> Claim {
    Claim {
        kind: agreement::Claim::new(operation, elements, element).kind().into(),
        elements,
        refused: refused.map(|at| at as u64),
        text: agreement::describe(operation, elements, element),
    }
}
