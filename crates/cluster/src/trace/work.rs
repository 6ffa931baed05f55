//! The work of a trace's jobs: what the trace tells of it, and what is drawn.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_base::{EXCERPT, shortened};

use super::error::Warning;
use super::{Index, Submission, Trace};
use crate::job::{Job, JobId};
use crate::model::Profile;

/// What a trace tells of a job's work.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Told {
    /// Index into [`Trace::models`].
    pub model: Option<Index>,
    /// Number of iterations, at least 1.
    pub iterations: Option<f64>,
    /// Gradients summed per iteration, in bytes per worker.
    pub gradient_bytes: Option<f64>,
}

/// The jobs of a trace, made one by one.
#[derive(Clone, Debug)]
pub struct Stream<'t> {
    trace: &'t Trace,
    submissions: std::iter::Enumerate<std::slice::Iter<'t, Submission>>,
    profiles: &'t [Profile],
    /// The profile of each of the trace's models, if it is known.
    models: Vec<Option<&'t Profile>>,
    rng: ChaCha8Rng,
}

impl<'t> Stream<'t> {
    pub(super) fn new(trace: &'t Trace, profiles: &'t [Profile], seed: u64) -> Self {
        assert!(!profiles.is_empty(), "models are drawn from some");
        Self {
            trace,
            submissions: trace.submissions.iter().enumerate(),
            profiles,
            models: trace.models.iter().map(|name| profile(name, profiles)).collect(),
            rng: ChaCha8Rng::seed_from_u64(seed),
        }
    }
}

impl Iterator for Stream<'_> {
    type Item = Job;

    fn next(&mut self) -> Option<Job> {
        let (number, from) = self.submissions.next()?;
        // Drawn for every job, so that the others do not depend on what is told of this one.
        let drawn = &self.profiles[self.rng.random_range(0..self.profiles.len())];
        let told = from.told.map(|told| self.trace.told[told.at()]).unwrap_or_default();
        let profile = told.model.and_then(|model| self.models[model.at()]).unwrap_or(drawn);
        let mut job = profile.job(JobId(number as u32), from.submit_s, from.gpus, from.duration_s);
        if let Some(iterations) = told.iterations {
            (job.iterations, job.compute_s) = (iterations, from.duration_s / iterations);
        }
        if let Some(gradient_bytes) = told.gradient_bytes {
            job.gradient_bytes = gradient_bytes;
        }
        Some(job)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.submissions.size_hint()
    }
}

/// The profile of a model, whose name may be in capitals.
fn profile<'p>(name: &str, profiles: &'p [Profile]) -> Option<&'p Profile> {
    profiles.iter().find(|profile| profile.name.eq_ignore_ascii_case(name))
}

/// A warning for each unknown model of a trace.
pub(super) fn unknown_models(trace: &Trace, profiles: &[Profile]) -> Vec<Warning> {
    let unknown: Vec<bool> =
        trace.models.iter().map(|name| profile(name, profiles).is_none()).collect();
    // Number of jobs, and the first line.
    let mut jobs = vec![(0_u64, u32::MAX); trace.models.len()];
    for job in &trace.submissions {
        let Some(told) = job.told.map(|told| trace.told[told.at()]) else { continue };
        let needed = told.iterations.is_none() || told.gradient_bytes.is_none();
        if let Some(model) = told.model.filter(|model| needed && unknown[model.at()]) {
            let (count, line) = &mut jobs[model.at()];
            (*count, *line) = (*count + 1, job.line.min(*line));
        }
    }
    let named = trace.models.iter().zip(jobs).filter(|(_, (count, _))| *count > 0);
    named
        .map(|(name, (count, line))| Warning {
            file: trace.file.clone(),
            line: u64::from(line),
            what: format!(
                "the model `{}` is not known, so another is drawn for each of its {count} jobs; \
                 describe it in a file of models",
                shortened(name, EXCERPT)
            ),
        })
        .collect()
}
