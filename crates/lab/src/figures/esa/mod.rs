//! The figures of ESA's evaluation (§7), by packets: the real endpoints and the real P4 program in
//! virtual time.
//!
//! A study is a set of experiments that differ in one parameter and in the protocol. Four studies
//! are not in the paper: `halving` gives ATP and ESA the same rule of congestion, `causes` changes one
//! rule or setting of ours at a time, `sweeps` varies what the paper leaves open, and `cores` lets all
//! parts share two cores.

mod describe;
mod measure;
mod measured;
mod store;
mod study;

use std::time::Duration;

use crate::studies::training::{Layer, Machine, Model, Setup, Trainee};
use tributary_model::{Preemption, Protocol};
use tributary_protocol::priority::Code;
use tributary_protocol::rtt::RttConfig;
use tributary_protocol::{Addressing, LaterResults, Readings, Recovery};
use tributary_sim::{Cable, Processing};

pub use measure::Error;
use measured::Quantity;
pub use store::Store;
use study::{Panel, Study};

use crate::figures::page::Figure;
use crate::figures::runs::Progress;

/// A figure of the paper, or another study.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Which {
    /// A figure of the paper: 6 to 11.
    Number(u8),
    /// Whether three later results halve windows, in ATP and in ESA.
    Halving,
    /// What each rule of ours changes.
    Causes,
    /// What the settings change that the paper leaves open.
    Sweeps,
    /// What processor time changes: all parts on two cores.
    Cores,
}

impl Which {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Number(6),
        Self::Number(7),
        Self::Number(8),
        Self::Number(9),
        Self::Number(10),
        Self::Number(11),
        Self::Halving,
        Self::Causes,
        Self::Sweeps,
        Self::Cores,
    ];
}

/// How much to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// Repetitions with other start times and delays.
    pub seeds: u64,
    /// Smaller models and fewer points, as a quick test. The numbers mean little.
    pub quick: bool,
}

/// A protocol with its rule of preemption.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Series(&'static str, Protocol, Preemption);

const SWITCHML: Series = Series("SwitchML", Protocol::SwitchMl, Preemption::Priority);
const ATP: Series = Series("ATP", Protocol::Atp, Preemption::Priority);
const ESA: Series = Series("ESA", Protocol::Esa, Preemption::Priority);
const ALWAYS: Series = Series("always", Protocol::Esa, Preemption::Always);
const COIN: Series = Series("coin", Protocol::Esa, Preemption::Coin);

impl Series {
    /// The experiment with this protocol. What only ESA has is reset for others, so that equal
    /// experiments are run once.
    fn of(self, setup: &Setup) -> Setup {
        let Self(_, protocol, preemption) = self;
        let mut setup = Setup { protocol, preemption, ..setup.clone() };
        if protocol != Protocol::Esa {
            setup.priorities = Code::default();
            setup.shift = false;
            setup.readings.reminders_wait = false;
        }
        let usual = LaterResults::default();
        if setup.readings.later_results.halve(protocol) == usual.halve(protocol) {
            setup.readings.later_results = usual;
        }
        if protocol == Protocol::SwitchMl {
            setup.addressing = Addressing::default();
        }
        setup
    }
}

/// The models of a panel: the name, and the model of each job.
type Mix = (&'static str, fn(u32) -> Model);

const MIXES: [Mix; 3] = [
    ("A", |_| Model::a()),
    ("B", |_| Model::b()),
    ("A and B", |job| if job.is_multiple_of(2) { Model::a() } else { Model::b() }),
];

impl Effort {
    /// The setup of §7.2.1. Sizes and times shrink together in a quick test.
    fn setup(self, mix: Mix, jobs: u32, workers: u32) -> Setup {
        let model = |job| if self.quick { mix.1(job).scaled_down(16) } else { mix.1(job) };
        let mut setup = Setup::esa(Protocol::Esa, (0..jobs).map(model).collect(), workers, 1);
        setup.iterations = 1;
        if self.quick {
            setup.start /= 16;
            setup.jitter /= 16;
        }
        setup
    }

    /// Some values of a parameter; in a quick test the first and the last.
    fn some<T: Clone>(self, values: &[T]) -> Vec<T> {
        match values {
            [first, .., last] if self.quick => vec![first.clone(), last.clone()],
            all => all.to_vec(),
        }
    }
}

/// A panel whose parameter changes the setup.
fn panel<T: Copy>(
    name: &str,
    x: &'static str,
    quantity: Quantity,
    series: &[Series],
    values: &[(T, f64, String)],
    setup: impl Fn(T) -> Setup,
) -> Panel {
    let of = |&(value, ..): &(T, f64, String)| {
        let setup = setup(value);
        series.iter().map(|series| series.of(&setup)).collect()
    };
    Panel {
        name: name.to_owned(),
        x,
        values: values.iter().map(|(_, at, shown)| (*at, shown.clone())).collect(),
        setups: values.iter().map(of).collect(),
        jobs: None,
        quantity,
    }
}

fn numbers(values: &[u32]) -> Vec<(u32, f64, String)> {
    values.iter().map(|&value| (value, f64::from(value), value.to_string())).collect()
}

/// Values by their names.
fn named<T: Copy>(values: &[(&str, T)]) -> Vec<(T, f64, String)> {
    let number = |(at, &(name, value)): (u32, &(&str, T))| (value, f64::from(at), name.to_owned());
    (0..).zip(values).map(number).collect()
}

fn names(series: &[Series]) -> Vec<String> {
    series.iter().map(|series| series.0.to_owned()).collect()
}

fn notes(own: &[&str]) -> Vec<String> {
    let common = "A ratio above 1 means that the first is better. ± is the standard deviation over the seeds.";
    own.iter().copied().chain([common]).map(str::to_owned).collect()
}

/// Figure 6: training of two models on the testbed.
fn training(effort: Effort) -> Study {
    let series = [SWITCHML, ATP, ESA];
    let setup = |speed: u32| {
        let standard = Machine::default();
        let operations_per_s = standard.operations_per_s * f64::from(speed);
        let model = |name: &str| {
            let machine = Machine { operations_per_s, ..standard };
            Model::named(name, machine).expect("in the catalogue").scaled_down(10)
        };
        let mut setup = effort.setup(MIXES[0], 2, 4);
        for (job, name) in setup.jobs.iter_mut().zip(["ResNet-50", "VGG-16"]) {
            job.model = model(name);
        }
        setup.memory = 1_000_000;
        setup.start /= 10;
        setup.jitter /= 10;
        setup
    };
    let values = effort.some(&numbers(&[1, 4, 16]));
    let of = |(job, name): (usize, &str)| Panel {
        jobs: Some(vec![job]),
        ..panel(name, "machine, × V100", Quantity::Jct, &series, &values, setup)
    };
    Study {
        id: "figure-6",
        title: "Figure 6: training two models".to_owned(),
        series: names(&series),
        ratios: vec![(2, 1), (2, 0)],
        panels: [(1, "VGG-16"), (0, "ResNet-50")].map(of).to_vec(),
        notes: notes(&[
            "The paper trains ResNet-50 and VGG-16 on its testbed, with four workers each and 1 MB \
             of switch memory: with VGG-16, ESA reaches an accuracy 1.15 × faster than ATP; with \
             ResNet-50 less than 1.01 ×. Sums are the same in all protocols, bit for bit, so the \
             time to an accuracy is proportional to the time of an iteration, which is shown here.",
            "Computing times follow from the models' operations; the paper gives none, and small \
             images need less. So the speed of the machines is swept. Sizes and times are a tenth, \
             which keeps all ratios but those to the switch's memory and the round-trip time.",
        ]),
        lines: false,
    }
}

/// Figure 7: throughput of jobs that only communicate.
fn microbenchmark(effort: Effort) -> Study {
    let series = [SWITCHML, ATP, ESA];
    let setup = |jobs: u32, kilobytes: u32| {
        let mut setup = effort.setup(MIXES[0], jobs, 4);
        for (number, job) in (0..).zip(&mut setup.jobs) {
            let bytes = u64::from(kilobytes) * 1000;
            let layer = Layer { bytes, forward: Duration::ZERO, backward: Duration::ZERO };
            let model = Model { name: "tensor".into(), layers: vec![layer], partition: bytes };
            let side = number % 2;
            *job = Trainee { model, workers: (4 * side..4 * side + 4).collect(), server: side };
        }
        setup.memory = 1_000_000;
        setup.iterations = 4;
        setup.jitter = Duration::ZERO;
        setup
    };
    let with = |setup: Setup, series: Series| {
        let setup = series.of(&setup);
        // §7.1.1: 180 bytes for SwitchML.
        let values = if series == SWITCHML { 32 } else { setup.values };
        Setup { values, ..setup }
    };
    let of = |name: &str, x, values: Vec<(u32, f64, String)>, setup: &dyn Fn(u32) -> Setup| Panel {
        name: name.to_owned(),
        x,
        setups: values
            .iter()
            .map(|&(value, ..)| series.iter().map(|&one| with(setup(value), one)).collect())
            .collect(),
        values: values.into_iter().map(|(_, at, shown)| (at, shown)).collect(),
        jobs: None,
        quantity: Quantity::Throughput,
    };
    let megabyte = if effort.quick { 100 } else { 1000 };
    let sizes: Vec<_> = effort
        .some(&[250, 500, 1000, 2000, 4000, 8000])
        .into_iter()
        .map(|size| {
            (size * megabyte / 1000, f64::from(size) / 1e3, format!("{}", f64::from(size) / 1e3))
        })
        .collect();
    Study {
        id: "figure-7",
        title: "Figure 7: aggregation throughput".to_owned(),
        series: names(&series),
        ratios: vec![(2, 1), (2, 0)],
        panels: vec![
            of("four jobs", "tensor, MB, or jobs", sizes, &|size| setup(4, size)),
            of(
                "tensors of 4 MB",
                "tensor, MB, or jobs",
                numbers(&effort.some(&[1, 2, 3, 4, 5, 6, 7, 8])),
                &|jobs| setup(jobs, 4 * megabyte),
            ),
        ],
        notes: notes(&[
            "Jobs of four workers send tensors without pauses. Odd and even jobs share four hosts \
             each, and a host of parameter servers (§7.1.3); 1 MB of switch memory; no delays of \
             workers. Packets of SwitchML have 32 values in 184 bytes, 180 in the paper. The \
             paper, on its testbed: up to 1.39 × SwitchML and 1.18 × ATP, more with larger tensors \
             and fewer jobs.",
        ]),
        lines: true,
    }
}

/// Figures 8 and 9: completion times over the number of jobs or workers.
fn completion(effort: Effort, workers: bool) -> Study {
    let series = [SWITCHML, ATP, ESA];
    let values = numbers(&effort.some(&[2, 4, 6, 8]));
    let of = |mix: Mix| {
        let x = if workers { "workers of a job" } else { "jobs" };
        let setup = |value| match workers {
            true => effort.setup(mix, 8, value),
            false => effort.setup(mix, value, 8),
        };
        panel(mix.0, x, Quantity::Jct, &series, &values, setup)
    };
    let (id, title, note) = if workers {
        (
            "figure-9",
            "Figure 9: completion time over workers",
            "Eight jobs. The paper: ESA is best in all cases, and gains more over ATP with more \
             workers.",
        )
    } else {
        (
            "figure-8",
            "Figure 8: completion time over jobs",
            "Jobs of eight workers. The paper: ESA is up to 1.35 × as fast as ATP and 1.89 × as \
             fast as SwitchML, and gains more with more jobs.",
        )
    };
    Study {
        id,
        title: title.to_owned(),
        series: names(&series),
        ratios: vec![(2, 1), (2, 0)],
        panels: MIXES.map(of).to_vec(),
        notes: notes(&[note]),
        lines: true,
    }
}

/// Figure 10: utilisation of the switch's memory.
fn utilisation(effort: Effort) -> Study {
    let series = [SWITCHML, ATP, ESA];
    let of = |mix: Mix| {
        let setup = |_| effort.setup(mix, 8, 8);
        panel(mix.0, "jobs", Quantity::Utilisation, &series, &numbers(&[8]), setup)
    };
    Study {
        id: "figure-10",
        title: "Figure 10: utilisation of switch memory".to_owned(),
        series: names(&series),
        ratios: vec![(2, 1), (2, 0)],
        panels: [MIXES[0], MIXES[1]].map(of).to_vec(),
        notes: notes(&[
            "Eight jobs of eight workers. §7.3 defines the utilisation as the aggregation \
             throughput, divided by the rate of the links. The paper: ESA has 2.27 × that of \
             SwitchML and 1.45 × that of ATP with model A, 1.9 × and 1.28 × with model B.",
        ]),
        lines: false,
    }
}

/// Figure 11: rules of preemption.
fn priorities(effort: Effort) -> Study {
    let series = [ATP, ESA, ALWAYS, COIN];
    let of = |mix: Mix| {
        let setup = |_| effort.setup(mix, 8, 8);
        panel(mix.0, "jobs", Quantity::Jct, &series, &numbers(&[8]), setup)
    };
    Study {
        id: "figure-11",
        title: "Figure 11: rules of preemption".to_owned(),
        series: names(&series),
        ratios: vec![(1, 0), (2, 0), (3, 0)],
        panels: [MIXES[0], MIXES[2]].map(of).to_vec(),
        notes: notes(&[
            "Eight jobs of eight workers. The paper, over ATP: ESA 1.35 ×, always 1.19 ×, coin \
             1.19 × with model A; 1.22 ×, 1.05 × and 1.05 × with both models.",
        ]),
        lines: false,
    }
}

/// Three later results halve the windows in both protocols, in neither, or in ATP only.
fn halving(effort: Effort) -> Study {
    let series = [ATP, ESA, ALWAYS];
    let rules = [
        ("both", LaterResults::Halve),
        ("neither", LaterResults::Ignore),
        ("ATP (as in the figures)", LaterResults::ByProtocol),
    ];
    let values = named(&rules);
    let of = |mix: Mix| {
        let setup = |rule| {
            let mut setup = effort.setup(mix, 8, 8);
            setup.readings.later_results = rule;
            setup
        };
        panel(mix.0, "windows are halved in", Quantity::Jct, &series, &values, setup)
    };
    Study {
        id: "halving",
        title: "Whether three later results halve windows".to_owned(),
        series: names(&series),
        ratios: vec![(1, 0), (2, 0)],
        panels: MIXES.map(of).to_vec(),
        notes: notes(&[
            "Eight jobs of eight workers. Three results of later packets make a worker recover the packet \
             in both protocols. By ATP's rules they also halve its window, as a lost packet does; the rows \
             apply this to both, to neither, or to ATP only. ESA uses \
             ATP's window and congestion control (§5.1), but its switches send results themselves, \
             which overtake those of the parameter server without any loss.",
        ]),
        lines: false,
    }
}

/// A change of one rule or setting.
type Change = (&'static str, fn(&mut Setup));

/// One change each, and the state before all of them.
const CHANGES: [Change; 11] = [
    ("as in the figures", |_| {}),
    ("1 a shift lowers the logarithmic code", |setup| setup.shift = true),
    ("1 linear code, which a shift lowers", |setup| {
        setup.priorities = Code::Linear { unit: 16.0 };
        setup.shift = true;
    }),
    ("2 three later results halve ESA's window", |setup| {
        setup.readings.later_results = LaterResults::Halve;
    }),
    ("3 initial timeout of 20 ms", |setup| setup.timeouts.initial = Duration::from_millis(20)),
    ("4 reminders wait for the entry's timer", |setup| setup.readings.reminders_wait = true),
    ("5 addresses in arithmetic progression", |setup| setup.addressing = Addressing::Spread),
    ("5 default addresses: ATP's settle", |setup| setup.addressing = Addressing::Default),
    ("1 to 5 together", |setup| {
        setup.shift = true;
        setup.readings =
            Readings { later_results: LaterResults::Halve, reminders_wait: true, blind: false };
        setup.timeouts.initial = Duration::from_millis(20);
        setup.addressing = Addressing::Default;
    }),
    ("recovery of RACK", |setup| setup.recovery = Recovery::Rack),
    ("RACK and default addresses", |setup| {
        setup.recovery = Recovery::Rack;
        setup.addressing = Addressing::Default;
    }),
];

fn causes(effort: Effort) -> Study {
    let series = [ATP, ESA, ALWAYS];
    let values = named(&CHANGES);
    let of = |mix: Mix| {
        let setup = |change: fn(&mut Setup)| {
            let mut setup = effort.setup(mix, 8, 8);
            change(&mut setup);
            setup
        };
        panel(mix.0, "change", Quantity::Jct, &series, &values, setup)
    };
    Study {
        id: "causes",
        title: "What each rule changes".to_owned(),
        series: names(&series),
        ratios: vec![(1, 0)],
        panels: [MIXES[0]].map(of).to_vec(),
        notes: notes(&[
            "Eight jobs of eight workers. Each row changes one rule or setting alone, except where \
             it says otherwise. Numbers are those of the suspected causes in this project's issue \
             17. Changes 1, 2 and 4 do not affect ATP.",
        ]),
        lines: false,
    }
}

fn sweeps(effort: Effort) -> Study {
    let series = [SWITCHML, ATP, ESA, ALWAYS];
    let sweep = |name, x, values: &[u32], set: fn(&mut Setup, u32)| {
        let setup = |value| {
            let mut setup = effort.setup(MIXES[0], 8, 8);
            set(&mut setup, value);
            setup
        };
        panel(name, x, Quantity::Jct, &series, &numbers(&effort.some(values)), setup)
    };
    Study {
        id: "sweeps",
        title: "What the paper leaves open".to_owned(),
        series: names(&series),
        ratios: vec![(2, 1), (2, 0), (2, 3)],
        panels: vec![
            sweep("memory, KB", "value", &[1000, 2500, 5000, 10_000], |setup, kilobytes| {
                setup.memory = u64::from(kilobytes) * 1000;
            }),
            sweep("largest window, packets", "value", &[256, 1024, 4096], |setup, slots| {
                setup.slots = slots;
            }),
            sweep("delays up to, µs", "value", &[0, 300, 1000], |setup, us| {
                setup.jitter = Duration::from_micros(us.into());
            }),
            sweep("base round trip, µs", "value", &[10, 50], |setup, us| {
                setup.cable.latency = Duration::from_nanos(250 * u64::from(us));
            }),
        ],
        notes: notes(&[
            "Eight jobs of eight workers train model A. Each panel varies one setting.",
        ]),
        lines: true,
    }
}

/// All endpoints and the switch as threads that share two cores, as in `tributary-lab bench esa`.
fn cores(effort: Effort) -> Study {
    let series = [ATP, ESA];
    let of = |(recovery, name): (Recovery, &str)| {
        let setup = |nanos: u32| {
            let mut setup = effort.setup(MIXES[0], 4, 2);
            let bytes = if effort.quick { 65_536 } else { 1_048_576 };
            let layer = Layer { bytes, forward: Duration::ZERO, backward: Duration::ZERO };
            for job in &mut setup.jobs {
                job.model = Model { name: "tensor".into(), layers: vec![layer], partition: bytes };
            }
            let host = Duration::from_nanos(nanos.into());
            setup.processing = Some(Processing::like_linux(2, host, host / 2));
            setup.cable = Cable::default();
            setup.values = 64;
            setup.memory = 256 * (4 * 64 + 20);
            setup.slots = 256;
            setup.window = 234;
            setup.iterations = 3;
            setup.timeouts = RttConfig::default();
            setup.recovery = recovery;
            setup.addressing = Addressing::Default;
            setup
        };
        let values: Vec<_> = effort
            .some(&[0, 100, 500, 1000])
            .into_iter()
            .map(|nanos| (nanos, f64::from(nanos) / 1e3, format!("{}", f64::from(nanos) / 1e3)))
            .collect();
        let x = "µs of a core for a frame at a host";
        panel(name, x, Quantity::Throughput, &series, &values, setup)
    };
    Study {
        id: "cores",
        title: "Two cores for everything".to_owned(),
        series: names(&series),
        ratios: vec![(1, 0)],
        panels: vec![
            of((Recovery::Rack, "recovery of RACK")),
            of((Recovery::Papers, "the papers' recovery")),
        ],
        notes: vec![
            "Four jobs of two workers send tensors of 1 MB; 256 aggregators for all, links of 10 \
             Gb/s, packets of 64 values: the setting of `tributary-lab bench esa`, where all endpoints \
             and the switch are threads on two cores. Each frame that a host receives or sends \
             takes a core for this time, and half of it at the switch."
                .to_owned(),
        ],
        lines: true,
    }
}

/// Makes figures. `progress` counts megabytes of gradients.
///
/// # Errors
/// If an experiment fails, or a result cannot be kept.
pub fn figures(
    which: &[Which],
    effort: Effort,
    store: &mut Store,
    progress: Progress<'_>,
) -> Result<Vec<Figure>, Error> {
    let study = |which: &Which| match which {
        Which::Number(6) => training(effort),
        Which::Number(7) => microbenchmark(effort),
        Which::Number(8) => completion(effort, false),
        Which::Number(9) => completion(effort, true),
        Which::Number(10) => utilisation(effort),
        Which::Number(_) => priorities(effort),
        Which::Halving => halving(effort),
        Which::Causes => causes(effort),
        Which::Sweeps => sweeps(effort),
        Which::Cores => cores(effort),
    };
    let mut studies: Vec<Study> = which.iter().map(study).collect();
    if effort.quick {
        for study in &mut studies {
            study.title = format!("QUICK TEST, its numbers mean little: {}", study.title);
            study.notes.insert(
                0,
                "A quick test: models, delays and points are reduced, which can reverse the order of protocols."
                    .to_owned(),
            );
        }
    }
    study::run(&studies, effort.seeds, store, progress)
}
