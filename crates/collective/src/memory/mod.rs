//! Groups whose ranks are all on one host: they add in memory that they share, and need no switch.
//!
//! Each rank has a thread that carries out its calls in their order, in *steps*: a rank takes a step when it has
//! written what the others need, and waits until all have taken as many. Before the first step of a call it writes
//! what it calls, so that all ranks see a difference before they touch any value. Of many values each rank adds up a
//! share; few are added up by every rank, which saves a step. Sums are those of double precision in the order of the
//! ranks, divided for an average, and rounded; those of 16-bit types to `f32` before.
//!
//! | module | content |
//! | --- | --- |
//! | `segment` | the shared memory |
//! | `join` | how ranks come by it, and notice that one is gone |
//! | `sums` | sums over buffers |

mod join;
mod segment;
mod sums;

use std::collections::VecDeque;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use tributary_protocol::worker::Stats;

use self::join::{Connections, Entrance, Found};
use self::segment::{Claim, Segment};
use self::sums::{Buffers, Element, How, capacity};
use crate::group::Patience;
use crate::outcome::{Callers, Outcome, lock};
use crate::settings::{self, NonFinite};
use crate::work::{AVERAGE, SUM};
use crate::{Call, Counters, Error, Group, Pending, Values, agreement};

/// How long a rank that leaves waits for calls that are under way.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest sleep before a look at the time and at the other ranks.
const SLEEP: Duration = Duration::from_millis(50);

/// Looks at the other ranks before a sleep, if each can have a processor.
const LOOKS: u32 = 2_000;

/// Bytes up to which every rank adds all values.
const FEW: usize = 16 << 10;

/// What the first rank tells the others.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Description {
    socket: String,
    settings: settings::Group,
}

/// The memory of a group, in the process of its first rank.
pub struct Memory {
    entrance: Entrance,
    segment: Segment,
    description: Description,
}

impl Memory {
    /// Makes memory for a group of so many ranks.
    ///
    /// # Errors
    /// If there are too many, or the operating system refuses.
    pub fn open(ranks: usize, settings: settings::Group) -> Result<Self> {
        ensure!((2..=1024).contains(&ranks), "{ranks} ranks cannot share memory");
        let (entrance, segment) = Entrance::open(ranks)?;
        let description = Description { socket: entrance.name().to_owned(), settings };
        Ok(Self { entrance, segment, description })
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
    watch: JoinHandle<()>,
}

struct Shared {
    segment: Segment,
    rank: usize,
    ranks: usize,
    nonfinite: NonFinite,
    /// See [`LOOKS`].
    looks: u32,
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
    waiting: VecDeque<(Call, Arc<Outcome>)>,
    /// The call that is under way.
    current: Option<Arc<Outcome>>,
    begun: u64,
    done: u64,
    values: u64,
    broken: Option<Error>,
    /// Whether this rank is leaving the group: no call follows.
    ended: bool,
}

/// How far a rank is, in its thread.
#[derive(Default)]
struct Place {
    steps: u32,
    /// Buffers used so far.
    parts: usize,
}

impl Communicator {
    /// Joins the group in the process of the first rank.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn first(memory: Memory, ranks: usize, timeout: Duration) -> Result<Self> {
        let Memory { entrance, segment, description } = memory;
        let connections = Connections::of_first(entrance, ranks);
        Self::start(connections, segment, &description, (0, ranks), timeout)
    }

    /// Joins the group that the first rank has described.
    ///
    /// # Errors
    /// If the first rank cannot be reached.
    pub fn join(description: &str, rank: usize, ranks: usize, timeout: Duration) -> Result<Self> {
        let description: Description =
            serde_json::from_str(description).context("not the description of a group")?;
        let (connections, segment) = join::join(&description.socket, rank, ranks, timeout)?;
        Self::start(connections, segment, &description, (rank, ranks), timeout)
    }

    fn start(
        connections: Connections,
        segment: Segment,
        description: &Description,
        (rank, ranks): (usize, usize),
        timeout: Duration,
    ) -> Result<Self> {
        let callers = Arc::<Callers>::default();
        let (watching, closing) = UnixStream::pair()?;
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let shared = Arc::new(Shared {
            segment,
            rank,
            ranks,
            nonfinite: description.settings.nonfinite,
            looks: if ranks <= cores { LOOKS } else { 0 },
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
        // Without the other thread, this one has nothing to carry out: it ends with the process.
        let calls = spawn("sums", Box::new(move || of_calls.run()))?;
        let watch = spawn("watch", Box::new(move || of_watch.watch(connections, &closing)))?;
        let threads = Mutex::new(Some(Threads { calls, watch }));
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

    fn end(&self, threads: Threads) {
        let Threads { calls, watch } = threads;
        lock(&self.shared.state).ended = true;
        self.shared.called.notify_all();
        // The panic hook has reported a panic of a thread.
        drop(calls.join());
        self.shared.break_up(&Error::Closed);
        self.shared.end_watch();
        drop(watch.join());
        self.shared.callers.end();
    }
}

impl Group for Communicator {
    fn call(&self, call: Call) -> Pending {
        let shared = &self.shared;
        let outcome = {
            let mut state = lock(&shared.state);
            let outcome = Arc::new(Outcome::new(state.begun, Arc::clone(&shared.callers)));
            state.begun += 1;
            shared.segment.begin(shared.rank, state.begun);
            match &state.broken {
                Some(error) => outcome.set(Err(error.clone())),
                None => state.waiting.push_back((call, Arc::clone(&outcome))),
            }
            outcome
        };
        shared.called.notify_all();
        Pending::new(&outcome, shared)
    }

    fn failure(&self) -> Pending {
        Pending::new(&self.shared.failure, &self.shared)
    }

    fn counters(&self) -> Counters {
        let State { begun, done, values, .. } = *lock(&self.shared.state);
        Counters { begun, done, values, underflows: 0, runs: 0, worker: Stats::default() }
    }

    fn set_timeout(&self, timeout: Duration) {
        self.shared.set_timeout(timeout);
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
        }
        self.end(threads);
    }

    fn abort(&self) {
        let Some(threads) = lock(&self.threads).take() else { return };
        self.shared.give_up("it was aborted");
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
        let error = self.too_late(outcome);
        self.break_up(&error);
        error
    }
}

impl Shared {
    fn set_timeout(&self, timeout: Duration) {
        let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        self.timeout.store(millis, Ordering::Relaxed);
    }

    /// Calls without a result.
    fn pending(&self) -> Vec<Arc<Outcome>> {
        let state = lock(&self.state);
        let waiting = state.waiting.iter().map(|(_, outcome)| outcome);
        state.current.iter().chain(waiting).cloned().collect()
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
                    // If another rank has failed before, that one is named.
                    let why = "is gone: its process has ended";
                    self.segment.fail(rank, why);
                    let (rank, why) =
                        self.segment.failure().unwrap_or_else(|| (rank, why.to_owned()));
                    self.break_up(&self.lost(rank, why));
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

    /// Carries out calls until this rank leaves the group.
    fn run(&self) {
        let mut place = Place::default();
        loop {
            let (call, outcome) = {
                let mut state = lock(&self.state);
                loop {
                    if let Some((call, outcome)) = state.waiting.pop_front() {
                        state.current = Some(Arc::clone(&outcome));
                        break (call, outcome);
                    }
                    if state.ended {
                        return;
                    }
                    state = self.called.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            };
            let elements = match &call {
                Call::Reduce { values, .. } => values.len() as u64,
                Call::Announce { .. } => 0,
            };
            let result = self.carry_out(call, &outcome, &mut place);
            if let Err(error) = &result
                && !matches!(error, Error::NotFinite { .. })
            {
                self.break_up(error);
            }
            {
                let mut state = lock(&self.state);
                state.current = None;
                if result.is_ok() {
                    (state.done, state.values) = (state.done + 1, state.values + elements);
                }
            }
            outcome.set(result);
        }
    }

    /// The memory of the call is the caller's again when this returns.
    fn carry_out(&self, call: Call, outcome: &Outcome, place: &mut Place) -> Result<(), Error> {
        match call {
            Call::Announce { operation, elements, element } => {
                let claim = claim(&operation, elements, &element, None);
                self.agree(outcome, &claim, place)
            }
            Call::Reduce { values, average, .. } => {
                let operation = if average { AVERAGE } else { SUM };
                let element = values.element();
                let refused = match self.nonfinite {
                    NonFinite::Raise => values.floats().iter().position(|value| !value.is_finite()),
                    NonFinite::Propagate => None,
                };
                let claim = claim(operation, values.len() as u64, element.name(), refused);
                let divisor = average.then_some(self.ranks as f64);
                let how = How { element, divisor };
                match values {
                    Values::Single(mut values) => {
                        self.sum(outcome, &claim, &mut values[..], how, place)
                    }
                    Values::Short(mut values, _) => {
                        self.sum(outcome, &claim, &mut values[..], how, place)
                    }
                }
            }
        }
    }

    /// Waits until all ranks have made the call, and compares what they call.
    fn agree(&self, outcome: &Outcome, claim: &Claim, place: &mut Place) -> Result<(), Error> {
        self.segment.claim(self.rank, outcome.number, claim);
        self.step(outcome, place)?;
        let is_same = |rank| self.segment.is_same(rank, outcome.number, claim);
        if (0..self.ranks).all(is_same) {
            return Ok(());
        }
        let claims = self.segment.claims(outcome.number);
        let same = |other: &Claim| (other.kind, other.elements) == (claim.kind, claim.elements);
        if claims.iter().all(same) {
            let found = claims.iter().map(|claim| match claim.refused {
                Some(at) => format!("value {at} is not finite"),
                None => String::new(),
            });
            let found = agreement::who_says_what(&found.collect::<Vec<_>>());
            return Err(Error::NotFinite {
                what: format!("in call {}, at {found}", outcome.number),
            });
        }
        let texts: Vec<_> = claims.into_iter().map(|claim| claim.text).collect();
        Err(Error::Mismatch { call: outcome.number, what: agreement::who_calls_what(&texts) })
    }

    fn sum<T: Element + Default>(
        &self,
        outcome: &Outcome,
        claim: &Claim,
        values: &mut [T],
        how: How,
        place: &mut Place,
    ) -> Result<(), Error> {
        let few = size_of_val(values) <= FEW;
        for (at, part) in values.chunks_mut(capacity::<T>()).enumerate() {
            let (segment, which, ranks) = (&self.segment, place.parts % 2, self.ranks);
            let buffers = Buffers { segment, which, ranks };
            place.parts += 1;
            buffers.write(self.rank, part);
            match at {
                0 => self.agree(outcome, claim, place)?,
                _ => self.step(outcome, place)?,
            }
            if few {
                buffers.add_up(0..part.len(), how, part);
            } else {
                buffers.add_up_share::<T>(self.rank, part.len(), how);
                self.step(outcome, place)?;
                buffers.gather(part);
            }
        }
        if values.is_empty() { self.agree(outcome, claim, place) } else { Ok(()) }
    }

    /// Takes a step, and waits until all ranks have taken as many.
    fn step(&self, outcome: &Outcome, place: &mut Place) -> Result<(), Error> {
        place.steps = place.steps.wrapping_add(1);
        self.segment.step(self.rank, place.steps);
        let mut looks = self.looks;
        loop {
            let turn = self.segment.turn();
            let Some(missing) = self.segment.missing(place.steps) else { return Ok(()) };
            if looks > 0 {
                looks -= 1;
                std::hint::spin_loop();
                continue;
            }
            self.look(outcome, missing)?;
            self.segment.sleep(turn, SLEEP);
        }
    }

    /// Looks for reasons why a rank that is missing will not come.
    fn look(&self, outcome: &Outcome, missing: usize) -> Result<(), Error> {
        if let Some((rank, why)) = self.segment.failure() {
            return Err(self.lost(rank, why));
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
        if outcome.begun.elapsed() > timeout {
            return Err(self.too_late(outcome));
        }
        Ok(())
    }

    fn lost(&self, rank: usize, why: String) -> Error {
        if rank == self.rank {
            return lock(&self.state).broken.clone().unwrap_or(Error::Closed);
        }
        Error::PeerLost { rank: u16::try_from(rank).unwrap_or(u16::MAX), why }
    }

    /// The error for a call that takes too long, with the ranks that have not made it.
    fn too_late(&self, outcome: &Outcome) -> Error {
        let behind = self.segment.behind(outcome.number.saturating_add(1));
        let have = if behind.len() == 1 { "has" } else { "have" };
        let what = match behind.is_empty() {
            true => format!("all ranks have made call {}", outcome.number),
            false => {
                format!("{} {have} not made call {}", agreement::names(&behind), outcome.number)
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
        // The others see anything else by themselves.
        if let Error::TimedOut { .. } | Error::Failed(_) | Error::Closed = error {
            if *error != Error::Closed {
                self.segment.fail(self.rank, &format!("gave up: {error}"));
            }
            self.end_watch();
        }
        self.segment.wake();
        self.failure.set(Err(error.clone()));
        for (call, outcome) in waiting {
            drop(call);
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
        self.segment.fail(self.rank, &format!("gave up: {why}"));
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
