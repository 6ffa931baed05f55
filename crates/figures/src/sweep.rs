//! Experiments: policies at several points of a parameter, over several seeds.

use tributary_cluster::metrics::{Metric, Spread, Summary};
use tributary_cluster::model::Profile;
use tributary_cluster::simulate::Options;
use tributary_cluster::trace::Trace;
use tributary_cluster::{Cluster, Job};

use crate::runs::{Progress, Run, RunError, run};
use crate::workload::Workload;

/// What all experiments of a paper share.
#[derive(Clone, Copy)]
pub struct Experiment<'a> {
    /// Where jobs come from.
    pub trace: &'a Trace,
    /// Their models.
    pub profiles: &'a [Profile],
    /// Repetitions, each with other jobs of the trace and other models.
    pub seeds: u64,
    /// Told how far each experiment has come.
    pub progress: Progress<'a>,
}

/// One point of an experiment.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) label: String,
    pub(crate) cluster: Cluster,
    pub(crate) workload: Workload,
    /// What the load is measured on, if not on the cluster.
    pub(crate) loaded: Option<Cluster>,
}

/// What came of an experiment: a summary for each point, policy and seed.
#[derive(Clone, Debug)]
pub(crate) struct Results {
    pub(crate) labels: Vec<String>,
    pub(crate) policies: Vec<&'static str>,
    summaries: Vec<Summary>,
    seeds: usize,
}

impl Experiment<'_> {
    pub(crate) fn run(
        &self,
        points: &[Point],
        policies: &[&'static str],
        options: Options,
    ) -> Result<Results, RunError> {
        let draw = |point: &Point, seed| {
            let loaded = point.loaded.as_ref().unwrap_or(&point.cluster);
            point.workload.draw(self.trace, loaded, self.profiles, seed)
        };
        let jobs: Vec<Vec<Vec<Job>>> = points
            .iter()
            .map(|point| (0..self.seeds).map(|seed| draw(point, seed)).collect())
            .collect();
        let mut runs = Vec::new();
        for (point, jobs) in points.iter().zip(&jobs) {
            for &policy in policies {
                for jobs in jobs {
                    runs.push(Run { cluster: &point.cluster, jobs, policy, options });
                }
            }
        }
        let outcomes = run(&runs, self.progress)?;
        Ok(Results {
            labels: points.iter().map(|point| point.label.clone()).collect(),
            policies: policies.to_vec(),
            summaries: outcomes.iter().map(Summary::of).collect(),
            seeds: self.seeds as usize,
        })
    }
}

impl Results {
    fn at(&self, point: usize, policy: usize) -> &[Summary] {
        let first = (point * self.policies.len() + policy) * self.seeds;
        &self.summaries[first..first + self.seeds]
    }

    /// A measure, over the seeds.
    pub(crate) fn spread(&self, point: usize, policy: usize, metric: Metric) -> Spread {
        Spread::of_metric(self.at(point, policy), metric)
    }

    /// A measure over that of the first policy with the same jobs, over the seeds.
    pub(crate) fn over_first(&self, point: usize, policy: usize, metric: Metric) -> Spread {
        let pairs = self.at(point, policy).iter().zip(self.at(point, 0));
        Spread::of(
            &pairs.map(|(one, first)| one.get(metric) / first.get(metric)).collect::<Vec<_>>(),
        )
    }

    /// Whether every job of every run of a point ended.
    pub(crate) fn all_finished(&self, point: usize) -> bool {
        (0..self.policies.len()).all(|policy| {
            self.at(point, policy).iter().all(|one| one.get(Metric::Unfinished) == 0.0)
        })
    }
}
