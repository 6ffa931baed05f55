//! Runs set-ups on all cores.

use std::cmp::Reverse;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use crate::studies::training::{Setup, train};
use tributary_base::on_all_cores;

use super::measured::Measured;
use super::store::Store;
use crate::figures::runs::Progress;

/// Why a figure could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An experiment failed.
    #[error("{label}: {source}")]
    Experiment {
        /// The experiment.
        label: String,
        /// Its error.
        source: Box<crate::studies::training::Error>,
    },
    /// A result could not be kept.
    #[error("cannot write a result: {0}")]
    Store(#[from] io::Error),
}

/// An experiment with a name for messages.
pub(crate) type Labelled = (String, Setup);

/// Identifies a set-up among all.
pub(crate) fn key(setup: &Setup) -> String {
    format!("{setup:?}")
}

/// Megabytes that the workers of an experiment send: a measure of its cost.
fn weight(setup: &Setup) -> u64 {
    let job =
        |job: &crate::studies::training::Trainee| job.model.bytes() * job.workers.len() as u64;
    setup.jobs.iter().map(job).sum::<u64>() * u64::from(setup.warm_up + setup.iterations)
        / 1_000_000
}

/// Runs the experiments that the store lacks, the longest first. `progress` counts megabytes of
/// gradients.
///
/// # Errors
/// The first [`Error`]; experiments that are running are completed.
pub(crate) fn run(
    experiments: &[Labelled],
    store: &mut Store,
    progress: Progress<'_>,
) -> Result<(), Error> {
    let mut missing: Vec<&Labelled> = Vec::new();
    for one in experiments {
        if store.get(&key(&one.1)).is_none() && !missing.iter().any(|other| other.1 == one.1) {
            missing.push(one);
        }
    }
    missing.sort_by_key(|(_, setup)| Reverse(weight(setup)));
    let total: u64 = missing.iter().map(|(_, setup)| weight(setup)).sum();
    progress(0, total);
    let (done, failed, store) = (AtomicU64::new(0), AtomicBool::new(false), Mutex::new(store));
    on_all_cores(missing.len(), &|_, _| (), |at| {
        let (label, setup) = &missing[at];
        if failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let begun = Instant::now();
        let result = train(setup)
            .map_err(|source| Error::Experiment { label: label.clone(), source: Box::new(source) });
        let kept = result.and_then(|trained| {
            let measured = Measured::of(setup, &trained, begun.elapsed().as_secs_f64());
            Ok(store.lock().expect("no holder panics").insert(key(setup), measured)?)
        });
        failed.fetch_or(kept.is_err(), Ordering::Relaxed);
        let more = weight(setup);
        progress(done.fetch_add(more, Ordering::Relaxed) + more, total);
        kept
    })
    .map(drop)
}
