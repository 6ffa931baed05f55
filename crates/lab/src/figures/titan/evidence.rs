//! The claims of Titan's evaluation (§V), with verdicts computed from the figures.

use tributary_cluster::metrics::{Metric, Summary};
use tributary_cluster::placement::titan::testbed::Row;

use super::POLICIES;
use crate::figures::page::Figure;
use crate::figures::verdict::{self, Claim, Isolation, Rule, Sample};

/// What was measured: the results of each part that was made.
#[derive(Debug, Default)]
pub struct Evidence {
    /// Summaries of each repetition, in the order of the policies.
    pub(super) trace: Vec<Vec<Summary>>,
    pub(super) testbed: Vec<Row>,
    /// For each load and policy: mean waiting of large jobs in minutes, by repetition.
    pub(super) waiting: Vec<(f64, &'static str, Vec<f64>)>,
    /// Titan, and Elasticflow in each reading.
    pub(super) readings: Vec<Reading>,
}

/// What was measured of a reading of Elasticflow, over Titan's, by repetition.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) name: &'static str,
    pub(super) machines: Vec<f64>,
    pub(super) fragmentation: Vec<f64>,
}

/// The policies other than Titan: Elasticflow, Tiresias, HiveD.
const OTHERS: [usize; 3] = [1, 2, 3];

impl Evidence {
    /// A metric of other policies over Titan's.
    fn over_titan(&self, others: &[usize], metric: Metric) -> Vec<Sample> {
        let Some(titan) = self.trace.first() else { return Vec::new() };
        let of = |&policy: &usize| {
            let ratio = |(one, titan): (&Summary, &Summary)| one.get(metric) / titan.get(metric);
            let values = self.trace[policy].iter().zip(titan).map(ratio).collect();
            Sample { at: POLICIES[policy].1.to_owned(), values }
        };
        others.iter().map(of).collect()
    }

    fn titan_over(&self, others: &[usize], metric: Metric) -> Vec<Sample> {
        let turned = |sample: Sample| Sample {
            values: sample.values.iter().map(|value| 1.0 / value).collect(),
            ..sample
        };
        self.over_titan(others, metric).into_iter().map(turned).collect()
    }

    /// The readings of Elasticflow.
    fn by_reading(&self, of: fn(&Reading) -> &Vec<f64>) -> [Option<Isolation>; 1] {
        let cases = self.readings.iter().filter(|reading| reading.name != "Titan");
        let case = |reading: &Reading| {
            let sample = Sample { at: reading.name.to_owned(), values: of(reading).clone() };
            (reading.name.to_owned(), vec![sample])
        };
        let cases: Vec<_> = cases.map(case).collect();
        let on = "the reading of Elasticflow (titan-elasticflow)";
        [(!cases.is_empty()).then_some(Isolation { on, cases })]
    }

    /// Machines and fragmentation.
    fn of_trace(&self) -> Vec<Claim> {
        let by_machines = || self.by_reading(|reading| &reading.machines);
        let machines = |others: &[usize]| self.over_titan(others, Metric::UsedMachines);
        vec![
            Claim::new(
                "V-B 1",
                "Titan uses at least 47.9 % fewer machines than Elasticflow",
                Rule::EachAbove(1.0 / (1.0 - 0.479)),
                machines(&[1]),
            )
            .reported("1.92")
            .isolated(by_machines(), &["titan-elasticflow"]),
            Claim::new(
                "V-B 1",
                "Titan uses fewer machines than Elasticflow",
                Rule::EachAbove(1.0),
                machines(&[1]),
            )
            .isolated(by_machines(), &["titan-elasticflow"]),
            Claim::new(
                "V-B 1",
                "Titan uses fewer machines than Tiresias",
                Rule::EachAbove(1.0),
                machines(&[2]),
            )
            .reported("1.19"),
            Claim::new(
                "V-B 1",
                "Titan uses at most 4 % more machines than HiveD",
                Rule::EachAbove(1.0 / 1.04),
                machines(&[3]),
            )
            .reported("0.97"),
            Claim::new(
                "V-B 1",
                "Titan costs the fewest machine hours",
                Rule::EachAbove(1.0),
                self.over_titan(&OTHERS, Metric::MachineHours),
            ),
            Claim::new(
                "V-B 2",
                "Elasticflow has the highest fragmentation: over Titan's",
                Rule::EachAbove(1.0),
                self.over_titan(&[1], Metric::Fragmentation),
            )
            .reported("3.26")
            .isolated(self.by_reading(|reading| &reading.fragmentation), &["titan-elasticflow"]),
            Claim::new(
                "V-B 2",
                "Titan fragments machines less than Tiresias",
                Rule::EachAbove(1.0),
                self.over_titan(&[2], Metric::Fragmentation),
            )
            .reported("1.66"),
        ]
    }

    /// Communication and profit.
    fn of_costs(&self) -> Vec<Claim> {
        let traffic = |others: &[usize]| self.over_titan(others, Metric::Traffic);
        vec![
            Claim::new(
                "V-B 3",
                "Elasticflow communicates less than Titan",
                Rule::EachBelow(1.0),
                traffic(&[1]),
            ),
            Claim::new(
                "V-B 3",
                "Tiresias communicates at least 1.68 times as much as Titan",
                Rule::EachAbove(1.68),
                traffic(&[2]),
            )
            .reported("1.68"),
            Claim::new(
                "V-B 3",
                "HiveD communicates at least 4.26 times as much as Titan",
                Rule::EachAbove(4.26),
                traffic(&[3]),
            )
            .reported("4.26"),
            Claim::new(
                "V-B 3",
                "Titan communicates less than Tiresias and HiveD",
                Rule::EachAbove(1.0),
                traffic(&[2, 3]),
            ),
            Claim::new(
                "V-B 4",
                "Titan has a profit rate of at least 1.227 times that of each other policy",
                Rule::EachAbove(1.227),
                self.titan_over(&OTHERS, Metric::ProfitRate),
            )
            .reported("1.227 to 12"),
            Claim::new(
                "V-B 4",
                "Titan has the highest profit rate",
                Rule::EachAbove(1.0),
                self.titan_over(&OTHERS, Metric::ProfitRate),
            ),
        ]
    }

    /// What the others have on the testbed, over what Titan has. It is the same in each repetition.
    fn on_testbed(&self, of: impl Fn(&Row) -> f64, others: &[&str]) -> Vec<Sample> {
        let titan = |row: &Row| {
            let same = |one: &&Row| {
                one.policy == "Titan" && (one.model, one.workers) == (row.model, row.workers)
            };
            self.testbed.iter().find(same).map_or(f64::NAN, &of)
        };
        let rows = self.testbed.iter().filter(|row| others.contains(&row.policy));
        rows.map(|row| {
            let value = of(row) / titan(row);
            let at = format!("{}, {} workers, {}", row.model, row.workers, row.policy);
            Sample { at, values: vec![value; 2] }
        })
        .collect()
    }

    fn of_testbed(&self) -> Vec<Claim> {
        let hours =
            || self.on_testbed(|row| row.machine_hours, &["Elasticflow", "Tiresias", "HiveD"]);
        let throughput = || self.on_testbed(|row| row.images_per_s, &["Elasticflow"]);
        let time_of_eight = |policy| -> Vec<Sample> {
            let times = self.on_testbed(|row| 1.0 / row.images_per_s, &[policy]);
            times.into_iter().filter(|sample| sample.at.starts_with("ResNet-50, 8 ")).collect()
        };
        vec![
            Claim::new(
                "V-C 5",
                "testbed: Titan needs the fewest machine hours, for all models and numbers of workers",
                Rule::EachAbove(0.9999),
                hours(),
            ),
            Claim::new(
                "V-C 5",
                "testbed: up to 29.7 % fewer machine hours than another policy",
                Rule::SomeReaches(1.0 / (1.0 - 0.297)),
                hours(),
            )
            .reported("1.42"),
            Claim::new(
                "V-C 6",
                "testbed: Elasticflow always has the highest throughput: over Titan's",
                Rule::EachAbove(0.9999),
                throughput(),
            ),
            Claim::new(
                "V-C 6",
                "testbed: Titan has at least 0.993 of Elasticflow's throughput",
                Rule::EachBelow(1.0 / 0.993),
                throughput(),
            )
            .reported("0.993 with 12 workers"),
            Claim::new(
                "V-C 7",
                "testbed, ResNet-50, 8 workers: HiveD needs at least 1.42 times Titan's time for all epochs (figure 12)",
                Rule::EachAbove(1.42),
                time_of_eight("HiveD"),
            )
            .reported("1.42 (4 964 and 3 486 s)"),
            Claim::new(
                "V-C 7",
                "testbed, ResNet-50, 8 workers: Titan needs at most 1.11 times Elasticflow's time (figure 12): over Titan's",
                Rule::EachAbove(1.0 / 1.11),
                time_of_eight("Elasticflow"),
            )
            .reported("0.90 (3 147 and 3 486 s)"),
            Claim::new(
                "V-C 7",
                "testbed: Elasticflow communicates least in an epoch: over Titan's",
                Rule::EachBelow(1.0001),
                self.on_testbed(|row| row.communication_s, &["Elasticflow"]),
            )
            .reported("0.97 (8.4 and 8.7 s)"),
        ]
    }

    fn of_premise(&self) -> Vec<Claim> {
        let of = |name: &str, load: f64| {
            self.waiting.iter().find(|one| one.0 == load && one.1 == name).map(|one| &one.2)
        };
        let loads: Vec<f64> =
            self.waiting.iter().filter(|one| one.1 == "Titan").map(|one| one.0).collect();
        let added = |load: f64| {
            let (strict, titan) = (of("strict consolidation", load)?, of("Titan", load)?);
            let values = strict.iter().zip(titan).map(|(strict, titan)| strict - titan).collect();
            Some(Sample { at: format!("load {load}"), values })
        };
        vec![
            Claim::new(
                "II-A",
                "the premise: large jobs that are not spread wait longer for it than Titan's, in minutes, at a load of 0.95",
                Rule::EachAbove(0.0),
                added(0.95).into_iter().collect(),
            )
            .isolated([], &["titan-waiting"]),
            Claim::new(
                "II-A",
                "the premise: such jobs wait at least 50 minutes longer, at some load",
                Rule::SomeReaches(50.0),
                loads.iter().copied().filter_map(added).collect(),
            )
            .reported("over 3 000 s, in ByteDance's cluster")
            .isolated([], &["titan-waiting"]),
        ]
    }
}

/// The claims about which something was measured.
#[must_use]
pub fn claims(evidence: &Evidence) -> Option<Figure> {
    let all =
        [evidence.of_trace(), evidence.of_costs(), evidence.of_testbed(), evidence.of_premise()];
    let claims: Vec<Claim> =
        all.into_iter().flatten().filter(|claim| !claim.samples.is_empty()).collect();
    let made = |name: &str| match name {
        "titan-waiting" => !evidence.waiting.is_empty(),
        _ => !evidence.readings.is_empty(),
    };
    let mut figure =
        verdict::figure("titan-claims", "Titan: claims and verdicts".to_owned(), &claims, made)?;
    figure.notes.insert(
        0,
        "Numbers are those of the other policy over Titan's, for the profit rate Titan's over the other's. The testbed is \
         computed and has no spread."
            .to_owned(),
    );
    Some(figure)
}
