//! The claims of P4INC-AOI's evaluation (§VII), with verdicts computed from the figures.

use tributary_optical::Run;

use super::evidence::{
    Evidence, Exact, Measured, Queue, Testbed, change, of_circuits, pairs, ratios,
};
use crate::figures::page::Figure;
use crate::figures::table::{Cell, Table};
use crate::figures::verdict::{self, Claim, Isolation, Rule, Sample};

/// A ratio that §VII.C states.
pub(super) struct Ratio {
    pub(super) one: &'static str,
    pub(super) other: &'static str,
    /// New circuits; otherwise CT-BTI.
    pub(super) circuits: bool,
    /// The paper's, in percent less.
    pub(super) less: f64,
    statement: &'static str,
}

/// The ratios of the four comparisons of figure 8.
pub(super) const RATIOS: [Ratio; 6] = [
    Ratio {
        one: "INC-FCFS",
        other: "noINC-FCFS",
        circuits: true,
        less: 55.4,
        statement: "INC-FCFS sets up 55.4 % fewer circuits than noINC-FCFS",
    },
    Ratio {
        one: "INC-TW",
        other: "noINC-TW",
        circuits: true,
        less: 50.3,
        statement: "INC-TW sets up 50.3 % fewer circuits than noINC-TW",
    },
    Ratio {
        one: "noINC-TW",
        other: "noINC-FCFS",
        circuits: true,
        less: 92.8,
        statement: "noINC-TW sets up 92.8 % fewer circuits than noINC-FCFS",
    },
    Ratio {
        one: "INC-TW",
        other: "INC-FCFS",
        circuits: true,
        less: 91.7,
        statement: "INC-TW sets up 91.7 % fewer circuits than INC-FCFS",
    },
    Ratio {
        one: "noINC-TW",
        other: "noINC-FCFS",
        circuits: false,
        less: 86.8,
        statement: "noINC-TW's CT-BTI is 86.8 % less than noINC-FCFS's",
    },
    Ratio {
        one: "INC-TW",
        other: "INC-FCFS",
        circuits: false,
        less: 85.6,
        statement: "INC-TW's CT-BTI is 85.6 % less than INC-FCFS's",
    },
];

/// Those of figure 9. The paper compares INC-TW, which is the same as noINC-TW for shuffles.
const SHUFFLES: [Ratio; 2] = [
    Ratio {
        one: "noINC-TW",
        other: "noINC-FCFS",
        circuits: true,
        less: 89.5,
        statement: "shuffles: TW sets up 89.5 % fewer circuits than noINC-FCFS",
    },
    Ratio {
        one: "noINC-TW",
        other: "noINC-FCFS",
        circuits: false,
        less: 72.6,
        statement: "shuffles: TW's CT-BTI is 72.6 % less than noINC-FCFS's",
    },
];

impl Ratio {
    /// At least the paper's reduction.
    pub(super) fn rule(&self) -> Rule {
        Rule::EachBelow(at_most(self.less))
    }

    /// The samples of a study whose schedulers have the paper's names.
    fn samples(&self, study: &Measured) -> Vec<Sample> {
        self.between(study, self.one, self.other)
    }

    /// The same between other schedulers.
    pub(super) fn between(&self, study: &Measured, one: &str, other: &str) -> Vec<Sample> {
        match self.circuits {
            true => study.fewer(one, other),
            false => study.sooner(one, other),
        }
    }

    /// For the head of a column.
    pub(super) fn short(&self) -> String {
        let what = if self.circuits { "circuits" } else { "CT-BTI" };
        format!("{what}, {} / {}", self.one, self.other)
    }
}

/// The greatest ratio of a reduction in percent.
fn at_most(less: f64) -> f64 {
    1.0 - less / 100.0
}

/// For readers.
fn shown(less: f64) -> String {
    format!("{:.3}", at_most(less))
}

fn circuits(run: &Run) -> f64 {
    f64::from(run.reconfigurations)
}

fn ct_bti(run: &Run) -> f64 {
    run.ct_bti
}

/// A number of circuits below which there are none more.
const NONE_MORE: Rule = Rule::EachBelow(0.5);

const FOUR: [&str; 4] = ["noINC-FCFS", "noINC-TW", "INC-FCFS", "INC-TW"];

const ON_NETWORK: &str = "how loaded the network is (table1-24, table1-8)";
const ON_ARRIVALS: &str = "when jobs arrive (batch)";
const ON_TAKE: &str = "what a job may take (take)";
const ON_PLACES: &str = "where shuffles are (packed)";
const ON_SERVER: &str = "the rate of the server (figure5-server)";
const ON_REGIME: &str = "the regime (search)";
const ON_TESTBED: &str = "the regime (testbed-search)";

impl Evidence {
    fn of_table1(&self) -> Vec<Claim> {
        let samples = |most: f64, value: &dyn Fn(&Exact, &_) -> Option<f64>| {
            let of = |set_up: &Exact| set_up.samples(most, value);
            let base = self.table1.first().map(of).unwrap_or_default();
            let cases = self.table1.iter().map(|it| (it.name.to_owned(), of(it))).collect();
            (base, [Some(Isolation { on: ON_NETWORK, cases })])
        };
        let over = |set_up: &Exact, instance: &_, one, other| {
            let end = |name| set_up.run(instance, name).map(ct_bti);
            Some(end(one)? / end(other)?)
        };
        let (gaps, gaps_by) = samples(60.0, &|set_up, instance| {
            Some(1.0 + instance.above(set_up.run(instance, "INC-TW")?.ct_bti))
        });
        let (later, later_by) =
            samples(100.0, &|set_up, instance| over(set_up, instance, "INC-FCFS", "INC-TW"));
        let (fixed, fixed_by) =
            samples(100.0, &|set_up, instance| over(set_up, instance, "INC-TW-NoRecon", "INC-TW"));
        let (more, more_by) = samples(100.0, &|set_up, instance| {
            let count = |name| set_up.run(instance, name).map(circuits);
            Some(count("INC-TW")? - count("INC-FCFS")?)
        });
        let (proof, _) = samples(60.0, &|_, instance| Some(instance.seconds));
        let proof = proof.into_iter().filter(|sample| sample.at == "60 jobs").collect();
        let names: &[&str] = &["table1-24", "table1-8"];
        vec![
            Claim::new(
                "table I",
                "INC-TW's CT-BTI is at most 1.206 times the optimum, with 40 to 60 jobs",
                Rule::EachBelow(4.1 / 3.4 + 1e-3),
                gaps,
            )
            .reported("1.19 to 1.21")
            .isolated(gaps_by, names),
            Claim::new(
                "table I",
                "INC-FCFS's CT-BTI is above INC-TW's: over INC-TW's",
                Rule::EachAbove(1.0),
                later,
            )
            .reported("1.19 to 1.51")
            .isolated(later_by, names),
            Claim::new(
                "table I",
                "circuits that never change cost INC-TW at least 9.6 %",
                Rule::EachAbove(1.096),
                fixed,
            )
            .reported("1.10 to 1.24")
            .isolated(fixed_by, names),
            Claim::new(
                "table I",
                "INC-TW sets up no more circuits than INC-FCFS: the difference",
                NONE_MORE,
                more,
            )
            .reported("−6 to 0")
            .isolated(more_by, names),
            Claim::new(
                "table I",
                "the exact model takes minutes for 60 jobs: seconds",
                Rule::EachAbove(60.0),
                proof,
            )
            .reported("357.5"),
        ]
    }

    fn of_throughput(&self) -> Vec<Claim> {
        let gains = |models: &str, server: u64| -> Vec<Sample> {
            let those = self.throughput.iter();
            let those = those.filter(|it| it.server == server && it.model.starts_with(models));
            those.map(|it| Sample { at: it.model.to_owned(), values: it.values.clone() }).collect()
        };
        let by_server = |models: &str| {
            let mut rates: Vec<u64> = self.throughput.iter().map(|gain| gain.server).collect();
            rates.sort_unstable_by_key(|rate| std::cmp::Reverse(*rate));
            rates.dedup();
            let case = |&rate: &u64| (format!("{rate} Gb/s"), gains(models, rate));
            [Some(Isolation { on: ON_SERVER, cases: rates.iter().map(case).collect() })]
        };
        let (resnet, vgg) = (gains("ResNet", LINK), gains("VGG", LINK));
        let least = |samples: &[Sample], seed: usize, greatest: bool| {
            let values = samples.iter().map(|sample| sample.values[seed]);
            values.fold(if greatest { 0.0 } else { f64::INFINITY }, |known, value| {
                if greatest { known.max(value) } else { known.min(value) }
            })
        };
        let seeds = resnet.first().map_or(0, |sample| sample.values.len());
        let more = |seed| least(&vgg, seed, false) / least(&resnet, seed, true);
        let more = Sample { at: "least of VGG".to_owned(), values: (0..seeds).map(more).collect() };
        let more = if vgg.is_empty() { Vec::new() } else { vec![more] };
        let names: &[&str] = &["figure5-server"];
        vec![
            Claim::new(
                "fig. 5",
                "ResNet: INC trains at least 1.56 times as fast",
                Rule::EachAbove(1.56),
                resnet,
            )
            .reported("1.56 to 1.83")
            .isolated(by_server("ResNet"), names),
            Claim::new(
                "fig. 5",
                "VGG: INC trains at least 3.7 times as fast",
                Rule::EachAbove(3.7),
                vgg,
            )
            .reported("3.7 to 3.8")
            .isolated(by_server("VGG"), names),
            Claim::new(
                "fig. 5",
                "every VGG gains more than every ResNet: over the greatest gain of ResNet",
                Rule::EachAbove(1.0),
                more,
            )
            .reported("2.02"),
        ]
    }

    fn of_testbed(&self) -> Vec<Claim> {
        let Some(testbed) = &self.testbed else { return Vec::new() };
        let fewest = ["noINC-FCFS", "noINC-TW", "INC-FCFS"].into_iter().flat_map(|other| {
            pairs(&testbed.points, "INC-TW", other).map(move |(one, many)| Sample {
                at: format!("{}, {} jobs, {other}", one.group, one.jobs),
                values: one.circuits.iter().zip(&many.circuits).map(|(a, b)| a - b).collect(),
            })
        });
        let total = |pairs: &[(&str, &str)]| vec![testbed.circuits(pairs)];
        let inc = total(&[("INC-FCFS", "noINC-FCFS"), ("INC-TW", "noINC-TW")]);
        let tw = total(&[("noINC-TW", "noINC-FCFS"), ("INC-TW", "INC-FCFS")]);
        let mut claims = vec![
            Claim::new(
                "fig. 6",
                "INC-TW always sets up the fewest circuits: the difference",
                NONE_MORE,
                fewest.collect(),
            ),
            Claim::new(
                "fig. 6",
                "INC sets up 48.8 % fewer circuits on average",
                Rule::EachBelow(at_most(48.8)),
                inc,
            )
            .reported(shown(48.8)),
            Claim::new(
                "fig. 6",
                "TW sets up 47.5 % fewer circuits on average",
                Rule::EachBelow(at_most(47.5)),
                tw,
            )
            .reported(shown(47.5)),
        ];
        let totals = TOTALS.iter().enumerate();
        claims.extend(totals.flat_map(|(at, it)| it.claims(at, testbed, &self.testbeds)));
        claims
    }

    fn of_figure8(&self) -> Vec<Claim> {
        let ratio = |(at, ratio): (usize, &Ratio)| {
            let arrivals = [("figure8", "20 jobs in a second"), ("batch", "all in the first slot")];
            let by_arrivals = self.isolation(ON_ARRIVALS, &arrivals, |it| ratio.samples(it));
            let regimes = self.regimes.iter().map(|(name, all)| (name.clone(), all[at].clone()));
            let regimes: Vec<_> = regimes.collect();
            let by_regime =
                (!regimes.is_empty()).then_some(Isolation { on: ON_REGIME, cases: regimes });
            let samples = self.of("figure8", |study| ratio.samples(study));
            Claim::new("fig. 8", ratio.statement, ratio.rule(), samples)
                .reported(shown(ratio.less))
                .isolated(
                    [by_arrivals, by_regime, self.by_take(ratio)],
                    &["batch", "take", "search"],
                )
        };
        let mut claims: Vec<Claim> = RATIOS.iter().enumerate().map(ratio).collect();
        claims.push(self.all_at_once());
        let others = ["noINC-FCFS", "noINC-TW", "INC-FCFS"];
        claims.extend([
            Claim::new(
                "fig. 8",
                "INC-TW sets up the fewest circuits at every number of jobs: the difference",
                NONE_MORE,
                self.of("figure8", |study| study.more("INC-TW", &others, circuits)),
            )
            .isolated(
                [self.isolation(
                    ON_ARRIVALS,
                    &[("figure8", "20 jobs in a second"), ("batch", "all in the first slot")],
                    |study| study.more("INC-TW", &others, circuits),
                )],
                &["batch"],
            ),
            Claim::new(
                "fig. 8",
                "INC-TW has the shortest CT-BTI at every number of jobs",
                Rule::EachBelow(1.0),
                self.of("figure8", |study| study.each("INC-TW", &others, ct_bti)),
            ),
            Claim::new(
                "fig. 8",
                "noINC-TW ends before INC-FCFS",
                Rule::EachBelow(1.0),
                self.of("figure8", |study| study.each("noINC-TW", &["INC-FCFS"], ct_bti)),
            ),
        ]);
        claims
    }

    /// All six reductions at once.
    fn all_at_once(&self) -> Claim {
        // By seed: how much the worst one misses.
        let worst = |all: &[Vec<Sample>]| -> Vec<Sample> {
            let known: Option<Vec<&Sample>> = all.iter().map(|samples| samples.first()).collect();
            let Some(known) = known else { return Vec::new() };
            let seeds = known.iter().map(|sample| sample.values.len()).min().unwrap_or(0);
            let missed = |seed: usize| {
                let both = RATIOS.iter().zip(&known);
                let missed = both.map(|(it, sample)| sample.values[seed] - at_most(it.less));
                missed.fold(f64::NEG_INFINITY, f64::max)
            };
            vec![Sample { at: "all points".to_owned(), values: (0..seeds).map(missed).collect() }]
        };
        let base = |study: &Measured| {
            worst(&RATIOS.iter().map(|ratio| ratio.samples(study)).collect::<Vec<_>>())
        };
        let cases = self.regimes.iter().map(|(name, all)| (name.clone(), worst(all))).collect();
        let statement = "all six at once: by how much the worst ratio misses";
        Claim::new("fig. 8", statement, Rule::EachBelow(0.0), self.of("figure8", base))
            .isolated([Some(Isolation { on: ON_REGIME, cases })], &["search"])
    }

    /// TW against FCFS where both take the same.
    fn by_take(&self, ratio: &Ratio) -> Option<Isolation> {
        let (tw, fcfs) = (ratio.one, ratio.other);
        if !tw.ends_with("TW") || !fcfs.ends_with("FCFS") {
            return None;
        }
        let study = self.study("take")?;
        let of = |tw: &str, fcfs: &str| ratio.between(study, tw, fcfs);
        let cases = vec![
            ("TW what it needs, FCFS everything".to_owned(), of(tw, fcfs)),
            ("both what they need".to_owned(), of(tw, &format!("{fcfs}, what it needs"))),
            ("both everything".to_owned(), of(&format!("{tw}, all bandwidth"), fcfs)),
        ];
        Some(Isolation { on: ON_TAKE, cases })
    }

    fn of_shuffles(&self) -> Vec<Claim> {
        let places = [("figure9", "racks modulo units"), ("packed", "few units")];
        let claim = |ratio: &Ratio| {
            let samples = |study: &Measured| ratio.samples(study);
            Claim::new("fig. 9", ratio.statement, ratio.rule(), self.of("figure9", samples))
                .reported(shown(ratio.less))
                .isolated([self.isolation(ON_PLACES, &places, samples)], &["packed"])
        };
        SHUFFLES.iter().map(claim).collect()
    }

    fn of_sweeps(&self) -> Vec<Claim> {
        let trend = |id: &str, names: &[&str], ends, value| {
            self.of(id, |study| study.trend(names, ends, value))
        };
        let inc: &[&str] = &["INC-FCFS", "INC-TW"];
        let slower = |kind: &str| -> Vec<Sample> {
            let growth = |name: String| trend("figure12", &[&name], [4.0, 0.25], ct_bti);
            let (tw, fcfs) = (growth(format!("{kind}-TW")), growth(format!("{kind}-FCFS")));
            let both = tw.into_iter().zip(fcfs);
            let sample = |(tw, fcfs): (Sample, Sample)| Sample {
                at: tw.at,
                values: ratios(&tw.values, &fcfs.values),
            };
            both.map(sample).collect()
        };
        let below = |figure, statement, samples| {
            Claim::new(figure, statement, Rule::EachBelow(1.0), samples)
        };
        vec![
            below(
                "fig. 10",
                "more units, fewer circuits with each scheduler: 64 over 16",
                trend("figure10", &FOUR, [64.0, 16.0], circuits),
            ),
            below(
                "fig. 10",
                "more units, shorter CT-BTI with each scheduler: 64 over 16",
                trend("figure10", &FOUR, [64.0, 16.0], ct_bti),
            ),
            below(
                "fig. 10",
                "noINC-TW ends before INC-FCFS, for every number of units",
                self.of("figure10", |study| study.each("noINC-TW", &["INC-FCFS"], ct_bti)),
            ),
            below(
                "fig. 11",
                "more jobs per switch, fewer circuits with INC: 16 over 1",
                trend("figure11", inc, [16.0, 1.0], circuits),
            ),
            below(
                "fig. 11",
                "more jobs per switch, shorter CT-BTI with INC: 16 over 1",
                trend("figure11", inc, [16.0, 1.0], ct_bti),
            ),
            Claim::new(
                "fig. 11",
                "beyond 8 jobs per switch, CT-BTI gets at most 5 % shorter: 16 over 8",
                Rule::EachAbove(0.95),
                trend("figure11", inc, [16.0, 8.0], ct_bti),
            ),
            below(
                "fig. 12",
                "longer slots, fewer circuits with each scheduler: 4 s over 0.25 s",
                trend("figure12", &FOUR, [4.0, 0.25], circuits),
            ),
            Claim::new(
                "fig. 12",
                "longer slots, longer CT-BTI with each scheduler: 4 s over 0.25 s",
                Rule::EachAbove(1.0),
                trend("figure12", &FOUR, [4.0, 0.25], ct_bti),
            ),
            below(
                "fig. 12",
                "longer slots lengthen CT-BTI of TW less than of FCFS",
                [slower("noINC"), slower("INC")].concat(),
            ),
        ]
    }
}

/// Gb/s of a link of the testbed.
const LINK: u64 = 40;

/// A sentence of §VII.B on the total JCT of both models.
pub(super) struct Total {
    pub(super) one: &'static str,
    pub(super) other: &'static str,
    /// ResNet50 and VGG16, in percent less.
    pub(super) less: [f64; 2],
    statements: [&'static str; 2],
    /// The variation that isolates the cause, for VGG16.
    isolated: (&'static str, &'static [&'static str]),
}

pub(super) const TOTALS: [Total; 4] = [
    Total {
        one: "INC-FCFS",
        other: "noINC-FCFS",
        less: [33.57, 43.96],
        statements: [
            "ResNet50: INC-FCFS's total JCT is 33.6 % less than noINC-FCFS's",
            "VGG16: INC-FCFS's total JCT is 44.0 % less than noINC-FCFS's",
        ],
        isolated: ("the time of an update (testbed-update)", &["testbed-update", "testbed-search"]),
    },
    Total {
        one: "INC-TW",
        other: "noINC-TW",
        less: [46.66, 56.34],
        statements: [
            "ResNet50: INC-TW's total JCT is 46.7 % less than noINC-TW's",
            "VGG16: INC-TW's total JCT is 56.3 % less than noINC-TW's",
        ],
        isolated: ("the time of an update (testbed-update)", &["testbed-update", "testbed-search"]),
    },
    Total {
        one: "noINC-TW",
        other: "noINC-FCFS",
        less: [12.34, 12.7],
        statements: [
            "ResNet50: noINC-TW's total JCT is 12.3 % less than noINC-FCFS's",
            "VGG16: noINC-TW's total JCT is 12.7 % less than noINC-FCFS's",
        ],
        isolated: (
            "computing that does not overlap (testbed-computing)",
            &["testbed-computing", "testbed-search"],
        ),
    },
    Total {
        one: "INC-TW",
        other: "INC-FCFS",
        less: [29.62, 32.0],
        statements: [
            "ResNet50: INC-TW's total JCT is 29.6 % less than INC-FCFS's",
            "VGG16: INC-TW's total JCT is 32.0 % less than INC-FCFS's",
        ],
        isolated: (
            "computing that does not overlap (testbed-computing)",
            &["testbed-computing", "testbed-search"],
        ),
    },
];

impl Total {
    /// `at` is its index, and `regimes` are those of the search on the testbed.
    fn claims(
        &self,
        at: usize,
        testbed: &Testbed,
        regimes: &[(String, Vec<Vec<Sample>>)],
    ) -> Vec<Claim> {
        let (on, names) = self.isolated;
        let models = ["ResNet50", "VGG16"].into_iter().enumerate();
        let claim = |(subject, model): (usize, &str)| {
            let samples = testbed.sooner(model, self.one, self.other);
            let varied = testbed.variations.iter().filter(|(id, _)| names.contains(id));
            let cases: Vec<_> = varied
                .flat_map(|(_, queues)| pairs(queues, self.one, self.other))
                .map(|(one, other)| {
                    let values = ratios(&one.jct, &other.jct);
                    let at = one.group.clone();
                    (one.group.clone(), vec![Sample { at, values }])
                })
                .collect();
            let isolation = (!cases.is_empty()).then_some(Isolation { on, cases });
            let of = |all: &[Vec<Sample>]| all[subject * TOTALS.len() + at].clone();
            let cases: Vec<_> = regimes.iter().map(|(name, all)| (name.clone(), of(all))).collect();
            let by_regime = (!cases.is_empty()).then_some(Isolation { on: ON_TESTBED, cases });
            Claim::new(
                "fig. 7",
                self.statements[subject],
                Rule::EachBelow(at_most(self.less[subject])),
                samples,
            )
            .reported(shown(self.less[subject]))
            .isolated([isolation.filter(|_| model == "VGG16"), by_regime], names)
        };
        models.map(claim).collect()
    }
}

impl Testbed {
    /// Total JCT of a model's jobs over that with another scheduler: the mean over the numbers of jobs.
    fn sooner(&self, model: &str, one: &str, other: &str) -> Vec<Sample> {
        let those = pairs(&self.points, one, other).filter(|(queue, _)| queue.group == model);
        let all: Vec<Vec<f64>> = those.map(|(one, other)| ratios(&one.jct, &other.jct)).collect();
        let Some(first) = all.first() else { return Vec::new() };
        let mean = |seed| all.iter().map(|it| it[seed]).sum::<f64>() / all.len() as f64;
        let values = (0..first.len()).map(mean).collect();
        vec![Sample { at: "all numbers of jobs".to_owned(), values }]
    }

    /// New circuits of some schedulers over those of others: all points together, a mean for each point.
    fn circuits(&self, compared: &[(&str, &str)]) -> Sample {
        let all = compared.iter().flat_map(|&(one, other)| pairs(&self.points, one, other));
        let (one, other): (Vec<&Queue>, Vec<&Queue>) = all.unzip();
        let means = |queues: &[&Queue]| -> Vec<f64> {
            let seeds = queues.first().map_or(0, |queue| queue.circuits.len());
            let mean = |seed| {
                queues.iter().map(|queue| queue.circuits[seed]).sum::<f64>() / queues.len() as f64
            };
            (0..seeds).map(mean).collect()
        };
        of_circuits(&means(&one), &means(&other))
    }
}

/// The paper's average changes in a figure beside ours, and the circuits on which they rest.
pub(super) fn changes(study: &Measured, title: &str) -> Option<Figure> {
    let stated: &[Ratio] = match study.id {
        "figure8" | "batch" => &RATIOS,
        "figure9" | "packed" => &SHUFFLES,
        _ => return None,
    };
    let mut table = Table::new([
        "set-up",
        "scheduler",
        "compared with",
        "new circuits, %",
        "the ratio rests on",
        "paper: new circuits, %",
        "CT-BTI, %",
        "paper: CT-BTI, %",
    ]);
    for Ratio { one, other, less, .. } in stated.iter().filter(|ratio| ratio.circuits) {
        let circuits = study.fewer(one, other);
        let same = |it: &&Ratio| !it.circuits && (it.one, it.other) == (*one, *other);
        let shorter = stated.iter().find(same);
        table.push(vec![
            Cell::text(study.id),
            Cell::text(*one),
            Cell::text(*other),
            change(circuits.first()),
            circuits.first().map_or(Cell::None, |sample| Cell::text(&sample.at)),
            Cell::Number(-less, 1),
            change(study.sooner(one, other).first()),
            shorter.map_or(Cell::None, |it| Cell::Number(-it.less, 1)),
        ]);
    }
    Some(Figure {
        id: format!("{}-claims", study.id),
        title: format!("{title}: average changes"),
        notes: vec![NOTE_FEW.to_owned()],
        table,
        charts: Vec::new(),
    })
}

/// What the flag means.
const NOTE_FEW: &str =
    "“Few” marks a ratio of circuits with fewer than 30 on one side of a schedule.";

/// The claims about which something was measured.
pub(super) fn claims(evidence: &Evidence) -> Option<Figure> {
    let all = [
        evidence.of_table1(),
        evidence.of_throughput(),
        evidence.of_testbed(),
        evidence.of_figure8(),
        evidence.of_shuffles(),
        evidence.of_sweeps(),
    ];
    let mut claims: Vec<Claim> = all.into_iter().flatten().collect();
    // Where no seed has circuits on either side, there is nothing to judge.
    claims.iter_mut().for_each(|claim| claim.samples.retain(|it| !it.values.is_empty()));
    claims.retain(|claim| !claim.samples.is_empty());
    let made = |name: &str| match name {
        "table1-24" | "table1-8" => evidence.table1.len() > 1,
        "figure5-server" => !evidence.throughput.is_empty(),
        "search" => !evidence.regimes.is_empty(),
        "testbed-search" => !evidence.testbeds.is_empty(),
        _ if name.starts_with("testbed") => evidence.testbed.is_some(),
        name => evidence.study(name).is_some(),
    };
    let title = "P4INC-AOI: claims and verdicts".to_owned();
    let mut figure = verdict::figure("optical-claims", title, &claims, made)?;
    figure.notes.insert(
        0,
        "Numbers are ratios of the scheduler that is named first over the other, in new circuits, CT-BTI or total JCT, \
         unless the claim says otherwise: x % less is a ratio of at most 1 − x."
            .to_owned(),
    );
    figure.notes.insert(1, NOTE_FEW.to_owned());
    Some(figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A study with one case and two seeds, by scheduler: circuits and CT-BTI.
    fn study(id: &'static str, of: &[(&str, u32, f64)]) -> Measured {
        let run = |(scheduler, seed): (usize, u64)| Run {
            case: 0,
            scheduler,
            seed,
            reconfigurations: of[scheduler].1,
            // Seeds differ a little.
            ct_bti: of[scheduler].2 * (1.0 + 1e-3 * seed as f64),
            slots: 1,
            seconds: 0.0,
        };
        let runs = (0..of.len()).flat_map(|at| [run((at, 0)), run((at, 1))]).collect();
        let schedulers = of.iter().map(|(name, _, _)| (*name).to_owned()).collect();
        Measured { id, xs: vec![800.0], schedulers, runs }
    }

    #[test]
    fn verdicts_follow_from_the_results() {
        let stated = [
            ("noINC-FCFS", 10_000, 58.0),
            ("noINC-TW", 600, 52.0),
            ("INC-FCFS", 120, 53.0),
            ("INC-TW", 9, 52.0),
        ];
        let mut batch = stated;
        batch.iter_mut().filter(|it| it.0.ends_with("TW")).for_each(|it| it.2 = 3.0);
        batch[3].1 = 400;
        let studies = vec![study("figure8", &stated), study("batch", &batch)];
        let figure = claims(&Evidence { studies, ..Evidence::default() }).unwrap();
        let row = |statement: &str| {
            let text = |cell: &Cell| match cell {
                Cell::Text(text) => text.clone(),
                other => format!("{other:?}"),
            };
            let rows = figure.table.rows.iter().map(|row| row.iter().map(text).collect::<Vec<_>>());
            rows.into_iter().find(|row| row[1] == statement).unwrap()
        };
        let fewer = row("INC-TW sets up 91.7 % fewer circuits than INC-FCFS");
        assert_eq!(fewer[3], "depends on when jobs arrive (batch)");
        assert_eq!(fewer[5], "9 against 120 circuits (few)");
        let less = row("INC-FCFS sets up 55.4 % fewer circuits than noINC-FCFS");
        assert_eq!((less[3].as_str(), less[5].as_str()), ("holds", "120 against 10000 circuits"));
        assert_eq!(row("noINC-TW ends before INC-FCFS")[3], "holds");
        assert_eq!(row("all six at once: by how much the worst ratio misses")[3], "fails");
    }
}
