//! Searches for tests that reach new goals.
//!
//! Each step takes a known test and changes it: it takes the other side of a condition on the test's
//! path, for which the solver finds inputs, or it adds, changes or removes an entry, lengthens or
//! shortens a packet, or appends another packet. Changes that lead to a goal that no test reaches
//! come first. Others follow, those of rarely tried places first.

mod extend;
mod finish;

use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_p4::P4Info;
use tributary_p4::ir::{ExternId, Stmt, TableId};

use crate::testgen::case::{Call, Case, Rule, profile};
use crate::testgen::circuit::{Lit, to_bits};
use crate::testgen::goals::Instrumented;
use crate::testgen::influence::Needs;
use crate::testgen::judge::{Verdict, judge};
use crate::testgen::machine::{Applied, Branch, Outcome, Trace, mix};
use crate::testgen::program::{counted, takes_entries};
use crate::testgen::solver::{Answer, solve};
use crate::testgen::tables::widths;
use crate::testgen::{Options, Progress, Statistics, passes};

/// Bytes of the first packet.
const FIRST_BYTES: usize = 1600;
/// Longest packet in bytes.
const MOST_BYTES: usize = 9000;
/// Steps without a new goal before tests get another packet.
const STALE: usize = 60;
/// Tests that get another packet at a time, and how often that happens without a new goal.
const EXTENDED: usize = 24;
const ROUNDS: usize = 60;
/// Steps without a new goal, after which the search ends.
const HOPELESS: usize = 12_000;
/// Attempts as which an impossible one counts.
const IMPOSSIBLE: u32 = 3;
/// Executions that are kept.
const RECENT: usize = 64;
/// The end of a search without an end.
const FOREVER: Duration = Duration::from_secs(u32::MAX as u64);
/// Attempts at a side of a branch after which its class rises by one, and by how much it rises.
const TIRING: u32 = 6;
const MOST_FATIGUE: u32 = 24;
/// Steps that a change waits for those of the class below it that come later.
const CLASS: u64 = 1000;
/// Attempts at a side in vain, after which inputs are looked for that violate a condition before it.
const RELAXES: u32 = 8;
/// Conditions of a path that a test may violate for the sake of another one.
const MOST_RELAXED: usize = 3;
/// Distances from which on changes are equally promising.
const FAR: u32 = 8;
/// Rounds without a new goal, after which tests set registers and the rates of meters.
const PACKET_ROUNDS: usize = 5;
/// Registers among which the search chooses what an earlier packet writes.
const NEAR_REGISTERS: usize = 4;
/// Bytes of payload that packets keep.
const PAYLOAD: usize = 3;

/// A change of a known test.
#[derive(Debug)]
enum Change {
    /// A side of a branch that the test does not take, by its position, and how near its statements come
    /// to what an unreached goal depends on.
    Flip(usize, Option<u32>),
    /// None: the test is new.
    Whole,
}

/// What a change may lead to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Promise {
    /// A new goal.
    Goal,
    /// A place in which new goals are.
    Within,
    /// A change of what the condition before a new goal depends on, with the number of assignments in
    /// between.
    Toward(u32),
    /// Another path.
    Nothing,
}

impl Promise {
    fn attempts(self) -> u32 {
        match self {
            Self::Goal => 8,
            Self::Within => 6,
            Self::Toward(_) => 5,
            Self::Nothing => 3,
        }
    }

    /// Lower classes come first.
    fn class(self, tries: u32) -> u32 {
        match self {
            Self::Goal => tries,
            Self::Within => 3 + 2 * tries,
            Self::Toward(distance) => 4 + 3 * tries + distance.min(FAR),
            Self::Nothing => 20 + 4 * tries,
        }
    }
}

#[derive(Debug)]
struct Work {
    /// Lower numbers come first: the step by which it is due, and the turn in which it was queued.
    rank: (u64, u64),
    case: Rc<Case>,
    change: Change,
}

impl PartialEq for Work {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl Eq for Work {}

impl PartialOrd for Work {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Work {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.rank.cmp(&self.rank)
    }
}

/// A test that reached new goals.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) case: Case,
    pub(crate) verdict: Verdict,
    /// The registers that it writes.
    written: BTreeSet<ExternId>,
}

pub(crate) struct Search<'a> {
    of: &'a Instrumented,
    p4info: &'a P4Info,
    options: &'a Options,
    /// When it ends at the latest.
    until: Instant,
    random: ChaCha8Rng,
    queue: BinaryHeap<Work>,
    /// The goals that count, and the entries of the program.
    wanted: BTreeSet<usize>,
    /// The goal of each action of each table.
    actions: HashMap<(TableId, usize), usize>,
    /// The goal of the action of each entry of the program.
    action_of: HashMap<usize, usize>,
    covered: BTreeSet<usize>,
    kept: Vec<Kept>,
    /// Tests that meet a condition before a new goal that is a constant for them, by goal.
    blocked: BTreeMap<usize, Rc<Case>>,
    /// Whether what registers hold at first, and the colours of meters, are inputs.
    presets: bool,
    /// Attempts at sites.
    tried: HashMap<u64, u32>,
    /// Attempts at each side of a branch, by its first goal, in whatever context.
    attempts: HashMap<Option<usize>, u32>,
    signatures: HashSet<u64>,
    cases: HashSet<u64>,
    /// The last executions: changes of one test come in turns with those of others.
    recent: VecDeque<(Rc<Case>, Rc<Trace>)>,
    turn: u64,
    steps: u64,
    /// Steps since the last new goal.
    stale: usize,
    rounds: usize,
    pub(crate) statistics: Statistics,
}

impl<'a> Search<'a> {
    pub(crate) fn new(of: &'a Instrumented, p4info: &'a P4Info, options: &'a Options) -> Self {
        let mut actions = HashMap::new();
        for (number, table) in of.program.tables.iter().enumerate() {
            for (action, listed) in table.actions.iter().enumerate() {
                let goal = listed.prologue.first().and_then(|s: &Stmt| counted(s, of.counter));
                if let Some(goal) = goal {
                    actions.insert((TableId(number as u32), action), goal);
                }
            }
        }
        let mut action_of = HashMap::new();
        for (number, table) in of.program.tables.iter().enumerate() {
            for (entry, goal) in table.entries.iter().zip(&of.entries[number]) {
                let key = (TableId(number as u32), entry.call.action as usize);
                action_of.extend(goal.zip(actions.get(&key).copied()));
            }
            for (action, goal) in of.added[number].iter().enumerate() {
                let known = actions.get(&(TableId(number as u32), action));
                action_of.extend(goal.zip(known.copied()));
            }
        }
        let search_goals = of.entries.iter().flatten().copied().flatten();
        let search_goals = search_goals.chain(of.added.iter().flatten().copied().flatten());
        let now = Instant::now();
        Self {
            of,
            p4info,
            options,
            // A time so long that it cannot be added has no end in practice.
            until: now.checked_add(options.time).unwrap_or(now + FOREVER),
            random: ChaCha8Rng::seed_from_u64(options.seed),
            queue: BinaryHeap::new(),
            wanted: of.alive.iter().copied().chain(search_goals).collect(),
            actions,
            action_of,
            covered: BTreeSet::new(),
            kept: Vec::new(),
            blocked: BTreeMap::new(),
            presets: false,
            tried: HashMap::new(),
            attempts: HashMap::new(),
            signatures: HashSet::new(),
            cases: HashSet::new(),
            recent: VecDeque::new(),
            turn: 0,
            steps: 0,
            stale: 0,
            rounds: 0,
            statistics: Statistics::default(),
        }
    }

    /// Searches until all goals are reached, nothing is left to try, or a limit is reached.
    pub(crate) fn run(&mut self, progress: &mut dyn FnMut(Progress)) {
        self.execute(Case::new(FIRST_BYTES), 0);
        while !self.is_complete() && Instant::now() < self.until {
            self.steps += 1;
            if self.steps > self.options.steps as u64 {
                break;
            }
            self.stale += 1;
            if self.stale > HOPELESS {
                break;
            }
            let extends = self.stale.is_multiple_of(STALE) || self.queue.is_empty();
            let ends =
                extends && (self.rounds >= ROUNDS || !self.extend()) && self.queue.is_empty();
            if !self.presets && (ends || self.rounds > PACKET_ROUNDS) && self.may_preset() {
                self.begin_presets();
            } else if ends {
                break;
            }
            let Some(work) = self.queue.pop() else { continue };
            self.step(work);
            progress(Progress {
                covered: self.covered.intersection(&self.of.alive).count(),
                goals: self.of.alive.len(),
                tests: self.kept.len(),
                executed: self.statistics.executed,
            });
        }
    }

    fn is_complete(&self) -> bool {
        self.wanted.is_subset(&self.covered)
    }

    fn is_new(&self, goal: usize) -> bool {
        self.wanted.contains(&goal) && !self.covered.contains(&goal)
    }

    /// Whether tests may set more than tables, and the program has any of that.
    fn may_preset(&self) -> bool {
        let set = |name: &str| {
            ["register", "meter", "direct_meter", "Register", "Meter", "DirectMeter"]
                .contains(&name)
        };
        self.options.presets && self.of.program.externs.iter().any(|it| set(&it.type_name))
    }

    /// Starts again from the tests that were found, with registers and colours of meters as inputs.
    fn begin_presets(&mut self) {
        self.presets = true;
        self.tried.clear();
        self.attempts.clear();
        self.cases.clear();
        self.signatures.clear();
        self.recent.clear();
        self.queue.clear();
        (self.stale, self.rounds) = (0, 0);
        let kept: Vec<Case> = self.kept.iter().rev().map(|kept| kept.case.clone()).collect();
        kept.into_iter().for_each(|case| self.execute(case, 0));
    }

    fn hope(&self, branch: &Branch, toward: Option<u32>) -> Promise {
        match (self.promise(branch.goal), toward) {
            (Promise::Nothing, _) if branch.likely => Promise::Within,
            (Promise::Nothing, Some(distance)) => Promise::Toward(distance),
            (promise, _) => promise,
        }
    }

    /// What the new goals depend on before which a test meets a condition that is a constant for it.
    fn needed(&self, goals: &BTreeSet<usize>) -> Needs {
        let mut needed = Needs::new();
        for &goal in goals {
            if self.promise(Some(goal)) == Promise::Nothing {
                continue;
            }
            for (&holder, &distance) in &*self.of.influence.needs(goal) {
                let known = needed.entry(holder).or_insert(distance);
                *known = distance.min(*known);
            }
        }
        needed
    }

    /// How near the statements after a goal come to what is needed.
    fn toward(&self, goal: Option<usize>, needed: &Needs) -> Option<u32> {
        let goal = goal?;
        let goal = self.action_of.get(&goal).copied().unwrap_or(goal);
        self.of.influence.of_body(goal, needed)
    }

    /// What a change may lead to, if it leads to this goal first.
    fn promise(&self, goal: Option<usize>) -> Promise {
        let Some(goal) = goal else { return Promise::Nothing };
        if self.is_new(goal) {
            return Promise::Goal;
        }
        let goal = self.action_of.get(&goal).copied().unwrap_or(goal);
        let inside = self.of.inside.get(&goal);
        match inside.is_some_and(|inside| inside.iter().any(|&goal| self.is_new(goal))) {
            true => Promise::Within,
            false => Promise::Nothing,
        }
    }

    fn push(&mut self, class: u32, case: Rc<Case>, change: Change) {
        // Where registers are inputs, several packets are seldom needed.
        let more = if self.presets { 2 * (case.packets.len() - 1) as u32 } else { 0 };
        // Nothing waits forever.
        self.turn += 1;
        let due = self.steps + CLASS * u64::from(class + more);
        self.queue.push(Work { rank: (due, self.turn), case, change });
    }

    /// By how much attempts at a side come later that was tried often, so that others get their turn.
    fn fatigue(&self, goal: Option<usize>) -> u32 {
        (self.attempts.get(&self.tired(goal)).copied().unwrap_or(0) / TIRING).min(MOST_FATIGUE)
    }

    /// The goal that stands for a side: entries of a table count together if they have the same action, once
    /// they are reached.
    fn tired(&self, goal: Option<usize>) -> Option<usize> {
        let reached = goal.filter(|&goal| !self.is_new(goal));
        reached.and_then(|goal| self.action_of.get(&goal).copied()).or(goal)
    }

    fn tries(&self, site: u64) -> u32 {
        self.tried.get(&site).copied().unwrap_or(0)
    }

    fn step(&mut self, work: Work) {
        let Change::Flip(at, toward) = work.change else {
            self.execute((*work.case).clone(), 0);
            return;
        };
        let known = self.recent.iter().find(|(case, _)| Rc::ptr_eq(case, &work.case));
        let trace = match known {
            Some((_, trace)) => Rc::clone(trace),
            None => {
                let trace = Rc::new(passes::run(self.of, &work.case, self.presets));
                self.remember(&work.case, &trace);
                trace
            }
        };
        let branch = &trace.branches[at];
        let tries = self.tries(branch.site);
        let promise = self.hope(branch, toward);
        if tries >= promise.attempts() {
            return;
        }
        self.tried.insert(branch.site, tries + 1);
        *self.attempts.entry(self.tired(branch.goal)).or_insert(0) += 1;
        // Conditions that must hold: this one, and what the test does not determine as it is.
        let known = |&unknown: &Lit| if trace.circuit.value(unknown) { unknown } else { !unknown };
        let mut fixed: Vec<Lit> = trace.unknown.iter().map(known).collect();
        fixed.push(branch.wanted);
        let path = &trace.path[..branch.after];
        match self.query(&trace, path, &fixed) {
            Answer::Solved(values) => self.adopt(&work.case, &trace, &values, at + 1),
            Answer::Impossible => {
                // The same is to be expected of other tests with this history.
                self.tried.insert(branch.site, tries + IMPOSSIBLE);
                self.statistics.contradictory += 1;
                if matches!(promise, Promise::Goal | Promise::Within) && tries == 0 {
                    let goals = branch.goal.into_iter().collect();
                    self.changes(&work.case, &trace, 0..at, &goals);
                    let often = self.attempts.get(&branch.goal).copied().unwrap_or(0);
                    if often.is_multiple_of(RELAXES)
                        && let Some(values) = self.relaxed(&trace, path, &fixed)
                    {
                        self.adopt(&work.case, &trace, &values, 0);
                    }
                }
            }
            Answer::Unsolved => self.statistics.given_up += 1,
        }
    }

    fn query(&mut self, trace: &Trace, path: &[Lit], fixed: &[Lit]) -> Answer {
        self.statistics.queries += 1;
        solve(&trace.circuit, &[path, fixed].concat(), self.until)
    }

    /// Executes a test with the values of a solution.
    fn adopt(&mut self, case: &Case, trace: &Trace, values: &[Option<bool>], bound: usize) {
        let mut case = case.clone();
        case.adopt(&trace.circuit, &trace.inputs, values);
        case.forget_initial(&self.of.program);
        self.execute(case, bound);
    }

    /// Inputs for which a condition holds that contradicts the path, without the few conditions of the path
    /// that it contradicts: they lead along another path, to the same place with some luck.
    fn relaxed(&mut self, trace: &Trace, path: &[Lit], fixed: &[Lit]) -> Option<Vec<Option<bool>>> {
        let mut path = path.to_vec();
        for _ in 0..MOST_RELAXED {
            // The shortest prefix that contradicts has more than `low` conditions.
            let (mut low, mut high) = (0, path.len());
            while high - low > 1 {
                let middle = low.midpoint(high);
                match self.query(trace, &path[..middle], fixed) {
                    Answer::Solved(_) => low = middle,
                    Answer::Impossible => high = middle,
                    Answer::Unsolved => return None,
                }
            }
            path.remove(high.checked_sub(1)?);
            match self.query(trace, &path, fixed) {
                Answer::Solved(values) => return Some(values),
                Answer::Impossible => {}
                Answer::Unsolved => return None,
            }
        }
        None
    }

    /// Executes a test, keeps it if it reaches a new goal, and queues changes of it. Conditions
    /// before `bound` have been queued already.
    fn execute(&mut self, mut case: Case, bound: usize) {
        let mut hasher = DefaultHasher::new();
        (&case.packets, &case.rules, &case.defaults, &case.members).hash(&mut hasher);
        (&case.cells, &case.colours).hash(&mut hasher);
        if !self.cases.insert(hasher.finish()) {
            return;
        }
        self.statistics.executed += 1;
        let trace = passes::run(self.of, &case, self.presets);
        case.sessions.extend(&trace.sessions);
        case.groups.extend(trace.groups.iter().filter(|&&group| group != 0));
        let new = trace.goals.iter().any(|&goal| self.is_new(goal));
        if !self.signatures.insert(trace.signature) && !new {
            return;
        }
        if new {
            self.keep(&case, &trace);
        }
        if trace.endless {
            return;
        }
        let case = Rc::new(case);
        for &goal in &trace.blocked {
            if self.promise(Some(goal)) != Promise::Nothing {
                self.blocked.insert(goal, Rc::clone(&case));
            }
        }
        self.changes(&case, &trace, bound..trace.branches.len(), &trace.blocked);
        self.lengths(&case, &trace);
        self.remember(&case, &Rc::new(trace));
    }

    /// Queues changes of a test: other sides of these branches, and entries. The goals are those before
    /// which it meets a condition that it cannot change as it is.
    fn changes(
        &mut self,
        case: &Rc<Case>,
        trace: &Trace,
        branches: std::ops::Range<usize>,
        goals: &BTreeSet<usize>,
    ) {
        let needed = self.needed(goals);
        for at in branches {
            let branch = &trace.branches[at];
            let tries = self.tries(branch.site);
            let toward = self.toward(branch.goal, &needed);
            let promise = self.hope(branch, toward);
            if tries < promise.attempts() {
                let class = promise.class(tries) + self.fatigue(branch.goal);
                self.push(class, Rc::clone(case), Change::Flip(at, toward));
            }
        }
        self.entries(case, trace, &needed);
    }

    fn remember(&mut self, case: &Rc<Case>, trace: &Rc<Trace>) {
        self.recent.truncate(RECENT - 1);
        self.recent.push_front((Rc::clone(case), Rc::clone(trace)));
    }

    /// Runs a test on the switch, and keeps it if it reaches new goals there.
    fn keep(&mut self, case: &Case, trace: &Trace) {
        let Some(verdict) = judge(self.of, self.p4info, case, trace) else {
            self.statistics.refused += 1;
            return;
        };
        self.statistics.judged += 1;
        self.statistics.surprising += usize::from(verdict.surprising);
        if verdict.goals.iter().any(|&goal| self.is_new(goal)) {
            self.stale = 0;
            self.rounds = 0;
            self.attempts.values_mut().for_each(|attempts| *attempts /= 2);
            self.covered.extend(verdict.goals.intersection(&self.wanted));
            let written = trace.written.clone();
            self.kept.push(Kept { case: case.clone(), verdict, written });
        }
    }

    /// Queues changes of entries, default actions and value sets.
    fn entries(&mut self, case: &Rc<Case>, trace: &Trace, needed: &Needs) {
        let mut seen = HashSet::new();
        for applied in &trace.applied {
            let Applied { table: id, outcome, .. } = applied;
            if !seen.insert((*id, applied.keys.clone())) {
                continue;
            }
            let table = &self.of.program.tables[id.index()];
            let takes_entries = takes_entries(table);
            for (action, listed) in table.actions.iter().enumerate() {
                let goal = self.actions.get(&(*id, action)).copied();
                let toward = self.toward(goal, needed);
                let or_toward = |promise, toward: Option<u32>| match promise {
                    Promise::Nothing => toward.map_or(promise, Promise::Toward),
                    promise => promise,
                };
                if takes_entries && listed.scope.in_entries() {
                    let added = self.of.added[id.index()][action];
                    let table_toward = self.of.influence.of_table(id.0, needed);
                    let toward = toward.into_iter().chain(table_toward).min();
                    let promise = or_toward(self.promise(added), toward);
                    self.entry(case, applied, action, promise);
                }
                let promise = or_toward(self.promise(goal), toward);
                let may_default = *outcome == Outcome::Miss
                    && !table.const_default
                    && listed.scope.as_default()
                    && profile(&self.of.program, table).is_none();
                let is_default = match case.defaults.get(&id.0) {
                    Some(call) => call.action == action,
                    None => table.default_action.action as usize == action,
                };
                if may_default && !is_default {
                    let site =
                        mix(u64::from(id.0) << 20 ^ action as u64 ^ 0xdefa ^ applied.context);
                    if let Some(class) = self.try_site(site, promise) {
                        let mut changed = (**case).clone();
                        let call = self.new_call(*id, action);
                        changed.defaults.insert(id.0, call);
                        self.push(class, Rc::new(changed), Change::Whole);
                    }
                }
            }
        }
        for (set, values) in &trace.absent {
            let site = mix(u64::from(set.0) ^ 0x5e75);
            if let Some(class) = self.try_site(site, Promise::Within) {
                let mut changed = (**case).clone();
                changed.members.push((*set, values.clone()));
                self.push(class, Rc::new(changed), Change::Whole);
            }
        }
    }

    fn entry(&mut self, case: &Rc<Case>, applied: &Applied, action: usize, promise: Promise) {
        let id = applied.table;
        let kind = match applied.outcome {
            Outcome::Miss => 0,
            Outcome::Entry => 1,
            Outcome::Rule(_) => 2,
        };
        let site = mix(u64::from(id.0) << 20 ^ (action as u64) << 2 ^ kind ^ 0xe1717);
        let mut changed = (**case).clone();
        if let Outcome::Rule(number) = applied.outcome
            && changed.rules[number].call.action == action
        {
            return;
        }
        let Some(class) = self.try_site(site ^ applied.context, promise) else { return };
        let call = self.new_call(id, action);
        match applied.outcome {
            Outcome::Rule(number) => changed.rules[number].call = call,
            _ => changed.rules.push(Rule { table: id, keys: applied.keys.clone(), call }),
        }
        self.push(class, Rc::new(changed), Change::Whole);
    }

    /// The class of an attempt; `None` if there were enough.
    fn try_site(&mut self, site: u64, promise: Promise) -> Option<u32> {
        let tries = self.tried.entry(site).or_insert(0);
        *tries += 1;
        (*tries <= promise.attempts()).then(|| promise.class(*tries - 1))
    }

    /// An action with random data. Ports are small, as those of most switches.
    fn new_call(&mut self, table: TableId, action: usize) -> Call {
        let program = &self.of.program;
        let widths = widths(program, &program.tables[table.index()], action);
        let args = widths.into_iter().map(|width| match width {
            9 => to_bits(self.random.random_range(1..16), 9),
            _ => (0..width).map(|_| self.random.random()).collect(),
        });
        Call { action, args: args.collect() }
    }

    /// Queues changes of packets' lengths.
    fn lengths(&mut self, case: &Rc<Case>, trace: &Trace) {
        for &(packet, bytes) in &trace.short {
            let site = mix(bytes as u64 ^ 0x5407 ^ (packet as u64) << 32);
            if bytes <= MOST_BYTES
                && let Some(class) = self.try_site(site, Promise::Within)
            {
                let mut changed = (**case).clone();
                changed.packets[packet].bits.resize(8 * bytes, false);
                self.push(class, Rc::new(changed), Change::Whole);
            }
        }
        for (packet, ends) in trace.consumed.iter().enumerate() {
            let mut before = 0;
            for &end in ends {
                let bytes = end.saturating_sub(1);
                let site = mix(end as u64 ^ 0x7c07 ^ (packet as u64) << 32);
                if bytes >= before.max(1)
                    && let Some(class) = self.try_site(site, Promise::Nothing)
                {
                    let mut changed = (**case).clone();
                    changed.packets[packet].bits.truncate(8 * bytes);
                    self.push(class, Rc::new(changed), Change::Whole);
                }
                before = end;
            }
        }
    }
}
