//! The whole system: states, steps and checks.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::RwLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use stateright::{Model, Property};
use tributary_wire::agg::Packet;
use tributary_wire::channel::{FromWorker, ToWorker};
use tributary_wire::{Kind, Sequence};

use crate::system::{Effect, Item, Stimulus, System};

/// Bounds of faults and timers before the network becomes fair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bounds {
    /// Packets delivered twice.
    pub(crate) duplicates: u8,
    /// Timers that fire.
    pub(crate) timers: u8,
    /// Replacements of a PS, with its agent, by one without state.
    pub(crate) restarts: u8,
    /// Steps, if bounded.
    pub(crate) depth: Option<usize>,
}

/// A state of the whole system, as numbers of items that [`System`] stores.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct State {
    /// The parts: workers, PSs, switches.
    parts: Box<[u32]>,
    /// Packets in flight, sorted because they have no order.
    items: Vec<u32>,
    /// Messages in flight on the reliable channels: by channel, in order within each.
    messages: Vec<u32>,
    /// The remaining bounds.
    left: Left,
    /// The number of a violation, if there was one.
    trouble: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Left {
    duplicates: u8,
    timers: u8,
    restarts: u8,
}

/// A step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// A packet arrives, or takes its next pass.
    Deliver(u32),
    /// A packet arrives and stays in flight.
    Duplicate(u32),
    /// The next message of a channel arrives.
    Hear(u32),
    /// The next timer of an endpoint fires.
    Fire(u8),
    /// A worker begins.
    Submit(u8),
    /// The PS of a job is replaced.
    Restart(u8),
    /// A switch gets the entries of the later run.
    Renew(u8),
}

/// A search.
#[derive(Debug)]
pub(crate) struct Search {
    pub(crate) system: System,
    bounds: Bounds,
    /// States from which a fair run is known to complete, apart from the remaining bounds.
    fair: Vec<RwLock<HashSet<u64, BuildHasherDefault<Same>>>>,
    /// Number of fair runs begun.
    pub(crate) runs: AtomicUsize,
    why: RwLock<Option<String>>,
}

/// A hasher for values that are already hashes.
#[derive(Default, Debug)]
pub(crate) struct Same(u64);

impl std::hash::Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only numbers are hashed")
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

const SHARDS: usize = 64;
/// Step limit of a fair run; those of these configurations need some hundred.
const LONGEST_RUN: usize = 5_000;

impl Search {
    pub(crate) fn new(system: System, bounds: Bounds) -> Self {
        let fair = (0..SHARDS).map(|_| RwLock::default()).collect();
        Self { system, bounds, fair, runs: AtomicUsize::new(0), why: RwLock::new(None) }
    }

    /// The violation in a state.
    pub(crate) fn trouble(&self, state: &State) -> Option<String> {
        state.trouble.map(|number| self.system.trouble(number))
    }

    /// Why the last failed fair run failed.
    pub(crate) fn why(&self) -> Option<String> {
        self.why.read().unwrap().clone()
    }

    fn initial(&self) -> State {
        let Bounds { duplicates, timers, restarts, .. } = self.bounds;
        let mut state = State {
            parts: self.system.initial().into(),
            items: Vec::new(),
            messages: Vec::new(),
            left: Left { duplicates, timers, restarts },
            trouble: None,
        };
        if !self.system.setting().late_starts {
            for worker in 0..self.system.workers() {
                if self.begins(&state, worker) {
                    self.happen(&mut state, worker, Stimulus::Submit);
                }
            }
        }
        state
    }

    /// Whether a worker may begin: workers of a later run do when all switches serve that run.
    fn begins(&self, state: &State, worker: usize) -> bool {
        self.waits(state, worker)
            && (self.system.setting().again.is_none()
                || self.system.is_of_the_run_before(worker)
                || self.system.unchanged(&state.parts).is_empty())
    }

    /// Applies a stimulus to a part.
    fn happen(&self, state: &mut State, part: usize, stimulus: Stimulus) {
        if let Some(effect) = self.system.effect(part, state.parts[part], stimulus) {
            self.apply(state, part, &effect);
        }
    }

    fn apply(&self, state: &mut State, part: usize, effect: &Effect) {
        state.parts[part] = effect.part;
        for &item in &effect.items {
            let at = state.items.partition_point(|&other| other <= item);
            state.items.insert(at, item);
        }
        for &message in &effect.messages {
            let channel = self.system.channel(message);
            let after = |other: &u32| self.system.channel(*other) <= channel;
            let at = state.messages.partition_point(after);
            state.messages.insert(at, message);
        }
        state.trouble = state.trouble.or(effect.trouble);
        self.forget(state);
    }

    /// Removes packets without any effect, now or later: results for workers that have them, and
    /// gradients of past rounds of a P4INC or SwitchML cell. This merges states that differ in
    /// nothing else.
    fn forget(&self, state: &mut State) {
        let State { parts, items, .. } = state;
        items.retain(|&item| {
            let part = self.system.addressee(item);
            !self.system.is_spent(part, parts[part], item)
        });
    }

    fn take(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        match step {
            Step::Deliver(item) | Step::Duplicate(item) => {
                if matches!(step, Step::Duplicate(_)) {
                    state.left.duplicates -= 1;
                } else {
                    let at = state.items.binary_search(&item).ok()?;
                    state.items.remove(at);
                }
                self.happen(&mut state, self.system.addressee(item), Stimulus::Item(item));
            }
            Step::Hear(message) => {
                let at = state.messages.iter().position(|&other| other == message)?;
                state.messages.remove(at);
                let part = self.system.channel(message).part;
                self.happen(&mut state, part, Stimulus::Message(message));
            }
            Step::Fire(part) => {
                state.left.timers -= 1;
                self.happen(&mut state, part.into(), Stimulus::Timer);
            }
            Step::Submit(worker) => self.happen(&mut state, worker.into(), Stimulus::Submit),
            Step::Renew(part) => self.happen(&mut state, part.into(), Stimulus::Renew),
            Step::Restart(job) => {
                state.left.restarts -= 1;
                let job = usize::from(job);
                state.parts[self.system.office(job)] = self.system.fresh_office(job);
                state.messages.retain(|&message| self.system.channel(message).job != job);
                for worker in self.system.workers_of(job) {
                    self.happen(&mut state, worker, Stimulus::Reconnect);
                }
            }
        }
        (state != *last).then_some(state)
    }

    /// The first message of each channel.
    fn heads<'a>(&'a self, state: &'a State) -> impl Iterator<Item = u32> + 'a {
        let mut last = None;
        state.messages.iter().copied().filter(move |&message| {
            let channel = self.system.channel(message);
            last.replace(channel) != Some(channel)
        })
    }

    /// A timer without effect is not a step.
    fn can_fire(&self, state: &State, part: usize) -> bool {
        self.system.effect(part, state.parts[part], Stimulus::Timer).is_some()
    }

    fn waits(&self, state: &State, worker: usize) -> bool {
        self.system.waits(state.parts[worker])
    }

    // --- A fair run (I7) ----------------------------------------------------------------------

    /// Delivers all packets from here on, and fires timers when nothing else happens. Returns
    /// whether all workers get all sums and the PSs have nothing left to do.
    fn completes(&self, state: &State) -> bool {
        if state.trouble.is_some() {
            return true;
        }
        let mut state = state.clone();
        state.left = Left { duplicates: 0, timers: 0, restarts: 0 };
        // Cases: all packets in flight arrive; all are lost; any single one is lost.
        if !self.runs_well(&state) {
            return false;
        }
        let items = std::mem::take(&mut state.items);
        let (passes, lost): (Vec<u32>, Vec<u32>) =
            items.iter().partition(|&&item| self.system.is_inside(item));
        state.items = passes;
        if !self.runs_well(&state) {
            return false;
        }
        lost.iter().all(|one| {
            state.items.clone_from(&items);
            let at = items.binary_search(one).expect("it is one of them");
            state.items.remove(at);
            self.runs_well(&state)
        })
    }

    fn runs_well(&self, state: &State) -> bool {
        let mut trail = Vec::new();
        let mut state = state.clone();
        for _ in 0..LONGEST_RUN {
            let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(&state);
            if self.fair[hash as usize % SHARDS].read().unwrap().contains(&hash) {
                break;
            }
            if trail.is_empty() {
                self.runs.fetch_add(1, Ordering::Relaxed);
            }
            trail.push(hash);
            if let Some(trouble) = self.trouble(&state) {
                return self.fails(trouble);
            }
            if self.run_on(&mut state) {
                continue;
            }
            let idle = self.unfinished(&state);
            if idle.is_empty() {
                break;
            }
            return self.fails(format!("it stops, and {idle}"));
        }
        if trail.len() == LONGEST_RUN {
            return self.fails(format!("it goes on for ever, and {}", self.unfinished(&state)));
        }
        for hash in trail {
            self.fair[hash as usize % SHARDS].write().unwrap().insert(hash);
        }
        true
    }

    fn fails(&self, why: String) -> bool {
        *self.why.write().unwrap() = Some(why);
        false
    }

    fn unfinished(&self, state: &State) -> String {
        let mut text = String::new();
        for part in self.lasting() {
            if !self.system.is_done(state.parts[part]) {
                write!(text, "{} is not done; ", self.system.part_name(part)).unwrap();
            }
        }
        text
    }

    /// The endpoints that must finish: not those of a run that the controller has ended.
    fn lasting(&self) -> impl Iterator<Item = usize> {
        let endpoints = 0..self.system.workers() + self.system.jobs();
        endpoints.filter(|&part| !self.system.is_of_the_run_before(part))
    }

    /// The next step of a fair run; false if there is none.
    fn run_on(&self, state: &mut State) -> bool {
        let step = if let Some(&part) = self.system.unchanged(&state.parts).first() {
            Step::Renew(part as u8)
        } else if let Some(&item) = state.items.first() {
            Step::Deliver(item)
        } else if let Some(&message) = state.messages.first() {
            Step::Hear(message)
        } else if let Some(worker) = (0..self.system.workers()).find(|&w| self.begins(state, w)) {
            Step::Submit(worker as u8)
        } else {
            let mut fired = false;
            for part in self.lasting() {
                if self.can_fire(state, part) {
                    self.happen(state, part, Stimulus::Timer);
                    fired = true;
                }
            }
            return fired;
        };
        if let Some(next) = self.take(state, step) {
            *state = next;
        }
        true
    }

    // --- For people ---------------------------------------------------------------------------

    /// Describes a path.
    pub(crate) fn describe(&self, steps: &[Step]) -> String {
        let mut text = String::new();
        let mut state = self.initial();
        for step in steps {
            let words = self.words(*step);
            state = self.take(&state, *step).unwrap_or(state);
            let cells = self.cells(&state);
            writeln!(text, "  {words:<72} {cells}").unwrap();
        }
        let on_the_way: Vec<String> = state.items.iter().map(|&i| self.item_words(i)).collect();
        writeln!(text, "  on the way: {}", on_the_way.join("; ")).unwrap();
        text
    }

    fn cells(&self, state: &State) -> String {
        let first = self.system.workers() + self.system.jobs();
        let cells = state.parts[first..].iter().map(|&part| self.system.cell_words(part));
        cells.collect::<Vec<_>>().join(" ")
    }

    fn words(&self, step: Step) -> String {
        match step {
            Step::Deliver(item) => self.item_words(item),
            Step::Duplicate(item) => format!("a copy of: {}", self.item_words(item)),
            Step::Hear(message) => self.system.message_words(message),
            Step::Fire(part) => format!("timer of {}", self.system.part_name(part.into())),
            Step::Submit(worker) => format!("{} begins", self.system.part_name(worker.into())),
            Step::Renew(part) => format!("{} is renewed", self.system.part_name(part.into())),
            Step::Restart(job) => {
                format!("{} is replaced", self.system.part_name(self.system.office(job.into())))
            }
        }
    }

    fn item_words(&self, item: u32) -> String {
        let to = self.system.part_name(self.system.addressee(item));
        let item = self.system.item(item);
        let (frame, how) = match &*item {
            Item::ToHost { frame, .. } => (frame, "arrives at"),
            Item::ToSwitch { frame, .. } => (frame, "arrives at"),
            Item::Again { waiting, .. } => (&waiting.frame, "passes again"),
        };
        let packet = Packet::new_checked(&frame[..]).expect("a packet of ours");
        format!(
            "{} of {} seq {} bitmap {:b} {:?} prio {} {how} {to}",
            kind_name(packet.kind()),
            packet.job().run(packet.epoch()),
            packet.sequence(),
            packet.bitmap().0,
            packet.flags(),
            packet.priority(),
        )
    }
}

fn kind_name(kind: Kind) -> String {
    format!("{kind:?}").to_uppercase()
}

impl Model for Search {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![self.initial()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Step>) {
        if state.trouble.is_some() {
            return;
        }
        let mut last = None;
        for &item in &state.items {
            if last.replace(item) == Some(item) {
                continue;
            }
            actions.push(Step::Deliver(item));
            if state.left.duplicates > 0 && !self.system.is_inside(item) {
                actions.push(Step::Duplicate(item));
            }
        }
        actions.extend(self.heads(state).map(Step::Hear));
        for worker in 0..self.system.workers() {
            if self.begins(state, worker) {
                actions.push(Step::Submit(worker as u8));
            }
        }
        let unchanged = self.system.unchanged(&state.parts);
        actions.extend(unchanged.into_iter().map(|part| Step::Renew(part as u8)));
        if state.left.timers > 0 {
            for part in 0..self.system.workers() + self.system.jobs() {
                if self.can_fire(state, part) {
                    actions.push(Step::Fire(part as u8));
                }
            }
        }
        if state.left.restarts > 0 {
            actions.extend((0..self.system.jobs()).map(|job| Step::Restart(job as u8)));
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        self.take(last, step)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nothing goes wrong", |_, state: &State| state.trouble.is_none()),
            Property::always("fair runs complete", |search: &Self, state| search.completes(state)),
        ]
    }
}

/// Names of messages.
pub(crate) fn from_worker(message: &FromWorker) -> String {
    match message {
        FromWorker::Values { sequence, .. } => format!("Values({sequence})"),
        FromWorker::Result { sequence, .. } => format!("Result({sequence})"),
        other => format!("{other:?}"),
    }
}

/// Names of messages.
pub(crate) fn to_worker(message: &ToWorker) -> String {
    match message {
        ToWorker::Result { sequence, .. } => format!("Result({sequence})"),
        other => format!("{other:?}"),
    }
}

/// The sequence of a result.
pub(crate) fn result_of(frame: &[u8]) -> Option<Sequence> {
    let packet = Packet::new_checked(frame).ok()?;
    matches!(packet.kind(), Kind::Parameter | Kind::Reply).then(|| packet.sequence())
}

/// The sequence of a gradient that a switch has returned.
pub(crate) fn turned_back(frame: &[u8]) -> Option<Sequence> {
    let packet = Packet::new_checked(frame).ok()?;
    (packet.kind() == Kind::Asynchronous).then(|| packet.sequence())
}
