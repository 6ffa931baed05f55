//! All outcomes: recordings of the same packet that took different ways, as one tree of steps.

use std::collections::BTreeMap;

use crate::trace::{Step, What};
use tributary_dataplane::trace::Choice;

/// Steps, and then possibly a choice with what follows each of its outcomes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Fork {
    /// The steps.
    pub steps: Vec<Step>,
    /// The copy of the packet that has the choice, the choice, and the steps after each outcome.
    pub then: Option<(u32, Choice, Outcomes)>,
}

/// The outcomes of a choice, by number, each with what follows it.
pub type Outcomes = Vec<(usize, Fork)>;

impl Fork {
    /// The steps of one recording, without forks.
    #[must_use]
    pub fn straight(steps: Vec<Step>) -> Self {
        Self { steps, then: None }
    }

    /// Number of ways through it.
    #[must_use]
    pub fn ways(&self) -> usize {
        match &self.then {
            None => 1,
            Some((_, _, outcomes)) => outcomes.iter().map(|(_, rest)| rest.ways()).sum(),
        }
    }
}

/// Merges recordings, which differ only in the outcomes of choices and what follows them.
#[must_use]
pub fn merge(runs: Vec<Vec<Step>>) -> Fork {
    let mut runs = runs.into_iter();
    let Some(mut first) = runs.next() else { return Fork::default() };
    let mut others: Vec<Vec<Step>> = runs.collect();
    let taken = |run: &[Step], at: usize| match run.get(at).map(|step| &step.what) {
        Some(What::Choice { taken, .. }) => Some(*taken),
        _ => None,
    };
    // The steps up to the first choice with different outcomes are the same in all of them.
    let differs = |at: usize| {
        let own = taken(&first, at);
        own.is_some() && others.iter().any(|other| taken(other, at) != own)
    };
    let Some(at) = (0..first.len()).find(|&at| differs(at)) else { return Fork::straight(first) };
    let rest = first.split_off(at);
    others.iter_mut().for_each(|run| drop(run.drain(..at.min(run.len()))));
    let mut by_outcome: BTreeMap<usize, Vec<Vec<Step>>> = BTreeMap::new();
    let mut of = None;
    for mut run in std::iter::once(rest).chain(others) {
        if run.is_empty() {
            continue;
        }
        let step = run.remove(0);
        if let What::Choice { choice, taken } = step.what {
            of.get_or_insert((step.copy, choice));
            by_outcome.entry(taken).or_default().push(run);
        }
    }
    let outcomes = by_outcome.into_iter().map(|(taken, runs)| (taken, merge(runs))).collect();
    Fork { steps: first, then: of.map(|(copy, choice)| (copy, choice, outcomes)) }
}
