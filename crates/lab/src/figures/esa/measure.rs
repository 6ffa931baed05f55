//! Runs set-ups on all cores.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

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

/// Megabytes of gradients that a core simulates per second: 785 GB of figures 8 to 11 and of `halving` took 42 minutes of
/// processor time on an AMD EPYC.
const MEGABYTES_PER_SECOND: f64 = 310.0;

/// What is left to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cost {
    /// Experiments without a result.
    pub experiments: usize,
    /// Megabytes of gradients that their workers send in measured iterations and before. Jobs that
    /// wait for others send more, and runs with many collisions take longer.
    pub megabytes: u64,
}

impl Cost {
    /// A rough estimate of the processor time.
    #[must_use]
    pub fn processor_time(self) -> Duration {
        Duration::from_secs_f64(self.megabytes as f64 / MEGABYTES_PER_SECOND)
    }
}

/// What these experiments cost beyond what the store has.
pub(crate) fn cost(experiments: &[Labelled], store: &Store) -> Cost {
    let missing = missing(experiments, store);
    let megabytes = missing.iter().map(|(_, setup)| weight(setup)).sum();
    Cost { experiments: missing.len(), megabytes }
}

/// The experiments that the store lacks, each once.
fn missing<'a>(experiments: &'a [Labelled], store: &Store) -> Vec<&'a Labelled> {
    let mut seen = HashSet::new();
    let lacks = |one: &&Labelled| {
        let key = key(&one.1);
        store.get(&key).is_none() && seen.insert(key)
    };
    experiments.iter().filter(lacks).collect()
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
    let mut missing = missing(experiments, store);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::studies::training::Model;
    use tributary_model::Protocol;

    #[test]
    fn an_experiment_of_several_figures_costs_once_and_a_known_one_nothing() {
        // Two workers, one iteration before the measured ones: 16 MB each, five times.
        let setup = Setup { iterations: 4, ..Setup::esa(Protocol::Atp, vec![Model::a()], 2, 1) };
        let other = Setup { seed: 2, ..setup.clone() };
        let all = [("one", &setup), ("the same", &setup), ("other", &other)];
        let all = all.map(|(label, setup)| (label.to_owned(), setup.clone()));
        let mut store = Store::in_memory();
        assert_eq!(cost(&all, &store), Cost { experiments: 2, megabytes: 320 });
        store.insert(key(&setup), Measured::default()).unwrap();
        let left = cost(&all, &store);
        assert_eq!(left, Cost { experiments: 1, megabytes: 160 });
        let time = left.processor_time().as_secs_f64();
        assert!((time - 160.0 / MEGABYTES_PER_SECOND).abs() < 1e-6, "{time}");
    }
}
