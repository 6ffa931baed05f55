//! Studies of memory and windows: ESA with our default rules and with the paper's.

use crate::studies::training::Setup;
use tributary_protocol::Addressing;

use super::measured::Quantity;
use super::series::{
    ATP, ESA, Effort, MIXES, Mix, SWITCHML, Series, Value, named, names, notes, panel,
};
use super::study::{Grid, Ratio, Study, View};

/// By how much sizes and times of models are divided.
const SCALE: u32 = 4;

/// Memory for aggregators in KB, and largest windows in packets.
const MEMORY: [u32; 5] = [500, 1_000, 2_500, 5_000, 10_000];
const WINDOWS: [u32; 3] = [256, 1_024, 4_096];

fn megabytes(kilobytes: u32) -> String {
    format!("{} MB", f64::from(kilobytes) / 1e3)
}

/// Jobs of eight workers that train models of a quarter of their size.
pub(super) fn small(effort: Effort, mix: Mix, jobs: u32) -> Setup {
    let mut setup = effort.setup(mix, jobs, 8);
    if !effort.quick {
        for job in &mut setup.jobs {
            job.model = job.model.scaled_down(SCALE);
        }
    }
    setup
}

/// Memory × window for each of these panels: a number of jobs, and their models.
fn grid(
    effort: Effort,
    id: &'static str,
    title: &str,
    panels: &[(u32, Mix)],
    rules: fn(Setup) -> Setup,
    note: &str,
) -> Study {
    let series = [SWITCHML, ATP, ESA];
    let (rows, columns) = (effort.some(&MEMORY), effort.some(&WINDOWS));
    let pairs = rows.iter().flat_map(|&memory| columns.iter().map(move |&slots| (memory, slots)));
    let value = |(at, (memory, slots)): (u32, (u32, u32))| -> Value<(u32, u32)> {
        ((memory, slots), f64::from(at), format!("{}, {slots} packets", megabytes(memory)))
    };
    let values: Vec<_> = (0..).zip(pairs).map(value).collect();
    let of = |&(jobs, mix): &(u32, Mix)| {
        let setup = |(memory, slots): (u32, u32), _: Series| {
            let memory = u64::from(memory) * 1000;
            rules(Setup { memory, slots, ..small(effort, mix, jobs) })
        };
        let name = format!("{jobs} jobs, {}", mix.0);
        panel(&name, "memory and largest window", Quantity::Jct, &series, &values, setup)
    };
    Study {
        id,
        title: effort.title(title),
        series: names(&series),
        ratios: vec![Ratio::new(2, 1), Ratio::new(2, 0)],
        columns: vec![Quantity::BySwitch],
        panels: panels.iter().map(of).collect(),
        notes: notes(&[
            note,
            "Jobs of eight workers; sizes and computing times of models are a quarter of those in figure 8, delays \
             are the same. SwitchML's window is the largest power of two that its partition has room for.",
        ]),
        view: View::Grid(Grid {
            row: "memory",
            rows: rows.iter().map(|&memory| megabytes(memory)).collect(),
            column: "largest window, packets",
            columns: columns.iter().map(u32::to_string).collect(),
            across: 3.min(panels.len()),
        }),
        seeds: effort.seeds,
        conclude: None,
    }
}

/// All protocols with our default rules.
pub(super) fn memory(effort: Effort) -> Study {
    let jobs = effort.some(&[2, 4, 8]);
    let panels: Vec<_> = jobs.iter().flat_map(|&jobs| MIXES.map(|mix| (jobs, mix))).collect();
    grid(
        effort.at_most(3, 1),
        "memory",
        "Memory and windows, with our default rules",
        &panels,
        Setup::with_default_rules,
        "Our default rules go beyond the paper, for all protocols: recovery by RACK, its timeouts, addresses that \
         hardly collide, and for ESA what “memory-parts” lists.",
    )
}

/// The same with the paper's rules.
pub(super) fn memory_paper(effort: Effort) -> Study {
    grid(
        effort.at_most(3, 1),
        "memory-paper",
        "Memory and windows, with the paper's rules",
        &[(8, MIXES[0])],
        |setup| setup,
        "The rules of the other figures.",
    )
}

/// A set of our rules: its name, and how to change the default.
type Rules = (&'static str, fn(&mut Setup));

const PARTS: [Rules; 4] = [
    ("all of our rules", |_| {}),
    ("addresses in arithmetic progression", |setup| setup.addressing = Addressing::Spread),
    ("no polls, no bound on windows", |setup| setup.readings.blind = true),
    ("neither", |setup| {
        setup.addressing = Addressing::Spread;
        setup.readings.blind = true;
    }),
];

/// What ESA has beyond the paper where memory is short, and what each part of it gives.
pub(super) fn memory_parts(effort: Effort) -> Study {
    let effort = effort.at_most(3, 1);
    let series = [ESA];
    let of = |(memory, slots): (u32, u32)| {
        let setup = |change: fn(&mut Setup), _: Series| {
            let mut setup = small(effort, MIXES[0], 8).with_default_rules();
            setup.memory = u64::from(memory) * 1000;
            setup.slots = slots;
            change(&mut setup);
            setup
        };
        let name = format!("{}, {slots} packets", megabytes(memory));
        panel(&name, "rules", Quantity::Jct, &series, &named(&PARTS), setup)
    };
    Study {
        id: "memory-parts",
        title: effort.title("What ESA has beyond the paper for memory"),
        series: names(&series),
        ratios: Vec::new(),
        columns: vec![Quantity::BySwitch, Quantity::ByServer, Quantity::Preempted],
        panels: effort
            .some(&[(500, 1_024), (1_000, 1_024), (5_000, 256), (5_000, 4_096)])
            .into_iter()
            .map(of)
            .collect(),
        notes: notes(&[
            "Eight jobs of eight workers, model A at a quarter of its size. Each job has a place of its own in \
             the pool, as long as all places fit; the agent polls the switches for a task that the server has a part \
             of, from one round trip on at doubling intervals; and workers have at most two round trips of packets in flight.",
        ]),
        view: View::Table,
        seeds: effort.seeds,
        conclude: None,
    }
}
