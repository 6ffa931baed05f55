//! Studies of settings: those that the paper leaves open, and processor time.

use std::time::Duration;

use crate::studies::training::{Layer, Model, Setup};
use tributary_protocol::rtt::RttConfig;
use tributary_protocol::{Addressing, Recovery};
use tributary_sim::{Cable, Processing};

use super::measured::Quantity;
use super::series::{
    ALWAYS, ATP, ESA, Effort, MIXES, SWITCHML, Series, Value, names, notes, numbers, panel,
};
use super::study::{Ratio, Study, View};

/// What the settings change that the paper leaves open.
pub(super) fn sweeps(effort: Effort) -> Study {
    let effort = effort.at_most(3, 2);
    let series = [SWITCHML, ATP, ESA, ALWAYS];
    let sweep = |name, x, values: &[u32], set: fn(&mut Setup, u32)| {
        let setup = |value, _: Series| {
            let mut setup = effort.setup(MIXES[0], 8, 8);
            set(&mut setup, value);
            setup
        };
        panel(name, x, Quantity::Jct, &series, &numbers(&effort.some(values)), setup)
    };
    Study {
        id: "sweeps",
        title: effort.title("What the paper leaves open"),
        series: names(&series),
        ratios: vec![Ratio::new(2, 1), Ratio::new(2, 0), Ratio::new(2, 3)],
        columns: vec![Quantity::BySwitch],
        panels: vec![
            sweep("delays up to, µs", "value", &[0, 300, 1000], |setup, us| {
                setup.jitter = Duration::from_micros(us.into());
            }),
            sweep("base round trip, µs", "value", &[10, 50], |setup, us| {
                setup.cable.latency = Duration::from_nanos(250 * u64::from(us));
            }),
        ],
        notes: notes(&[
            "Eight jobs of eight workers train model A. Each panel varies one setting, with fewer seeds and \
             iterations than in the figures.",
        ]),
        view: View::Lines,
        seeds: effort.seeds,
        conclude: None,
    }
}

/// All endpoints and the switch as threads that share two cores, as in `tributary-lab bench esa`.
pub(super) fn cores(effort: Effort) -> Study {
    let effort = effort.at_most(2, 3);
    let series = [ATP, ESA];
    let of = |(recovery, name): (Recovery, &str)| {
        let setup = |nanos: u32, _: Series| {
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
            setup.timeouts = RttConfig::default();
            setup.recovery = recovery;
            setup.addressing = Addressing::Default;
            setup
        };
        let value = |nanos: u32| -> Value<u32> {
            let micros = f64::from(nanos) / 1e3;
            (nanos, micros, micros.to_string())
        };
        let values: Vec<_> = effort.some(&[0, 100, 500, 1000]).into_iter().map(value).collect();
        let x = "µs of a core for a frame at a host";
        panel(name, x, Quantity::Throughput, &series, &values, setup)
    };
    Study {
        id: "cores",
        title: effort.title("Two cores for everything"),
        series: names(&series),
        ratios: vec![Ratio::new(1, 0)],
        columns: vec![Quantity::BySwitch],
        panels: vec![
            of((Recovery::Rack, "recovery of RACK")),
            of((Recovery::Papers, "the papers' recovery")),
        ],
        notes: notes(&[
            "Four jobs of two workers send tensors of 1 MB; 256 aggregators for all, links of 10 \
             Gb/s, packets of 64 values: the setting of `tributary-lab bench esa`, where all endpoints \
             and the switch are threads on two cores. Each frame that a host receives or sends \
             takes a core for this time, and half of it at the switch.",
        ]),
        view: View::Lines,
        seeds: effort.seeds,
        conclude: None,
    }
}
