//! Generates packet tests that cover a P4 program.
//!
//! [`generate`] looks for packets and entries that reach every statement, branch, parser state,
//! transition and table action of a program for v1model or TNA. It executes the program with packets, entries
//! and ports as unknown bits (`machine`), finds inputs for the paths not taken yet (`solver`), and
//! runs each candidate on the embedded switch (`judge`), which counts what it reaches (`goals`) and
//! yields the packets to expect. [`Generated::tests`] are STF files: see `docs/reference/test.md`.
//!
//! The symbolic machine only proposes tests. What a test reaches and expects comes from the switch.
//!
//! [`mutants`] makes faulty variants of a program, to see whether tests notice them. Start reading
//! at [`generate`], then `search`.

mod case;
mod circuit;
mod externs;
mod goals;
mod influence;
mod judge;
mod machine;
mod merge;
pub mod mutants;
mod parsing;
mod passes;
mod program;
mod reach;
mod report;
mod search;
mod solver;
mod tables;
mod tna;
mod tna_externs;

use std::collections::BTreeSet;
use std::time::Duration;

use tributary_dataplane::EngineKind;
use tributary_p4::{Architecture, Compilation};
use tributary_switch::stf::Script;

pub use goals::{Goal, GoalKind};
pub use report::{Report, Share};

/// Limits of a search.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seed of all choices.
    pub seed: u64,
    /// Maximum number of tests.
    pub max_tests: usize,
    /// Maximum number of packets in a test.
    pub packets: usize,
    /// Whether tests set registers and the rates of meters, where packets do not lead further.
    pub presets: bool,
    /// Time after which the search ends. A search that ends before depends on the seed only.
    pub time: Duration,
    /// Steps after which it ends: executions and queries to the solver.
    pub steps: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            max_tests: 10_000,
            packets: 4,
            presets: true,
            time: Duration::from_secs(60),
            steps: usize::MAX,
        }
    }
}

/// The state of a search.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Goals that tests reach.
    pub covered: usize,
    /// All goals.
    pub goals: usize,
    /// Tests that reached a new goal.
    pub tests: usize,
    /// Executions so far.
    pub executed: usize,
}

/// What a search did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Statistics {
    /// Executions of the symbolic machine.
    pub executed: usize,
    /// Queries to the solver: whether a path can be changed so that it takes another side.
    pub queries: usize,
    /// Queries without a solution. That says nothing about other paths to the same place.
    pub contradictory: usize,
    /// Queries that the solver gave up.
    pub given_up: usize,
    /// Tests that the switch ran.
    pub judged: usize,
    /// Tests whose entries the switch refused.
    pub refused: usize,
    /// Tests of the result that set registers or the rates of meters.
    pub preset: usize,
    /// Tests for which the symbolic machine foresaw other packets than the switch sent.
    pub surprising: usize,
}

/// A generated test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Test {
    /// The STF file.
    pub text: String,
    /// The goals that it reaches, as indices into [`Generated::goals`].
    pub goals: BTreeSet<usize>,
}

/// The outcome of a search.
#[derive(Clone, Debug)]
pub struct Generated {
    /// The tests.
    pub tests: Vec<Test>,
    /// All goals that are not proven unreachable.
    pub goals: Vec<Goal>,
    /// The number of goals that are: no path through the program's graph leads to them, with the constants
    /// that the program has.
    pub unreachable: usize,
    /// What the search did.
    pub statistics: Statistics,
}

impl Generated {
    /// What the tests reach.
    #[must_use]
    pub fn report(&self) -> Report {
        let covered = self.tests.iter().flat_map(|test| &test.goals).copied().collect();
        Report::new(&self.goals, &covered)
    }
}

/// Why no tests can be generated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// For another architecture than v1model and TNA.
    #[error("tests are generated for programs for v1model and TNA only; this one is for {0}")]
    Architecture(String),
    /// The embedded switch does not run it.
    #[error("the embedded switch does not run the program: {0}")]
    Load(String),
}

/// A program whose coverage can be measured.
pub struct Subject {
    of: goals::Instrumented,
    p4info: tributary_p4::P4Info,
    /// Numbers of goals in reports, by their numbers in the program.
    numbers: Vec<Option<usize>>,
}

impl Subject {
    /// Prepares a program that was compiled with [`tributary_p4::Options::marks`].
    ///
    /// # Errors
    /// If it is for another architecture than v1model and TNA, or the embedded switch does not run it.
    pub fn new(compiled: Compilation) -> Result<Self, Error> {
        let Compilation { program, p4info, .. } = compiled;
        if !matches!(program.architecture(), Some(Architecture::V1model | Architecture::Tna)) {
            return Err(Error::Architecture(program.package));
        }
        let source = |file: &str| std::fs::read_to_string(file).ok();
        let of = goals::Instrumented::new(program, &source);
        judge::load(&of.program, &p4info, EngineKind::Interpreter).map_err(Error::Load)?;
        let mut next = 0;
        let numbers = (0..of.goals.len()).map(|goal| {
            of.alive.contains(&goal).then(|| {
                next += 1;
                next - 1
            })
        });
        let numbers = numbers.collect();
        Ok(Self { of, p4info, numbers })
    }

    /// The goals, as tests number them.
    #[must_use]
    pub fn goals(&self) -> Vec<Goal> {
        self.of.alive.iter().map(|&goal| self.of.goals[goal].clone()).collect()
    }

    fn numbered(&self, goals: &BTreeSet<usize>) -> BTreeSet<usize> {
        let number = |goal: &usize| {
            let number = self.numbers.get(*goal).copied().flatten();
            debug_assert!(
                number.is_some() || *goal >= self.numbers.len(),
                "a packet reached what was proven unreachable: {}",
                self.of.goals[*goal]
            );
            number
        };
        goals.iter().filter_map(number).collect()
    }

    /// The goals that the packets of any test reach on the embedded switch.
    ///
    /// # Errors
    /// A command of the test that failed.
    pub fn coverage(&self, script: &Script) -> Result<BTreeSet<usize>, String> {
        let forwarding = judge::load(&self.of.program, &self.p4info, EngineKind::Interpreter)?;
        let recording =
            tributary_switch::stf::record(script, forwarding).map_err(|f| f.to_string())?;
        Ok(self.numbered(&judge::coverage(&self.of, &recording)))
    }
}

/// Runs a test on a program without marks.
///
/// # Errors
/// The first expectation that was not met, or the first command that failed.
pub fn run_test(compiled: &Compilation, script: &Script, engine: EngineKind) -> Result<(), String> {
    judge::run(&compiled.program, &compiled.p4info, script, engine)
}

/// Generates tests.
#[must_use]
pub fn generate(
    subject: &Subject,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Generated {
    let mut search = search::Search::new(&subject.of, &subject.p4info, options);
    search.run(progress);
    let (kept, mut statistics) = search.finish();
    statistics.preset = kept.iter().filter(|kept| kept.case.has_presets()).count();
    let goals = subject.goals();
    let mut known = BTreeSet::new();
    let tests = kept.into_iter().map(|kept| {
        let reached = subject.numbered(&kept.verdict.goals);
        let mut text = String::new();
        for &goal in reached.difference(&known) {
            text += &format!("# {}\n", goals[goal]);
        }
        known.extend(&reached);
        text += &kept.verdict.text;
        Test { text, goals: reached }
    });
    let tests = tests.collect();
    let unreachable = subject.of.goals.len() - goals.len();
    Generated { tests, goals, unreachable, statistics }
}
