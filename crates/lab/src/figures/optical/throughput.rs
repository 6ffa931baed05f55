//! Figure 5: the throughput of training with sums in the switch and at a parameter server, by packets.
//!
//! Two workers train at one switch with the real endpoints and the real P4 program. Without INC, the
//! switch only forwards, and the server sums.

use crate::studies::training::{Error, Machine, Model, Setup, train};
use tributary_base::on_all_cores;
use tributary_cluster::metrics::Spread;
use tributary_model::{Aggregation, Protocol};
use tributary_sim::Cable;

use super::Effort;
use super::evidence::{self, Evidence};
use crate::figures::chart::{Chart, Marks, Scale};
use crate::figures::page::Figure;
use crate::figures::runs::Progress;
use crate::figures::table::{Cell, Table};

/// A model of the figure.
struct Subject {
    name: &'static str,
    /// Milliseconds of both passes for [`BATCH`] images on a GTX 1080 Ti.
    computing: f64,
    /// Throughput with INC over that without in the paper.
    paper: f64,
}

/// Images of a worker in an iteration.
const BATCH: u32 = 32;

/// Times are twice those for 16 images that `github.com/jcjohnson/cnn-benchmarks` gives for a GTX
/// 1080 Ti with cuDNN 5.1. It has no VGG-11: that of VGG-16 is scaled by operations, 7.61 to 15.47
/// billion.
const SUBJECTS: [Subject; 6] = [
    Subject { name: "ResNet-50", computing: 2.0 * 101.21, paper: 1.56 },
    Subject { name: "ResNet-101", computing: 2.0 * 154.26, paper: 1.83 },
    Subject { name: "ResNet-152", computing: 2.0 * 215.54, paper: 1.65 },
    Subject { name: "VGG-11", computing: 2.0 * 128.14 * 7.61 / 15.47, paper: 3.7 },
    Subject { name: "VGG-16", computing: 2.0 * 128.14, paper: 3.7 },
    Subject { name: "VGG-19", computing: 2.0 * 148.19, paper: 3.8 },
];

/// Bits per second of a link.
const LINK: f64 = 40e9;

/// Values of a packet in a frame of 1500 bytes.
const LARGE: u16 = 350;

/// Who sums, and how.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Way {
    /// The switch.
    Inc,
    /// The server.
    Server,
    /// The server, with packets of [`LARGE`].
    LargePackets,
    /// A server that handles so many bits per second in each direction.
    Slow(u64),
}

/// An experiment.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Point {
    /// Index of the model.
    subject: usize,
    way: Way,
    /// Multiple of the computing time.
    computing: f64,
}

impl Point {
    fn new(subject: usize, way: Way) -> Self {
        Self { subject, way, computing: 1.0 }
    }

    /// Two workers and a server at a switch. All sizes and times are divided by `scale`, which keeps
    /// their ratios.
    fn setup(self, scale: u32, seed: u64) -> Setup {
        let subject = &SUBJECTS[self.subject];
        let named = |operations_per_s| {
            let machine = Machine { operations_per_s, batch: BATCH };
            Model::named(subject.name, machine).expect("in the catalogue")
        };
        let seconds = self.computing * subject.computing / 1e3;
        let model = named(1e12 * named(1e12).computation().as_secs_f64() / seconds);
        let mut setup = Setup::esa(Protocol::P4inc, vec![model.scaled_down(scale)], 2, seed);
        setup.cable = Cable { bandwidth: LINK, ..setup.cable };
        setup.start /= scale;
        setup.jitter /= scale;
        setup.iterations = 2;
        // More than the 145 packets that a round trip holds, so that halved windows fill the link.
        setup.ecn_threshold = 512;
        if self.way != Way::Inc {
            setup.aggregation = Aggregation::Server;
        }
        match self.way {
            Way::Inc | Way::Server => {}
            Way::LargePackets => setup.values = LARGE,
            Way::Slow(rate) => setup.server_rate = Some(rate),
        }
        setup
    }

    /// Seconds of an iteration of the unscaled model.
    fn iteration(self, scale: u32, seed: u64) -> Result<f64, Error> {
        let trained = train(&self.setup(scale, seed))?;
        Ok(trained.jobs[0].jct().as_secs_f64() * f64::from(scale))
    }
}

/// Rates of a server in Gb/s, first that of its link.
const SERVERS: [u64; 6] = [40, 20, 15, 10, 8, 5];

/// A server with one of these rates.
fn at_server(gbps: u64) -> Way {
    if gbps == SERVERS[0] { Way::Server } else { Way::Slow(gbps * 1_000_000_000) }
}

/// Multiples of the computing time.
const MULTIPLES: [f64; 4] = [0.25, 0.5, 0.75, 1.5];

fn points(quick: bool) -> Vec<Point> {
    let subjects = if quick { 0..1 } else { 0..SUBJECTS.len() };
    let of = |subject| {
        let ways = [Way::Inc, Way::LargePackets].map(|way| Point::new(subject, way));
        let servers = SERVERS.map(|rate| Point::new(subject, at_server(rate)));
        let other = MULTIPLES.iter().flat_map(move |&computing| {
            [Way::Inc, Way::Server].map(|way| Point { subject, way, computing })
        });
        ways.into_iter().chain(servers).chain(other)
    };
    subjects.flat_map(of).collect()
}

/// By how much models are scaled down.
fn scale(quick: bool) -> u32 {
    if quick { 1000 } else { 50 }
}

/// Number of experiments.
pub(super) fn size(effort: Effort) -> u64 {
    points(effort.quick).len() as u64 * effort.seeds
}

/// Seconds of an iteration, by point and seed.
struct Measured {
    points: Vec<Point>,
    seconds: Vec<Vec<f64>>,
}

impl Measured {
    fn of(&self, point: Point) -> &[f64] {
        let at = self.points.iter().position(|&it| it == point).expect("all points are measured");
        &self.seconds[at]
    }

    /// Images per second of both workers.
    fn images(&self, point: Point) -> Spread {
        let images = |seconds: &f64| f64::from(2 * BATCH) / seconds;
        Spread::of(&self.of(point).iter().map(images).collect::<Vec<_>>())
    }

    /// Throughput with INC over that of another way, seed by seed.
    fn gains(&self, other: Point) -> Vec<f64> {
        let inc = self.of(Point { way: Way::Inc, ..other });
        self.of(other).iter().zip(inc).map(|(other, inc)| other / inc).collect()
    }

    fn gain(&self, other: Point) -> Spread {
        Spread::of(&self.gains(other))
    }
}

/// Figure 5, and what a slow server and other computing times change.
///
/// # Errors
/// If an experiment fails, which is a bug in this program.
pub(super) fn figures(
    effort: Effort,
    progress: Progress<'_>,
    evidence: &mut Evidence,
) -> Result<Vec<Figure>, Error> {
    let points = points(effort.quick);
    let scale = scale(effort.quick);
    let seeds = effort.seeds as usize;
    let all = on_all_cores(points.len() * seeds, progress, |at| {
        points[at / seeds].iteration(scale, (at % seeds) as u64)
    })?;
    let seconds = all.chunks(seeds).map(<[f64]>::to_vec).collect();
    let measured = Measured { points, seconds };
    let subjects: Vec<usize> = if effort.quick { vec![0] } else { (0..SUBJECTS.len()).collect() };
    for server in SERVERS {
        let gain = |&subject: &usize| evidence::Gain {
            model: SUBJECTS[subject].name,
            server,
            values: measured.gains(Point::new(subject, at_server(server))),
        };
        evidence.throughput.extend(subjects.iter().map(gain));
    }
    Ok(vec![
        main_figure(&measured, &subjects, scale),
        variation(
            &measured,
            &subjects,
            ("figure5-server", "Figure 5 with a slow server", "Gb/s of the server"),
            &SERVERS.map(|rate| (rate as f64, Point::new(0, at_server(rate)))),
            "The server handles so many bits per second in each direction: its processor, its memory \
             or its transport is slower than its link. The switch is as before.",
        ),
        variation(
            &measured,
            &subjects,
            ("figure5-computing", "Figure 5 with other computing times", "multiple of the time"),
            &[0.25, 0.5, 0.75, 1.0, 1.5]
                .map(|computing| (computing, Point { computing, ..Point::new(0, Way::Server) })),
            "Sources for the same card differ by up to a quarter. The server handles 40 Gb/s.",
        ),
    ])
}

/// Milliseconds in which a link of ours carries the gradients of a worker, with headers.
fn communicating(subject: usize) -> f64 {
    let setup = Point::new(subject, Way::Inc).setup(1, 0);
    let wire = setup.packet_bytes() as f64 / (4.0 * f64::from(setup.values));
    setup.jobs[0].model.bytes() as f64 * wire * 8e3 / LINK
}

/// Gains if communication overlaps with all computing, and with none: without INC, the link of the
/// server carries the gradients of both workers.
fn closed_forms(computing: f64, communicating: f64) -> [f64; 2] {
    let with = |times: f64| times * communicating;
    [
        computing.max(with(2.0)) / computing.max(with(1.0)),
        (computing + with(2.0)) / (computing + with(1.0)),
    ]
}

fn main_figure(measured: &Measured, subjects: &[usize], scale: u32) -> Figure {
    let mut table = Table::new([
        "model",
        "computing, ms",
        "communicating, ms",
        "INC, images/s",
        "noINC, images/s",
        "INC / noINC",
        "with all overlap",
        "without overlap",
        "noINC with packets of 1500 bytes",
        "paper: INC / noINC",
    ]);
    for &subject in subjects {
        let Subject { name, computing, paper } = SUBJECTS[subject];
        let point = |way| Point::new(subject, way);
        let [most, least] = closed_forms(computing, communicating(subject));
        table.push(vec![
            Cell::text(name),
            Cell::Number(computing, 0),
            Cell::Number(communicating(subject), 0),
            Cell::Spread(measured.images(point(Way::Inc)), 1),
            Cell::Spread(measured.images(point(Way::Server)), 1),
            Cell::Spread(measured.gain(point(Way::Server)), 3),
            Cell::Number(most, 2),
            Cell::Number(least, 2),
            Cell::Spread(measured.gain(point(Way::LargePackets)), 3),
            Cell::Number(paper, 2),
        ]);
    }
    let groups: Vec<String> = subjects.iter().map(|&at| SUBJECTS[at].name.to_owned()).collect();
    let bars = |name: &str, value: &dyn Fn(usize) -> Spread| {
        (name.to_owned(), subjects.iter().map(|&at| Some(value(at))).collect())
    };
    let throughput = vec![
        bars("INC", &|at| measured.images(Point::new(at, Way::Inc))),
        bars("noINC", &|at| measured.images(Point::new(at, Way::Server))),
    ];
    let gains = vec![
        bars("ours", &|at| measured.gain(Point::new(at, Way::Server))),
        bars("ours, server of 10 Gb/s", &|at| {
            measured.gain(Point::new(at, Way::Slow(10_000_000_000)))
        }),
        bars("paper", &|at| Spread::of(&[SUBJECTS[at].paper])),
    ];
    let chart = |y: &str, bars| Chart {
        title: format!("Figure 5: {y}"),
        y: y.to_owned(),
        marks: Marks::Bars { groups: groups.clone(), bars },
    };
    Figure {
        id: "figure5".to_owned(),
        title: "Figure 5: training throughput".to_owned(),
        notes: vec![
            format!(
                "Two workers with 32 images each and a server at one switch, links of 40 Gb/s, \
                 packets of 62 values. INC: the switch sums. noINC: it forwards, and the server sums. \
                 Sizes and times are divided by {scale}."
            ),
            "Computing times are published ones of a GTX 1080 Ti, twice those for 16 images. \
             Gradients are sent while the backward pass goes on, front layers first, as BytePS does."
                .to_owned(),
        ],
        table,
        charts: vec![chart("images/s", throughput), chart("INC / noINC", gains)],
    }
}

/// The gain of each model for some values of a parameter.
fn variation(
    measured: &Measured,
    subjects: &[usize],
    (id, title, x): (&str, &str, &str),
    values: &[(f64, Point)],
    note: &str,
) -> Figure {
    let mut columns = vec![x.to_owned()];
    columns.extend(subjects.iter().map(|&at| SUBJECTS[at].name.to_owned()));
    let mut table = Table::new(columns);
    let gain = |point: Point, subject| measured.gain(Point { subject, ..point });
    for &(value, point) in values {
        let digits = if value.fract() == 0.0 { 0 } else { 2 };
        let gains = subjects.iter().map(|&subject| Cell::Spread(gain(point, subject), 3));
        table.push(std::iter::once(Cell::Number(value, digits)).chain(gains).collect());
    }
    let mut paper = vec![Cell::text("paper")];
    paper.extend(subjects.iter().map(|&at| Cell::Number(SUBJECTS[at].paper, 2)));
    table.push(paper);
    let line = |&subject: &usize| {
        let points = values.iter().map(|&(x, point)| (x, Some(gain(point, subject)))).collect();
        (SUBJECTS[subject].name.to_owned(), points)
    };
    let marks = Marks::Lines {
        x: x.to_owned(),
        scales: [Scale::Linear; 2],
        lines: subjects.iter().map(line).collect(),
    };
    Figure {
        id: id.to_owned(),
        title: title.to_owned(),
        notes: vec![note.to_owned()],
        table,
        charts: vec![Chart { title: title.to_owned(), y: "INC / noINC".to_owned(), marks }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without computing, the server's link carries twice what a worker's does.
    #[test]
    fn packets_agree_with_the_closed_forms() {
        let seconds = |way, computing| {
            let point = Point { computing, ..Point::new(4, way) };
            point.iteration(200, 1).unwrap()
        };
        let carried = communicating(4) / 1e3;
        let [inc, server] = [Way::Inc, Way::Server].map(|way| seconds(way, 1e-3));
        assert!((1.0..1.05).contains(&(inc / carried)), "{inc} {carried}");
        assert!((1.0..1.05).contains(&(server / (2.0 * carried))), "{server} {carried}");
        // A server of a quarter of the rate takes four times as long.
        let slow = seconds(Way::Slow(10_000_000_000), 1e-3);
        assert!((1.0..1.05).contains(&(slow / (8.0 * carried))), "{slow} {carried}");
        // With much computing, no worker waits for the network.
        let [inc, server] = [Way::Inc, Way::Server].map(|way| seconds(way, 20.0));
        let computing = 20.0 * SUBJECTS[4].computing / 1e3;
        assert!((1.0..1.01).contains(&(inc / computing)), "{inc}");
        assert!((1.0..1.01).contains(&(server / inc)), "{server} {inc}");
    }

    #[test]
    fn closed_forms_are_between_one_and_two() {
        assert_eq!(closed_forms(1.0, 0.0), [1.0, 1.0]);
        assert_eq!(closed_forms(0.0, 1.0), [2.0, 2.0]);
        assert_eq!(closed_forms(3.0, 2.0), [4.0 / 3.0, 7.0 / 5.0]);
    }

    #[test]
    fn the_computing_time_is_that_of_the_source() {
        for (at, subject) in SUBJECTS.iter().enumerate() {
            let model = &Point::new(at, Way::Inc).setup(1, 0).jobs[0].model;
            let milliseconds = model.computation().as_secs_f64() * 1e3;
            assert!((milliseconds - subject.computing).abs() < 0.01, "{milliseconds}");
        }
    }
}
