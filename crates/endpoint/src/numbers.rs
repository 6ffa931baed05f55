//! The jobs of a process, for metrics: packets and counters know them by their numbers only.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tributary_metrics::{Page, Source};
use tributary_model::JobSpec;

/// The metric with the names of jobs. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Jobs(Arc<Mutex<Vec<Named>>>);

#[derive(Debug)]
struct Named {
    id: u16,
    name: String,
    protocol: &'static str,
}

impl Jobs {
    /// The names of these jobs.
    pub fn new<'j>(jobs: impl IntoIterator<Item = &'j JobSpec>) -> Self {
        let own = Self::default();
        own.set(jobs);
        own
    }

    /// The process has these jobs now.
    pub fn set<'j>(&self, jobs: impl IntoIterator<Item = &'j JobSpec>) {
        let named = |job: &JobSpec| Named {
            id: job.id.get(),
            name: job.name.clone(),
            protocol: job.protocol.name(),
        };
        let named = jobs.into_iter().map(named).collect();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = named;
    }
}

impl Source for Jobs {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        let named = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let samples = named.iter().map(|Named { id, name, protocol }| {
            let labels = [
                ("job_id", id.to_string()),
                ("name", name.clone()),
                ("protocol", (*protocol).to_owned()),
            ];
            (labels, 1.0)
        });
        page.gauge("tributary_job_info", "Name and protocol of a job; always 1", samples)
    }
}
