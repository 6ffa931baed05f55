//! The set-up of experiments in words, from the values that run.

use std::collections::BTreeSet;
use std::time::Duration;

use tributary_model::{Preemption, Protocol};
use tributary_protocol::Recovery;

use super::study::Study;
use crate::figures::page::Figure;
use crate::figures::table::{Cell, Table};
use crate::studies::training::{Delays, Ranking, Setup};

/// A part of a set-up: its name, and its value where it applies.
type Part = (&'static str, fn(&Setup) -> Option<String>);

const PARTS: [Part; 19] = [
    ("jobs", |setup| Some(setup.jobs.len().to_string())),
    ("workers of a job", |setup| list(setup.jobs.iter().map(|job| job.workers.len()))),
    ("gradients of a job", |setup| {
        let sizes =
            list(setup.jobs.iter().map(|job| format!("{} MB", job.model.bytes() as f64 / 1e6)));
        // A comma is between set-ups.
        sizes.map(|sizes| sizes.replace(", ", " and "))
    }),
    ("hosts", |setup| {
        let workers = setup.jobs.iter().map(|job| job.workers.len()).sum::<usize>();
        let hosts: BTreeSet<_> = setup.jobs.iter().flat_map(|job| &job.workers).collect();
        Some(if hosts.len() == workers { "one for each worker" } else { "shared by jobs" }.into())
    }),
    ("links", |setup| Some(format!("{} Gb/s", setup.cable.bandwidth / 1e9))),
    ("base round-trip time", |setup| Some(time(4 * setup.cable.latency))),
    ("memory for aggregators", |setup| Some(format!("{} MB", setup.memory as f64 / 1e6))),
    ("packets", |setup| {
        // Without Ethernet's header and framing.
        Some(format!("{} values in {} bytes", setup.values, setup.packet_bytes() - 14 - 24))
    }),
    ("windows", |setup| Some(format!("{} to {} packets", setup.window, setup.slots))),
    ("jobs start within", |setup| Some(time(setup.start))),
    ("a worker's gradients are late by up to", |setup| Some(time(setup.jitter))),
    ("the delay is added", |setup| {
        let place = match setup.delays {
            Delays::PerIteration => "once in each iteration",
            Delays::PerTensor => "before each tensor",
        };
        (!setup.jitter.is_zero()).then(|| place.into())
    }),
    ("iterations of a job", |setup| {
        Some(format!("{} measured after {}", setup.iterations, setup.warm_up))
    }),
    ("recovery", |setup| Some(setup.recovery.name().into())),
    ("three later results", |setup| {
        let papers = setup.recovery == Recovery::Papers && setup.protocol.may_have_server();
        let halve = setup.readings.later_results.halve(setup.protocol);
        papers.then(|| {
            let what = if halve { "halve the window" } else { "leave the window" };
            format!("{what} ({})", setup.protocol.title())
        })
    }),
    ("priorities of ESA", |setup| {
        let priorities = match setup.ranking {
            Ranking::Formula => "by the formula (§5.4)",
            Ranking::Equal => "one for all jobs and layers",
            Ranking::Apart => "far apart between jobs",
        };
        let matter = setup.protocol == Protocol::Esa && setup.preemption == Preemption::Priority;
        matter.then(|| priorities.into())
    }),
    ("least timeout", |setup| Some(time(setup.timeouts.min))),
    ("addresses", |setup| {
        (!setup.protocol.has_partitions()).then(|| setup.addressing.name().into())
    }),
    ("losses on links", |setup| Some(format!("{} %", setup.loss * 100.0))),
];

/// Set-ups in words: each part with its value, or with all of its values if the set-ups differ.
pub(super) fn describe<'a>(setups: impl Iterator<Item = &'a Setup> + Clone) -> String {
    let parts = PARTS.iter().filter_map(|(name, value)| {
        Some(format!("{name}: {}", list(setups.clone().filter_map(value))?))
    });
    parts.collect::<Vec<_>>().join("; ") + "."
}

/// The set-ups of all studies: what most of them have, and which differ.
pub(super) fn figure(studies: &[Study], title: String) -> Figure {
    let mut table = Table::new(["part", "in most figures", "in the others"]);
    table.push(row("seeds", studies, |study| Some(study.seeds.to_string())));
    for (name, value) in PARTS {
        table.push(row(name, studies, |study| list(study.setups().filter_map(value))));
    }
    Figure {
        id: "set-ups".to_owned(),
        title,
        notes: vec![
            "From the values that run. Several values are those of different rows or protocols of a figure.".to_owned(),
        ],
        table,
        charts: Vec::new(),
    }
}

/// A part of the set-ups: its most frequent value, and the studies with other values.
fn row(name: &str, studies: &[Study], value: impl Fn(&Study) -> Option<String>) -> Vec<Cell> {
    let mut values: Vec<(String, Vec<&str>)> = Vec::new();
    for study in studies {
        let value = value(study).unwrap_or_else(|| "–".to_owned());
        match values.iter_mut().find(|(known, _)| *known == value) {
            Some((_, ids)) => ids.push(study.id),
            None => values.push((value, vec![study.id])),
        }
    }
    // The first of those that are equally frequent.
    let usual = values.iter().rev().max_by_key(|(_, ids)| ids.len()).cloned().unwrap_or_default();
    let others = values.iter().filter(|other| **other != usual);
    let others: Vec<String> =
        others.map(|(value, ids)| format!("{}: {value}", ids.join(", "))).collect();
    let others = if others.is_empty() { Cell::None } else { Cell::text(others.join("; ")) };
    vec![Cell::text(name), Cell::text(usual.0), others]
}

/// Different values, in the order in which they come; `None` without any.
fn list(values: impl Iterator<Item = impl ToString>) -> Option<String> {
    let mut all: Vec<String> = Vec::new();
    for value in values.map(|value| value.to_string()) {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    (!all.is_empty()).then(|| all.join(", "))
}

fn time(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    if micros < 1000.0 { format!("{micros} µs") } else { format!("{} ms", micros / 1e3) }
}

#[cfg(test)]
mod tests {
    use super::super::isolating::{halving, repairs};
    use super::super::paper::{completion, microbenchmark};
    use super::super::series::Effort;
    use super::*;

    const EFFORT: Effort = Effort { seeds: 3, iterations: 2, quick: false };

    #[test]
    fn a_set_up_has_every_value_that_runs() {
        let text = |study: &Study| describe(study.setups());
        let halved = text(&halving(EFFORT));
        for rule in ["leave the window (ATP)", "halve the window (ESA)", "halve the window (ATP)"] {
            assert!(halved.contains(rule), "{rule}: {halved}");
        }
        assert!(halved.contains("iterations of a job: 2 measured after 1"), "{halved}");
        let repaired = text(&repairs(EFFORT));
        let priorities = "priorities of ESA: by the formula (§5.4), one for all jobs and layers, far apart between jobs;";
        assert!(repaired.contains(priorities), "{repaired}");
        assert!(!text(&microbenchmark(EFFORT)).contains("the delay is added"), "without delays");
    }

    #[test]
    fn the_table_of_set_ups_names_the_figures_that_differ() {
        let studies = [completion(EFFORT, false), completion(EFFORT, true), microbenchmark(EFFORT)];
        let table = figure(&studies, "Set-ups".to_owned()).table;
        let row = |name: &str| {
            let is = |row: &&Vec<Cell>| row[0] == Cell::text(name);
            table.rows.iter().find(is).unwrap_or_else(|| panic!("{name}"))[1..].to_vec()
        };
        assert_eq!(row("seeds"), [Cell::text("3"), Cell::None]);
        let memory = [Cell::text("5 MB"), Cell::text("figure-7: 1 MB")];
        assert_eq!(row("memory for aggregators"), memory);
        assert_eq!(
            row("hosts"),
            [
                Cell::text("one for each worker"),
                Cell::text("figure-7: shared by jobs, one for each worker")
            ]
        );
    }
}
