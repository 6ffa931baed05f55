//! The studies of the paper: its figures 6 to 11, with its numbers.

use std::time::Duration;

use crate::studies::training::{Layer, Machine, Model, Trainee};

use super::measured::Quantity;
use super::series::{
    ALWAYS, ATP, COIN, ESA, Effort, MIXES, Mix, SWITCHML, Series, Value, names, notes, numbers,
    panel,
};
use super::study::{Panel, Published, Ratio, Study, View};

/// Figure 6: training of two models on the testbed.
pub(super) fn training(effort: Effort) -> Study {
    let series = [SWITCHML, ATP, ESA];
    let setup = |speed: u32, _: Series| {
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
        title: effort.title("Figure 6: training two models"),
        series: names(&series),
        ratios: vec![
            Ratio::new(2, 1).published(&[Published::Exactly(1.15), Published::Below(1.01)]),
            Ratio::new(2, 0),
        ],
        columns: vec![Quantity::BySwitch],
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
        view: View::Bars,
        seeds: effort.seeds,
        conclude: None,
    }
}

/// Figure 7: throughput of jobs that only communicate.
pub(super) fn microbenchmark(effort: Effort) -> Study {
    let series = [SWITCHML, ATP, ESA];
    let setup = |jobs: u32, kilobytes: u32, series: Series| {
        let mut setup = effort.setup(MIXES[0], jobs, 4);
        for (number, job) in (0..).zip(&mut setup.jobs) {
            let bytes = u64::from(kilobytes) * 1000;
            let layer = Layer { bytes, forward: Duration::ZERO, backward: Duration::ZERO };
            let model = Model { name: "tensor".into(), layers: vec![layer], partition: bytes };
            let side = number % 2;
            *job = Trainee { model, workers: (4 * side..4 * side + 4).collect(), server: side };
        }
        setup.memory = 1_000_000;
        setup.jitter = Duration::ZERO;
        if series == SWITCHML {
            // §7.1.1: 180 bytes for SwitchML.
            setup.values = 32;
        }
        setup
    };
    let megabyte = if effort.quick { 100 } else { 1000 };
    let size = |size: u32| -> Value<u32> {
        let shown = f64::from(size) / 1e3;
        (size * megabyte / 1000, shown, shown.to_string())
    };
    let sizes: Vec<_> =
        effort.some(&[250, 500, 1000, 2000, 4000, 8000]).into_iter().map(size).collect();
    let jobs = numbers(&effort.some(&[1, 2, 3, 4, 5, 6, 7, 8]));
    let x = "tensor, MB, or jobs";
    Study {
        id: "figure-7",
        title: effort.title("Figure 7: aggregation throughput"),
        series: names(&series),
        ratios: vec![
            Ratio::new(2, 1).published(&[Published::UpTo(1.18); 2]),
            Ratio::new(2, 0).published(&[Published::UpTo(1.39); 2]),
        ],
        columns: vec![Quantity::BySwitch],
        panels: vec![
            panel("four jobs", x, Quantity::Throughput, &series, &sizes, |size, series| {
                setup(4, size, series)
            }),
            panel("tensors of 4 MB", x, Quantity::Throughput, &series, &jobs, |jobs, series| {
                setup(jobs, 4 * megabyte, series)
            }),
        ],
        notes: notes(&[
            "Jobs of four workers send tensors without pauses. Odd and even jobs share four hosts \
             each, and a host of parameter servers (§7.1.3); 1 MB of switch memory; no delays of \
             workers. Packets of SwitchML have 32 values in 184 bytes, 180 in the paper. The \
             paper, on its testbed: up to 1.39 × SwitchML and 1.18 × ATP, more with larger tensors \
             and fewer jobs.",
        ]),
        view: View::Lines,
        seeds: effort.seeds,
        conclude: None,
    }
}

/// Figures 8 and 9: completion times over the number of jobs or workers.
pub(super) fn completion(effort: Effort, workers: bool) -> Study {
    let series = [SWITCHML, ATP, ESA];
    let values = numbers(&effort.some(&[2, 4, 6, 8]));
    let of = |mix: Mix| {
        let x = if workers { "workers of a job" } else { "jobs" };
        let setup = |value, _: Series| match workers {
            true => effort.setup(mix, 8, value),
            false => effort.setup(mix, value, 8),
        };
        panel(mix.0, x, Quantity::Jct, &series, &values, setup)
    };
    let ratios = [Ratio::new(2, 1), Ratio::new(2, 0)];
    let (id, title, note, ratios) = if workers {
        (
            "figure-9",
            "Figure 9: completion time over workers",
            "Eight jobs. The paper: ESA is best in all cases, and gains more over ATP with more \
             workers; it has no numbers here.",
            ratios,
        )
    } else {
        let [atp, switchml] = ratios;
        (
            "figure-8",
            "Figure 8: completion time over jobs",
            "Jobs of eight workers. The paper: ESA is up to 1.35 × as fast as ATP and 1.89 × as \
             fast as SwitchML, and gains more with more jobs.",
            [
                atp.published(&[Published::UpTo(1.35); 3]),
                switchml.published(&[Published::UpTo(1.89); 3]),
            ],
        )
    };
    Study {
        id,
        title: effort.title(title),
        series: names(&series),
        ratios: ratios.to_vec(),
        columns: vec![Quantity::BySwitch],
        panels: MIXES.map(of).to_vec(),
        notes: notes(&[note]),
        view: View::Lines,
        seeds: effort.seeds,
        conclude: None,
    }
}

/// Figure 10: utilisation of the switch's memory.
pub(super) fn utilisation(effort: Effort) -> Study {
    let series = [SWITCHML, ATP, ESA];
    let of = |mix: Mix| {
        let setup = |_, _: Series| effort.setup(mix, 8, 8);
        panel(mix.0, "jobs", Quantity::Utilisation, &series, &numbers(&[8]), setup)
    };
    Study {
        id: "figure-10",
        title: effort.title("Figure 10: utilisation of switch memory"),
        series: names(&series),
        ratios: vec![
            Ratio::new(2, 1).published(&[1.45, 1.28].map(Published::Exactly)),
            Ratio::new(2, 0).published(&[2.27, 1.9].map(Published::Exactly)),
        ],
        columns: vec![Quantity::BySwitch],
        panels: [MIXES[0], MIXES[1]].map(of).to_vec(),
        notes: notes(&[
            "Eight jobs of eight workers. §7.3 defines the utilisation as the aggregation \
             throughput, divided by the rate of the links. The paper: ESA has 2.27 × that of \
             SwitchML and 1.45 × that of ATP with model A, 1.9 × and 1.28 × with model B.",
        ]),
        view: View::Bars,
        seeds: effort.seeds,
        conclude: None,
    }
}

/// Figure 11: rules of preemption.
pub(super) fn priorities(effort: Effort) -> Study {
    let series = [ATP, ESA, ALWAYS, COIN];
    let of = |mix: Mix| {
        let setup = |_, _: Series| effort.setup(mix, 8, 8);
        panel(mix.0, "jobs", Quantity::Jct, &series, &numbers(&[8]), setup)
    };
    let over_atp = |series, numbers: [f64; 2]| {
        Ratio::new(series, 0).published(&numbers.map(Published::Exactly))
    };
    Study {
        id: "figure-11",
        title: effort.title("Figure 11: rules of preemption"),
        series: names(&series),
        ratios: vec![
            over_atp(1, [1.35, 1.22]),
            over_atp(2, [1.19, 1.05]),
            over_atp(3, [1.19, 1.05]),
        ],
        columns: vec![Quantity::BySwitch],
        panels: [MIXES[0], MIXES[2]].map(of).to_vec(),
        notes: notes(&[
            "Eight jobs of eight workers. The paper, over ATP: ESA 1.35 ×, always 1.19 ×, coin \
             1.19 × with model A; 1.22 ×, 1.05 × and 1.05 × with both models.",
        ]),
        view: View::Bars,
        seeds: effort.seeds,
        conclude: None,
    }
}
