//! The figures of ESA's evaluation (§7), by packets: the real endpoints and the real P4 program in
//! virtual time. The first figure has the paper's claims with our verdicts.
//!
//! A study is a set of experiments that differ in one parameter and in the protocol. Those that are
//! not in the paper isolate causes: `halving` gives ATP and ESA each rule of congestion, `repairs`
//! counts what a collision costs, `causes` changes one rule or setting of ours at a time, `search` and
//! `sweeps` vary what the paper leaves open, `memory` has our default rules where memory is short, and `cores` lets all parts share two cores.
//!
//! To add a study: return a `Study` from a function in `isolating.rs` or `sweeps.rs`,
//! give it a [`Which`], and name the claims that it isolates in `claims.rs`. A study over two settings
//! is drawn as a heat map with `View::Grid`.

mod claims;
mod describe;
mod figure;
mod isolating;
mod measure;
mod measured;
mod memory;
mod paper;
mod series;
mod store;
mod study;
mod sweeps;

pub use measure::{Cost, Error};
pub use series::Effort;
pub use store::Store;

use claims::Evidence;
use study::{Results, Study};

use crate::figures::page::Figure;
use crate::figures::runs::Progress;

/// A figure of the paper, or another study.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// A figure of the paper: 6 to 11.
    Number(u8),
    /// Whether three later results halve windows, in ATP and in ESA.
    Halving,
    /// What a collision costs under each rule of preemption.
    Repairs,
    /// What each rule of ours changes.
    Causes,
    /// Settings that could give the paper's gain over SwitchML.
    Search,
    /// Memory and windows, with our default rules.
    Memory,
    /// The same with the paper's rules.
    MemoryPaper,
    /// What each of our rules gives.
    MemoryParts,
    /// What the settings change that the paper leaves open.
    Sweeps,
    /// What processor time changes: all parts on two cores.
    Cores,
}

impl Which {
    /// All of them, in the order of a page: the headline, the paper's simulations, its testbed, and
    /// causes.
    pub const ALL: [Self; 15] = [
        Self::Halving,
        Self::Number(8),
        Self::Number(9),
        Self::Number(10),
        Self::Number(11),
        Self::Number(7),
        Self::Number(6),
        Self::Memory,
        Self::MemoryPaper,
        Self::MemoryParts,
        Self::Repairs,
        Self::Causes,
        Self::Search,
        Self::Sweeps,
        Self::Cores,
    ];

    fn study(self, effort: Effort) -> Study {
        match self {
            Self::Number(6) => paper::training(effort),
            Self::Number(7) => paper::microbenchmark(effort),
            Self::Number(8) => paper::completion(effort, false),
            Self::Number(9) => paper::completion(effort, true),
            Self::Number(10) => paper::utilisation(effort),
            Self::Number(_) => paper::priorities(effort),
            Self::Halving => isolating::halving(effort),
            Self::Repairs => isolating::repairs(effort),
            Self::Causes => isolating::causes(effort),
            Self::Search => isolating::search(effort),
            Self::Memory => memory::memory(effort),
            Self::MemoryPaper => memory::memory_paper(effort),
            Self::MemoryParts => memory::memory_parts(effort),
            Self::Sweeps => sweeps::sweeps(effort),
            Self::Cores => sweeps::cores(effort),
        }
    }
}

/// The studies of these figures, each once, in the order of a page.
fn studies(which: &[Which], effort: Effort) -> Vec<Study> {
    let chosen = Which::ALL.into_iter().filter(|one| which.contains(one));
    let mut studies: Vec<Study> = chosen.map(|one| one.study(effort)).collect();
    if effort.quick {
        for study in &mut studies {
            study.notes.insert(
                0,
                "A quick test: models, delays and points are reduced, which can reverse the order of protocols."
                    .to_owned(),
            );
        }
    }
    studies
}

fn experiments(studies: &[Study]) -> Vec<measure::Labelled> {
    studies.iter().flat_map(Study::experiments).collect()
}

/// What these figures cost beyond the results that the store has.
#[must_use]
pub fn cost(which: &[Which], effort: Effort, store: &Store) -> Cost {
    measure::cost(&experiments(&studies(which, effort)), store)
}

/// Makes figures: the claims with verdicts, the set-ups, and one for each study. `progress` counts
/// megabytes of gradients.
///
/// # Errors
/// If an experiment fails, or a result cannot be kept.
pub fn figures(
    which: &[Which],
    effort: Effort,
    store: &mut Store,
    progress: Progress<'_>,
) -> Result<Vec<Figure>, Error> {
    let studies = studies(which, effort);
    measure::run(&experiments(&studies), store, progress)?;
    let of = |study| Results { study, store: &*store };
    let evidence = Evidence(studies.iter().map(of).collect());
    let claims = claims::figure(&evidence, effort.title("The paper's claims, with verdicts"));
    let set_ups = describe::figure(&studies, effort.title("Set-ups of the figures"));
    let figures = evidence.0.iter().map(figure::figure);
    Ok(claims.into_iter().chain([set_ups]).chain(figures).collect())
}
