//! The set-up of experiments in words, from the values that run.

use std::collections::BTreeSet;
use std::time::Duration;

use tributary_protocol::Recovery;

use crate::studies::training::Setup;

/// A part of a set-up: its name, and its value where it applies.
type Part = (&'static str, fn(&Setup) -> Option<String>);

const PARTS: [Part; 17] = [
    ("jobs", |setup| Some(setup.jobs.len().to_string())),
    ("workers of a job", |setup| list(setup.jobs.iter().map(|job| job.workers.len()))),
    ("gradients of a job", |setup| {
        list(setup.jobs.iter().map(|job| format!("{} MB", job.model.bytes() as f64 / 1e6)))
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
