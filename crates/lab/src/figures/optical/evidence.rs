//! What was measured for the claims of P4INC-AOI's evaluation, as samples over the seeds.

use tributary_optical::{Case, Comparison, Run, Scheduler};

use crate::figures::interval::Interval;
use crate::figures::table::Cell;
use crate::figures::verdict::{Isolation, Sample};

/// A ratio of circuits is flagged if one side has fewer than this in a schedule.
const FEW: f64 = 30.0;

/// What was measured: the results of each part that was made.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// Figures 8 to 12, and what isolates causes there.
    pub(super) studies: Vec<Measured>,
    /// Table I: each set-up with its results.
    pub(super) table1: Vec<Exact>,
    /// Figure 5.
    pub(super) throughput: Vec<Gain>,
    /// Figures 6 and 7.
    pub(super) testbed: Option<Testbed>,
    /// Regimes of the search, for each of the [ratios](super::claims::RATIOS) that the paper states.
    pub(super) regimes: Vec<(String, Vec<Vec<Sample>>)>,
    /// The same of the testbed, for each ratio of figure 7 and each model.
    pub(super) testbeds: Vec<(String, Vec<Vec<Sample>>)>,
}

/// What schedulers did in the cases of a study.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) id: &'static str,
    /// By case: the position on the horizontal axis.
    pub(super) xs: Vec<f64>,
    pub(super) schedulers: Vec<String>,
    pub(super) runs: Vec<Run>,
}

/// A value of a run.
pub(super) type Value = fn(&Run) -> f64;

impl Measured {
    pub(super) fn new(
        id: &'static str,
        cases: &[Case<'_>],
        schedulers: &[Box<dyn Scheduler + Send + Sync>],
        runs: Vec<Run>,
    ) -> Self {
        let schedulers = schedulers.iter().map(|scheduler| scheduler.name().to_owned()).collect();
        Self { id, xs: cases.iter().map(|case| case.x).collect(), schedulers, runs }
    }

    /// A value in a case, by seed; `None` if the scheduler is none of the study's.
    fn values(&self, case: usize, scheduler: &str, value: Value) -> Option<Vec<f64>> {
        let index = self.schedulers.iter().position(|name| name == scheduler)?;
        let runs = self.runs.iter().filter(|run| run.case == case && run.scheduler == index);
        Some(runs.map(value).collect())
    }

    /// The mean of a value in a case.
    pub(super) fn mean(&self, case: usize, scheduler: &str, value: Value) -> f64 {
        self.values(case, scheduler, value).map_or(f64::NAN, |values| mean(&values))
    }

    /// The mean over the cases, by seed.
    fn means(&self, scheduler: &str, value: Value) -> Option<Vec<f64>> {
        let cases = self.xs.len();
        let all: Option<Vec<_>> =
            (0..cases).map(|case| self.values(case, scheduler, value)).collect();
        let all = all?;
        let mean = |seed| all.iter().map(|case| case[seed]).sum::<f64>() / cases as f64;
        Some((0..all.first()?.len()).map(mean).collect())
    }

    /// CT-BTI over that of another scheduler, all cases together.
    pub(super) fn sooner(&self, one: &str, other: &str) -> Vec<Sample> {
        let of = |name| self.means(name, |run| run.ct_bti);
        let sample = |(one, other): (Vec<f64>, Vec<f64>)| Sample {
            at: "all points".to_owned(),
            values: ratios(&one, &other),
        };
        of(one).zip(of(other)).map(sample).into_iter().collect()
    }

    /// New circuits over those of another scheduler, all cases together, with their numbers.
    pub(super) fn fewer(&self, one: &str, other: &str) -> Vec<Sample> {
        let of = |name| self.means(name, |run| f64::from(run.reconfigurations));
        of(one).zip(of(other)).map(|(one, other)| of_circuits(&one, &other)).into_iter().collect()
    }

    /// A value over that of other schedulers, case by case.
    pub(super) fn each(&self, one: &str, others: &[&str], value: Value) -> Vec<Sample> {
        let pairs =
            (0..self.xs.len()).flat_map(|case| others.iter().map(move |other| (case, *other)));
        let sample = |(case, other): (usize, &str)| {
            let (one, many) = (self.values(case, one, value)?, self.values(case, other, value)?);
            let at = format!("{} at {}", other, self.xs[case]);
            Some(Sample { at, values: ratios(&one, &many) })
        };
        pairs.filter_map(sample).collect()
    }

    /// How many more a scheduler has than others, case by case.
    pub(super) fn more(&self, one: &str, others: &[&str], value: Value) -> Vec<Sample> {
        let pairs =
            (0..self.xs.len()).flat_map(|case| others.iter().map(move |other| (case, *other)));
        let sample = |(case, other): (usize, &str)| {
            let (one, many) = (self.values(case, one, value)?, self.values(case, other, value)?);
            let values = one.iter().zip(&many).map(|(one, other)| one - other).collect();
            Some(Sample { at: format!("{} at {}", other, self.xs[case]), values })
        };
        pairs.filter_map(sample).collect()
    }

    /// A value at one position over that at another, for each scheduler.
    pub(super) fn trend(
        &self,
        schedulers: &[&str],
        [to, from]: [f64; 2],
        value: Value,
    ) -> Vec<Sample> {
        let case = |x: f64| self.xs.iter().position(|&at| at == x);
        let sample = |name: &&str| {
            let at = |x| self.values(case(x)?, name, value);
            let values = ratios(&at(to)?, &at(from)?);
            Some(Sample { at: format!("{name}, {to} over {from}"), values })
        };
        schedulers.iter().filter_map(sample).collect()
    }
}

/// One value over another, seed by seed. Seeds without either have no ratio.
pub(super) fn ratios(one: &[f64], other: &[f64]) -> Vec<f64> {
    let pairs = one.iter().zip(other).filter(|(one, other)| **one != 0.0 || **other != 0.0);
    pairs.map(|(one, other)| one / other).collect()
}

/// A ratio of circuits, with the circuits on which it rests.
pub(super) fn of_circuits(one: &[f64], other: &[f64]) -> Sample {
    Sample { at: rests_on(mean(one), mean(other)), values: ratios(one, other) }
}

/// The circuits on which a ratio rests, with a flag if they are few.
pub(super) fn rests_on(one: f64, other: f64) -> String {
    let shown = |number: f64| {
        let digits = usize::from(number < 100.0 && number.fract() != 0.0);
        format!("{number:.digits$}")
    };
    let flag = if one.min(other) < FEW { " (few)" } else { "" };
    format!("{} against {} circuits{flag}", shown(one), shown(other))
}

/// Ratios as a change in percent; empty if no seed has one.
pub(super) fn change(sample: Option<&Sample>) -> Cell {
    let ratios = sample.map_or(&[][..], |sample| &sample.values);
    let percent: Vec<f64> = ratios.iter().map(|ratio| 100.0 * (ratio - 1.0)).collect();
    if percent.is_empty() { Cell::None } else { Cell::Interval(Interval::of(&percent), 1) }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Table I in one set-up.
#[derive(Debug)]
pub(super) struct Exact {
    /// What differs from the others.
    pub(super) name: &'static str,
    pub(super) schedulers: Vec<String>,
    /// Numbers of jobs, each with its instances.
    pub(super) cases: Vec<(f64, Vec<Comparison>)>,
}

impl Exact {
    /// A value of each instance, by the number of jobs up to this one.
    pub(super) fn samples(
        &self,
        most: f64,
        value: impl Fn(&Self, &Comparison) -> Option<f64>,
    ) -> Vec<Sample> {
        let cases = self.cases.iter().filter(|(jobs, _)| *jobs <= most);
        let sample = |(jobs, instances): &(f64, Vec<Comparison>)| {
            let values = instances.iter().map(|one| value(self, one)).collect::<Option<_>>()?;
            Some(Sample { at: format!("{jobs} jobs"), values })
        };
        cases.filter_map(sample).collect()
    }

    /// What a scheduler did with an instance.
    pub(super) fn run<'c>(&self, instance: &'c Comparison, scheduler: &str) -> Option<&'c Run> {
        let at = self.schedulers.iter().position(|name| name == scheduler)?;
        instance.runs.get(at)
    }
}

/// The throughput of a model with INC over that without, by seed.
#[derive(Debug)]
pub(super) struct Gain {
    pub(super) model: &'static str,
    /// Gb/s that the server handles in each direction; 40 is its link.
    pub(super) server: u64,
    pub(super) values: Vec<f64>,
}

/// Figures 6 and 7, and what else changes them.
#[derive(Debug)]
pub(super) struct Testbed {
    /// By model, number of jobs and scheduler: seconds and circuits by seed.
    pub(super) points: Vec<Queue>,
    /// The same by variation and value, for one model and number of jobs, by the schedulers alone.
    pub(super) variations: Vec<(&'static str, Vec<Queue>)>,
}

/// What became of some jobs of the testbed under a scheduler.
#[derive(Debug)]
pub(super) struct Queue {
    /// Model, or value of a parameter.
    pub(super) group: String,
    pub(super) jobs: usize,
    pub(super) scheduler: String,
    /// By seed: total JCT in seconds, and new circuits.
    pub(super) jct: Vec<f64>,
    pub(super) circuits: Vec<f64>,
}

/// Queues of one scheduler, each with that of another in the same group with as many jobs.
pub(super) fn pairs<'q>(
    queues: &'q [Queue],
    one: &'q str,
    other: &'q str,
) -> impl Iterator<Item = (&'q Queue, &'q Queue)> {
    queues.iter().filter(move |queue| queue.scheduler == one).filter_map(move |queue| {
        let same =
            |it: &&Queue| it.scheduler == other && it.group == queue.group && it.jobs == queue.jobs;
        Some((queue, queues.iter().find(same)?))
    })
}

impl Evidence {
    /// A study, if it was made.
    pub(super) fn study(&self, id: &str) -> Option<&Measured> {
        self.studies.iter().find(|study| study.id == id)
    }

    /// Samples of a study, or none.
    pub(super) fn of(&self, id: &str, samples: impl Fn(&Measured) -> Vec<Sample>) -> Vec<Sample> {
        self.study(id).map(samples).unwrap_or_default()
    }

    /// Studies that differ in one thing, each with its name and samples.
    pub(super) fn isolation(
        &self,
        on: &'static str,
        cases: &[(&str, &str)],
        samples: impl Fn(&Measured) -> Vec<Sample>,
    ) -> Option<Isolation> {
        let case = |(id, name): &(&str, &str)| {
            let samples = self.study(id).map(&samples)?;
            (!samples.is_empty()).then(|| ((*name).to_owned(), samples))
        };
        let cases: Vec<_> = cases.iter().filter_map(case).collect();
        (!cases.is_empty()).then_some(Isolation { on, cases })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_of_few_circuits_are_flagged() {
        assert_eq!(rests_on(9.75, 117.0), "9.8 against 117 circuits (few)");
        assert_eq!(rests_on(622.4, 23_308.0), "622 against 23308 circuits");
        assert_eq!(rests_on(0.0, 0.0), "0 against 0 circuits (few)");
    }

    #[test]
    fn a_seed_without_circuits_on_both_sides_has_no_ratio() {
        assert_eq!(ratios(&[0.0, 0.0, 3.0], &[0.0, 4.0, 4.0]), [0.0, 0.75]);
        assert_eq!(change(Some(&of_circuits(&[0.0], &[0.0]))), Cell::None);
    }
}
