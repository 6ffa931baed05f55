//! `tributary run`: a job file from start to report.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use tributary_base::OutputFile;
use tributary_metrics::Metrics;
use tributary_model::Scenario;
use tributary_run::Options;
use tributary_run::capture::Capture;
use tributary_run::run::Observer;
use tributary_sim::{Chart, Trace};

use super::frames::Chosen;
use super::watch::View;
use crate::args::RunArgs;
use crate::progress::Bars;
use tributary_base::program::stop_flag;

/// Rows of a chart. Viewers do not open images that are much longer.
const ROWS: usize = 1000;

/// Runs a job file and prints its report.
///
/// # Errors
/// One line that describes the problem; everything is cleaned up then.
pub(crate) fn run(args: &RunArgs, metrics: &Metrics) -> Result<()> {
    // Opened before the run, so that an error does not waste it.
    let json = Output::create("the report", args.json_out.as_deref())?;
    let trace = Output::create("the frames", args.frames.as_deref())?;
    let traced = trace.as_ref().is_some_and(|trace| trace.has_extension("pcapng"));
    ensure!(
        !traced || args.frames_of.is_none(),
        "--frames-of is for charts and text; choose in the program that shows the .pcapng"
    );
    ensure!(
        !traced || args.capture.is_none(),
        "--capture and --frames with a name in .pcapng are the same; leave one out"
    );
    let capture = match &args.capture {
        Some(directory) => Some(Capture::Directory(directory.clone())),
        None => traced.then_some(Capture::Memory),
    };
    let view = View::open(args.watch, args.terminal, args.record.as_deref())?;
    let options = Options {
        job_file: args.job_file.clone(),
        fabric: args.fabric,
        target: args.target,
        cross_connect: args.cross_connect,
        arch: args.arch,
        seed: args.seed,
        p4: args.p4.clone(),
        io: args
            .io
            .unwrap_or_else(|| Options::default_io(args.fabric, args.target, args.cross_connect)),
        engine: args.engine,
        pin: args.pin,
        switch_threads: args.switch_threads,
        trace: trace.is_some() && !traced,
        capture,
        watch: view.as_ref().map(|view| view.hub().clone()),
        processing: None,
        metrics: metrics.clone(),
    };
    let stop = stop_flag()?;
    let chosen = args.frames_of.clone().unwrap_or_default();
    let warnings = Vec::new();
    let mut screen = Screen { bars: None, quiet: args.terminal, warnings, trace, chosen };
    let report = match &view {
        None => tributary_run::run(&options, &stop, &mut screen)?,
        Some(view) => {
            view.beside(&stop, false, |stop| tributary_run::run(&options, stop, &mut screen))?
        }
    };
    screen.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    if let Some(json) = json {
        json.write_text(&serde_json::to_string_pretty(&report).expect("reports are plain data"))?;
    }
    tributary_base::program::print(&report.to_text())?;
    if let Some(view) = &view {
        view.linger(&stop);
    }
    report.capture.iter().try_for_each(|capture| capture.check())
}

/// A file for a part of the result.
struct Output {
    what: &'static str,
    path: PathBuf,
    file: OutputFile,
}

impl Output {
    fn create(what: &'static str, path: Option<&Path>) -> Result<Option<Self>> {
        let create = |path: &Path| {
            let file = OutputFile::create(path);
            let file =
                file.with_context(|| format!("cannot write {what} to {}", path.display()))?;
            Ok(Self { what, path: path.to_owned(), file })
        };
        path.map(create).transpose()
    }

    fn has_extension(&self, wanted: &str) -> bool {
        self.path.extension().is_some_and(|extension| extension == wanted)
    }

    /// Writes text, and the end of its last line.
    fn write_text(self, text: &str) -> Result<()> {
        self.write(&[text.as_bytes(), b"\n"])
    }

    fn write(self, parts: &[&[u8]]) -> Result<()> {
        let Self { what, path, mut file } = self;
        let written = parts.iter().try_for_each(|part| file.write_all(part));
        written
            .and_then(|()| file.finish())
            .with_context(|| format!("cannot write {what} to {}", path.display()))
    }
}

/// Shows the progress of a run.
struct Screen {
    bars: Option<Bars>,
    /// Whether the terminal shows something else.
    quiet: bool,
    /// Warnings that were not printed for that.
    warnings: Vec<String>,
    trace: Option<Output>,
    /// What of the trace is written.
    chosen: Chosen,
}

impl Observer for Screen {
    fn warn(&mut self, warning: &str) {
        let line = format!("warning: {warning}");
        match &self.bars {
            _ if self.quiet => self.warnings.push(warning.to_owned()),
            Some(bars) => bars.say(&line),
            None => eprintln!("{line}"),
        }
    }

    fn begin(&mut self, scenario: &Scenario) {
        self.bars = (!self.quiet).then(|| Bars::new(scenario));
    }

    fn round(&mut self, job: usize, worker: usize, done: u64, of: u64, note: Option<&str>) {
        if let Some(bars) = &mut self.bars {
            bars.round(job, worker, done, of, note);
        }
    }

    fn end(&mut self) {
        if let Some(bars) = &self.bars {
            bars.finish();
        }
    }

    fn trace(&mut self, scenario: &Scenario, trace: &Trace) -> Result<()> {
        let Some(output) = self.trace.take() else { return Ok(()) };
        let chosen;
        let trace = match self.chosen == Chosen::default() {
            true => trace,
            false => {
                chosen = self.chosen.of(scenario, trace)?;
                &chosen
            }
        };
        if output.has_extension("svg") {
            let mut chart = Chart::new(&scenario.name, &columns(scenario), trace);
            let left_out = chart.keep(ROWS);
            if left_out > 0 {
                self.warn(&format!(
                    "the chart has the first {ROWS} frames and messages, and lacks {left_out}: choose others with \
                     --frames-of"
                ));
            }
            output.write_text(chart.to_svg().trim_end())
        } else {
            output.write_text(trace.to_string().trim_end())
        }
    }

    fn capture(&mut self, capture: &[u8]) -> Result<()> {
        self.trace.take().map_or(Ok(()), |output| output.write(&[capture]))
    }
}

/// The columns of a chart: workers, then switches, then the other hosts.
fn columns(scenario: &Scenario) -> Vec<&str> {
    let topology = &scenario.network.topology;
    let is_worker = |name: &str| {
        let workers = scenario.jobs.iter().flat_map(|job| &job.workers);
        workers.into_iter().any(|&host| topology.host(host).name == name)
    };
    let hosts = || topology.hosts.iter().map(|host| host.name.as_str());
    let switches = topology.switches.iter().map(|switch| switch.name.as_str());
    let others = hosts().filter(|name| !is_worker(name));
    hosts().filter(|name| is_worker(name)).chain(switches).chain(others).collect()
}
