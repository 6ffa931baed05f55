//! Our all-reduce beside OpenMPI's and Gloo's, in turns, over network namespaces.
//!
//! A measurement is one run of one contender: its processes start, warm up, and then sum one tensor
//! again and again for about a second. Goodput is the bits of a worker's tensor divided by the
//! seconds of an all-reduce, at the slowest worker. Processor time is that of the run's processes
//! in user and kernel mode, divided by the bytes of a worker's tensors that were summed. Of workers
//! and ranks it is the time inside all-reduces; of our switch and parameter server, all after the
//! warm-up. Kernel threads, and processes that only start others, are not in it.
//!
//! Every value of a sum is compared at one worker: the workers, or ranks, have a share each.

mod binding;
mod gloo;
mod network;
mod openmpi;
mod ours;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use tributary_base::decimal_size;
use tributary_run::report::table;

use super::Spread;
use super::runs::Output;
use crate::bench::Args;

use binding::Binding;
use gloo::Gloo;
use openmpi::OpenMpi;
use ours::Ours;

/// About how long a contender sums, in seconds.
const SECONDS: f64 = 1.0;

/// The same for the pass that finds a peer's best setting.
const CALIBRATION_SECONDS: f64 = 0.3;

/// An all-reduce to measure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Case {
    mtu: u32,
    workers: u32,
    tensor_bytes: u64,
}

impl Case {
    fn elements(self) -> u64 {
        self.tensor_bytes / 4
    }
}

/// What the programs of a run report about their measured part.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
struct Took {
    /// Number of all-reduces.
    rounds: u64,
    /// Seconds of all of them, at the slowest worker.
    seconds: f64,
    /// Processor seconds of all processes.
    processor: f64,
}

impl Took {
    /// Reads the line of JSON that a program printed last.
    fn parse(output: &str) -> Result<Self> {
        let line = output.lines().rfind(|line| line.starts_with('{'));
        let line = line.context("it printed no result")?;
        let took: Self = serde_json::from_str(line)
            .with_context(|| format!("it printed an unknown result: {line}"))?;
        if took.rounds == 0 || !took.seconds.is_finite() || took.seconds <= 0.0 {
            bail!("it printed a result without rounds or time: {line}");
        }
        Ok(took)
    }

    /// Combines the reports of ranks that each printed their own.
    fn of_ranks(ranks: &[Self]) -> Result<Self> {
        let first = ranks.first().context("there are no ranks")?;
        if ranks.iter().any(|rank| rank.rounds != first.rounds) {
            bail!("the ranks report different numbers of rounds");
        }
        Ok(Self {
            rounds: first.rounds,
            seconds: ranks.iter().map(|rank| rank.seconds).fold(0.0, f64::max),
            processor: ranks.iter().map(|rank| rank.processor).sum(),
        })
    }

    fn per_round(&self) -> f64 {
        self.seconds / self.rounds as f64
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Measured {
    rounds: u64,
    /// Gb/s of a worker's tensor.
    gbps: f64,
    /// Processor seconds per GB of a worker's tensors.
    processor_per_gb: f64,
}

impl Measured {
    fn new(case: Case, took: Took) -> Self {
        let summed = case.tensor_bytes as f64 * took.rounds as f64;
        Self {
            rounds: took.rounds,
            gbps: 8e-9 * summed / took.seconds,
            processor_per_gb: 1e9 * took.processor / summed,
        }
    }
}

/// A contender in a case.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    case: Case,
    contender: String,
    runs: Vec<Measured>,
    /// Why it was not measured, or not as often as the others.
    failure: Option<String>,
}

/// One that sums.
enum Contender {
    Ours(Ours),
    OpenMpi(OpenMpi),
    Gloo(Gloo),
}

impl Contender {
    /// Refuses a case that this machine cannot run.
    fn check(&self, case: Case) -> Result<()> {
        match self {
            Self::Ours(ours) => ours.check_memory(case),
            Self::OpenMpi(_) | Self::Gloo(_) => Ok(()),
        }
    }

    /// Whether its failure ends the measurement.
    fn must_succeed(&self) -> bool {
        matches!(self, Self::Ours(_))
    }

    /// How many steps of the progress bar its preparation for a case takes.
    fn preparations(&self) -> u64 {
        match self {
            Self::Ours(_) => 1,
            Self::OpenMpi(_) => {
                openmpi::settings().len() as u64 + openmpi::Setting::default().bound().len() as u64
            }
            Self::Gloo(_) => Binding::ALL.len() as u64,
        }
    }

    /// Prepares it for a case, and counts its steps.
    fn prepare(&self, case: Case, stop: &AtomicBool, bar: &ProgressBar) -> Result<Ready<'_>> {
        Ok(match self {
            Self::Ours(ours) => {
                let seconds = ours.estimate(case, stop)?;
                bar.inc(1);
                Ready::Ours(ours, seconds)
            }
            Self::OpenMpi(mpi) => {
                let mut best = Best::default();
                let measure = |setting| mpi.measure(case, setting, CALIBRATION_SECONDS, stop);
                best.try_all(&openmpi::settings(), measure, stop, bar)?;
                let bound = best.so_far().unwrap_or_default().bound();
                best.try_all(&bound, measure, stop, bar)?;
                Ready::OpenMpi(mpi, best.found()?)
            }
            Self::Gloo(gloo) => {
                let mut best = Best::default();
                let measure = |binding| gloo.measure(case, binding, CALIBRATION_SECONDS, stop);
                best.try_all(&Binding::ALL, measure, stop, bar)?;
                Ready::Gloo(gloo, best.found()?)
            }
        })
    }

    fn name(&self) -> String {
        match self {
            Self::Ours(ours) => ours.name(),
            Self::OpenMpi(_) => "OpenMPI".to_owned(),
            Self::Gloo(_) => "Gloo".to_owned(),
        }
    }
}

/// A contender that is prepared for a case.
enum Ready<'a> {
    /// With the estimated seconds of an all-reduce.
    Ours(&'a Ours, f64),
    OpenMpi(&'a OpenMpi, openmpi::Setting),
    Gloo(&'a Gloo, Binding),
}

impl Ready<'_> {
    fn name(&self) -> String {
        match self {
            Self::Ours(ours, _) => ours.name(),
            Self::OpenMpi(_, setting) => format!("OpenMPI, {setting}"),
            Self::Gloo(_, binding) => format!("Gloo{binding}"),
        }
    }

    fn measure(&self, case: Case, seed: u32, stop: &AtomicBool) -> Result<Took> {
        match self {
            Self::Ours(ours, seconds) => ours.measure(case, *seconds, seed, stop),
            Self::OpenMpi(mpi, setting) => mpi.measure(case, *setting, SECONDS, stop),
            Self::Gloo(gloo, binding) => gloo.measure(case, *binding, SECONDS, stop),
        }
    }
}

/// The setting of a peer with the shortest all-reduce.
struct Best<S> {
    least: Option<(S, f64)>,
    /// The first failure.
    failure: Option<anyhow::Error>,
}

impl<S> Default for Best<S> {
    fn default() -> Self {
        Self { least: None, failure: None }
    }
}

impl<S: Copy> Best<S> {
    /// Measures settings.
    ///
    /// # Errors
    /// If `stop` is raised.
    fn try_all(
        &mut self,
        settings: &[S],
        measure: impl Fn(S) -> Result<Took>,
        stop: &AtomicBool,
        bar: &ProgressBar,
    ) -> Result<()> {
        for setting in settings {
            let took = measure(*setting);
            refuse_stop(stop)?;
            self.add(*setting, took.map(|took| took.per_round()));
            bar.inc(1);
        }
        Ok(())
    }

    /// Takes the seconds of an all-reduce. Of equal settings, the first is the best.
    fn add(&mut self, setting: S, seconds: Result<f64>) {
        match seconds {
            Ok(seconds) if self.least.as_ref().is_none_or(|(_, least)| seconds < *least) => {
                self.least = Some((setting, seconds));
            }
            Ok(_) => {}
            Err(error) => self.failure = self.failure.take().or(Some(error)),
        }
    }

    fn so_far(&self) -> Option<S> {
        self.least.as_ref().map(|(setting, _)| *setting)
    }

    /// The best setting.
    ///
    /// # Errors
    /// The first failure, if every setting failed.
    fn found(self) -> Result<S> {
        match (self.so_far(), self.failure) {
            (Some(setting), _) => Ok(setting),
            (None, Some(error)) => Err(error),
            (None, None) => bail!("no setting was tried"),
        }
    }
}

fn refuse_stop(stop: &AtomicBool) -> Result<()> {
    if stop.load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    Ok(())
}

/// Measures all contenders and prints a table for each MTU.
///
/// # Errors
/// If our all-reduce fails, namespaces cannot be created, or `stop` is raised. Failures of peers are
/// lines below the table.
pub(super) fn run(args: &Args, stop: &AtomicBool) -> Result<()> {
    let output = Output::open(args)?;
    let or = |given: &[u32], default: &[u32]| -> Vec<u32> {
        if given.is_empty() { default.to_vec() } else { given.to_vec() }
    };
    let peers = &args.peers;
    let workers = or(&peers.workers, if args.quick { &[2, 4] } else { &[2, 4, 8] });
    let sizes = match (&peers.sizes[..], args.quick) {
        ([], true) => vec![64 << 10, 4 << 20],
        ([], false) => vec![64 << 10, 1 << 20, 4 << 20, 64 << 20, 256 << 20],
        (sizes, _) => sizes.to_vec(),
    };
    let directory = tempfile::tempdir().context("cannot make a directory for programs")?;
    let mut others = Vec::new();
    match OpenMpi::prepare(directory.path()) {
        Ok(mpi) => others.push(Contender::OpenMpi(mpi)),
        Err(reason) => println!("OpenMPI is left out: {reason}"),
    }
    match Gloo::prepare(directory.path(), &peers.python) {
        Ok(gloo) => others.push(Contender::Gloo(gloo)),
        Err(reason) => println!("Gloo is left out: {reason}"),
    }
    println!(
        "\nAll-reduce in network namespaces, --io {}: median (range) of {} runs of about {SECONDS} s. \
         Processor time in s per GB of a worker's tensors.",
        peers.io, args.repeat
    );
    let mut all = Vec::new();
    for mtu in or(&peers.mtu, &[1_500, 9_000]) {
        let ours = ours::settings(mtu, peers.io).into_iter().map(Contender::Ours);
        let mut contenders: Vec<Contender> = ours.collect();
        // The peers do not depend on the MTU, so they move from one to the next.
        contenders.append(&mut others);
        let cases: Vec<Case> = workers
            .iter()
            .flat_map(|&workers| {
                sizes.iter().map(move |&tensor_bytes| Case { mtu, workers, tensor_bytes })
            })
            .collect();
        let rows = measure(&contenders, &cases, args.repeat, stop)?;
        print(mtu, &rows);
        all.extend(rows);
        others = contenders.into_iter().filter(|one| !matches!(one, Contender::Ours(_))).collect();
    }
    output.write(&all)
}

fn measure(
    contenders: &[Contender],
    cases: &[Case],
    repeat: u32,
    stop: &AtomicBool,
) -> Result<Vec<Row>> {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}  {elapsed_precise}")
        .expect("a valid template");
    let steps: u64 =
        contenders.iter().map(|contender| contender.preparations() + u64::from(repeat)).sum();
    let bar = ProgressBar::new(steps * cases.len() as u64).with_style(style);
    let mut rows = Vec::new();
    for (number, &case) in cases.iter().enumerate() {
        bar.set_position(steps * number as u64);
        let message = |name: String| {
            let Case { mtu, workers, tensor_bytes } = case;
            bar.set_message(format!(
                "MTU {mtu}, {workers} workers, {}, {name}",
                decimal_size(tensor_bytes)
            ));
        };
        let mut turns = Vec::new();
        for contender in contenders {
            message(contender.name());
            let mut row =
                Row { case, contender: contender.name(), runs: Vec::new(), failure: None };
            let ready = match contender.check(case) {
                Ok(()) => match contender.prepare(case, stop, &bar) {
                    Err(error) if contender.must_succeed() => {
                        refuse_stop(stop)?;
                        return Err(row.error(error));
                    }
                    ready => ready,
                },
                Err(error) => Err(error),
            };
            refuse_stop(stop)?;
            match ready {
                Ok(ready) => {
                    row.contender = ready.name();
                    turns.push((contender, ready, rows.len()));
                }
                Err(error) => row.fail(&error),
            }
            rows.push(row);
        }
        for repetition in 1..=repeat {
            for (contender, ready, row) in &turns {
                let row = &mut rows[*row];
                message(row.contender.clone());
                let took = ready.measure(case, repetition, stop);
                refuse_stop(stop)?;
                match took {
                    Ok(took) => row.runs.push(Measured::new(case, took)),
                    Err(error) if contender.must_succeed() => return Err(row.error(error)),
                    Err(error) => row.fail(&error),
                }
                bar.inc(1);
            }
            // Each repetition begins with another contender.
            if !turns.is_empty() {
                turns.rotate_left(1);
            }
        }
    }
    bar.finish_and_clear();
    Ok(rows)
}

impl Row {
    fn fail(&mut self, error: &anyhow::Error) {
        let line = tributary_base::one_line(error.as_ref());
        self.failure.get_or_insert(line);
    }

    /// An error that names the contender and the case.
    fn error(&self, error: anyhow::Error) -> anyhow::Error {
        error.context(self.title())
    }

    fn title(&self) -> String {
        let Case { workers, tensor_bytes, .. } = self.case;
        format!("{}, {workers} workers, {}", self.contender, decimal_size(tensor_bytes))
    }
}

fn print(mtu: u32, rows: &[Row]) {
    let mut table = table(&["workers", "tensor", "all-reduce", "Gb/s", "processor s per GB"]);
    if let Some(column) = table.column_mut(2) {
        column.set_cell_alignment(comfy_table::CellAlignment::Left);
    }
    for Row { case, contender, runs, .. } in rows {
        let spread = |of: fn(&Measured) -> f64, digits| match &runs[..] {
            [] => "–".to_owned(),
            runs => Spread::of(runs.iter().map(of).collect()).text(digits),
        };
        table.add_row([
            case.workers.to_string(),
            decimal_size(case.tensor_bytes),
            contender.clone(),
            spread(|run| run.gbps, 2),
            spread(|run| run.processor_per_gb, 2),
        ]);
    }
    println!("\nMTU {mtu}:\n{table}");
    for row in rows {
        if let Some(failure) = &row.failure {
            println!(
                "{}: {} of its runs succeeded; the first failure: {failure}",
                row.title(),
                row.runs.len()
            );
        }
    }
}

/// Writes a program's source.
fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASE: Case = Case { mtu: 1_500, workers: 2, tensor_bytes: 1_000_000 };

    #[test]
    fn a_result_is_the_last_line_of_json() {
        let output = "warning\n{\"rounds\": 4, \"seconds\": 0.5, \"processor\": 0.8}\nbye\n";
        let took = Took::parse(output).unwrap();
        assert_eq!(took, Took { rounds: 4, seconds: 0.5, processor: 0.8 });
        let measured = Measured::new(CASE, took);
        assert_eq!((measured.rounds, measured.gbps), (4, 0.064));
        assert!((measured.processor_per_gb - 200.0).abs() < 1e-9);
    }

    #[test]
    fn other_output_is_refused() {
        for (output, reason) in [
            ("", "it printed no result"),
            ("no JSON\n", "it printed no result"),
            ("{\"rounds\": 4}", "it printed an unknown result"),
            ("{\"rounds\": -1, \"seconds\": 1, \"processor\": 1}", "it printed an unknown result"),
            ("{\"rounds\": 0, \"seconds\": 1, \"processor\": 1}", "without rounds or time"),
            ("{\"rounds\": 3, \"seconds\": 0, \"processor\": 1}", "without rounds or time"),
        ] {
            let error = Took::parse(output).unwrap_err().to_string();
            assert!(error.contains(reason), "{output:?}: {error}");
        }
    }

    #[test]
    fn the_shortest_all_reduce_wins() {
        let best = |tried: Vec<Result<f64>>| {
            let mut best = Best::default();
            tried.into_iter().enumerate().for_each(|(setting, took)| best.add(setting, took));
            best.found()
        };
        let failed = |why| Err(anyhow::anyhow!("{why}"));
        assert_eq!(best(vec![Ok(2.0), failed("hung"), Ok(1.0)]).unwrap(), 2);
        assert_eq!(best(vec![Ok(1.0), Ok(1.0)]).unwrap(), 0, "the first of equal ones");
        let error = best(vec![failed("one"), failed("two")]).unwrap_err();
        assert_eq!(error.to_string(), "one");
    }

    #[test]
    fn the_slowest_rank_counts_and_processor_times_add_up() {
        let rank = |rounds, seconds, processor| Took { rounds, seconds, processor };
        let ranks = [rank(3, 1.0, 0.5), rank(3, 1.5, 0.25), rank(3, 1.25, 0.25)];
        assert_eq!(Took::of_ranks(&ranks).unwrap(), rank(3, 1.5, 1.0));
        assert!(Took::of_ranks(&[rank(3, 1.0, 0.5), rank(4, 1.0, 0.5)]).is_err());
        assert!(Took::of_ranks(&[]).is_err());
    }
}
