//! Progress bars: one per job, following its slowest worker.

use std::collections::BTreeMap;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use tributary_model::Scenario;

/// The bars of a run, drawn only on a terminal.
pub(crate) struct Bars {
    all: MultiProgress,
    /// By the index of the job's first lane.
    jobs: BTreeMap<usize, Bar>,
}

struct Bar {
    bar: ProgressBar,
    /// Number of finished rounds of each worker.
    done: Vec<u64>,
}

impl Bars {
    /// A bar for each job of the scenario.
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let style = ProgressStyle::with_template(
            "{prefix:>12} {bar:30} {pos}/{len} rounds  {elapsed_precise}",
        )
        .expect("a valid template");
        let all = MultiProgress::new();
        let jobs = scenario
            .whole_jobs()
            .map(|(index, job)| {
                let bar = all.add(ProgressBar::new(0).with_style(style.clone()));
                bar.set_prefix(job.name.clone());
                bar.enable_steady_tick(Duration::from_millis(200));
                (index, Bar { bar, done: vec![0; job.workers.len()] })
            })
            .collect();
        Self { all, jobs }
    }

    /// Shows a worker's progress.
    pub(crate) fn round(
        &mut self,
        job: usize,
        worker: usize,
        done: u64,
        of: u64,
        note: Option<&str>,
    ) {
        let Some(job) = self.jobs.get_mut(&job) else { return };
        job.done[worker] = done;
        job.bar.set_length(of);
        job.bar.set_position(job.done.iter().copied().min().unwrap_or(0));
        let name = job.bar.prefix();
        if let (Some(note), 0) = (note, worker) {
            self.say(&format!("{name}: {note}"));
        }
    }

    /// Prints a line above the bars, or to standard error without a terminal.
    pub(crate) fn say(&self, line: &str) {
        if self.all.is_hidden() {
            eprintln!("{line}");
        } else {
            // An error means that the terminal is closed.
            let _ = self.all.println(line);
        }
    }

    /// Removes the bars.
    pub(crate) fn finish(&self) {
        for job in self.jobs.values() {
            job.bar.finish_and_clear();
        }
    }
}
