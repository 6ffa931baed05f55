//! The claims of NetPack's evaluation (§6), with verdicts computed from the figures.

use tributary_cluster::metrics::Metric;

use crate::figures::page::Figure;
use crate::figures::sweep::Results;
use crate::figures::verdict::{self, Claim, Isolation, Rule, Sample};

/// What was measured: the results of each part that was made.
#[derive(Debug, Default)]
pub struct Evidence {
    /// The testbed, by demand and by switch memory.
    pub(super) testbed: Option<[Results; 2]>,
    pub(super) simulated: Option<Results>,
    pub(super) sizes: Option<Results>,
    pub(super) racks: Option<Results>,
    /// Which part of NetPack decides, by set-up.
    pub(super) parts: Option<Results>,
    /// Seconds to place 4 000 jobs on 10 000 servers, by demand and racks.
    pub(super) placing_s: Vec<Sample>,
    /// What the switch sums of a job's packets, from the estimate, as a part of all (figure 14).
    pub memory: Vec<Deviation>,
    /// Bandwidth of jobs that have settled, from the estimate, as a part of it (figure 15).
    pub bandwidth: Vec<Deviation>,
}

/// How far a measurement is from the estimate. It is the same in each repetition.
#[derive(Clone, PartialEq, Debug)]
pub struct Deviation {
    /// Where.
    pub at: String,
    /// By how much.
    pub by: f64,
}

impl From<&Deviation> for Sample {
    fn from(Deviation { at, by }: &Deviation) -> Self {
        Self { at: at.clone(), values: vec![*by; 2] }
    }
}

/// How many times as fast a job is that takes this part less time.
fn less(part: f64) -> f64 {
    1.0 / (1.0 - part)
}

const JCT: Metric = Metric::AverageJct;

/// How much longer the others take than the first policy, at each point.
fn others(results: &Results, metric: Metric) -> Vec<Sample> {
    (1..results.policies.len()).flat_map(|policy| results.gains(policy, metric)).collect()
}

/// The mean over samples, for each repetition.
fn mean(samples: &[Sample], at: &str) -> Vec<Sample> {
    let Some(first) = samples.first() else { return Vec::new() };
    let of = |seed: usize| -> f64 {
        samples.iter().map(|sample| sample.values[seed]).sum::<f64>() / samples.len() as f64
    };
    vec![Sample { at: at.to_owned(), values: (0..first.values.len()).map(of).collect() }]
}

fn at<'a>(samples: &'a [Sample], point: &'a str) -> impl Iterator<Item = &'a Sample> {
    samples.iter().filter(move |sample| sample.at.split(", ").any(|part| part == point))
}

fn those(samples: &[Sample], point: &str) -> Vec<Sample> {
    at(samples, point).cloned().collect()
}

impl Evidence {
    fn of_testbed(&self) -> Vec<Claim> {
        let Some([demands, memory]) = &self.testbed else { return Vec::new() };
        let faster = others(demands, JCT);
        let real = those(&faster, "real");
        let by_memory = others(memory, JCT);
        let none = those(&by_memory, "0 Gb/s");
        let plenty = those(&by_memory, "1000 Gb/s");
        let comb = demands.policies.iter().position(|policy| policy.starts_with("comb"));
        let comb = comb.map_or_else(Vec::new, |policy| demands.gains(policy, JCT));
        let trend = over(&mean(&none, "no memory"), &mean(&plenty, "1000 Gb/s"));
        vec![
            Claim::new(
                "6.2",
                "testbed: NetPack's jobs complete sooner than with any other policy, for each demand",
                Rule::EachAbove(1.0),
                faster,
            )
            .isolated(self.by_servers("testbed, Poisson"), &["netpack-parts"]),
            Claim::new(
                "6.2",
                "testbed, real trace: at least 13 % less than each other policy",
                Rule::EachAbove(less(0.13)),
                real.clone(),
            )
            .reported("13 to 45 % less: 1.15 to 1.82"),
            Claim::new(
                "6.2",
                "testbed, real trace: up to 45 % less",
                Rule::SomeReaches(less(0.45)),
                real,
            )
            .reported("1.82"),
            Claim::new(
                "6.3",
                "testbed: at least 30 % less than each other policy, for each switch memory",
                Rule::EachAbove(less(0.30)),
                by_memory,
            )
            .reported("30 to 92 % less: 1.43 to 12.5"),
            Claim::new(
                "6.3",
                "testbed without switch memory: at least 87 % less than each other policy",
                Rule::EachAbove(less(0.87)),
                none,
            )
            .reported("87 to 92 % less: 7.7 to 12.5"),
            Claim::new(
                "6.3",
                "the advantage grows with less switch memory: mean over the policies, none over 1 000 Gb/s",
                Rule::EachAbove(1.0),
                trend,
            ),
            Claim::new(
                "6.4",
                "testbed: up to 63 % less than Comb",
                Rule::SomeReaches(less(0.63)),
                comb,
            )
            .reported("2.70"),
        ]
    }

    fn of_simulation(&self) -> Vec<Claim> {
        let mut claims = Vec::new();
        if let Some(results) = &self.simulated {
            let faster = others(results, JCT);
            let efficient = others(results, Metric::Efficiency).into_iter().map(turned).collect();
            claims.extend([
                Claim::new(
                    "6.2",
                    "simulated: NetPack's jobs complete sooner than with any other policy, for each demand",
                    Rule::EachAbove(1.0),
                    faster.clone(),
                )
                .isolated(self.by_queue(), &["netpack-parts"]),
                Claim::new(
                    "6.2",
                    "simulated: up to 78 % less than another policy",
                    Rule::SomeReaches(less(0.78)),
                    faster,
                )
                .reported("4.55")
                .isolated(self.by_queue(), &["netpack-parts"]),
                Claim::new(
                    "6.2",
                    "simulated: up to 2.4 times another policy's distribution efficiency",
                    Rule::SomeReaches(2.4),
                    efficient,
                )
                .reported("2.4"),
            ]);
        }
        if let Some(results) = &self.sizes {
            let all = mean(&others(results, JCT), "all sizes and policies");
            claims.push(
                Claim::new(
                    "6.2",
                    "31 % less, mean over sizes of the cluster",
                    Rule::SomeReaches(less(0.31)),
                    all,
                )
                .reported("1.45"),
            );
        }
        claims.push(
            Claim::new(
                "6.2",
                "4 000 jobs are placed on 10 000 servers within a minute, in seconds",
                Rule::EachBelow(60.0),
                self.placing_s.clone(),
            )
            .reported("54 s; in Python"),
        );
        claims
    }

    fn of_racks(&self) -> Vec<Claim> {
        let Some(results) = &self.racks else { return Vec::new() };
        let averages = |rules: [&str; 2]| {
            let [own, theirs] = rules;
            let first = results.policies.iter().position(|policy| *policy == own);
            let policies: Vec<usize> = (0..results.policies.len())
                .filter(|&at| !results.policies[at].starts_with("netpack"))
                .filter(|&at| results.policies[at].ends_with("racks-first") == (theirs == "first"))
                .collect();
            let Some(first) = first else { return Vec::new() };
            let netpack = results.gains(first, JCT);
            let gains: Vec<Sample> = policies
                .iter()
                .flat_map(|&policy| {
                    results
                        .gains(policy, JCT)
                        .into_iter()
                        .zip(&netpack)
                        .map(|(one, own)| Sample { values: divided(&one, own), ..one })
                })
                .collect();
            gains
        };
        let cases = || {
            [
                ("racks first only in NetPack", ["netpack", "any"]),
                ("racks first in all", ["netpack", "first"]),
                ("racks first in none", ["netpack:any-racks", "any"]),
            ]
        };
        let of_ratio = |ratio: &str, samples: &[Sample]| mean(&those(samples, ratio), ratio);
        let isolation = |of: &dyn Fn(&[Sample]) -> Vec<Sample>| {
            let cases =
                cases().into_iter().map(|(name, rules)| (name.to_owned(), of(&averages(rules))));
            Some(Isolation {
                on: "which policies try a single rack first (netpack-12)",
                cases: cases.collect(),
            })
        };
        let usual = averages(["netpack", "any"]);
        let [even, steep] = ["1:1", "20:1"].map(|ratio| of_ratio(ratio, &usual));
        vec![
            Claim::new(
                "6.3",
                "1:1: 52 % less, mean over the policies",
                Rule::SomeReaches(less(0.52)),
                even.clone(),
            )
            .reported("2.08"),
            Claim::new(
                "6.3",
                "20:1: 89 % less, mean over the policies",
                Rule::SomeReaches(less(0.89)),
                steep.clone(),
            )
            .reported("9.09")
            .isolated([isolation(&|samples| of_ratio("20:1", samples))], &["netpack-12"]),
            Claim::new(
                "6.3",
                "20:1: NetPack's jobs complete sooner than with any other policy",
                Rule::EachAbove(1.0),
                those(&usual, "20:1"),
            )
            .isolated([isolation(&|samples| those(samples, "20:1"))], &["netpack-12"]),
            Claim::new(
                "6.3",
                "the advantage grows with oversubscription: mean over the policies, 20:1 over 1:1",
                Rule::EachAbove(1.0),
                over(&steep, &even),
            )
            .isolated(
                [isolation(&|samples| over(&of_ratio("20:1", samples), &of_ratio("1:1", samples)))],
                &["netpack-12"],
            ),
        ]
    }

    fn of_estimates(&self) -> Vec<Claim> {
        let samples = |all: &[Deviation]| all.iter().map(Sample::from).collect();
        vec![
            Claim::new(
                "6.4",
                "the switch sums the part of a job's packets that the estimate says: apart by less than 0.05 (figure 14)",
                Rule::EachBelow(0.05),
                samples(&self.memory),
            )
            .reported("close"),
            Claim::new(
                "6.4",
                "jobs have the bandwidth of the estimate a millisecond after a change: apart by less than 5 % (figure 15)",
                Rule::EachBelow(0.05),
                samples(&self.bandwidth),
            )
            .reported("approximately"),
        ]
    }

    /// The other policies with the queue of NetPack, and in the order of submission.
    fn by_queue(&self) -> Option<Option<Isolation>> {
        let results = self.parts.as_ref()?;
        let case = |queue: &str| {
            let own = (1..results.policies.len()).filter(|&at| {
                let policy = results.policies[at];
                !policy.starts_with("netpack") && policy.ends_with(queue)
            });
            let samples: Vec<Sample> = own.flat_map(|policy| results.gains(policy, JCT)).collect();
            samples.into_iter().filter(|sample| sample.at.starts_with("simulated")).collect()
        };
        Some(Some(Isolation {
            on: "the queue of the other policies (netpack-parts)",
            cases: vec![
                ("that of NetPack".to_owned(), case(":knapsack")),
                ("the order of submission".to_owned(), case(":fifo")),
            ],
        }))
    }

    /// Which policies may put parameter servers beside workers, on the testbed. (Optimus always does.)
    fn by_servers(&self, point: &str) -> Option<Option<Isolation>> {
        let results = self.parts.as_ref()?;
        let point = results.labels.iter().position(|label| label == point)?;
        let case = |name: &str, rules: &str| {
            let own = results.policies.iter().position(|policy| *policy == name)?;
            let own = results.gains(own, JCT).swap_remove(point);
            let others = (1..results.policies.len())
                .filter(|&at| results.policies[at].ends_with(rules))
                .map(|policy| {
                    let other = results.gains(policy, JCT).swap_remove(point);
                    Sample { values: divided(&other, &own), ..other }
                });
            Some(others.collect())
        };
        let cases = [
            ("beside workers in NetPack only", "netpack", ":knapsack"),
            ("beside workers in all", "netpack", ":knapsack:shared"),
            ("beside workers in none", "netpack:apart", ":knapsack"),
        ];
        let cases = cases
            .into_iter()
            .map(|(shown, name, rules)| Some((shown.to_owned(), case(name, rules)?)));
        Some(Some(Isolation {
            on: "where parameter servers may go (netpack-parts)",
            cases: cases.collect::<Option<_>>()?,
        }))
    }
}

fn turned(sample: Sample) -> Sample {
    let values = sample.values.iter().map(|value| 1.0 / value).collect();
    Sample { values, ..sample }
}

/// One sample over another, by repetition.
fn divided(first: &Sample, second: &Sample) -> Vec<f64> {
    first.values.iter().zip(&second.values).map(|(a, b)| a / b).collect()
}

fn over(first: &[Sample], second: &[Sample]) -> Vec<Sample> {
    let of = |(first, second): (&Sample, &Sample)| Sample {
        at: format!("{} over {}", first.at, second.at),
        values: divided(first, second),
    };
    first.iter().zip(second).map(of).collect()
}

/// The claims about which something was measured.
#[must_use]
pub fn claims(evidence: &Evidence) -> Option<Figure> {
    let all = [
        evidence.of_testbed(),
        evidence.of_simulation(),
        evidence.of_racks(),
        evidence.of_estimates(),
    ];
    let claims: Vec<Claim> =
        all.into_iter().flatten().filter(|claim| !claim.samples.is_empty()).collect();
    let made = |name: &str| match name {
        "netpack-parts" => evidence.parts.is_some(),
        _ => evidence.racks.is_some(),
    };
    let mut figure = verdict::figure(
        "netpack-claims",
        "NetPack: claims and verdicts".to_owned(),
        &claims,
        made,
    )?;
    figure.notes.insert(
        0,
        "Numbers are completion times of the other policy over NetPack's, unless the claim says otherwise: above 1, \
         NetPack is better. “x % less” is 1 / (1 − x)."
            .to_owned(),
    );
    Some(figure)
}
