//! The slots of the control loop.

use std::fmt;

use tributary_metrics::{Board, Entry, Page, Source};
use tributary_optical::orchestrator::planner::End;
use tributary_optical::orchestrator::slots::SlotReport;

/// What the control loop has done so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    slots: u64,
    circuits: usize,
    new_circuits: u64,
    started: u64,
    moved: u64,
    done: u64,
    late: u64,
    late_iterations: u64,
    impossible: u64,
    problems: u64,
}

/// Adds up the reports of slots.
#[derive(Debug)]
pub(crate) struct Tally(Entry<Numbers>);

impl Tally {
    pub(crate) fn add(&self, report: &SlotReport) {
        self.0.update(|numbers| {
            numbers.slots += 1;
            numbers.circuits = report.circuits.len();
            numbers.new_circuits += report.new_circuits as u64;
            numbers.started += report.started.len() as u64;
            numbers.moved += report.moved.len() as u64;
            numbers.late_iterations += report.late.len() as u64;
            numbers.problems += report.problems.len() as u64;
            for (_, end) in &report.released {
                *match end {
                    End::Done => &mut numbers.done,
                    End::Late { .. } => &mut numbers.late,
                    End::Impossible => &mut numbers.impossible,
                } += 1;
            }
        });
    }
}

/// The control loop.
#[derive(Debug, Default)]
pub(crate) struct Slots(Board<Numbers>);

impl Slots {
    pub(crate) fn tally(&self) -> Tally {
        Tally(self.0.post(Numbers::default()))
    }
}

/// A metric: its name, what it is, and its value.
type Counter = (&'static str, &'static str, fn(&Numbers) -> u64);

impl Source for Slots {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        let all = self.0.read();
        let counters: [Counter; 6] = [
            ("tributary_optical_slots_total", "Slots of the control loop", |it| it.slots),
            ("tributary_optical_new_circuits_total", "Circuits that were set up", |it| {
                it.new_circuits
            }),
            ("tributary_optical_iterations_started_total", "Iterations that were started", |it| {
                it.started
            }),
            (
                "tributary_optical_late_iterations_total",
                "Iterations that took a slot longer than their job's rate needs",
                |it| it.late_iterations,
            ),
            (
                "tributary_optical_moves_total",
                "Moves of jobs between parameter server and network",
                |it| it.moved,
            ),
            ("tributary_optical_problems_total", "Steps of slots that failed", |it| it.problems),
        ];
        for (name, help, what) in counters {
            page.counter(name, help, all.iter().map(|numbers| ([], what(numbers))))?;
        }
        let released = all.iter().flat_map(|numbers| {
            [("done", numbers.done), ("late", numbers.late), ("impossible", numbers.impossible)]
                .map(|(reason, count)| ([("reason", reason.to_owned())], count))
        });
        page.counter("tributary_optical_jobs_released_total", "Jobs that were released", released)?;
        page.gauge(
            "tributary_optical_circuits",
            "Circuits between units",
            all.iter().map(|numbers| ([], numbers.circuits as f64)),
        )
    }
}
