//! Figures 6 and 7: jobs that wait for the servers of the testbed, by the control loop and by packets.
//!
//! The schedulers' own simulation places jobs. The control loop then runs the same jobs at the same
//! GPUs with real endpoints and P4 programs; a job still waits there until the jobs before it have left
//! its GPUs.

use std::fmt::Write as _;
use std::time::Duration;

use tributary_base::on_all_cores;
use tributary_cluster::metrics::Spread;
use tributary_controller::programs::Source;
use tributary_model::jobfile::parse;
use tributary_optical::orchestrator::simulated::run_admitting;
use tributary_optical::{Fcfs, Online, Request, Served, Take, Testbed, Tw};
use tributary_protocol::Tensor;
use tributary_sim::{Options, Program, Run};

use super::claims::{TOTALS, Total};
use super::evidence::{self, Evidence};
use super::{Effort, FigureError};
use crate::figures::chart::{Chart, Marks, Scale};
use crate::figures::page::Figure;
use crate::figures::runs::Progress;
use crate::figures::table::{Cell, Table};

/// Our seconds for one of the testbed, and our bits per second for one of its.
const SCALE: f64 = 0.01;

/// A model of the figures.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Subject {
    pub(super) name: &'static str,
    /// Bits of a worker's gradients.
    pub(super) bits: f64,
    /// Seconds of both passes, as in figure 5.
    pub(super) computing: f64,
}

pub(super) const SUBJECTS: [Subject; 2] = [
    Subject { name: "ResNet50", bits: 102.0 * 8e6, computing: 2.0 * 0.101_21 },
    Subject { name: "VGG16", bits: 528.0 * 8e6, computing: 2.0 * 0.128_14 },
];

type Schedulers = Vec<Box<dyn Online + Send + Sync>>;

fn four() -> Schedulers {
    let mut all: Schedulers = Vec::new();
    for inc in [false, true] {
        all.push(Box::new(Fcfs::new(inc)));
        all.push(Box::new(Tw::new(inc, true)));
    }
    all
}

/// What became of some jobs under one scheduler.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Queued {
    /// Sum over the jobs of the seconds from arrival to end.
    jct: f64,
    /// Circuits that were set up.
    circuits: f64,
    /// Seconds until the last job ended.
    last: f64,
}

impl Queued {
    fn new(requests: &[Request], ends: &[f64], circuits: f64) -> Self {
        let jct = requests.iter().zip(ends).map(|(request, end)| end - request.arrival).sum();
        Self { jct, circuits, last: ends.iter().copied().fold(0.0, f64::max) }
    }
}

/// By the schedulers' own simulation. Also returns where jobs were.
fn by_slots(
    testbed: &Testbed,
    requests: &[Request],
    scheduler: &dyn Online,
) -> Result<(Queued, Vec<Served>), FigureError> {
    let trained = testbed.train(requests, scheduler)?;
    let ends: Vec<f64> = trained.jobs.iter().map(|job| job.end).collect();
    let queued = Queued::new(requests, &ends, f64::from(trained.reconfigurations));
    Ok((queued, trained.jobs))
}

fn scenario(testbed: &Testbed, requests: &[Request], placed: &[Served], scheduler: &str) -> String {
    let rate = |bits: f64| (bits * SCALE).round() as u64;
    let micros = |seconds: f64| (seconds * SCALE * 1e6).round() as u64;
    let mut file = format!(
        "[switch]\npool = {}\n[protocol]\nkind = \"p4inc\"\nslots = 64\nwindow = 64\n\
         [topology]\nunits = {}\nhosts_per_unit = {}\noptical_ports = {}\nreconfiguration = \"{}us\"\n\
         [orchestrator]\nslot = \"{}us\"\nport_rate = \"{}b/s\"\nswitch_rate = \"{}b/s\"\n\
         step = \"{}b/s\"\ninc = {}\nscheduler = \"{scheduler}\"\niteration_timeout = \"600s\"\n",
        64 * requests.len(),
        testbed.gpu_racks + testbed.cpu_racks,
        testbed.gpus,
        testbed.ports,
        micros(testbed.reconfiguration),
        micros(testbed.slot),
        rate(testbed.port_rate),
        rate(testbed.bandwidth),
        rate(10e9),
        testbed.inc,
    );
    for (request, served) in requests.iter().zip(placed) {
        let workers: Vec<_> = served.gpus.iter().map(|gpu| format!("\"w{}\"", gpu + 1)).collect();
        let _ = writeln!(
            file,
            "[[job]]\nworkers = [{}]\nps = \"ps{}\"\nsegment = 64\naggregation = \"server\"",
            workers.join(", "),
            request.server.0 + 1
        );
    }
    file
}

/// By the control loop, with packets.
fn by_packets(
    testbed: &Testbed,
    requests: &[Request],
    placed: &[Served],
    scheduler: &str,
) -> Result<Queued, FigureError> {
    let wrong = |what: &dyn std::fmt::Display| FigureError::Loop(what.to_string());
    let scenario = parse(&scenario(testbed, requests, placed, scheduler), "testbed.toml");
    let scenario = scenario.map_err(|error| wrong(&error))?;
    let source = Source::built_in("p4inc").map_err(|error| wrong(&error))?;
    let program =
        Program::compile(&source, &scenario.network.switch).map_err(|error| wrong(&error))?;
    let values = (testbed.bits * SCALE * SCALE / 32.0).round() as usize;
    let tensor = |value| Tensor::I32(vec![value; values].into());
    let inputs = scenario.jobs.iter().map(|job| {
        let workers = 1..=job.workers.len() as i32;
        workers.map(|value| vec![tensor(value); testbed.iterations as usize]).collect()
    });
    // The jobs before on the GPUs of each job.
    let before: Vec<Vec<usize>> = (0..placed.len())
        .map(|job| {
            let last = |gpu: &usize| (0..job).rev().find(|&it| placed[it].gpus.contains(gpu));
            placed[job].gpus.iter().filter_map(last).collect()
        })
        .collect();
    let admits = |run: &Run<'_>, job: usize| {
        run.elapsed() >= Duration::from_secs_f64(requests[job].arrival * SCALE)
            && before[job].iter().all(|&job| run.finished(job) == run.inputs(job).len())
    };
    let options = Options::seeded(0);
    let ran = run_admitting(&scenario, &program, inputs.collect(), &options, admits, |_| ());
    let (outcome, reports) = ran.map_err(|error| wrong(&error))?;
    if !outcome.complete {
        return Err(wrong(&format!("no progress: {:?}", outcome.stalls)));
    }
    for (job, sums) in outcome.sums.iter().enumerate() {
        let workers = sums.len() as i32;
        let expected = tensor(workers * (workers + 1) / 2);
        if sums.iter().flatten().any(|sum| *sum != expected) {
            return Err(wrong(&format!("job {job} got a wrong sum")));
        }
    }
    let ends: Vec<f64> = outcome.times.iter().map(|time| time.as_secs_f64() / SCALE).collect();
    let circuits: usize = reports.iter().map(|report| report.new_circuits).sum();
    Ok(Queued::new(requests, &ends, circuits as f64))
}

/// A point of the figures.
#[derive(Clone, Copy)]
struct Point {
    subject: Subject,
    jobs: usize,
    /// Index of the scheduler.
    scheduler: usize,
}

/// A value of a parameter in a variation, and the testbed with it.
type Variant = (f64, Testbed);

/// What else changes the figures, by the schedulers alone.
struct Variation {
    id: &'static str,
    title: &'static str,
    x: &'static str,
    variants: Vec<Variant>,
    schedulers: Schedulers,
    note: &'static str,
}

/// What is run.
pub(super) struct SetUp {
    points: Vec<Point>,
    variations: Vec<Variation>,
    /// Iterations of a job, and jobs in variations.
    iterations: u32,
    most: usize,
}

impl SetUp {
    pub(super) fn new(quick: bool) -> Self {
        let counts: &[usize] = if quick { &[4, 8] } else { &[10, 20, 40, 60] };
        let iterations = if quick { 2 } else { 10 };
        let mut points = Vec::new();
        for subject in SUBJECTS {
            for &jobs in counts {
                points.extend((0..4).map(|scheduler| Point { subject, jobs, scheduler }));
            }
        }
        let base = Testbed { iterations, ..Testbed::new(SUBJECTS[1].bits) };
        let vary = |values: &[f64], set: &dyn Fn(&mut Testbed, f64)| -> Vec<Variant> {
            let variant = |&value: &f64| {
                let mut testbed = base.clone();
                set(&mut testbed, value);
                (value, testbed)
            };
            values.iter().map(variant).collect()
        };
        let variation = |id, title, x, variants, note| Variation {
            id,
            title,
            x,
            variants,
            schedulers: four(),
            note,
        };
        let mut by_take = four();
        for inc in [false, true] {
            by_take.push(Box::new(Fcfs { take: Take::Enough, ..Fcfs::new(inc) }));
            by_take.push(Box::new(Tw { inc, reconfigure: true, take: Take::All }));
        }
        let variations = vec![
            Variation {
                schedulers: by_take,
                ..variation(
                    "testbed-take",
                    "Testbed: bandwidth that a job may take",
                    "iterations",
                    vec![(f64::from(iterations), base.clone())],
                    "Each scheduler with both readings: a job takes what ends its transfer in the \
                     slot, or everything that is free.",
                )
            },
            variation(
                "testbed-update",
                "Testbed: time of an update",
                "update, ns per 100 bits of a worker",
                vary(&[0.0, 1.0, 5.0, 10.0], &|testbed, x| testbed.update = x / 100.0 * 1e-9),
                "A server sums after the transfer, 100, 20 or 10 Gb/s of its workers' data. With 0, it \
                 sums while packets arrive, as ours does.",
            ),
            variation(
                "testbed-computing",
                "Testbed: computing that does not overlap",
                "seconds between transfers",
                vary(&[0.0, 0.05, 0.25, 0.5, 1.0], &|testbed, x| testbed.computing = x),
                "The next iteration sends no earlier than so long after the one before.",
            ),
            variation(
                "testbed-iterations",
                "Testbed: iterations of a job",
                "iterations",
                vary(&[1.0, 5.0, 10.0, 20.0, 40.0], &|testbed, x| testbed.iterations = x as u32),
                "The paper does not state them.",
            ),
            variation(
                "testbed-share",
                "Testbed: workers that share a GPU",
                "workers per GPU",
                vary(&[1.0, 2.0, 4.0, 8.0], &|testbed, x| testbed.share = x as u32),
                "With 8, nearly all jobs are in training at once.",
            ),
            variation(
                "testbed-ports",
                "Testbed: optical ports of a rack",
                "ports",
                vary(&[2.0, 3.0, 4.0, 8.0], &|testbed, x| testbed.ports = x as u32),
                "The paper's cross-connect has 32 ports for four racks.",
            ),
        ];
        Self { points, variations, iterations, most: counts[counts.len() - 1] }
    }

    /// Number of runs.
    pub(super) fn size(&self, seeds: u64) -> u64 {
        let variation = |it: &Variation| it.variants.len() * it.schedulers.len();
        let variations: usize = self.variations.iter().map(variation).sum();
        (self.points.len() + variations) as u64 * seeds
    }

    /// The figures.
    ///
    /// # Errors
    /// If a run fails, which is a bug in this program.
    pub(super) fn figures(
        &self,
        effort: Effort,
        progress: Progress<'_>,
        evidence: &mut Evidence,
    ) -> Result<Vec<Figure>, FigureError> {
        let seeds = effort.seeds as usize;
        let schedulers = four();
        let total = self.size(effort.seeds);
        let runs =
            on_all_cores(self.points.len() * seeds, &|done, _| progress(done, total), |at| {
                let Point { subject, jobs, scheduler } = self.points[at / seeds];
                let testbed = Testbed { iterations: self.iterations, ..Testbed::new(subject.bits) };
                let requests = testbed.requests(jobs, (at % seeds) as u64)?;
                let scheduler = &*schedulers[scheduler];
                let (alone, placed) = by_slots(&testbed, &requests, scheduler)?;
                let looped = by_packets(&testbed, &requests, &placed, scheduler.name())?;
                Ok::<_, FigureError>(Both { looped, alone })
            })?;
        let runs: Vec<&[Both]> = runs.chunks(seeds).collect();
        let mut kept = evidence::Testbed { points: self.kept(&runs), variations: Vec::new() };
        let mut figures = vec![self.circuits(&runs), self.total(&runs), self.claims(&runs)];
        let mut done = (self.points.len() * seeds) as u64;
        for variation in &self.variations {
            let cells = variation.variants.len() * variation.schedulers.len();
            let runs = on_all_cores(cells * seeds, &|own, _| progress(done + own, total), |at| {
                let (cell, seed) = (at / seeds, (at % seeds) as u64);
                let testbed = &variation.variants[cell / variation.schedulers.len()].1;
                let scheduler = &*variation.schedulers[cell % variation.schedulers.len()];
                let requests = testbed.requests(self.most, seed)?;
                Ok::<_, FigureError>(by_slots(testbed, &requests, scheduler)?.0)
            })?;
            done += (cells * seeds) as u64;
            figures.push(self.variation(variation, &runs, seeds));
            kept.variations.push((variation.id, self.varied(variation, &runs, seeds)));
        }
        evidence.testbed = Some(kept);
        Ok(figures)
    }

    /// What the claims need of the points.
    fn kept(&self, runs: &[&[Both]]) -> Vec<evidence::Queue> {
        let schedulers = four();
        let kept = |(point, runs): (&Point, &&[Both])| evidence::Queue {
            group: point.subject.name.to_owned(),
            jobs: point.jobs,
            scheduler: schedulers[point.scheduler].name().to_owned(),
            jct: runs.iter().map(|run| run.looped.jct).collect(),
            circuits: runs.iter().map(|run| run.looped.circuits).collect(),
        };
        self.points.iter().zip(runs).map(kept).collect()
    }

    /// What the claims need of a variation.
    fn varied(&self, it: &Variation, runs: &[Queued], seeds: usize) -> Vec<evidence::Queue> {
        let kept = |(cell, runs): (usize, &[Queued])| evidence::Queue {
            group: format!("{} {}", it.variants[cell / it.schedulers.len()].0, it.x),
            jobs: self.most,
            scheduler: it.schedulers[cell % it.schedulers.len()].name().to_owned(),
            jct: runs.iter().map(|run| run.jct).collect(),
            circuits: runs.iter().map(|run| run.circuits).collect(),
        };
        runs.chunks(seeds).enumerate().map(kept).collect()
    }

    fn counts(&self) -> Vec<usize> {
        let mut counts: Vec<usize> = self.points.iter().map(|point| point.jobs).collect();
        counts.sort_unstable();
        counts.dedup();
        counts
    }

    /// The runs of a point.
    fn of<'r>(
        &self,
        runs: &[&'r [Both]],
        subject: Subject,
        jobs: usize,
        scheduler: &str,
    ) -> &'r [Both] {
        let schedulers = four();
        let is_it = |point: &Point| {
            (point.subject, point.jobs) == (subject, jobs)
                && schedulers[point.scheduler].name() == scheduler
        };
        runs[self.points.iter().position(is_it).expect("a point of the figures")]
    }

    fn chart(
        &self,
        title: String,
        y: &str,
        runs: &[&[Both]],
        subject: Subject,
        value: fn(&Queued) -> f64,
    ) -> Chart {
        let schedulers = four();
        let lines = schedulers.iter().map(|scheduler| {
            let name = scheduler.name();
            let of = |jobs| spread(self.of(runs, subject, jobs, name), |run| value(&run.looped));
            let points = self.counts().into_iter().map(|jobs| (jobs as f64, Some(of(jobs))));
            (name.to_owned(), points.collect())
        });
        let lines = lines.collect();
        let marks = Marks::Lines { x: "jobs".to_owned(), scales: [Scale::Linear; 2], lines };
        Chart { title, y: y.to_owned(), marks }
    }

    fn table(
        &self,
        what: &str,
        digits: usize,
        runs: &[&[Both]],
        value: fn(&Queued) -> f64,
    ) -> Table {
        let mut table = Table::new([
            "model".to_owned(),
            "jobs".to_owned(),
            "scheduler".to_owned(),
            format!("{what}, control loop"),
            format!("{what}, schedulers alone"),
            "end of the last job, s".to_owned(),
        ]);
        let schedulers = four();
        for (point, runs) in self.points.iter().zip(runs) {
            table.push(vec![
                Cell::text(point.subject.name),
                Cell::Number(point.jobs as f64, 0),
                Cell::text(schedulers[point.scheduler].name()),
                Cell::Spread(spread(runs, |run| value(&run.looped)), digits),
                Cell::Spread(spread(runs, |run| value(&run.alone)), digits),
                Cell::Spread(spread(runs, |run| run.looped.last), 1),
            ]);
        }
        table
    }

    fn circuits(&self, runs: &[&[Both]]) -> Figure {
        Figure {
            id: "figure6".to_owned(),
            title: "Figure 6: reconfigured connections on the testbed".to_owned(),
            notes: vec![
                format!(
                    "Two racks with 4 GPUs each, two racks for parameter servers, 8 optical ports in \
                     each rack. One job arrives per second on average, with 2 or 4 workers, and waits \
                     for GPUs. It has {} iterations. The control loop runs with packets; its rates \
                     and times are {SCALE} of the testbed's.",
                    self.iterations
                ),
                "Paper: INC-TW has the fewest, then noINC-TW, then INC-FCFS. INC sets up 48.8 % fewer \
                 on average, and TW 47.5 % fewer."
                    .to_owned(),
            ],
            table: self.table("new circuits", 1, runs, |run| run.circuits),
            charts: SUBJECTS
                .map(|subject| {
                    let title = format!("Figure 6: new circuits, {}", subject.name);
                    self.chart(title, "new circuits", runs, subject, |run| run.circuits)
                })
                .to_vec(),
        }
    }

    fn total(&self, runs: &[&[Both]]) -> Figure {
        Figure {
            id: "figure7".to_owned(),
            title: "Figure 7: total JCT on the testbed".to_owned(),
            notes: vec![
                "The total is over all jobs, from arrival to end. Runs as in figure 6.".to_owned(),
            ],
            table: self.table("total JCT, s", 0, runs, |run| run.jct),
            charts: SUBJECTS
                .map(|subject| {
                    let title = format!("Figure 7: total JCT, {}", subject.name);
                    self.chart(title, "total JCT, s", runs, subject, |run| run.jct)
                })
                .to_vec(),
        }
    }

    /// The paper's average changes beside ours.
    fn claims(&self, runs: &[&[Both]]) -> Figure {
        let mut table = Table::new([
            "model",
            "scheduler",
            "compared with",
            "total JCT, %",
            "schedulers alone, %",
            "paper, %",
            "new circuits, %",
            "the ratio rests on",
        ]);
        for (at, subject) in SUBJECTS.into_iter().enumerate() {
            for &Total { one, other, less, .. } in &TOTALS {
                // The mean over numbers of jobs of the relative change.
                let change = |value: &dyn Fn(&Both) -> f64| {
                    let mean = |jobs, name| spread(self.of(runs, subject, jobs, name), value).mean;
                    let counts = self.counts().into_iter();
                    let changes: Vec<f64> = counts
                        .map(|jobs| 100.0 * (mean(jobs, one) / mean(jobs, other) - 1.0))
                        // Without circuits on both sides there is no ratio.
                        .filter(|change| change.is_finite())
                        .collect();
                    if changes.is_empty() {
                        return Cell::None;
                    }
                    Cell::Number(Spread::of(&changes).mean, 1)
                };
                let set_up = |name| {
                    let counts = self.counts();
                    let mean = |jobs: &usize| {
                        spread(self.of(runs, subject, *jobs, name), |run| run.looped.circuits).mean
                    };
                    counts.iter().map(mean).sum::<f64>() / counts.len() as f64
                };
                table.push(vec![
                    Cell::text(subject.name),
                    Cell::text(one),
                    Cell::text(other),
                    change(&|run| run.looped.jct),
                    change(&|run| run.alone.jct),
                    Cell::Number(-less[at], 1),
                    change(&|run| run.looped.circuits),
                    Cell::text(evidence::rests_on(set_up(one), set_up(other))),
                ]);
            }
        }
        Figure {
            id: "figure7-claims".to_owned(),
            title: "Figures 6 and 7: average changes".to_owned(),
            notes: Vec::new(),
            table,
            charts: Vec::new(),
        }
    }

    fn variation(&self, variation: &Variation, runs: &[Queued], seeds: usize) -> Figure {
        let Variation { id, title, x, variants, schedulers, note } = variation;
        let mut table = Table::new([x, "scheduler", "new circuits", "total JCT, s"]);
        for (cell, runs) in runs.chunks(seeds).enumerate() {
            let value = variants[cell / schedulers.len()].0;
            let digits = if variants.iter().all(|(value, _)| value.fract() == 0.0) { 0 } else { 2 };
            table.push(vec![
                Cell::Number(value, digits),
                Cell::text(schedulers[cell % schedulers.len()].name()),
                Cell::Spread(spread(runs, |run| run.circuits), 1),
                Cell::Spread(spread(runs, |run| run.jct), 0),
            ]);
        }
        let who = format!("{} jobs with VGG16, by the schedulers alone.", self.most);
        Figure {
            id: (*id).to_owned(),
            title: (*title).to_owned(),
            notes: vec![(*note).to_owned(), who],
            table,
            charts: Vec::new(),
        }
    }
}

/// A seed of a point.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Both {
    looped: Queued,
    alone: Queued,
}

fn spread<T>(runs: &[T], value: impl Fn(&T) -> f64) -> Spread {
    Spread::of(&runs.iter().map(value).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The loop decides as the schedulers do, and a transfer ends with its slot or a little after it.
    #[test]
    fn the_control_loop_agrees_with_the_schedulers_alone() {
        for (subject, iterations) in [(SUBJECTS[0], 4), (SUBJECTS[1], 2)] {
            let testbed = Testbed { iterations, ..Testbed::new(subject.bits) };
            let requests = testbed.requests(8, 3).unwrap();
            for scheduler in four() {
                let (alone, placed) = by_slots(&testbed, &requests, &*scheduler).unwrap();
                let looped = by_packets(&testbed, &requests, &placed, scheduler.name()).unwrap();
                let context = format!("{} {alone:?} {looped:?}", scheduler.name());
                let fcfs = scheduler.name().ends_with("FCFS");
                if fcfs {
                    assert!((looped.jct / alone.jct - 1.0).abs() < 0.03, "{context}");
                }
                // The first iteration of a job of TW ends a round trip after its slot, and so costs
                // another one.
                let more = f64::from(iterations + 1) / f64::from(iterations);
                assert!(looped.jct < 1.03 * more * alone.jct, "{context}");
                assert!((looped.circuits - alone.circuits).abs() <= 2.0, "{context}");
            }
        }
    }

    #[test]
    fn a_testbed_that_no_job_file_can_describe_is_an_error() {
        let testbed = Testbed { iterations: 1, ..Testbed::new(SUBJECTS[0].bits) };
        let requests = testbed.requests(1, 0).unwrap();
        let (_, placed) = by_slots(&testbed, &requests, &Fcfs::new(false)).unwrap();
        let slotless = Testbed { slot: 0.0, ..testbed };
        let refused = by_packets(&slotless, &requests, &placed, "INC-TW").unwrap_err().to_string();
        assert!(refused.contains("slot"), "{refused}");
    }
}
