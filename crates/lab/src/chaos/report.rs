//! What was done, and what came of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use comfy_table::Table;
use tributary_base::counted;
use tributary_run::report::table;

use crate::chaos::clients::Counts;
use crate::chaos::schedule::{Deed, Fault, Kind};
use crate::chaos::wounds::{Healed, Wounds};

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
    /// Why workers have ended that were not killed.
    pub(crate) reasons: BTreeMap<&'static str, u64>,
    /// Why the controller has ended by itself, and how often.
    failed: BTreeMap<String, u64>,
    /// The calls of clients, if there are some.
    pub(crate) clients: Option<Arc<Counts>>,
}

/// How often a controller may fail for the same reason, such as a switch that is away.
const SAME_FAILURES: u64 = 100;

/// Reasons for which a worker may end, and words of each.
const REASONS: [(&str, &[&str]); 6] = [
    ("another worker had died", &["has died in the middle of the run", "goes on without worker"]),
    (
        "the job was released",
        &["has released job", "so it was released", "was released before the worker was ready"],
    ),
    ("another run had begun", &["has another run", "as the same worker"]),
    ("no results came", &["no result came", "not decided within"]),
    ("the controller was away", &["does not answer: ", "stopped before it had joined"]),
    ("too few workers were left", &["and min_workers is", "complete without worker"]),
];

/// Which of the reasons one is; `None` if it is none that follows from what has failed.
pub(crate) fn reason(text: &str) -> Option<&'static str> {
    let has = |words: &&[&str]| words.iter().any(|word| text.contains(word));
    REASONS.iter().find(|(_, words)| has(words)).map(|(name, _)| *name)
}

impl Tally {
    pub(crate) fn count(&mut self, fault: &Fault) {
        match fault.deed {
            Deed::Kill(_) => *self.kills.entry(fault.kind).or_default() += 1,
            Deed::Stop(_) => *self.stops.entry(fault.kind).or_default() += 1,
            Deed::Cut(_) => self.cuts += 1,
        }
    }

    /// The controller has ended by itself. A switch may be away for as long as the controller waits for it, but the
    /// controller never fails so often for the same reason.
    pub(crate) fn controller_failed(&mut self, why: String) -> Result<()> {
        let times = self.failed.entry(why).or_default();
        *times += 1;
        let often = self.failed.iter().find(|(_, times)| **times > SAME_FAILURES);
        match often {
            Some((why, times)) => bail!("the controller has failed {times} times: {why}"),
            None => Ok(()),
        }
    }

    fn total(counts: &BTreeMap<Kind, u64>) -> u64 {
        counts.values().sum()
    }

    /// One line about the run so far.
    pub(crate) fn line(&self, elapsed: Duration, open: usize) -> String {
        format!(
            "{:6.0} s  {}, {}, {}; {}, {} ended early; {}, {} wrong; not got over yet: {open}",
            elapsed.as_secs_f64(),
            counted(Self::total(&self.kills) as usize, "kill"),
            counted(Self::total(&self.stops) as usize, "stop"),
            counted(self.cuts as usize, "cut"),
            counted(self.complete as usize, "run"),
            self.broken,
            counted(self.sums as usize, "sum"),
            self.wrong
        )
    }

    /// The table at the end, for these kinds of parts.
    pub(crate) fn by_kind(&self, kinds: &[Kind], wounds: &Wounds) -> Table {
        let mut rows =
            table(&["part", "killed", "stopped", "cut", "got over", "median", "longest"]);
        for &kind in kinds {
            let of = |counts: &BTreeMap<Kind, u64>| counts.get(&kind).copied().unwrap_or(0);
            let cuts = if kind == Kind::Link { self.cuts } else { 0 };
            let times = wounds.times(kind);
            let time =
                |time: Option<&Duration>| time.map_or("–".to_owned(), |time| seconds(*time));
            rows.add_row([
                kind.to_string(),
                of(&self.kills).to_string(),
                of(&self.stops).to_string(),
                cuts.to_string(),
                times.len().to_string(),
                time(times.get(times.len() / 2)),
                time(times.last()),
            ]);
        }
        rows
    }

    /// The counts below the table.
    pub(crate) fn text(&self, elapsed: Duration, seed: u64) -> String {
        let reasons = self.reasons.iter().map(|(reason, count)| format!("{reason}: {count}"));
        let reasons = reasons.collect::<Vec<_>>().join("; ");
        let clients = self
            .clients
            .as_ref()
            .map_or_else(String::new, |counts| format!("\nby a client: {}", counts.text()));
        let reasons = match reasons.as_str() {
            "" => String::new(),
            reasons => format!("\nworkers ended because {reasons}"),
        };
        format!(
            "seed {seed}, {:.0} s; {} runs complete, {} ended early{}\n{} sums compared ({} values), {} \
             wrong{clients}{reasons}",
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

/// A row for each failure that jobs have got over.
pub(crate) fn in_turn(wounds: &Wounds) -> Table {
    let mut rows = table(&["part", "failure", "part is back", "jobs sum again"]);
    for Healed { kind, name, back, after } in wounds.healed() {
        let failure = if *kind == Kind::Link { "cut" } else { "killed" };
        rows.add_row([name.clone(), failure.to_owned(), seconds(*back), seconds(*after)]);
    }
    rows
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}
