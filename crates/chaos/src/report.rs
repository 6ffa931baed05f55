//! What was done, and what came of it.

use std::collections::BTreeMap;
use std::time::Duration;

use tributary_job::report::table;

use crate::schedule::{Deed, Fault, Kind};
use crate::wounds::Wounds;

/// The counts of a run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    kills: BTreeMap<Kind, u64>,
    stops: BTreeMap<Kind, u64>,
    cuts: u64,
    /// Failures of the schedule that found their part away.
    pub(crate) skipped: u64,
    /// Runs of jobs that all of their workers finished.
    pub(crate) complete: u64,
    /// Runs that ended early, because a worker died or gave up.
    pub(crate) broken: u64,
    /// How often a job went on without workers that had died.
    pub(crate) went_on: usize,
    /// Sums that workers have reported, each compared.
    pub(crate) sums: u64,
    /// Values of the sums of workers that finished.
    pub(crate) values: u64,
    /// Sums that were wrong.
    pub(crate) wrong: u64,
}

impl Tally {
    pub(crate) fn count(&mut self, fault: &Fault) {
        match fault.deed {
            Deed::Kill(_) => *self.kills.entry(fault.kind).or_default() += 1,
            Deed::Stop(_) => *self.stops.entry(fault.kind).or_default() += 1,
            Deed::Cut(_) => self.cuts += 1,
        }
    }

    fn total(counts: &BTreeMap<Kind, u64>) -> u64 {
        counts.values().sum()
    }

    /// One line about the run so far.
    pub(crate) fn line(&self, elapsed: Duration, open: usize) -> String {
        format!(
            "{:6.0} s  {} kills, {} stops, {} cuts; {} runs, {} ended early; {} sums, {} wrong; {open} \
             failures not got over yet",
            elapsed.as_secs_f64(),
            Self::total(&self.kills),
            Self::total(&self.stops),
            self.cuts,
            self.complete,
            self.broken,
            self.sums,
            self.wrong
        )
    }

    /// The table at the end.
    pub(crate) fn text(&self, elapsed: Duration, seed: u64, wounds: &Wounds) -> String {
        let mut rows =
            table(&["part", "killed", "stopped", "cut", "got over", "median", "longest"]);
        for kind in Kind::ALL {
            let of = |counts: &BTreeMap<Kind, u64>| counts.get(&kind).copied().unwrap_or(0);
            let cuts = if kind == Kind::Link { self.cuts } else { 0 };
            let times = wounds.times(kind);
            let seconds = |time: Option<&Duration>| {
                time.map_or("–".to_owned(), |time| format!("{:.2} s", time.as_secs_f64()))
            };
            rows.add_row([
                kind.to_string(),
                of(&self.kills).to_string(),
                of(&self.stops).to_string(),
                cuts.to_string(),
                times.len().to_string(),
                seconds(times.get(times.len() / 2)),
                seconds(times.last()),
            ]);
        }
        format!(
            "{rows}\nseed {seed}, {:.0} s; {} runs complete, {} ended early{}\n{} sums compared ({} values), {} \
             wrong",
            elapsed.as_secs_f64(),
            self.complete,
            self.broken,
            match self.went_on {
                0 => String::new(),
                times => format!("; went on {times} times without workers that had died"),
            },
            self.sums,
            self.values,
            self.wrong
        )
    }
}
