//! What tests reach, for people and for programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::Serialize;

use crate::testgen::goals::{Goal, GoalKind};

/// Goals of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Share {
    /// Those that tests reach.
    pub covered: usize,
    /// All.
    pub of: usize,
}

impl Share {
    /// In percent; 100 if there are none.
    #[must_use]
    pub fn percent(self) -> f64 {
        if self.of == 0 { 100.0 } else { 100.0 * self.covered as f64 / self.of as f64 }
    }
}

/// A coverage report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// By kind.
    pub shares: BTreeMap<GoalKind, Share>,
    /// The goals that no test reaches.
    pub uncovered: Vec<Uncovered>,
    /// Lines of files with statements, and whether tests reach all of these.
    pub lines: BTreeMap<String, BTreeMap<u32, bool>>,
}

/// A goal that no test reaches.
#[derive(Clone, Debug, Serialize)]
pub struct Uncovered {
    /// Its kind.
    pub kind: GoalKind,
    /// The file, if it has a place in the source.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u32>,
    /// What it is.
    pub text: String,
}

impl Report {
    /// The report of tests that reach these goals, by index.
    #[must_use]
    pub fn new(goals: &[Goal], covered: &BTreeSet<usize>) -> Self {
        let mut shares: BTreeMap<GoalKind, Share> = BTreeMap::new();
        let mut lines: BTreeMap<String, BTreeMap<u32, bool>> = BTreeMap::new();
        let mut uncovered = Vec::new();
        for (number, goal) in goals.iter().enumerate() {
            let reached = covered.contains(&number);
            let share = shares.entry(goal.kind).or_default();
            share.of += 1;
            share.covered += usize::from(reached);
            if goal.kind == GoalKind::Statement
                && let Some((file, line)) = &goal.place
            {
                *lines.entry(file.clone()).or_default().entry(*line).or_insert(true) &= reached;
            }
            if !reached {
                let (file, line) = goal.place.clone().unzip();
                uncovered.push(Uncovered { kind: goal.kind, file, line, text: goal.text.clone() });
            }
        }
        Self { shares, uncovered, lines }
    }

    /// The goals of a kind.
    #[must_use]
    pub fn share(&self, kind: GoalKind) -> Share {
        self.shares.get(&kind).copied().unwrap_or_default()
    }

    /// All goals.
    #[must_use]
    pub fn total(&self) -> Share {
        self.shares.values().fold(Share::default(), |sum, share| Share {
            covered: sum.covered + share.covered,
            of: sum.of + share.of,
        })
    }

    /// Shares by kind, uncovered goals, and the lines of the given files: `+` before lines that
    /// tests reach, `-` before those they do not.
    #[must_use]
    pub fn text(&self, source: &dyn Fn(&str) -> Option<String>) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        for kind in GoalKind::ALL {
            let share = self.share(kind);
            if share.of > 0 {
                let _ = writeln!(
                    text,
                    "{:<14} {:>5} of {:>5}  {:>5.1} %",
                    kind.name(),
                    share.covered,
                    share.of,
                    share.percent()
                );
            }
        }
        if !self.uncovered.is_empty() {
            text += "\nNot reached by any test:\n";
        }
        for goal in &self.uncovered {
            let place = match (&goal.file, goal.line) {
                (Some(file), Some(line)) => format!("{file}:{line}: "),
                _ => String::new(),
            };
            let _ = writeln!(text, "  {place}{}", goal.text);
        }
        for (file, lines) in &self.lines {
            let Some(source) = source(file) else { continue };
            let _ = writeln!(text, "\n{file}");
            for (line, content) in (1..).zip(source.lines()) {
                let sign = match lines.get(&line) {
                    Some(true) => '+',
                    Some(false) => '-',
                    None => ' ',
                };
                let _ = writeln!(text, "{line:>5} {sign} {content}");
            }
        }
        text
    }
}
