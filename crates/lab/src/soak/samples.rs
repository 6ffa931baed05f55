//! What is measured: memory, descriptors and threads of processes, entries of switches.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tributary_run::testbed::Process;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Measure {
    /// Resident memory.
    Memory,
    /// Open file descriptors.
    Descriptors,
    Threads,
    /// Entities that P4Runtime lists: table entries, multicast groups.
    Entries,
}

impl Measure {
    /// The name, with the unit.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory KiB",
            Self::Descriptors => "descriptors",
            Self::Threads => "threads",
            Self::Entries => "entries",
        }
    }

    /// Growth that is not worth a word: allocators keep some of what was freed.
    pub(crate) const fn tolerance(self) -> u64 {
        match self {
            Self::Memory => 512,
            Self::Descriptors | Self::Threads | Self::Entries => 0,
        }
    }
}

/// All samples of a run: values at times in seconds.
#[derive(Debug, Default)]
pub(crate) struct Samples(BTreeMap<(String, Measure), Vec<(f64, u64)>>);

impl Samples {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Measures the processes.
    pub(crate) fn take<'p>(
        &mut self,
        at: Duration,
        processes: impl Iterator<Item = (&'p str, &'p Process)>,
    ) -> Result<()> {
        for (name, process) in processes {
            let directory = format!("/proc/{}", process.id());
            let gone = || format!("the {name} has ended");
            let status = fs::read_to_string(format!("{directory}/status")).with_context(gone)?;
            let number = |key: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(key));
                line.and_then(|line| line.split_whitespace().next()?.parse().ok())
                    .unwrap_or_default()
            };
            let descriptors =
                fs::read_dir(format!("{directory}/fd")).with_context(gone)?.count() as u64;
            self.add(name, Measure::Memory, at, number("VmRSS:"));
            self.add(name, Measure::Threads, at, number("Threads:"));
            self.add(name, Measure::Descriptors, at, descriptors);
        }
        Ok(())
    }

    /// Adds the numbers of entries of switches.
    pub(crate) fn take_entries(&mut self, at: Duration, entries: Vec<(&'static str, usize)>) {
        for (switch, entries) in entries {
            self.add(switch, Measure::Entries, at, entries as u64);
        }
    }

    fn add(&mut self, process: &str, measure: Measure, at: Duration, value: u64) {
        let series = self.0.entry((process.to_owned(), measure)).or_default();
        series.push((at.as_secs_f64(), value));
    }

    /// Process, measure, values.
    pub(crate) fn series(&self) -> impl Iterator<Item = (&str, Measure, &[(f64, u64)])> {
        self.0
            .iter()
            .map(|((process, measure), points)| (process.as_str(), *measure, points.as_slice()))
    }

    /// All samples as a table.
    pub(crate) fn csv(&self) -> String {
        let mut text = "seconds,process,measure,value\n".to_owned();
        for (process, measure, points) in self.series() {
            for (seconds, value) in points {
                let _ = writeln!(text, "{seconds:.1},{process},{},{value}", measure.name());
            }
        }
        text
    }
}
