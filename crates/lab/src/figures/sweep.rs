//! Experiments: policies at several points of a parameter, over several seeds.

use std::sync::Arc;

use crate::studies::testbed::Packets;
use tributary_cluster::Cluster;
use tributary_cluster::metrics::{Metric, Spread, Summary};
use tributary_cluster::model::Profile;
use tributary_cluster::simulate::Options;
use tributary_cluster::trace::Trace;

use crate::figures::interval::Interval;
use crate::figures::runs::{Progress, Run, RunError, run};
use crate::figures::verdict::Sample;
use crate::figures::workload::{Drawn, Workload};

/// The common part of all experiments of a paper.
#[derive(Clone, Copy)]
pub struct Experiment<'a> {
    /// The source of jobs.
    pub trace: &'a Trace,
    /// Their models.
    pub profiles: &'a [Profile],
    /// Number of repetitions, each with different jobs of the trace and different models.
    pub seeds: u64,
    /// Progress callback.
    pub progress: Progress<'a>,
}

/// One point of an experiment.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) label: String,
    pub(crate) cluster: Cluster,
    pub(crate) workload: Workload,
    /// The cluster for which the load is computed, if it is a different one.
    pub(crate) loaded: Option<Cluster>,
    /// Packet-level timing of sums; `None` for the steady state.
    pub(crate) packets: Option<Arc<Packets>>,
}

/// The results of an experiment: a summary for each point, policy and seed.
#[derive(Clone, Debug)]
pub(crate) struct Results {
    pub(crate) labels: Vec<String>,
    pub(crate) policies: Vec<&'static str>,
    /// By point, policy and seed.
    summaries: Vec<Vec<Vec<Summary>>>,
}

impl Experiment<'_> {
    /// The same with another number of repetitions.
    pub(crate) fn repeated(self, seeds: u64) -> Self {
        Self { seeds, ..self }
    }

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
        let drawn: Vec<Vec<Drawn>> = points
            .iter()
            .map(|point| (0..self.seeds).map(|seed| draw(point, seed)).collect())
            .collect();
        let mut runs = Vec::new();
        for (point, drawn) in points.iter().zip(&drawn) {
            for &policy in policies {
                for Drawn { jobs, window_s } in drawn {
                    let (cluster, packets) = (&point.cluster, point.packets.as_deref());
                    let options = Options { window_s: Some(*window_s), ..options };
                    runs.push(Run { cluster, jobs, policy, options, packets });
                }
            }
        }
        let outcomes = run(&runs, self.progress)?;
        let mut summaries = outcomes.iter().map(Summary::of);
        let seeds = self.seeds as usize;
        let mut of_policy = || summaries.by_ref().take(seeds).collect();
        let mut of_point = |_: &Point| policies.iter().map(|_| of_policy()).collect();
        Ok(Results {
            labels: points.iter().map(|point| point.label.clone()).collect(),
            policies: policies.to_vec(),
            summaries: points.iter().map(&mut of_point).collect(),
        })
    }
}

impl Results {
    /// The summaries of all seeds.
    pub(crate) fn at(&self, point: usize, policy: usize) -> &[Summary] {
        &self.summaries[point][policy]
    }

    /// Appends the points of other results of the same policies.
    pub(crate) fn and(mut self, others: Self) -> Self {
        assert_eq!(self.policies, others.policies, "results of the same policies");
        self.labels.extend(others.labels);
        self.summaries.extend(others.summaries);
        self
    }

    /// Only some of the policies.
    pub(crate) fn only(&self, policies: &[&'static str]) -> Self {
        let at: Vec<usize> = policies
            .iter()
            .filter_map(|wanted| self.policies.iter().position(|policy| policy == wanted))
            .collect();
        let of_point = |point: &Vec<Vec<Summary>>| at.iter().map(|&at| point[at].clone()).collect();
        Self {
            labels: self.labels.clone(),
            policies: at.iter().map(|&at| self.policies[at]).collect(),
            summaries: self.summaries.iter().map(of_point).collect(),
        }
    }

    /// The spread of a metric over the seeds.
    pub(crate) fn spread(&self, point: usize, policy: usize, metric: Metric) -> Spread {
        Spread::of_metric(self.at(point, policy), metric)
    }

    /// The mean of a metric over the seeds, with its confidence interval.
    pub(crate) fn interval(&self, point: usize, policy: usize, metric: Metric) -> Interval {
        let values = self.at(point, policy).iter().map(|one| one.get(metric));
        Interval::of(&values.collect::<Vec<_>>())
    }

    /// The ratio of a metric to that of the first policy with the same jobs, by seed.
    pub(crate) fn ratios(&self, point: usize, policy: usize, metric: Metric) -> Vec<f64> {
        let pairs = self.at(point, policy).iter().zip(self.at(point, 0));
        pairs.map(|(one, first)| one.get(metric) / first.get(metric)).collect()
    }

    /// The mean of these ratios.
    pub(crate) fn over_first(&self, point: usize, policy: usize, metric: Metric) -> Interval {
        Interval::of(&self.ratios(point, policy, metric))
    }

    /// The mean of their reciprocals.
    pub(crate) fn turned_over_first(
        &self,
        point: usize,
        policy: usize,
        metric: Metric,
    ) -> Interval {
        let ratios = self.ratios(point, policy, metric);
        Interval::of(&ratios.iter().map(|ratio| 1.0 / ratio).collect::<Vec<_>>())
    }

    /// The same ratios, for a verdict: above 1 where the first policy is better.
    pub(crate) fn gains(&self, policy: usize, metric: Metric) -> Vec<Sample> {
        let at = |point| {
            let values = self.ratios(point, policy, metric);
            Sample { at: format!("{}, {}", self.labels[point], self.policies[policy]), values }
        };
        (0..self.labels.len()).map(at).collect()
    }
}
